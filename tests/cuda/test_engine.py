"""The CUDA engine under the simulator against the reference and the thread engine."""

from __future__ import annotations

import numpy as np
import pytest
from numba.cuda.cudadrv.driver import CudaAPIError

import reference
from linrank import AdditiveRanker, DataError, RankingData, RankSVM
from linrank.counting.preferences import Preferences
from linrank.engines.cuda import device
from linrank.engines.engine import make_engine
from linrank.engines.threads import ThreadEngine
from linrank.losses import LOSSES, get_loss
from linrank.losses.pairwise import HINGE
from problems import KINDS, PAPERS, as_form, make_problem_arrays

FORMS = ["dense64", "dense32", "csr64", "csr32"]


def compare(data, loss="squared_hinge", engine="cuda", seed=0, **options):
    """Values, gradients and products of both engines, at two points; the CUDA engine."""
    loss = get_loss(loss) if isinstance(loss, str) else loss
    normalize = options.pop("normalize", None)
    other = ThreadEngine(data, loss, normalize, 1, **options)
    options.setdefault("counting", "auto")
    one = make_engine(engine, data, loss, normalize, 1, **options)
    rng = np.random.default_rng(seed)
    assert one.n_pairs == other.n_pairs
    for scale in (0.0, 1.0):
        w, v = scale * rng.standard_normal((2, data.n_features))
        v += 1.0
        value, gradient = one.value_grad(w)
        expected, slope = other.value_grad(w)
        size = max(1.0, float(np.abs(slope).max()))
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-11)
        np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-11 * size)
        product = other.hessp(v)
        size = max(1.0, float(np.abs(product).max()))
        np.testing.assert_allclose(one.hessp(v), product, rtol=0, atol=1e-11 * size)
        np.testing.assert_array_equal(one.hessp(v), one.hessp(v))  # sums are in a fixed order
    return one, other


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_data_of_every_kind(kind, form):
    X, y, qid = make_problem_arrays(kind, n=34, d=3, tied=form.endswith("32"))
    compare(RankingData(as_form(X, form), y, qid))


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_on_short_and_long_queries(loss):
    """Queries of one to thirty documents: alone, together in a block, larger than a block."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(6), [1, 3, 4, 5, 14, 30])
    X, y = rng.standard_normal((57, 3)), rng.integers(0, 3, 57)
    compare(RankingData(X, y, qid), loss)


def test_against_the_reference():
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    data = RankingData(X, y, qid)
    engine = make_engine("cuda", data, get_loss("huber"), None, 1)
    w, v = np.random.default_rng(0).standard_normal((2, 3))
    order = np.arange(40) if data.order is None else data.order
    X, y, qid = X[order], y[order], qid[order]
    hinges, s = get_loss("huber").table, X @ w
    value, gradient = engine.value_grad(w)
    assert value == pytest.approx(reference.pairwise_loss(s, y, qid, hinges), rel=1e-12)
    expected = X.T @ reference.pairwise_gradient(s, y, qid, hinges)
    np.testing.assert_allclose(gradient, expected, atol=1e-10)
    expected = X.T @ reference.pairwise_hessian(s, y, qid, hinges) @ X @ v
    np.testing.assert_allclose(engine.hessp(v), expected, atol=1e-10)


@pytest.mark.parametrize("n", [15, 40])
@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_weights_margins_and_normalization(n, form):
    X, y, qid = make_problem_arrays("five levels", n=n, d=3)
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.5, 2.0, n) * (rng.random(n) > 0.2)
    query_weight = rng.uniform(0.5, 2.0, 3)[qid]
    data = RankingData(
        as_form(X, form), y, qid, sample_weight=weight, query_weight=query_weight,
        margin=rng.standard_normal(n),
    )  # fmt: skip
    compare(data, "huber", normalize="queries")
    compare(data, "domination")


@pytest.mark.parametrize(
    "preferences",
    [Preferences("adjacent"), Preferences(rescale="slack"), Preferences(rescale="margin")],
    ids=["adjacent", "slack", "margin"],
)
def test_pairs_of_any_weight_and_margin(preferences):
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    one, _ = compare(RankingData(X, y, qid), "huber", preferences=preferences)
    assert one.counting == "explicit"


def test_given_pairs():
    X = np.random.default_rng(0).standard_normal((9, 3))
    pairs = [[0, 1], [2, 1], [5, 4], [8, 7], [0, 2]]
    compare(RankingData.from_pairs(X, pairs, [1.0, 2.0, 0.5, 1.0, 1.0]), "squared_hinge")


@pytest.mark.parametrize("counting", ["fenwick", "explicit", "two-level"])
def test_ways_of_counting_give_the_same(counting):
    X, y, qid = make_problem_arrays("real labels", n=30, d=3)
    data, w = RankingData(X, y, qid), np.array([0.3, -0.2, 0.9])
    engine = make_engine("cuda", data, get_loss("huber"), None, 1, counting=counting)
    assert engine.counting == ("tables" if counting == "fenwick" else "explicit")
    value, gradient = ThreadEngine(data, get_loss("huber"), None, 1).value_grad(w)
    found, slope = engine.value_grad(w)
    assert found == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope, gradient, rtol=1e-11)


def test_many_features_come_in_tiles_of_columns():
    X, y, qid = make_problem_arrays("five levels", n=20, d=70)
    compare(RankingData(X, y, qid))
    X, y, qid = make_problem_arrays("nine levels", n=30, d=150)
    compare(RankingData(X.astype(np.float32), y, qid))


def test_more_groups_than_blocks():
    X, y, qid = make_problem_arrays("pairs of documents", n=200, d=2)
    engine, _ = compare(RankingData(X, y, qid))
    assert len(engine._groups.ptr) > 2 * device.BLOCKS


@pytest.mark.parametrize("kind", ["two levels", "all distinct"])
@pytest.mark.parametrize("form", ["dense32", "csr64"])
def test_one_query_of_many_chunks(kind, form):
    """More chunks than a launch has blocks, and than a block has threads."""
    X, y, _ = make_problem_arrays(kind, n=130, d=2)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 130)
    data = RankingData(as_form(X, form), y, np.zeros(130), sample_weight=weight)
    engine, _ = compare(data, "huber")
    assert engine._pairs.n_chunks > max(device.BLOCKS, device.THREADS)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("kind", ["five levels", "pairs of documents", "real labels"])
def test_the_order_of_blocks_changes_no_bit(kind, form, backwards):
    X, y, qid = make_problem_arrays(kind, n=70, d=2)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 70)
    data = RankingData(as_form(X, form), y, qid, sample_weight=weight)
    engine = make_engine("cuda", data, get_loss("huber"), None, 1)
    w, v = np.random.default_rng(0).standard_normal((2, 2))
    value, gradient = engine.value_grad(w)
    product = engine.hessp(v)
    with backwards():
        again, slope = engine.value_grad(w)
        assert again == value
        np.testing.assert_array_equal(slope, gradient)
        np.testing.assert_array_equal(engine.hessp(v), product)


@pytest.mark.parametrize("kind", ["five levels", "pairs of documents", "nine levels"])
def test_streaming_gives_the_same(kind, monkeypatch):
    monkeypatch.setattr(device, "PART_BYTES", 160)  # ten rows
    X, y, qid = make_problem_arrays(kind, n=40, d=2)
    data = RankingData(X, y, qid)
    streaming, _ = compare(data, engine="cuda-streaming")
    assert len(streaming._device.starts) > 1
    other = make_engine("cuda", data, get_loss("squared_hinge"), None, 1)
    w = np.array([0.5, -1.0])
    np.testing.assert_allclose(streaming.value_grad(w)[1], other.value_grad(w)[1], rtol=1e-12)


def test_streaming_copies_parts_with_pairs_only(monkeypatch):
    monkeypatch.setattr(device, "PART_BYTES", 160)
    X, qid = np.random.default_rng(0).standard_normal((40, 2)), np.repeat(np.arange(4), 10)
    y = np.where(qid == 2, np.arange(40), 0)  # the other queries have one level
    engine, _ = compare(RankingData(X, y, qid), engine="cuda-streaming")
    parts = list(engine._device.parts_with(engine._groups.heads))
    assert [part.first for part in parts] == [20]
    np.testing.assert_array_equal(parts[0].X.copy_to_host(), X[20:30])


@pytest.mark.parametrize("kind", ["two levels", "five levels", "real labels"])
@pytest.mark.parametrize("form", ["dense64", "csr32"])
def test_the_papers_sums_give_the_same(kind, form):
    X, y, qid = make_problem_arrays(kind, n=30, d=3)
    compare(RankingData(as_form(X, form), y, qid), engine="p-swx")


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("kind", ["five levels", "nine levels"])
def test_gaps(kind, form):
    X, y, qid = make_problem_arrays(kind, n=34, d=3)
    one, other = compare(RankingData(as_form(X, form), y, qid), HINGE.smoothed(0.3))
    w = np.array([0.3, -0.2, 0.9])
    for engine in (one, other):
        engine.value_grad(w)
    np.testing.assert_allclose(one.gaps(w), other.gaps(w), rtol=1e-12)


def test_gaps_of_listed_pairs():
    X, y, qid = make_problem_arrays("five levels", n=34, d=3)
    one, other = compare(RankingData(X, y, qid), HINGE.smoothed(0.3), counting="explicit")
    w = np.array([0.3, -0.2, 0.9])
    for engine in (one, other):
        engine.value_grad(w)
    np.testing.assert_allclose(one.gaps(w), other.gaps(w), rtol=1e-12)


def test_gaps_of_the_papers_sums():
    X, y, qid = make_problem_arrays("five levels", n=34, d=3)
    one, other = compare(RankingData(X, y, qid), engine="p-swx")
    w = np.array([0.3, -0.2, 0.9])
    for found in (one, other):
        found.value_grad(w)
    np.testing.assert_allclose(one.gaps(w), other.gaps(w), rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic_exact", "domination"])
def test_what_the_host_does_is_done_at_the_same_weights(loss):
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    qid = np.arange(40) // 8
    one, other = compare(RankingData(X, y, qid), loss)
    for ask in (
        lambda engine: engine.hessian(),
        lambda engine: engine.hessian(16),
        lambda engine: engine.hessian(None, np.array([0, 2])),
        lambda engine: engine.hessian_diagonal(),
        lambda engine: engine.hessian_of_documents(20),
        lambda engine: engine.scores(np.ones(3)),
        lambda engine: np.array(engine.at_zero),
    ):
        np.testing.assert_allclose(ask(one), ask(other), rtol=1e-10, atol=1e-10)


def test_another_loss_leaves_the_first_one_alone():
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    one, other = compare(RankingData(X, y, qid), "huber")
    w, v = np.random.default_rng(0).standard_normal((2, 3))
    for engine in (one, other):
        engine.value_grad(w)
    second, expected = (engine.with_loss(HINGE.smoothed(0.5)) for engine in (one, other))
    assert second.value_grad(v)[0] == pytest.approx(expected.value_grad(v)[0], rel=1e-12)
    np.testing.assert_allclose(one.hessp(v), other.hessp(v), rtol=1e-10)
    for engine in (second, expected):
        engine.change_loss(HINGE.smoothed(0.1))
        engine.value_grad(w)
    np.testing.assert_allclose(second.hessp(v), expected.hessp(v), rtol=1e-10)
    np.testing.assert_allclose(second.gaps(w), expected.gaps(w), rtol=1e-10)


class Card:
    """A card with a given number of free bytes; each new array reduces it."""

    def __init__(self, monkeypatch, free):
        self.free = free
        context = type(device.cuda.current_context())
        monkeypatch.setattr(context, "get_memory_info", lambda _: (self.free, 10**9))
        for name in ("device_array", "to_device"):
            monkeypatch.setattr(device.cuda, name, self.counted(getattr(device.cuda, name)))

    def counted(self, make):
        """Wrap a function that allocates, so that its bytes are counted."""

        def take(*arguments):
            array = make(*arguments)
            self.free -= array._ary.nbytes
            return array

        return take


def test_x_fits_beside_all_else_or_is_refused(monkeypatch):
    monkeypatch.setattr(device, "PART_BYTES", 10 * 24)  # ten rows
    X, y, qid = make_problem_arrays("pairs of documents", n=200, d=3)
    data, w, whole = RankingData(X, y, qid), np.ones(3), 10**6

    def evaluate(name, free):
        with monkeypatch.context() as patch:
            card = Card(patch, free)
            make_engine(name, data, get_loss("squared_hinge"), None, 1).value_grad(w)
            return free - card.free

    rest, all_parts = evaluate("cuda", whole) - X.nbytes, evaluate("cuda-streaming", whole)
    least = rest + int(np.ceil(X.nbytes / device.ROOM))
    evaluate("cuda", least)
    with pytest.raises(
        DataError, match=r"^X needs 4,800 bytes.* free\. Use engine='cuda-streaming"
    ):
        evaluate("cuda", least - 10)
    evaluate("cuda-streaming", least - 10)
    with pytest.raises(DataError, match=r"two parts of X needs .*Use engine='threads'"):
        evaluate("cuda-streaming", all_parts)
    with pytest.raises(DataError, match=r"documents and pairs needs 1,600 .*Use engine='threads'"):
        evaluate("cuda", 1000)


def test_what_the_driver_refuses_is_a_sentence(monkeypatch):
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)

    def refuse(*arguments):
        raise CudaAPIError(2, "CUDA_ERROR_OUT_OF_MEMORY")

    for name in ("device_array", "to_device", "pinned_array"):
        with monkeypatch.context() as patch:
            patch.setattr(device.cuda, name, refuse)
            with pytest.raises(
                DataError, match=r"not give [\d,]+ bytes .*OUT_OF_MEMORY.*threads'\.$"
            ):
                RankSVM(C=1.0, engine="cuda", **PAPERS).fit(X, y, qid)


def test_pairs_that_are_too_many_to_be_listed(monkeypatch):
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    monkeypatch.setattr("linrank.engines.cuda.cuda_engine.MAX_PAIRS", 100)
    for counting in ("auto", "two-level"):
        with pytest.raises(
            DataError, match=r"\d+ pairs .* the limit is 100 pairs\. Use engine='threads'\.$"
        ):
            RankSVM(C=1.0, engine="cuda", rescale="slack", counting=counting, **PAPERS).fit(
                X, y, 0 * qid
            )


def test_more_documents_than_can_be_numbered(monkeypatch):
    X, y, qid = make_problem_arrays("five levels", n=200, d=3)
    monkeypatch.setattr(device, "INDEX", np.int8)
    for loss in ("squared_hinge", "logistic_exact", "domination"):
        with pytest.raises(
            DataError, match="there are 200 documents; the limit on a graphics card"
        ):
            make_engine("cuda", RankingData(X, y, qid), get_loss(loss), None, 1)


def test_blocks_without_work_have_no_sums():
    X, y, qid = make_problem_arrays("five levels", n=12, d=3)
    for name, n in (("cuda", 1), ("cuda-streaming", 2)):
        found, _ = compare(RankingData(X, y, 0 * qid), engine=name)
        assert found._sums.shape == (n, 3)


def test_refusals():
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    with pytest.raises(DataError, match="needs a dense X"):
        RankSVM(C=1.0, engine="cuda-streaming", **PAPERS).fit(as_form(X, "csr64"), y, qid)
    with pytest.raises(DataError, match="without weights"):
        RankSVM(C=1.0, engine="p-swx", **PAPERS).fit(X, y, qid, sample_weight=np.full(40, 2.0))
    with pytest.raises(DataError, match="squared_hinge"):
        RankSVM(C=1.0, engine="p-swx", loss="huber", **PAPERS).fit(X, y, qid)
    with pytest.raises(DataError, match="squared_hinge"):
        RankSVM(C=1.0, engine="p-swx", loss="domination", **PAPERS).fit(X, y, qid)


def test_additive_rankers():
    """The columns of basis functions are stored as an array for the card."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((40, 2)), rng.integers(0, 3, 40), np.arange(40) // 8
    models = [
        AdditiveRanker(0.1, n_bins=3, loss="huber", rescale=None, engine=engine).fit(X, y, qid)
        for engine in ("cuda", "threads")
    ]
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-3)
