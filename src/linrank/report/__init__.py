"""Summaries and plots of data and results."""
