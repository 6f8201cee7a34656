"""Modules that live in other processes. Source: torch.distributed.nn.api.remote_module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ....core.tensor import Tensor
from ....facades.futures import Future
from ....nn import Module
from ....nn.parameter import Parameter
from ....utils._pytree import tree_map
from ... import rpc
from ...remote_device import _remote_device
from ...rpc.packing import Reference

__all__ = ["RemoteModule"]

_LOCAL_ONLY = (
    "register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to register_backward_hook "
    "register_forward_pre_hook register_forward_hook state_dict load_state_dict parameters named_parameters buffers named_buffers children "
    "named_children modules named_modules requires_grad_ zero_grad share_memory extra_repr"
)


def _make(module_cls: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(f"Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns {type(module)}.")
    return module.to(device)


def _forward(module_rref: Any, device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = tree_map(lambda value: value.to(device) if isinstance(value, Tensor) else value, (args, kwargs))
    return tree_map(
        lambda value: value.cpu() if isinstance(value, Tensor) and value.is_cuda else value, module_rref.local_value()(*args, **kwargs)
    )


def _train(module_rref: Any, mode: bool) -> None:
    module_rref.local_value().train(mode)


def _parameters(module_rref: Any, recurse: bool) -> list[Any]:
    return [rpc.RRef(parameter) for parameter in module_rref.local_value().parameters(recurse)]


class _RemoteModule(Module, Reference):
    """A module of another process: calling it computes there.

    Args:
        remote_device: ``<worker>/<device>`` or ``rank:<rank>/<device>``.
        module_cls: class of the module, which the other process can import.
        args, kwargs: its arguments.
    Raises:
        ValueError: methods of modules that would need the parameters here.
    Source: torch.distributed.nn.RemoteModule.
    Example:
        >>> import tempfile
        >>> rpc = torch.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mkdtemp()}/meeting")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> layer = torch.distributed.nn.RemoteModule("alone/cpu", torch.nn.Linear, args=(2, 3))
        >>> layer(torch.ones(4, 2)).shape, len(layer.remote_parameters())
        (torch.Size([4, 3]), 2)
        >>> rpc.shutdown()
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls)

    def __init__(
        self, remote_device: str, module_cls: Callable[..., Any], args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._place(remote_device)
        self.module_rref = rpc.remote(self.on, _make, (module_cls, args or (), kwargs or {}, self.device))

    def _place(self, remote_device: str) -> None:
        place = _remote_device(remote_device)
        name = place.worker_name()
        self.on: Any = name if name is not None else place.rank()
        if self.on is None:
            raise ValueError(f"RemoteModule: expected '<workername>/<device>' or 'rank:<rank>/<device>', got {remote_device}")
        self.device = str(place.device())
        self.remote_device, self.is_scriptable = remote_device, False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's output, once it is here; in a context of ``torch.distributed.autograd`` the graph goes through it."""
        return self.forward_async(*args, **kwargs).wait()

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future of the module's output."""
        return rpc.rpc_async(self.on, _forward, (self.module_rref, self.device, args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list[rpc.RRef[Parameter]]:
        """References to the module's parameters, as ``DistributedOptimizer`` takes them.

        Args:
            recurse: those of its submodules, too.
        """
        return rpc.rpc_sync(self.on, _parameters, (self.module_rref, recurse))

    def get_module_rref(self) -> rpc.RRef[Module]:
        """A reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> Any:
        """Set the module's mode there."""
        rpc.rpc_sync(self.on, _train, (self.module_rref, mode))
        self.training = mode
        return self

    @staticmethod
    def init_from_module_rref(remote_device: str, module_rref: rpc.RRef[Module], _module_interface_cls: Any = None) -> RemoteModule:
        """A module of another process to which there is a reference.

        Args:
            remote_device: where it is.
            module_rref: the reference.
        """
        if _module_interface_cls is not None:
            raise NotImplementedError("RemoteModule.init_from_module_rref: interfaces of scripts are not supported")
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made._place(remote_device)
        made.module_rref = module_rref
        return made

    def _sent(self, agent: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return RemoteModule.init_from_module_rref, (self.remote_device, self.module_rref)

    def __getstate__(self) -> NoReturn:
        raise RuntimeError("Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC")


class RemoteModule(_RemoteModule):
    __doc__ = _RemoteModule.__doc__


def _refused(name: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")

    method.__name__ = name
    method.__doc__ = "Not of modules of other processes: raises ``ValueError``."
    return method


for _name in _LOCAL_ONLY.split():
    setattr(_RemoteModule, _name, _refused(_name))
