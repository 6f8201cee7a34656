"""Options of remote calls. Source: torch.distributed.rpc."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["BackendType", "RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class BackendType(enum.Enum):
    """Ways to send calls: one, over TCP, under the name of PyTorch's.

    Source: torch.distributed.rpc.BackendType.
    Example:
        >>> BackendType.TENSORPIPE
        BackendType.TENSORPIPE
    """

    TENSORPIPE = "TENSORPIPE"

    def __repr__(self) -> str:
        return f"BackendType.{self.name}"


class RpcBackendOptions:
    """Time that calls may take, and the place where processes meet.

    Args:
        rpc_timeout: seconds; 0 for no limit.
        init_method: as for ``init_process_group``.
    Source: torch.distributed.rpc.RpcBackendOptions.
    Example:
        >>> RpcBackendOptions().rpc_timeout
        60.0
    """

    def __init__(self, rpc_timeout: float = 60.0, init_method: str = "env://") -> None:
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """The same, and the number of threads that serve calls.

    Args:
        num_worker_threads: threads that run what other processes call.
        rpc_timeout, init_method: see ``RpcBackendOptions``.
        device_maps, devices: of GPUs; not supported.
    Raises:
        NotImplementedError: maps or devices.
    Source: torch.distributed.rpc.TensorPipeRpcBackendOptions.
    Example:
        >>> TensorPipeRpcBackendOptions(num_worker_threads=4).num_worker_threads
        4
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = 16,
        rpc_timeout: float = 60.0,
        init_method: str = "env://",
        device_maps: dict[str, Any] | None = None,
        devices: list[Any] | None = None,
        _transports: Any = None,
        _channels: Any = None,
    ) -> None:
        for name, given in (("device_maps", device_maps), ("devices", devices), ("_transports", _transports), ("_channels", _channels)):
            if given:
                raise NotImplementedError(f"TensorPipeRpcBackendOptions: {name} are not supported: tensors of calls go through the CPU")
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads = num_worker_threads
        self.device_maps: dict[str, Any] = {}
        self.devices: list[Any] = []

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Not supported: tensors of calls go through the CPU."""
        raise NotImplementedError("TensorPipeRpcBackendOptions.set_device_map is not supported: tensors of calls go through the CPU")

    def set_devices(self, devices: list[Any]) -> None:
        """Not supported: tensors of calls go through the CPU."""
        raise NotImplementedError("TensorPipeRpcBackendOptions.set_devices is not supported: tensors of calls go through the CPU")
