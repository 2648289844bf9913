"""Coverage-guided fuzzing of the reader and of model files with atheris.

``python -m fuzz.guided letor -max_total_time=300`` (or ``model``) takes libFuzzer's options.
atheris is not a dependency of the project; install it with ``pip install atheris``. The kernels run
as plain Python, because compiled code cannot be instrumented.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["linrank"]):
    from linrank import FileFormatError, LinearModel
    from linrank._util.files import temporary_folder
    from linrank.data.letor import check_options, read_source
    from linrank.data.source import MemoryContent, Source

    from .lines import WIDEST, difference, fast_data, slow_rows

SEEDS = {
    "letor": [
        b"2 qid:1 1:0.5 3:2 # docid = A\n0 qid:1 2:-1e-3\n",
        b"1 qid:a 1:.5 2:5. 3:+1 #B\r\n",
    ],
    "model": [],
}


def try_letor(text: bytes) -> None:
    """Check that linrank and the slow parser read the same documents, or both refuse the text."""
    rows = slow_rows(text, single=False)
    if rows and max(index for row in rows for index in row[2]) > WIDEST:
        return
    for form, chunk_bytes in (("dense", 1 << 20), ("csr", 7)):
        options = check_options(form=form, n_threads=1)
        source = Source("file.txt", MemoryContent(text or b"\n"))
        problem = difference(fast_data(read_source, source, options, chunk_bytes=chunk_bytes),
                             rows, False)  # fmt: skip
        assert problem is None, f"{problem}: {text!r}"


def try_model(path: Path, text: bytes) -> None:
    """Check that a file is a valid model, which can be saved again, or gives an error message."""
    path.write_bytes(text)
    try:
        model = LinearModel.load(path)
    except FileFormatError:
        return
    model.names()
    model.save(path)
    assert LinearModel.load(path).coef.tobytes() == model.coef.tobytes()


def main() -> None:
    # libFuzzer ends the process itself, so the next run of any campaign removes the folder.
    with temporary_folder(Path(tempfile.gettempdir()), 0o700) as folder:
        fuzz(folder, *sys.argv[1:])


def fuzz(folder: Path, what: str, *options: str) -> None:
    """Run atheris on one kind of file; the folder holds models and the initial corpus."""
    path, corpus = folder / "model.json", folder / "corpus"
    corpus.mkdir()
    LinearModel([1.0, -0.5], feature_names=["a", "b"], settings={"C": 1.0}).save(path)
    for number, seed in enumerate(
        [*SEEDS[what], *([path.read_bytes()] if what == "model" else [])]
    ):
        (corpus / str(number)).write_bytes(seed)
    trials = {"letor": try_letor, "model": partial(try_model, path)}
    atheris.Setup([sys.argv[0], str(corpus), *options], trials[what])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
