"""The command line: it parses arguments, shows progress and prints; the library does the work.

Slow imports are made inside the commands, so that ``linrank --help`` is fast.
"""
