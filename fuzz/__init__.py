"""Randomised trials of linrank: hostile input, kills, full disks, random problems (`make fuzz`)."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What is tried is this tree, whatever is installed; the slow twins are in tests/reference.py.
for _folder in ("tests", "src"):
    if str(ROOT / _folder) not in sys.path:
        sys.path.insert(0, str(ROOT / _folder))
os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
if "NUMBA_CACHE_DIR" in os.environ:  # commands run in other folders
    os.environ["NUMBA_CACHE_DIR"] = str(Path(os.environ["NUMBA_CACHE_DIR"]).absolute())
