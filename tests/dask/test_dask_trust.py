"""Only holders of credentials can run code on a cluster, and linrank's messages run none."""

from __future__ import annotations

import asyncio
import pickle
import ssl
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster, Security
from distributed.comm import connect
from distributed.protocol.serialize import ToPickle

import dask
from commandline import PATIENCE, error_of, run_json, write_text
from linrank import DataError, RankSVM, make_ranking
from linrank.dask import DaskData, DaskEngine, DaskRankSVM, evaluate
from linrank.dask.pool import local_cluster
from linrank.dask.session import HANDLER, OPERATIONS, Wire, decode, encode, install
from linrank.dask.sources import array_parts
from linrank.losses import get_loss
from problems import PAPERS


def collections(data):
    return tuple(da.from_array(a, chunks=(30, *a.shape[1:])) for a in (data.X, data.y, data.qid))


def listening():
    """Return the hosts and ports on which this process and its children listen."""
    this = psutil.Process()
    return {
        tuple(connection.laddr)
        for process in (this, *this.children(recursive=True))
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def without_certificate():
    """Return a TLS context that accepts every server and has no certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return {"ssl_context": context, "require_encryption": True}


async def accepts(address, **credentials):
    """Return whether a server answers the first message of a client."""
    try:
        comm = await connect(address, timeout=PATIENCE, **credentials)
    except OSError:
        return False
    comm.abort()
    return True


def test_strangers_are_refused_by_every_port():
    """The scheduler, the nanny and the worker have ports, to which linrank is connected."""
    data, before = make_ranking(12, 10, 4, random_state=0), listening()
    strangers = {
        "plain": ("tcp", {}),
        "no certificate": ("tls", without_certificate()),
        "other certificate": ("tls", Security.temporary().get_connection_args("client")),
    }
    with (
        local_cluster(1) as cluster,
        Client(cluster, set_as_default=False) as client,
        DaskData(client, array_parts(*collections(data))) as held,
    ):
        engine = DaskEngine(held, get_loss("squared_hinge"))
        ports = listening() - before
        assert len(ports) == 3
        for host, port in ports:
            assert host == "127.0.0.1"
            place = f"{host}:{port}"
            for who, (scheme, credentials) in strangers.items():
                assert not asyncio.run(accepts(f"{scheme}://{place}", **credentials)), who
            own = client.security.get_connection_args("client")
            assert asyncio.run(accepts(f"tls://{place}", **own))
        assert engine.value_grad(np.zeros(4))[0] > 0  # The fit can continue.
        folder = Path(client.run(lambda dask_worker: dask_worker.local_directory).popitem()[1])
        private = next(f for f in folder.parents if f.name.startswith("linrank-"))
        assert private.stat().st_mode & 0o077 == 0
    assert not private.exists()


def test_without_the_package_for_credentials_no_cluster_is_started(monkeypatch):
    def temporary():
        raise ImportError("cryptography")

    monkeypatch.setattr(Security, "temporary", temporary)
    with (
        pytest.raises(DataError, match=r"need the package cryptography: run pip install 'linrank"),
        local_cluster(1),
    ):
        pass


# Messages -----------------------------------------------------------------------------------


class Harm:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def client():
    with (
        local_cluster(1, processes=False) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(install)
        yield client


@contextmanager
def link_to_worker(client):
    """Open a connection to a worker in the same way as linrank does."""
    (address,) = client.nthreads()

    async def open_wire():
        comm = await connect(address, **client.security.get_connection_args("client"))
        await comm.write({"op": HANDLER, "token": "test", "reply": False})
        wire = Wire(comm)
        await wire.read()
        return wire

    wire = client.sync(open_wire)
    yield wire
    client.loop.add_callback(wire.comm.abort)


@pytest.mark.parametrize("how", ["Dask's message", "bytes"])
def test_a_pickle_instead_of_a_message_is_refused(client, tmp_path, how):
    harm = Harm(tmp_path / "harm")

    async def send(wire):
        if how == "bytes":
            body = pickle.dumps({"operation": harm})
            await wire.comm.stream.write(len(body).to_bytes(8, "little") + body)
        else:
            await wire.comm.write({"operation": ToPickle(harm)})
        return await wire.read()

    with link_to_worker(client) as wire, pytest.raises(OSError, match="closed"):
        client.sync(send, wire)
    assert not harm.path.exists()


LENGTHS = [2**62, 2**63, 2**64 - 1]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_beyond_all_memory_ends_the_connection(client, length, caplog):
    async def send(wire):
        await wire.comm.stream.write(length.to_bytes(8, "little"))
        return await wire.read()

    with link_to_worker(client) as wire, pytest.raises(OSError, match="closed"):
        client.sync(send, wire)
    assert f"{length:,} bytes does not fit into the memory" in caplog.text
    assert "Traceback" not in caplog.text
    with link_to_worker(client):  # The worker still accepts connections.
        pass


class FakeStream:
    """A stream that delivers given bytes, and is then closed."""

    def __init__(self, content):
        self.content, self.largest = content, 0

    async def read_bytes(self, n):
        piece, self.content = self.content[:n], self.content[n:]
        return piece

    async def read_into(self, buffer):
        self.largest = max(self.largest, len(buffer))
        if len(self.content) < len(buffer):
            raise ConnectionError("the stream is closed")
        buffer[:] = await self.read_bytes(len(buffer))


class FakeComm:
    peer_address = "tcp://fake"

    def __init__(self, content):
        self.stream, self.aborted = FakeStream(content), False

    def closed(self):
        return self.aborted

    def abort(self):
        self.aborted = True


@pytest.mark.parametrize("length", LENGTHS)
def test_an_answer_beyond_all_memory_ends_the_connection(length):
    comm = FakeComm(length.to_bytes(8, "little"))
    with pytest.raises(DataError, match=f"a message of {length:,} bytes does not fit"):
        asyncio.run(Wire(comm).read())
    assert comm.aborted


def test_an_answer_that_is_no_message_ends_the_connection():
    comm = FakeComm((1).to_bytes(8, "little") + b"\xc1")
    with pytest.raises(DataError, match="not plain data"):
        asyncio.run(Wire(comm).read())
    assert comm.aborted


def test_memory_is_allocated_as_a_message_arrives(monkeypatch):
    monkeypatch.setattr("linrank.dask.session.PIECE_BYTES", 1000)
    body = encode({"w": np.arange(1000.0)})
    comm = FakeComm(len(body).to_bytes(8, "little") + body)
    wire = Wire(comm)
    np.testing.assert_array_equal(asyncio.run(wire.read())["w"], np.arange(1000.0))
    assert (wire.received, comm.stream.largest) == (8 + len(body), 1000)
    comm.stream.content = len(body).to_bytes(8, "little") + body[:-1]
    with pytest.raises(ConnectionError, match="the stream is closed"):
        asyncio.run(wire.read())


def request(operation, body=None):
    return {"operation": operation, "engine": 1, "live": [1], "groups": [0], "body": body}


@pytest.mark.parametrize("operation", ["settle", "__init__", "answer", "_share", ""])
def test_unknown_operations_are_errors(client, operation):
    async def send(wire):
        await wire.write(request(operation))
        return await wire.read()

    with link_to_worker(client) as wire:
        kind, sentence = client.sync(send, wire)["error"]
    assert kind == "DataError"
    assert sentence.startswith(f"unknown operation {operation!r}; known are discard_rows, ")


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"discard_rows"}))
def test_a_pickle_within_a_message_is_not_loaded(client, tmp_path, operation):
    harm = Harm(tmp_path / "harm")

    async def send(wire):
        await wire.write(request(operation, pickle.dumps(harm)))
        return await wire.read()

    with link_to_worker(client) as wire:
        assert "traceback" in client.sync(send, wire)
    assert not harm.path.exists()
    pickle.loads(pickle.dumps(harm))
    assert harm.path.exists()  # Unpickling does run the code.


def test_messages_come_back_as_they_were():
    message = {
        "numbers": [1, -(2**62), 2**64 - 1, 0.1, np.inf, np.int64(3), np.float64(0.5), True, None],
        "text": "δ", "bytes": b"\0\xff", 7: {"empty": [], "nested": [[1], [2]]},
        "arrays": [
            np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), np.arange(6)[::2], np.float32([1.5]),
            np.array(["a", "ün"]), np.array([2**64 - 1], np.uint64), np.array(3.0),
            np.array([True]), np.array(["2020-01-01"], "M8[ns]"),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        ],
    }  # fmt: skip
    found = decode(encode(message))
    for one, other in zip(found.pop("arrays"), message.pop("arrays"), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
        assert one.flags.writeable
    assert found == message


def test_what_is_no_plain_data_is_not_sent():
    for value in (object(), {1, 2}, len, np.array([object()]), np.array([b"a"], object)):
        with pytest.raises(TypeError, match="a message cannot hold"):
            encode({"body": value})


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\x01", b"\x90", encode({"a": 1}) + b"\0", encode({"a": np.ones(3)})[:-1]],
)
def test_what_is_no_message_is_refused(body):
    with pytest.raises(DataError, match="not plain data"):
        decode(body)


@pytest.mark.parametrize("content", [("|O", [1], bytes(8)), ("<f8", [2], bytes(8)), ("x", [], b"")])
def test_arrays_that_are_refused(content):
    import msgpack

    extension = msgpack.ExtType(1, msgpack.packb(content))
    with pytest.raises(DataError, match="not plain data"):
        decode(msgpack.packb({"a": extension}))


# Clusters of others -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    """Write a self-signed certificate and its key to files."""
    folder, made = tmp_path_factory.mktemp("credentials"), Security.temporary()
    (folder / "cert.pem").write_text(made.tls_client_cert)
    (folder / "key.pem").write_text(made.tls_client_key)
    return folder


@pytest.fixture(scope="module")
def address(credentials):
    """Start a cluster with TLS that linrank does not own, and yield its scheduler."""
    pair = {
        f"tls_{role}_{part}": str(credentials / f"{part}.pem")
        for role in ("client", "scheduler", "worker")
        for part in ("cert", "key")
    }
    security = Security(
        tls_ca_file=str(credentials / "cert.pem"), require_encryption=True, **pair
    )  # fmt: skip
    with LocalCluster(
        n_workers=1, processes=False, security=security, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


def environment(credentials, cert="cert.pem"):
    """Set the variables of Dask's configuration that docs/guide/clusters.md names."""
    name = "DASK_DISTRIBUTED__COMM__TLS__"
    files = {"CA_FILE": cert, "CLIENT__CERT": "cert.pem", "CLIENT__KEY": "key.pem"}
    given = dask.config.collect_env({name + k: str(credentials / f) for k, f in files.items()})
    return dask.config.set(dask.config.merge(dask.config.config, given))


def test_an_address_with_tls(credentials, address, tmp_path):
    data = make_ranking(12, 10, 4, noise=1.0, random_state=0)
    (tmp_path / "parts").mkdir()
    write_text(tmp_path / "parts" / "1.txt", data)
    options = ("--C", "0.1", "--tol", "1e-8", "--out", tmp_path / "model.json")
    with environment(credentials):
        found = run_json("train", tmp_path / "parts", *options, "--dask", address)
    expected = run_json("train", tmp_path / "parts" / "1.txt", *options, "--scale", "none")
    assert found["solver"]["objective"] == pytest.approx(expected["solver"]["objective"])


def test_a_client_with_its_own_credentials(credentials, address):
    """linrank's connections use the client's Security, because Dask's configuration has none."""
    data = make_ranking(12, 10, 4, noise=1.0, random_state=0)
    X, y, qid = collections(data)
    with environment(credentials):
        security = Security(require_encryption=True)
    with Client(address, security=security, set_as_default=False) as client:
        ranker = DaskRankSVM(0.1, client=client, tol=1e-8, normalize=None).fit(X, y, qid)
        found = evaluate(y, ranker.predict(X), qid, client=client).mean
    expected = RankSVM(0.1, tol=1e-8, **PAPERS).fit(data.X, data.y, data.qid)
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)
    assert found["ndcg@10"] == pytest.approx(expected.score(data.X, data.y, data.qid))


def test_addresses_that_are_refused(credentials, address, letor, monkeypatch):
    monkeypatch.setattr("linrank.dask.pool.CONNECT_SECONDS", 2.0)
    command = ("train", letor / "train.txt", "--dask")
    assert "needs TLS credentials. Name their files" in error_of(*command, address)
    with environment(credentials, cert="nowhere.pem"):
        assert "cannot be read: [Errno 2]" in error_of(*command, address)
    plain = address.replace("tls", "tcp")
    assert "If it uses TLS, its address begins with tls://" in error_of(*command, plain)
