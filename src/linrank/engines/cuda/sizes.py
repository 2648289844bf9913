"""How much a thread block takes on. Kernels are compiled for these numbers."""

from __future__ import annotations

WARP = 32  #: threads that run together
THREADS = 128  #: of a block; a power of two
GROUP = 512  #: documents that a block holds in shared memory; a power of two
BLOCKS = 1024  #: of a launch, at most: sums are then the same on every card
SHARED_BYTES = 48 * 1024  #: shared memory that every card gives a block
MINSIZE = 64  #: numbers that are sorted without being parted (Jin & Lin 2014, §4)
PART_BYTES = 2**28  #: of X that are copied to the device at a time
