"""Write figures of the documentation into docs/figures: ``python -m benchmarks.figures NAME``.

Without names, all figures are written, which takes some hours. The figures of the study need
``LINRANK_DATA``, the folder with the LETOR 4.0 sets MQ2007 and MQ2008.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from linrank._util.parallel import resolve_threads

from .tools import machine

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "figures"
STUDY = (
    "--methods", "all,fsmrank:cost=ratio", "--metric", "map", "--flavour", "letor4",
    "--metrics", "ndcg@10,ndcg@5,p@10,mean-ndcg,pairwise-accuracy",
)  # fmt: skip


def run(*command: str) -> None:
    """Run Python in a process of its own."""
    subprocess.run([sys.executable, *command], check=True, cwd=ROOT)


def of_module(name: str) -> Callable[[Path, Path], None]:
    """Return a function that runs a program whose only plot is the figure."""
    return lambda path, work: run("-m", f"benchmarks.{name}", "--out", str(path))


def of_suite(section: str) -> Callable[[Path, Path], None]:
    """Return a function that runs a section of the suite, and takes its plot."""

    def write(path: Path, work: Path) -> None:
        run("-m", "benchmarks.suite", section, "--out", str(work))
        shutil.copyfile(work / f"{section}.svg", path)

    return write


def of_study(picture: str) -> Callable[[Path, Path], None]:
    """Return a function that runs the study of LETOR 4.0, and takes one of its pictures."""

    def write(path: Path, work: Path) -> None:
        data = Path(os.environ["LINRANK_DATA"])
        sets = [str(data / name) for name in ("MQ2008", "MQ2007")]
        run("-m", "linrank", "study", *sets, *STUDY, "--tables", str(work))
        shutil.copyfile(work / f"picture-{picture}.svg", path)

    return write


FIGURES: dict[str, Callable[[Path, Path], None]] = {
    "additive-curves": lambda path, work: run("tests/additive_samples.py", str(path)),
    "additive-recovery": of_module("additive_recovery"),
    "overview": of_module("overview"),
    "scaling": of_suite("scaling"),
    "study-ranks": of_study("ranks"),
    "tools": of_suite("tools"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="figure", help=", ".join(FIGURES))
    names = parser.parse_args().names or list(FIGURES)
    for name in names:
        if name not in FIGURES:
            parser.error(f"figure is {name!r}; known are {', '.join(FIGURES)}")
    print(machine(resolve_threads()), flush=True)
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            FIGURES[name](FOLDER / f"{name}.svg", Path(work))
        print(f"docs/figures/{name}.svg is written", flush=True)


if __name__ == "__main__":
    main()
