"""Proximal Newton with working sets: the default for convex penalties that select features."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import norm

from .._compile.jit import njit
from .._util.types import Integers, Mask, Vector
from ..engines.engine import DENSE_MULTIPLICATION, HESSIAN_ENTRY, Engine
from ..errors import DataError
from ..penalties.penalty import Penalty
from ..problem import Problem
from .result import Status
from .smooth import Product, Solution, conjugate_gradients, invert
from .solver import ROUNDING, Iterate, Needs, SparseSolver, state

# --------------------------------------------------------------------------------------------------
# A convex penalty and its bounds as arrays, for some of the features.


class Terms(NamedTuple):
    """The penalty ``Σ l1|v| + ½ l2 v² + Σ_G norm_G·‖v_G‖`` of some features, with low ≤ v ≤ high.

    All arrays have one entry per feature. ``groups`` has the number of the feature's group, and
    ``norm`` repeats the cost of a group for each of its features. ``has_norms`` is False if the
    penalty is a sum over features; each feature is then a group of its own.
    """

    l1: Vector
    l2: Vector
    low: Vector
    high: Vector
    norm: Vector
    groups: Integers
    has_norms: bool

    def of(self, features: Integers) -> Terms:
        """Return the terms of some features. Their groups are numbered anew."""
        l1, l2, low, high, norm = (part[features] for part in self[:5])
        if not self.has_norms:
            return Terms(l1, l2, low, high, norm, np.arange(len(features)), False)
        groups = np.unique(self.groups[features], return_inverse=True)[1]
        return Terms(l1, l2, low, high, norm, groups, True)

    def blocks(self) -> tuple[Integers, Integers]:
        """Return the features in the order of their groups, and where each group begins."""
        if not self.has_norms:
            return self.groups, np.arange(len(self.groups) + 1)
        starts = np.append(0, np.cumsum(np.bincount(self.groups)))
        return np.argsort(self.groups, kind="stable"), starts

    def value(self, v: Vector) -> float:
        """Return the penalty of v."""
        total = float(self.l1 @ np.abs(v) + 0.5 * self.l2 @ v**2)
        if self.has_norms:
            total += float(self.norm @ (self.units(v) * v))
        return total

    def sums(self, values: Vector) -> Vector:
        """Return the sum of the values over each feature's group, by feature."""
        return np.asarray(np.bincount(self.groups, values), np.float64)[self.groups]

    def norms(self, v: Vector) -> Vector:
        """Return ‖v_G‖ of each feature's group, by feature; without norms, |v|."""
        return np.sqrt(self.sums(v**2)) if self.has_norms else np.abs(v)

    def units(self, v: Vector) -> Vector:
        """Return v_G/‖v_G‖ of each group, which is 0 for groups without weights."""
        norms = self.norms(v)
        return np.divide(v, norms, out=np.zeros_like(v), where=norms > 0)

    def whole_groups(self, some: Integers, features: Integers) -> Integers:
        """Return those of the features whose groups contain some features."""
        if not self.has_norms:
            return some
        return features[np.isin(self.groups[features], self.groups[some])]

    def sided_limits(self, signs: Vector) -> tuple[Vector, Vector]:
        """Return the bounds of weights that keep their sign; a weight with sign 0 stays 0.

        Weights without an l1 part may change their sign.
        """
        upper = np.where((signs <= 0) & (self.l1 > 0), np.minimum(self.high, 0.0), self.high)
        lower = np.where((signs >= 0) & (self.l1 > 0), np.maximum(self.low, 0.0), self.low)
        return lower, upper


def make_terms(penalty: Penalty, n_features: int) -> Terms:
    """Return the terms of all features. The norm of a group of one feature is an l1 part."""
    l1, l2 = penalty.parts()
    free = np.full(n_features, np.inf)
    low, high = penalty.limits or (-free, free)
    norm, groups = penalty.norm_part() or (np.zeros(n_features), np.arange(n_features))
    alone = np.bincount(groups, minlength=1)[groups] == 1
    l1, norm = l1 + np.where(alone, norm, 0.0), np.where(alone, 0.0, norm)
    has_norms = bool(norm.any())
    return Terms(l1, l2, low, high, norm, groups if has_norms else np.arange(n_features), has_norms)


# --------------------------------------------------------------------------------------------------
# The Hessian of the loss for some features, as proximal Newton keeps it from step to step.


#: Largest factor between the curvatures of H and of the loss along a step from which H learns.
#: With a larger one, H also learns from differences of gradients that are mostly rounding.
LEARNING_RANGE = 100.0


class Curvature(NamedTuple):
    """The Hessian of the loss L at some w, or its BFGS update, for some features in order.

    ``is_exact`` is False if the Hessian was that of a sample of queries.
    """

    features: Integers
    H: Vector
    is_exact: bool

    def has(self, features: Integers) -> bool:
        """Return whether the Hessian includes these features."""
        return bool(np.isin(features, self.features, assume_unique=True).all())

    def of(self, features: Integers) -> Vector:
        """Return the rows and columns of some of its features."""
        if len(features) == len(self.features):
            return self.H
        at = np.searchsorted(self.features, features)
        return self.H[np.ix_(at, at)]

    def learn(self, step: Vector, change: Vector) -> None:
        """Update H by the rule of BFGS, so that H·step is the change of the gradient of L.

        H stays positive definite. It is not updated if the step moves other features.
        """
        inside, change = step[self.features], change[self.features]
        if np.count_nonzero(inside) < np.count_nonzero(step):
            return
        image = self.H @ inside
        known, found = float(inside @ image), float(inside @ change)
        if known < LEARNING_RANGE * found < LEARNING_RANGE**2 * known:
            scaled = np.array([change / found, -image / known])
            np.add(self.H, scaled.T @ np.array([change, image]), out=self.H)


def cost_of_matrix(engine: Engine, n: int, n_rows: int) -> float:
    """Return the cost of the Hessian of n features from some rows, in Hessian products."""
    work = n_rows * n * (HESSIAN_ENTRY + DENSE_MULTIPLICATION * n)
    return work / engine.product_work


# --------------------------------------------------------------------------------------------------
# A Newton step with fixed signs of the weights, by Hessian products instead of a matrix.


TURNING_ROUNDS = 5  #: linear systems of a step, each without the groups that turned round before


class SignedStep:
    """The model of a step in which weights keep their signs and groups about their directions.

    With fixed signs, l1 is linear. A weight of 0 gets the sign with which f falls. The norm of a
    group is expanded to second order, norm·(u'δ + ½ δ'(I − uu')δ/r), where u is the direction of
    its weights and r their norm. For a group without weights, u is the direction of steepest
    descent, and r is the length of a proximal gradient step.

    Parameters
    ----------
    terms : Terms
        The penalty of the features that may move.
    w, gradient, diagonal : array of shape (n,)
        Their weights, and the gradient and the diagonal of the Hessian of f.
    product : callable
        The product with the Hessian of f.
    """

    def __init__(
        self, terms: Terms, w: Vector, gradient: Vector, diagonal: Vector, product: Product
    ) -> None:
        self.terms, self.w, self._product = terms, w, product
        signs = np.where(w != 0, np.sign(w), -np.sign(gradient))
        self.low, self.high = terms.sided_limits(signs)
        diagonal = diagonal + terms.l2
        floor = np.finfo(float).eps * float(diagonal.max())
        self.diagonal = np.maximum(diagonal, floor or 1.0)
        self.slope = gradient + terms.l1 * signs + terms.l2 * w
        self.units, self.stiff = np.zeros_like(w), np.zeros_like(w)
        if terms.has_norms:
            self._add_norms()
        self.stays = ((w <= self.low) & (self.slope > 0)) | ((w >= self.high) & (self.slope < 0))
        self.slope[self.stays] = 0.0

    def _add_norms(self) -> None:
        terms, norms = self.terms, self.terms.norms(self.w)
        first = (terms.norms(self.slope) - terms.norm) / terms.sums(self.diagonal)
        radius = np.where(norms > 0, norms, first)
        self.units = terms.units(np.where(norms > 0, self.w, -self.slope))
        self.slope += terms.norm * self.units
        np.divide(terms.norm, radius, out=self.stiff, where=radius > 0)

    def product(self, v: Vector) -> Vector:
        """Return the Hessian of the model times v; features that stay have no row."""
        image = self._product(v) + self.terms.l2 * v
        if self.stiff.any():
            image += self.stiff * (v - self.units * self.terms.sums(self.units * v))
        return np.where(self.stays, 0.0, image)

    def precondition(self, v: Vector) -> Vector:
        """Return v times the inverse of the Hessian with the diagonal of f instead of its matrix.

        A block is E − κuu' with E = diagonal + κ. Its inverse is that of Sherman and Morrison.
        """
        inner = v / (self.diagonal + self.stiff)
        if not self.stiff.any():
            return inner
        lean = self.units / (self.diagonal + self.stiff)
        left = self.terms.sums(self.units * lean * self.diagonal)
        factor = np.divide(self.terms.sums(self.units * inner), left, where=left > 0,
                           out=np.zeros_like(v))  # fmt: skip
        return inner + self.stiff * lean * factor

    def solve(self, residual: float, most: int) -> Solution:
        """Minimise the model by conjugate gradients with at most `most` products.

        Groups that would turn round are set to 0. The model of the others is then minimised again,
        because their steps have relied on the ones that are left out.
        """
        delta, right, n_products = np.zeros_like(self.w), -self.slope, 0
        for _ in range(TURNING_ROUNDS):
            solved = conjugate_gradients(
                self.product, right, self.precondition, residual, most - n_products
            )
            delta, n_products = delta + solved.x, n_products + solved.n_products
            turned = self._turned(self.w + delta) & ~self.stays
            if not turned.any() or n_products + 1 >= most:
                break
            self.stays |= turned
            delta = np.where(turned, -self.w, delta)
            right = np.where(self.stays, 0.0, -self.slope - self.product(delta))
            n_products += 1
        return solved._replace(x=delta, n_products=n_products)

    def _turned(self, target: Vector) -> Mask:
        """Return the features of groups whose weights would turn round on the way to the target."""
        if not self.stiff.any():
            return np.zeros(len(target), bool)
        return (self.stiff > 0) & (self.terms.sums(self.units * target) <= 0)

    def targets(self, solution: Solution) -> Iterator[Vector]:
        """Yield the weights after the step, and after a step along the preconditioned gradient.

        Weights that would change their sign are set to 0, and so are groups that would turn round.
        Weights that would leave their bounds are set to the bound.
        """
        for delta in (solution.x, -self.precondition(self.slope)):
            target = self.w + delta
            yield np.clip(np.where(self._turned(target), 0.0, target), self.low, self.high)


# --------------------------------------------------------------------------------------------------
# Kernels that minimise a quadratic model with a penalty over one block of features at a time.


BLOCK_STEPS = 30  #: most proximal gradient steps in a block; more steps need fewer sweeps
BLOCK_ACCURACY = 1e-3  #: decrease of the last step in a block, relative to that of the first


@njit
def descend(H, slope, l1, l2, low, high, norm, members, starts, accuracy, sweeps, buffer, v):  # type: ignore[no-untyped-def]
    """Minimise the model by block coordinate descent from v; return whether `accuracy` is reached.

    ``slope`` is the gradient of the quadratic part at v. Block g has the coordinates
    ``members[starts[g]:starts[g + 1]]``. A full sweep over all blocks is followed by sweeps over
    those in use, until these have converged. The descent ends when a full sweep finds no block
    beyond `accuracy`. ``buffer`` has the shape (4, n).
    """
    curvatures, new, trial, local = buffer[0], buffer[1], buffer[2], buffer[3]
    n_blocks = len(starts) - 1
    for g in range(n_blocks):
        curvatures[g] = _largest_curvature(H, members[starts[g] : starts[g + 1]])
    in_use_only = False
    for _ in range(sweeps):
        worst = 0.0
        for g in range(n_blocks):
            if starts[g + 1] - starts[g] == 1:
                j = members[starts[g]]
                if v[j] != 0.0 or not in_use_only:
                    pull = _shrink(slope[j] - H[j, j] * v[j], l1[j] + norm[j])
                    least = min(max(pull / (H[j, j] + l2[j]), low[j]), high[j])
                    worst = max(worst, _move(H, slope, l2, v, j, least))
                continue
            block = members[starts[g] : starts[g + 1]]
            if in_use_only and not _is_used(v, block):
                continue
            _solve_block(
                H, slope, l1, l2, low, high, norm, block, curvatures[g], v, new, trial, local
            )
            moved = 0.0
            for i in range(len(block)):
                moved += _move(H, slope, l2, v, block[i], new[i])
            worst = max(worst, moved)
        if worst <= accuracy and not in_use_only:
            return True
        in_use_only = worst > accuracy
    return False


@njit(inner=True)
def _move(H, slope, l2, v, j, new):  # type: ignore[no-untyped-def]
    """Move a coordinate and update the slope; return step²·curvature."""
    step = new - v[j]
    if step == 0.0:
        return 0.0
    v[j] = new
    for k in range(len(v)):
        slope[k] += step * H[j, k]
    return step**2 * (H[j, j] + l2[j])


@njit(inner=True)
def _is_used(v, block):  # type: ignore[no-untyped-def]
    """Return whether a coordinate of the block is not 0."""
    used = False
    for j in block:
        used |= v[j] != 0.0
    return used


@njit(inner=True)
def _largest_curvature(H, block):  # type: ignore[no-untyped-def]
    """Return the largest row sum of |H| in a block, which no eigenvalue exceeds."""
    most = 0.0
    for j in block:
        total = 0.0
        for k in block:
            total += abs(H[j, k])
        most = max(most, total)
    return most


@njit(inner=True)
def _solve_block(H, slope, l1, l2, low, high, norm, block, curvature, v, new, trial, local):  # type: ignore[no-untyped-def]
    """Minimise the model over a block by proximal gradient steps; `new` gets the minimiser.

    The penalty of a group is l1, l2, the bounds and the norm. Its proximal operator shrinks each
    weight by l1, moves it into the bounds, shortens the norm and divides by 1 + l2.
    """
    m = len(block)
    for i in range(m):
        new[i], local[i] = v[block[i]], slope[block[i]]
    first = 0.0
    for step in range(BLOCK_STEPS):
        total = 0.0
        for i in range(m):
            j = block[i]
            z = _shrink(local[i] - curvature * new[i], l1[j]) / curvature
            trial[i] = min(max(z, low[j]), high[j])
            total += trial[i] ** 2
        size = math.sqrt(total)
        cut = norm[block[0]] / curvature
        part = (1.0 - cut / size) / (1.0 + l2[block[0]] / curvature) if size > cut else 0.0
        moved = 0.0
        for i in range(m):
            change = part * trial[i] - new[i]
            new[i] = part * trial[i]
            moved += change**2
            if change != 0.0:
                for k in range(m):
                    local[k] += change * H[block[i], block[k]]
        if step == 0:
            first = moved
        if moved <= BLOCK_ACCURACY * first:
            break


@njit(inner=True)
def _shrink(pull, l1):  # type: ignore[no-untyped-def]
    """Return −sign(pull)·(|pull| − l1)₊."""
    if pull > l1:
        return l1 - pull
    return -l1 - pull if pull < -l1 else 0.0


# --------------------------------------------------------------------------------------------------
# A quadratic model with a penalty and bounds, and its minimiser: the inner problem of a step.


SYSTEM_SWEEPS = 1 / 6  #: sweeps per coordinate that cost as much as a linear system
SMALLEST_PART = 2.0**-20  #: part of a Newton step below which the step is given up


class QuadraticModel(NamedTuple):
    """The model ``g'(v − w) + ½(v − w)'H(v − w) + Ω(v)``, with the penalty Ω and its bounds.

    ``accuracy`` is the largest g²/h at an approximate minimiser, where g is the subgradient of a
    coordinate and h its curvature. It has the unit of the model, whatever the units of v are.
    """

    H: Vector
    gradient: Vector
    w: Vector
    terms: Terms
    accuracy: float

    def slope(self, v: Vector) -> Vector:
        """Return the gradient of the quadratic part at v."""
        return self.gradient + self.H @ (v - self.w)

    def value(self, v: Vector) -> float:
        """Return the value of the model at v."""
        delta = v - self.w
        smooth = float(delta @ (self.gradient + 0.5 * (self.H @ delta)))
        return smooth + self.terms.value(v)


def minimise_model(model: QuadraticModel, sweeps: int, rounds: int) -> Vector:
    """Minimise the model by descent over blocks and by Newton's method with fixed signs.

    The descent minimises over one group, or one coordinate without a group, at a time. It finds the
    coordinates in use, but converges slowly if features are nearly equal. For given signs, the
    penalty of the coordinates in use is smooth, and the minimum of a sum over features is the
    solution of a linear system. If coordinates stop on the way to it, the system of the others is
    solved, until no coordinate stops. Norms of groups are not quadratic and need several systems.
    With them, there are at least as many sweeps before a system as the system costs.
    """
    v, terms = model.w.copy(), model.terms
    if terms.has_norms:
        sweeps = max(sweeps, int(SYSTEM_SWEEPS * len(v)))
    layout = *terms.blocks(), model.accuracy, sweeps, np.empty((4, len(v)))
    for _ in range(rounds):
        if descend(model.H, model.slope(v), *terms[:5], *layout, v):
            break
        while _solve_with_signs(model, v):
            pass
    return v


def _solve_with_signs(model: QuadraticModel, v: Vector) -> bool:
    """Move v towards the minimum among the coordinates in use, given their signs.

    Coordinates that would change their sign stop at 0, and coordinates that would leave their
    bounds stop at the bound. The objective may rise along this path. Then v moves ½, ¼, … of the
    way, or to where the first coordinate stops. Return whether another step is worthwhile.
    """
    used = np.flatnonzero((v != 0) & (v > model.terms.low) & (v < model.terms.high))
    if not len(used):
        return False
    terms, old = model.terms.of(used), v[used]
    goal = _newton_goal(model, terms, v, used)
    limit = np.clip(goal, *terms.sided_limits(np.sign(old)))
    end = np.full(len(used), np.inf)  # part of the way after which a coordinate stops
    np.divide(old - limit, old - goal, out=end, where=limit != goal)

    def move(part: float) -> float:
        v[used] = np.where(end <= part, limit, old + part * (goal - old))
        return model.value(v)

    before = model.value(v) if terms.has_norms else np.inf
    first = min(1.0, float(end.min(initial=1.0)))
    least, part = min(before, move(first)), 1.0
    while part > first and move(part) > least:
        part *= 0.5
    part = max(part, first)
    while (found := move(part)) > before and part > SMALLEST_PART:
        part *= 0.5
    if found > before:
        move(0.0)
        return False
    return bool((limit != goal).any()) or model.accuracy < before - found < np.inf


def _newton_goal(model: QuadraticModel, terms: Terms, v: Vector, used: Integers) -> Vector:
    """Return the minimum over some coordinates of the model, with their Ω expanded to second order.

    The second derivative of norm·‖v_G‖ is norm·(I − uu')/‖v_G‖ with u = v_G/‖v_G‖. Its product
    with v_G is 0.
    """
    H, gradient, w = model[:3]
    fixed = v.copy()
    fixed[used] = 0.0
    right = (H @ (w - fixed))[used] if fixed.any() else (H @ w)[used]
    right -= gradient[used] + terms.l1 * np.sign(v[used])
    A = H[np.ix_(used, used)]
    A.flat[:: len(used) + 1] += terms.l2
    if terms.has_norms:
        units = model.terms.units(v)[used]
        right -= terms.norm * units
        stiff = np.divide(terms.norm, model.terms.norms(v)[used])
        A.flat[:: len(used) + 1] += stiff
        members, starts = terms.blocks()
        for block in np.split(members, starts[1:-1]):
            own = units[block]
            A[block[:, None], block] -= stiff[block[0]] * own[:, None] * own
    return invert(A)(right)


# --------------------------------------------------------------------------------------------------
# Proximal Newton with working sets: the default for convex penalties that select features.


@dataclass(frozen=True)
class ProximalSettings:
    """Constants of the proximal Newton method.

    Attributes
    ----------
    sufficient_decrease : float
        Fraction of the predicted decrease that a step must reach (Armijo's condition). Larger
        values shorten steps.
    first_set : int
        Number of features that the first working set may have in addition to those in use.
    least_spare, most_spare : int
        Smallest and largest number of spare features. Their Hessian is computed together with that
        of the working set.
    rows_per_feature, least_rows : int
        Sampled rows per feature for the Hessian of a sample, and their smallest number. Larger
        values make the Hessian more exact and more expensive. With 60 instead of 320 rows per
        feature, a path of 1,088 columns took half the time.
    far : float
        Predicted decrease, relative to the objective, above which the Hessian of a sample is
        used.
    reuse_ratio : float
        Largest ratio of the predicted decreases of two steps at which the Hessian is used again.
        Larger values compute fewer Hessians and take more steps.
    continuation_factor : float
        Ratio of neighbouring values of C in the continuation from w = 0.
    continuation_tol : float
        Relative duality gap of the fits of the continuation.
    whole_cost : float
        Largest cost, in Hessian products, of the Hessian of all features for penalties with norms.
        It serves every working set of a path. If it costs more, products need less time.
    whole_rows, least_whole : int
        Sampled rows per feature for that Hessian, and their smallest number. Steps correct it, so
        few rows suffice: 20 instead of 60 took 0.72 instead of 0.98 processor seconds for a path of
        290 columns.
    matrix_limit : int
        Largest number of features for which the Hessian is a matrix from the first step.
    largest_matrix : int
        Largest number of features for which the Hessian is a matrix once Hessian products have
        cost as much.
    cheap_matrix : float
        The same limit, as n³ per entry of X, for engines that compute the Hessian by level.
    max_products : int
        Largest number of Hessian products in a step without a matrix.
    product_residual : float
        Relative residual of a step without a matrix. Larger values take fewer products.
    model_residual : float
        Accuracy of the minimum of the model, relative to the distance to a critical point. Both
        are in units of the square root of the diagonal of the Hessian.
    sweeps : int
        Sweeps of coordinate descent before a linear system is solved.
    rounds : int
        Largest number of repetitions of sweeps and system in a step.
    smallest_lift, largest_lift : float
        Range of the number by which the diagonal of the Hessian is enlarged, relative to the
        diagonal. It makes the model strictly convex if features are nearly equal.
    flat_diagonal : float
        Factor of g²/f in the smallest diagonal, for features in which no pair has curvature.
    halvings, old_halvings : int
        Halvings of a step before the diagonal is enlarged, or before an old Hessian is replaced.
    """

    sufficient_decrease: float = 1e-4
    first_set: int = 10
    least_spare: int = 5
    most_spare: int = 100
    rows_per_feature: int = 60
    least_rows: int = 20_000
    far: float = 0.01
    reuse_ratio: float = 0.2
    continuation_factor: float = 4.0
    continuation_tol: float = 0.3
    whole_cost: float = 100.0
    whole_rows: int = 20
    least_whole: int = 5000
    matrix_limit: int = 400
    largest_matrix: int = 2000
    cheap_matrix: float = 3000
    max_products: int = 100
    product_residual: float = 0.1
    model_residual: float = 0.01
    sweeps: int = 20
    rounds: int = 100
    smallest_lift: float = 1e-13
    largest_lift: float = 1e12
    flat_diagonal: float = 1e-6
    halvings: int = 8
    old_halvings: int = 2


@dataclass
class ProximalNewton(SparseSolver):
    """Proximal Newton method for l1, the elastic net and groups (Lee, Sun & Saunders 2014).

    Each iteration minimises, over the features of a working set and within their bounds,

        ∇f'δ + ½ δ'Hδ + Ω(w + δ)

    by coordinate descent, where H is the Hessian of f. A line search along δ follows. The working
    set contains the features in use and those that violate optimality most. Its size may double
    from one iteration to the next, so H is small if few features matter. For groups of features,
    the descent is over blocks, and groups join the working set as a whole.

    H costs as much as many gradients, and hardly changes near the optimum. It is reused while the
    predicted decrease falls fast from step to step, and each step updates it by the rule of BFGS.
    The next problem on the same engine also reuses it: for another C, H is multiplied by a number.
    H is computed from a sample of queries, and from all queries if the sample was not effective
    near the optimum.

    If the working set is large, H is not computed. The signs of the weights and the directions of
    the groups are then fixed during a step, and conjugate gradients minimise the model. They need a
    few passes over the data, and no matrix. If these passes have cost as much as the matrix, it is
    computed after all.

    Parameters
    ----------
    settings : ProximalSettings
        Constants of the method.
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), C=1e-4, penalty=L1())
    >>> result = ProximalNewton(tol=1e-6).solve(problem)
    >>> result.converged, result.gap <= 1e-6
    (True, True)
    """

    settings: ProximalSettings = ProximalSettings()
    name: ClassVar[str] = "proximal-newton"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("convex", "group"), bounds=True)
    _engine: Engine | None = state(default=None)  #: that of the curvature
    _curvature: Curvature | None = state(default=None)
    _spent: int = state(default=0)  #: products of steps without a matrix, on this engine
    _diagonal: Vector | None = state(default=None)  #: of the Hessian, at a step without a matrix
    _promise: float = state(default=np.inf)  #: decrease predicted by the last model
    _terms: Terms = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.settings, ProximalSettings):
            raise DataError(f"settings is {self.settings!r}; expected ProximalSettings(...)")

    def _prepare(self) -> None:
        self._promise, self._diagonal = np.inf, None
        self._terms = make_terms(self.problem.penalty, self.problem.n_features)
        if self._engine is not self.problem.engine:
            self._engine, self._curvature, self._spent = self.problem.engine, None, 0

    def _minimise(self) -> Status:
        settings = self.settings
        if not self.point.w.any() and not self.problem.engine.loss.squared:
            self._continue_from_smaller_C()
        lift = settings.smallest_lift
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            features, complete = self._working_set()
            if self._is_large(len(features)) and self._step_by_products(features):
                self._record()
                continue
            if not self._step_by_old_hessian(features):
                self._curvature = self._make_curvature(features, complete)
                while not self._line_search(self._newton_target(features, lift), settings.halvings):
                    if not self._curvature.is_exact:
                        self._curvature = self._make_curvature(features, complete, exact=True)
                        continue
                    lift *= 100.0  # a flat model predicts too large a decrease
                    if lift > settings.largest_lift:
                        small = self._gradient_is_small()
                        return Status.PRECISION if small else self._status_at_rest()
                lift = max(settings.smallest_lift, 0.1 * lift)
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _is_done(self) -> bool:
        """Return whether the rule of `SparseSolver` is met; without a gap, also the decrement.

        If a feature has no cost, there is no gap. The rule then compares the gradient with
        ‖∇f(0)‖, which grows with C, so the rule can be met far from the optimum. The predicted
        decrease of the last step must therefore also be at most `tol` of the objective.
        """
        if self.point.value <= 0.0 and self.point.w.any():
            return True  # neither f nor Ω is ever negative
        if not super()._is_done():
            return False
        if self._gap() is not None or not self.point.w.any() or self._distance() == 0.0:
            return True
        return self._promised_decrease() <= self.tol * self.point.value

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f*; without a lower bound, `_is_done` has found it to be small."""
        return 0.0 if self.bound == -np.inf else super()._excess(goal)

    def promise_at(self, problem: Problem, w: Vector) -> float:
        """Return the decrease of the objective that a proximal Newton step promises from w.

        It is infinite if more features can move than a Hessian has (`largest_matrix`).
        """
        self.problem, self.point = problem, Iterate(w, *problem.value_grad(w))
        self._prepare()
        self._spent = sys.maxsize  # The Hessian is made, whatever it costs.
        return self._promised_decrease() if self._distance() > 0 else 0.0

    def _promised_decrease(self) -> float:
        """Return the decrease that the model promises from the current point.

        The Hessian is made here, because a Hessian of an earlier point can promise too little where
        features are nearly equal. If it is too expensive, the promise of the last step counts.
        """
        features, _ = self._working_set()
        if not len(features) or self._is_large(len(features)):
            return self._promise
        self._curvature = self._make_curvature(features, complete=True, exact=True)
        return -self._slope(self._newton_target(features, self.settings.smallest_lift))

    def _continue_from_smaller_C(self) -> None:
        """Follow rough solutions from a small C, where w = 0 is nearly optimal, to this C.

        Far from the optimum, the curvature of most losses is a poor model. Steps would be short
        and would add many features that are not needed.
        """
        factor = self.settings.continuation_factor
        C, w = factor * self.problem.smallest_C(), self.point.w
        if not C < self.problem.C:
            return
        rough = replace(self, tol=self.settings.continuation_tol, callback=None)
        while C < self.problem.C:
            result = rough.solve(self.problem.with_C(C), w)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            w, C = result.coef, factor * C
        self._curvature, self._spent = rough._curvature, rough._spent
        self.point = Iterate(w, *self.problem.value_grad(w))

    def _working_set(self) -> tuple[Integers, bool]:
        """Return the features in use and the worst violators, and whether these are all.

        Violators are ranked by group, and all violators of a group are taken.
        """
        w = self.point.w
        distance = self.problem.penalty.distance(w, self.point.gradient)
        in_use = np.flatnonzero(w)
        others = np.flatnonzero((w == 0) & (distance > 0))
        room = max(self.settings.first_set, len(in_use))
        complete = len(others) <= room
        if not complete:
            worst = np.argpartition(-self._terms.norms(distance)[others], room)[:room]
            others = self._terms.whole_groups(others[worst], others)
        return np.sort(np.concatenate([in_use, others])), complete

    def _make_curvature(self, features: Integers, complete: bool, exact: bool = False) -> Curvature:
        """Return the Hessian of the working set and of spare features at the current point.

        Spare features are those closest to violating optimality. There are none if the working
        set leaves out violators, because it will then grow. If the Hessian of all features is
        cheap, it has all of them.
        """
        settings, engine, old = self.settings, self.problem.engine, self._curvature
        if old is not None and old.has(features) and not old.is_exact and complete:
            # The last sample was not effective. Near the optimum, all queries are needed.
            exact |= self._promise <= settings.far * self.point.value
        self._curvature = old = None  # frees the old matrix before the new one is made
        if self._has_whole_matrix():
            features = np.arange(self.problem.n_features)
        elif complete:
            missing = self.problem.penalty.slack(self.point.gradient)
            missing[features] = np.inf
            n_spare = min(max(settings.least_spare, len(features) // 2), settings.most_spare)
            n_spare = min(n_spare, len(missing) - len(features))
            spare = np.argpartition(missing, n_spare - 1)[:n_spare] if n_spare else features[:0]
            spare = self._terms.whole_groups(spare, np.flatnonzero(np.isfinite(missing)))
            features = np.sort(np.concatenate([features, spare]))
        n_rows = None if exact else self._rows_for(len(features))
        is_exact = n_rows is None or n_rows >= engine.data.n_docs
        H = self.problem.loss_hessian(features, n_rows)
        return Curvature(features, H, is_exact)

    def _is_large(self, n: int) -> bool:
        """Return whether the Hessian of n features costs more than Hessian products."""
        engine = self.problem.engine
        if engine.makes_hessian_by_level:
            return n**3 > self.settings.cheap_matrix * engine.n_entries
        if self._has_whole_matrix():
            return False
        if n <= self.settings.matrix_limit and not self._terms.has_norms:
            return False
        # Sets of groups grow along a path, and each of them would have a matrix of its own.
        final = engine.n_features if self._terms.has_norms else n
        cost = cost_of_matrix(engine, final, engine.data.n_docs)
        return n > self.settings.largest_matrix or self._spent < cost

    def _has_whole_matrix(self) -> bool:
        """Return whether the Hessian has all features, because it is cheap and serves a path.

        Without norms of groups, few features are in use at first, and a small Hessian is cheaper.
        """
        settings, engine, n = self.settings, self.problem.engine, self.problem.n_features
        if not self._terms.has_norms or n > settings.largest_matrix:
            return False
        n_rows = min(engine.data.n_docs, max(settings.least_whole, settings.whole_rows * n))
        return cost_of_matrix(engine, n, n_rows) <= settings.whole_cost

    def _rows_for(self, n: int) -> int:
        """Return the number of sampled rows for the Hessian of n features."""
        settings = self.settings
        if self._has_whole_matrix():
            return max(settings.least_whole, settings.whole_rows * n)
        return max(settings.least_rows, settings.rows_per_feature * n)

    def _step_by_products(self, features: Integers) -> bool:
        """Take a Newton step with fixed signs, by Hessian products instead of a matrix."""
        full = np.zeros(self.problem.n_features)

        def product(v: Vector) -> Vector:
            full[features] = v
            return self.problem.hessp(full)[features]

        here = self.point
        if self._diagonal is None:  # one of an earlier point of the fit serves as well
            self._diagonal = self.problem.hessian_diagonal()
        step = SignedStep(
            self._terms.of(features), here.w[features], here.gradient[features],
            self._diagonal[features], product,
        )  # fmt: skip
        solved = step.solve(self.settings.product_residual**2, self.settings.max_products)
        self._spent += solved.n_products
        for weights in step.targets(solved):
            target = here.w.copy()
            target[features] = weights
            if self._slope(target) < 0:
                return self._line_search(target, self.settings.halvings)
        return False

    def _step_by_old_hessian(self, features: Integers) -> bool:
        """Take a step with the last Hessian, if it has these features and is still effective."""
        if self._curvature is None or not self._curvature.has(features):
            return False
        settings, before = self.settings, self._promise
        target = self._newton_target(features, settings.smallest_lift)
        enough = max(settings.reuse_ratio * before, ROUNDING * abs(self.point.value))
        is_effective = -self._slope(target) <= enough
        return is_effective and self._line_search(target, settings.old_halvings)

    def _newton_target(self, features: Integers, lift: float) -> Vector:
        """Return the minimiser of the model.

        Both the lift of the diagonal and the accuracy are relative to the diagonal of H. They
        therefore do not depend on the scales of the features.
        """
        assert self._curvature is not None
        settings, here, target = self.settings, self.point, self.point.w.copy()
        distance = self.problem.penalty.distance(here.w, here.gradient)[features]
        H, terms = self.problem.C * self._curvature.of(features), self._terms.of(features)
        least = settings.flat_diagonal * distance**2 / here.value
        curvature = np.maximum(np.abs(np.diag(H)), least)
        floor = np.finfo(float).eps ** 4 * float(curvature.max())
        curvature = (1.0 + lift) * np.maximum(curvature, max(floor, np.finfo(float).tiny))
        H.flat[:: len(features) + 1] = curvature
        # f and Ω are never negative, so no step lowers the objective by more than its value.
        decrease = np.minimum(distance**2 / (curvature + terms.l2), here.value)
        accuracy = settings.model_residual**2 * float(decrease.mean())
        model = QuadraticModel(H, here.gradient[features], target[features], terms, accuracy)
        target[features] = minimise_model(model, settings.sweeps, settings.rounds)
        return target

    def _slope(self, target: Vector) -> float:
        """Return the change of the objective up to the target, with f linearised."""
        here, penalty = self.point, self.problem.penalty
        penalty_change = penalty.value(target) - penalty.value(here.w)
        return float(here.gradient @ (target - here.w)) + penalty_change

    def _line_search(self, target: Vector, halvings: int) -> bool:
        """Move to the target, or ½, ¼, … of the way, until the objective falls enough.

        If rounding hides the change of the objective, a step that ends nearer to a critical point
        is accepted.
        """
        here, penalty = self.point, self.problem.penalty
        slope = self._slope(target)
        self._promise = -slope
        distance = norm(penalty.distance(here.w, here.gradient))
        part = 1.0
        for _ in range(halvings):
            w = target if part == 1.0 else here.w + part * (target - here.w)
            trial = Iterate(w, *self.problem.value_grad(w))
            change = trial.value - here.value
            flat = abs(change) <= ROUNDING * abs(here.value)
            if (slope < 0 and change <= self.settings.sufficient_decrease * part * slope) or (
                flat and norm(penalty.distance(w, trial.gradient)) < 0.9 * distance
            ):
                self.point = trial
                if self._curvature is not None:
                    turn = (trial.gradient - here.gradient) / self.problem.C
                    self._curvature.learn(w - here.w, turn)
                return True
            part *= 0.5
        self.problem.value_grad(here.w)
        return False
