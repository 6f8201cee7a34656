"""``FullyShardedDataParallel``: a wrapper whose parameters lie in a row of which each process has a slice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from enum import Enum, auto
from typing import Any

from ... import distributed as dist, ops
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...core.device import device
from ...core.tensor import Tensor
from ...nn import Module, Parameter
from ..tensor import DTensor, _collectives as collectives
from ..utils import _cast_forward_inputs, _cast_to
from . import _optim_state, _state_dict
from ._fully_shard import _before_backward, collect
from ._group import Absent, Options, ParamGroup
from ._layout import FlatLayout
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import wrap_submodules

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

WRAPPED, FLAT = "_fsdp_wrapped_module", "_flat_param"


class OptimStateKeyType(Enum):
    """Keys of parameters in an optimizer's state: names, or numbers.

    Source: torch.distributed.fsdp.OptimStateKeyType.
    Example:
        >>> from flambeau.distributed.fsdp import OptimStateKeyType
        >>> OptimStateKeyType.PARAM_ID
        <OptimStateKeyType.PARAM_ID: 2>
    """

    PARAM_NAME = auto()
    PARAM_ID = auto()


_CONFIGS: dict[StateDictType, tuple[type[StateDictConfig], type[OptimStateDictConfig]]] = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}
_KEEPING = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(_state_dict.Wrapper):
    """Data parallelism in which each process has a slice of parameters, gradients and optimizer state.

    Args:
        module: the module. Its parameters that no wrapper inside has are gathered when it is called.
        process_group: the processes; with a hybrid strategy the pair of those that divide and of those that copy.
        sharding_strategy: ``FULL_SHARD`` when None.
        cpu_offload: shards lie on the CPU in any case.
        auto_wrap_policy: which submodules are wrapped too; see ``torch.distributed.fsdp.wrap``.
        backward_prefetch, forward_prefetch, limit_all_gathers: without effect: parameters are gathered when they are needed.
        mixed_precision: dtypes.
        ignored_modules: submodules that stay as they are.
        param_init_fn: called with modules that lie on the meta device, to give them values.
        device_id: the CPU, or None.
        sync_module_states: start with the first process's values.
        use_orig_params: show each parameter's piece of the slice under its own name, instead of the slice as one parameter.
        ignored_states: parameters or submodules that stay as they are.
        device_mesh: instead of ``process_group``.
    Shape:
        That of the module.
    Raises:
        ValueError: both ``process_group`` and ``device_mesh``; a hybrid strategy without two groups of processes; another device.
        NotImplementedError: ``keep_low_precision_grads`` in ``mixed_precision``.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.
    Example:
        >>> from flambeau.distributed.fsdp import FullyShardedDataParallel
        >>> FullyShardedDataParallel.fsdp_modules(nn.Linear(2, 2))
        []
    """

    def __init__(
        self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE, mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None, param_init_fn: Callable[[Module], None] | None = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False, limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None, device_mesh: Any = None
    ) -> None:  # fmt: skip
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them.")
        if device_id is not None and (isinstance(device_id, int) or device(device_id).type != "cpu"):
            raise ValueError(f"FullyShardedDataParallel: expected device_id to be the CPU or None, got {device_id!r}")
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise NotImplementedError("FullyShardedDataParallel: keep_low_precision_grads=True is not supported")
        self.sharding_strategy = ShardingStrategy.FULL_SHARD if sharding_strategy is None else sharding_strategy
        self.mixed_precision = MixedPrecision() if mixed_precision is None else mixed_precision
        self._use_orig_params, self._device_mesh = use_orig_params, device_mesh
        shard_group, replicate_group = _groups(process_group, device_mesh, self.sharding_strategy)
        ignored, ignored_params = _ignored(ignored_modules, ignored_states)
        if auto_wrap_policy is not None:
            options = {
                "process_group": process_group, "sharding_strategy": sharding_strategy, "cpu_offload": cpu_offload,
                "mixed_precision": mixed_precision, "param_init_fn": param_init_fn, "sync_module_states": sync_module_states,
                "use_orig_params": use_orig_params, "ignored_states": list(ignored_params) or None, "device_mesh": device_mesh,
            }  # fmt: skip
            wrap_submodules(module, auto_wrap_policy, _wrapper(options, self.mixed_precision), ignored, ignored_params)
        _materialize(module, param_init_fn, ignored)
        self._fsdp_wrapped_module = module
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        self._is_root: bool | None = None
        self._group: ParamGroup | None = None
        skipped = ignored_params | {param for part in ignored for param in part.parameters()}
        if sync_module_states:
            _share(module, shard_group, replicate_group, skipped)
        self._divide(skipped, shard_group, replicate_group)
        self._register_load_state_dict_pre_hook(_state_dict.before_load, with_module=True)
        self.register_load_state_dict_post_hook(_state_dict.after_load)

    def _divide(self, ignored: set[Any], shard_group: Any, replicate_group: Any) -> None:
        """Take this process's slice of the parameters."""
        entries = collect(self._fsdp_wrapped_module, ignored, lambda part: isinstance(part, FullyShardedDataParallel))
        policy = self.mixed_precision
        options = Options(
            policy.param_dtype, policy.reduce_dtype or policy.param_dtype, self.sharding_strategy not in _KEEPING
        )  # fmt: skip
        self._options = options
        if not entries:
            return
        params = [entry.places[0][0]._parameters[entry.places[0][1]] for entry in entries]
        kinds = {param.dtype for param in params}  # type: ignore[union-attr]
        if len(kinds) > 1:
            raise ValueError(f"Must flatten tensors with uniform dtype but got {' and '.join(sorted(map(str, kinds)))}")
        if not self._use_orig_params and len({entry.requires_grad for entry in entries}) > 1:
            raise ValueError("Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`")
        count, rank = dist.get_world_size(shard_group), dist.get_rank(shard_group)
        layout = FlatLayout(params, count, rank, self._use_orig_params)  # type: ignore[arg-type]
        self._layout = layout
        for entry in entries:
            for module, name in entry.places:
                del module._parameters[name]
        self._group = ParamGroup(entries, layout, shard_group, replicate_group, options, self._show_shards)
        self._show_shards()

    def _show_shards(self) -> None:
        """Put the slice, or its pieces, where parameters are looked for."""
        if not self._use_orig_params:
            for entry in self._group.entries:  # type: ignore[union-attr]
                for module, name in entry.places:
                    module._parameters.pop(name, None)
                    module.__dict__[name] = Absent(entry)
            self._fsdp_wrapped_module._parameters[FLAT] = self._layout.flat
            return
        for entry, piece in zip(self._group.entries, self._layout.own, strict=True):  # type: ignore[union-attr]
            for module, name in entry.places:
                module._parameters[name] = piece

    # -- calling ---------------------------------------------------------------------------------------------------------------------
    @property
    def module(self) -> Module:
        """The wrapped module."""
        return self._fsdp_wrapped_module

    @property
    def _flat_param(self) -> Any:
        return self._layout.flat if self._group is not None else None

    @property
    def _has_params(self) -> bool:
        return self._group is not None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == WRAPPED:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]  # type: ignore[index]

    def check_is_root(self) -> bool:
        """Whether this wrapper is inside of no other."""
        self._find_root()
        return bool(self._is_root)

    def _find_root(self) -> None:
        if self._is_root is None:
            self._is_root = True
            for inner in self.fsdp_modules(self)[1:]:
                inner._is_root = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._find_root()
        policy = self.mixed_precision
        if policy.cast_forward_inputs or (self._is_root and policy.cast_root_forward_inputs):
            args, kwargs = _cast_forward_inputs(policy.param_dtype, *args, **kwargs)
        if policy.buffer_dtype is not None and self._is_root:
            for module in self._fsdp_wrapped_module.modules():
                module._buffers.update({name: _cast_to(policy.buffer_dtype)(value) for name, value in module._buffers.items()})
        with self._group.around_forward() if self._group is not None else nullcontext():
            result = self._fsdp_wrapped_module(*args, **kwargs)
        if self._group is not None:
            if not is_grad_enabled():  # no backward will come that shows the shards again
                self._group.reshard()
            _before_backward(result, self._group)
        return result

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context in which backward collects whole gradients instead of reducing them."""
        inner = self.fsdp_modules(self)
        before = [part._options.syncs for part in inner]
        for part in inner:
            part._options.syncs = False
        try:
            yield
        finally:
            for part, syncs in zip(inner, before, strict=True):
                part._options.syncs = syncs

    def register_comm_hook(self, state: object, hook: Any) -> None:
        raise NotImplementedError("FullyShardedDataParallel.register_comm_hook is not supported")

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        for part in self.fsdp_modules(self):
            if part._group is not None:
                part._group.reshard()
        result = super()._apply(fn, recurse)
        for part in self.fsdp_modules(self):
            if part._group is not None:
                part._adopt_shards()
        return result

    def _adopt_shards(self) -> None:
        """Take over what a conversion made of the leaves."""
        if not self._use_orig_params:
            self._layout.flat = self._fsdp_wrapped_module._parameters[FLAT]
            self._layout.own = [self._layout.flat]
        else:
            self._layout.own = [entry.places[0][0]._parameters[entry.places[0][1]] for entry in self._group.entries]  # type: ignore[union-attr]

    # -- whole parameters ------------------------------------------------------------------------------------------------------------
    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The wrappers among a module and its submodules.

        Args:
            module: where to look.
            root_only: only those that are inside of no other.
        """
        found = [part for part in module.modules() if isinstance(part, FullyShardedDataParallel)]
        return [part for part in found if part.check_is_root()] if root_only else found

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False, offload_to_cpu: bool = False,
        with_grads: bool = False
    ) -> Iterator[None]:  # fmt: skip
        """Context in which modules show whole parameters.

        Args:
            module: a wrapper, or a module with wrappers inside.
            recurse: the wrappers inside too.
            writeback: keep what is written into the parameters.
            rank0_only: on the first process only.
            offload_to_cpu: without effect on the CPU.
            with_grads: parameters have whole gradients as ``grad``.
        Raises:
            NotImplementedError: ``rank0_only`` and ``writeback`` together.
        """
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported, as model parameter shards would differ")
        chosen = FullyShardedDataParallel.fsdp_modules(module) if recurse else [module]
        with ExitStack() as stack:
            for part in chosen:
                if part._group is not None:
                    stack.enter_context(_state_dict.summoned(part, writeback, rank0_only, with_grads))
            yield

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their names: those that they have without wrappers, with ``use_orig_params`` or while they are summoned."""
        clean = self._use_orig_params or self.__dict__.get("_is_summoned", False)
        for name, param in super().named_parameters(prefix, recurse, remove_duplicate):
            yield (name.replace(f"{WRAPPED}.", "") if clean else name), param

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the norm of the gradients of all processes' shards.

        Args:
            max_norm: the largest norm.
            norm_type: its order, or infinity.
        Returns:
            The norm before.
        Raises:
            RuntimeError: a wrapper that is inside of another.
        """
        if not self.check_is_root():
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        with no_grad():
            norm = _total_norm(self, float(norm_type))
            factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
            for param in self.parameters():
                if param.grad is not None:
                    param.grad.mul_(factor.to(param.grad.dtype))
            return norm

    # -- state -----------------------------------------------------------------------------------------------------------------------
    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None
    ) -> StateDictSettings:  # fmt: skip
        """Choose what ``state_dict`` gives of all wrappers in a module.

        Args:
            module: a wrapper, or a module with wrappers inside.
            state_dict_type: the kind.
            state_dict_config, optim_state_dict_config: options; the kind's defaults when None.
        Returns:
            The settings that were chosen before.
        Raises:
            RuntimeError: options of another kind.
        """
        own, optim = _CONFIGS[state_dict_type]
        for given, expected in ((state_dict_config, own), (optim_state_dict_config, optim)):
            if given is not None and type(given) is not expected:
                raise RuntimeError(f"Expected state_dict_config of type {expected} but got {type(given)}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for part in FullyShardedDataParallel.fsdp_modules(module):
            part._settings = StateDictSettings(state_dict_type, state_dict_config or own(), optim_state_dict_config or optim())
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """The kind of ``state_dict`` that the wrappers in a module give.

        Args:
            module: a wrapper, or a module with wrappers inside.
        """
        for part in FullyShardedDataParallel.fsdp_modules(module):
            return part._settings
        return StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None
    ) -> Iterator[None]:  # fmt: skip
        """Context with another kind of ``state_dict``.

        Args:
            module, state_dict_type, state_dict_config, optim_state_dict_config: as for :meth:`set_state_dict_type`.
        """
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config
            )

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The wrapped module's state, of the kind that was chosen, under the names that it has without wrappers."""
        if args:
            destination = args[0]
        return _state_dict.state_of(self, destination, prefix, keep_vars)

    optim_state_dict = staticmethod(_optim_state.optim_state_dict)
    optim_state_dict_to_load = staticmethod(_optim_state.optim_state_dict_to_load)
    full_optim_state_dict = staticmethod(_optim_state.full_optim_state_dict)
    sharded_optim_state_dict = staticmethod(_optim_state.sharded_optim_state_dict)
    shard_full_optim_state_dict = staticmethod(_optim_state.shard_full_optim_state_dict)
    scatter_full_optim_state_dict = staticmethod(_optim_state.scatter_full_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:  # fmt: skip
        """An optimizer's state with parameters under their names instead of their numbers, or the other way round.

        Args:
            optim_state_dict: the state of an optimizer of whole parameters.
            optim_state_key_type: what names parameters in the result.
            model: the module whose parameters they are, without wrappers when they are named by numbers.
            optim_input: not supported.
            optim: not needed.
        """
        if optim_input is not None:
            raise NotImplementedError("rekey_optim_state_dict: optim_input is not supported")
        names = [_state_dict.clean(name) for name, _ in model.named_parameters()]
        return _optim_state.rekeyed(optim_state_dict, names, optim_state_key_type is OptimStateKeyType.PARAM_NAME)


# -- making one ------------------------------------------------------------------------------------------------------------------------
def _groups(process_group: Any, mesh: Any, strategy: ShardingStrategy) -> tuple[Any, Any]:
    """Processes that divide, and processes that copy."""
    if mesh is not None:
        if strategy in _HYBRID:
            if mesh.ndim != 2:
                raise ValueError(f"HYBRID_SHARD expects a mesh of two dimensions, got {mesh}")
            return mesh.get_group(1), mesh.get_group(0)
        process_group = mesh.get_group(0)
    elif strategy in _HYBRID:
        if not isinstance(process_group, tuple):
            raise ValueError(f"Manual wrapping with {strategy} requires explicit specification of process group or device_mesh.")
        return process_group
    if strategy is ShardingStrategy.NO_SHARD:
        return _alone(), process_group if process_group is not None else dist.group.WORLD
    return process_group, None


_ALONE: dict[int, Any] = {}


def _alone() -> Any:
    """A group of this process alone; making one is a collective, so that each process makes all."""
    rank = dist.get_rank()
    world = dist.group.WORLD
    if id(world) not in _ALONE:
        _ALONE.clear()
        _ALONE[id(world)] = (world, [dist.new_group([other]) for other in range(dist.get_world_size())])
    return _ALONE[id(world)][1][rank]


def _ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> tuple[set[Module], set[Any]]:
    """Ignored modules, with all inside, and parameters."""
    if modules is not None and states is not None:
        raise ValueError("Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states.")
    given = list(modules or states or ())
    chosen = {part for item in given if isinstance(item, Module) for part in item.modules()}
    params = {item for item in given if not isinstance(item, Module)}
    return chosen, params | {param for part in chosen for param in part.parameters()}


def _wrapper(options: dict[str, Any], policy: MixedPrecision) -> Callable[..., Module]:
    """A maker of wrappers inside of one: with its options, but for modules that compute in their own dtype."""

    def make(module: Module, **own: Any) -> Module:
        chosen = {**options, **own}
        if chosen["mixed_precision"] is not None and isinstance(module, tuple(policy._module_classes_to_ignore)):
            chosen["mixed_precision"] = None
        return FullyShardedDataParallel(module, **chosen)

    return make


def _materialize(module: Module, init: Callable[[Module], None] | None, ignored: set[Module]) -> None:
    """Give values to parameters that lie on the meta device."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if part in ignored or isinstance(part, FullyShardedDataParallel) or not any(tensor.is_meta for tensor in own):
            continue
        if init is not None:
            init(part)
        else:
            part.to_empty(device="cpu", recurse=False)
            part.reset_parameters()


def _share(module: Module, shard_group: Any, replicate_group: Any, skipped: set[Any]) -> None:
    """Give all processes the first one's values."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor not in skipped:
            for group in (shard_group, replicate_group):
                if group is not None or shard_group is None:
                    collectives.broadcast(tensor.detach(), 0, group)


def _total_norm(root: Any, norm_type: float) -> Tensor:
    """The norm of all gradients, of which each process has slices."""
    powers = ops.zeros(())
    largest = ops.zeros(())
    seen: set[int] = set()
    for part in [*root.fsdp_modules(root), None]:
        own = part._layout.own if part is not None and part._group is not None else []
        rest = [param for param in root.parameters() if id(param) not in seen] if part is None else own
        grads = [leaf.grad for leaf in rest if leaf.grad is not None]
        seen |= {id(leaf) for leaf in rest}
        local = _powers(grads, norm_type)
        if own and part._group is not None:
            local = collectives.all_reduce(local, "max" if math.isinf(norm_type) else "sum", part._group.shard_group)
        largest, powers = ops.maximum(largest, local), powers + local
    return largest if math.isinf(norm_type) else powers ** (1 / norm_type)


def _powers(grads: list[Any], norm_type: float) -> Tensor:
    total = ops.zeros(())
    for grad in grads:
        values = grad.to_local() if isinstance(grad, DTensor) else grad
        if values.numel():
            own = values.float().abs()
            total = ops.maximum(total, own.max()) if math.isinf(norm_type) else total + (own**norm_type).sum()
    return total
