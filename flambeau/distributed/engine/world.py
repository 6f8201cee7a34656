"""The MPI world of this process: started once, by whichever way the process was started, and used by every process group after that.

MPI cannot be started a second time in a process. So the world stays until the process ends; a process group that is made after another was
destroyed is a communicator over the same world, or over a part of it.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Any

from ..errors import DistBackendError
from . import pmi

__all__ = ["Started", "has_launcher", "here", "mpi", "of_launcher", "started", "world"]

_THREAD_MULTIPLE = 3
_LAUNCHERS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "PMIX_SIZE"))


class Started:
    """MPI as it runs in this process.

    Attributes:
        job: the world's name, which no other world has.
        communicator: of all its processes.
        process: of this process; a child that was forked has no MPI.
    """

    def __init__(self, job: str, communicator: Any, bridge: pmi.Bridge | None) -> None:
        self.job, self.communicator, self.bridge = job, communicator, bridge
        self.process = os.getpid()


started: Started | None = None


def here(rank: int) -> str:
    """This process, in an error's words."""
    return f"rank {rank} on {socket.gethostname()}"


def has_launcher() -> bool:
    """Whether an MPI launcher (``mpiexec``) started this process."""
    return any(rank in os.environ and size in os.environ for rank, size in _LAUNCHERS)


def mpi() -> Any:
    """``mpi4py.MPI``, with MPI not started by the import.

    Raises:
        ModuleNotFoundError: it is not installed; the message says how to.
    """
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.initialize and has_launcher()
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ModuleNotFoundError(
            f"process groups of several processes need mpi4py and an MPI library ({error}): pip install flambeau[mpi]", name="mpi4py"
        ) from error
    return MPI


def world(store: Any, rank: int, size: int) -> Any:
    """A communicator of ``size`` processes in which this one is ``rank``; MPI is started if it is not.

    Args:
        store: shared by these processes and no others; its timeout bounds the wait for them.
    Raises:
        DistBackendError: MPI does not start, or runs in some of them as parts of different worlds.
    """
    global started
    if started is None and has_launcher():
        started = _adopted()
    if started is not None and started.process != os.getpid():
        raise DistBackendError(
            "MPI was started before this process was forked, and does not work in it: start processes by 'spawn' instead"
        )
    place = {"job": started.job, "rank": started.communicator.rank} if started else {"job": "", "rank": -1}
    places = _exchanged(store, "place", rank, size, f"{place['job']} {place['rank']} {pmi.machine()}")
    jobs = {line.split(" ")[0] for line in places}
    if jobs == {""}:
        started = _bridged(store, rank, size, [line.split(" ", 2)[2] for line in places])
        return started.communicator
    if len(jobs) > 1:
        running = [i for i, line in enumerate(places) if not line.startswith(" ")]
        raise DistBackendError(
            f"{here(rank)}: MPI runs already in ranks {running}, in worlds of their own, and can be started "
            "once in a process. "
            "A process group after another one must be of the same processes, or of some of them"
        )
    assert started is not None
    return _selected(started.communicator, [int(line.split(" ")[1]) for line in places])


def _exchanged(store: Any, name: str, rank: int, size: int, value: str) -> list[str]:
    """The values that the ranks gave under a name."""
    keys = [f"{name}/{i}" for i in range(size)]
    store.set(keys[rank], value)
    return [each.decode() for each in store.multi_get(keys)]


def _adopted() -> Started:
    """The world that an MPI launcher made."""
    MPI = mpi()
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    _check_threads(MPI.Query_thread())
    communicator = MPI.COMM_WORLD
    communicator.Set_errhandler(MPI.ERRORS_RETURN)
    communicator.Barrier()
    _unlink_shared_memory()
    return Started(communicator.bcast(f"mpiexec-{secrets.token_hex(8)}"), communicator, None)


def _selected(communicator: Any, ranks: list[int]) -> Any:
    """The communicator of some of its ranks, in that order. Only these take part."""
    if ranks == list(range(communicator.size)):
        return communicator
    return communicator.Create_group(communicator.group.Incl(ranks))


def _bridged(store: Any, rank: int, size: int, machines: list[str]) -> Started:
    """A new world of processes that started alone."""
    MPI = mpi()
    if MPI.Is_initialized():
        raise DistBackendError(
            f"{here(rank)}: mpi4py has started MPI for this process alone; make the process group before mpi4py.MPI is imported"
        )
    if rank == 0:
        store.set("job", f"flambeau-{os.getpid()}-{secrets.token_hex(8)}")
    job = store.get("job").decode()
    bridge = pmi.Bridge(store, rank, size, job, pmi.process_mapping(machines))
    for name in [name for name in os.environ if name.startswith(("PMI_", "PMIX_", "HYDI_"))]:
        del os.environ[name]
    os.environ.update(bridge.environment())
    if len(set(machines)) == 1:
        os.environ.setdefault("UCX_NET_DEVICES", "all")
    bridge.start()
    try:
        _initialize(MPI, bridge)
    finally:
        for name in bridge.environment():
            os.environ.pop(name, None)  # a child started from here is no member of this world
    communicator = MPI.COMM_WORLD
    communicator.Set_errhandler(MPI.ERRORS_RETURN)  # errors are exceptions
    communicator.Barrier()
    _unlink_shared_memory()
    return Started(job, communicator, bridge)


def _initialize(MPI: Any, bridge: pmi.Bridge) -> None:
    """``MPI_Init_thread``, called so that the interpreter's lock is free: the bridge must run meanwhile."""
    library = ctypes.CDLL(MPI.__file__, mode=ctypes.RTLD_GLOBAL)
    provided = ctypes.c_int()
    code = interruptibly(lambda: library.MPI_Init_thread(None, None, _THREAD_MULTIPLE, ctypes.byref(provided)))
    if bridge.error is not None:
        raise DistBackendError(f"{here(bridge.rank)}: MPI did not start: {bridge.error}") from bridge.error
    if code:
        raise DistBackendError(f"{here(bridge.rank)}: MPI did not start: MPI_Init_thread answered {code}")
    _check_threads(provided.value)


def _check_threads(level: int) -> None:
    if level < _THREAD_MULTIPLE:
        raise DistBackendError(
            f"this MPI was started for threads of level {level}; process groups need MPI_THREAD_MULTIPLE ({_THREAD_MULTIPLE})"
        )


def interruptibly(call: Callable[[], Any]) -> Any:
    """``call()`` in another thread, so that signals reach this one."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True, name="mpi")
    thread.start()
    while thread.is_alive():
        thread.join(1.0)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _unlink_shared_memory() -> None:
    """Remove the names of the files through which ranks share memory. All have them mapped, and a rank that is killed leaves nothing."""
    try:
        with open("/proc/self/maps") as maps:
            names = {line.split(None, 5)[5].strip() for line in maps if "/dev/shm/mpich_shm_" in line}
    except OSError:
        return
    for name in names:
        try:
            os.unlink(name)
        except OSError:
            pass


def of_launcher() -> Any:
    """The communicator of all processes that an MPI launcher started."""
    global started
    if started is None:
        started = _adopted()
    return started.communicator
