"""Ranked data: from text files, from stores, or generated."""
