"""
Can I do all this without Python?
=================================

Yes. The command ``linrank`` trains, evaluates, compares, explains and exports rankers from files.
This page runs a few commands as you would run them in a shell, and shows what they print and draw.
"""

# %%
# Files in LETOR format
# ---------------------
# We need data first. :func:`linrank.write_letor` writes them in the format of SVMrank and of the
# LETOR data sets: label, query, features. ``linrank`` also reads Parquet, Arrow and CSV.
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from linrank import make_ranking, write_letor

plt.style.use("linrank.style")
folder = Path(tempfile.mkdtemp())
data = make_ranking(
    n_queries=150, docs_per_query=12, n_features=25, n_informative=6, correlation=0.9, noise=1.0,
    random_state=0,
)  # fmt: skip
for k, name in enumerate(("train", "vali", "test")):
    rows = np.flatnonzero((data.qid - 1) // 50 == k)  # 50 queries each
    write_letor(folder / f"{name}.txt", data.take(rows), decimals=3)
print((folder / "train.txt").read_text().splitlines()[0])


def shell(command):
    """Run a command of linrank in the folder, and print what it prints."""
    print(f"$ {command}")
    run = [sys.executable, "-m", *command.split()]
    found = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
    print(found.stdout)


# %%
# Train
# -----
# ``linrank train`` chooses ``C`` on the validation file and writes a model.
shell("linrank train train.txt --valid vali.txt --out model.json")

# %%
# A path with a picture
# ---------------------
# ``linrank path`` follows all values of ``C``. With the penalty l1 it selects features on the way.
# The plot has the metric and the weights along the path, and the metric against the number of
# features.
shell("linrank path train.txt --valid vali.txt --penalty l1 --plot path.png --out sparse.json")

fig, ax = plt.subplots(figsize=(7.5, 9))
ax.imshow(plt.imread(folder / "path.png"))
ax.axis("off")
plt.show()

# %%
# Compare and explain
# -------------------
# Is the sparse model as good as the full one on new queries? And why is one document above another?
shell("linrank compare model.json sparse.json --data test.txt")
shell("linrank explain sparse.json test.txt --query 101 --pair 1 2")

# %%
# What to read next
# -----------------
# - :doc:`../basics/plot_choose_c` does the same in Python.
# - :doc:`plot_export` exports a model; on the command line this is ``linrank export``.
# - ``linrank predict`` and ``linrank evaluate`` write and judge scores; ``linrank --help`` and
#   ``linrank train --help`` list all commands and options.
