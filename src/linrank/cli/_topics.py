"""Collections with topics: ``train --topics``, and models with one weight vector per topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import about
from ._console import facts, show
from ._progress import progress

if TYPE_CHECKING:
    from .._typing import Vector
    from ..data.topics import TopicData
    from ..estimators.topics_model import TopicsModel
    from ..metrics import Evaluation, Metric
    from ..model import Model


def train_topics(
    method: str | None, train: Path, valid: Path | None, out: Path, options: dict[str, Any]
) -> None:
    """Train one ranker per topic of a collection, save the model, and report."""
    from ..data.topics import read_topics
    from ..estimators.topics import MultiTopicRanker
    from ..methods import make_ranker

    ranker = make_ranker(method or "domination")
    data = read_topics(train)
    topics = MultiTopicRanker(ranker, n_threads=options["threads"])
    with about(train), progress(f"training {len(data.topics)} topics"):
        model = topics.fit(data.X, data.Y).model_
    model.topics = data.topics
    model.save(out)
    n_docs, n_features = data.X.shape
    learnt = len(data.topics) - len(topics.skipped_topics_)
    rest = "" if learnt == len(data.topics) else "; the others have the same label everywhere"
    text = f"{train}: {n_docs:,} documents, {n_features:,} features"
    lines = [
        ("train", text),
        ("topics", f"{learnt:,} of {len(data.topics):,} learnt" + rest),
        ("method", " ".join(repr(ranker).split())),
        ("weights", f"{model.coef.nnz:,}, {topics.zero_weights_:.1%} are 0"),
    ]
    if valid is not None:
        held_out = read_topics(valid, n_features=n_features, topics=data.topics)
        found = topics.evaluate(held_out.X, held_out.Y, ("map", "p@10"))
        values = ", ".join(f"{name} {mean:.4f}" for name, mean in found.items())
        lines.append(("valid", f"{valid}: {values}"))
    show(facts([*lines, ("model", f"saved as {out}")]))


def has_topics(model: Model) -> bool:
    """Return whether a model has one weight vector per topic."""
    return model.format == "linrank-topics"


def score_topics(model: TopicsModel, path: Path) -> tuple[TopicData, Vector]:
    """Read documents with topics; return them and their scores for each topic of the model."""
    from ..data.topics import read_topics

    data = read_topics(path, n_features=model.n_features, topics=model.topics)
    with about(path), progress("scoring"):
        return data, model.predict(data.X)


def measure_topics(model: TopicsModel, path: Path, metrics: list[Metric]) -> Evaluation:
    """Evaluate a model on documents with topics; each topic is a query."""
    import numpy as np

    from ..estimators.topics import evaluate_topics

    data, scores = score_topics(model, path)
    skipped = model.training.get("skipped_topics", [])
    topics = np.setdiff1d(np.arange(len(model.topics)), skipped)
    return evaluate_topics(scores, data.Y, topics, metrics)
