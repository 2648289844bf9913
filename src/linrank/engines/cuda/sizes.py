"""Sizes of thread blocks and of their shared memory. Kernels are compiled for these numbers."""

from __future__ import annotations

WARP = 32  #: threads of a warp, which run together
THREADS = 128  #: threads of a block; a power of two
GROUP = 512  #: documents in the shared memory of a block, at most; a power of two
BLOCKS = 1024  #: blocks of a launch, at most; a fixed limit makes sums equal on all cards
SHARED_BYTES = 48 * 1024  #: bytes of shared memory of a block, which every card has
MINSIZE = 64  #: numbers that are sorted without a partition (Jin & Lin 2014, §4)
PART_BYTES = 2**28  #: bytes of X copied to the device at a time; more take more pinned memory
