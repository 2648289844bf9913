"""Entry point of the program as a module: ``python -m linrank``."""

from ._start import main

if __name__ == "__main__":
    main()
