"""``fully_shard``: a module whose parameters are ``DTensor`` shards outside of its forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ...autograd.grad_mode import enable_grad
from ...core.state import thread
from ...core.tensor import Tensor
from ...nn import Module, ModuleDict, ModuleList, Parameter
from ...utils._pytree import tree_map
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Placement, Replicate, Shard
from ..tensor._spec import DTensorSpec, spec_of
from ..tensor.placement_types import _StridedShard
from ..utils import _cast_forward_inputs, _cast_to
from ._group import Entry, Options, ParamGroup
from ._layout import Row, RowLayout
from ._policies import MixedPrecisionPolicy, OffloadPolicy

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]


class UnshardHandle:
    """Result of ``unshard(async_op=True)``: the parameters are whole when ``wait`` returns.

    Source: torch.distributed.fsdp.UnshardHandle.
    Example:
        >>> from flambeau.distributed.fsdp import UnshardHandle
        >>> UnshardHandle().wait()
    """

    def wait(self) -> None:
        """Return at once: gathering is done when ``unshard`` returns."""


class FSDPState:
    """The state of a sharded module.

    Args:
        group: its parameters; None where other sharded modules have all of them.
    """

    def __init__(self, module: Module, group: ParamGroup | None, options: Options, policy: MixedPrecisionPolicy, asks: bool) -> None:
        self.module, self.group, self.options, self.policy, self.asks = module, group, options, policy, asks
        self.is_root: bool | None = None

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """``function``, the module's forward, with whole parameters."""
        if self.is_root is None:
            self._become_root()
        policy = self.policy
        if policy.cast_forward_inputs:
            args, kwargs = _cast_forward_inputs(policy.param_dtype, *args, **kwargs)
        with self.group.around_forward() if self.group is not None else nullcontext():
            result = function(*args, **kwargs)
        if policy.output_dtype is not None:
            result = tree_map(_cast_to(policy.output_dtype), result)
        if self.group is not None:
            _before_backward(result, self.group)
        return result

    def _become_root(self) -> None:
        """The module that is called first is the root; by default it keeps its whole parameters until backward."""
        self.is_root = True
        if not self.asks:
            self.options.reshard_after_forward = False
        for module in self.module.modules():
            if isinstance(module, FSDPModule) and module is not self.module:
                module._get_fsdp_state().is_root = False


def _before_backward(result: Any, group: ParamGroup) -> None:
    """Have modules show whole parameters when a gradient of ``result`` arrives: what is checkpointed inside runs again in backward."""

    def prepare(_: Any) -> None:
        if group.options.reshard_after_forward and not group.is_installed:
            with enable_grad():
                group.install()
            thread.running.at_end.append(group.reshard)

    def hook(value: Any) -> Any:
        if isinstance(value, Tensor) and value.requires_grad:
            value.register_hook(prepare)
        return value

    tree_map(hook, result)


# -- the module --------------------------------------------------------------------------------------------------------------------
def _each(module: Module, recurse: bool) -> list[FSDPState]:
    found = module.modules() if recurse else [module]
    return [part._get_fsdp_state() for part in found if isinstance(part, FSDPModule)]


class FSDPModule:
    """Mixin that ``fully_shard`` puts in front of a module's class.

    Source: torch.distributed.fsdp.FSDPModule.
    Example:
        >>> from flambeau.distributed.fsdp import FSDPModule
        >>> isinstance(nn.Linear(2, 2), FSDPModule)
        False
    """

    _orig_cls_mro_index = 2

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._get_fsdp_state().run(super().__call__, args, kwargs)  # type: ignore[misc]

    def _get_fsdp_state(self) -> FSDPState:
        state: FSDPState = self.__dict__["_fsdp_state"]
        return state

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the module's parameters, and show them whole.

        Args:
            async_op: return a handle to wait for.
        """
        group = self._get_fsdp_state().group
        if group is not None and not group.is_installed:
            group.install()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Show the module's shards, and give back the memory of whole parameters."""
        group = self._get_fsdp_state().group
        if group is not None:
            group.reshard()

    def reset_iter_state(self) -> None:
        """Forget what an interrupted step left: whole parameters and gradients that were not reduced."""
        for state in _each(self, True):  # type: ignore[arg-type]
            if state.group is not None:
                state.group.reshard()
                state.group.pending, state.group.partial = [None] * len(state.group.entries), None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Without effect: each backward pass finishes its own reductions."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients, or collects them for a later pass."""
        for state in _each(self, recurse):  # type: ignore[arg-type]
            state.options.syncs = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients over copies too, or collects shards' for a later pass."""
        for state in _each(self, recurse):  # type: ignore[arg-type]
            state.options.all_reduces = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether forward gives back the memory of whole parameters."""
        for state in _each(self, recurse):  # type: ignore[arg-type]
            state.options.reshard_after_forward, state.asks = reshard_after_forward, True

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether backward gives back the memory of whole parameters."""
        for state in _each(self, recurse):  # type: ignore[arg-type]
            state.options.reshard_after_backward = reshard_after_backward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sum of gradients by ``factor`` instead of the number of processes."""
        self._get_fsdp_state().options.divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: Any = None) -> None:
        """Call ``hook`` with the module's reduced gradients, which it may change in place."""
        self._get_fsdp_state().options.all_reduce_hook = hook

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Without effect: modules are gathered when they are called."""

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Without effect: modules are gathered when backward needs them."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Without effect: backward gathers what it needs, and nothing else."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Without effect: gradients are summed and divided in any case."""

    def set_custom_all_gather(self, comm: Any) -> None:
        raise NotImplementedError("FSDPModule.set_custom_all_gather is not supported")

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        raise NotImplementedError("FSDPModule.set_custom_reduce_scatter is not supported")

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.reshard()
        super()._save_to_state_dict(*args, **kwargs)  # type: ignore[misc]

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.reshard()
        super()._load_from_state_dict(*args, **kwargs)  # type: ignore[misc]

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        for state in _each(self, False):  # type: ignore[arg-type]
            if state.group is not None:
                state.group.reshard()
        return super()._apply(fn, *args, **kwargs)  # type: ignore[misc]


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Have another method see whole parameters, as ``forward`` does.

    Args:
        module: one that ``fully_shard`` changed; others stay as they are.
        method_name: the method.
    Raises:
        ValueError: the module has no such method.
    Source: torch.distributed.fsdp.register_fsdp_forward_method.
    Example:
        >>> from flambeau.distributed.fsdp import register_fsdp_forward_method
        >>> register_fsdp_forward_method(nn.Linear(2, 2), "extra_repr")
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    module.__dict__[method_name] = lambda *args, **kwargs: module._get_fsdp_state().run(method, args, kwargs)


def share_comm_ctx(modules: list[Any]) -> None:
    """Have modules share streams of communication, of which there are none here.

    Args:
        modules: modules that ``fully_shard`` changed.
    Source: torch.distributed.fsdp.share_comm_ctx.
    Example:
        >>> from flambeau.distributed.fsdp import share_comm_ctx
        >>> share_comm_ctx([])
    """


# -- sharding ----------------------------------------------------------------------------------------------------------------------
_CLASSES: dict[type, type] = {}  # a module's class -> the class that fully_shard gives it


def fully_shard(
    module: Any, *, mesh: Any = None, reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Any] | None = None, mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008
    offload_policy: OffloadPolicy = OffloadPolicy(), ignored_params: set[Parameter] | None = None, dp_mesh_dims: Any = None  # noqa: B008
) -> Any:  # fmt: skip
    """Divide a module's parameters among processes; each has a shard of every parameter outside of forward and backward.

    Parameters become ``DTensor``; so do their gradients and the state of an optimizer made of them. Submodules come first: a call takes
    what no earlier call has taken, and all of it is gathered together when the module is called.

    Args:
        module: changed in place; its class becomes a subclass that is an ``FSDPModule`` too. Or a list of modules that are called together.
        mesh: a row of processes; or copies by shards in two dimensions. All processes in a row when None.
        reshard_after_forward: give the memory of whole parameters back after forward; when None, all modules but the root do.
        shard_placement_fn: the ``Shard`` of a parameter; ``Shard(0)`` where it gives None.
        mp_policy: dtypes; see ``MixedPrecisionPolicy``.
        offload_policy: where shards lie; the CPU in any case.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: names of the mesh's dimensions to divide and to copy over.
    Returns:
        ``module``.
    Raises:
        ValueError: a container without forward, or a mesh of more than two dimensions.
        NotImplementedError: ``reshard_after_forward`` as a number of processes.
    Source: torch.distributed.fsdp.fully_shard.
    Example:
        >>> from flambeau.distributed.fsdp import fully_shard
        >>> fully_shard(nn.ModuleList())
        Traceback (most recent call last):
        ValueError: fully_shard does not support containers that do not implement forward: ModuleList()
    """
    modules = tuple(module) if isinstance(module, (list, tuple)) else (module,)
    for each in modules:
        if isinstance(each, (ModuleList, ModuleDict)):
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {each}")
    if len(modules) > 1:
        raise NotImplementedError("fully_shard: several modules that are gathered together are not supported; wrap them in one module")
    if not isinstance(reshard_after_forward, (bool, type(None))):
        raise NotImplementedError("fully_shard: reshard_after_forward must be a bool; a number of processes is not supported")
    target = modules[0]
    if isinstance(target, FSDPModule):
        raise AssertionError(f"fully_shard has already been applied to the following module:\n{target}")
    mesh = _data_mesh(mesh, dp_mesh_dims)
    options = Options(
        mp_policy.param_dtype, mp_policy.reduce_dtype, True if reshard_after_forward is None else reshard_after_forward
    )  # fmt: skip
    entries = collect(target, ignored_params or set(), lambda part: isinstance(part, FSDPModule))
    group = _grouped(entries, mesh, options, shard_placement_fn) if entries else None
    target.__dict__["_fsdp_state"] = FSDPState(target, group, options, mp_policy, reshard_after_forward is not None)
    kind = type(target)
    if kind not in _CLASSES:
        _CLASSES[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    target.__class__ = _CLASSES[kind]
    return module


def _data_mesh(mesh: Any, names: Any) -> Any:
    """The mesh, of one dimension or two."""
    if mesh is None:
        from .. import get_world_size

        mesh = DeviceMesh("cpu", list(range(get_world_size())))
    if names is not None:
        chosen = [name for name in (names.replicate, names.shard) if name is not None]
        if any(not isinstance(name, str) for name in chosen):
            raise NotImplementedError("fully_shard: dp_mesh_dims takes one name each; several are not supported")
        mesh = mesh[tuple(chosen)] if len(chosen) > 1 else mesh[chosen[0]]
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    return mesh


def collect(root: Module, ignored: set[Any], is_taken: Callable[[Module], bool]) -> list[Entry]:
    """The parameters below ``root`` that no other group has, each with all of its places."""
    found: dict[int, Entry] = {}
    skipped = {id(param) for param in ignored}

    def walk(module: Module, prefix: str) -> None:
        for name, param in module._parameters.items():
            if param is None or id(param) in skipped:
                continue
            if id(param) in found:
                found[id(param)].places.append((module, name))
            else:
                found[id(param)] = Entry([(module, name)], prefix + name, tuple(param.shape), param.dtype, param.requires_grad)
        for name, child in module.named_children():
            if not is_taken(child):
                walk(child, f"{prefix}{name}.")

    if not is_taken(root):
        walk(root, "")
    return list(found.values())


def _grouped(entries: list[Entry], mesh: Any, options: Options, choose: Callable[[Any], Any] | None) -> ParamGroup:
    """Divide parameters, and put the shards into their modules."""
    last = mesh.ndim - 1
    count, rank = mesh.size(last), mesh.get_local_rank(last)
    rows: list[Row] = []
    for entry in entries:
        param: Any = entry.places[0][0]._parameters[entry.places[0][1]]
        chosen = (choose(param) if choose is not None else None) or Shard(0)
        local = param._local_tensor if isinstance(param, DTensor) else param
        if not local.dim():
            raise ValueError(f"fully_shard doesn't support scalar parameters. Change {entry.fqn} to a 1D tensor with numel equal to 1.")
        row = Row(tuple(local.shape), chosen.dim % local.dim(), count, rank)
        own = local.detach().narrow(row.dim, row.begin, row.own).clone()
        shard = Parameter(DTensor._around(own.contiguous(), _shard_spec(param, mesh, row)), param.requires_grad)
        entry.shape, entry.inner = row.shape, param._spec if isinstance(param, DTensor) else None
        for module, name in entry.places:
            module._parameters[name] = shard
        rows.append(row)
    held: list[Any] = []

    def read() -> list[Any]:
        """The shards: those that the modules have now, or had when the whole parameters took their place."""
        if not group.is_installed:
            held[:] = [module._parameters[name] for module, name in (entry.places[0] for entry in entries)]
        return held

    def put_back() -> None:
        for entry, shard in zip(entries, held, strict=True):
            for module, name in entry.places:
                module._parameters[name] = shard

    copies = mesh.get_group(0) if mesh.ndim == 2 else None
    group = ParamGroup(entries, RowLayout(read, rows), mesh.get_group(last), copies, options, put_back)
    read()
    return group


def _shard_spec(param: Any, mesh: Any, row: Row) -> DTensorSpec:
    """The spec of a parameter's shard; a parameter that is spread over a mesh already is spread over both."""
    places: list[Placement] = [Replicate()] * (mesh.ndim - 1) + [Shard(row.dim)]
    if not isinstance(param, DTensor):
        return spec_of(mesh, places, param.shape, param.dtype)
    inner = param._spec
    factor = 1
    for i, placement in enumerate(inner.placements):
        if placement.is_shard(row.dim):
            factor *= inner.mesh.size(i)
    if factor > 1:
        places[-1] = _StridedShard(row.dim, split_factor=factor)
    return spec_of(_joined_mesh(mesh, inner.mesh), [*places, *inner.placements], inner.shape, inner.dtype, inner.stride)


def _joined_mesh(outer: Any, inner: Any) -> Any:
    """The mesh of which both are dimensions."""
    root = getattr(outer, "_get_root_mesh", lambda: None)()
    names = (*(outer.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
    if root is None or len(names) != outer.ndim + inner.ndim:
        raise NotImplementedError("fully_shard: parameters that are spread already need meshes that are named dimensions of one mesh")
    return root if tuple(root.mesh_dim_names) == names else root[names]
