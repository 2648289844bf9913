"""Randomised tests of linrank: damaged input, kills, full disks, random problems (`make fuzz`)."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# We test the sources of this tree, even if linrank is installed. The reference implementations
# are in tests/reference.py.
for _folder in ("tests", "src"):
    if str(ROOT / _folder) not in sys.path:
        sys.path.insert(0, str(ROOT / _folder))
os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
if "NUMBA_CACHE_DIR" in os.environ:  # commands run in other folders, so the path must be absolute
    os.environ["NUMBA_CACHE_DIR"] = str(Path(os.environ["NUMBA_CACHE_DIR"]).absolute())
