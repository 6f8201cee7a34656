"""Names of back ends, and which of them are there. Source: torch.distributed.Backend."""

from __future__ import annotations

import importlib.util
from typing import Any, ClassVar

__all__ = [
    "Backend", "BackendConfig", "get_default_backend_for_device", "is_backend_available", "is_gloo_available", "is_mpi_available",
    "is_nccl_available", "is_ucc_available", "is_xccl_available",
]  # fmt: skip


class Backend(str):
    """The name of a back end, in lower case. ``mpi`` and ``gloo`` name the same engine here: MPI.

    Args:
        name: one of the names, or one that was registered.
    Raises:
        ValueError: no string, or ``"dynamic"``.
    Source: torch.distributed.Backend.
    Example:
        >>> torch.distributed.Backend("GLOO")
        'gloo'
    """

    UNDEFINED = "undefined"
    GLOO, NCCL, UCC, MPI, XCCL, FAKE = "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL}
    backend_capability: ClassVar[dict[str, list[str]]] = {GLOO: ["cpu", "cuda"], NCCL: ["cuda"], MPI: ["cpu", "cuda"]}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name: str, func: Any, extended_api: bool = False, devices: Any = None) -> None:
        """Back ends that programs write are not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("torch.distributed.Backend.register_backend is not supported: the engine is MPI")


class BackendConfig:
    """Names of the back ends that serve each kind of device.

    Args:
        backend: a name, or pairs such as ``"cpu:gloo,cuda:nccl"``.
    Raises:
        ValueError: a pair that is none.
    Source: torch.distributed.BackendConfig.
    Example:
        >>> torch.distributed.BackendConfig("cpu:gloo,cuda:gloo")
        cpu:gloo,cuda:gloo
    """

    def __init__(self, backend: str) -> None:
        if ":" in backend:
            pairs = [pair.split(":") for pair in backend.lower().split(",")]
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError(
                    f"The custom backend string argument is invalid: {backend}.\nCustom backend string is an experimental feature "
                    "where the backend "
                    "string must be in the format:\n\"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl'"
                )
            self.device_backend_map = {device: Backend(name) for device, name in pairs}
        else:
            self.device_backend_map = dict.fromkeys(("cpu", "cuda"), Backend(backend))

    def get_device_backend_map(self) -> dict[str, Backend]:
        """The back end of each kind of device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())


def _has_mpi() -> bool:
    return importlib.util.find_spec("mpi4py") is not None


def is_mpi_available() -> bool:
    """Whether there is a back end that uses MPI.

    Returns: whether mpi4py is installed (``pip install flambeau[mpi]``).
    Source: torch.distributed.is_mpi_available.
    Example:
        >>> torch.distributed.is_mpi_available() == torch.distributed.is_gloo_available()
        True
    """
    return _has_mpi()


def is_gloo_available() -> bool:
    """Whether there is a back end of the name ``gloo``: the one that uses MPI.

    Returns: a bool.
    Source: torch.distributed.is_gloo_available.
    Example:
        >>> torch.distributed.is_gloo_available() == torch.distributed.is_mpi_available()
        True
    """
    return _has_mpi()


def is_nccl_available() -> bool:
    """Whether there is a back end that uses NCCL.

    Returns: False.
    Source: torch.distributed.is_nccl_available.
    Example:
        >>> torch.distributed.is_nccl_available()
        False
    """
    return False


def is_ucc_available() -> bool:
    """Whether there is a back end that uses UCC.

    Returns: False.
    Source: torch.distributed.is_ucc_available.
    Example:
        >>> torch.distributed.is_ucc_available()
        False
    """
    return False


def is_xccl_available() -> bool:
    """Whether there is a back end that uses XCCL.

    Returns: False.
    Source: torch.distributed.is_xccl_available.
    Example:
        >>> torch.distributed.is_xccl_available()
        False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether there is a back end.

    Args:
        backend: its name.
    Returns: a bool.
    Source: torch.distributed.is_backend_available.
    Example:
        >>> torch.distributed.is_backend_available("nccl")
        False
    """
    check = globals().get(f"is_{backend.lower()}_available")
    return check() if check else backend.lower() in Backend.backend_list


def get_default_backend_for_device(device: Any) -> str:
    """The back end that serves a device when none is named.

    Args:
        device: a device or its name.
    Returns: a name.
    Raises:
        ValueError: there is none.
    Source: torch.distributed.get_default_backend_for_device.
    Example:
        >>> torch.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = device.type if hasattr(device, "type") else str(device).split(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]
