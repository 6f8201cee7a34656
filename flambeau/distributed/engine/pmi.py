"""The launcher's side of MPI's start, for processes that no MPI launcher started.

MPI learns who takes part through PMI, a line protocol on a descriptor that the launcher leaves in ``PMI_FD``. Here the launcher's end of
it is a thread of the same process, which answers from a store that all ranks share:

    rank 0                                             rank r
    MPI_Init --PMI_FD--> Bridge --+               +-- Bridge <--PMI_FD-- MPI_Init
                                  +--> store <----+

What a rank puts is kept until its next fence, goes to the store as one value then, and a fence waits for the values of all ranks. So
starting costs each rank two requests to the store for a fence, however many keys MPI uses.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
from typing import Any

__all__ = ["Bridge", "machine", "process_mapping"]


class Bridge(threading.Thread):
    """Answers the PMI requests (version 1) of this process's MPI.

    Args:
        store: what all ranks share; its timeout is that of a fence.
        rank, size: this process's place, and how many there are.
        job: the world's name. MPICH names its shared memory after it, so no two worlds of a machine may have the same.
        mapping: which rank is on which machine, in PMI's words.
    """

    def __init__(self, store: Any, rank: int, size: int, job: str, mapping: str) -> None:
        super().__init__(daemon=True, name="pmi")
        self.store, self.rank, self.size, self.job = store, rank, size, job
        self.ours, theirs = socket.socketpair()
        self.descriptor = theirs.detach()  # MPI closes it
        self.fences = 0
        self.put: dict[str, str] = {}
        self.known = {"PMI_process_mapping": mapping}
        self.error: BaseException | None = None
        self.closed = False
        atexit.register(self.close)

    def environment(self) -> dict[str, str]:
        return {"PMI_FD": str(self.descriptor), "PMI_RANK": str(self.rank), "PMI_SIZE": str(self.size)}

    def run(self) -> None:
        rest = b""
        try:
            while more := self.ours.recv(65536):
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    self.ours.sendall(self.answer(_words(line.decode())).encode() + b"\n")
        except BaseException as error:
            self.error = error
            self.ours.close()  # MPI's start sees that and fails

    def close(self) -> None:
        """Before the interpreter ends: MPI's "finalize" comes when Python's threads have stopped, so it is answered in advance."""
        if not self.closed:
            self.closed = True
            try:
                self.ours.sendall(b"cmd=finalize_ack rc=0\n")
            except OSError:
                pass

    def answer(self, asked: dict[str, str]) -> str:
        command = asked.get("cmd", "")
        if command in _CONSTANT:
            return _CONSTANT[command].format(self=self)
        if command == "put":
            self.put[asked["key"]] = asked["value"]
            return "cmd=put_result rc=0"
        if command == "get":
            value = self.known.get(asked["key"], self.put.get(asked["key"]))
            return "cmd=get_result rc=1 msg=key_not_found" if value is None else f"cmd=get_result rc=0 value={value}"
        if command == "barrier_in":
            self.fence()
            return "cmd=barrier_out rc=0"
        if command == "abort":
            os._exit(int(asked.get("exitcode", 1)) or 1)
        return f"cmd={command} rc=-1"

    def fence(self) -> None:
        """Show what this rank has put, and learn what all have."""
        keys = [f"pmi/{self.job}/{self.fences}/{rank}" for rank in range(self.size)]
        self.fences += 1
        self.store.set(keys[self.rank], json.dumps(self.put))
        for value in self.store.multi_get(keys):
            self.known.update(json.loads(value))
        self.put.clear()


_CONSTANT = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096",
    "get_appnum": "cmd=appnum rc=0 appnum=0",
    "get_universe_size": "cmd=universe_size rc=0 size={self.size}",
    "get_my_kvsname": "cmd=my_kvsname rc=0 kvsname={self.job}",
    "finalize": "cmd=finalize_ack rc=0",
}


def _words(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.strip().split(" ") if "=" in word)


def machine() -> str:
    """The same for all processes that share memory, and for no others."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot}/{os.stat('/dev/shm').st_dev}/{os.stat('/proc/self/ns/ipc').st_ino}"
    except OSError:
        return socket.gethostname()


def process_mapping(machines: list[str]) -> str:
    """PMI's words for which rank is on which machine: (vector,(first machine, machines, ranks on each),...)."""
    numbers = {name: i for i, name in enumerate(dict.fromkeys(machines))}
    runs: list[list[int]] = []
    for name in machines:
        number = numbers[name]
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return "(vector," + ",".join(f"({number},1,{count})" for number, count in runs) + ")"
