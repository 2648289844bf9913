"""Input and output of commands: data, models, scores, rankings, judgements, preferences, topics."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .._util.files import find_descriptor
from .._util.text import count
from ..errors import DataError, prefix_errors
from .console import facts, progress, reading, say_error, show
from .shared_options import INPUT, OUTPUT, Declared, with_options

if TYPE_CHECKING:
    from .._util.types import Vector
    from ..choices import FlavourName
    from ..data.columns import Columns
    from ..data.ranking import RankingData
    from ..data.trec import Qrels, Run
    from ..estimators.topics import TopicData, TopicsModel
    from ..metrics import Evaluation, Metric
    from ..model import Model
    from ..training import Trainer

# --------------------------------------------------------------------------------------------------
# Input and output of commands: data, models, scores, rankings and TREC files.


# --------------------------------------------------------------------------------------------------
# Options that name the columns of input files; all commands that read data share them.


def parse_names(text: str) -> tuple[str, ...]:
    """Parse names that are separated by commas.

    Examples
    --------
    >>> parse_names("bm25, pagerank")
    ('bm25', 'pagerank')
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise typer.BadParameter(f"{text!r} has an empty name; expected names such as bm25,clicks")
    return names


def parse_categories(text: str) -> str | list[str]:
    """Parse onehot, hash or hash:BUCKETS, or a list of features with commas.

    Examples
    --------
    >>> parse_categories("hash:1024"), parse_categories("language, country")
    ('hash:1024', ['language', 'country'])
    """
    if text.partition(":")[0] in ("onehot", "hash"):
        return text
    features = [part.strip() for part in text.split(",")]
    if not all(features):
        raise typer.BadParameter(
            f"{text!r} is not valid; expected onehot, hash, hash:BUCKETS, or a list of features "
            "such as language,country"
        )
    return features


def _column(flag: str, help: str) -> Declared:
    option = typer.Option(
        flag, metavar="COLUMN", help=help, rich_help_panel=INPUT, show_default=False
    )
    return Declared(Annotated[str | None, option], None)


def _columns(flag: str, help: str) -> Declared:
    option = typer.Option(
        flag, metavar="A,B,…", help=help, rich_help_panel=INPUT, show_default=False,
        parser=parse_names,
    )  # fmt: skip
    return Declared(Annotated[Any, option], None)


FEATURE_NAMES = typer.Option(
    "--feature-names",
    metavar="FILE",
    help="Names of the features in LETOR text: one per line, or lines of a number and a name.",
    rich_help_panel=INPUT,
    show_default=False,
)

CATEGORIES = typer.Option(
    "--categories",
    metavar="onehot|hash:BUCKETS|FEATURE,…",
    help="What becomes of columns of text: a feature for each value (onehot), or for each bucket "
    "of a hash if there are more values than buckets. A model knows its categories. With "
    "--additive, also a list: features whose values have no order, by name or number.",
    rich_help_panel=INPUT,
    parser=parse_categories,
    show_default="columns of text are an error",
)

#: The options of all commands that read data. Those of columns are for Parquet, Arrow and CSV.
COLUMNS: dict[str, Declared] = {
    "label": _column("--label", "The column of a table with the labels, by default label."),
    "qid": _column("--qid", "The column with the query ids, by default qid."),
    "doc_id": _column("--doc-id", "The column with identifiers of documents."),
    "features": _columns("--features", "The columns with the features, by default all others."),
    "ignore": _columns("--ignore", "Columns that are not features."),
    "sample_weight": _column("--sample-weight", "The column with the weights of documents."),
    "query_weight": _column("--query-weight", "The column with the weights of queries."),
    "propensity": _column("--propensity", "The column with the propensities of clicks."),
    "margin": _column("--margin", "The column with the margins of documents."),
    "feature_names": Declared(Annotated[Path | None, FEATURE_NAMES], None),
    "categories": Declared(Annotated[Any, CATEGORIES], None),
}


@dataclass(frozen=True)
class Input:
    """How files are read: the columns of tables, and names for the features of LETOR text.

    `categories` says what becomes of columns of text.
    """

    columns: Columns
    feature_names: Path | None = None
    categories: str | list[str] | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Input:
        """Return the input for the options of `COLUMNS`; None is an option that is not given."""
        from ..data.columns import Columns

        given = {name: value for name, value in values.items() if value is not None}
        own = {name: given.pop(name, None) for name in ("feature_names", "categories")}
        return cls(Columns(**given), **own)

    def choosing(self, names: Sequence[str]) -> Input:
        """Return an input that reads these features, unless a user has chosen others."""
        if self.columns.features is not None:
            return self
        return replace(self, columns=replace(self.columns, features=tuple(names), ignore=()))


#: Decorator that adds the options of `COLUMNS` to a command, which gets an `Input` as `inputs`.
with_columns = with_options("inputs", COLUMNS, Input.of)


# --------------------------------------------------------------------------------------------------
# Input and output files: reading with progress, and early checks of output files.


def read_data(
    path: Path, inputs: Input, names: Sequence[str] | None = None, **options: Any
) -> RankingData:
    """Read data in any known format, with progress.

    Parameters
    ----------
    path : Path
    inputs : Input
        The columns of tables, and names for the features of LETOR text.
    names : sequence of str, optional
        The expected names of the features. A table may have other columns too.
    **options
        Options of `linrank.load`.
    """
    from ..data.formats import find_format, load
    from ..data.matching import with_features

    if names is not None and find_format(path).open_table is not None:
        categories = options.get("categories")
        inputs = inputs.choosing(names if categories is None else categories.given(names))
    with reading(path) as progress:
        data = load(path, progress=progress, **load_options(inputs) | options)
    if (n_features := options.get("n_features")) is None:
        return data
    with prefix_errors(path):
        return with_features(data, names, n_features)


def read_for(model: Model, path: Path, inputs: Input, **options: Any) -> RankingData:
    """Read the data that a model scores, with its features.

    Warn if the file has fewer features, or no queries although the model needs them.
    """
    data = read_data(
        path, inputs, model.feature_names, n_features=model.n_features,
        index_base=model.index_base, categories=model.categories,
        **{"allow_missing": model.fills} | options,
    )  # fmt: skip
    if data.n_read is not None and data.n_read < model.n_features:
        say_error(
            f"{path}: the file has {count(data.n_read, 'feature')}, but the model has "
            f"{model.n_features}; the others count as 0. Check that both have the same features.",
            "warning: ",
        )
    if model.needs_qid and data.n_queries == 1 and data.query_ids[0] == 0:
        say_error(
            f"{path}: all {data.n_docs:,} documents are one query, but the model scales features "
            "within each query. If a table has query ids, name their column with --qid.",
            "warning: ",
        )
    return data


def load_options(inputs: Input) -> dict[str, Any]:
    """Return the options of `linrank.load` for an input."""
    options: dict[str, Any] = {"columns": inputs.columns, "categories": inputs.categories}
    if inputs.feature_names is not None:
        options["feature_names"] = inputs.feature_names
    return options


def check_output(path: Path | None, *read: Path | None, is_folder: bool = False) -> None:
    """Raise an error before any long work if a file (or folder) cannot be written there.

    `read` are files of the same command, which must not be overwritten.
    """
    if path is None:
        return
    if any(file is not None and _is_same(path, file) for file in read):
        raise DataError(f"{path}: is read by this command; pass another name for the output")
    if path.is_dir() and not is_folder:
        raise DataError(f"{path}: is a folder; pass the name of a file to write")
    if path.is_file() and is_folder:
        raise DataError(f"{path}: is a file; pass the name of a folder to write to")
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # The path is a device or a pipe.
    if find_descriptor(path) is not None:
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise DataError(f"{path}: cannot be written: there is no folder {folder}; create it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {folder}: {error.strerror}") from None


def _is_same(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to the same file or folder; devices may be read and written."""
    is_stored = one.is_file() or one.is_dir()
    return is_stored and other.exists() and one.samefile(other)


def looks_like_model(path: Path) -> bool:
    """Tell whether a file starts like a JSON object, as model files do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"{")


def size_of(path: Path) -> int:
    """Return the size of a file, or of all files in a folder, in bytes."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if not file.is_dir())


# --------------------------------------------------------------------------------------------------
# Files that rank documents: models, scores and runs; and the data whose documents they rank.


FileKind = Literal["model", "qrels", "run", "other"]


def kind_of(path: Path) -> FileKind:
    """Tell what a file holds by its first line; "other" are scores and data."""
    from ..data.trec import looks_like_qrels, looks_like_run

    if looks_like_model(path):
        return "model"
    if looks_like_qrels(path):
        return "qrels"
    return "run" if looks_like_run(path) else "other"


def find_model(path: Path) -> Model | None:
    """Return the model in a file; None for a file of scores."""
    if not looks_like_model(path):
        return None
    from ..model import load_model

    return load_model(path)


class Documents:
    """Data that models and score files rank. Models with the same features share one reading.

    Parameters
    ----------
    path : Path
    inputs : Input
        The columns of tables, and names for the features of LETOR text.
    **options
        Options of `linrank.load`.
    """

    def __init__(self, path: Path, inputs: Input, **options: Any) -> None:
        self.path = path
        self._inputs = inputs
        self._options = options
        self._readings: dict[object, RankingData] = {}

    def read(self, model: Model | None = None) -> RankingData:
        """Return the data with the features of a model, or with any features for None."""
        if model is None:
            if not self._readings:
                self._readings[None] = read_data(self.path, self._inputs, **self._options)
            return next(iter(self._readings.values()))
        names = None if model.feature_names is None else tuple(model.feature_names)
        key = (names, model.n_features, model.index_base, model.fills, model.categories)
        if key not in self._readings:
            self._readings[key] = read_for(model, self.path, self._inputs, **self._options)
        return self._readings[key]

    def score(self, file: Path, model: Model | None) -> Vector:
        """Return the scores of a model or of a score file, in the row order of the data."""
        from ..data.trec import read_scores

        data = self.read(model)
        if model is not None:
            with prefix_errors(self.path):
                return model.predict(data.X, data.qid)
        values = read_scores(file, data.n_docs)
        return values if data.order is None else values[data.order]


# --------------------------------------------------------------------------------------------------
# TREC files on the command line: the option --qrels, and runs.


FormatName = Literal["scores", "trec"]

QrelsOption = Annotated[
    Path | None,
    typer.Option(
        "--qrels",
        metavar="FILE",
        help="Judgements in the format of TREC, which replace the labels. Documents are found by "
        "query and document id, as in # docid = A. Documents that were not judged get the label 0.",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
FormatOption = Annotated[
    FormatName,
    typer.Option(
        "--format",
        help="One score per line, or a run in the format of TREC, which needs document ids.",
        rich_help_panel=OUTPUT,
    ),
]
TagOption = Annotated[
    str,
    typer.Option("--tag", metavar="NAME", help="The name of the run.", rich_help_panel=OUTPUT),
]


class Judgements:
    """The labels of ``--qrels``. Without the option, data keep their labels."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.n_docs = self.n_unjudged = 0
        self._qrels = None if path is None else read_judgements(path)

    def apply(self, data: RankingData, path: Path) -> RankingData:
        """Return data with the judgements as labels, and count documents that were not judged."""
        if self._qrels is None:
            return data
        from ..data.trec import judge

        with progress(f"reading the labels of {path}"), prefix_errors(path):
            y, known = judge(data, self._qrels)
        self.n_docs += len(known)
        self.n_unjudged += len(known) - int(known.sum())
        return data.replace(y=y)

    def lines(self) -> list[tuple[str, str]]:
        """Return a line of a report; none without the option."""
        if self._qrels is None:
            return []
        unjudged = f"{self.n_unjudged:,} of {count(self.n_docs, 'document')} not judged (label 0)"
        return [("qrels", f"{self.path}: {count(len(self._qrels), 'judgement')}, {unjudged}")]

    def json(self) -> dict[str, Any]:
        """Return the content of `lines` as an entry of JSON; none without the option."""
        if self._qrels is None:
            return {}
        found = {"file": str(self.path), "judgements": len(self._qrels)}
        return {"qrels": found | {"documents": self.n_docs, "unjudged": self.n_unjudged}}


def read_judgements(path: Path) -> Qrels:
    """Read a qrels file, with progress."""
    from ..data.trec import read_qrels

    with progress(f"reading {path}"):
        return read_qrels(path)


def read_ranked(path: Path) -> Run:
    """Read a run file, with progress."""
    from ..data.trec import read_run

    with progress(f"reading {path}"):
        return read_run(path)


def is_run(data: Path, scores: Path) -> bool:
    """Tell whether two files are a qrels file and a run; raise an error if one of them is not."""
    kinds = kind_of(data), kind_of(scores)
    if kinds == ("run", "qrels"):
        raise DataError(
            f"{data}: is a run file, and {scores} is a qrels file. The judgements come first: "
            "linrank evaluate QRELS RUN"
        )
    has_qrels, has_run = kinds[0] == "qrels", kinds[1] == "run"
    if has_qrels != has_run:
        odd, other = (data, scores) if has_qrels else (scores, data)
        kind, missing = ("qrels", "run") if has_qrels else ("run", "qrels")
        raise DataError(
            f"{odd}: is a {kind} file, but {other} is not a {missing} file; expected "
            "linrank evaluate QRELS RUN"
        )
    return has_run


def evaluate_files(
    qrels_file: Path, run_file: Path, metrics: list[Metric], flavour: FlavourName,
    threads: int | None,
) -> tuple[Evaluation, list[tuple[str, str]]]:  # fmt: skip
    """Evaluate a run, and return lines of a report on both files."""
    from ..metrics import evaluate_run

    qrels, run = read_judgements(qrels_file), read_ranked(run_file)
    with progress("evaluating"):
        found = evaluate_run(qrels, run, metrics, flavour=flavour, n_threads=threads)
    lines = [("qrels", qrels_line(qrels_file, qrels)), ("run", run_line(run_file, run, qrels.qid))]
    return found, lines


def qrels_line(path: Path, qrels: Qrels) -> str:
    """Return one line on judgements."""
    queries = count(len(set(qrels.qid)), "query", "queries")
    return f"{path}: {count(len(qrels), 'judgement')}, {queries}"


def run_line(path: Path, run: Run, judged: Iterable[str]) -> str:
    """Return one line on a run, with the numbers of queries that only one side has."""
    judged, ranked = set(judged), set(run.qid)
    missing, unknown = len(judged - ranked), len(ranked - judged)
    queries = count(len(ranked), "query", "queries")
    text = f"{path}: {count(len(run), 'document')}, {queries}, tag {run.tag}"
    if missing:
        text += f"; {count(missing, 'query', 'queries')} not in the run, counted as 0"
    if unknown:
        text += f"; {count(unknown, 'query', 'queries')} without judgements, ignored"
    return text


# --------------------------------------------------------------------------------------------------
# Labels from other sources than the data: preferences, clicks and topics.


# --------------------------------------------------------------------------------------------------
# The option --preferences: pairs of items instead of labels.


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
        from ..training.selection import Criterion, PairCriterion

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
    from ..metrics import right_pairs
    from ..training.selection import PairCriterion

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


# --------------------------------------------------------------------------------------------------
# Collections with topics: ``train --topics``, and models with one weight vector per topic.


def train_topics(
    method: str | None, train: Path, valid: Path | None, out: Path, options: dict[str, Any]
) -> None:
    """Train one ranker per topic of a collection, save the model, and report."""
    from ..baselines.methods import make_ranker
    from ..estimators.topics import MultiTopicRanker, read_topics

    ranker = make_ranker(method or "domination")
    data = read_topics(train)
    topics = MultiTopicRanker(ranker, n_threads=options["threads"])
    with prefix_errors(train), progress(f"training {len(data.topics)} topics"):
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
    from ..estimators.topics import read_topics

    data = read_topics(path, n_features=model.n_features, topics=model.topics)
    with prefix_errors(path), progress("scoring"):
        return data, model.predict(data.X)


def measure_topics(model: TopicsModel, path: Path, metrics: list[Metric]) -> Evaluation:
    """Evaluate a model on documents with topics; each topic is a query."""
    import numpy as np

    from ..estimators.topics import evaluate_topics

    data, scores = score_topics(model, path)
    skipped = model.training.get("skipped_topics", [])
    topics = np.setdiff1d(np.arange(len(model.topics)), skipped)
    return evaluate_topics(scores, data.Y, topics, metrics)
