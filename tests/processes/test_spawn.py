"""Starting processes, and learning how they ended."""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import unittest
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import flambeau
import flambeau.multiprocessing as mp

HERE = Path(__file__).resolve().parent


# -- what processes run: rank first ------------------------------------------------------------------------------------------------
def nothing(rank, *args):
    pass


def wait(rank):
    time.sleep(60)


def fail_second(rank):
    if rank == 1:
        raise ValueError("bad", rank)
    time.sleep(60)


def fail_alone(rank):
    raise KeyError(rank)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


def fail_unprintably(rank):
    raise Unprintable


def leave(rank, status):
    sys.exit(status)


def leave_at_once(rank, status):
    os._exit(status)


def kill(rank, number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def interrupt(rank):
    raise KeyboardInterrupt


def fail_after_a_stubborn_one(rank, ready):
    if rank == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(ready, b"x")
        time.sleep(60)
    raise ValueError


def started(torch, function, *args, nprocs=1, **options):
    return torch.multiprocessing.start_processes(function, args, nprocs=nprocs, start_method="fork", **options)


# -- against PyTorch ---------------------------------------------------------------------------------------------------------------
ENDS = [
    (nothing,),
    (nothing, "argument"),
    (fail_second,),
    (fail_alone,),
    (fail_unprintably,),
    (leave, 0),
    (leave, 3),
    (leave, "words"),
    (leave_at_once, 4),
    (kill, signal.SIGKILL),
    (kill, signal.SIGUSR1),
    (kill, signal.SIGTERM),
    (kill, 35),
    (interrupt,),
]


def end_of(torch, function, *args, nprocs):
    try:
        return started(torch, function, *args, nprocs=nprocs)
    except Exception as error:
        message = re.sub(r'File "[^"]*/(\w+\.py)", line \d+', r"File \1", str(error))
        told = [getattr(error, name, None) for name in ("error_index", "exit_code", "signal_name")]
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
        return type(error).__name__, type(error).__mro__[1].__name__, message, *told, error.error_pid > 0


@pytest.mark.oracle
@pytest.mark.parametrize("case", ENDS, ids=lambda case: "-".join(str(getattr(part, "__name__", part)) for part in case))
def test_an_end_is_told_in_pytorchs_words(oracle, case):
    nprocs = 2 if case[0] is fail_second else 1
    assert end_of(flambeau, *case, nprocs=nprocs) == end_of(oracle, *case, nprocs=nprocs)


def words(torch):
    module = import_module(f"{torch.__name__}.multiprocessing.spawn")
    made = [
        module.ProcessException("m", 1, 2),
        torch.multiprocessing.ProcessRaisedException("m", 1, 2),
        torch.multiprocessing.ProcessExitedException("m", 1, 2, 3, "SIGX"),
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.multiprocessing.SpawnContext([], [])
        torch.multiprocessing.spawn(nothing, nprocs=0, start_method="fork")
    told = [(warning.category, str(warning.message)) for warning in caught]
    empty = torch.multiprocessing.ProcessContext([], [])
    return (
        [(repr(error), error.__reduce__()[1]) for error in made],
        told,
        empty.join(),
        empty.join(timeout=0),
        empty.pids(),
        set(module.__all__),
    )


@pytest.mark.oracle
def test_exceptions_contexts_and_warnings(oracle):
    assert words(flambeau) == words(oracle)


def refused(torch):
    outcomes = []
    for call in (
        lambda: torch.multiprocessing.start_processes(nothing, start_method="threads"),
        lambda: torch.multiprocessing._prctl_pr_set_pdeathsig(1000),
    ):
        with pytest.raises((ValueError, RuntimeError)) as error:
            call()
        outcomes.append((error.type, str(error.value)))
    return outcomes, torch.multiprocessing._prctl_pr_set_pdeathsig(0), torch.multiprocessing._set_thread_name("mine")


@pytest.mark.oracle
def test_what_is_refused(oracle):
    before = mp._get_thread_name()
    assert refused(flambeau) == refused(oracle)
    assert mp._get_thread_name() == "mine"
    mp._set_thread_name(before)
    with pytest.raises(RuntimeError, match="expected at most 15 bytes, got 30"):
        mp._set_thread_name("a" * 30)
    with pytest.raises(TypeError, match="expected a str, got int"):
        mp._set_thread_name(3)
    with pytest.raises(TypeError):
        mp._prctl_pr_set_pdeathsig("SIGINT")


# -- waiting and ending ------------------------------------------------------------------------------------------------------------
def test_join_returns_when_one_ends_and_is_true_when_all_have():
    reader, writer = os.pipe()
    try:
        context = started(flambeau, _read, reader, nprocs=2, join=False)
        assert context.pids() == [process.pid for process in context.processes]
        assert context.join(timeout=0.01) is False
        os.write(writer, b"x")
        assert context.join() is False
        assert len(context.sentinels) == 1
        os.write(writer, b"x")
        assert context.join() is True
        assert context.join() is True
    finally:
        os.close(reader)
        os.close(writer)


def _read(rank, descriptor):
    os.read(descriptor, 1)


def test_a_stubborn_process_is_killed_after_the_grace_period():
    reader, writer = os.pipe()
    context = started(flambeau, fail_after_a_stubborn_one, writer, nprocs=2, join=False)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    with unittest.TestCase().assertLogs(level=logging.WARNING) as said, pytest.raises(mp.ProcessRaisedException):
        while not context.join(grace_period=0.1):
            pass
    assert [process.exitcode for process in context.processes] == [1, -signal.SIGKILL]
    pid = context.pids()[1]
    assert [record.getMessage() for record in said.records] == [
        f"Terminating process {pid} via signal SIGTERM",
        f"Unable to shutdown process {pid} via SIGTERM, forcefully exiting via SIGKILL",
    ]


def test_daemons_and_files_of_errors():
    context = started(flambeau, wait, daemon=True, join=False)
    assert context.processes[0].daemon
    context.processes[0].kill()
    with pytest.raises(mp.ProcessExitedException):
        context.join()
    context = started(flambeau, fail_alone, join=False)
    context.processes[0].join()
    (file,) = context.error_files
    assert os.stat(file).st_mode & 0o777 == 0o600
    with pytest.raises(mp.ProcessRaisedException, match="KeyError: 0"):
        context.join()
    del context
    assert not os.path.exists(file)


def test_a_function_that_cannot_be_sent_is_the_callers_error():
    with pytest.raises((AttributeError, pickle.PicklingError), match="Can't pickle local object|Can't get local object"):
        mp.spawn(lambda rank: None)


# -- fresh interpreters ------------------------------------------------------------------------------------------------------------
def test_a_program_of_fresh_interpreters():
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    command = [sys.executable, "-m", "flambeau", "spawned.py", "spawn", "forkserver"]
    process = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["spawn", "forkserver", "ProcessRaisedException 1 ValueError: told", "[]"]
