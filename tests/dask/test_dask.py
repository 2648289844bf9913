"""Training on a Dask cluster gives the same results as training in one process."""

from __future__ import annotations

import copy
import gc
import gzip
import itertools
import json
import pickle
import warnings
from contextlib import contextmanager

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from scipy import sparse
from sklearn.base import clone

import dask
from commandline import run, run_json, wait_for
from linrank import (
    DataError,
    FileFormatError,
    NotConvergedWarning,
    QueriesMovedWarning,
    RankingData,
    RankSVM,
    SparseRankSVM,
    WorkersLost,
    make_ranking,
    save_store,
)
from linrank import evaluate as evaluate_here
from linrank.counting.preferences import Preferences
from linrank.dask import DaskData, DaskEngine, DaskRankSVM, DaskTrainer, evaluate
from linrank.dask.dask_engine import find_moves
from linrank.dask.pool import local_cluster
from linrank.dask.session import open_sessions
from linrank.dask.sources import array_parts, count_queries, find_parts, summarize
from linrank.data.columns import feature_columns
from linrank.engines.threads import ThreadEngine
from linrank.losses import LOSSES, PairwiseLoss, get_loss
from linrank.losses.pairwise import HINGE
from linrank.penalties import PENALTIES, make_penalty
from linrank.solvers import Newton
from linrank.training import Trainer
from linrank.training.settings import AS_GIVEN
from problems import PAPERS, as_form, make_problem_arrays

N_PARTS = 5
#: Tolerances by loss; the default is 1e-9. For the hinge, the tolerance is a duality gap. The last
#: steps of other losses still change the objective by about 1e-10, and the weights by about 1e-8.
TIGHT = {"hinge": 1e-8}


@pytest.fixture(scope="module")
def client():
    """A client of three workers within this process, which compute the same as worker processes."""
    with (
        local_cluster(3, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def ranking(form="dense64", seed=0, **options):
    data = make_ranking(24, (4, 12), 6, n_levels=4, noise=1.0, random_state=seed, **options)
    return RankingData(as_form(data.X, form), data.y, data.qid)


def borders(data, n_parts=N_PARTS):
    """Return the sizes of parts that hold whole queries."""
    cuts = np.linspace(0, data.n_queries, min(n_parts, data.n_queries) + 1).astype(int)
    return tuple(int(n) for n in np.diff(data.query_ptr[cuts]))


def as_arrays(data, chunks=None):
    """Return X, y and qid as Dask Arrays."""
    chunks = borders(data) if chunks is None else chunks
    if data.is_sparse:
        edges = np.cumsum((0, *chunks))
        blocks = [
            da.from_delayed(dask.delayed(data.X[a:b]), (b - a, data.n_features), data.X.dtype)
            for a, b in itertools.pairwise(edges)
        ]
        X = da.concatenate(blocks)
    else:
        X = da.from_array(data.X, chunks=(chunks, -1))
    return X, da.from_array(data.y, chunks=(chunks,)), da.from_array(data.qid, chunks=(chunks,))


@pytest.fixture
def on_cluster(client):
    """Return a function that makes `DaskData`; all of them are closed after the test."""
    made = []

    def make(data, **more):
        given = {name: da.from_array(v, chunks=(borders(data),)) for name, v in more.items()}
        made.append(DaskData(client, array_parts(*as_arrays(data), **given)))
        return made[-1]

    yield make
    for data in made:
        data.close()


def same(found, expected):
    scale = max(float(np.abs(expected).max()), 1e-300)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * scale)


def assert_same_engine(engine, expected, seed=0):
    """Compare every sum that a solver requests."""
    rng = np.random.default_rng(seed)
    for w in (np.zeros(engine.n_features), rng.standard_normal(engine.n_features)):
        (loss, gradient), (value, slope) = engine.value_grad(w), expected.value_grad(w)
        same(loss, value)
        same(gradient, slope)
        v = rng.standard_normal(engine.n_features)
        same(engine.hessp(v), expected.hessp(v))
        same(engine.hessian(), expected.hessian())
        some = np.array([1, 4])
        same(engine.hessian(None, some), expected.hessian(None, some))
        same(engine.hessian_diagonal(), expected.hessian_diagonal())
        if engine.loss.pairwise and not engine.loss.exact:
            same(engine.gaps(w), expected.gaps(w))
    same(engine.at_zero, expected.at_zero)


FACTS = (
    "n_features", "n_entries", "n_pairs", "n_empty_queries", "largest_query", "product_work",
    "row_work", "document_work", "makes_hessian_by_level",
)  # fmt: skip


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("loss", LOSSES)
def test_sums_are_those_of_threads(on_cluster, loss, form):
    data = ranking(form)
    engine = DaskEngine(on_cluster(data), get_loss(loss))
    expected = ThreadEngine(data, get_loss(loss))
    assert_same_engine(engine, expected)
    for fact in FACTS:
        assert getattr(engine, fact) == getattr(expected, fact), fact
    for fact in ("n_docs", "n_queries", "n_features", "n_levels", "is_sparse", "index_base"):
        assert getattr(engine.data, fact) == getattr(data, fact), fact


@pytest.mark.parametrize("normalize", ["pairs", "queries"])
@pytest.mark.parametrize("loss", ["squared_hinge", "domination"])
def test_normalised_sums(on_cluster, loss, normalize):
    data = ranking()
    engine = DaskEngine(on_cluster(data), get_loss(loss), normalize)
    assert_same_engine(engine, ThreadEngine(data, get_loss(loss), normalize))


def test_weights_margins_and_propensities(on_cluster):
    rng, plain = np.random.default_rng(3), ranking()
    weight = rng.integers(0, 3, plain.n_docs).astype(float)
    weight[: borders(plain)[0]] = 0.0  # The first part has no positive weight.
    more = {
        "sample_weight": weight,
        "query_weight": np.repeat(rng.random(plain.n_queries), np.diff(plain.query_ptr)),
        "propensity": 0.1 + 0.9 * rng.random(plain.n_docs),
        "margin": rng.random(plain.n_docs),
    }
    data = RankingData(plain.X, plain.y, plain.qid, **more)
    engine = DaskEngine(on_cluster(data, **more), get_loss("squared_hinge"), "pairs")
    assert_same_engine(engine, ThreadEngine(data, get_loss("squared_hinge"), "pairs"))


def test_preferences_and_countings(on_cluster):
    data, loss = ranking(), get_loss("squared_hinge")
    held = on_cluster(data)
    for preferences in (Preferences("adjacent"), Preferences("all", "slack", "gain")):
        engine = DaskEngine(held, loss, preferences=preferences)
        assert_same_engine(engine, ThreadEngine(data, loss, preferences=preferences))
    engine = DaskEngine(held, loss, counting="fenwick")
    assert engine.counting == "fenwick"
    assert_same_engine(engine, ThreadEngine(data, loss))
    own = Preferences("all", "slack", lambda upper, lower: np.sqrt(upper - lower))
    engine = DaskEngine(held, loss, preferences=own)
    assert_same_engine(engine, ThreadEngine(data, loss, preferences=own))
    with pytest.raises(DataError, match="adjacent"):
        DaskEngine(held, get_loss("domination"), preferences=Preferences("adjacent"))


def test_other_losses_on_the_same_data(on_cluster):
    data = ranking()
    engine = DaskEngine(on_cluster(data), get_loss("hinge"))
    other, expected = engine.with_loss(HINGE.smoothed(0.5)), ThreadEngine(data, HINGE.smoothed(0.5))
    assert_same_engine(other, expected)
    other.change_loss(HINGE.smoothed(0.1))
    expected.change_loss(HINGE.smoothed(0.1))
    assert_same_engine(other, expected)
    assert_same_engine(engine, ThreadEngine(data, get_loss("hinge")))


def test_workers_forget_engines_that_are_gone(on_cluster):
    held = on_cluster(ranking())
    engine = DaskEngine(held, get_loss("hinge"))
    other = engine.with_loss(HINGE.smoothed(0.5))
    number = other.engine_id
    del other
    gc.collect()
    engine.value_grad(np.zeros(6))  # Every request lists the live engines.
    with pytest.raises(RuntimeError, match="KeyError"):
        held.ask("hessp", number, np.zeros(6))


def test_binary_domination_where_a_worker_has_nothing_to_compare(on_cluster):
    plain = ranking()
    y = plain.y.copy()
    y[: borders(plain)[0]] = 0.0
    y[: borders(plain)[0]][::2] = -1.0
    data, loss = plain.replace(y=y), get_loss("domination_binary")
    assert_same_engine(DaskEngine(on_cluster(data), loss), ThreadEngine(data, loss))


def test_samples_are_shared_out(on_cluster):
    """Each worker samples its share of the rows; a sample of all rows is exact."""
    data = ranking()
    engine, expected = (
        make(of, get_loss("squared_hinge"))
        for make, of in ((DaskEngine, on_cluster(data)), (ThreadEngine, data))
    )
    w = np.full(6, 0.1)
    engine.value_grad(w), expected.value_grad(w)
    same(engine.hessian(data.n_docs), expected.hessian(data.n_docs))
    sampled = engine.hessian(data.n_docs // 2)
    assert not np.allclose(sampled, expected.hessian())
    assert 0.5 < np.trace(sampled) / np.trace(expected.hessian()) < 2.0
    some = engine.hessian_of_documents(data.n_docs // 2)
    assert 0.3 < np.trace(some) / np.trace(expected.hessian_of_documents(data.n_docs)) < 3.0


# Fits ---------------------------------------------------------------------------------------

CONVEX = [("squared_hinge", solver) for solver in ("newton", "tron", "lbfgs", "cutting-planes")] + [
    ("hinge", "smoothing"),
    ("hinge", "cutting-planes"),
    ("huber", "auto"),
    ("logistic", "auto"),
    ("logistic_exact", "auto"),
    ("domination", "auto"),
    ("domination_binary", "lbfgs"),
]


@pytest.mark.parametrize(("loss", "solver"), CONVEX)
def test_fits_with_every_loss_and_solver(on_cluster, loss, solver):
    data, tol = ranking(), 1e-4 if solver in ("smoothing", "cutting-planes") else 1e-9
    settings = {"loss": loss, "solver": solver, "tol": tol}
    found = DaskTrainer(**settings, normalize=None).train(on_cluster(data), 0.1)
    expected = Trainer(**settings, normalize=None, features=AS_GIVEN).train(data, 0.1)
    assert found.result.converged
    # Solvers with a duality gap may end at any point within it.
    precision = 1e-8 if tol == 1e-9 else 2 * tol
    assert found.result.objective == pytest.approx(expected.result.objective, rel=precision)
    assert found.model.settings == expected.model.settings
    assert (found.n_pairs, found.n_levels) == (expected.n_pairs, expected.n_levels)


PROBLEMS = ("five levels", "pairs of documents")


@pytest.fixture(scope="module")
def problems(client):
    """Return data of several kinds, in memory and on the cluster."""
    here = [RankingData(*make_problem_arrays(kind, d=6)) for kind in PROBLEMS] + [ranking()]
    held = [DaskData(client, array_parts(*as_arrays(data))) for data in here]
    yield list(zip(here, held, strict=True))
    for data in held:
        data.close()


COMBINATIONS = [
    (loss, penalty)
    for loss in LOSSES
    for penalty in (None, *PENALTIES)
    if penalty is None or get_loss(loss).smooth
]


@pytest.mark.parametrize(("loss", "penalty"), COMBINATIONS)
def test_weights_of_every_loss_and_penalty_are_those_of_threads(problems, loss, penalty):
    made = None if penalty is None else make_penalty(penalty)
    settings = {"loss": loss, "tol": TIGHT.get(loss, 1e-9), "penalty": made}
    for data, held in problems:
        found = DaskTrainer(**settings, normalize=None).train(held, 2.0).result
        expected = Trainer(**settings, normalize=None, features=AS_GIVEN).train(data, 2.0).result
        assert expected.coef.any()
        np.testing.assert_array_equal(found.coef != 0, expected.coef != 0)
        largest = np.abs(expected.coef).max()
        # A duality gap of 1e-8·f allows the weights of the hinge to differ by about 1e-4·√f.
        room = 1e-6 if loss == "hinge" else 1e-8
        np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=room * largest)


def test_fista_and_grids(on_cluster):
    data, valid = ranking(), ranking(seed=1)
    held = on_cluster(data)
    settings = {"solver": "fista", "tol": 1e-6, "penalty": make_penalty("l1")}
    found = DaskTrainer(**settings, normalize=None).train(held, 0.05)
    expected = Trainer(**settings, normalize=None, features=AS_GIVEN).train(data, 0.05)
    assert found.result.objective == pytest.approx(expected.result.objective, rel=1e-5)
    settings = {"tol": 1e-6, "penalty": make_penalty("l1")}
    found = DaskTrainer(**settings, normalize=None).train_on_grid(held, valid)
    expected = Trainer(**settings, normalize=None, features=AS_GIVEN).train_on_grid(data, valid)
    assert pytest.approx(expected.C, rel=1e-6) == found.C
    same(found.values, expected.values)
    with pytest.raises(DataError, match="held-out"):
        DaskTrainer(normalize=None).train_by_folds(held)


@pytest.mark.parametrize(
    ("solver", "loss"),
    [("sgd-pairs", "huber"), ("sgd-queries", "huber"), ("coordinate-descent", "domination")],
)
def test_solvers_that_need_rows_are_refused_in_a_sentence(solver, loss):
    with pytest.raises(DataError, match=r"needs the rows of X .* Use solver='newton'"):
        DaskRankSVM(C=1.0, solver=solver, loss=loss, normalize=None).fit("anywhere")
    with pytest.raises(DataError, match=r"needs the rows of X"):
        DaskTrainer.like(Trainer(solver=solver, loss=loss, normalize=None, features=AS_GIVEN))


def test_parts_are_objects_on_a_cluster(client):
    data = ranking()
    parts = {
        "loss": PairwiseLoss("mine", [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)]),
        "solver": Newton(tol=1e-8), "bounds": (None, 0.2),
    }  # fmt: skip
    ranker = DaskRankSVM(0.1, client=client, **parts, normalize=None).fit(*as_arrays(data))
    expected = RankSVM(0.1, **PAPERS | parts).fit(data.X, data.y, data.qid)
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)
    assert ranker.coef_.max() == 0.2


def test_graphics_cards_are_refused_in_a_sentence():
    with pytest.raises(DataError, match="engine='cuda' works on one machine only"):
        DaskTrainer(engine="cuda", normalize=None)


def test_estimator_has_what_ranksvm_has(client):
    data, test = ranking(), ranking(seed=5)
    ranker = DaskRankSVM(0.1, client=client, tol=1e-8, normalize=None).fit(*as_arrays(data))
    expected = RankSVM(0.1, tol=1e-8, **PAPERS).fit(data.X, data.y, data.qid)
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)
    for name in ("n_pairs_", "n_queries_", "n_empty_queries_", "n_features_in_"):
        assert getattr(ranker, name) == getattr(expected, name)
    assert ranker.n_moved_ == 0
    X, y, qid = as_arrays(test)
    scores = ranker.predict(X)
    np.testing.assert_allclose(scores.compute(), expected.predict(test.X), rtol=1e-5)
    np.testing.assert_allclose(ranker.predict(test.X), expected.predict(test.X), rtol=1e-5)
    score = expected.score(test.X, test.y, test.qid)
    assert ranker.score(X, y, qid) == pytest.approx(score)
    assert ranker.score(test.X, test.y, test.qid) == pytest.approx(score)
    with pytest.raises(DataError, match="needs qid"):
        ranker.score(X, y)
    with pytest.raises(DataError, match="6"):
        ranker.predict(X[:, :5])


def test_sparse_estimator_and_warm_start(client):
    data = ranking()
    ranker = DaskRankSVM(
        0.01, client=client, penalty="l1", tol=1e-8, warm_start=True, normalize=None
    )
    ranker.fit(*as_arrays(data))
    expected = SparseRankSVM(0.01, tol=1e-8, **PAPERS).fit(data.X, data.y, data.qid)
    np.testing.assert_allclose(ranker.coef_, expected.coef_, atol=1e-6)
    before = ranker.result_.n_iter
    assert ranker.fit(*as_arrays(data)).result_.n_iter < before
    with pytest.warns(NotConvergedWarning):
        DaskRankSVM(C=1.0, client=client, max_iter=1, tol=1e-9, normalize=None).fit(
            *as_arrays(data)
        )


def test_the_bits_of_a_result_are_the_same_when_it_is_repeated(client):
    data = ranking()
    first, second = (
        DaskRankSVM(0.1, client=client, loss="logistic", normalize=None).fit(*as_arrays(data))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_nothing_is_left_on_the_workers(client):
    open_before = open_sessions()  # Other tests may have open sessions.
    DaskRankSVM(C=1.0, client=client, normalize=None).fit(*as_arrays(ranking()))
    data = ranking()
    equal = data.replace(y=np.ones(data.n_docs))
    with pytest.raises(DataError, match="no pair"):
        DaskRankSVM(C=1.0, client=client, normalize=None).fit(*as_arrays(equal))
    wait_for(lambda: open_sessions() <= open_before)


def test_a_result_may_take_longer_than_one_look_for_it(client, monkeypatch):
    """On a busy machine, the result arrives after several polls; a poll must not cancel it."""
    monkeypatch.setattr("linrank.dask.dask_engine.POLL_SECONDS", 1e-4)
    data = ranking()
    with DaskData(client, array_parts(*as_arrays(data))) as held:
        assert held.n_docs == data.n_docs


# Sources ------------------------------------------------------------------------------------


def frame_of(data):
    names = [f"f{k}" for k in range(data.n_features)]
    frame = pd.DataFrame(data.X, columns=names)
    return frame.assign(label=data.y, qid=data.qid)


def frames(data):
    """Return a Dask DataFrame whose partitions hold whole queries."""
    edges = np.cumsum((0, *borders(data)))
    frame = frame_of(data)
    pieces = [dask.delayed(frame.iloc[a:b]) for a, b in itertools.pairwise(edges)]
    return dd.from_delayed(pieces, meta=frame.iloc[:0])


def expect(data, **options):
    return RankSVM(0.1, tol=1e-9, **PAPERS | options).fit(data.X, data.y, data.qid).coef_


def fit(client, *source, **columns):
    return DaskRankSVM(0.1, client=client, tol=1e-9, normalize=None).fit(*source, **columns)


def test_frames(client):
    data = ranking()
    frame = frames(data)
    ranker = fit(client, frame)
    np.testing.assert_allclose(ranker.coef_, expect(data), rtol=1e-6)
    assert list(ranker.feature_names_in_) == [f"f{k}" for k in range(6)]
    assert ranker.model_.feature_names == [f"f{k}" for k in range(6)]
    scores = ranker.predict(frame)
    np.testing.assert_allclose(scores.compute(), data.X @ ranker.coef_, rtol=1e-9)
    assert ranker.score(frame, "label", "qid") == pytest.approx(
        evaluate_here(data.y, data.X @ ranker.coef_, data.qid).mean["ndcg@10"]
    )
    with pytest.raises(DataError, match="'f0'"):
        ranker.predict(frame.drop(columns=["f0"]))
    other = frame.rename(columns={"label": "grade", "qid": "search"})
    named = fit(client, other, "grade", "search")
    np.testing.assert_array_equal(named.coef_, ranker.coef_)
    columns = fit(client, frame.drop(columns=["label", "qid"]), frame.label, frame.qid)
    np.testing.assert_array_equal(columns.coef_, ranker.coef_)


def test_frames_with_text_ids_weights_and_empty_partitions(client):
    data = ranking()
    frame = frames(data)
    frame["qid"] = "q" + frame.qid.astype(str)
    frame["weight"] = 1.0 + frame.f0.abs()
    empty = borders(data)[1]
    frame = frame.map_partitions(lambda part: part.iloc[: 0 if len(part) == empty else None])
    kept = frame.compute()
    plain = kept[[f"f{k}" for k in range(6)]].to_numpy()
    expected = RankSVM(0.1, tol=1e-9, **PAPERS).fit(
        plain, kept.label, kept.qid.to_numpy(str), sample_weight=kept.weight.to_numpy()
    )
    ranker = fit(client, frame, sample_weight="weight")
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)


def test_frames_are_scored_by_the_columns_that_were_learnt(client):
    data = ranking()
    frame = frames(data)
    named, nameless = fit(client, frame), fit(client, *as_arrays(data))
    expected = data.X @ named.coef_
    np.testing.assert_allclose(named.predict(frame).compute(), expected)
    features = frame.drop(columns=["label", "qid"])
    without = pytest.warns(UserWarning, match="DaskRankSVM was fitted without feature names")
    with without:
        found = nameless.predict(features)
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-5)
    for other in (frame, features[["f0"]]):
        refused = pytest.raises(DataError, match=f"X has {len(other.columns)} features; expected")
        with without, refused:
            nameless.predict(other)
    lies = da.from_delayed(dask.delayed(np.ones)((5, 2)), (5, data.n_features), float)
    with pytest.raises(DataError, match="a block of X has 2 features"):
        nameless.predict(lies).compute()
    numbered = features.rename(columns={f"f{f}": f for f in range(data.n_features)})
    ranker = fit(client, numbered, frame.label, frame.qid)
    assert not hasattr(ranker, "feature_names_in_")
    turned = numbered[numbered.columns[::-1]]
    for other in (numbered, turned):
        np.testing.assert_allclose(ranker.predict(other).compute(), expected, rtol=1e-5)
    ranker = fit(client, turned.assign(label=frame.label, qid=frame.qid))
    assert ranker.feature_names_in_.tolist() == list(map(str, turned.columns))
    for other in (numbered, turned):
        np.testing.assert_allclose(ranker.predict(other).compute(), expected, rtol=1e-5)


def test_copies_of_a_ranker(client):
    """A client cannot be copied. A clone shares it, and a pickle holds its address."""
    ranker = DaskRankSVM(C=0.5, client=client, penalty="mcp", shape=3.0, normalize=None)
    twin = clone(ranker)
    assert twin.client is client
    assert {**twin.get_params(), "client": None} == {**ranker.get_params(), "client": None}
    for copied in (pickle.loads(pickle.dumps(ranker)), copy.deepcopy(ranker)):
        assert copied.client == client.scheduler.address
        assert copied.C == 0.5


def test_sparse_blocks(client):
    data = ranking("csr32")
    ranker = fit(client, *as_arrays(data))
    np.testing.assert_allclose(ranker.coef_, expect(data), rtol=1e-4)


def test_one_query_goes_to_one_worker(client):
    data = make_ranking(1, (60, 61), 6, random_state=0)
    X, y, _ = as_arrays(data, chunks=(20, 20, len(data.y) - 40))
    with pytest.warns(QueriesMovedWarning, match="rows of 1 queries"):
        ranker = fit(client, X, y)
    expected = RankSVM(0.1, tol=1e-9, **PAPERS).fit(data.X, data.y).coef_
    np.testing.assert_allclose(ranker.coef_, expected, rtol=1e-6)


def write_parts(folder, data, write):
    folder.mkdir()
    edges = np.cumsum((0, *borders(data)))
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        write(folder, k, data.take(np.arange(a, b)))
    return folder


def test_folders_of_letor_parts(client, tmp_path):
    """Parts have different numbers of features, and different index bases."""
    data = ranking()
    X = data.X.copy()
    X[: borders(data)[0], -1] = 0.0  # The first part does not contain the last feature.
    X[borders(data)[0] :, 0] = 0.0  # Only the first part contains feature 0.
    data = data.replace(X=X)

    def write(folder, k, part):
        lines = [
            f"{y:g} qid:{q} " + " ".join(f"{f}:{v!r}" for f, v in enumerate(row.tolist()) if v)
            for y, q, row in zip(part.y, part.qid, part.X, strict=True)
        ]
        (folder / f"part-{k}.txt").write_text("\n".join(lines) + "\n")

    folder = write_parts(tmp_path / "parts", data, write)
    (folder / "_SUCCESS").touch()
    ranker = fit(client, folder)
    np.testing.assert_allclose(ranker.coef_, expect(data), rtol=1e-6)
    assert ranker.model_.index_base == 0


def test_folders_of_parquet_parts(client, tmp_path):
    data = ranking()
    folder = write_parts(
        tmp_path / "parts", data,
        lambda folder, k, part: frame_of(part).to_parquet(folder / f"{k}.parquet"),
    )  # fmt: skip
    np.testing.assert_allclose(fit(client, str(folder)).coef_, expect(data), rtol=1e-6)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_stores(client, tmp_path, form):
    plain = ranking(form)
    weight = np.random.default_rng(0).random(plain.n_docs)
    by_query = np.repeat(np.arange(1.0, plain.n_queries + 1), np.diff(plain.query_ptr))
    data = RankingData(plain.X, plain.y, plain.qid, sample_weight=weight, query_weight=by_query)
    save_store(data, tmp_path / "store")
    expected = RankSVM(0.1, tol=1e-9, **PAPERS).fit(
        plain.X, plain.y, plain.qid, sample_weight=weight, query_weight=by_query
    )
    ranker = fit(client, tmp_path / "store")
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)


def as_text(data, folder):
    (folder / "text").mkdir()
    with gzip.open(folder / "text" / "a.txt.gz", "wb") as file:
        for y, q, row in zip(data.y, data.qid, data.X, strict=True):
            entries = " ".join(f"{f}:{v!r}" for f, v in enumerate(row.tolist(), 1))
            file.write(f"{y:g} qid:{q} {entries} # qid:7 x\n".encode())
    return folder / "text"


def as_table(data, folder):
    (folder / "table").mkdir()
    frame_of(data).to_parquet(folder / "table" / "a.parquet")
    return folder / "table"


def as_store(data, folder):
    save_store(data, folder / "store")
    return folder / "store"


SOURCES = {
    "text": lambda data, folder: (as_text(data, folder),),
    "table": lambda data, folder: (as_table(data, folder),),
    "store": lambda data, folder: (as_store(data, folder),),
    "sparse store": lambda data, folder: (
        as_store(data.replace(X=as_form(data.X, "csr64")), folder),
    ),
    "frames": lambda data, folder: (frames(data),),
    "arrays": lambda data, folder: as_arrays(data),
    "one query": lambda data, folder: as_arrays(data)[:2],
}


@pytest.mark.parametrize("source", SOURCES)
def test_queries_are_counted_without_their_rows(source, tmp_path):
    for part in find_parts(*SOURCES[source](ranking(), tmp_path)):
        rows, found = dask.compute(part.rows, part.queries, scheduler="synchronous")
        expected = summarize(rows).queries
        counts = dict(zip(found.ids.tolist(), found.counts.tolist(), strict=True))
        assert counts == dict(zip(expected.ids.tolist(), expected.counts.tolist(), strict=True))
        pointers = rows.X.indptr.nbytes if sparse.issparse(rows.X) else 0
        assert found.n_bytes == expected.n_bytes - pointers


def test_sources_that_are_refused(client, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    for name in ("a.txt", "b.parquet"):
        (tmp_path / "mixed" / name).touch()
    data = ranking()
    X, y, qid = as_arrays(data)
    for source, sentence in (
        ((tmp_path / "nowhere",), "no such file"),
        ((tmp_path / "empty",), "no files"),
        ((tmp_path / "mixed",), r"different formats \(letor, parquet\)"),
        ((data.X, data.y), "ndarray; expected a Dask"),
        ((X,), "y is None"),
        ((X, y[:-1]), "y has .* entries"),
        ((X, y, data.qid), "qid must be a Dask Array"),
        ((frames(data), "grade"), "no column of X"),
    ):
        with pytest.raises(DataError, match=sentence):
            find_parts(*source)
    bad = da.from_array(np.where(np.arange(len(data.y)) == 70, np.nan, data.y), chunks=y.chunks)
    with pytest.raises(DataError, match=r"block \d: y\[\d+\] is nan"):
        fit(client, X, bad, qid)
    with pytest.raises(DataError, match="'word' holds"):
        fit(client, frames(data).assign(word="x"))
    ids = pd.Series([None if row == 70 else f"q{q}" for row, q in enumerate(data.qid)])
    with pytest.raises(DataError, match=r"partition \d: qid\[\d+\] is NaN"):
        fit(client, dd.from_pandas(frame_of(data).assign(qid=ids.astype("string")), npartitions=3))
    weights = da.zeros_like(y)
    with pytest.raises(DataError, match="query_weight is zero everywhere"):
        fit(client, X, y, qid, query_weight=weights)
    half = len(data.y) // 2
    torn = da.from_delayed(dask.delayed(np.zeros)((0, X.shape[1])), (np.nan, X.shape[1]), float)
    with pytest.raises(DataError, match="block 0: X is empty"):
        fit(client, torn, da.from_array(data.y[:half], chunks=-1))


def test_arguments_that_are_refused(client, tmp_path):
    data = ranking()
    X, y, qid = as_arrays(data)
    save_store(data, tmp_path / "store")
    with pytest.raises(DataError, match="y cannot be given together with a path"):
        DaskRankSVM(C=1.0, client=client, normalize=None).fit(tmp_path / "store", y)
    for settings, sentence in (
        ({"timeout": 0}, "timeout is 0"),
        ({"shape": 2.0}, "has no parameter, but shape is 2.0"),
        ({"client": 5}, "client is int; expected a distributed.Client"),
    ):
        with pytest.raises(DataError, match=sentence):
            DaskRankSVM(**({"client": client} | settings), normalize=None).fit(X, y, qid)
    with Client(client.scheduler.address, security=client.security, set_as_default=False) as other:
        pass
    with pytest.raises(DataError, match="client is closed"):
        DaskRankSVM(C=1.0, client=other, normalize=None).fit(X, y, qid)


def test_tables_that_are_refused(client, tmp_path):
    frame = frame_of(ranking())
    frame.to_parquet(tmp_path / "1.parquet")
    (tmp_path / "2.parquet").write_bytes(b"PAR1abc")
    with pytest.raises(FileFormatError, match=r"2.parquet: cannot be read as Parquet"):
        fit(client, tmp_path)
    twice = frame.rename(columns={"f1": "f0"})
    with pytest.raises(DataError, match="several columns 'f0'"):
        feature_columns("a", twice, {"y": "label", "qid": "qid"})


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (np.array([2**62 + 1]), np.array([0.5]), "whole numbers or text in one part and floats"),
        (["007", "7"], np.array([0.5]), "whole numbers or text in one part and floats"),
    ],
)
def test_ids_of_two_kinds_are_refused(client, tmp_path, first, second, kinds):
    """Floats round large numbers: queries would be mixed up."""
    for k, ids in enumerate((first, second)):
        qid = np.repeat(ids, 2)
        table = pd.DataFrame({"label": np.arange(len(qid)) % 2.0, "qid": qid, "f": 0.5})
        table.to_parquet(tmp_path / f"{k}.parquet")
    with pytest.raises(DataError, match=f"do not fit together: qid is {kinds}"):
        fit(client, tmp_path)


# Queries across workers ---------------------------------------------------------------------


def shuffled(data, seed=0):
    order = np.random.default_rng(seed).permutation(data.n_docs)
    return RankingData.from_parts(X=data.X[order], y=data.y[order], query_ids=data.qid[order],
                                  query_ptr=np.arange(data.n_docs + 1))  # fmt: skip


@pytest.mark.parametrize("text", [False, True])
def test_rows_in_any_order(client, text):
    data = ranking()
    rows = shuffled(data)
    X, y, qid = as_arrays(rows, chunks=borders(data))
    if text:
        qid = qid.astype(str)
    with pytest.warns(QueriesMovedWarning) as said:
        ranker = fit(client, X, y, qid)
    np.testing.assert_allclose(ranker.coef_, expect(data), rtol=1e-6)
    # The group with most rows of a query keeps it, and all other rows move.
    with DaskData(client, array_parts(*as_arrays(data))) as held:
        group = np.concatenate([np.full(sum(borders(data)[p.part] for p in g.pieces), k)
                                for k, g in enumerate(held.groups)])  # fmt: skip
    table = pd.crosstab(rows.qid, group)
    moved = int(table.to_numpy().sum() - table.max(axis=1).sum())
    torn = int((table > 0).sum(axis=1).gt(1).sum())
    assert ranker.n_moved_ == moved
    assert f"{moved:,} rows of {torn:,} queries" in str(said[0].message)


def test_only_queries_that_lie_across_workers_move(client):
    data = ranking()
    sizes = list(borders(data))
    sizes[1] += 1  # Part 1 gets one row of the next query.
    sizes[2] -= 1
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ranker = fit(client, *as_arrays(data, chunks=tuple(sizes)))
    np.testing.assert_allclose(ranker.coef_, expect(data), rtol=1e-6)
    assert ranker.n_moved_ <= 1
    assert len(said) == ranker.n_moved_


def slow_moves(groups):
    """Compute the result of `find_moves` one query at a time."""
    parts = [(g, part) for g, group in enumerate(groups) for part in group]
    rows = {}  # Rows of each query in each group.
    for g, part in parts:
        for query, n in zip(part.ids.tolist(), part.counts.tolist(), strict=True):
            own = rows.setdefault(query, [0] * len(groups))
            own[g] += n
    home = {query: own.index(max(own)) for query, own in rows.items()}
    moves = {
        (p, home[query], query): n
        for p, (g, part) in enumerate(parts)
        for query, n in zip(part.ids.tolist(), part.counts.tolist(), strict=True)
        if home[query] != g
    }
    return set(moves), sum(moves.values()), len({query for *_, query in moves})


@pytest.mark.parametrize("text", [False, True])
def test_moves_are_those_of_a_slow_count(text):
    rng = np.random.default_rng(0)
    for _ in range(30):
        groups = []
        for _ in range(rng.integers(1, 5)):
            sizes = [0 if rng.random() < 0.2 else rng.integers(1, 30) for _ in range(2)]
            draws = [rng.integers(0, rng.integers(1, 40), n) for n in sizes]
            groups.append([count_queries(ids.astype(str) if text and len(ids) else ids, len(ids), 0)
                           for ids in draws])  # fmt: skip
        if any(part.n_docs for group in groups for part in group):
            moves, n_rows, n_queries = find_moves(groups)
            listed = {(p, g, query) for p, g, ids in moves for query in ids.tolist()}
            assert (listed, n_rows, n_queries) == slow_moves(groups)


# Memory -------------------------------------------------------------------------------------

NEVER = {f"distributed.worker.memory.{name}": False
         for name in ("target", "spill", "pause", "terminate")}  # fmt: skip


@contextmanager
def small_workers(memory_limit, **settings):
    """Start two workers within this process; Dask counts its memory as theirs."""
    with (
        dask.config.set(NEVER | {f"distributed.worker.memory.{k}": v for k, v in settings.items()}),
        local_cluster(2, processes=False, memory_limit=memory_limit) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


TOO_LARGE = r"query 2 has 300 documents, which take 0.10 MB, .* at most 0.06 MB"


def one_large_query():
    data = make_ranking(4, 300, 40, random_state=0)
    keep = (data.qid == 2) | (np.arange(data.n_docs) % 300 < 100)
    return data.take(np.flatnonzero(keep))


def test_a_query_that_no_worker_can_hold_is_named():
    data = one_large_query()
    with small_workers(80_000) as client, pytest.raises(DataError, match=TOO_LARGE):
        DaskRankSVM(C=1.0, client=client, normalize=None).fit(*as_arrays(data, (200, 200, 200)))


def test_a_query_is_named_also_where_its_part_cannot_be_loaded(monkeypatch, tmp_path):
    """The rows are never loaded; the query ids alone show that the query is too large."""
    save_store(one_large_query(), tmp_path / "store")

    def run_out(*_, **__):
        raise MemoryError("no more")

    monkeypatch.setattr("linrank.dask.sources.check_part", run_out)
    with small_workers(80_000) as client, pytest.raises(DataError, match=TOO_LARGE):
        DaskRankSVM(C=1.0, client=client, normalize=None).fit(tmp_path / "store")
    with (
        small_workers(1_000_000) as client,
        pytest.raises(WorkersLost, match="cannot be loaded: no more"),
    ):
        DaskRankSVM(C=1.0, client=client, normalize=None).fit(tmp_path / "store")


def test_workers_whose_memory_is_full_are_not_waited_for(monkeypatch):
    """Dask pauses the workers, because this process uses more memory than their limit."""
    for name, value in (
        ("pool.MAX_PAUSED_POLLS", 2),
        ("pool.REPLACEMENT_SECONDS", 0.5),
        ("dask_engine.REPLACEMENT_SECONDS", 0.5),
    ):
        monkeypatch.setattr(f"linrank.dask.{name}", value)
    monkeypatch.setattr("linrank.dask.dask_engine.POLL_SECONDS", 0.1)
    with small_workers(10_000_000, pause=0.8) as client:
        wait_for(lambda: not client.sync(client.scheduler.ncores_running))
        with pytest.raises(WorkersLost, match="cannot be replaced"):
            DaskRankSVM(C=1.0, client=client, normalize=None).fit(*as_arrays(ranking()))


# Metrics and the command line ---------------------------------------------------------------


def test_metrics_of_collections(client):
    data = ranking()
    scores = data.X[:, 0] - data.X[:, 1]
    names = "ndcg@3, map, pairwise-accuracy, mrr"
    expected = evaluate_here(data.y, scores, data.qid, names)
    chunks = (borders(data),)
    y, s, qid = (da.from_array(a, chunks=chunks) for a in (data.y, scores, data.qid))
    found = evaluate(y, s, qid, names, client=client)
    assert found.mean == pytest.approx(expected.mean)
    assert found.n_skipped == expected.n_skipped
    by_query = dict(zip(found.query_ids.tolist(), found.per_query["map"], strict=True))
    for query, value in zip(expected.query_ids.tolist(), expected.per_query["map"], strict=True):
        np.testing.assert_equal(by_query[query], value)
    frame = frames(data)
    found = evaluate(frame.label, frame.f0 - frame.f1, frame.qid, names, client=client)
    assert found.mean == pytest.approx(expected.mean)
    with pytest.raises(DataError, match="same blocks"):
        evaluate(y, s.rechunk(10), qid, client=client)
    with pytest.raises(DataError, match=r"block 0: scores\[0\] is nan"):
        evaluate(y, s * np.nan, qid, client=client)


def cut_in_two(text, folder):
    """Write the lines of a text into two files of a new folder, and return the folder."""
    folder.mkdir()
    lines = text.read_text().splitlines(keepends=True)
    (folder / "1.txt").write_text("".join(lines[: len(lines) // 2]))
    (folder / "2.txt").write_text("".join(lines[len(lines) // 2 :]))
    return folder


def test_command_line_with_processes_of_its_own(letor, tmp_path):
    folder, model = cut_in_two(letor / "train.txt", tmp_path / "parts"), tmp_path / "model.json"
    options = ("--C", "0.1", "--tol", "1e-8", "--valid", letor / "vali.txt", "--out", model)
    expected = run_json("train", letor / "train.txt", *options, "--scale", "none")
    found = run_json("train", folder, *options, "--dask", "local")
    assert found["solver"]["objective"] == pytest.approx(expected["solver"]["objective"])
    assert found["held_out"] == pytest.approx(expected["held_out"])
    assert {**found["train"], "file": ""} == {**expected["train"], "file": ""}
    assert json.loads(model.read_text())["n_features"] == 5


def test_command_line_refusals(letor, monkeypatch):
    monkeypatch.setattr("linrank.dask.pool.CONNECT_SECONDS", 1.0)
    run("train", letor, "--folds", "3", "--dask", "local", code=2)
    result = run("train", letor / "train.txt", "--dask", "tcp://127.0.0.1:1", code=2)
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in result.stderr
