"""The memory limit of this process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit() -> int:
    """Return the bytes of memory of this machine, or the limit of a container or ``ulimit -v``."""
    limits = [2**63 - 1]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(OSError, ValueError):  # "max" means that there is no limit.
            limits.append(int(Path(file).read_text()))
    with suppress(ImportError, OSError):
        import resource

        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(limit for limit in limits if limit > 0)
