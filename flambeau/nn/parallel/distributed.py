"""One module in several processes, whose gradients are averaged. Source: torch.nn.parallel.distributed."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

from ... import distributed as dist, ops
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...core.dtype import int32, uint8
from ...core.tensor import Tensor
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...distributed.grad_bucket import BuiltinCommHookType, GradBucket
from ...facades.futures import Future
from ..embedding import Embedding, EmbeddingBag
from ..module import Module
from ..parameter import is_lazy
from ._ddp_checks import check_hook, check_same_parameters, checked_devices, limits_of, logging_data
from ._mixed_precision import _MixedPrecision as _MixedPrecision, averaging_in, checked, narrow_buffers, narrowed
from ._reducer import Reducer
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DistributedDataParallel"]

_PICKLING = (
    "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, when you have called "
    "init_process_group and have not passed process_group argument to DDP constructor"
)
_STATIC_FINDS = (
    "You passed find_unused_parameters=true to DistributedDataParallel, `_set_static_graph` will detect unused parameters automatically, "
    "so you do not need to set find_unused_parameters=true, just be sure these unused parameters will not change during training loop "
    "while calling `_set_static_graph`."
)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in tuples, lists, dictionaries and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from itertools.chain.from_iterable(map(_tensors_in, value))
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(_tensors_in, value.values()))
    elif dataclasses.is_dataclass(value):
        yield from itertools.chain.from_iterable(_tensors_in(getattr(value, field.name)) for field in dataclasses.fields(value))


class _JoinedRank(JoinHook):
    """Work of a rank without inputs for those that have some: it takes part in their exchanges."""

    def __init__(self, ddp: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        ddp._divides_by_all = divide_by_initial_world_size
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp = self.ddp
        syncs = ddp._some_rank_syncs(joined=True)
        ddp._sync_buffers_if_due(joined=True)
        if syncs:
            ddp.require_forward_param_sync = True
            ddp.reducer.rebuild()
            ddp.reducer.shadow_pass()
        else:
            ddp.require_forward_param_sync = False

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp = self.ddp
        root = ddp._common_rank(is_last_joiner)
        ddp._broadcast_state(root)


class DistributedDataParallel(Module, Joinable):
    """Runs one copy of a module in each process of a group, and averages their gradients during backward passes.

    Every process constructs it around the same module; parameters and buffers become those of rank 0. Gradients are averaged in buckets
    while the backward pass goes on, so that a step has the gradients of the mean of all ranks' losses.

    Args:
        module: the module; its parameters that require grad take part.
        device_ids: the one device of a module on a GPU; None for one on the CPU or on several devices.
        output_device: not looked at for a module of one device, as results stay there.
        dim: the dimension of the batch.
        broadcast_buffers: whether buffers become those of rank 0 before each forward pass; True when None. An old name of
            ``forward_sync_buffers``.
        init_sync: whether shapes are compared, and parameters and buffers taken from rank 0, at construction.
        process_group: the processes; all when None.
        bucket_cap_mb: size of a bucket in MiB; 25 when None. The first bucket has at most 1 MiB.
        find_unused_parameters: whether the graph of the outputs is searched for parameters that take no part in it.
        check_reduction: has no effect, and warns.
        gradient_as_bucket_view: whether ``.grad`` are views of the buckets, which saves their memory.
        static_graph: the graph is the same in all iterations: what the first one used is expected of the others. It allows parameters that
            are never used, and reentrant checkpoints.
        mixed_precision: a ``_MixedPrecision``: dtypes in which the module computes, gradients are averaged, and buffers are held.
        delay_all_reduce_named_params, param_to_hook_all_reduce: not supported.
        device_mesh: a mesh of one dimension, in place of ``process_group``.
        skip_all_reduce_unused_params: do not reduce buckets of which no parameter is used; the same ones on all ranks.
        bucket_cap_mb_list: sizes of the first buckets, in MiB; the last one is that of all others.
        batched_grad_copy: not supported: gradients are copied as they come.
        forward_sync_buffers: whether buffers become those of rank 0 before each forward pass.
    Shape:
        That of the module.
    Attributes:
        module: the module, whose parameters have the prefix ``module.`` in ``state_dict``.
    Raises:
        RuntimeError: no parameter requires grad, or shapes differ between ranks; in the forward pass, if parameters got no gradient in the
            pass before. ValueError: there is no process group, or devices that do not fit. TypeError: a process group or a
            ``mixed_precision`` of another type.
    Source: torch.nn.parallel.DistributedDataParallel; Li et al. 2020, PyTorch Distributed.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
        >>> model(torch.ones(3, 2)).sum().backward()
        >>> model.module.weight.grad, list(model.state_dict())
        (tensor([[3., 3.]]), ['module.weight'])
        >>> dist.destroy_process_group()
    """

    module: Module

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool | None = None, init_sync: bool = True, process_group: Any = None, bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False, check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None, device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None, batched_grad_copy: bool = False, forward_sync_buffers: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        Joinable.__init__(self)
        _refuse(
            delay_all_reduce_named_params=delay_all_reduce_named_params, param_to_hook_all_reduce=param_to_hook_all_reduce,
            batched_grad_copy=batched_grad_copy or None,
        )  # fmt: skip
        self._dist = dist
        self.process_group = _chosen_group(process_group, device_mesh)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", []))
        self._set_parameters(module)
        self.device_ids = checked_devices(self._module_parameters, device_ids, output_device)
        devices = {parameter.device for parameter in self._module_parameters}
        self.is_multi_device_module = len(devices) > 1
        self.device = next(iter(self._module_parameters)).device
        self.device_type = self.device.type
        self.output_device = output_device if self.device_ids is None or output_device is not None else self.device_ids[0]
        if forward_sync_buffers is not None and broadcast_buffers is not None:
            warnings.warn(
                "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its value is "
                "ignored when `forward_sync_buffers` is provided.",
                FutureWarning,
                stacklevel=2,
            )
        if check_reduction:
            warnings.warn(
                "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.",
                FutureWarning,
                stacklevel=2,
            )
        self.module, self.dim = module, dim
        chosen = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.forward_sync_buffers = True if chosen is None else chosen
        self.find_unused_parameters, self.gradient_as_bucket_view = find_unused_parameters, gradient_as_bucket_view
        self.skip_all_reduce_unused_params, self.static_graph = skip_all_reduce_unused_params, False
        self.bucket_bytes_cap, self._limits = limits_of(bucket_cap_mb, bucket_cap_mb_list)
        self.bucket_bytes_cap_list = self._limits if bucket_cap_mb_list is not None else None
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._divides_by_all = True
        self._comm_hook_name = ""
        self.mixed_precision = checked(mixed_precision)
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            narrow_buffers(self.modules_buffers, mixed_precision.buffer_dtype)
        if init_sync:
            check_same_parameters(dist, self.process_group, self._module_parameters)
            self._broadcast_state(dist.get_global_rank(self.process_group, 0))
        self._make_reducer()
        if mixed_precision is not None and mixed_precision.reduce_dtype is not None:
            self._set_hook("mixed_precision", averaging_in(self.process_group, mixed_precision.reduce_dtype), "mixed_precision")
        if static_graph:
            self._set_static_graph()

    @property
    def broadcast_buffers(self) -> bool:
        """Whether buffers become those of rank 0 before each forward pass: an old name of ``forward_sync_buffers``."""
        return self.forward_sync_buffers

    # -- making ---------------------------------------------------------------------------------------------------------------------------
    def _set_parameters(self, module: Module) -> None:
        """Find the parameters and buffers that take part."""
        if any(is_lazy(parameter) for parameter in module.parameters()):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward pass to correctly "
                "initialize the modules"
            )
        ignored = self.parameters_to_ignore
        named = [(name, each) for name, each in module.named_parameters() if each.requires_grad and name not in ignored]
        self.__dict__["_module_parameters"] = [parameter for _, parameter in named]
        self.__dict__["_parameter_names"] = [name for name, _ in named]
        if not named:
            if any(parameter.requires_grad for parameter in module.parameters()):
                raise RuntimeError("DistributedDataParallel: all parameters that require a gradient are ignored.")
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.")
        sparse = {id(m.weight) for m in module.modules() if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse}
        self.__dict__["_sparse"] = {i for i, parameter in enumerate(self._module_parameters) if id(parameter) in sparse}

    @property
    def modules_buffers(self) -> list[Tensor]:
        """The module's buffers, but for ignored ones."""
        return [buffer for name, buffer in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _make_reducer(self) -> None:
        self.__dict__["reducer"] = Reducer(
            self._module_parameters, self._parameter_names, self.process_group, self._limits, self._sparse,
            find_unused=self.find_unused_parameters, as_view=self.gradient_as_bucket_view, static=self.static_graph,
            skip_unused=self.skip_all_reduce_unused_params,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not dist.group.WORLD:
            raise RuntimeError(_PICKLING)
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "_dist", "_module_parameters"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__["_dist"], self.__dict__["process_group"] = dist, dist.group.WORLD
        self._set_parameters(self.module)
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._make_reducer()

    # -- the passes ----------------------------------------------------------------------------------------------------------------------
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result, with what has to be exchanged before and prepared after it."""
        begin = perf_counter_ns()
        inputs, kwargs = self._before_forward(inputs, kwargs)
        mixed = self.mixed_precision
        output = self.module(*inputs, **kwargs) if mixed is None else narrowed(self.module, mixed.param_dtype, inputs, kwargs)
        self._after_forward(output, begin)
        return output

    def _after_forward(self, output: Any, begin: int) -> None:
        """Prepare for the backward pass of an output."""
        if not (is_grad_enabled() and self.require_backward_grad_sync):
            self.require_forward_param_sync = False
            return
        self.require_forward_param_sync = True
        self.reducer.prepare(list(_tensors_in(output)) if self.find_unused_parameters else [])
        self.reducer.times.update(forward_compute_time_start=begin, forward_compute_time_end=perf_counter_ns())

    def _before_forward(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        reducer = self.reducer
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        if syncs:
            reducer.check_finished()
        work = Join.notify_join_context(self)
        if self._join_config.enable:
            self._some_rank_syncs(joined=False)
        reducer.divisor = reducer.world_size
        if work is not None and not self._divides_by_all:
            work.wait()
            reducer.divisor = int(self._active_ranks.item())
        self._sync_buffers_if_due()
        if syncs:
            reducer.rebuild()
        if self.device_ids:
            args, keywords = scatter_kwargs(inputs, kwargs, self.device_ids, dim=self.dim)
            return (args[0], keywords[0]) if args else (inputs, kwargs)
        return inputs, kwargs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forward passes inside of the ``with`` block stay on their rank; the next pass outside averages them with its own.

        Source: torch.nn.parallel.DistributedDataParallel.no_sync.
        """
        was, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = was

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward pass takes buffers over from another rank."""
        return self.require_forward_param_sync and self.forward_sync_buffers and bool(self.modules_buffers)

    def _sync_buffers_if_due(self, joined: bool = False) -> None:
        if not self.will_sync_module_buffers():
            return
        root = dist.get_global_rank(self.process_group, 0)
        if self._join_config.enable or joined:
            root = self._common_rank(not joined)
        self._broadcast(self.modules_buffers, root)

    def _broadcast_state(self, root: int) -> None:
        """Parameters and buffers become those of a rank."""
        ignored = self.parameters_to_ignore
        parameters = [parameter for name, parameter in self.module.named_parameters() if name not in ignored]
        self._broadcast([*parameters, *self.modules_buffers], root)

    def _broadcast(self, tensors: Iterable[Tensor], root: int) -> None:
        """Send tensors of all dtypes as the bytes of one vector per device."""
        by_device: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            if tensor.numel():
                by_device.setdefault(tensor.device, []).append(tensor.detach())
        for group in by_device.values():
            parts = [tensor.contiguous().reshape(-1).view(uint8) for tensor in group]
            flat = ops.cat(parts) if len(parts) > 1 else parts[0].clone()
            dist.broadcast(flat, root, group=self.process_group)
            if dist.get_rank() == root:
                continue
            with no_grad():
                for tensor, part in zip(group, flat.split([part.numel() for part in parts])):
                    tensor.copy_(part.clone().view(tensor.dtype).reshape(tensor.shape))

    # -- uneven inputs -------------------------------------------------------------------------------------------------------------------
    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False) -> Join:
        """A context for ranks with different numbers of inputs: those that have none left take part in the others' exchanges.

        Args:
            divide_by_initial_world_size: divide gradients by the number of all ranks; else by that of ranks with inputs.
            enable: False if inputs are known to be even.
            throw_on_early_termination: raise on all ranks as soon as one has no inputs left.
        Returns: a context manager.
        Source: torch.nn.parallel.DistributedDataParallel.join.
        """
        return Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Work of this rank when it has no inputs left. Source: torch.nn.parallel.DistributedDataParallel.join_hook."""
        if self.skip_all_reduce_unused_params:
            raise NotImplementedError("DistributedDataParallel: uneven inputs with skip_all_reduce_unused_params=True are not supported")
        return _JoinedRank(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        return self.device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    def _some_rank_syncs(self, joined: bool) -> bool:
        """Whether ranks with inputs reduce gradients in this iteration."""
        flag = ops.zeros(1, dtype=int32, device=self.device)
        if not joined and self.require_backward_grad_sync and is_grad_enabled():
            flag.fill_(1)
        dist.all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    def _common_rank(self, is_candidate: bool) -> int:
        """The highest rank among the candidates."""
        rank = ops.tensor([dist.get_rank() if is_candidate else -1], dtype=int32, device=self.device)
        dist.all_reduce(rank, op=dist.ReduceOp.MAX, group=self.process_group)
        if int(rank.item()) < 0:
            raise ValueError(
                "BUG! Expected rank_cond to be true for at least one process. This indicates a bug in PyTorch, please report an issue."
            )
        return int(rank.item())

    # -- hooks ---------------------------------------------------------------------------------------------------------------------------
    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Reduce buckets by a function of the caller's, which may compress them. Once, before the first backward pass.

        Args:
            state: given to the hook; what it has to keep.
            hook: ``hook(state, bucket)`` gives a future of the reduced ``bucket.buffer()``. The gradients are not yet divided.
        Raises:
            TypeError: it cannot be called. ValueError: its annotations say something else. RuntimeError: there is a hook.
        Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
        """
        check_hook(hook, GradBucket, Future)
        self._set_hook(
            "register_comm_hook or register_builtin_comm_hook", lambda bucket: hook(state, bucket), getattr(hook, "__qualname__", "hook")
        )

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        """Reduce buckets by a hook of ``BuiltinCommHookType``. Source: torch.nn.parallel.DistributedDataParallel."""
        from ...distributed.algorithms.ddp_comm_hooks import default_hooks

        hooks = {
            BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
            BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook,
        }
        hook = hooks[comm_hook_type]
        self._set_hook(
            "register_builtin_comm_hook or register_comm_hook", lambda bucket: hook(self.process_group, bucket), comm_hook_type.name
        )

    def _set_hook(self, what: str, hook: Callable[[Any], Any], name: str) -> None:
        if self.reducer.hook is not None:
            raise RuntimeError(f"{what} can only be called once.")
        self.reducer.hook, self._comm_hook_name = hook, name

    def _set_static_graph(self) -> None:
        """Promise that the graph is the same in all iterations, before the first one. Source: torch.nn.parallel.DistributedDataParallel."""
        if self.static_graph:
            warnings.warn("You've set static_graph to be True, no need to set it again.", stacklevel=2)
            return
        self.static_graph = self.reducer.static = True
        if self.find_unused_parameters:
            warnings.warn(_STATIC_FINDS, stacklevel=2)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Facts about the wrapper and how long its work takes, by PyTorch's names. Source: torch.nn.parallel.DistributedDataParallel."""
        return logging_data(self)

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """Every iteration is timed, which costs a microsecond, so that a rate below each one is only checked."""
        if sample_rate < 1:
            raise ValueError("DDP runtime logging sample rate should be equal or greater than 1")

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Iterable[str]) -> None:
        """Name parameters and buffers of a module that its wrapper leaves alone. Source: torch.nn.parallel.DistributedDataParallel."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    # -- what subclasses override --------------------------------------------------------------------------------------------------------
    def scatter(self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]) -> Any:
        """The arguments of each device."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def to_kwargs(self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_id: Any) -> Any:
        """The arguments on one device."""
        return scatter_kwargs(inputs, kwargs, [device_id], dim=self.dim)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The results on one device."""
        return gather(outputs, output_device, dim=self.dim)


def _refuse(**options: Any) -> None:
    """Raise for options that are given and not supported."""
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")


def _chosen_group(process_group: Any, device_mesh: Any) -> Any:
    """The group that the arguments of a wrapper mean."""
    if process_group is not None and device_mesh is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh is not None:
        if device_mesh.ndim != 1:
            raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
        return device_mesh.get_group(mesh_dim=0)
    if process_group is None:
        dist.get_rank()  # raises where there is none
        return dist.group.WORLD
    if not isinstance(process_group, dist.ProcessGroup):
        raise TypeError(f"DistributedDataParallel: process_group must be a ProcessGroup, got {type(process_group).__name__}")
    return process_group
