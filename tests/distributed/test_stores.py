"""Stores of keys and values: each kind does the same, waits as long as it says, and serves nobody but its job."""

from __future__ import annotations

import datetime
import os
import socket
import stat
import threading
import time
from contextlib import suppress

import pytest

import flambeau as torch
from flambeau.distributed.stores import secret as auth, wire

dist = torch.distributed
SHORT = datetime.timedelta(seconds=0.2)


@pytest.fixture(autouse=True)
def own_secret(monkeypatch):
    monkeypatch.setenv(auth.VARIABLE, "of these tests")


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    makers = {
        "hash": dist.HashStore,
        "file": lambda: dist.FileStore(str(tmp_path / "store"), 1),
        "tcp": lambda: dist.TCPStore("localhost", 0, is_master=True, timeout=SHORT),
        "prefix": lambda: dist.PrefixStore("outer", dist.PrefixStore("inner", dist.TCPStore("127.0.0.1", 0, None, True))),
    }
    store = makers[request.param]()
    store.set_timeout(SHORT)
    return store


def test_keys_and_values(store):
    store.set("text", "1")
    store.set("bytes", b"\xff2")
    assert (store.get("text"), store.get("bytes")) == (b"1", b"\xff2")
    assert (store.add("number", 5), store.add("number", -2), store.get("number")) == (5, 3, b"3")
    assert (store.check(["text"]), store.check(["text", "none"]), store.check([])) == (True, False, True)
    assert store.compare_set("leader", "", "x") == b"x"
    assert store.compare_set("leader", "y", "z") == b"x"
    assert store.compare_set("leader", "x", "z") == b"z"
    assert store.compare_set("none", "y", "z") == b"y"
    assert not store.check(["none"])
    before = store.num_keys()
    assert (store.delete_key("leader"), store.delete_key("leader")) == (True, False)
    assert store.num_keys() == before - 1
    store.append("list", "1")
    store.append("list", b"2")
    store.multi_set(["a", "b"], ["1", b"2"])
    assert store.multi_get(["list", "a", "b"]) == [b"12", b"1", b"2"]
    assert sorted(store.list_keys()) == ["a", "b", "bytes", "list", "number", "text"]


def test_waiting_ends_with_an_error_or_with_the_key(store):
    start = time.monotonic()
    with pytest.raises(dist.DistStoreError, match="(?i)timeout"):
        store.get("none")
    with pytest.raises(dist.DistStoreError, match="(?i)timeout"):
        store.wait(["none"], SHORT)
    assert time.monotonic() - start >= 0.4
    store.set_timeout(datetime.timedelta(seconds=20))
    threading.Timer(0.05, store.set, ("late", "1")).start()
    store.wait(["late"])
    assert store.get("late") == b"1"


def test_a_barrier_waits_for_all(store):
    store.barrier("one", 1)
    with pytest.raises(dist.DistStoreError):
        store.barrier("two", 2, SHORT)
    store.barrier("two", 2)


def test_what_is_no_key_or_value(store):
    for call in (lambda: store.set("a", 1), lambda: store.get(1), lambda: store.wait(["a"], 1.0)):
        with pytest.raises(TypeError):
            call()
    store.set("text", "x")
    with pytest.raises(ValueError):
        store.add("text", 1)
    assert store.get("text") == b"x"
    with pytest.raises(dist.DistStoreError, match="same size"):
        store.multi_set(["a", "b"], ["1"])


def test_a_client_that_left_takes_nothing_from_a_queue():
    store = dist.TCPStore("localhost", 0, is_master=True)
    gone = store._client.connect(10.0)
    gone.sendall(wire.pack(wire.Request.POP, [b"100", b"/q"]))
    waiting, end = store._service.server._waiting, time.monotonic() + 10
    while not waiting and time.monotonic() < end:
        time.sleep(0.001)
    gone.close()
    while waiting and time.monotonic() < end:
        time.sleep(0.001)
    store.queue_push("q", "1")
    assert store.queue_pop("q", False) == b"1"


def test_a_file_that_others_may_write_to_is_no_store(tmp_path):
    path = tmp_path / "store"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(dist.DistStoreError, match="all users may write"):
        dist.FileStore(str(path), 1)


@pytest.mark.parametrize("kind", ["hash", "tcp"])
def test_queues(kind):
    store = dist.HashStore() if kind == "hash" else dist.TCPStore("localhost", 0, is_master=True)
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    assert (store.queue_len("q"), store.queue_pop("q"), store.queue_pop("q"), store.queue_len("q")) == (2, b"1", b"2", 0)
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", False)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError):
        store.queue_pop("q")
    store.set_timeout(datetime.timedelta(seconds=20))
    threading.Timer(0.05, store.queue_push, ("q", "3")).start()
    assert store.queue_pop("q") == b"3"


def test_clients_of_a_server():
    master = dist.TCPStore("127.0.0.1", 0, 3, True, datetime.timedelta(seconds=20), wait_for_workers=False)
    clients = [dist.TCPStore("127.0.0.1", master.port, 3, False) for _ in range(2)]
    totals = []

    def count(client):
        totals.extend(client.add("total", 1) for _ in range(200))

    threads = [threading.Thread(target=count, args=(clients[i % 2],)) for i in range(4)]
    for thread in threads:
        thread.start()
    waiter = threading.Thread(target=clients[0].wait, args=(["go"],))
    waiter.start()
    for thread in threads:
        thread.join()
    assert sorted(totals) == list(range(1, 801))
    clients[0].set("go", "1")  # while another thread waits on the same store
    waiter.join(10)
    assert not waiter.is_alive()
    large = os.urandom(3 << 20)
    clients[1].set("large", large)
    assert clients[0].get("large") == large
    assert master.num_keys() == 4  # with that by which the processes are counted


def test_a_master_waits_for_its_workers():
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("localhost", 0, 2, True, SHORT)


def test_ports_and_addresses():
    first = dist.TCPStore("127.0.0.1", 0, is_master=True, multi_tenant=True)
    second = dist.TCPStore("127.0.0.1", first.port, is_master=True, multi_tenant=True)
    first.set("key", "1")
    assert second.get("key") == b"1"
    with pytest.raises(dist.DistNetworkError, match="failed to listen"):
        dist.TCPStore("127.0.0.1", first.port, is_master=True)
    with pytest.raises(OSError):  # bound to the one address it was told
        socket.create_connection(("127.0.0.2", first.port), 1)
    port = first.port
    del first, second
    with pytest.raises(dist.DistNetworkError, match=r"timed out after 200ms while trying to connect to \(127.0.0.1, "):
        dist.TCPStore("127.0.0.1", port, timeout=SHORT)
    with pytest.raises(TypeError):
        dist.TCPStore("127.0.0.1", 70000)


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64, b"\xff" * 500, auth.HELLO + b"0" * auth.CHALLENGE + b"1" * auth.PROOF]
)
def test_strangers_are_refused(words):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    with socket.create_connection(("127.0.0.1", store.port), 5) as stranger:
        stranger.sendall(words)
        told = b""
        with suppress(ConnectionResetError):
            while piece := stranger.recv(4096):
                told += piece
    assert told in (b"", told[: len(auth.WELCOME) + auth.CHALLENGE + auth.PROOF], told[:-1] + auth.NO)
    store.set("key", "still there")
    assert store.get("key") == b"still there"


def test_another_secret_is_refused_on_both_sides(monkeypatch):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    monkeypatch.setenv(auth.VARIABLE, "of somebody else")
    with pytest.raises(dist.DistNetworkError, match="another secret"):
        dist.TCPStore("127.0.0.1", store.port)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", auth.WELCOME + b"0" * 64])
def test_a_server_that_is_none_of_ours(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def lie():
            sock, _ = listener.accept()
            sock.recv(1000)
            sock.sendall(answer)
            sock.close()

        threading.Thread(target=lie, daemon=True).start()
        with pytest.raises(dist.DistNetworkError, match="protocol|another secret"):
            dist.TCPStore("127.0.0.1", listener.getsockname()[1])


def test_frames_that_are_none():
    for data in (
        b"\xff\xff\xff\xff\x01",
        wire.pack(1, [b"abc"])[:-1] + b"",
        b"\x00\x00\x00\x05\x01\x00\x00\x00\x09x",
        b"\x00\x00\x00\x02\x01ab",
    ):
        frame = bytearray(data)
        try:
            assert wire.unpack(frame) is None  # not whole yet
        except wire.Unreadable:
            continue
        assert frame == data
    assert wire.unpack(bytearray(wire.pack(7, [b"", b"xy"]))) == (7, [b"", b"xy"])


def test_the_secret_of_a_user_is_made_once_and_is_readable_for_nobody_else(monkeypatch, tmp_path):
    monkeypatch.delenv(auth.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = []
    threads = [threading.Thread(target=lambda: found.append(auth.job_secret())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1 and len(found[0]) == 32
    path = tmp_path / "flambeau" / "store-secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["store-secret"]
    path.chmod(0o644)
    monkeypatch.setattr(auth, "_folders", lambda: [path.parent])
    with pytest.raises(RuntimeError, match="can be read or written by others"):
        auth.job_secret()


def test_a_file_lives_as_long_as_its_users(tmp_path):
    path = tmp_path / "store"
    first, second = (dist.FileStore(str(path), 2) for _ in range(2))
    with pytest.raises(dist.DistStoreError, match="3 users"):
        dist.FileStore(str(path), 2)
    first.set("key", "value")
    with path.open("ab") as file:  # a writer was killed in the middle of a record
        file.write(b"\x01\x08")
    assert second.get("key") == b"value"
    second.set("key", "new")
    assert first.get("key") == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    del first
    assert path.exists()
    del second
    assert not path.exists()


def test_a_program_can_write_a_store_of_its_own():
    class Own(dist.Store):
        def __init__(self):
            super().__init__()
            self.keys = {}

        def set(self, key, value):
            self.keys[key] = value

    own = Own()
    dist.PrefixStore("part", own).set("key", "value")
    assert own.keys == {"part/key": "value"}
    with pytest.raises(NotImplementedError, match=r"Own\.get"):
        own.get("key")


def test_addresses_of_meetings(monkeypatch, tmp_path):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        next(dist.rendezvous("env://"))
    with pytest.raises(ValueError, match="rank parameter missing"):
        next(dist.rendezvous("tcp://127.0.0.1:1234"))
    with pytest.raises(ValueError, match="port number missing"):
        next(dist.rendezvous("tcp://127.0.0.1", 0, 1))
    with pytest.raises(RuntimeError, match="No rendezvous handler for gopher://"):
        next(dist.rendezvous("gopher://x", 0, 1))
    with pytest.raises(AssertionError, match="already"):
        next(dist.rendezvous("tcp://127.0.0.1:1?rank=0&world_size=1", 0, 1))
    store, rank, size = next(dist.rendezvous(f"file://{tmp_path}/store?rank=1&world_size=2"))
    assert (type(store), rank, size) == (dist.FileStore, 1, 2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}.items():
        monkeypatch.setenv(name, value)
    store, rank, size = next(dist.rendezvous("env://", timeout=SHORT))
    assert (store.host, store.port, rank, size) == ("127.0.0.1", port, 0, 1)
