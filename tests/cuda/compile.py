"""Compile every kernel for one compute capability, and assemble it for cards of that generation.

In a process of its own, without the simulator and without a card: ``compile.py 8.0 < signatures``.
Prints a line for each kernel as JSON: its name, what the assembler says of registers, the stack,
spilled bytes and shared memory, and how much shared memory it may take.
"""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

from cuda.bindings import nvjitlink
from kernels import all_kernels, numba_type
from numba import cuda
from numba.cuda import dispatcher

from linrank.engines.cuda.device import SHARED_BYTES
from linrank.engines.cuda.device_kernels import FUSED_BYTES, ROW_BYTES

#: What kernels with a tile may take beside it.
ROOM = {
    "device_kernels.score_rows": ROW_BYTES,
    "device_kernels.add_rows": ROW_BYTES,
    "device_kernels.evaluate_groups": FUSED_BYTES[0],
    "device_kernels.curve_groups": FUSED_BYTES[1],
}


def assemble(ptx: str, architecture: str) -> dict[str, int]:
    """Return the registers and bytes that ptxas, a part of nvJitLink, reports for a kernel."""
    options = [f"-arch={architecture}", "-Xptxas=-v", "-verbose"]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx.encode(), len(ptx), "kernel")
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    nvjitlink.destroy(handle)
    numbers = {
        "registers": r"Used (\d+) registers",
        "stack": r"(\d+) bytes stack frame",
        "spilled": r"(\d+) bytes spill stores",
        "shared": r"(\d+) bytes smem",
    }
    said = log.decode(errors="replace")
    assert "Used" in said, said
    return {
        name: int(match.group(1)) if (match := re.search(pattern, said)) else 0
        for name, pattern in numbers.items()
    }


def main() -> None:
    """Compile them all."""
    major, minor = (int(part) for part in sys.argv[1].split("."))
    card = SimpleNamespace(compute_capability=(major, minor))
    dispatcher.get_current_device = lambda: card  # functions of the device are compiled for it
    signatures, kernels = json.load(sys.stdin), all_kernels()
    for name, kernel in kernels.items():
        for kinds in signatures[name]:
            types = tuple(numba_type(kind) for kind in kinds)
            bounds = kernel.targetoptions.get("launch_bounds")
            ptx, _ = cuda.compile_ptx(
                kernel.py_func, types, cc=(major, minor), launch_bounds=bounds
            )
            report = assemble(ptx, f"sm_{major}{minor}")
            room = ROOM.get(name.split("[")[0], SHARED_BYTES)
            line = {"kernel": name, **report, "room": room}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
