"""
Which words belong to a topic?
==============================

A collection of texts has many topics, and each topic is a query over all texts. Few texts belong to
a topic. :class:`linrank.DominationRank` asks each of them to outscore all other texts together, and
its default penalty l1 keeps only the words that matter. :class:`linrank.MultiTopicRanker` learns
all topics at once.
"""

# %%
# A small newspaper
# -----------------
# We write 1,500 articles of 12 words. Most words are those that every article has. An article of a
# topic has a few of the words of this topic; some articles have two topics.
import matplotlib.pyplot as plt
import numpy as np

from linrank import DominationRank, MultiTopicRanker, RankSVM

plt.style.use("linrank.style")
TOPICS = {
    "football": ["goal", "striker", "league", "referee", "penalty"],
    "election": ["vote", "party", "poll", "senate", "campaign"],
    "weather": ["rain", "storm", "sunny", "wind", "degrees"],
    "cinema": ["film", "actor", "scene", "director", "premiere"],
    "science": ["study", "cell", "planet", "theory", "laboratory"],
    "markets": ["shares", "bank", "inflation", "profit", "trade"],
}
COMMON = ["the", "and", "new", "people", "today", "year", "said", "after", "city", "more", "first",
          "time", "world", "week", "report", "public", "big", "old", "night", "home"]  # fmt: skip
WORDS = [word for words in TOPICS.values() for word in words] + COMMON
rng = np.random.default_rng(0)


def write_articles(n):
    """Return counts of words and a matrix that says which topics an article has."""
    Y = rng.random((n, len(TOPICS))) < 0.06
    X = rng.poisson(0.35, (n, len(WORDS))).astype(float)
    X[:, : 5 * len(TOPICS)] *= rng.random((n, 5 * len(TOPICS))) < 0.12  # rare outside their topic
    for k in range(len(TOPICS)):
        X[:, 5 * k : 5 * k + 5] += Y[:, [k]] * rng.poisson(0.5, (n, 5))
    return X, Y.astype(int)


X, Y = write_articles(1500)
X_new, Y_new = write_articles(3000)
print(f"articles per topic: {dict(zip(TOPICS, Y.sum(axis=0).tolist(), strict=True))}")

# %%
# Learn all topics
# ----------------
# The loss of an article of the topic is log(1 + Σ exp(s − s_i)), with the sum over all articles
# that do not belong to the topic. One of them with a high score is enough to make it large.
# A smaller ``C`` keeps fewer words.
topics = MultiTopicRanker(DominationRank(C=3.0)).fit(X, Y)
weights = topics.coef_.toarray()
print(f"{topics.zero_weights_:.0%} of the weights are 0")
for name, value in topics.evaluate(X_new, Y_new, ["map", "p@10"]).items():
    print(f"{name} of new articles: {value:.3f}")

# %%
# The picture has one row per topic and one column per word. White cells are weights of exactly 0.
# The list of words was never told which of them belong together.
fig, ax = plt.subplots(figsize=(9.5, 3.4))
limit = np.abs(weights).max()
image = ax.imshow(weights, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
ax.set_xticks(range(len(WORDS)), WORDS, rotation=90, fontsize=7.5)
ax.set_yticks(range(len(TOPICS)), TOPICS)
ax.set(title="Weights of the words in each topic", xlabel="word", ylabel="topic")
ax.grid(visible=False)
fig.colorbar(image, ax=ax, label="weight", shrink=0.9)
plt.show()

own = np.array([weights[k, 5 * k : 5 * k + 5] for k in range(len(TOPICS))])
print(f"words of the topics with a positive weight: {(own > 0).sum()} of {own.size}")

# %%
# The head of the list
# --------------------
# Do so few words suffice? We compare the precision of the lists with that of a pairwise
# :class:`linrank.RankSVM`, whose penalty ½‖w‖² gives a weight to every word.
plain = MultiTopicRanker(RankSVM()).fit(X, Y)
cutoffs = [1, 2, 5, 10, 20, 50, 100, 200]
fig, ax = plt.subplots()
for name, ranker, style in (
    ("Domination Rank, few words", topics, "o-"), ("RankSVM, all words", plain, "s--")
):  # fmt: skip
    found = ranker.evaluate(X_new, Y_new, [f"p@{k}" for k in cutoffs])
    ax.semilogx(cutoffs, list(found.values()), style, markersize=4, label=name)
ax.set_xticks(cutoffs, cutoffs)
ax.minorticks_off()
ax.set(title="New articles of the topic among the first k")
ax.set(xlabel="k, length of the list (log scale)", ylabel="precision, mean of the topics")
ax.legend()
plt.show()

used = np.count_nonzero(weights, axis=1).mean()
print(f"words with a weight per topic: {used:.1f} of {len(WORDS)}")
for name, ranker in (("Domination Rank", topics), ("RankSVM", plain)):
    print(f"mean average precision of {name}: {ranker.evaluate(X_new, Y_new, ['map'])['map']:.3f}")

# %%
# What to read next
# -----------------
# - :doc:`../explaining/plot_sparse_path` follows the selection of features along ``C``.
# - :class:`linrank.DominationRank`, :class:`linrank.DominationRankCV` and
#   :class:`linrank.MultiTopicRanker` list all options.
