"""Operations of sorting algorithms on a simulated graphics card, as JSON.

This program needs numba-cuda, and runs in a process of its own (`jin2014_sorting`). It reads the
lengths of sequences and the values of minsize as JSON. It counts comparisons, and rounds: barriers
at which the threads of a block wait for each other, and launches after the first.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from greenlet import getcurrent
from numba.cuda.simulator import kernelapi

import cuda_simulator
import twin_jin2014
from linrank import RankingData
from linrank.engines.cuda import device, device_kernels
from linrank.engines.cuda.device import empty, launch, to_device, zeros
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.papers import jin2014

counted: Counter[str] = Counter()
waits: Counter[int] = Counter()  #: by block


def count_operations() -> None:
    """Count the comparisons of nodes and the barriers of all kernels."""
    cuda_simulator.install()
    wait, compare = kernelapi.FakeCUDAModule.syncthreads, device.precedes.fn

    def count_wait(self: Any) -> None:
        waits[getcurrent().blockIdx.x] += 1
        wait(self)

    def count_comparison(*nodes: Any) -> bool:
        counted["comparisons"] += 1
        return bool(compare(*nodes))

    kernelapi.FakeCUDAModule.syncthreads = count_wait
    for module in (device, jin2014, device_kernels):
        module.precedes = count_comparison


def operations(sort: Callable[[], None], n_launches: int = 1) -> dict[str, float]:
    """Return the comparisons and rounds of a sort."""
    counted.clear()
    waits.clear()
    sort()
    rounds = max(waits.values()) // device.THREADS + n_launches - 1
    return {"comparisons": counted["comparisons"], "rounds": rounds}


def quicksort(values: np.ndarray, minsize: int) -> dict[str, float]:
    """Count the operations of Algorithm 3 for one sequence."""
    jin2014.MINSIZE = minsize  # the simulator reads it in every launch
    n = len(values)
    workset = to_device(np.array([[0, n]]), np.int64)
    d_pri = jin2014.Sequence(to_device(values), to_device(np.arange(n), np.int32))
    d_aux = jin2014.Sequence(empty(n), empty(n, np.int32))
    found = operations(lambda: launch(jin2014.gpu_quicksort, 1, workset, d_pri, d_aux))
    assert (d_pri.value.copy_to_host() == np.sort(values)).all()
    return found


def merge_sort(values: np.ndarray) -> dict[str, float]:
    """Count the operations of linrank's sort: blocks sort chunks, and the grid merges them."""
    n = len(values)
    data = RankingData(values[:, None], np.arange(n) % 2)
    engine = ThreadEngine(data, get_loss("squared_hinge"), None, 1, counting="tables")
    ours = device_kernels.GridPairs(engine.layout.plan, np.array([0]), to_device(values), zeros(n))
    ours.set_hinges(engine.hinges)
    n_merges = max(0, int(np.ceil(np.log2(n / device.GROUP))))
    found = operations(ours.sort, 1 + n_merges)
    assert (ours.state.keys.copy_to_host() == np.sort(values)).all()
    return found


def main() -> None:
    """Print the operations for each sequence and algorithm."""
    asked, rng, found = json.load(sys.stdin), np.random.default_rng(0), []
    count_operations()
    for n in asked["lengths"]:
        values = rng.standard_normal(n)
        kinds = {"random": values, "sorted": np.sort(values), "equal": np.zeros(n)}
        for kind, sequence in kinds.items():
            row = {"n": n, "values": kind}
            for minsize in asked["minsizes"]:
                counts = quicksort(sequence, minsize)
                found.append(row | {"name": f"GPU-quicksorting, minsize {minsize}"} | counts)
            found.append(row | {"name": "linrank's sort"} | merge_sort(sequence))
            divisions = twin_jin2014.quicksort_as_printed(sequence, 64, rng)
            found.append(row | {"name": "as printed, minsize 64", "divisions": divisions})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
