"""``torchrun``: start a program's workers on this node. Source: torch.distributed.run.

    torchrun --standalone --nproc-per-node 4 train.py --epochs 3
    torchrun --nnodes 2 --node-rank 0 --master-addr node0 --nproc-per-node 8 train.py        # and the same with --node-rank 1 there
    torchrun --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint node0:29400 --max-restarts 3 train.py

Options are PyTorch's, and each may stand in the environment, ``PET_NPROC_PER_NODE`` for ``--nproc-per-node``. Workers find their places in
the environment (``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and others) and the job's secret in ``FLAMBEAU_STORE_SECRET``.
Launchers on several nodes know each other by the same variable, or by their user's file in a shared home directory.
"""

from __future__ import annotations

import argparse
import logging
import os
import runpy
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from .elastic.agent import LOCAL_RANK
from .elastic.multiprocessing.errors import record
from .elastic.multiprocessing.logs import DefaultLogsSpecs, Std
from .launcher.api import LaunchConfig, elastic_launch

__all__ = ["config_from_args", "determine_local_world_size", "get_args_parser", "main", "parse_args", "parse_min_max_nnodes", "run"]

_log = logging.getLogger(__name__)

# name, default, and what ``add_argument`` takes besides
_OPTIONS: list[tuple[str, Any, dict[str, Any]]] = [
    ("--nnodes", "1:1", {"help": "number of nodes, or a range, as min:max"}),
    ("--nproc-per-node", "1", {"help": "workers on this node: a number, auto, cpu or gpu"}),
    ("--rdzv-backend", "static", {"help": "how launchers meet: static or c10d"}),
    ("--rdzv-endpoint", "", {"help": "where launchers meet, as host:port"}),
    ("--rdzv-id", "none", {"help": "the job's name"}),
    ("--rdzv-conf", "", {"help": "more about the meeting, as key=value,key=value"}),
    ("--max-restarts", 0, {"type": int, "help": "how often all workers are started again after a failure"}),
    ("--monitor-interval", 0.1, {"type": float, "help": "seconds between two looks at the workers"}),
    ("--start-method", "spawn", {"choices": ["spawn", "fork", "forkserver"], "help": "how functions are started (--run-path)"}),
    ("--event-log-handler", "null", {"help": "only null is supported"}),
    ("--role", "default", {"help": "the workers' role"}),
    ("--log-dir", None, {"help": "folder for the workers' output and errors"}),
    ("--redirects -r", "0", {"help": "streams that go into files: 1 output, 2 errors, 3 both; or rank:streams,rank:streams"}),
    ("--tee -t", "0", {"help": "streams that go into files and to the console, as --redirects"}),
    ("--local-ranks-filter", "", {"help": "local ranks that the console shows, as 0,1"}),
    ("--duplicate-stdout-filters", "", {"help": "not supported"}),
    ("--duplicate-stderr-filters", "", {"help": "not supported"}),
    ("--node-rank", 0, {"type": int, "help": "this node's rank (static)"}),
    ("--master-addr", "127.0.0.1", {"help": "address of node 0 (static)"}),
    ("--master-port", None, {"type": int, "help": "port on node 0 (static): 29500, on a single node a free one"}),
    ("--local-addr", None, {"help": "this node's address"}),
    ("--logs-specs", None, {"help": "not supported"}),
    ("--numa-binding", None, {"choices": ["node", "socket", "exclusive", "core-complex"], "help": "not supported"}),
    ("--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", {"help": "signals that are passed on to the workers"}),
    ("--shutdown-timeout", None, {"type": int, "help": "seconds between a signal and SIGKILL"}),
]
_FLAGS = [
    ("--standalone", "one node, on a free port"),
    ("--module -m", "the program is a module, as with python -m"),
    ("--no-python", "the program is run as it is, without python"),
    ("--run-path", "the program is run by runpy.run_path in processes of multiprocessing"),
    ("--virtual-local-rank", "not supported"),
]
_REFUSED = ("duplicate_stdout_filters", "duplicate_stderr_filters", "logs_specs", "numa_binding", "virtual_local_rank")


def get_args_parser() -> argparse.ArgumentParser:
    """The options' parser.

    Returns: an ``ArgumentParser``.
    Source: torch.distributed.run.get_args_parser.
    Example:
        >>> get_args_parser().parse_args(["--nproc_per_node=2", "train.py", "--lr", "1"]).training_script_args
        ['--lr', '1']
    """
    parser = argparse.ArgumentParser(prog="torchrun", description="Start the workers of a distributed program on this node.")
    for names, default, more in _OPTIONS:
        spelled, dest = _spellings(names)
        given = os.environ.get(f"PET_{dest.upper()}")
        parser.add_argument(*spelled, dest=dest, default=default if given is None else given, **more)
    for names, text in _FLAGS:
        spelled, dest = _spellings(names)
        on = os.environ.get(f"PET_{dest.upper()}", "0").lower() in ("1", "true")
        parser.add_argument(*spelled, dest=dest, action="store_true", default=on, help=text)
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _spellings(names: str) -> tuple[list[str], str]:
    """Spellings of an option, with dashes and underscores, and the name of its value."""
    first, *short = names.split()
    dest = first[2:].replace("-", "_")
    return list(dict.fromkeys([*short, first, f"--{dest}"])), dest


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line.

    Args:
        args: its words; this process's when None.
    Returns: a ``Namespace``.
    Source: torch.distributed.run.parse_args.
    Example:
        >>> parse_args(["--nnodes", "1:4", "train.py"]).nnodes
        '1:4'
    """
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Least and greatest number of nodes.

    Args:
        nnodes: ``"2"`` or ``"1:4"``.
    Returns: two ints.
    Raises:
        RuntimeError: neither.
    Source: torch.distributed.run.parse_min_max_nnodes.
    Example:
        >>> parse_min_max_nnodes("2"), parse_min_max_nnodes("1:4")
        ((2, 2), (1, 4))
    """
    parts = nnodes.split(":")
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """Number of workers on this node.

    Args:
        nproc_per_node: a number, "cpu", "gpu", or "auto": GPUs where there are any, processors else.
    Returns: an int.
    Raises:
        ValueError: none of these, or no GPUs.
    Source: torch.distributed.run.determine_local_world_size.
    Example:
        >>> determine_local_world_size("3"), determine_local_world_size("cpu") == os.cpu_count()
        (3, True)
    """
    try:
        return int(nproc_per_node)
    except ValueError:
        pass
    from .. import cuda  # late: only where GPUs are asked for

    if nproc_per_node not in ("auto", "cpu", "gpu"):
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")
    if nproc_per_node == "gpu" and not cuda.is_available():
        raise ValueError("Cuda is not available.")
    if nproc_per_node == "cpu" or not cuda.is_available():
        return os.cpu_count() or 1
    return cuda.device_count()


def config_from_args(args: argparse.Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[Any]]:
    """A command line's wishes: how to launch, the program and its arguments.

    Args:
        args: from ``parse_args``.
    Returns: a ``LaunchConfig``, a program's path or a function, and a list.
    Raises:
        NotImplementedError: an option that is not supported.
        ValueError: options that do not go together.
    Source: torch.distributed.run.config_from_args.
    Example:
        >>> config, program, arguments = config_from_args(parse_args(["-m", "package.train", "--lr", "1"]))
        >>> arguments
        ['-u', '-m', 'package.train', '--lr', '1']
    """
    for option in _REFUSED:
        if getattr(args, option):
            raise NotImplementedError(f"--{option.replace('_', '-')} is not supported")
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most or args.max_restarts < 0:
        raise ValueError(f"expected 0 < min <= max nodes and no negative number of restarts, got {args.nnodes} and {args.max_restarts}")
    workers = determine_local_world_size(args.nproc_per_node)
    if workers > 1 and "OMP_NUM_THREADS" not in os.environ:
        os.environ["OMP_NUM_THREADS"] = "1"
        _log.warning("OMP_NUM_THREADS is 1 for each of the %d workers, so that they do not take each other's processors", workers)
    conf = _rendezvous_options(args.rdzv_conf)
    if args.rdzv_backend == "static":
        conf["rank"] = args.node_rank
    shown = _ranks(args.local_ranks_filter)
    config = LaunchConfig(
        least, most, workers, DefaultLogsSpecs(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown),
        args.rdzv_id, args.role, _endpoint(args), args.rdzv_backend, conf,
        max_restarts=args.max_restarts, monitor_interval=args.monitor_interval, start_method=args.start_method, local_addr=args.local_addr,
        event_log_handler=args.event_log_handler, signals_to_handle=args.signals_to_handle, shutdown_timeout=args.shutdown_timeout,
    )  # fmt: skip
    return config, *_program(args)


def _rendezvous_options(text: str) -> dict[str, Any]:
    """``key=value,key=value`` as a dict."""
    options = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = each.partition("=")
        if not (key and equals and value):
            raise ValueError(f"The rendezvous configuration option {each!r} must have a value specified, as in key=value.")
        options[key.strip()] = value.strip()
    return options


def _ranks(text: str) -> set[int] | None:
    """Local ranks, separated by commas; None for all."""
    try:
        return {int(rank) for rank in text.split(",")} if text else None
    except ValueError:
        raise ValueError(f"--local_ranks_filter must be a comma-separated list of integers, as 0,1,2, got {text}") from None


def _endpoint(args: argparse.Namespace) -> str:
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{29500 if args.master_port is None else args.master_port}"
    return args.rdzv_endpoint


def _program(args: argparse.Namespace) -> tuple[Callable[..., Any] | str, list[Any]]:
    """The workers' program and its arguments."""
    rank = [] if getattr(args, "use_env", True) else [LOCAL_RANK]
    rest = [*rank, *args.training_script_args]
    if args.run_path:
        return _run_path, [args.training_script, *rest]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return args.training_script, rest
    return os.environ.get("PYTHON_EXEC", sys.executable), ["-u", *(["-m"] if args.module else []), args.training_script, *rest]


def _run_path(script: str, *args: str) -> None:
    sys.argv = [script, *args]
    runpy.run_path(script, run_name="__main__")


def run(args: argparse.Namespace) -> None:
    """Run what a command line asks for.

    Args:
        args: from ``parse_args``.
    Source: torch.distributed.run.run.
    Example:
        >>> run(parse_args(["--standalone", "--no-python", "/bin/true"]))
    """
    # Where one node is told no port, a free one is taken, so that two jobs on a machine do not meet.
    alone = args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None
    if args.standalone or (alone and parse_min_max_nnodes(args.nnodes)[1] == 1):
        args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4())
    config, entrypoint, arguments = config_from_args(args)
    elastic_launch(config, entrypoint)(*arguments)


@record
def main(args: Sequence[str] | None = None) -> None:
    """``torchrun``.

    Args:
        args: the command line; this process's when None.
    Raises:
        ChildFailedError: a worker failed, and no restart is left.
    Source: torch.distributed.run.main.
    Example:
        >>> main(["--standalone", "--no-python", "/bin/true"])
    """
    run(parse_args(args))


if __name__ == "__main__":
    main()
