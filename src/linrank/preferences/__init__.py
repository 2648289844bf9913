"""Preference models: votes between two items, and rankings, become strengths of the items."""
