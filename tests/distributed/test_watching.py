"""Ranks that watch each other: who is lost, who left, who is late. Each rank is a watcher of its own in this process."""

from __future__ import annotations

import json
import os
import threading
import time
from types import SimpleNamespace

import pytest

import flambeau as torch
from flambeau.distributed import watching
from flambeau.distributed.stores import secret
from flambeau.distributed.stores.members import Members

dist = torch.distributed


class Ranks:
    """Watchers, and the messages with which they would have ended their processes."""

    def __init__(self, size, store=None):
        self.store = store or dist.TCPStore("127.0.0.1", 0, is_master=True)
        self.told = {}
        self.watchers = [
            watching.Watcher(self.store, rank, size, leave=lambda message, rank=rank: self.told.setdefault(rank, message))
            for rank in range(size)
        ]

    def wait(self, *ranks, seconds=8.0):
        end = time.monotonic() + seconds
        while not all(rank in self.told for rank in ranks):
            assert time.monotonic() < end, self.told
            time.sleep(0.01)
        return [self.told[rank] for rank in ranks]


@pytest.fixture
def ranks(monkeypatch):
    monkeypatch.setenv(secret.VARIABLE, "of these tests")
    monkeypatch.setattr(watching, "_BEAT", 0.05)
    monkeypatch.setattr(watching, "_QUIET", 0.3)
    monkeypatch.setattr(watching, "_GRACE", 0.5)
    made = []

    def make(size, store=None):
        made.append(Ranks(size, store))
        return made[-1]

    yield make
    for each in made:
        for watcher in each.watchers:
            watcher.close()


def test_a_rank_whose_connection_breaks_is_lost_at_once(ranks):
    job = ranks(3)
    job.watchers[0].enter("all_reduce", 7)
    job.watchers[2].enter("all_reduce", 7)
    time.sleep(0.1)
    start = time.monotonic()
    job.watchers[1]._closed.set()
    job.watchers[1]._sock.shutdown(2)
    first, second = job.wait(0, 2)
    assert time.monotonic() - start < 2
    host = job.watchers[0]._host
    assert (
        first
        == f"rank 0 on {host} in all_reduce (number 7): rank 1 on {host} is lost: its connection to the store ended. This job has ended."
    )
    assert second.startswith("rank 2 on ")
    with pytest.raises(dist.DistBackendError, match="rank 1 on .* is lost"):
        job.watchers[0].enter("barrier", 8)


def test_outside_of_collectives_the_next_one_raises(ranks):
    job = ranks(2)
    job.watchers[1]._closed.set()
    job.watchers[1]._sock.shutdown(2)
    end = time.monotonic() + 5
    while not job.watchers[0].error and time.monotonic() < end:
        time.sleep(0.01)
    assert not job.told
    with pytest.raises(dist.DistBackendError, match="rank 1"):
        job.watchers[0].enter("barrier")
    job.wait(0)  # and the process ends, when the program does not


def test_a_rank_that_does_not_come_is_named(ranks):
    job = ranks(3)
    job.watchers[1].enter("all_reduce", 3)
    job.watchers[1].leave()
    for rank in (0, 2):
        job.watchers[rank].enter("all_reduce", 4, timeout=0.3)
    for message in job.wait(0, 2):
        assert "rank 1 on " in message and "it did not come to all_reduce (number 4) within 0 s" in message


def test_a_rank_that_left_is_lost_only_for_those_who_wait_for_it(ranks):
    job = ranks(3)
    job.watchers[2].close()
    job.watchers[0].enter("all_reduce", 5, ranks=[0, 1])
    time.sleep(0.6)
    assert not job.told
    job.watchers[0].leave()
    job.watchers[0].enter("all_reduce", 6)
    (message,) = job.wait(0)
    assert "rank 2 on " in message and "it left before all_reduce (number 6)" in message


def test_a_stopped_process_is_lost(ranks, monkeypatch):
    job = ranks(2)
    job.watchers[1]._closed.set()  # no more beats, and the connection stands
    monkeypatch.setattr(watching, "stopped", lambda pid: f"its process {pid} is stopped")
    job.watchers[0].enter("broadcast", 1)
    (message,) = job.wait(0)
    assert f"its process {os.getpid()} is stopped" in message


def test_the_state_of_a_process():
    assert watching.stopped(os.getpid()) == ""
    assert "is gone" in watching.stopped(2**22 + 1)


def test_a_store_without_a_server_gets_one(ranks):
    store = dist.PrefixStore("job", dist.HashStore())
    made = {}

    def make(rank):
        made[rank] = watching.Watcher(store, rank, 2, leave=lambda message: made.setdefault("told", message))

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    time.sleep(0.2)
    made[0].close()  # with the server
    made[1].enter("barrier", 1)
    end = time.monotonic() + 8
    while "told" not in made and time.monotonic() < end:
        time.sleep(0.01)
    assert "rank 0 on " in made["told"]
    made[1].close()


def test_a_member_knows_what_it_has_read() -> None:
    """A beat that came before the goodbye, or whose answer is not read yet, does not tell that its member knows of it."""
    members = Members()
    for name in ("0", "1"):
        members.join("world", name)
        members.beat("world", name, b"{}")
        members.report("world", name)
    assert not members.has_news("world", "1")
    members.beat("world", "1", b"{}")  # waits for its answer
    members.leave("world", "0")
    when = time.monotonic()
    assert members.has_news("world", "1") and not members.all_know("world", when)
    assert json.loads(members.report("world", "1"))["left"] == {"0": {}}
    assert not members.has_news("world", "1") and not members.all_know("world", when), "sent, and not read yet"
    members.beat("world", "1", b"{}")
    assert members.all_know("world", when)


def test_what_came_before_a_rank_was_lost_is_still_taken(monkeypatch):
    from flambeau.distributed.engine.lane import Lane

    watcher = SimpleNamespace(error="rank 1 is lost", enter=lambda *_: None, leave=lambda: None)
    monkeypatch.setattr("flambeau.distributed.watching.current", lambda: watcher)
    lane = Lane(SimpleNamespace(IN_PLACE=None), SimpleNamespace(rank=0, size=2), 10.0)
    looks = iter([False] * 100)
    lane.wait(SimpleNamespace(Test=lambda: next(looks, True)))
    assert lane.broken is None
    with pytest.raises(dist.DistBackendError, match="rank 1 is lost"):
        lane.wait(SimpleNamespace(Test=lambda: False))
