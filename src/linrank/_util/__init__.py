"""Tools that know nothing of ranking: checks of arguments, files, threads, text, lazy imports."""
