"""Build the packages, install them in clean environments, and use them there.

``make test-wheel`` tries the wheel that pip builds from the sources. ``make dist`` builds the sdist
(source distribution) and the wheel into ``dist``, checks their metadata, and tries both.

One environment is made for each interpreter that is found: the one that runs this script, those
named as arguments, ``python3.11``, ``python3.12``, … on the path, and those of
pyenv. Packages come from the index that pip is configured for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSIONS = range(11, 16)  # minor versions of Python 3 for which numba has wheels
QUIET = ("--quiet", "--disable-pip-version-check")
USE = """
import importlib.metadata
import linrank
for name in linrank.__all__:
    getattr(linrank, name)
assert linrank.__version__ == importlib.metadata.version("linrank") == {version!r}
data = linrank.make_ranking(n_queries=20, random_state=0)
ranker = linrank.RankSVM(C=0.01, scale="standard").fit(data.X, data.y, qid=data.qid)
ranker.model_.save("model.json")
assert (linrank.load_model("model.json").predict(data.X) == ranker.predict(data.X)).all()
from linrank.report.page import Page, render_page
assert len(render_page(Page("A page with its style and script", []))) > 10_000
assert not __import__("pathlib").Path(linrank.__file__).is_relative_to({root!r})
"""
#: Files without which a user cannot test, repeat or cite what the source distribution holds.
NEEDED = (
    "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md", "conftest.py",
    "docs/architecture.md", "pyproject.toml", "src/linrank/py.typed", "tests/reference.py",
)  # fmt: skip


def interpreters(named: list[str]) -> list[str]:
    """Return the interpreters to try: one for each minor version that works."""
    found: dict[str, str] = {}
    on_path = [f"python3.{minor}" for minor in VERSIONS]
    for name in [sys.executable, *named, *on_path, *pyenv_interpreters()]:
        path = shutil.which(name)
        code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
        done = subprocess.run([path or "false", "-c", code], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() not in found:
            found[done.stdout.strip()] = str(path)
    return list(found.values())


def pyenv_interpreters() -> list[str]:
    """Return the interpreters that pyenv has installed, whether it has activated them or not."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [path for minor in VERSIONS for path in versions.glob(f"3.{minor}.*/bin/python")]
    return list(map(str, found))


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree or of a source distribution."""
    command = [sys.executable, "-m", "pip", "wheel", *QUIET, "--no-deps", "--wheel-dir", folder]
    subprocess.run([*command, source], check=True)
    (wheel,) = folder.glob("linrank-*.whl")
    return wheel


def build_all(folder: Path) -> tuple[Path, Path]:
    """Build sdist and wheel into a folder, and check their metadata and what they hold."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    (sdist,), (wheel,) = folder.glob("linrank-*.tar.gz"), folder.glob("linrank-*.whl")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel], check=True)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in NEEDED if name not in names]
    assert not missing, f"{sdist.name} lacks {missing}"
    return sdist, wheel


def contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel with their checksums, but for the list of the files."""
    with ZipFile(wheel) as archive:
        return {i.filename: i.CRC for i in archive.infolist() if not i.filename.endswith("RECORD")}


def try_wheel(python: str, wheel: Path, folder: Path) -> None:
    """Install a wheel in a new environment, and use the library and the command there."""
    run = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
    run["env"] = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA"))}
    subprocess.run([python, "-m", "venv", "env"], **run)
    bin = folder / "env" / "bin"
    subprocess.run([bin / "python", "-m", "pip", "install", *QUIET, f"{wheel}[plot]"], **run)
    use = USE.format(root=str(ROOT), version=wheel.name.split("-")[1])
    subprocess.run([bin / "python", "-W", "error", "-c", use], **run)
    subprocess.run([bin / "linrank", "demo", "--dir", "demo"], **run)
    subprocess.run([bin / "python", "-m", "linrank", "evaluate", "demo/test.txt", "model.json",
                    "--help"], **run)  # fmt: skip


def main() -> None:
    """Build the packages and try them with all interpreters; the first failure ends the script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="further interpreters")
    parser.add_argument("--dist", action="store_true", help="build sdist and wheel into dist")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if arguments.dist:
            sdist, wheel = build_all(DIST)
            again = build_wheel(sdist, Path(made))
            assert contents(again) == contents(wheel), "the sdist builds another wheel"
            print(f"{sdist.name} builds the same wheel", flush=True)
        else:
            wheel = build_wheel(ROOT, Path(made))
        pythons = interpreters(arguments.pythons)
        for python in pythons:
            with tempfile.TemporaryDirectory() as folder:
                try_wheel(python, wheel, Path(folder))
            print(f"{wheel.name} works with {python}", flush=True)
    print(f"{len(pythons)} passed, 0 failed")


if __name__ == "__main__":
    main()
