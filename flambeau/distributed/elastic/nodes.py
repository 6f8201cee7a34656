"""Meeting of launchers, one a node: who takes part in an attempt, which ranks each has, and where the workers' store is.

Launchers agree through a store of their own (one in memory, where there is one node). For each attempt the first node opens a fresh store
for the workers, so that nothing of an attempt before is found in it, with a secret of its own that all launchers compute from theirs.

With ``static`` rendezvous each node is told its rank. With ``c10d`` nodes get theirs in the order in which they come; an attempt begins
when as many have come as may, or, when enough have, after a last call.
"""

from __future__ import annotations

import datetime
import json
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

from ..errors import DistNetworkError
from ..stores import HashStore, PrefixStore, Store, TCPStore, secret as auth

__all__ = ["Nodes", "Settings", "TooLate"]


class TooLate(Exception):
    """An attempt has begun without this node."""


@dataclass(frozen=True)
class Settings:
    """All that the launcher was told about nodes."""

    min_nodes: int
    max_nodes: int
    backend: str  # "static" or "c10d"
    host: str
    port: int
    run_id: str
    node_rank: int
    local_addr: str | None
    timeout: float
    last_call: float
    is_host: bool | None


@dataclass(frozen=True)
class Round:
    """One attempt, as this node sees it."""

    number: int
    group_rank: int
    nodes: list[dict[str, Any]]  # host, workers and role of each node
    store: Store  # the launchers', with keys of this attempt
    workers: TCPStore | None  # on the first node: the workers', which lives as long as this
    master: tuple[str, int]
    secret: str

    @property
    def first_rank(self) -> int:
        return sum(node["workers"] for node in self.nodes[: self.group_rank])

    @property
    def world_size(self) -> int:
        return sum(node["workers"] for node in self.nodes)

    def role_place(self, local_rank: int) -> tuple[int, int]:
        """Rank and number of workers among those of the same role."""
        role = self.nodes[self.group_rank]["role"]
        before = sum(node["workers"] for node in self.nodes[: self.group_rank] if node["role"] == role)
        return before + local_rank, sum(node["workers"] for node in self.nodes if node["role"] == role)


class _WorkersStore(TCPStore):
    """A store with another secret than this process's own."""

    def __init__(self, text: str, *args: Any, **kwargs: Any) -> None:
        self._text = text
        super().__init__(*args, **kwargs)

    def _choose_secret(self) -> bytes:
        return auth.of_text(self._text)


def is_here(host: str) -> bool:
    """Whether an address is one of this machine's: one can listen at it."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(place)
        return True
    except OSError:
        return False


class Nodes:
    """This node among all of a job's."""

    def __init__(self, settings: Settings, workers: int, role: str) -> None:
        self.settings, self.me = settings, {"host": socket.gethostname(), "workers": workers, "role": role}
        self.single = settings.max_nodes == 1
        self.store: Store = HashStore() if self.single else self._join()
        self.store.set_timeout(datetime.timedelta(seconds=settings.timeout))
        self._job = PrefixStore(f"flambeau/{settings.run_id}", self.store)
        self.expected = 0  # nodes that come at once: those of the last attempt

    @property
    def serves(self) -> bool:
        """Whether the launchers' store is in this process, and others use it."""
        return isinstance(self.store, TCPStore) and self.store._service is not None

    def _join(self) -> TCPStore:
        """The launchers' store: served by node 0, or by one that has the endpoint's address."""
        told = self.settings
        timeout = datetime.timedelta(seconds=told.timeout)
        serve = told.node_rank == 0 if told.backend == "static" else told.is_host
        if serve is None:
            serve = is_here(told.host)
            try:
                return TCPStore(told.host, told.port, None, serve, timeout)
            except DistNetworkError:
                if not serve:
                    raise
                # Another launcher of this machine was quicker, or the port is somebody else's, which connecting tells.
                serve = False
        return TCPStore(told.host, told.port, None, serve, timeout)

    def meet(self, number: int) -> Round:
        """Come together for an attempt.

        Raises:
            TooLate: it has begun without this node.
            DistStoreError: not enough nodes came in time.
        """
        store = PrefixStore(str(number), self._job)
        rank, size = self._place(store)
        self.expected = size
        store.set(f"node/{rank}", json.dumps(self.me))
        nodes = [json.loads(each) for each in store.multi_get([f"node/{i}" for i in range(size)])]
        workers = None
        if rank == 0:
            nonce = secrets.token_hex(16)
            host, port = self._workers_address()
            secret = auth.derive(auth.job_secret(), f"{self.settings.run_id}/{number}/{nonce}")
            workers = _WorkersStore(secret, host, port, None, True)
            self._job.set("round", str(number))
            store.set("master", json.dumps([host, workers.port, nonce]))
        host, port, nonce = json.loads(store.get("master"))
        secret = auth.derive(auth.job_secret(), f"{self.settings.run_id}/{number}/{nonce}")
        return Round(number, rank, nodes, store, workers, (host, port), secret)

    def current(self) -> int:
        """The attempt that runs, for a node that comes later."""
        return int(self._job.get("round")) if self._job.check(["round"]) else 0

    def _place(self, store: Store) -> tuple[int, int]:
        """This node's rank, and the number of nodes."""
        told = self.settings
        if told.backend == "static" or self.single:
            return told.node_rank, told.max_nodes
        came = store.add("came", 1)
        if came == 1:
            self._wait_for_nodes(store)
        size = int(store.get("size"))
        if came > size:
            store.set("more", "1")
            store.wait(["next"])  # the others stop for it; alone it would make a second world
            self.expected = min(size + 1, told.max_nodes)
            raise TooLate
        return came - 1, size

    def _wait_for_nodes(self, store: Store) -> None:
        told, start = self.settings, time.monotonic()
        while True:
            came, waited = store.add("came", 0), time.monotonic() - start
            if came >= told.max_nodes or (came >= told.min_nodes and (waited > told.last_call or came >= self.expected > 0)):
                store.set("size", str(min(came, told.max_nodes)))
                return
            if waited > told.timeout:
                place = f"{told.host}:{told.port}"
                raise DistNetworkError(f"{came} of at least {told.min_nodes} nodes came to {place} within {told.timeout:.0f} s")
            time.sleep(0.05)

    def _workers_address(self) -> tuple[str, int]:
        """The address at which the first node serves the workers' store."""
        told = self.settings
        if self.single:
            return told.local_addr or told.host, told.port
        if told.local_addr:
            return told.local_addr, 0
        if told.backend == "static" or is_here(told.host):
            return told.host, 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing: which address leads there
            probe.connect((told.host, told.port or 1))
            return probe.getsockname()[0], 0
