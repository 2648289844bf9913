"""
Can labels be real numbers, and queries huge?
=============================================

Yes. A label may be any real number, such as a price or a waiting time. Then nearly every two rows
of a query are a pair, so 100,000 rows have five billion pairs. :class:`linrank.RankSVM` never lists
them: it sorts scores and computes sums over pairs from running sums.
"""

# %%
# A target in euros
# -----------------
# We want to order flats by price, and we do not care about the price itself. All flats are in one
# query. The prices are skewed, as prices are.
import time

import matplotlib.pyplot as plt
import numpy as np

from linrank import RankSVM, kendall

plt.style.use("linrank.style")
rng = np.random.default_rng(0)


def make_flats(n):
    """Return features of flats and their prices."""
    X = rng.normal(size=(n, 8))
    signal = X @ [0.8, 0.5, -0.4, 0.3, 0.2, 0.0, 0.0, 0.0]
    return X, 200_000 * np.exp(signal + 0.4 * rng.normal(size=n))


X, price = make_flats(4000)
ranker = RankSVM().fit(X[:2000], price[:2000])
scores, truth = ranker.predict(X[2000:]), price[2000:]
print(f"{len(np.unique(price[:2000])):,} different labels, {ranker.n_pairs_:,} pairs")
print(f"Kendall's tau on new flats: {kendall(truth, scores):.3f}")

# %%
# Only the order of the labels matters
# ------------------------------------
# The logarithm of the prices has the same order, so it gives the same ranker. A regression of the
# prices would depend on a few expensive flats.
logarithm = RankSVM().fit(X[:2000], np.log(price[:2000]))
print("largest difference of the weights:", np.abs(logarithm.coef_ - ranker.coef_).max())

fig, ax = plt.subplots(figsize=(6, 4.2))
ax.semilogy(scores, truth, ".", markersize=3, alpha=0.5)
ax.set(
    title=f"New flats: the scores follow the prices (Kendall's tau {kendall(truth, scores):.2f})",
    xlabel="score",
    ylabel="price in euros (log scale)",
)
plt.show()

# %%
# The cost of more pairs
# ----------------------
# We let the query grow to 200,000 rows, which have twenty billion pairs. A list of the pairs would
# need 16 bytes for each of them; the right picture shows what that means. The seconds were measured
# when this page was built, so they differ from run to run.
sizes = [12_500, 25_000, 50_000, 100_000, 200_000]
seconds, n_pairs = [], []
for n in sizes:
    X, price = make_flats(n)
    for _ in range(2):  # the second fit is measured, because the first one loads compiled code
        start = time.perf_counter()
        fitted = RankSVM().fit(X, price)
        stop = time.perf_counter()
    seconds.append(stop - start)
    n_pairs.append(fitted.n_pairs_)
    print(f"{n:7,} rows, {fitted.n_pairs_:14,} pairs: {seconds[-1]:.2f} s")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
left.loglog(sizes, seconds, "o-", label="measured")
left.loglog(
    sizes, seconds[0] * np.array(sizes) / sizes[0], ":", color="#666666", label="linear in the rows"
)
quadratic = seconds[0] * (np.array(sizes) / sizes[0]) ** 2
left.loglog(sizes, quadratic, "--", color="C1", label="quadratic, as pairs are")
left.set(title="Time of one fit", xlabel="rows of the query", ylabel="seconds")
left.legend()
right.loglog(sizes, 16 * np.array(n_pairs) / 1e9, "s--", color="C1", label="list of all pairs")
right.loglog(sizes, 8 * 8 * np.array(sizes) / 1e9, "o-", label="the data themselves")
right.set(title="Memory", xlabel="rows of the query", ylabel="gigabytes")
right.legend()
for ax in (left, right):
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes], rotation=20)
    ax.minorticks_off()
plt.show()

growth = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
print(f"the time of these fits grew like rows^{growth:.2f}, the number of pairs like rows^2")

# %%
# What to read next
# -----------------
# - :doc:`plot_auc` has two labels instead of real numbers.
# - :doc:`../methods/plot_solvers` compares the algorithms that minimise the loss.
# - :class:`linrank.RankSVM` and :func:`linrank.kendall` list all options.
