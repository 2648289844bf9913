"""Randomised trials of linrank: hostile input, kills, full disks, random problems (`make fuzz`)."""
