"""`PreferenceModel`: strengths of items from votes, with ties, covariates and intervals."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import LinAlgError
from scipy.special import expit
from sklearn.exceptions import NotFittedError

from .._util import parallel
from .._util.checks import boolean, choice, number_from_zero, whole_number
from .._util.lazy import lazy_property
from .._util.text import data_frame
from .._util.types import Array, Integers, Vector
from ..data.frames import choose_columns, column_values, frame_columns, frame_matrix, is_frame
from ..data.validation import check_matrix
from ..errors import DataError, NotConvergedWarning, SeparationWarning
from . import diagnosis
from .inference import Strengths, check_level, poisson_counts, sandwich
from .likelihood import (
    BINARY,
    DAVIDSON,
    DENSE,
    RAO_KUPPER,
    BiasReduced,
    ItemFeatures,
    Likelihood,
    fit_samples,
    log_odds,
    minimise,
)
from .votes import TIE, Rows, Votes, item_text, join, make_votes, votes_of_frame

if TYPE_CHECKING:
    import pandas as pd

TIES = {"davidson": DAVIDSON, "rao-kupper": RAO_KUPPER, "half": BINARY, "drop": BINARY}
PENALTIES = ("auto", "firth")  #: penalties that are no numbers
LARGEST_MARGIN = 20.0  #: margins beyond which votes count as separated if there is no certificate


class WinProbability(NamedTuple):
    """The probability that one item wins against another, with the ends of its interval.

    Attributes
    ----------
    probability, low, high : float

    Examples
    --------
    >>> WinProbability(0.6, 0.5, 0.7).probability
    0.6
    """

    probability: float
    low: float
    high: float


class PreferenceModel:
    """Strengths of items from votes: Bradley–Terry models with ties, covariates and features.

    The log-odds of "a wins" against "b wins" are s_a − s_b + γ'z with strengths s and a context z
    of the vote. The model minimises −log-likelihood + ½·penalty·Σ s². Equal votes are joined first.

    Parameters
    ----------
    ties : {"davidson", "rao-kupper", "half", "drop"}
        Ties are a third outcome (Davidson 1970; Rao & Kupper 1967), half a win for each item, or
        left out.
    order_effect : bool
        Whether the first item of a vote may have an advantage, such as that of playing at home.
    covariates : sequence of str, optional
        The covariates of votes that are used; by default all that `fit` gets.
    features : frame, mapping or array, optional
        Features of items: a data frame with a column ``item``, a pandas DataFrame whose index has
        the items, a mapping of items to lists of numbers, or an array whose rows are the items 0,
        1, 2 and so on. Strengths are then features·weights + deviations. A C-contiguous array of
        float32 or float64 is not copied.
    deviations : bool
        Whether items with features have deviations, too.
    penalty : None, number, "firth" or "auto"
        None is plain maximum likelihood. A number is the precision of a normal prior of the
        deviations, or of the weights if there are no deviations. The choice "firth" is the bias
        reduction of Firth (1993), whose estimates are always finite; it takes at most 3,000
        parameters. The choice "auto" is None if the estimates are finite, and otherwise "firth".
        With features and deviations, or with too many parameters for "firth", it is 1.0.
    reference : item, optional
        The item whose strength is 0; by default the mean of all strengths is 0.
    n_threads : int, optional

    Attributes
    ----------
    votes_ : Votes
    strengths_ : Strengths
        Strengths with their covariance.
    coef_ : dict
        The order effect and the coefficients of covariates.
    weights_ : dict
        The weights of features.
    tie_ : float or None
        ν of Davidson's model or θ of that of Rao and Kupper.
    separated_ : list
        Items whose strengths are infinite or unknown without a penalty, and the names of such
        coefficients.
    penalty_ : None, float or "firth"
    objective_ : float
        −log-likelihood plus penalty.
    gap_ : float
        Half the squared Newton decrement, an estimate of the distance of the objective to the
        optimum.
    certificate_ : float or None
        An upper bound of this distance (`linrank.preferences.likelihood.Likelihood.certificate`).
        None for bias reduction, and for more than 3,000 parameters without a penalty on each.

    Examples
    --------
    >>> from linrank import PreferenceModel
    >>> model = PreferenceModel().fit(
    ...     ["x", "x", "y", "y"], ["y", "z", "z", "x"], ["a", "tie", "a", "a"]
    ... )
    >>> model.table()["item"].tolist()
    ['y', 'x', 'z']
    """

    def __init__(
        self,
        ties: str = "davidson",
        *,
        order_effect: bool = False,
        covariates: Sequence[str] | None = None,
        features: Any = None,
        deviations: bool = True,
        penalty: float | str | None = "auto",
        reference: Hashable = None,
        n_threads: int | None = None,
    ) -> None:
        self.ties, self.order_effect, self.covariates = ties, order_effect, covariates
        self.features, self.deviations, self.penalty = features, deviations, penalty
        self.reference, self.n_threads = reference, n_threads

    def fit(
        self,
        a: Any,
        b: Sequence[Hashable] | Array | None = None,
        outcome: Any = None,
        *,
        weight: ArrayLike | None = None,
        judge: Sequence[Hashable] | Array | None = None,
        covariates: Any = None,
    ) -> PreferenceModel:
        """Fit the model to votes.

        Parameters
        ----------
        a : sequence of shape (n_votes,), Votes or frame
            The first items; or all votes, as `Votes` or as a frame with the columns of
            `read_votes`.
        b : sequence of shape (n_votes,)
            The second items.
        outcome : sequence of shape (n_votes,)
            'a', 'b', 'tie', 'both bad', the name of the winner, or the share of a as a number. An
            array of shape (n_votes, 3) holds the numbers of wins of a, wins of b and ties.
        weight : array of shape (n_votes,), optional
        judge : sequence of shape (n_votes,), optional
            Who gave each vote. Standard errors then allow for the dependence of a judge's votes.
        covariates : array or frame of shape (n_votes, n_covariates), optional
            Numbers that may favour a, such as the difference of the lengths of two answers.
        """
        self._check()
        self.votes_ = self._select(_gather(a, b, outcome, weight, judge, covariates))
        rows = _with_ties(join(self.votes_, self.order_effect), self.ties)
        Z, self._units = _standardise(rows.Z, self.order_effect)
        self._rows = rows._replace(Z=Z)
        self._kind = self._choose_kind()
        self._solve()
        self._keep()
        return self

    def __getattr__(self, name: str) -> Any:
        """Say that the model is not fitted, for attributes that `fit` makes."""
        if name.startswith("__") or "votes_" in self.__dict__:
            raise AttributeError(f"PreferenceModel has no attribute {name!r}")
        raise NotFittedError("this PreferenceModel is not fitted. Call fit first")

    def _check(self) -> None:
        choice("ties", self.ties, TIES)
        boolean("order_effect", self.order_effect)
        boolean("deviations", self.deviations)
        if isinstance(self.penalty, str):
            choice("penalty", self.penalty, PENALTIES, "None and numbers ≥ 0")
        elif self.penalty is not None:
            number_from_zero("penalty", self.penalty)
        if self.penalty == "firth" and self.ties == "rao-kupper":
            raise DataError(
                "penalty='firth' does not support ties='rao-kupper'. Use ties='davidson' or "
                "penalty=1.0"
            )

    def _select(self, votes: Votes) -> Votes:
        """Return votes with the chosen covariates and without votes of weight 0."""
        if self.covariates is not None:
            names = self.covariates if isinstance(self.covariates, str) else list(self.covariates)
            if isinstance(names, str):
                raise DataError(f"covariates is {names!r}; expected a list, such as [{names!r}]")
            unknown = [name for name in names if name not in votes.covariate_names]
            if unknown:
                raise DataError(
                    f"covariates has {unknown[0]!r}; the votes have {votes.covariate_names}"
                )
            table = votes.covariates[:, [votes.covariate_names.index(name) for name in names]]
            votes = replace(votes, covariates=table, covariate_names=names)
        used = votes.totals() > 0
        return votes if used.all() else votes.take(np.flatnonzero(used))

    def _choose_kind(self) -> int:
        """Return the model of the outcomes; without ties, all are Bradley–Terry models."""
        W, kind = self._rows.W, TIES[self.ties]
        if not W[:, :TIE].any():
            raise DataError(
                "all votes are ties, which say nothing about the order of items. Add other votes"
            )
        return kind if W[:, TIE].any() else BINARY

    def _solve(self) -> None:
        """Choose the penalty, and minimise."""
        features, self._feature_names = self._read_features()
        both, penalty = features is not None and self.deviations, self.penalty
        if penalty == "firth" and self._count_parameters() > DENSE:
            raise DataError(
                f"penalty='firth' needs at most {DENSE:,} parameters; the model has "
                f"{self._count_parameters():,}. Use penalty=1.0"
            )
        self.separated_: list[Any] = []
        self._separated = np.empty(0, np.int64)  # their places in θ
        if both and penalty in (None, 0, "firth"):
            raise DataError(
                "features and deviations need a number as penalty, because deviations alone "
                "explain all strengths. Use penalty=1.0, or deviations=False"
            )
        if features is None:
            items = self.votes_.items
            if penalty in (None, 0, *PENALTIES):
                diagnosis.check_components(self._rows, items)
            self._separated = diagnosis.outside_of_cycles(self._rows, len(items))
            self.separated_ = [items[k] for k in self._separated.tolist()]
        if penalty == "auto" and both:
            penalty = 1.0
        if penalty in (None, 0, "auto"):
            self._minimise(features, self._reduce_bias() if self.separated_ else None)
            if self.penalty_ is None and self._is_separated():
                self._minimise(features, self._reduce_bias())
        else:
            self._minimise(features, penalty)

    def _minimise(self, features: ItemFeatures | None, penalty: float | str | None) -> None:
        self.penalty_ = penalty
        kind = BiasReduced if penalty == "firth" else Likelihood
        self._likelihood = kind(
            self._rows, len(self.votes_.items), self._kind, features,
            self.deviations or features is None,
            penalty if isinstance(penalty, int | float) else 0.0,
            parallel.resolve_threads(self.n_threads),
        )  # fmt: skip
        with parallel.blas_threads(1):
            self._optimum = minimise(self._likelihood)
            self.__dict__.pop("_inverse", None)
            self.certificate_ = self._likelihood.certificate(self._optimum.theta, self._inverse)

    def _is_separated(self) -> bool:
        """Return whether the estimates are infinite, and store the names of those that are."""
        likelihood, found = self._likelihood, self._optimum
        if not likelihood.is_dense:
            return bool(np.abs(likelihood.margins(found.theta)).max() > LARGEST_MARGIN)
        if self.certificate_ != np.inf:
            return False
        self._separated = diagnosis.diverging_parameters(likelihood, found)
        n = len(self.votes_.items) * likelihood.deviations
        names = [*self.votes_.items[:n], *self._names()]
        self.separated_ = [names[k] for k in self._separated.tolist()]
        return len(self._separated) > 0

    def _reduce_bias(self) -> float | str:
        """Warn that estimates are infinite, and return the penalty that makes them finite.

        This is an error unless the penalty is chosen automatically.
        """
        which = diagnosis.listed(self.separated_)
        what = f"the estimates of {which}" if which else "some estimates"
        why = f"{what} are infinite, because no vote limits them"
        if self.penalty != "auto":
            raise DataError(f"{why}. Use penalty='firth' or penalty=1.0")
        if self._kind == RAO_KUPPER:
            raise DataError(f"{why}. Use penalty=1.0 or ties='davidson'")
        found: float | str = "firth"
        how = "bias reduction (penalty='firth')"
        if self._count_parameters() > DENSE:
            found = 1.0
            how = f"penalty=1.0, because bias reduction needs at most {DENSE:,} parameters"
        message = f"{why}. Finite estimates are made by {how}"
        warnings.warn(message, SeparationWarning, stacklevel=4)
        return found

    def _count_parameters(self) -> int:
        """Return the number of deviations and of other parameters."""
        has_deviations = self.deviations or self.features is None
        return len(self.votes_.items) * has_deviations + len(self._names())

    def _names(self) -> list[str]:
        """Return the names of the weights of features, of the context and of η."""
        context = ["order effect"] * self.order_effect + self.votes_.covariate_names
        return [*self._feature_names, *context, *["log tie"] * (self._kind != BINARY)]

    def _read_features(self) -> tuple[ItemFeatures | None, list[str]]:
        """Return the features of all items, and their names."""
        if self.features is None:
            return None, []
        index, table, names = _feature_table(self.features)
        places = {item_text(name): k for k, name in enumerate(index)}
        if len(places) < len(index):
            twice = next(name for k, name in enumerate(index) if places[item_text(name)] != k)
            raise DataError(f"features has two rows for {twice!r}; expected one per item")
        names_of_items = list(map(item_text, self.votes_.items))
        absent = [name for name in names_of_items if name not in places]
        if absent:
            raise DataError(f"features has no row for {absent[0]!r}; expected one per item")
        rows = np.array([places[name] for name in names_of_items])
        found = ItemFeatures(table, rows, parallel.resolve_threads(self.n_threads))
        bad = np.flatnonzero(~np.isfinite(found.mean))
        if len(bad):
            raise DataError(f"features has a number that is not finite in column {bad[0]}")
        return found, names or [f"feature {k}" for k in range(table.shape[1])]

    # ----------------------------------------------------------------------------------------------
    # Results.

    def _keep(self) -> None:
        likelihood, solution = self._likelihood, self._optimum
        if not solution.converged:
            warnings.warn(
                f"the estimates are rough after {solution.n_iter} iterations: the objective may "
                f"still fall by {solution.gap:.2g}. Use penalty=1.0",
                NotConvergedWarning, stacklevel=3,
            )  # fmt: skip
        self._x = likelihood.expand(solution.theta)
        n, m = len(self.votes_.items), self._rows.Z.shape[1]
        estimates, n_weights = self._estimates(), len(self._feature_names)
        self.weights_ = dict(zip(self._feature_names, estimates[:n_weights].tolist(), strict=True))
        context = estimates[n_weights : n_weights + m].tolist()
        self.coef_ = dict(zip(self._names()[n_weights : n_weights + m], context, strict=True))
        self.tie_ = None if self._kind == BINARY else float(np.exp(self._x[-1]))
        self.objective_, self.gap_, self.n_iter_ = solution[1:4]
        self._has_covariance = self._inverse is not None and n <= DENSE

    def _estimates(self) -> Vector:
        """Return the estimates that `_names` names, in the units of the covariates."""
        n_items = len(self.votes_.items) * self._likelihood.deviations
        found, m = self._optimum.theta[n_items:].copy(), self._rows.Z.shape[1]
        first = len(self._feature_names)
        found[first : first + m] = self._units @ found[first : first + m]
        return found

    @lazy_property
    def _inverse(self) -> Vector | None:
        """The inverse of the Hessian in θ; None with too many parameters, or if it is singular."""
        likelihood = self._likelihood
        if not likelihood.is_dense:
            return None
        try:
            with parallel.blas_threads(1):
                return likelihood.inverse(self._optimum.theta)
        except LinAlgError:
            return None

    def _by_judge(self, errors: str) -> bool:
        """Return whether errors allow for the dependence of the votes of a judge."""
        choice("errors", errors, ("auto", "model", "sandwich"))
        n_judges = len(self._judges()[0])
        if errors == "sandwich" and n_judges == 1:
            raise DataError("errors='sandwich' needs votes of at least two judges; there is one")
        return n_judges > 1 and errors != "model"

    def _judges(self) -> tuple[list[Any], Integers | None]:
        """Return the names of the judges whose votes are used, and the number of each vote's."""
        if self.votes_.judge is None:
            return [], None
        used, codes = np.unique(self.votes_.judge, return_inverse=True)
        return [self.votes_.judges[k] for k in used.tolist()], codes

    def covariance(self, errors: str = "auto") -> Vector | None:
        """Return the covariance of x = (strengths, coefficients of the context, η).

        Parameters
        ----------
        errors : {"auto", "model", "sandwich"}
            See `strengths`.

        Returns
        -------
        array, or None with more than 3,000 items or parameters
            The coefficients are those of covariates in the units of the fit.
        """
        C, T = self._covariance_of_theta(errors), self._likelihood.transform
        if C is None or len(self.votes_.items) > DENSE:
            return None
        matrix = T()
        return C if matrix is None else matrix @ C @ matrix.T

    def _covariance_of_theta(self, errors: str) -> Vector | None:
        by_judge = self._by_judge(errors)
        if self._inverse is None or not (by_judge or errors == "sandwich"):
            return self._inverse
        root = self._separated_root()
        return sandwich(self._inverse, *self._scores_of_votes()) + root @ root.T

    def _separated_root(self) -> Vector:
        """Return a root F of the part FF' of H⁻¹ that parameters without finite estimates explain.

        The votes of an item that always wins are equal, so that sandwich and bootstrap errors of
        its strength are nearly 0. They get this part in addition.
        """
        assert self._inverse is not None
        columns = self._inverse[:, self._separated]
        values, vectors = np.linalg.eigh(columns[self._separated])
        used = values > 1e-12 * values.max(initial=0.0)
        return columns @ vectors[:, used] / np.sqrt(values[used])

    def _scores_of_votes(self) -> tuple[Any, Integers | None, float]:
        """Return the gradients of votes in θ, their judges, and the number of judges or votes.

        Without judges, equal votes have one row, which is scaled by the root of their number.
        """
        rows, theta = self._rows, self._optimum.theta
        units = [self._likelihood.terms(theta, np.tile(unit, (len(rows.a), 1)))[:, 1:3]
                 for unit in np.eye(3)]  # fmt: skip
        shares = _share_ties(np.eye(3), self.ties)
        slopes = np.einsum("ok,krj->orj", shares, np.stack(units))  # outcome, row, (δ, η)
        judges, judge = self._judges()
        if judge is None and _are_counts(self.votes_.wins):
            counts = _count_rows(rows, self.votes_.wins).T
            outcome, which = np.nonzero(counts)
            found = slopes[outcome, which] * np.sqrt(counts[outcome, which])[:, None]
            return self._gradients(which, found), None, float(counts.sum())
        wins = np.where(rows.flipped[:, None], self.votes_.wins[:, [1, 0, 2]], self.votes_.wins)
        found = np.einsum("vk,kvj->vj", wins, slopes[:, rows.of_vote])
        return self._gradients(rows.of_vote, found), judge, float(len(judges) or len(wins))

    def judge_shifts(self) -> tuple[list[Any], Vector, Vector]:
        """Return the judges, their votes, and how the strengths would change without each of them.

        The changes are those of one Newton step from the estimates.

        Returns
        -------
        tuple of (list, array of shape (n_judges,), array of shape (n_judges, n_items))
        """
        judges, judge = self._judges()
        if judge is None:
            raise DataError("the model knows no judges. Pass judge= to fit")
        if self._inverse is None:
            raise DataError("there are too many parameters; the influence needs at most 3,000")
        scores = self._scores_of_votes()[0]
        which = sparse.csr_array((np.ones(len(judge)), (judge, np.arange(len(judge)))))
        T, n = self._likelihood.transform(), len(self.votes_.items)
        change = (which @ scores) @ self._inverse
        votes: Vector = np.bincount(judge, self.votes_.totals(), len(judges)).astype(np.float64)
        return judges, votes, (change if T is None else change @ T.T)[:, :n]

    def _wins_of_votes(self) -> Vector:
        """Return the weights of the outcomes of votes, in the order of items of their rows."""
        flipped, wins = self._rows.flipped, self.votes_.wins
        wins = np.where(flipped[:, None], wins[:, [1, 0, 2]], wins)
        return _share_ties(wins, self.ties)

    def _gradients(self, rows: Integers, slopes: Vector) -> Any:
        T = self._likelihood.transform()
        margins = self._likelihood.columns()[rows]
        scores = sparse.csr_array(margins.multiply(slopes[:, :1]))
        if self._kind != BINARY:
            scores = sparse.csr_array(sparse.hstack([scores, sparse.csr_array(slopes[:, 1:])]))
        return scores if T is None else scores @ T

    @property
    def strengths_(self) -> Strengths:
        """Strengths with the covariance that `table` uses by default."""
        return self.strengths("auto")

    def strengths(self, errors: str = "auto") -> Strengths:
        """Return the strengths with their covariance.

        Parameters
        ----------
        errors : {"auto", "model", "sandwich"}
            The inverse of the Hessian, or the covariance that allows for dependent votes of a judge
            and for a wrong model. "auto" is "sandwich" if votes of at least two judges are known.
            With G judges, intervals are those of Student's distribution with G − 1 degrees of
            freedom. Errors of the model are added for strengths that are infinite without a
            penalty, because equal votes would make the others nearly 0.

        Examples
        --------
        >>> from linrank import PreferenceModel
        >>> model = PreferenceModel().fit(["x", "y"], ["y", "x"], ["a", "a"])
        >>> model.strengths("model").values.round(6).tolist()
        [0.0, 0.0]
        """
        n, C = len(self.votes_.items), self.covariance(errors)
        C = None if C is None else C[:n, :n]
        found = Strengths(self.votes_.items, self._x[:n], C, dof=self._dof(errors))
        return found.relative_to(self.reference)

    def _dof(self, errors: str) -> float:
        """Return the degrees of freedom of intervals."""
        return len(self._judges()[0]) - 1.0 if self._by_judge(errors) else np.inf

    def table(
        self,
        level: float = 0.95,
        *,
        errors: str = "auto",
        scale: float | None = None,
        base: float = 0.0,
        anchor: Mapping[Any, float] | None = None,
        resamples: int = 0,
    ) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per item, the strongest first.

        Parameters
        ----------
        level : float
            Probability that an interval covers the strength.
        errors : {"auto", "model", "sandwich"}
            See `strengths`.
        scale : float, optional
            Points for a strength that is 10 times as large; 400 for Elo ratings. By default,
            strengths are natural logarithms.
        base : float
            A number that is added to all strengths.
        anchor : mapping, optional
            One item and the strength that it gets.
        resamples : int
            If it is not 0, errors, intervals and ranks come from this number of bootstrap samples.

        Returns
        -------
        pandas.DataFrame
            Columns item, strength, se, low, high, quasi_se, quasi_low, quasi_high, rank, rank_low,
            rank_high, votes and note. Two items whose intervals from quasi_low to quasi_high do not
            overlap differ clearly.
        """
        found = self.bootstrap(resamples) if resamples else self.strengths(errors)
        return self._annotated(found.table(level, scale, base, anchor))

    def _annotated(self, table: pd.DataFrame) -> pd.DataFrame:
        votes, wins = self.votes_, self.votes_.totals()
        n = len(votes.items)
        counts = np.bincount(votes.a, wins, n) + np.bincount(votes.b, wins, n)
        by_item = dict(zip(votes.items, counts.tolist(), strict=True))
        infinite = set(self.separated_)
        table["votes"] = [by_item[item] for item in table["item"]]
        table["note"] = [diagnosis.NOTE if item in infinite else "" for item in table["item"]]
        return table

    def coefficients(self, level: float = 0.95, errors: str = "auto") -> pd.DataFrame:
        """Return a pandas DataFrame of the weights of features and the coefficients of the context.

        Parameters
        ----------
        level, errors
            See `table`.

        Returns
        -------
        pandas.DataFrame
            Columns name, estimate, se, low, high and note. The last row is log ν or log θ for ties.
        """
        z = check_level(level, self._dof(errors))
        names, estimate, C = self._names(), self._estimates(), self._covariance_of_theta(errors)
        se = np.full(len(names), np.nan)
        if C is not None:
            n, m = len(self.votes_.items) * self._likelihood.deviations, self._rows.Z.shape[1]
            first = len(self._feature_names)
            se = np.sqrt(C.diagonal()[n:])
            size = np.abs(self._units).max(axis=1, initial=0.0)
            U, own = self._units / size[:, None], C[n:, n:][first : first + m, first : first + m]
            se[first : first + m] = size * np.sqrt(((U @ own) * U).sum(axis=1))
        infinite = set(self.separated_)
        return data_frame({
            "name": names, "estimate": estimate, "se": se,
            "low": estimate - z * se, "high": estimate + z * se,
            "note": [diagnosis.NOTE if name in infinite else "" for name in names],
        })  # fmt: skip

    def predict_proba(
        self, a: Sequence[Hashable], b: Sequence[Hashable], covariates: ArrayLike | None = None
    ) -> Vector:
        """Return the probabilities of "a wins", "b wins" and "tie" for pairs of items.

        Parameters
        ----------
        a, b : sequences of shape (n_pairs,)
        covariates : array of shape (n_pairs, n_covariates), optional
            By default 0. An order effect counts in any case.

        Returns
        -------
        array of shape (n_pairs, 3)
        """
        if len(a) != len(b):
            raise DataError(f"a has {len(a)} entries but b has {len(b)}; expected one pair per row")
        places = [self._places(items) for items in (a, b)]
        return self._probabilities(np.stack(places, axis=1), covariates)

    def _places(self, items: Sequence[Hashable]) -> Integers:
        """Return the numbers of items, or raise a `DataError` that names one that is not known."""
        known = {item: k for k, item in enumerate(self.votes_.items)}
        unknown = [item for item in items if item not in known]
        if unknown:
            Strengths(self.votes_.items, self._x).place(unknown[0])
        return np.array([known[item] for item in items], np.int64)

    def _context(self, n_rows: int, covariates: ArrayLike | None) -> Vector:
        wanted = len(self.votes_.covariate_names)
        Z = np.zeros((n_rows, wanted)) if covariates is None else np.asarray(covariates, float)
        if Z.shape != (n_rows, wanted):
            raise DataError(f"covariates has shape {Z.shape}; expected ({n_rows}, {wanted})")
        return np.column_stack([np.ones(n_rows), Z]) if self.order_effect else Z

    def _beside(self, pairs: Integers, covariates: ArrayLike | None) -> Likelihood:
        """Return the likelihood of other pairs of items."""
        n = len(pairs)
        Z = np.ascontiguousarray(self._context(n, covariates) @ self._units)
        rows = Rows(pairs[:, 0].copy(), pairs[:, 1].copy(), Z, np.zeros((n, 3)), np.arange(n),
                    np.zeros(n, np.bool_))  # fmt: skip
        return Likelihood(rows, len(self.votes_.items), self._kind)

    def _probabilities(self, pairs: Integers, covariates: ArrayLike | None) -> Vector:
        n, other = len(pairs), self._beside(pairs, covariates)
        logs = [other.terms(self._x, np.tile(unit, (n, 1)))[:, 0] for unit in np.eye(3)]
        found = np.exp(-np.stack(logs, axis=1))
        if self._kind == BINARY:
            found[:, TIE] = 0.0
        return found

    def win_probability(
        self, a: Hashable, b: Hashable, level: float = 0.95, errors: str = "auto"
    ) -> WinProbability:
        """Return the probability that a wins against b, with an interval.

        The interval is that of the log-odds by the delta method. With an order effect, a is first.

        Parameters
        ----------
        a, b : items
        level, errors
            See `table`.

        Returns
        -------
        WinProbability
        """
        z = check_level(level, self._dof(errors))
        pair = self._places([a, b])[None]
        if a == b:
            raise DataError(f"a and b are both {a!r}; expected two different items")
        other, C = self._beside(pair, None), self.covariance(errors)
        d = other.margins(self._x)[0]
        odds, slope, of_tie = log_odds(self._kind, float(d), float(self._x[-1]))
        width = np.nan
        if C is not None:
            direction = slope * other.columns().toarray()[0]
            if self._kind != BINARY:
                direction = np.append(direction, of_tie)
            width = z * float(np.sqrt(direction @ C @ direction))
        return WinProbability(*(float(expit(odds + t)) for t in (0.0, -width, width)))

    def log_likelihood(self, votes: Votes) -> float:
        """Return the mean log-likelihood of votes, which may be held-out ones.

        Parameters
        ----------
        votes : Votes
            Votes between items that the model knows.

        Returns
        -------
        float
        """
        p = self.probabilities_of(votes)
        wins = _share_ties(votes.wins, self.ties)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(wins > 0, wins * np.log(p), 0.0)
        return float(logs.sum() / wins.sum())

    def probabilities_of(self, votes: Votes) -> Vector:
        """Return the probabilities of the three outcomes of each vote.

        Parameters
        ----------
        votes : Votes

        Returns
        -------
        array of shape (n_votes, 3)
        """
        places = self._places(votes.items)
        pairs = np.stack([places[votes.a], places[votes.b]], axis=1)
        return self._probabilities(pairs, votes.covariates if votes.covariate_names else None)

    # ----------------------------------------------------------------------------------------------
    # Bootstrap.

    def bootstrap(self, n_samples: int = 1000, seed: int = 0) -> Strengths:
        """Return strengths with those of bootstrap samples of judges, or of votes.

        Each judge, or each vote if judges are not known, is drawn Poisson(1) times. A fit begins at
        the estimates of all votes. If the votes of a sample are separated, the strengths of this
        sample come from bias reduction. Strengths that are infinite without a penalty vary too
        little between samples, so that errors of the model are added to them.

        Parameters
        ----------
        n_samples : int
        seed : int

        Returns
        -------
        Strengths
            Its `table` has percentile intervals.
        """
        n_samples = whole_number("n_samples", n_samples, least=2)
        seed = whole_number("seed", seed, least=0)
        likelihood = self._likelihood
        if not likelihood.is_dense:
            raise DataError(
                f"bootstrap needs at most 3,000 parameters; the model has {likelihood.n_theta:,}"
            )
        draws = fit_samples(
            likelihood, self._optimum.theta, self._sampler(), n_samples, seed
        )[:, : len(self.votes_.items)]  # fmt: skip
        if len(self._separated):
            T, root = likelihood.transform(), self._separated_root()
            root = (root if T is None else T @ root)[: draws.shape[1]]
            normal = np.random.default_rng([seed, 1]).standard_normal((n_samples, root.shape[1]))
            draws = draws + normal @ root.T
        C = np.cov(draws, rowvar=False).reshape(draws.shape[1], -1)
        found = Strengths(self.votes_.items, self._x[: draws.shape[1]], C, draws)
        return found.relative_to(self.reference)

    def _sampler(self) -> Any:
        """Return a function of a random generator that draws weights of the rows."""
        rows, votes = self._rows, self.votes_
        shape = rows.W.shape
        wins = votes.wins
        if votes.judge is None and _are_counts(wins):
            counts = _count_rows(rows, wins)
            return lambda rng: _share_ties(poisson_counts(counts, rng), self.ties)
        groups = np.arange(len(votes)) if votes.judge is None else votes.judge
        wins = self._wins_of_votes()
        which, outcome = np.nonzero(wins)
        cells = sparse.csr_array(
            (wins[which, outcome], (rows.of_vote[which] * 3 + outcome, groups[which])),
            shape=(shape[0] * 3, int(groups.max()) + 1),
        )
        return lambda rng: (cells @ rng.poisson(1.0, cells.shape[1])).reshape(shape)


def _gather(a: Any, b: Any, outcome: Any, weight: Any, judge: Any, covariates: Any) -> Votes:
    """Return the votes that `fit` got in any form."""
    if isinstance(a, Votes):
        return a
    if is_frame(a):
        names = frame_columns(covariates, "covariates") if is_frame(covariates) else covariates
        return votes_of_frame(a, None, names or ())
    if b is None or outcome is None:
        raise DataError(
            "b and outcome are missing. Pass fit(a, b, outcome), Votes of linrank.read_votes, or a "
            "frame with the columns model_a, model_b and winner"
        )
    return make_votes(a, b, outcome, weight, judge, covariates)


def _are_counts(wins: Vector) -> bool:
    return bool((wins == np.rint(wins)).all())


def _count_rows(rows: Rows, wins: Vector) -> Vector:
    """Return the weights of the outcomes of the rows, before ties are shared."""
    wins = np.where(rows.flipped[:, None], wins[:, [1, 0, 2]], wins)
    n = len(rows.a)
    return np.stack([np.bincount(rows.of_vote, wins[:, k], n) for k in range(3)], axis=1)


def _share_ties(wins: Vector, ties: str) -> Vector:
    """Return weights in which a tie is half a win for each item, or nothing, if `ties` says so."""
    if ties not in ("half", "drop"):
        return wins
    shared = wins.copy()
    if ties == "half":
        shared[:, :TIE] += 0.5 * wins[:, TIE:]
    shared[:, TIE] = 0.0
    return shared


def _with_ties(rows: Rows, ties: str) -> Rows:
    return rows._replace(W=np.ascontiguousarray(_share_ties(rows.W, ties)))


def _standardise(Z: Vector, order_effect: bool) -> tuple[Vector, Vector]:
    """Return contexts whose columns are at most 1, and the matrix U with γ = Uγ' for them.

    If there is an order effect, covariates are also centred, which changes its coefficient only.
    """
    U = np.eye(Z.shape[1])
    if not Z.size:
        return Z, U
    size = np.abs(Z).max(axis=0)
    size[size == 0] = 1.0
    Z, U = Z / size, U / size[:, None]
    if order_effect:
        mean = Z[:, 1:].mean(axis=0)
        spread = np.abs(Z[:, 1:] - mean).max(axis=0)
        spread[spread == 0] = 1.0
        Z = np.column_stack([Z[:, :1], (Z[:, 1:] - mean) / spread])
        change = np.diag([1.0, *(1.0 / spread)])
        change[0, 1:] = -mean / spread
        U = U @ change
    return np.ascontiguousarray(Z), U


def _feature_table(features: Any) -> tuple[list[Any], Any, list[str] | None]:
    """Return the items of features in any form, the matrix of their numbers, and names."""
    names = None
    if isinstance(features, Mapping):
        index = list(features)
        try:
            table: Any = np.array(list(features.values()), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                "features cannot be read as numbers; expected lists of equal length"
            ) from None
        table = table[:, None] if table.ndim == 1 else table
    elif is_frame(features, "features"):
        columns = frame_columns(features, "features")
        if columns is not None and "item" in columns:
            names = [name for name in columns if name != "item"]
            index = column_values(features, "item")
            features = choose_columns(features, names)
        elif hasattr(features, "index"):
            names, index = columns, list(features.index)
        else:
            raise DataError("features has no column 'item', which names the item of each row")
        table = frame_matrix(features)
    else:
        table = features if sparse.issparse(features) else np.asarray(features)
        index = list(range(table.shape[0] if table.ndim else 0))
    return index, check_matrix(table), names
