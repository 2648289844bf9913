"""All campaigns by name."""

from __future__ import annotations

from . import damage, faults, frames, interrupts, kills, lines, problems, tables

CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        lines.CAMPAIGN,
        frames.CAMPAIGN,
        tables.CAMPAIGN,
        damage.CAMPAIGN,
        kills.CAMPAIGN,
        interrupts.CAMPAIGN,
        faults.CAMPAIGN,
        problems.CAMPAIGN,
        objectives.CAMPAIGN,
    )
}
