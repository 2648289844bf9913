"""Slow and simple reference implementations of all that linrank computes."""

from __future__ import annotations

import itertools
import math
import re
import sys
from fractions import Fraction

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, sqrtm
from scipy.special import logsumexp

#: Our names, and those of ir_measures. Its RBP needs a relevance level.
IR_MEASURES = {
    "ndcg": "nDCG",
    "ndcg@5": "nDCG@5",
    "map": "AP",
    "map(rel=2)@7": "AP(rel=2)@7",
    "p@5": "P@5",
    "p(rel=2)@3": "P(rel=2)@3",
    "mrr": "RR",
    "recall@5": "R@5",
    "recall(rel=2)@10": "R(rel=2)@10",
    "r-precision": "Rprec",
    "r-precision(rel=2)": "Rprec(rel=2)",
    "hit-rate@1": "Success@1",
    "hit-rate(rel=2)@3": "Success(rel=2)@3",
    "rbp": "RBP(rel=1)",
    "rbp(rel=2, p=0.5)": "RBP(rel=2,p=0.5)",
}


def sorted_documents(keys, docs):
    """Return documents by increasing key, and documents with equal keys by number."""
    return sorted((int(doc) for doc in docs), key=lambda doc: (keys[doc], doc))


def preference_pairs(y, qid):
    """Return all pairs (i, j) of one query with label i > label j."""
    return [
        (i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]
    ]


def adjacent_pairs(y, qid):
    """Return the pairs of adjacent levels: no label of the query lies between the two labels."""
    labels = {q: sorted(set(y[qid == q])) for q in set(qid)}
    return [
        (i, j)
        for i, j in preference_pairs(y, qid)
        if labels[qid[i]].index(y[i]) - labels[qid[i]].index(y[j]) == 1
    ]


def pair_weights(pairs, weight=None, query_weight=None, propensity=None):
    """Return query weight × both document weights / propensity of the upper document, per pair."""
    return np.array(
        [
            (1.0 if query_weight is None else query_weight[i])
            * (1.0 if weight is None else weight[i] * weight[j])
            / (1.0 if propensity is None else propensity[i])
            for i, j in pairs
        ]
    )


def hinge_loss(hinges, t):
    """Return the value and two derivatives of Σ_m a_m·max(0, τ_m − t) + c_m·max(0, τ_m − t)²."""
    gaps = [(tau - t, a, c) for tau, a, c in hinges if tau - t > 0]
    value = sum(a * gap + c * gap**2 for gap, a, c in gaps)
    return value, -sum(a + 2 * c * gap for gap, a, c in gaps), sum(2 * c for _, _, c in gaps)


def logistic_loss(t):
    """Return the value and the first two derivatives of log(1 + exp(−t))."""
    chance = 1 / (1 + math.exp(t))
    return math.log1p(math.exp(-t)), -chance, chance * (1 - chance)


def sum_over_pairs(scores, pairs, loss, weights=None, margins=None):
    """Return value, gradient and Hessian in the scores of Σ_p weight·ℓ(t_p + 1 − margin_p)."""
    value, gradient = 0.0, np.zeros(len(scores))
    hessian = np.zeros((len(scores), len(scores)))
    for p, (i, j) in enumerate(pairs):
        weight = 1.0 if weights is None else weights[p]
        margin = 1.0 if margins is None else margins[p]
        part, slope, second = loss(scores[i] - scores[j] + 1.0 - margin)
        value += weight * part
        gradient[i] += weight * slope
        gradient[j] -= weight * slope
        for one, other in ((i, j), (j, i)):
            hessian[one, one] += weight * second
            hessian[one, other] -= weight * second
    return value, gradient, hessian


def exact_sums(scores, v, pairs, hinges, weights, margins):
    """Compute the sums exactly in fractions, with a bound on the rounding error of floats.

    Returns the value, the gaps of each hinge, the gradient and the product H v, each as a pair
    (result, size). The rounding error is proportional to the size. The size of a sum is the sum
    over its active pairs of weight·(|a| + |c|).
    """
    s, v = [Fraction(x) for x in scores], [Fraction(x) for x in v]
    hinges = [[Fraction(x) for x in row] for row in hinges]
    value, gaps = [Fraction(), Fraction()], [[Fraction(), Fraction()] for _ in hinges]
    gradient, product = ([[Fraction(), Fraction()] for _ in s] for _ in range(2))
    for (i, j), weight, margin in zip(pairs, weights, margins, strict=True):
        weight, margin = Fraction(weight), Fraction(margin)
        for m, (tau, a, c) in enumerate(hinges):
            gap = tau + margin - 1 - (s[i] - s[j])
            if gap <= 0 or not weight:
                continue
            size = weight * (abs(a) + abs(c))
            _add(value, weight * (a * gap + c * gap**2), size)
            _add(gaps[m], weight * gap, weight)
            for k, sign in ((i, 1), (j, -1)):
                _add(gradient[k], -sign * weight * (a + 2 * c * gap), size)
                _add(product[k], sign * 2 * weight * c * (v[i] - v[j]), size)
    return [
        np.array(found, dtype=np.float64).reshape(-1, 2).T
        for found in (value, gaps, gradient, product)
    ]


def _add(total, term, size):
    total[0] += term
    total[1] += size


def pairwise_loss(scores, y, qid, hinges, weight=None, query_weight=None):
    """Return Σ weight·ℓ(s_i − s_j) over the pairs."""
    return pairwise_parts(scores, y, qid, hinges, weight, query_weight)[0]


def pairwise_gradient(scores, y, qid, hinges, weight=None, query_weight=None):
    """Return the gradient of `pairwise_loss` in the scores."""
    return pairwise_parts(scores, y, qid, hinges, weight, query_weight)[1]


def pairwise_hessian(scores, y, qid, hinges, weight=None, query_weight=None):
    """Return the (generalised) Hessian of `pairwise_loss` in the scores, as a matrix."""
    return pairwise_parts(scores, y, qid, hinges, weight, query_weight)[2]


def pairwise_parts(scores, y, qid, hinges, weight=None, query_weight=None):
    """Return the value, gradient and Hessian of `pairwise_loss` in one pass over the pairs."""
    pairs = preference_pairs(y, qid)
    weights = pair_weights(pairs, weight, query_weight)
    return sum_over_pairs(scores, pairs, lambda t: hinge_loss(hinges, t), weights)


def ranksvm_optimum(X, y, qid, C):
    """Minimise the RankSVM objective on explicit differences with scikit-learn's LinearSVC.

    Each difference x_i − x_j is used twice: as it is with label +1, and negated with label −1. With
    C/2 and without an intercept, the problem is the same.
    """
    from sklearn.svm import LinearSVC

    differences = np.array([X[i] - X[j] for i, j in preference_pairs(y, qid)])
    both = np.vstack([differences, -differences])
    labels = np.repeat([1, -1], len(differences))
    svm = LinearSVC(
        loss="squared_hinge", dual=False, fit_intercept=False, C=C / 2, tol=1e-12, max_iter=100_000
    )
    return svm.fit(both, labels).coef_[0]


def optimum(X, pairs, C, loss, weights=None, margins=None):
    """Minimise ½‖w‖² + C·Σ_p weight·ℓ on listed pairs with scipy; ℓ smooth (see `hinge_loss`)."""
    from scipy.optimize import minimize

    differences = np.array([X[i] - X[j] for i, j in pairs])
    weights = np.ones(len(pairs)) if weights is None else weights
    shift = np.zeros(len(pairs)) if margins is None else 1.0 - margins

    def value_grad(w):
        parts = np.array([loss(t) for t in differences @ w + shift])
        value = 0.5 * w @ w + C * weights @ parts[:, 0]
        return value, w + C * differences.T @ (weights * parts[:, 1])

    start = np.zeros(X.shape[1])
    found = minimize(value_grad, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    return found.x, found.fun


def hinge_optimum(X, pairs, C):
    """Minimise ½‖w‖² + C·Σ max(0, 1 − w'x̃) by its dual, a bounded quadratic program."""
    from scipy.optimize import minimize

    differences = np.array([X[i] - X[j] for i, j in pairs])

    def dual(alpha):
        w = differences.T @ alpha
        return 0.5 * w @ w - alpha.sum(), differences @ w - 1.0

    found = minimize(
        dual, np.full(len(pairs), C / 2), jac=True, method="L-BFGS-B",
        bounds=[(0.0, C)] * len(pairs), options={"maxiter": 100_000, "maxfun": 100_000,
                                                 "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return differences.T @ found.x, -found.fun


def bounded_optimum(X, loss, C, low, high, l1=0.0, l2=1.0):
    """Minimise Σ l1|w| + ½ l2 w² + C·L(Xw) for low ≤ w ≤ high, by scipy's L-BFGS-B.

    `loss` maps scores to L and its gradient. Each weight is a difference of two parts ≥ 0, so
    that |w| is smooth in them.
    """
    from scipy.optimize import minimize

    d = X.shape[1]

    def value_grad(parts):
        w, size = parts[:d] - parts[d:], parts[:d] + parts[d:]
        value, slope = loss(X @ w)
        gradient = l2 * w + C * X.T @ slope
        total = l1 * size.sum() + 0.5 * l2 * w @ w + C * value
        return total, np.concatenate([gradient + l1, l1 - gradient])

    sides = [*zip(low, high, strict=True), *zip(-high, -low, strict=True)]
    limits = [(max(a, 0.0), max(b, 0.0) if np.isfinite(b) else None) for a, b in sides]
    found = minimize(
        value_grad, [a for a, _ in limits], jac=True, method="L-BFGS-B", bounds=limits,
        options={"maxiter": 100_000, "maxfun": 200_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
    )  # fmt: skip
    return found.x[:d] - found.x[d:], found.fun


def bounded_hinge_optimum(X, pairs, C, low, high):
    """Minimise ½‖w‖² + C·Σ max(0, 1 − w'x̃) for low ≤ w ≤ high, by its dual.

    The dual is Σα − max_w (u'w − ½‖w‖²) with u = Σ α x̃ and w within the bounds, 0 ≤ α ≤ C.
    """
    from scipy.optimize import minimize

    differences = np.array([X[i] - X[j] for i, j in pairs])

    def dual(alpha):
        u = differences.T @ alpha
        w = np.clip(u, low, high)
        return u @ w - 0.5 * w @ w - alpha.sum(), differences @ w - 1.0

    found = minimize(
        dual, np.full(len(pairs), C / 2), jac=True, method="L-BFGS-B",
        bounds=[(0.0, C)] * len(pairs), options={"maxiter": 100_000, "maxfun": 100_000,
                                                 "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30},
    )  # fmt: skip
    return np.clip(differences.T @ found.x, low, high), -found.fun


def sparse_hinge_optimum(X, pairs, C, low, high):
    """Compute the least Σ|w| + C·Σ max(0, 1 − w'x̃) for low ≤ w ≤ high, as a linear program.

    The variables are the two parts of w = u − v and the slack of each pair.
    """
    from scipy.optimize import linprog

    differences = np.array([X[i] - X[j] for i, j in pairs])
    n, d = differences.shape
    costs = np.concatenate([np.ones(2 * d), np.full(n, C)])
    margins = np.hstack([-differences, differences, -np.eye(n)])
    box = np.hstack([np.eye(d), -np.eye(d), np.zeros((d, n))])
    rows = [margins, box[np.isfinite(high)], -box[np.isfinite(low)]]
    limits = [-np.ones(n), high[np.isfinite(high)], -low[np.isfinite(low)]]
    found = linprog(costs, np.vstack(rows), np.concatenate(limits), method="highs")
    return found.x[:d] - found.x[d : 2 * d], found.fun


def group_optimum(loss, low, high, l1, l2, norm, groups):
    """Minimise f(w) + Σ l1|w| + ½ l2 w² + Σ_G norm_G·‖w_G‖ for low ≤ w ≤ high, for few groups.

    `loss` maps w to f and its gradient, and groups are numbers. The norm of a group is smooth away
    from 0. Every choice of groups that are 0 is therefore tried, with scipy's L-BFGS-B for the
    others.
    """
    from itertools import product

    from scipy.optimize import minimize

    d = len(l1)
    names = np.unique(groups)

    def value_grad(parts):
        w, size = parts[:d] - parts[d:], parts[:d] + parts[d:]
        value, gradient = loss(w)
        value, gradient = value + l1 @ size + 0.5 * l2 @ w**2, gradient + l2 * w
        share = norm * w / np.sqrt(np.bincount(groups, w**2) + 1e-30)[groups]
        gradient += share
        return value + share @ w, np.concatenate([gradient + l1, l1 - gradient])

    best = np.zeros(d), loss(np.zeros(d))[0]
    for kept in product([False, True], repeat=len(names)):
        used = np.isin(groups, names[list(kept)])
        tops = np.concatenate([np.where(used, np.maximum(high, 0), 0.0),
                               np.where(used, np.maximum(-low, 0), 0.0)])  # fmt: skip
        found = minimize(
            value_grad, np.minimum(tops, np.append(np.full(d, 0.2), np.full(d, 0.1))), jac=True,
            method="L-BFGS-B", bounds=[(0.0, top) for top in tops],
            options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-10,
                     "maxcor": 30},
        )  # fmt: skip
        if found.fun < best[1]:
            best = found.x[:d] - found.x[d:], found.fun
    return best


# Metrics of one query at a time. Ties are resolved by trying every order.


def metric_of_list(
    name, labels, *, k=None, gain="exp2", discount="log2", rel=1.0, max_label=None, p=0.8
):
    """Return a metric of labels in ranked order, or None if no document is relevant."""
    n = len(labels)
    k = n if k is None else k
    if name in ("ndcg", "mean-ndcg"):
        gains = [(2.0 ** max(y, 0) - 1 if gain == "exp2" else max(y, 0)) for y in labels]
        if max(gains) == 0:
            return None

        def dcg(values, cutoff):
            letor = discount == "letor"
            return sum(
                value / (max(1.0, math.log2(r)) if letor else math.log2(r + 1))
                for r, value in enumerate(values[:cutoff], start=1)
            )

        at = [dcg(gains, p) / dcg(sorted(gains, reverse=True), p) for p in range(1, n + 1)]
        return sum(at) / n if name == "mean-ndcg" else at[min(k, n) - 1]
    if name == "err":
        if max(labels) <= 0:
            return None
        reached, total = 1.0, 0.0
        for r, y in enumerate(labels[:k], start=1):
            stop = (2.0 ** max(y, 0) - 1) / 2.0**max_label
            total += reached * stop / r
            reached *= 1 - stop
        return total
    relevant = [y >= rel for y in labels]
    if not any(relevant):
        return None
    ranks = [r for r, hit in enumerate(relevant[:k], start=1) if hit]
    found = {
        "p": len(ranks) / k,
        "map": sum((i + 1) / r for i, r in enumerate(ranks)) / sum(relevant),
        "mrr": 1 / ranks[0] if ranks else 0.0,
        "recall": len(ranks) / sum(relevant),
        "r-precision": sum(relevant[: sum(relevant)]) / sum(relevant),
        "hit-rate": 1.0 if ranks else 0.0,
        "rbp": (1 - p) * sum(p ** (r - 1) for r in ranks),
    }
    return found[name]


def orders_of_ties(labels, scores):
    """Yield the labels in every order that sorts the scores in descending order."""
    levels = sorted(set(scores), reverse=True)
    groups = [[y for y, s in zip(labels, scores, strict=True) if s == level] for level in levels]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield list(itertools.chain.from_iterable(parts))


def metric_of_query(name, labels, scores, ties="average", **options):
    """Return a metric of one query: its mean, minimum or maximum over all orders of ties."""
    orders = list(orders_of_ties(labels, scores))
    if ties == "stable":
        orders = orders[:1]  # permutations come in the order of the rows first
    values = [metric_of_list(name, order, **options) for order in orders]
    if values[0] is None:
        return math.nan
    if ties in ("average", "stable"):
        return math.fsum(values) / len(values)
    return min(values) if ties == "pessimistic" else max(values)


def pair_counts(labels, scores):
    """Return the number of correctly ranked pairs (a tie is one half) and of all pairs."""
    pairs = preference_pairs(labels, np.zeros(len(labels)))
    right = sum((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]) for i, j in pairs)
    return right, len(pairs)


def strict_pair_counts(labels, scores):
    """Return the number of correctly ranked pairs (a tie is wrong) and of all pairs."""
    pairs = preference_pairs(labels, np.zeros(len(labels)))
    return sum(scores[i] > scores[j] for i, j in pairs), len(pairs)


def mean_ranks(values):
    """Return the rank of each value among all; equal values have the mean of their ranks."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def spearman(labels, scores):
    """Return the correlation of mean ranks: NaN for equal labels, otherwise 0 for equal scores."""
    if len(set(labels)) == 1 or len(set(scores)) == 1:
        return math.nan if len(set(labels)) == 1 else 0.0
    return float(np.corrcoef(mean_ranks(labels), mean_ranks(scores))[0, 1])


def kendall(labels, scores):
    """Return τ-b over all pairs: NaN for equal labels, otherwise 0 for equal scores."""
    signs = [
        (np.sign(labels[i] - labels[j]), np.sign(scores[i] - scores[j]))
        for i, j in itertools.combinations(range(len(labels)), 2)
    ]
    by_label, by_score = sum(a != 0 for a, _ in signs), sum(b != 0 for _, b in signs)
    if not by_label or not by_score:
        return 0.0 if by_label else math.nan
    return sum(a * b for a, b in signs) / math.sqrt(by_label * by_score)


def read_letor_slow(text):
    """Read LETOR bytes line by line into a list of (label, qid, {index: value}, comment, cost).

    Raises ValueError where `read_letor` must refuse the text with the default options.
    """
    rows = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        content, _, comment = line.partition(b"#")
        if not content.strip():
            continue
        if re.search(rb"[\x00-\x08\x0e-\x1f]", content):
            raise ValueError("a control character")
        label, *tokens = content.split()
        qid = _take_token(tokens, b"qid:")
        cost = _take_token(tokens, b"cost:")
        cost = None if cost is None else _finite(cost)
        if qid == b"" or (cost is not None and cost < 0):
            raise ValueError("an empty qid, or a negative cost")
        entries, previous = {}, -1
        for token in tokens:
            index, value = token.split(b":")
            if not re.fullmatch(rb"[0-9]+", index) or not previous < int(index) < 2**31 - 1:
                raise ValueError(f"index {index!r} behind {previous}")
            previous = int(index)
            entries[previous] = _finite(value)
        qid = None if qid is None else qid.decode()
        rows.append((_finite(label), qid, entries, comment.strip(bytes(range(33))), cost))
    if not any(entries for _, _, entries, *_ in rows):
        raise ValueError("no document, or no feature")
    if len({qid is None for _, qid, *_ in rows}) == 2:
        raise ValueError("a qid on some lines only")
    if all(cost == 0 for *_, cost in rows):
        raise ValueError("all costs are zero")
    return rows


def ids_of_texts(texts):
    """Return ids as integers if Python prints each as it was read, in int64, or as text."""
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return list(texts)
    is_canonical = all(str(n) == text for n, text in zip(numbers, texts, strict=True))
    return numbers if is_canonical and all(-(2**63) <= n < 2**63 for n in numbers) else list(texts)


def _take_token(tokens, prefix):
    """Remove the first token if it begins with a prefix, and return the rest of it."""
    if tokens and tokens[0].startswith(prefix):
        return tokens.pop(0)[len(prefix) :]
    return None


def _finite(token):
    number = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
    if not number.fullmatch(token) or math.isinf(float(token)):
        raise ValueError(f"not a finite number: {token!r}")
    return float(token)


def query_keys(X, query_ptr):
    """Return Σ_i |x_i·v| per query, with v_f = 1 + the fraction of f times the golden ratio."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    v = [1 + (f * 0.6180339887498949) % 1 for f in range(X.shape[1])]
    keys = [abs(sum(x * w for x, w in zip(row, v, strict=True))) for row in X.astype(float)]
    return [sum(keys[a:b]) for a, b in itertools.pairwise(query_ptr)]


def domination_counts(labels, scores):
    """Return the expected domination errors and the number of dominating documents of a query.

    If document i ties with t documents of lower label, i is ranked first with chance 1/(t + 1).
    """
    errors, dominating = 0.0, 0
    for label, score in zip(labels, scores, strict=True):
        lower = [s for y, s in zip(labels, scores, strict=True) if y < label]
        if lower:
            t = lower.count(score)
            errors += 1.0 if max(lower) > score else t / (t + 1)
            dominating += 1
    return errors, dominating


def domination_counts_by_orders(labels, scores):
    """Compute `domination_counts` as the mean over all orders of ties."""
    errors = [
        sum(any(above < label for above in order[:rank]) for rank, label in enumerate(order))
        for order in orders_of_ties(labels, scores)
    ]
    return math.fsum(errors) / len(errors), sum(label > min(labels) for label in labels)


def domination_loss(scores, y, qid, upper=None, lower=None, query_weight=None, margin=None):
    """Return Σ_i u_i·log(1 + Σ_{j∈D(i)} w_j e^{z_j − z_i}), its gradient and its Hessian.

    Derivatives are in the scores. Document i adds u_i·(diag(p) − pp') to the Hessian, where p is
    the softmax distribution over D(i) and i itself.
    """
    n = len(scores)
    given = (upper, lower, query_weight)
    upper, lower, query_weight = (np.ones(n) if w is None else w for w in given)
    z = scores if margin is None else scores - margin
    value, gradient, hessian = 0.0, np.zeros(n), np.zeros((n, n))
    for i in range(n):
        weight = upper[i] * query_weight[i]
        worse = [j for j in range(n) if qid[j] == qid[i] and y[j] < y[i] and lower[j] > 0]
        if weight == 0 or not worse:
            continue
        seen = np.array([i, *worse])
        logs = z[seen] + np.log([1.0, *lower[worse]])
        total = logsumexp(logs)
        p = np.exp(logs - total)
        value += weight * (total - z[i])
        gradient[seen] += weight * p
        gradient[i] -= weight
        hessian[np.ix_(seen, seen)] += weight * (np.diag(p) - np.outer(p, p))
    return value, gradient, hessian


def feature_parts(model, row, documents):
    """The part of each feature in the score of a document of a linear model, step by step."""
    steps, parts = model.preprocessing, []
    for f in range(model.n_features):
        weight = model.scaled_coef[f]
        if steps is None:
            parts.append(weight * row[f])
            continue
        value = _prepared(steps, f, row[f])
        if steps.by_query:
            values = [_prepared(steps, f, x) for x in documents[:, f]]
            width = max(values) - min(values)
            value = (value - min(values)) / width if width > 0 else 0.0
        elif steps.factor is not None:
            value = value * steps.factor[f]  # scores leave out what the shifts contribute
        part = weight * value
        for k, indicated in enumerate(steps.indicators):
            if indicated == f and np.isnan(row[f]):
                part += model.scaled_coef[model.n_features + k]
        parts.append(part)
    return np.array(parts)


def additive_score(model, row):
    """The score of one document without preprocessing, by an additive model."""
    score = 0.0
    for curve in model.curves:
        score += curve_value(curve, float(row[curve.feature]))
    for surface in model.surfaces:
        cells = [
            axis_cell(axis, float(row[f]))
            for axis, f in zip(surface.axes, surface.features, strict=True)
        ]
        score += float(surface.values[cells[0]][cells[1]])
    return score


def axis_cell(axis, x):
    """The cell of a value on an axis."""
    knots = axis.knots.tolist()
    if math.isnan(x):
        return len(knots) + 1
    if axis.levels:
        return knots.index(x) if x in knots else len(knots)
    return sum(knot <= x for knot in knots)


def curve_value(curve, x):
    """The value of a curve at a finite or missing value, by Horner's rule."""
    knots, cell = curve.axis.knots.tolist(), axis_cell(curve.axis, x)
    left, width = 0.0, 1.0
    if knots and not curve.axis.levels:
        left = knots[max(cell - 1, 0)] if cell <= len(knots) else 0.0
    if len(knots) > 1 and not curve.axis.levels:
        inner = min(max(cell, 1), len(knots) - 1)
        width = knots[inner] - knots[inner - 1]
    t = 0.0 if math.isnan(x) else (x - left) / width
    t = min(max(t, -sys.float_info.max), sys.float_info.max)
    value = 0.0
    for coefficient in reversed(curve.pieces[cell].tolist()):
        value = value * t + coefficient
    return value


def _prepared(steps, f, x):
    if np.isnan(x):
        x = steps.fill[f]
    if steps.log:
        x = math.copysign(math.log1p(abs(x)), x)
    if steps.low is not None:
        x = min(max(x, steps.low[f]), steps.high[f])
    return float(x)


def signed_log(x):
    """Return sign(x)·log(1 + |x|) of a number."""
    return math.copysign(math.log(1 + abs(x)) if abs(x) > 1e-4 else math.log1p(abs(x)), x)


def score_by_terms(terms, row):
    """Return the score of one document, given as a dict, by the formula of each term."""
    total = 0.0
    for term in terms:
        x = row[term.name]
        if math.isnan(x):
            total += term.missing
            continue
        x = signed_log(x) if term.log else x
        x = x if term.low is None else min(max(x, term.low), term.high)
        total += term.weight * x
    return total


def query_level_norm(X, qid):
    """Return (x − min)/(max − min) of each feature within each query, as LETOR's QueryLevelNorm."""
    out = np.zeros(X.shape)
    for q in set(qid.tolist()):
        rows = np.flatnonzero(qid == q)
        for f in range(X.shape[1]):
            low, high = min(X[rows, f]), max(X[rows, f])
            for i in rows if high > low else ():
                out[i, f] = (X[i, f] - low) / (high - low)
    return out


def randomization_p_value(a, b, alternative):
    """Return the share of all choices of signs whose mean difference is as extreme as the given.

    Values that are equal up to rounding errors have the difference 0.
    """
    known = [(x, y) for x, y in zip(a, b, strict=True) if not math.isnan(x - y)]
    d = [0.0 if math.isclose(x, y, rel_tol=1e-12) else x - y for x, y in known]
    if not d:
        return 1.0
    size = {"two-sided": abs, "greater": lambda x: x, "less": lambda x: -x}[alternative]
    choices = itertools.product([1, -1], repeat=len(d))
    sums = [size(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in choices]
    return sum(total >= size(sum(d)) - 1e-12 * sum(map(abs, d)) for total in sums) / len(sums)


def closed_bonferroni(p):
    """Return adjusted p-values: the largest Bonferroni p-value of any set with the hypothesis."""
    sets = [
        chosen
        for size in range(1, len(p) + 1)
        for chosen in itertools.combinations(range(len(p)), size)
    ]
    bonferroni = {chosen: min(1.0, len(chosen) * min(p[j] for j in chosen)) for chosen in sets}
    return [max(bonferroni[chosen] for chosen in sets if i in chosen) for i in range(len(p))]


def maximal_groups(ranks, critical_difference):
    """Return the largest sets of at least two methods whose ranks all differ by less than this."""
    groups = [
        frozenset(chosen)
        for size in range(2, len(ranks) + 1)
        for chosen in itertools.combinations(range(len(ranks)), size)
        if max(ranks[i] for i in chosen) - min(ranks[i] for i in chosen) < critical_difference
    ]
    return {group for group in groups if not any(group < other for other in groups)}


def adarank(X, measure, weight, n_rounds, update, tol=None, patience=1, max_consecutive=1):
    """Return the features, α and mean metrics of the rounds of AdaRank that are kept.

    `measure` returns E_q of scores for every query, or NaN if it is undefined. `weight` holds one
    number per query.
    """
    start = np.where(np.isnan(measure(np.zeros(len(X)))), 0.0, weight)
    start = start / start.sum()
    P, scores, rounds = start, np.zeros(len(X)), []
    best, kept = -np.inf, 0
    while len(rounds) < n_rounds and len(rounds) - kept < patience:
        chosen = [k for k, _, _ in rounds]
        allowed = [
            k for k in range(X.shape[1])
            if X.shape[1] == 1 or max_consecutive is None
            or chosen[-max_consecutive:] != [k] * max_consecutive
        ]  # fmt: skip
        means = {k: np.nansum(P * measure(X[:, k])) for k in allowed}
        k = next(k for k in allowed if means[k] >= max(means.values()) - 1e-12)
        mean_of_k = min(means[k], 1 - 1e-10)
        alpha = 0.5 * math.log((1 + mean_of_k) / (1 - mean_of_k))
        scores = scores + alpha * X[:, k]
        mean = np.nansum(start * measure(scores))
        rounds.append((k, alpha, mean))
        if tol is None or mean > best + tol + 1e-12:
            best, kept = mean, len(rounds)
        if update == "literal":
            P = start * np.exp(-np.nan_to_num(measure(scores)))
        else:
            P = P * np.exp(-alpha * np.nan_to_num(measure(X[:, k])))
        P = P / P.sum()
    return [np.array(column) for column in zip(*rounds[:kept], strict=True)]


def rankboost(X, y, qid, n_rounds, weight=None, query_weight=None):
    """Return the stumps (features, θ, α, defaults) and losses of RankBoost over listed pairs.

    All thresholds of all features are tried one by one, each with both defaults if the feature has
    missing values. A feature with missing values is also compared with the smallest number.
    """
    pairs = preference_pairs(y, qid)
    start = pair_weights(pairs, weight, query_weight)
    pairs, start = np.array(pairs)[start > 0], start[start > 0] / start.sum()
    used = np.unique(pairs)
    D, H, found, losses = start, np.zeros(len(y)), [], [1.0]
    for _ in range(n_rounds):
        best, best_h = (None, None, 0.0, None), None
        for f in range(X.shape[1]):
            values = [x for x in X[used, f] if not np.isnan(x)]
            thresholds, defaults = sorted(set(values))[:-1], [0]
            if 0 < len(values) < len(used):
                thresholds, defaults = [np.finfo(float).min, *thresholds], [0, 1]
            for theta, default in itertools.product(thresholds[::-1], defaults):
                h = np.where(np.isnan(X[:, f]), default, X[:, f] > theta)
                r = D @ (h[pairs[:, 0]] - h[pairs[:, 1]])
                if abs(r) > abs(best[2]) + 1e-12:
                    best, best_h = (f, theta, r, default), h
        f, theta, r, default = best
        r = min(max(r, 1e-10 - 1), 1 - 1e-10)
        alpha = 0.5 * math.log((1 + r) / (1 - r))
        H = H + alpha * best_h
        D = start * np.exp(H[pairs[:, 1]] - H[pairs[:, 0]])
        losses.append(D.sum())
        found.append((f, theta, alpha, default))
        D = D / D.sum()
    return [np.array(column) for column in zip(*found, strict=True)], np.array(losses)


def interaction_gain(first, second, gradient, curvature, ridge):
    """The decrease of the quadratic model by all cells of a grid, beyond rows plus columns.

    The number of free values comes second.

    The decrease of a model g'f + ½ f'Hf of the values f = Bv is ½ g'B(B'HB)⁺B'g.
    """
    _, cells = np.unique(first * (1 + second.max()) + second, return_inverse=True)
    g, h = np.bincount(cells, gradient), np.bincount(cells, curvature)
    h = h + ridge
    _, where = np.unique(cells, return_index=True)
    rows = (first[where][:, None] == np.unique(first)).astype(float)
    columns = (second[where][:, None] == np.unique(second)).astype(float)
    B = np.hstack([rows, columns])
    A = B.T @ (h[:, None] * B)
    free = len(g) - np.linalg.matrix_rank(B)
    explained = (B.T @ g) @ np.linalg.pinv(A, hermitian=True) @ (B.T @ g)
    return 0.5 * (g @ (g / h) - explained), free


def pair_columns(pair, X):
    """The columns of a pair of features, document by document."""
    first, second = (
        axis.cells(X[:, j].astype(float)) for j, axis in zip(pair.features, pair.axes, strict=True)
    )
    return np.array([
        pair.columns[a * pair.axes[1].n_cells + b] for a, b in zip(first, second, strict=True)
    ]).reshape(len(X), -1)  # fmt: skip


def design_of_curves(positions, starts, degree):
    """Return the dense design matrix of curves, one column per number of their table.

    If `degree` is None, the numbers are the values at the nodes, and curves are linear between
    nodes. Otherwise they are the coefficients of polynomials in z − b, one for each bin b: first
    all constants, then all coefficients of z − b, and so on.
    """
    n_rows, n = positions.shape[1], starts[-1]
    X = np.zeros((n_rows, n * (1 if degree is None else degree + 1)))
    for j, start in enumerate(starts[:-1]):
        for i in range(n_rows):
            z = float(positions[j, i]) / (4096 if positions.dtype == np.uint16 else 1)
            b = math.floor(z)
            if degree is None:
                X[i, start + b] = 1 - (z - b)
                if z > b:
                    X[i, start + b + 1] = z - b
            else:
                for power in range(degree + 1):
                    X[i, power * n + start + b] = (z - b) ** power
    return X


def columns_of_bins(positions, shapes):
    """Return the columns of a `BinnedMatrix`, which are sums of those of `design_of_curves`."""
    starts = np.concatenate([[0], np.cumsum([shape.shape[1] for shape in shapes])])
    n_powers = len(shapes[0])
    design = design_of_curves(positions, starts, None if n_powers == 1 else n_powers - 1)
    return design @ np.concatenate(
        [block_diag(*[shape[power] for shape in shapes]) for power in range(n_powers)]
    )


def merged_values(values):
    """Distinct values, of which runs that differ by rounding are one; pair by pair."""
    values = sorted({float(v) + 0.0 for v in values})
    most, largest = 1e-3 * (values[-1] - values[0]), max(map(abs, values))
    with np.errstate(over="ignore", invalid="ignore"):
        is_coarse = np.spacing(np.float32(largest)) > most

    def alike(low, high):
        apart, size = high - low, max(abs(low), abs(high))
        with np.errstate(over="ignore"):
            single = float(np.float32(low)), float(np.float32(high))
        equal = single[0] == single[1] and np.isfinite(single[0])
        near = not is_coarse and apart <= most and (equal or apart <= 1e-6 * size)
        return near or apart <= 1e-14 * size

    runs = [[values[0]]]
    for low, high in itertools.pairwise(values):
        if alike(low, high):
            runs[-1].append(high)
        else:
            runs.append([high])
    return [v for run in runs for v in (run[:1] if alike(run[0], run[-1]) else run)]


def positions_of_values(X, axes, basis, fixed=False):
    """Return the positions of values, one feature at a time, from the cells of its axis.

    They have single precision; with `fixed`, they are integers of 16 bits in units of 1/4096. In
    both types, a value below a knot has a position below that of the knot.
    """
    found = []
    for x, axis in zip(X.T.astype(np.float64), axes, strict=True):
        cells, n = axis.cells(x), len(axis.knots)
        inside = (cells > 0) & (cells < n) & (basis != "step") & (not axis.levels)
        t = np.where(inside, axis.places(np.where(inside, x, 0.0), cells), 0.0)
        if basis == "ramp" and not axis.levels and n:
            cells = np.maximum(cells - 1, 0)
        if fixed:
            steps = np.minimum(np.floor(t * 4096 + 0.5), 4095)
            found.append((cells * 4096 + steps).astype(np.uint16))
        else:
            found.append((cells + np.minimum(t, 1.0 - (cells + 1) * 2.0**-23)).astype(np.float32))
    return np.array(found)


def additive_design(X, axes, basis, smooth=0.0, forms=None):
    """Return the columns of an additive ranker, their limits and features, from knots alone."""
    found, low, high, owner = [], [], [], []
    for f, (x, axis) in enumerate(zip(X.T, axes, strict=True)):
        lacks, form = np.isnan(x), (forms or {}).get(f)
        columns = _additive_columns(x, axis, basis, form)
        limits = _additive_limits(form, columns.shape[1])
        if form is None and not axis.levels and columns.shape[1] > 1:
            steps = np.diff(np.eye(columns.shape[1]), axis=0)
            columns = columns @ np.linalg.inv(
                sqrtm(np.eye(len(steps.T)) + smooth * steps.T @ steps)
            )
        columns[lacks] = 0.0
        if lacks.any() and not lacks.all():
            columns[~lacks] -= columns[~lacks].mean(axis=0)
            columns = np.column_stack([columns, lacks])
            limits = np.column_stack([limits, [-np.inf, np.inf]])
        found.append(columns)
        low.append(limits[0])
        high.append(limits[1])
        owner.append(np.full(columns.shape[1], f))
    low, high = np.concatenate(low), np.concatenate(high)
    return np.column_stack(found), low, high, np.concatenate(owner)


def _additive_columns(x, axis, basis, form):
    knots, n = axis.knots, len(axis.knots)
    if axis.levels:
        found = (x[:, None] == knots).astype(float)
        counts = found.sum(axis=0)
        return found * np.sqrt(counts / (counts + 10))
    if basis == "step":
        return (x[:, None] >= knots).astype(float)
    if n < 2:
        return np.empty((len(x), 0))
    x = np.clip(x, knots[0], knots[-1])
    if basis == "spline":
        padded = np.concatenate([knots[:1]] * 3 + [knots] + [knots[-1:]] * 3)
        later = [np.arange(n + 2) > b for b in range(n + 1)]
        return np.column_stack([BSpline(padded, c.astype(float), 3)(x) for c in later])
    if form is None or form in ("increasing", "decreasing"):
        return np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    if form in ("increasing concave", "decreasing convex"):  # a slope up to each knot
        return (np.minimum(x[:, None], knots[1:]) - knots[0]) / np.ptp(knots)
    return np.maximum(x[:, None] - knots[:-1], 0.0) / np.ptp(knots)  # a slope from each knot on


def _additive_limits(form, n):
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    words = (form or "").split()
    if "increasing" in words or words == ["convex"]:
        low[:] = 0.0
    if "decreasing" in words or words == ["concave"]:
        high[:] = 0.0
    if words in (["convex"], ["concave"]):
        low[:1], high[:1] = -np.inf, np.inf
    return np.array([low, high])
