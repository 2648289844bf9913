"""Functions of the scores within a query."""
