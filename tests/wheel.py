"""Build the wheel, install it in clean environments, and use it there: ``make test-wheel``.

One environment is made for each interpreter that is found: the one that runs this script, those
named as arguments, and ``python3.11``, ``python3.12``, … on the path. Packages come from the index
that pip is configured for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = range(11, 16)  # minor versions of Python 3 for which numba has wheels
USE = """
import linrank
for name in linrank.__all__:
    getattr(linrank, name)
data = linrank.make_ranking(n_queries=20, random_state=0)
ranker = linrank.RankSVM(C=0.01, scale="standard").fit(data.X, data.y, qid=data.qid)
ranker.model_.save("model.json")
assert (linrank.load_model("model.json").predict(data.X) == ranker.predict(data.X)).all()
from linrank.report.page import Page, render_page
assert len(render_page(Page("A page with its style and script", []))) > 10_000
assert not __import__("pathlib").Path(linrank.__file__).is_relative_to({root!r})
"""


def interpreters(named: list[str]) -> list[str]:
    """Return the interpreters to try: one for each minor version that works."""
    found: dict[str, str] = {}
    for name in [sys.executable, *named, *(f"python3.{minor}" for minor in VERSIONS)]:
        path = shutil.which(name)
        code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
        done = subprocess.run([path or "false", "-c", code], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() not in found:
            found[done.stdout.strip()] = str(path)
    return list(found.values())


def try_wheel(python: str, wheel: Path, folder: Path) -> None:
    """Install a wheel in a new environment, and use the library and the command there."""
    run = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
    run["env"] = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA"))}
    subprocess.run([python, "-m", "venv", "env"], **run)
    bin = folder / "env" / "bin"
    quiet = "--quiet", "--disable-pip-version-check"
    subprocess.run([bin / "python", "-m", "pip", "install", *quiet, f"{wheel}[plot]"], **run)
    subprocess.run([bin / "python", "-W", "error", "-c", USE.format(root=str(ROOT))], **run)
    subprocess.run([bin / "linrank", "demo", "--dir", "demo"], **run)
    subprocess.run([bin / "python", "-m", "linrank", "evaluate", "demo/test.txt", "model.json",
                    "--help"], **run)  # fmt: skip


def main() -> None:
    """Build the wheel and try it with all interpreters; the first failure ends the script."""
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--wheel-dir",
                made,
                ROOT,
            ],
            check=True,
        )
        (wheel,) = Path(made).glob("linrank-*.whl")
        pythons = interpreters(sys.argv[1:])
        for python in pythons:
            with tempfile.TemporaryDirectory() as folder:
                try_wheel(python, wheel, Path(folder))
            print(f"{wheel.name} works with {python}", flush=True)
    print(f"{len(pythons)} passed, 0 failed")


if __name__ == "__main__":
    main()
