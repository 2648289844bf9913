"""A fast simulator of graphics cards for tests and for counts of operations.

Threads are greenlets that switch at barriers, which is 100 times faster than numba's threads. The
order of the threads changes at each barrier, so that tests detect sums that depend on this order. A
thread that misses a barrier raises an error.
"""

from __future__ import annotations

import random
import sys

import numpy as np
from greenlet import getcurrent, greenlet
from numba.cuda.simulator import kernel, kernelapi


class SimulatedThread(greenlet):
    """A simulated thread of a block."""

    def __init__(self, function, block, place):
        super().__init__(function)
        self.blockIdx, self.threadIdx = kernelapi.Dim3(*block), kernelapi.Dim3(*place)


def run_block(self, block, *args):
    """Run the threads of a block from barrier to barrier."""
    if run_block.backwards:
        block = tuple(n - 1 - b for n, b in zip(self._grid_dim, block, strict=True))
    args = [as_numpy(arg) for arg in args]
    threads = [SimulatedThread(self._f, block, place) for place in np.ndindex(*self._block_dim)]
    order = random.Random(0)
    order.shuffle(threads)
    for thread in threads:
        thread.switch(*args)
    while not all(thread.dead for thread in threads):
        assert not any(thread.dead for thread in threads), "a thread never came to a barrier"
        order.shuffle(threads)
        for thread in threads:
            thread.switch()


run_block.backwards = False


def as_numpy(value):
    """Return the numpy array inside a simulated device array, which is slow to read."""
    if isinstance(value, kernel.FakeWithinKernelCUDAArray):
        return value._item._ary
    if isinstance(value, kernel.FakeCUDAArray):
        return value._ary
    if isinstance(value, tuple):
        parts = [as_numpy(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


class Swap:
    """Replace `cuda` by the simulated card in all modules with kernels during a launch.

    The simulator enters this context for a launch, and for each call of a device function within
    the launch. Only the first one replaces the modules.
    """

    launched = None

    def __init__(self, fn, fake):
        self.fake, self.first = fake, Swap.launched is None

    def __enter__(self):
        if self.first:
            homes = "linrank.engines.cuda.", "linrank.papers."
            names = [name for name in sys.modules if name.startswith(homes)]
            Swap.launched = [m for m in map(sys.modules.get, names) if hasattr(m, "cuda")]
            self.real = Swap.launched[0].cuda
            for module in Swap.launched:
                module.cuda = self.fake

    def __exit__(self, *error):
        if self.first:
            for module in Swap.launched:
                module.cuda = self.real
            Swap.launched = None


allocate = kernelapi.FakeCUDAShared.array


def allocate_by_line(self, shape, dtype, alignment=None):
    """Return one array per line that allocates; like shared memory, it starts with any values."""
    if isinstance(shape, int) and shape == 0:
        return allocate(self, shape, dtype)
    caller = sys._getframe(1)
    key = caller.f_code.co_filename, caller.f_lineno
    if key not in self._allocations:
        self._allocations[key] = np.full(shape, -77, kernelapi.numpy_support.as_dtype(dtype))
    return self._allocations[key]


def install():
    """Replace the threads of numba's simulator by greenlets."""
    kernel.swapped_cuda_module = Swap
    kernel.BlockManager.run = run_block
    kernelapi.FakeCUDAShared.array = allocate_by_line
    kernelapi.FakeCUDAModule.threadIdx = property(lambda self: getcurrent().threadIdx)
    kernelapi.FakeCUDAModule.blockIdx = property(lambda self: getcurrent().blockIdx)
    kernelapi.FakeCUDAModule.syncthreads = lambda self: getcurrent().parent.switch()
