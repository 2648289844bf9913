"""All campaigns by name."""

from __future__ import annotations

from . import (
    damage,
    faults,
    forks,
    frames,
    interrupts,
    kills,
    lines,
    models,
    objectives,
    problems,
    results,
    tables,
)

CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        lines.CAMPAIGN,
        frames.CAMPAIGN,
        tables.CAMPAIGN,
        damage.CAMPAIGN,
        models.CAMPAIGN,
        results.CAMPAIGN,
        forks.CAMPAIGN,
        kills.CAMPAIGN,
        interrupts.CAMPAIGN,
        faults.CAMPAIGN,
        problems.CAMPAIGN,
        objectives.CAMPAIGN,
    )
}
