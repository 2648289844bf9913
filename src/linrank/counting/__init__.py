"""Sums over the preference pairs of each query, as functions of the scores."""
