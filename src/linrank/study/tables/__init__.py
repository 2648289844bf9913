"""Tables of a study: quality and tests, sparsity and time, queries, settings and failures."""
