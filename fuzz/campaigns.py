from . import lines, damage, kills, interrupts, faults
CAMPAIGNS = {c.CAMPAIGN.name: c.CAMPAIGN for c in (lines, damage, kills, interrupts, faults)}
