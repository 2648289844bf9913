"""All campaigns by name."""

from __future__ import annotations

from . import damage, faults, interrupts, kills, lines, objectives, problems

CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        lines.CAMPAIGN,
        damage.CAMPAIGN,
        kills.CAMPAIGN,
        interrupts.CAMPAIGN,
        faults.CAMPAIGN,
        problems.CAMPAIGN,
        objectives.CAMPAIGN,
    )
}
