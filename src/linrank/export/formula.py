"""`Formula`: the score of a model as a sum of terms, with the names that a target uses."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    runtime_checkable,
)

import numpy as np
from scipy import sparse

from .._util.types import Integers, Vector
from ..data.categories import Categories
from ..errors import DataError
from ..model import LinearModel, Term, given_terms

if TYPE_CHECKING:
    from ..features.basis import Axis
    from ..features.preprocessing import Preprocessing
    from ..model import AdditiveModel, Curve, Surface

Kind = Literal["linear", "additive"]  #: kinds of models that can be exported
Shift = float | Literal["training"]  #: a constant, or the one that training ranges determine


@dataclass(frozen=True)
class Formula(ABC):
    """The score ``constant + Σ terms``, in which a term is a function of one or two variables.

    Variable j is the raw value of feature j. Of n features, variable n + j is the position of
    feature j in the range of its query, if there is one.

    Attributes
    ----------
    columns : tuple of int
        Positions of the features that have a part in the score, from 0, in increasing order.
    names : tuple of str
        Names of all features of the model, as the target uses them.
    given : frozenset of str
        Names that come from ``features=``. Targets that have expressions use them verbatim.
    constant : float
        Constant part of the score; see `training_shift`.
    positions : dict of int to Position
        The features that are scaled within queries.
    tests : dict of int to (str, str or None)
        Column and value of the features that are 1 for this value of a column of text, and
        otherwise 0. None is a missing value.
    codes : dict of int to tuple of str
        The values of the features that hold codes: value k has the code k, and others have −1.
    """

    kind: ClassVar[Kind]

    columns: tuple[int, ...]
    names: tuple[str, ...]
    given: frozenset[str] = frozenset()
    constant: float = 0.0
    positions: Mapping[int, Position] = field(default_factory=dict)
    tests: Mapping[int, tuple[str, str | None]] = field(default_factory=dict)
    codes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def used(self) -> list[str]:
        """The names of the features that have a part in the score."""
        return [self.names[column] for column in self.columns]

    def position(self, j: int) -> int:
        """Return the variable that is the position of feature j."""
        return len(self.names) + j

    def pair_with_position(self) -> str | None:
        """Return a feature whose position has an interaction; None if there is none."""
        return None

    def shifted(self, shift: Shift | None) -> Self:
        """Return the formula with a constant; without one if `shift` is None."""
        if shift is None:
            return self
        if shift == "training":
            return replace(self, constant=training_shift(self.ranges()))
        if isinstance(shift, bool | str) or not math.isfinite(shift):
            raise DataError(f"shift is {shift!r}; expected a finite number or 'training'")
        return replace(self, constant=float(shift))

    def scores(self, X: Any, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a checked matrix in double precision; see `values`."""
        total = np.full(X.shape[0], self.constant)
        for part in self.parts(X, query_ptr):
            total += part
        return total

    def values(self, X: Any, query_ptr: Integers | None = None) -> dict[int, Vector]:
        """Return the variables in the rows of a checked matrix.

        `query_ptr` holds the rows of each query. None: all rows belong to one query.
        """
        if sparse.issparse(X):
            X = X.tocsc()[:, list(self.columns)].toarray().astype(np.float64)
            found = dict(zip(self.columns, X.T, strict=True))
        else:
            found = {j: np.asarray(X[:, j], dtype=np.float64) for j in self.columns}
        ptr = np.array([0, X.shape[0]]) if query_ptr is None else query_ptr
        return found | {
            self.position(j): position.values(found[j], ptr)
            for j, position in self.positions.items()
        }

    @abstractmethod
    def parts(self, X: Any, query_ptr: Integers | None = None) -> Iterator[Vector]:
        """Yield the value of each term in rows, in double precision; see `values`."""

    @abstractmethod
    def ranges(self) -> list[tuple[float, float]]:
        """Return the lowest and highest value of each term within the ranges of training data."""

    @abstractmethod
    def texts(self, references: Mapping[int, str], syntax: Syntax) -> list[str]:
        """Return each term as text; `references` stand for the variables."""

    @abstractmethod
    def unlike_zero(self) -> str | None:
        """Return a feature whose missing values must not be replaced by 0; None if none has."""


def training_shift(ranges: Sequence[tuple[float, float]]) -> float:
    """Return a constant that makes scores positive within the ranges of the training data.

    The constant is minus the sum of the lowest values of the terms, and the largest rounding error
    of a sum in single precision. Scores of rows within the ranges are then at least 0, also if an
    engine rounds.

    Examples
    --------
    >>> round(training_shift([(-2.0, 6.0), (-4.0, 0.0)]), 4)
    6.0
    """
    lowest = sum(low for low, _ in ranges)
    largest = sum(max(abs(low), abs(high)) for low, high in ranges)
    error = float(np.finfo(np.float32).eps) * (len(ranges) + 1)
    return max(0.0, -lowest) + 2 * error * largest


def renamed(model: HasTerms | AdditiveModel, features: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the attributes of a formula that are about names, and check the names.

    Parameters
    ----------
    model : LinearModel or AdditiveModel
    features : mapping, optional
        Name in the target for names of the model. Other features keep their names.
    """
    names, features = model.names(), {} if features is None else features
    categories = getattr(model, "categories", Categories())
    _check_features(features, names)
    check_distinct(names, "the model has")
    return {
        "names": tuple(features.get(name, name) for name in names),
        "given": frozenset(features.values()),
        "tests": {
            j: test for j, test in categories.tests(names).items() if names[j] not in features
        },
        "codes": categories.coded(names),
    }


def _check_features(features: Mapping[str, str], names: Sequence[str]) -> None:
    known = set(names)
    for name, other in features.items():
        if name not in known:
            raise DataError(
                f"features= names {name!r}, which is not a feature of the model; its features are "
                f"{', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}"
            )
        if not isinstance(other, str) or not other.strip():
            raise DataError(f"features[{name!r}] is {other!r}; expected a name of the target")


def check_distinct(names: Iterable[str], who: str) -> None:
    """Raise a `DataError` if two features have the same name."""
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"{who} {count} features with the name {name!r}; use distinct names")


# --------------------------------------------------------------------------------------------------
# Sums of terms as text, for targets whose scores are expressions.


#: Terms that are added without parentheses. Parsers nest a + b + c: SQLite allows a depth of 1000.
TERMS_PER_GROUP = 100


class Syntax(NamedTuple):
    """How a language writes the parts of a term; texts are templates of `str.format`.

    Attributes
    ----------
    log : str
        sign(x)·log(1 + |x|) of ``{x}``.
    low, high : str
        The larger (smaller) of ``{x}`` and ``{limit}``, if neither is missing.
    missing : str
        ``{missing}`` if ``{x}`` is missing, otherwise ``{present}``.
    choice : str
        ``{yes}`` if the comparison ``{x} {test} {limit}`` holds, otherwise ``{no}``.
    equal : str
        The operator that tests equality.
    number : callable
        Text of a number, which may be negative.
    """

    log: str
    low: str
    high: str
    missing: str
    choice: str
    equal: str = "=="
    number: Callable[[float], str] = repr


def write_term(term: Term, reference: str, syntax: Syntax) -> str:
    """Return the contribution of one feature to a linear score as text.

    Parameters
    ----------
    term : Term
    reference : str
        Text that stands for the variable.
    syntax : Syntax
    """
    text = f"{syntax.number(term.weight)} * {write_limited(reference, term, syntax)}"
    if not term.weight:  # of a missing value only
        text = syntax.number(0.0)
    if term.missing is not None:
        missing = syntax.number(term.missing)
        return syntax.missing.format(x=reference, missing=missing, present=text)
    if term.low is None and term.high is None:
        return text
    # Some languages ignore a missing argument of min and max, so it is passed on here.
    return syntax.missing.format(x=reference, missing=reference, present=text)


def write_curve(curve: Curve, reference: str, syntax: Syntax) -> str:
    """Return a function of one feature as text, with the operations of `Curve` in their order."""
    axis = curve.axis
    places = [
        _place(reference, anchor, width, syntax)
        for anchor, width in zip(axis.anchors.tolist(), axis.widths.tolist(), strict=True)
    ]
    texts = [
        _polynomial(row, place, syntax)
        for row, place in zip(curve.pieces.tolist(), places, strict=True)
    ]
    texts[-1] = syntax.number(float(curve.pieces[-1, 0]))  # the place of a missing value is 0
    return _write_cells(axis, reference, texts, syntax)


def write_surface(surface: Surface, references: Sequence[str], syntax: Syntax) -> str:
    """Return a function of two features as text; references stand for their values."""
    first, second = surface.axes
    rows = [
        _write_cells(second, references[1], list(map(syntax.number, row)), syntax)
        for row in surface.values.tolist()
    ]
    return _write_cells(first, references[0], rows, syntax)


def _write_cells(axis: Axis, x: str, texts: list[str], syntax: Syntax) -> str:
    """Return the text of the cell that the value x is in, given the texts of all cells."""
    *present, missing = texts
    limits = list(map(syntax.number, axis.knots.tolist()))
    if axis.levels:
        other = present[-1]
        same = [
            syntax.choice.format(x=x, test=syntax.equal, limit=limit, yes=text, no=other)
            for limit, text in zip(limits, present, strict=False)
        ]
        present = [other, *same]
    return syntax.missing.format(x=x, missing=missing, present=_search(x, limits, present, syntax))


def _search(x: str, limits: Sequence[str], texts: Sequence[str], syntax: Syntax) -> str:
    """Return a binary search for the cell of x, which few nested comparisons suffice for."""
    if len(texts) == 1 or all(text == texts[0] for text in texts):
        return texts[0]
    half = len(texts) // 2
    yes = _search(x, limits[: half - 1], texts[:half], syntax)
    no = _search(x, limits[half:], texts[half:], syntax)
    return syntax.choice.format(x=x, test="<", limit=limits[half - 1], yes=yes, no=no)


def _place(x: str, anchor: float, width: float, syntax: Syntax) -> str:
    """Return the place of x in its cell as text."""
    shifted = x if anchor == 0.0 else f"({_plus(x, -anchor, syntax)})"
    return shifted if width == 1.0 else f"({shifted} / {syntax.number(width)})"


def _polynomial(coefficients: list[float], t: str, syntax: Syntax) -> str:
    """Return a polynomial of t as text, evaluated from the highest power on."""
    while len(coefficients) > 1 and coefficients[-1] == 0.0:
        coefficients = coefficients[:-1]
    *lower, highest = coefficients
    text = syntax.number(highest)
    for power, coefficient in enumerate(reversed(lower)):
        text = _plus(f"({text}) * {t}" if power else f"{text} * {t}", coefficient, syntax)
    return f"({text})" if lower else text


def _plus(text: str, number: float, syntax: Syntax) -> str:
    return f"{text} {'-' if number < 0 else '+'} {syntax.number(abs(number))}"


def write_sum(
    formula: Formula, references: Mapping[int, str], syntax: Syntax, indent: str = ""
) -> str:
    """Return the score as text, with one term per line.

    Parameters
    ----------
    formula : Formula
    references : dict of int to str
        Text that stands for each variable.
    syntax : Syntax
    indent : str
        Blanks before each line but the first.
    """
    parts = formula.texts(references, syntax)
    if formula.constant:
        parts.insert(0, syntax.number(formula.constant))
    if len(parts) <= TERMS_PER_GROUP:
        return _add(parts, indent)
    groups = [parts[k : k + TERMS_PER_GROUP] for k in range(0, len(parts), TERMS_PER_GROUP)]
    return _add([f"({_add(group, indent)})" for group in groups], indent)


def _add(parts: list[str], indent: str) -> str:
    text = parts[0]
    for part in parts[1:]:
        sign, part = ("-", part[1:]) if part.startswith("-") else ("+", part)
        text += f"\n{indent}{sign} {part}"
    return text


# --------------------------------------------------------------------------------------------------
# `LinearFormula`: the score of a linear model, as a sum of weighted features.


@runtime_checkable
class HasTerms(Protocol):
    """What the formula of a linear model needs; see `linrank.LinearModel`."""

    def names(self) -> list[str]:
        """Return the names of all features."""

    def terms(self) -> list[Term]:
        """Return the parts of the features in the score."""


@dataclass(frozen=True)
class LinearFormula(Formula):
    """The score ``constant + Σ (missing if x is missing else weight · clip(log?(x)))``.

    Attributes
    ----------
    terms : dict of int to Term
        One per variable, with the name that the target uses.
    """

    kind: ClassVar[Kind] = "linear"

    terms: Mapping[int, Term] = field(default_factory=dict)

    @classmethod
    def of(cls, model: HasTerms, features: Mapping[str, str] | None = None) -> Self:
        """Return the formula of a model, with other names; see `renamed`."""
        names = model.names()
        shared = renamed(model, features)
        if isinstance(model, LinearModel) and model.needs_qid:
            found, positions = _within_queries(model)
        else:
            place = {name: column for column, name in enumerate(names)}
            found, positions = {place[term.name]: term for term in model.terms()}, {}
        terms = {
            variable: plain._replace(name=shared["names"][variable % len(names)])
            for variable, plain in ((variable, _plain(term)) for variable, term in found.items())
            if plain.weight or plain.missing
        }
        if not terms:
            raise DataError("the model has no weight other than 0, so there is nothing to export")
        columns = tuple(sorted({variable % len(names) for variable in terms}))
        formula = cls(columns, terms=terms, positions=positions, **shared)
        check_distinct(formula.used, "features= gives")
        return formula

    def parts(self, X: Any, query_ptr: Integers | None = None) -> Iterator[Vector]:
        """Yield the contribution of each variable to the scores of rows."""
        values = self.values(X, query_ptr)
        for variable, term in self.terms.items():
            yield contribution(term, values[variable])

    def ranges(self) -> list[tuple[float, float]]:
        """Return the range of each term; its ends are those of the feature, by monotonicity."""
        found = []
        for term in self.terms.values():
            if term.minimum is None or term.maximum is None:
                raise DataError(
                    "shift='training' needs the ranges of the training data, which this model does "
                    "not have. Pass a number, such as shift=100."
                )
            ends = contribution(term, np.array([term.minimum, term.maximum])).tolist()
            if term.missing is not None:
                ends.append(term.missing)
            found.append((min(ends), max(ends)))
        return found

    def texts(self, references: Mapping[int, str], syntax: Syntax) -> list[str]:
        """Return each weighted variable as text."""
        return [write_term(term, references[v], syntax) for v, term in self.terms.items()]

    def unlike_zero(self) -> str | None:
        """Return a feature whose missing values have another contribution than the value 0."""
        return next((t.name for t in self.terms.values() if not reads_missing_as_zero(t)), None)


def _within_queries(model: LinearModel) -> tuple[dict[int, Term], dict[int, Position]]:
    """Return the terms and the positions of a model that scales features within queries.

    Its score is ``Σ_f (w_f·position_f + (v_f if x_f is missing))``, with the weights v of the
    indicators. A position is a variable, and so is the value that may be missing. Features that are
    0 or 1 for a value of text are not scaled. If features have weights beside those of their
    positions, the score has their terms, too.
    """
    steps, names, n = model.preprocessing, model.names(), model.n_features
    assert steps is not None
    if model.query_coef is not None:
        terms = dict(zip(model.used.tolist(), given_terms(model), strict=True))
        used = np.flatnonzero(model.query_coef).tolist()
        for f in used:
            terms[n + f] = Term(names[f], float(model.query_coef[f]), minimum=0.0, maximum=1.0)
        return terms, {f: Position.of(steps, f) for f in used}
    weights, of_indicators = model.scaled_coef[:n], model.scaled_coef[n:]
    unscaled, used = set(steps.unscaled.tolist()), np.flatnonzero(weights).tolist()
    terms = {
        f if f in unscaled else n + f: Term(names[f], float(weights[f]), minimum=0.0, maximum=1.0)
        for f in used
    }
    for f, weight in zip(steps.indicators.tolist(), of_indicators.tolist(), strict=True):
        terms[f] = Term(names[f], 0.0, missing=weight, minimum=0.0, maximum=0.0)
    return terms, {f: Position.of(steps, f) for f in used if f not in unscaled}


def contribution(term: Term, values: Vector | float) -> Vector:
    """Return the part of the score that a variable has; NaN is a missing value."""
    values = np.asarray(values, dtype=np.float64)
    part = term.weight * limited(values, term)
    return part if term.missing is None else np.where(np.isnan(values), term.missing, part)


def require_linear(formula: LinearFormula, target: str) -> None:
    """Raise a `DataError` unless each contribution is weight × value, with 0 for missing values."""
    for term in formula.terms.values():
        step = "without this step"
        if term.log:
            reason = "is replaced by its logarithm"
        elif term.low is not None or term.high is not None:
            reason = "is clipped"
        elif term.may_be_missing and not reads_missing_as_zero(term):
            reason, step = "has a contribution of its own if it is missing", "with missing='zero'"
        else:
            continue
        raise DataError(
            f"{target} cannot express that feature {term.name!r} {reason}. Export to vespa, sql, "
            f"onnx, pmml, c or python, or train {step}."
        )


def reads_missing_as_zero(term: Term) -> bool:
    """Tell whether a missing value may be replaced by 0 before scoring."""
    return term.missing is None or term.missing == float(contribution(term, 0.0))


def _plain(term: Term) -> Term:
    """Return a term in which limits that limit nothing, and rules that refuse, are None."""
    low, high, missing = (
        None if value is None or not math.isfinite(value) else value
        for value in (term.low, term.high, term.missing)
    )
    return term._replace(low=low, high=high, missing=missing)


# --------------------------------------------------------------------------------------------------
# Weighted features with normalisers, as Solr and the plugin of Elasticsearch compute them.


Normalizers = Literal["fold", "emit"]
LARGEST = float(np.finfo(np.float32).max)  #: the largest number that the engines can hold
SMALLEST = float(np.finfo(np.float32).tiny)  #: smaller standard deviations lose digits or become 0


class Scaling(NamedTuple):
    """A normaliser: the engine computes ``(x − shift) / width``."""

    kind: Literal["standard", "min_max"]
    shift: float
    width: float


class Weighted(NamedTuple):
    """A feature with its weight in the engine. The column of a constant feature is None."""

    name: str
    weight: float
    column: int | None
    scaling: Scaling | None = None


def weighted_features(
    formula: LinearFormula, target: str, normalizers: Normalizers, constant: str | None
) -> list[Weighted]:
    """Return the features of an engine that knows weights and normalisers only.

    Parameters
    ----------
    formula : LinearFormula
    target : str
        Name of the engine in messages.
    normalizers : {"fold", "emit"}
        Whether the scaling of the training is part of the weights, or a normaliser. Without a
        constant feature, scores with normalisers differ from those of the model by a constant.
    constant : str, optional
        Name of a feature that is 1 for all documents. Its weight is the constant of the formula.
    """
    require_linear(formula, target)
    if formula.constant and constant is None:
        raise DataError(
            f"{target} has no constant term, so shift= needs a feature that is 1 for all "
            "documents. Give its name, such as constant='one' (--option constant=one)."
        )
    features = [_weigh(term, column, normalizers, target) for column, term in formula.terms.items()]
    if normalizers == "emit" and not any(feature.scaling for feature in features):
        raise DataError(
            "normalizers='emit' needs a model whose features were scaled in training. Use "
            "normalizers='fold'."
        )
    if constant is not None:
        if constant in (feature.name for feature in features):
            raise DataError(f"constant is {constant!r}, which is the name of another feature")
        dropped = math.fsum(f.weight * f.scaling.shift / f.scaling.width
                            for f in features if f.scaling)  # fmt: skip
        features.append(Weighted(constant, formula.constant + dropped, None))
    return features


def check_single_precision(weight: float, name: str, target: str) -> None:
    """Raise an error if single precision cannot hold a weight."""
    if abs(weight) > LARGEST:
        raise DataError(
            f"the weight {weight:g} of feature {name!r} is too large for {target}, which "
            "computes in single precision. Multiply the feature by a power of ten in training."
        )


def _weigh(term: Term, column: int, normalizers: Normalizers, target: str) -> Weighted:
    scaling = _scaling(term) if normalizers == "emit" else None
    weight = term.weight if scaling is None else term.weight * scaling.width
    check_single_precision(weight, term.name, target)
    if scaling is not None and not SMALLEST <= scaling.width <= LARGEST:
        raise DataError(
            f"the scale {scaling.width:g} of feature {term.name!r} is outside the single precision "
            f"of {target}. Use normalizers='fold'."
        )
    return Weighted(term.name, weight, column, scaling)


def _scaling(term: Term) -> Scaling | None:
    """Return the normaliser of a feature; None if it was not scaled, or is constant."""
    if not term.factor:
        return None
    shift, width = term.shift or 0.0, 1.0 / term.factor
    if term.minimum is not None and term.maximum is not None:
        spans = math.isclose(width, term.maximum - term.minimum, rel_tol=1e-12)
        if spans and shift == term.minimum:
            return Scaling("min_max", shift, width)
    return Scaling("standard", shift, width)


def sum_in_float32(
    formula: LinearFormula,
    X: Any,
    *,
    normalizers: Normalizers = "fold",
    constant: str | None = None,
    **_: object,
) -> Vector:
    """Score rows as the engines do: values, products and sums in single precision, in order."""
    features = weighted_features(formula, "the engine", normalizers, constant)
    values = formula.values(X)
    total = np.zeros(X.shape[0], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for feature in features:
            value = np.ones_like(total)
            if feature.column is not None:
                known = np.nan_to_num(values[feature.column], nan=0.0)  # missing values are 0
                value = known.astype(np.float32)
            if feature.scaling is not None:
                shift, width = np.float32(feature.scaling.shift), np.float32(feature.scaling.width)
                value = (value - shift) / width
            total += value * np.float32(feature.weight)
    return total.astype(np.float64)


# --------------------------------------------------------------------------------------------------
# The names of the features that an engine has to compute.


def write_features(formula: Formula) -> str:
    """Write the names of the features with a part in the score as a JSON list, in their order."""
    return json.dumps(formula.used, indent=1, ensure_ascii=False) + "\n"


# --------------------------------------------------------------------------------------------------
# `Position`: where the value of a feature is between the lowest and the highest of its query.


class Position(NamedTuple):
    """Where the value x of a feature is between the lowest and the highest of its query.

    It is ``(g(x) − g(lowest))/(g(highest) − g(lowest))``, from 0 to 1, and 0 if all values are
    equal. g is the logarithm and the limits, as in a `Term`; it changes no order. A missing value
    that is not filled has no position, and is neither the lowest nor the highest.

    Attributes
    ----------
    fill : float or None
        What a missing value counts as, in `lowest` and `highest`, too. None: training had none.
    log : bool
    low, high : float or None
    """

    fill: float | None = None
    log: bool = False
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, steps: Preprocessing, feature: int) -> Self:
        """Return the position of a feature after the steps of a model."""
        fill, low, high = (
            None if values is None or not np.isfinite(values[feature]) else float(values[feature])
            for values in (steps.fill, steps.low, steps.high)
        )
        return cls(fill, steps.log, low, high)

    def values(self, x: Vector, query_ptr: Integers) -> Vector:
        """Return the positions of the documents of some queries.

        Examples
        --------
        >>> x, query_ptr = np.array([3.0, 1.0, 5.0, 7.0, 7.0]), np.array([0, 3, 5])
        >>> Position().values(x, query_ptr).tolist()
        [0.5, 0.0, 1.0, 0.0, 0.0]
        """
        known = x if self.fill is None else np.where(np.isnan(x), self.fill, x)
        g = limited(known, self)
        sizes, starts = np.diff(query_ptr), query_ptr[:-1]
        low, high = (np.repeat(end.reduceat(g, starts), sizes) for end in (np.fmin, np.fmax))
        return (g - low) / np.where(high > low, high - low, 1.0)


def limited(values: Vector, step: Term | Position) -> Vector:
    """Return the logarithm and the limits of values, as far as a step has them."""
    if step.log:
        values = np.sign(values) * np.log1p(np.abs(values))
    if step.low is not None or step.high is not None:
        values = np.clip(values, step.low, step.high)
    return values


def write_limited(reference: str, step: Term | Position, syntax: Syntax) -> str:
    """Return the logarithm and the limits of a value as text, as far as a step has them."""
    value = syntax.log.format(x=reference) if step.log else reference
    if step.low is not None:
        value = syntax.low.format(x=value, limit=syntax.number(step.low))
    if step.high is not None:
        value = syntax.high.format(x=value, limit=syntax.number(step.high))
    return value


def write_value(position: Position, reference: str, syntax: Syntax) -> str:
    """Return g(x) as text, where `reference` stands for x."""
    if position.fill is not None:
        fill = syntax.number(position.fill)
        known = syntax.missing.format(x=reference, missing=fill, present=reference)
        return write_limited(known, position, syntax)
    value = write_limited(reference, position, syntax)
    if position.low is None and position.high is None:
        return value
    # Some languages ignore a missing argument of min and max, so it is passed on here.
    return syntax.missing.format(x=reference, missing=reference, present=value)


def define_positions(
    formula: Formula, references: dict[int, str], places: Mapping[int, str], syntax: Syntax
) -> dict[str, str]:
    """Return texts by names of local variables, which give the positions in their order.

    Parameters
    ----------
    formula : Formula
    references : dict of int to str
        Texts that stand for the raw values. Those of the positions are added.
    places : dict of int to str
        Where a program finds each feature in the arrays or mappings ``low`` and ``high``.
    syntax : Syntax
    """
    found = {}
    for j, position in formula.positions.items():
        given = {
            f"v{j}": references[j], f"l{j}": f"low[{places[j]}]", f"h{j}": f"high[{places[j]}]"
        }  # fmt: skip
        names = []
        for name, reference in given.items():
            known = position if name == f"v{j}" else position._replace(fill=None)
            text = write_value(known, reference, syntax)
            names.append(reference if text == reference else name)
            if text != reference:
                found[name] = text
        value, low, high = names
        one = syntax.number(1.0)
        width = syntax.choice.format(x=high, test=">", limit=low, yes=f"{high} - {low}", no=one)
        found[f"p{j}"] = f"({value} - {low}) / {width}"
        references[formula.position(j)] = f"p{j}"
    return found
