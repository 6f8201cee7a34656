"""Workers started by a program: a launcher as an object. Source: torch.distributed.launcher.api."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..elastic.agent import Agent, Work
from ..elastic.multiprocessing.logs import DefaultLogsSpecs, LogsSpecs
from ..elastic.nodes import Nodes, Settings

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_BACKENDS = ("static", "c10d")


@dataclass
class LaunchConfig:
    """A way to launch workers.

    Args:
        min_nodes, max_nodes: number of nodes.
        nproc_per_node: workers on each.
        logs_specs: where their output goes; the console when None.
        run_id: the job's name; a new one when empty.
        role: the workers' role.
        rdzv_endpoint: ``host:port`` where the launchers meet.
        rdzv_backend: "static" or "c10d".
        rdzv_configs: ``rank`` of this node, ``timeout``, ``last_call_timeout`` and ``is_host``.
        max_restarts: how often all workers are started again.
        monitor_interval: seconds between two looks at them.
        start_method: for functions.
        local_addr: this node's address.
        signals_to_handle: those that are passed on to the workers.
        shutdown_timeout: seconds between a signal and SIGKILL.
        rdzv_timeout, log_line_prefix_template, metrics_cfg, event_log_handler, numa_options, duplicate_stdout_filters,
            duplicate_stderr_filters, virtual_local_rank: not supported.
    Raises:
        NotImplementedError: an option that is not supported.
        ValueError: no nodes, no workers, or no time between two looks.
    Source: torch.distributed.launcher.api.LaunchConfig.
    Example:
        >>> LaunchConfig(1, 1, nproc_per_node=2, rdzv_endpoint="node0:29500").settings().port
        29500
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_backend not in _BACKENDS:
            raise NotImplementedError(f"rendezvous by {self.rdzv_backend!r} is not supported, only by {' and '.join(_BACKENDS)}")
        refused = {
            "event_log_handler": self.event_log_handler != "null", "log_line_prefix_template": self.log_line_prefix_template,
            "metrics_cfg": self.metrics_cfg, "numa_options": self.numa_options, "rdzv_timeout": self.rdzv_timeout != -1,
            "duplicate_stdout_filters": self.duplicate_stdout_filters, "duplicate_stderr_filters": self.duplicate_stderr_filters,
            "virtual_local_rank": self.virtual_local_rank,
        }  # fmt: skip
        for option, given in refused.items():
            if given:
                raise NotImplementedError(f"LaunchConfig: {option} is not supported")
        if not 1 <= self.min_nodes <= self.max_nodes:
            raise ValueError(f"expected at least one node and not more than at most, got {self.min_nodes}:{self.max_nodes}")
        if self.nproc_per_node < 1:
            raise ValueError(f"expected at least one worker on each node, got {self.nproc_per_node}")
        if self.monitor_interval <= 0:
            raise ValueError(f"expected seconds between two looks at the workers, got {self.monitor_interval}")

    def settings(self) -> Settings:
        """The part of this that is about nodes."""
        default = 29400 if self.rdzv_backend == "c10d" else 29500
        host, _, port = self.rdzv_endpoint.rpartition(":") if ":" in self.rdzv_endpoint else (self.rdzv_endpoint, "", "")
        if port and not (port.isdigit() and int(port) < 65536):
            raise ValueError(f"The port number of the rendezvous endpoint {self.rdzv_endpoint!r} must be an integer between 0 and 65535.")
        told = {key: str(value) for key, value in self.rdzv_configs.items()}
        unknown = set(told) - {"rank", "timeout", "join_timeout", "last_call_timeout", "is_host"}
        if unknown:
            raise NotImplementedError(f"rendezvous configuration {sorted(unknown)} is not supported")
        rank = 0 if self.max_nodes == 1 else int(told.get("rank", 0))
        if not 0 <= rank < self.max_nodes:
            raise ValueError(f"expected a node's rank below {self.max_nodes}, the number of nodes, got {rank}")
        return Settings(
            self.min_nodes, self.max_nodes, self.rdzv_backend, host.strip("[]") or "localhost",
            int(port) if port else (0 if self.max_nodes == 1 and self.rdzv_backend == "c10d" else default),
            self.run_id or str(uuid.uuid4()), rank, self.local_addr,
            float(told.get("join_timeout", told.get("timeout", 900))), float(told.get("last_call_timeout", 30)),
            told["is_host"].lower() in ("1", "true", "t", "yes", "y") if "is_host" in told else None,
        )  # fmt: skip

    def shutdown(self) -> float:
        """Seconds between a signal and SIGKILL."""
        given = self.shutdown_timeout
        return float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30")) if given is None else float(given)


class elastic_launch:
    """A callable that runs workers and returns what they return, by global rank.

    Args:
        config: how.
        entrypoint: a program's path, or a function.
    Source: torch.distributed.launcher.api.elastic_launch.
    Example:
        >>> config = LaunchConfig(1, 1, 2, max_restarts=0, start_method="fork")
        >>> elastic_launch(config, max)(3, 4)
        {0: 4, 1: 4}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> dict[int, Any]:
    """Run workers on this node, and meet the launchers of the others.

    Args:
        config: how.
        entrypoint: a program's path, or a function.
        args: their arguments.
    Returns: what they return, by global rank.
    Raises:
        ChildFailedError: a worker failed, and no restart is left.
        ValueError: no program.
    Source: torch.distributed.launcher.api.launch_agent.
    Example:
        >>> launch_agent(LaunchConfig(1, 1, 1), "/bin/true", [])
        {0: None}
    """
    if entrypoint is None:
        raise ValueError("launch_agent: expected a program or a function, got None")
    name = os.path.basename(_script(entrypoint, args)) if isinstance(entrypoint, str) else entrypoint.__qualname__
    logs = config.logs_specs or DefaultLogsSpecs()
    signals = tuple(each.strip() for each in config.signals_to_handle.split(",") if each.strip())
    work = Work(name, entrypoint, tuple(args), config.nproc_per_node, config.role, config.max_restarts, config.monitor_interval,
                config.start_method, logs, signals, config.shutdown())  # fmt: skip
    agent = Agent(work, Nodes(config.settings(), config.nproc_per_node, config.role))
    result = agent.run()
    agent.clean()
    return result


def _script(entrypoint: str, args: list[Any]) -> str:
    """The program's own path: behind the interpreter and its options."""
    scripts = [each for each in args if isinstance(each, str) and not each.startswith("-")]
    return scripts[0] if "python" in os.path.basename(entrypoint) and scripts else entrypoint
