"""The launcher: places of workers, nodes, restarts, output, failures, signals. Workers are small programs without the package."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from flambeau.distributed import launch, run
from flambeau.distributed.elastic import agent
from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, start_processes
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from flambeau.distributed.elastic.multiprocessing.logs import Tail
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch
from flambeau.distributed.stores import HashStore, secret

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
import json, os, sys
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE".split()
names += "MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_USE_AGENT_STORE".split()
names += "FLAMBEAU_STORE_SECRET OMP_NUM_THREADS".split()
with open(os.path.join(OUT, os.environ["RANK"] + ".json"), "w") as file:
    json.dump({name: os.environ[name] for name in names} | {"argv": sys.argv[1:]}, file)
"""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    monkeypatch.setenv(secret.VARIABLE, "of these tests")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture
def program(tmp_path):
    def write(source):
        path = tmp_path / "program.py"
        path.write_text(f"OUT = {str(tmp_path)!r}\n{source}")
        return str(path)

    return write


def told(tmp_path):
    return {int(path.stem): json.loads(path.read_text()) for path in tmp_path.glob("[0-9]*.json")}


def test_workers_find_their_places(program, tmp_path):
    run.main(["--standalone", "--nproc-per-node", "2", "--role", "trainer", program(SHOW), "--lr", "1"])
    places = told(tmp_path)
    assert set(places) == {0, 1}
    one = places[1]
    numbers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    assert [one[name] for name in numbers] == list("112201")
    assert [one[name] for name in ("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")] == ["trainer", "1", "2"]
    assert (one["TORCHELASTIC_USE_AGENT_STORE"], one["TORCHELASTIC_RESTART_COUNT"], one["argv"]) == ("True", "0", ["--lr", "1"])
    assert one["FLAMBEAU_STORE_SECRET"] == places[0]["FLAMBEAU_STORE_SECRET"] != "of these tests"
    assert not list(tmp_path.glob("torchelastic_*"))


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_two_nodes(program, tmp_path, backend, free_port):
    path = program(SHOW)
    if backend == "static":
        words = [["--master-port", free_port, "--node-rank", str(node)] for node in range(2)]
    else:
        words = [["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port}", "--rdzv-id", "job"]] * 2
    threads = [threading.Thread(target=run.main, args=(["--nnodes", "2", "--nproc-per-node", "2", *word, path],)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    places = told(tmp_path)
    assert set(places) == {0, 1, 2, 3}
    assert [places[rank]["GROUP_RANK"] for rank in range(4)] == ["0", "0", "1", "1"]
    assert {(each["WORLD_SIZE"], each["MASTER_PORT"]) for each in places.values()} == {("4", places[0]["MASTER_PORT"])}


def test_a_node_that_comes_later_takes_part(program, tmp_path, free_port):
    source = """
import os, time
with open(os.path.join(OUT, "ran-" + os.environ["WORLD_SIZE"] + "-" + os.environ["RANK"]), "w"):
    pass
time.sleep(60 if os.environ["WORLD_SIZE"] == "1" else 0)
"""
    options = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port}", "--rdzv-conf", "last_call_timeout=0.1"]
    path = program(source)
    threads = [threading.Thread(target=run.main, args=(["--nnodes", "1:2", *options, path],)) for _ in range(2)]
    threads[0].start()
    end = time.monotonic() + 20
    while not (tmp_path / "ran-1-0").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert {path.name for path in tmp_path.glob("ran-*")} == {"ran-1-0", "ran-2-0", "ran-2-1"}


def test_the_node_of_the_cause_is_told_before_those_that_it_took_along():
    store = HashStore()

    def tell(node, status):
        launcher = agent.Agent.__new__(agent.Agent)
        launcher.nodes = SimpleNamespace(me={"host": "here"})
        meeting = SimpleNamespace(nodes=["a", "b"], group_rank=node, store=store)
        launcher._tell(meeting, agent._Failed(f"exit status {status}", {node: ProcessFailure(0, 1, status, "")}))

    follower = threading.Thread(target=tell, args=(1, 75))
    follower.start()
    time.sleep(0.05)
    tell(0, 3)
    follower.join()
    assert json.loads(store.get("ended")) == {"node": 0, "host": "here", "reason": "exit status 3"}


MEETS = """
import datetime, os
import flambeau as torch
store, rank, size = next(torch.distributed.rendezvous("env://", timeout=datetime.timedelta(seconds=30)))
store.set(f"rank {rank}", "here")
store.wait([f"rank {i}" for i in range(size)])
open(os.path.join(OUT, f"{rank} of {size} with {type(store).__module__.partition('.')[0]}"), "w").close()
store.set(f"left {rank}", "1")
store.wait([f"left {i}" for i in range(size)]) if rank == 0 else None
"""


@pytest.mark.slow
@pytest.mark.oracle
def test_programs_meet_under_pytorchs_own_launcher(program, tmp_path, monkeypatch):
    monkeypatch.delenv(secret.VARIABLE)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program(MEETS)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=90)
    assert not done.returncode, done.stderr
    assert {path.name for path in tmp_path.glob("* of *")} == {"0 of 2 with flambeau", "1 of 2 with flambeau"}


@pytest.fixture
def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


def test_all_start_again_when_one_failed(program, tmp_path):
    source = """
import os, sys, time
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
open(os.path.join(OUT, f"ran-{attempt}-{rank}"), "w").close()
if attempt == "0":
    if rank == "1":
        sys.exit(3)
    time.sleep(60)
"""
    start = time.monotonic()
    run.main(["--standalone", "--nproc-per-node", "2", "--max-restarts", "1", program(source)])
    assert time.monotonic() - start < 20
    assert {path.name for path in tmp_path.glob("ran-*")} == {"ran-0-0", "ran-0-1", "ran-1-0", "ran-1-1"}


def test_the_table_of_failures(program):
    source = """
import os, signal, time
if os.environ["RANK"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""
    with pytest.raises(ChildFailedError) as caught:
        run.main(["--standalone", "--nproc-per-node", "2", program(source)])
    lines = str(caught.value).splitlines()
    assert lines[2] == "program.py FAILED"
    assert "Root Cause (first observed failure):" in lines
    assert any(line.startswith("  exitcode  : -9 (pid: ") and line.endswith(")  (SIGKILL)") for line in lines)
    assert "  rank      : 0 (local_rank: 0)" in lines


def test_a_worker_that_lost_another_one_is_not_the_cause():
    failures = {0: ProcessFailure(0, 1, 75, ""), 1: ProcessFailure(1, 2, -9, "")}
    failures[0].timestamp -= 10
    assert ChildFailedError("x", failures).get_first_failure()[0] == 1


def test_the_exception_of_a_recorded_function_comes_with_its_traceback(monkeypatch):
    with pytest.raises(ChildFailedError) as caught:
        elastic_launch(LaunchConfig(1, 1, 1, max_restarts=0, start_method="fork"), divmod)(1, 0)
    assert "ZeroDivisionError" in str(caught.value)


def test_output_goes_where_it_should(program, tmp_path, capfd):
    source = """
import os, sys
print("out of", os.environ["RANK"], flush=True)
print("err of", os.environ["RANK"], file=sys.stderr, flush=True)
"""
    logs = tmp_path / "logs"
    options = ["--log-dir", str(logs), "--redirects", "1", "--tee", "0:2,1:0", "--rdzv-id", "job"]
    run.main(["--standalone", "--nproc-per-node", "2", *options, program(source)])
    out, err = capfd.readouterr()
    assert out == ""
    assert sorted(err.splitlines()) == ["[default0]:err of 0", "err of 1"]
    (folder,) = logs.glob("*/attempt_0")
    assert (folder / "1" / "stdout.log").read_text() == "out of 1\n"
    run.main(["--standalone", "--nproc-per-node", "2", "--local-ranks-filter", "1", program(source)])
    assert capfd.readouterr().out == "out of 1\n"


def test_the_old_launcher_passes_the_rank(program, tmp_path):
    with pytest.warns(FutureWarning, match="torchrun"):
        launch.main(["--nproc_per_node=1", "--rdzv-backend", "c10d", program(SHOW), "x"])
    assert told(tmp_path)[0]["argv"] == ["--local-rank=0", "x"]


REFUSED = [["--numa-binding", "node"], ["--virtual-local-rank"], ["--rdzv-backend", "etcd"], ["--event-log-handler", "x"]]


@pytest.mark.parametrize("options", REFUSED)
def test_what_is_not_supported_says_so(options):
    with pytest.raises(NotImplementedError, match="not supported"):
        run.main([*options, "program.py"])


def test_options_from_the_environment(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    args = run.parse_args(["-m", "-t", "3", "module", "--x"])
    assert (args.nproc_per_node, args.module, args.tee, args.training_script_args) == ("3", True, "3", ["--x"])
    with pytest.raises(RuntimeError, match="MIN:MAX"):
        run.parse_min_max_nnodes("1:2:3")
    with pytest.raises(ValueError, match="Unsupported nproc_per_node"):
        run.determine_local_world_size("many")
    with pytest.raises(ValueError):
        Std.from_str("4")


def test_a_port_that_is_taken(program):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RuntimeError, match="failed to listen"):
        run.main(["--master-port", str(taken.getsockname()[1]), program("")])


def test_two_jobs_of_one_node_need_no_ports(program, tmp_path):
    import socket

    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", 29500)):
        run.main([program(SHOW)])
    assert told(tmp_path)[0]["MASTER_PORT"] != "29500"


WRONG = [
    (["--standalone", "--nproc-per-node", "0"], "at least one worker"),
    (["--standalone", "--monitor-interval", "0"], "between two looks"),
    (["--rdzv-conf", "timeout"], "'timeout' must have a value"),
    (["--local-ranks-filter", "a"], "comma-separated list of integers"),
    (["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:x"], "integer between 0 and 65535"),
    (["--nnodes", "2", "--node-rank", "2"], "rank below 2"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_options_that_cannot_be_meant(options, message):
    with pytest.raises(ValueError, match=message):
        run.main([*options, "program.py"])


def test_a_signal_that_nobody_can_handle_is_told(program, tmp_path, capfd):
    run.main(["--signals-to-handle", "SIGTERM,SIGKILL,SIGNONE", program(SHOW)])
    assert [line.split()[0] for line in capfd.readouterr().err.splitlines()] == ["SIGKILL", "SIGNONE"]
    assert told(tmp_path)


@pytest.mark.parametrize("text", [b'{"message": {"mess', b"[]", b"{}", b"\xff\xfe"])
def test_an_error_file_that_was_not_finished_is_none(tmp_path, text):
    path = tmp_path / "error.json"
    path.write_bytes(text)
    failure = ProcessFailure(0, 1, -9, str(path))
    assert (failure.message, failure.error_file) == ("Signal 9 (SIGKILL) received by PID 1", "<N/A>")


def test_a_tail_waits_for_the_rest_of_a_character(tmp_path):
    path, console = tmp_path / "out.log", io.StringIO()
    path.write_bytes(b"5 \xe2\x82")
    tail = Tail(str(path), "[0]:", console)
    tail.start()
    time.sleep(0.2)
    with open(path, "ab") as file:
        file.write(b"\xac\n")
    tail.end()
    assert console.getvalue() == "[0]:5 \u20ac\n"


SLEEP = """
import os, signal, sys, time
def ended(number, frame):
    open(os.path.join(OUT, f"signal-{number}"), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
open(os.path.join(OUT, "pid"), "w").write(str(os.getpid()))
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_launcher(program, tmp_path, number):
    command = [sys.executable, "-m", "flambeau.distributed.run", "--standalone", program(SLEEP)]
    launcher = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True)
    pid = wait_for_pid(tmp_path / "pid")
    launcher.send_signal(number)
    _, errors = launcher.communicate(timeout=20)
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < end
        time.sleep(0.01)
    if number == signal.SIGTERM:
        assert "SignalException" in errors
        assert (tmp_path / f"signal-{int(number)}").exists()


def wait_for_pid(path):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError("the worker did not start")


def test_a_stopped_worker_is_ended(program, tmp_path):
    source = """
import os, signal, time
if os.environ["RANK"] == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
while not open(f"/proc/{os.getppid()}/stat"): pass
time.sleep(0.3)
raise SystemExit(1)
"""
    start = time.monotonic()
    with pytest.raises(ChildFailedError):
        run.main(["--standalone", "--nproc-per-node", "2", program(source)])
    assert time.monotonic() - start < 10


def test_functions_as_workers(tmp_path):
    logs = DefaultLogsSpecs(str(tmp_path / "logs"), Std.ALL)
    context = start_processes("f", os.getenv, {0: ("WHO",), 1: ("WHO",)}, {0: {"WHO": "a"}, 1: {"WHO": "b"}}, logs, start_method="fork")
    result = context.wait(timeout=20, period=0.05)
    assert result.return_values == {0: "a", 1: "b"}
    assert not result.is_failed()
