"""The command line: arguments, progress and printing; the work is done by the library.

Nothing heavy is imported before a command runs, so that ``linrank --help`` is instant.
"""
