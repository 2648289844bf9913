"""RankSVM with kernels: all methods reach the same optimum, which is computed independently."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from linrank import (
    DataError,
    NotConvergedWarning,
    QueryKFold,
    RankingData,
    RankSVM,
    make_problem,
    ndcg,
)
from linrank.estimators import kernel_ranksvm as module
from linrank.estimators.kernel_ranksvm import (
    KernelProblem,
    KernelRankSVM,
    cholesky_map,
    eigen_map,
    nystroem_map,
)
from linrank.solvers import make_solver
from problems import PAPERS, as_form, make_problem_arrays

EXACT = ["cholesky", "eigen", "newton"]


@pytest.fixture(scope="module")
def arrays():
    """A problem with three queries in random row order."""
    return make_problem_arrays("five levels", n=80)


def fit(arrays, kernel="rbf", **options):
    options = {"tol": 1e-9, "random_state": 0} | options
    return KernelRankSVM(kernel, **options).fit(*arrays)


def differences(scores, qid):
    """Return scores without the mean of their query, which does not change a ranking."""
    scores = scores.copy()
    for q in np.unique(qid):
        scores[qid == q] -= scores[qid == q].mean()
    return scores


@parametrize_with_checks([KernelRankSVM()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# The optimum -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_reaches_the_optimum_of_an_independent_minimiser(arrays, method, C):
    """½‖w‖² + C·Σ over explicit pairs, by scipy's BFGS on ψ = UΛ^½."""
    X, y, qid = arrays
    K = rbf_kernel(X, gamma=0.3)
    values, vectors = np.linalg.eigh(K)
    psi = vectors * np.sqrt(np.maximum(values, 0))
    pairs = np.array(reference.preference_pairs(y, qid))
    differ = psi[pairs[:, 0]] - psi[pairs[:, 1]]

    def objective(w):
        gap = np.maximum(0.0, 1.0 - differ @ w)
        return 0.5 * w @ w + C * gap @ gap, w - 2 * C * differ.T @ gap

    twin = minimize(objective, np.zeros(80), jac=True, options={"gtol": 1e-7, "maxiter": 2000})
    ranker = fit(arrays, gamma=0.3, C=C, method=method)
    assert ranker.result_.converged
    assert ranker.result_.objective == pytest.approx(twin.fun, rel=1e-8)
    found = differences(ranker.predict(X), qid)
    np.testing.assert_allclose(found, differences(psi @ twin.x, qid), atol=1e-5)
    assert ranker.n_pairs_ == len(pairs)


@pytest.mark.parametrize("method", [*EXACT, "nystroem"])
def test_the_linear_kernel_is_ranksvm(arrays, method):
    """With more documents than features, the kernel matrix is singular."""
    X, y, qid = arrays
    linear = RankSVM(0.5, tol=1e-9, **PAPERS).fit(X, y, qid)
    ranker = fit(arrays, "linear", C=0.5, method=method)
    assert ranker.result_.objective == pytest.approx(linear.result_.objective, rel=1e-9)
    np.testing.assert_allclose(ranker.predict(X), linear.predict(X), atol=1e-6)
    assert ranker.n_components_ == (80 if method == "newton" else 4)
    assert len(ranker.dual_coef_) == (4 if method == "cholesky" else 80)


@pytest.mark.parametrize("C", [1e3, 1e5])
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_that_rounding_ends_gives_no_warning(C, seed):
    """K is nearly singular, so β is large, and the rounding of Kβ hides the slope."""
    arrays = make_problem_arrays("five levels", n=80, seed=seed)
    ranker = fit(arrays, "rbf", C=C, gamma=1e-3, method="newton")
    assert ranker.result_.converged
    other = fit(arrays, "rbf", C=C, gamma=1e-3, method="eigen")
    assert ranker.result_.objective == pytest.approx(other.result_.objective, rel=1e-4)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("rbf", {"gamma": 0.5}),
        ("rbf", {"gamma": 1e-3}),
        ("poly", {"degree": 2, "coef0": 0.5}),
        ("laplacian", {}),
        ("cosine", {}),
    ],
)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_all_routes_meet(arrays, kernel, options, C):
    X, _, qid = arrays
    first, *others = (
        fit(arrays, kernel, C=C, method=method, n_components=80, **options)
        for method in (*EXACT, "nystroem")
    )
    expected = differences(first.predict(X), qid)
    for other in others:
        assert other.result_.converged
        assert other.result_.objective == pytest.approx(first.result_.objective, rel=1e-6)
        found = differences(other.predict(X), qid)
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("method", [*EXACT, "nystroem"])
def test_documents_given_twice_span_nothing_new(arrays, method):
    X, y, qid = arrays
    twice = np.concatenate([np.arange(80), np.arange(80)])
    ranker = fit((X[twice], y[twice], qid[twice]), gamma=0.5, C=0.1, method=method)
    once = KernelRankSVM(gamma=0.5, C=0.1, tol=1e-9).fit(X, y, qid, sample_weight=np.full(80, 2.0))
    assert ranker.result_.objective == pytest.approx(once.result_.objective, rel=1e-7)
    new = np.random.default_rng(3).standard_normal((30, 4))
    np.testing.assert_allclose(ranker.predict(new), once.predict(new), atol=1e-6)
    rank = np.linalg.matrix_rank(rbf_kernel(X, gamma=0.5), tol=1e-10)
    assert ranker.n_components_ == (160 if method == "newton" else rank)


@pytest.mark.parametrize("method", [*EXACT, "nystroem"])
def test_rounding_of_features_far_from_zero_is_survived_or_told(arrays, method):
    """Distances of points around 1e4 have errors of 1e-8, and so has the kernel."""
    X, y, qid = arrays
    near = fit(arrays, gamma=1e-3, tol=1e-6)
    far = fit((X + 1e4, y, qid), gamma=1e-3, tol=1e-6, method=method)
    assert far.result_.converged
    assert far.result_.objective == pytest.approx(near.result_.objective, rel=1e-5)
    with pytest.raises(DataError, match="far from 0 can cause this by rounding"):
        fit((X + 1e8, y, qid), gamma=1e-3, method=method)


def test_nystroem_is_that_of_scikit_learn(arrays):
    X, y, qid = arrays
    ranker = fit(arrays, gamma=0.5, method="nystroem", n_components=25)
    assert (ranker.n_components_, ranker.X_fit_.shape) == (25, (25, 4))
    twin = Nystroem(gamma=0.5, n_components=25).fit(ranker.X_fit_)
    linear = RankSVM(C=1.0, tol=1e-9, **PAPERS).fit(twin.transform(X), y, qid)
    assert ranker.result_.objective == pytest.approx(linear.result_.objective, rel=1e-8)
    np.testing.assert_allclose(ranker.predict(X), linear.predict(twin.transform(X)), atol=1e-6)
    other = fit(arrays, gamma=0.5, method="nystroem", n_components=25, random_state=1)
    assert other.result_.objective != ranker.result_.objective


def test_auto_is_exact_until_that_costs_too_much(arrays, monkeypatch):
    assert fit(arrays).method_ == "cholesky"
    monkeypatch.setattr(module, "EXACT_LIMIT", 79)
    ranker = fit(arrays, n_components=30)
    assert (ranker.method_, ranker.n_components_) == ("nystroem", 30)


# Feature maps ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [cholesky_map, eigen_map])
@pytest.mark.parametrize("kind", ["full", "singular"])
def test_products_of_coordinates_are_the_kernel(arrays, make, kind):
    """ψ(x_i)'ψ(x_j) = k(x_i, x_j), and w'ψ(x) = Σ β_i k(x, x_i)."""
    X, _, _ = arrays
    K = pairwise_kernels(X, metric="laplacian" if kind == "full" else "linear")
    features = make(K.copy())
    assert features.psi.shape[1] == (80 if kind == "full" else 4)
    np.testing.assert_allclose(features.psi @ features.psi.T, K, atol=1e-12)
    w = np.random.default_rng(0).standard_normal(features.psi.shape[1])
    np.testing.assert_allclose(K[:, features.anchors] @ features.dual(w), features.psi @ w)
    A = features.dual(np.eye(len(w)))
    own = K[np.ix_(features.anchors, features.anchors)]
    np.testing.assert_allclose(A.T @ own @ A, np.eye(len(w)), atol=1e-9)


def test_nystroem_projects_onto_the_span_of_its_anchors(arrays):
    X, _, _ = arrays
    anchors = np.array([3, 50, 7])
    features = nystroem_map(laplacian_kernel, X, X, anchors)
    K = laplacian_kernel(X)
    expected = K[:, anchors] @ np.linalg.solve(K[np.ix_(anchors, anchors)], K[anchors])
    np.testing.assert_allclose(features.psi @ features.psi.T, expected, atol=1e-12)


def test_derivatives_of_the_problem_in_beta(arrays):
    X, y, qid = arrays
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    problem = KernelProblem(make_problem(RankingData(rbf_kernel(X), y, qid)).engine, 0.7)
    rng = np.random.default_rng(0)
    w, v = rng.standard_normal((2, 80))
    value, gradient = problem.value_grad(w)
    K = rbf_kernel(X)
    loss = reference.pairwise_loss(K @ w, y, qid, [(1.0, 0.0, 1.0)])
    assert value == pytest.approx(0.5 * w @ K @ w + 0.7 * loss)
    step = 1e-6
    ahead, behind = problem.value_grad(w + step * v), problem.value_grad(w - step * v)
    assert (ahead[0] - behind[0]) / (2 * step) == pytest.approx(gradient @ v, rel=1e-6)
    problem.value_grad(w)
    product, H = problem.hessp(v), problem.hessian()
    np.testing.assert_allclose(H @ v, product, rtol=1e-9)
    curve = reference.pairwise_hessian(K @ w, y, qid, [(1.0, 0.0, 1.0)])
    np.testing.assert_allclose(H, K + 0.7 * K @ curve @ K, atol=1e-8)
    assert (problem.hessian(problem.engine.hessian_diagonal()) > 0).all()
    half = make_solver("newton", tol=1e-9).solve(problem.with_C(0.35))
    assert half.objective == pytest.approx(fit((X, y, qid), C=0.35, gamma=0.25).result_.objective)


# Input -------------------------------------------------------------------------------------


def own_kernel(x, z, scale=1.0):
    return float(np.exp(-0.3 * scale * ((x - z) ** 2).sum()))


def test_functions_and_precomputed_matrices_are_kernels_too(arrays):
    X, y, qid = arrays
    new = np.random.default_rng(5).standard_normal((20, 4))
    expected = fit(arrays, gamma=0.6).predict(new)
    own = fit(arrays, own_kernel, kernel_params={"scale": 2.0})
    np.testing.assert_allclose(own.predict(new), expected, atol=1e-7)
    for method in (*EXACT, "nystroem"):
        ranker = fit((rbf_kernel(X, gamma=0.6), y, qid), "precomputed", method=method)
        found = ranker.predict(rbf_kernel(new, X, gamma=0.6))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        with pytest.raises(DataError, match="the kernel is not symmetric"):
            fit(
                (rbf_kernel(X) + np.triu(np.ones((80, 80)), 1), y, qid),
                "precomputed",
                method=method,
            )
    with pytest.raises(DataError, match=r"X has shape \(80, 4\); a precomputed .* is square"):
        fit(arrays, "precomputed")


def test_folds_of_a_precomputed_matrix(arrays):
    X, y, qid = arrays
    options = {"cv": QueryKFold(3), "params": {"qid": qid}}
    with sklearn.config_context(enable_metadata_routing=True):
        expected = cross_validate(KernelRankSVM(gamma=0.6), X, y, **options)
        K = rbf_kernel(X, gamma=0.6)
        found = cross_validate(KernelRankSVM("precomputed"), K, y, **options)
    np.testing.assert_allclose(found["test_score"], expected["test_score"], rtol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "cosine"])
@pytest.mark.parametrize("form", ["csr64", "csr32", "dense32"])
def test_forms_give_the_same_scores(arrays, kernel, form):
    X, y, qid = arrays
    X = X.astype(np.float32).astype(np.float64)
    expected = fit((X, y, qid), kernel).predict(X)
    found = fit((as_form(X, form), y, qid), kernel).predict(as_form(X, form))
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("method", ["cholesky", "eigen", "nystroem"])
def test_row_order_and_type_of_qid_do_not_matter(arrays, method):
    X, y, qid = arrays
    options = {"method": method, "n_components": 30}
    expected = fit(arrays, **options).predict(X)
    shuffle = np.random.default_rng(0).permutation(80)
    names = np.array([f"q{-q}" for q in qid])
    other = fit((X[shuffle], y[shuffle], names[shuffle]), **options)
    np.testing.assert_allclose(other.predict(X), expected, atol=1e-6)


def test_documents_without_pairs_are_left_out(arrays):
    X, y, qid = arrays
    expected = fit(arrays)
    more = np.random.default_rng(0).standard_normal((50, 4))
    X2, y2 = np.vstack([more, X]), np.concatenate([np.ones(50), y])
    weight, query_weight = np.ones(130), np.ones(130)
    q2 = np.concatenate([np.repeat([7, 8, 0], [20, 10, 20]), qid])  # 7: one level
    y2[20:30], query_weight[20:30] = np.arange(10), 0.0
    weight[30:50] = 0.0
    ranker = KernelRankSVM(tol=1e-9).fit(X2, y2, q2, weight, query_weight)
    assert ranker.X_fit_.shape == (80, 4)
    assert (ranker.n_queries_, ranker.n_pairs_) == (5, expected.n_pairs_)
    np.testing.assert_allclose(ranker.predict(X), expected.predict(X), atol=1e-9)
    K = rbf_kernel(X2, gamma=0.25)
    given = KernelRankSVM("precomputed", tol=1e-9).fit(K, y2, q2, weight, query_weight)
    np.testing.assert_allclose(given.predict(K[50:]), expected.predict(X), atol=1e-9)


@pytest.mark.parametrize("normalize", [None, "pairs", "queries"])
def test_weights_and_normalization_are_those_of_ranksvm(arrays, normalize):
    X, y, qid = arrays
    weights = np.random.default_rng(0).random(80), np.array([1.0, 2.0, 0.5])[qid]
    linear = RankSVM(30.0, tol=1e-9, normalize=normalize, scale=None).fit(X, y, qid, *weights)
    ranker = KernelRankSVM("linear", C=30.0, tol=1e-9, normalize=normalize)
    np.testing.assert_allclose(
        ranker.fit(X, y, qid, *weights).predict(X), linear.predict(X), atol=1e-7
    )


@pytest.mark.parametrize(
    ("loss", "solver"),
    [("hinge", "auto"), ("huber", "auto"), ("logistic", "tron"), ("squared_hinge", "lbfgs")],
)
def test_losses_and_solvers_are_those_of_ranksvm(arrays, loss, solver):
    X, y, qid = arrays
    options = {"loss": loss, "solver": solver, "tol": 1e-6, "max_iter": 10_000}
    linear = RankSVM(0.1, **PAPERS | options).fit(X, y, qid)
    for method in ("cholesky", "eigen"):
        ranker = KernelRankSVM("linear", C=0.1, method=method, **options).fit(X, y, qid)
        assert ranker.result_.objective == pytest.approx(linear.result_.objective, rel=2e-6)
    if loss == "hinge" or solver == "lbfgs":
        with pytest.raises(DataError, match="method='newton' works with solver='newton' or 'tron'"):
            KernelRankSVM("linear", method="newton", **options).fit(X, y, qid)


def test_scores_are_computed_in_chunks_and_threads(arrays, monkeypatch):
    X, _, _ = arrays
    ranker = fit(arrays)
    expected = rbf_kernel(X, ranker.X_fit_, gamma=0.25) @ ranker.dual_coef_
    np.testing.assert_allclose(ranker.predict(X), expected, atol=1e-12)
    monkeypatch.setattr("linrank.estimators.kernel_ranksvm.CHUNK_BYTES", 8 * 80 * 7)
    seen = []
    monkeypatch.setattr(
        "linrank.estimators.kernel_ranksvm.kernel_rows",
        lambda X: seen.append(X.shape[0]) or np.asarray(X),
    )
    np.testing.assert_allclose(ranker.set_params(n_threads=3).predict(X), expected, atol=1e-12)
    assert sorted(seen) == [3] + [7] * 11


def test_the_surface_is_that_of_ranksvm(arrays, capsys):
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "age", "clicks"])
    ranker = KernelRankSVM(verbose=True).fit(frame, y, qid=qid)
    assert len(capsys.readouterr().out.splitlines()) == ranker.result_.n_iter + 1
    assert ranker.feature_names_in_.tolist() == list(frame.columns)
    scores = ranker.predict(frame)
    assert ranker.score(frame, y, qid) == ndcg(y, scores, qid, k=10)
    with pytest.raises(DataError, match="fitted with qid, so score needs qid too"):
        ranker.score(frame, y)
    with pytest.raises(DataError, match="fitted with qid, so rank needs qid too"):
        ranker.rank(frame)
    assert sorted(ranker.rank(frame, np.zeros(80))) == list(range(1, 81))
    assert clone(ranker).get_params() == ranker.get_params()
    other = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(other.predict(frame), scores)
    X[0, 0], before = 1e3, X[0, 0]  # the model keeps its own copy
    after = ranker.predict(frame.iloc[1:])
    X[0, 0] = before
    np.testing.assert_allclose(after, scores[1:], atol=1e-12)


def test_unfinished_training_warns_and_ctrl_c_keeps_what_there_is(arrays, monkeypatch):
    with pytest.warns(NotConvergedWarning, match="largest number of iterations"):
        fit(arrays, C=100.0, max_iter=1)
    steps = []

    def interrupt(C, step, fold):
        steps.append(step)
        if len(steps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "print_step", interrupt)
    ranker = KernelRankSVM(C=100.0, tol=1e-9, verbose=True)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(*arrays)
    assert ranker.result_.objective == steps[-1].objective
    assert np.isfinite(ranker.predict(arrays[0])).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "magic"}, "kernel is 'magic'; known .* 'precomputed', .* 'rbf', .* function"),
        ({"method": "magic"}, "known choices are 'auto', 'cholesky', 'eigen', 'newton', 'nystr"),
        ({"loss": "magic"}, "loss is 'magic'; known choices are 'squared_hinge'"),
        ({"solver": "magic"}, "solver is 'magic'; known choices are 'auto'"),
        ({"kernel_params": {"gama": 1.0}}, "kernel_params has 'gama'; kernel 'rbf' takes gamma"),
        ({"kernel": "linear", "kernel_params": {"gamma": 1}}, "'linear' takes no parameters"),
        ({"n_components": 0}, "n_components is 0; expected a whole number"),
        ({"max_memory": "1 GB"}, "max_memory is '1 GB'; expected a number of bytes"),
        ({"C": 0.0}, "C is 0.0"),
        ({"n_threads": 0}, "n_threads is 0"),
        ({"kernel": "sigmoid", "gamma": 2.0}, "not positive semidefinite"),
        ({"kernel": lambda x, z: np.nan}, "the kernel is NaN or infinite"),
        ({"kernel": lambda x, z: 0.0}, "nothing can be learnt"),
    ],
)
@pytest.mark.parametrize("method", [*EXACT, "nystroem"])
def test_bad_options_get_a_sentence(arrays, options, words, method):
    with pytest.raises(DataError, match=words):
        fit(arrays, **({"method": method} | options))


@pytest.mark.parametrize("method", [*EXACT, "auto"])
def test_memory_is_asked_for_before_it_is_taken(arrays, method, monkeypatch):
    monkeypatch.setattr(module, "pairwise_kernels", None)  # no entry may be computed
    needed = r"0\.000154" if method == "eigen" else r"0\.000102"
    words = f"needs {needed} GB of memory for 80 documents, and max_memory allows 5e-05 GB. "
    with pytest.raises(DataError, match=words + 'Use method="nystroem"'):
        fit(arrays, method=method, max_memory=50_000)
    with pytest.raises(DataError, match=r"'nystroem' needs .* Use a smaller n_components"):
        fit(arrays, method="nystroem", max_memory=50_000)


def test_half_of_the_memory_is_the_default(arrays, monkeypatch):
    monkeypatch.setattr(module, "_memory", lambda: 102_399.0)
    with pytest.raises(DataError, match=r"max_memory allows 0\.000102 GB"):
        fit(arrays)
    monkeypatch.setattr(module, "_memory", lambda: 102_400.0)
    assert fit(arrays).result_.converged
    monkeypatch.undo()
    assert 2**28 < module._memory() < 2**48


def test_no_pairs_and_nan_get_a_sentence(arrays):
    X, _, qid = arrays
    with pytest.raises(DataError, match="no pair to learn from"):
        KernelRankSVM().fit(X, np.ones(80), qid)
    ranker = fit(arrays)
    X = X.copy()
    X[7, 2] = np.nan
    with pytest.raises(DataError, match=r"X\[7, 2\] is NaN"):
        ranker.predict(X)
