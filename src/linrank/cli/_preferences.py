"""The option --preferences: pairs of items instead of labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._text import count
from ..errors import DataError
from ._options import INPUT
from ._progress import progress
from ._trec import Judgements

if TYPE_CHECKING:
    from .._typing import Vector
    from ..data.ranking import RankingData
    from ..training import Trainer

PreferencesOption = Annotated[
    Path | None,
    typer.Option(
        "--preferences",
        metavar="FILE",
        help="Pairs of items instead of labels: lines with a preferred and another document id, "
        "and optionally a weight and a margin, as text or Parquet. Query ids are ignored.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]


def prefer(data: RankingData, path: Path, preferences: Path) -> RankingData:
    """Return data with the pairs of a file instead of labels; items are document ids."""
    from ..data.pairs import read_pairs
    from ..data.ranking import RankingData
    from ..data.trec import require_doc_ids

    with progress(f"reading {preferences}"):
        pairs = read_pairs(preferences)
        try:
            items = require_doc_ids(data)
        except DataError as error:
            raise DataError(f"--preferences: {path}: {error}") from None
        unknown = {*pairs.preferred, *pairs.other}.difference(items)
        if unknown:
            raise DataError(
                f"{preferences}: no document of {path} has the id {min(unknown)!r}. Add the "
                "document, or remove the pairs with this id"
            )
        try:
            preferred = RankingData.from_pairs(
                data.X, pairs, feature_names=data.feature_names, items=items,
                allow_missing=data.has_missing,
            )  # fmt: skip
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
    return preferred.replace(index_base=data.index_base)


class Labels:
    """Labels of training data: their own, those of --qrels, or the pairs of --preferences.

    Attributes
    ----------
    trainers : list of Trainer
        The given trainers. With pairs, they choose C by the accuracy on pairs.
    """

    def __init__(
        self, qrels: Path | None, preferences: Path | None, trainers: list[Trainer]
    ) -> None:
        from ..criterion import Criterion, PairCriterion

        self.preferences, self.trainers = preferences, trainers
        self._judgements = Judgements(qrels)
        if preferences is not None:
            chosen = trainers[0].criterion
            if chosen.metric not in (Criterion.metric, PairCriterion.metric):
                raise typer.BadParameter(
                    "--preferences chooses C by the accuracy on pairs. Leave out --metric."
                )
            criterion = PairCriterion(rule=chosen.rule)
            self.trainers = [replace(trainer, criterion=criterion) for trainer in trainers]

    def apply(self, data: RankingData, path: Path) -> RankingData:
        """Return data with the labels or pairs."""
        data = self._judgements.apply(data, path)
        return data if self.preferences is None else prefer(data, path, self.preferences)

    def lines(self) -> list[tuple[str, str]]:
        """Return lines of a report."""
        given = [] if self.preferences is None else [("preferences", str(self.preferences))]
        return self._judgements.lines() + given

    def json(self) -> dict[str, Any]:
        """Return the content of `lines` as entries of JSON."""
        given = {} if self.preferences is None else {"preferences": str(self.preferences)}
        return self._judgements.json() | given


def evaluate_pairs(
    data: RankingData, scores: Vector, path: Path, preferences: Path
) -> dict[str, Any]:
    """Return the accuracy of scores, which are in the row order of `data`, on a file of pairs."""
    from ..criterion import PairCriterion
    from ..metrics import right_pairs

    preferred = prefer(data, path, preferences)
    assert preferred.pairs is not None
    scores = scores if preferred.order is None else scores[preferred.order]
    right = right_pairs(scores, preferred.pairs.rows)
    return {
        "file": str(preferences),
        "pairs": len(right),
        "ties": int((right == 0.5).sum()),
        "accuracy": PairCriterion().mean(preferred, scores),
    }


def preference_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the result of `evaluate_pairs` as lines of a report."""
    pairs = f"{count(found['pairs'], 'pair')}, {found['ties']:,} with equal scores"
    return [("preferences", f"{found['file']}: {pairs}"), ("accuracy", f"{found['accuracy']:.4f}")]
