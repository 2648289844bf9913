"""Where the sums over all queries are computed."""
