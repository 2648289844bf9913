"""The tables and figures of the five papers, published and measured side by side: ``make papers``.

One module holds the sections of one paper: a function per table or figure, which returns a
`Section`. ``python -m benchmarks.papers lee2014 --quick`` runs one paper on small data.
"""
