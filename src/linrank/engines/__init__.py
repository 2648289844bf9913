"""Engines: the loss summed over all queries, as a function of the weights."""
