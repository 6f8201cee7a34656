"""``DTensor``: a tensor spread over a mesh of processes, and what makes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...autograd.function import Function
from ...autograd.grad_mode import no_grad
from ...core.calls.override import DisableTorchFunctionSubclass
from ...core.layout import contiguous_format
from ...core.state import grad_enabled
from ...core.tensor import Tensor
from ...nn import Module, Parameter
from ..device_mesh import DeviceMesh
from . import _collectives as collectives, _rules, _view_rules  # noqa: F401  # these fill the table of rules
from ._dispatch import call_kernel
from ._redistribute import Redistribute, backward_placements, redistributed
from ._spec import DTensorSpec, compute_local_shape_and_global_offset, global_shape_of, global_stride_of, spec_of
from .placement_types import Partial, Placement, Replicate, normalized

__all__ = ["DTensor", "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros"]


class _FromLocal(Function):
    """A part as the tensor it is a part of; the gradient's part goes back."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: DTensorSpec, grad_placements: Any) -> Any:
        ctx.target = backward_placements(spec.placements) if grad_placements is None else tuple(grad_placements)
        return DTensor._around(local.view_as(local), spec)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return redistributed(grads[0]._local_tensor, grads[0]._spec, ctx.target), None, None


class _ToLocal(Function):
    """This process's part; its gradient is a part of the whole gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, grad_placements: Any) -> Any:
        ctx.spec, ctx.placements = tensor._spec, grad_placements
        local = tensor._local_tensor
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        spec = ctx.spec
        placements = backward_placements(spec.placements) if ctx.placements is None else tuple(ctx.placements)
        made = spec_of(spec.mesh, placements, spec.shape, grads[0].dtype, spec.stride)
        return DTensor._around(grads[0], made), None


class DTensor(Tensor):
    """A tensor of which each process of a mesh has a part, a copy or a term of a reduction.

    It has the whole's shape, and operations on it give what they give on the whole; parts are sent where an operation needs them elsewhere.
    Made by :func:`distribute_tensor`, :meth:`from_local` and the factories of ``torch.distributed.tensor``.

    Args:
        local_tensor: this process's part.
        spec: the mesh, the placements, and the whole's shape, dtype and strides.
        requires_grad: as in ``torch.tensor``.
    Raises:
        NotImplementedError: an operation that has no rule for parts; the message has its name.
    Source: torch.distributed.tensor.DTensor.
    Example:
        >>> from flambeau.distributed.tensor import DTensor
        >>> isinstance(torch.ones(2), DTensor)
        False
    """

    _local_tensor: Tensor
    _spec: DTensorSpec

    def __new__(cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> Any:
        return cls._around(local_tensor, spec, requires_grad)

    def __init__(self, local_tensor: Any = None, spec: Any = None, *, requires_grad: bool = False) -> None: ...

    @classmethod
    def _around(cls, local: Tensor, spec: DTensorSpec, requires_grad: bool = False) -> Any:
        """A tensor around this process's part, which has no history."""
        made: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, spec.shape, strides=spec.stride, dtype=local.dtype, device=local.device, requires_grad=requires_grad
        )
        made._local_tensor = local.detach() if local.requires_grad else local
        made._spec = spec if spec.dtype is local.dtype else spec_of(spec.mesh, spec.placements, spec.shape, local.dtype, spec.stride)
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call_kernel(DTensor, func, args, kwargs or {})

    # -- what it is --------------------------------------------------------------------------------------------------------------
    @property
    def device_mesh(self) -> Any:
        """The processes that it is spread over."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Its placement on each dimension of the mesh."""
        return self._spec.placements

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    # -- to and from parts -------------------------------------------------------------------------------------------------------
    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: Any = None, placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Any = None, stride: Any = None, grad_placements: Sequence[Placement] | None = None
    ) -> Any:  # fmt: skip
        """The tensor that this process's part belongs to, recorded by autograd.

        Args:
            local_tensor: the part.
            device_mesh: the processes; all of them in a row when None.
            placements: how it lies on each dimension of the mesh; replicated when None.
            run_check: have copies agree: the first process's are sent to the others.
            shape, stride: those of the whole, where parts differ in size.
            grad_placements: how the gradient's part for ``local_tensor`` lies; as the part does when None, with sums summed.
        Returns:
            A ``DTensor``.
        Raises:
            ValueError: ``shape`` without ``stride`` or the other way round.
        Source: torch.distributed.tensor.DTensor.from_local.
        """
        mesh = _mesh_of(device_mesh)
        places = normalized(placements, mesh.ndim, local_tensor.dim())
        if (shape is None) != (stride is None):
            raise ValueError("from_local: expected both shape and stride, or none of them")
        if run_check:
            _share_copies(local_tensor, mesh, places)
        whole = global_shape_of(local_tensor.shape, mesh, places) if shape is None else tuple(shape)
        strides = global_stride_of(whole, local_tensor) if stride is None else tuple(stride)
        return _FromLocal.apply(local_tensor, spec_of(mesh, places, whole, local_tensor.dtype, strides), grad_placements)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part, recorded by autograd.

        Args:
            grad_placements: how the part's gradient lies; as the part does when None, with sums summed.
        Source: torch.distributed.tensor.DTensor.to_local.
        """
        if not grad_enabled() or not self.requires_grad:
            return self._local_tensor
        return _ToLocal.apply(self, grad_placements)

    def redistribute(
        self, device_mesh: Any = None, placements: Sequence[Placement] | None = None, *, async_op: bool = False,
        forward_dtype: Any = None, backward_dtype: Any = None
    ) -> Any:  # fmt: skip
        """The same tensor under other placements, recorded by autograd.

        Args:
            device_mesh: the mesh that it lies on already, or None.
            placements: how it shall lie on each dimension of the mesh.
            async_op: allowed; the result is there when the call returns.
            forward_dtype, backward_dtype: of what is sent, and of the gradient that is sent back.
        Raises:
            RuntimeError: no placements, or new terms of a reduction.
            NotImplementedError: another mesh.
        Source: torch.distributed.tensor.DTensor.redistribute.
        """
        if device_mesh is not None and device_mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        places = normalized(placements, self._spec.mesh.ndim, self.dim())
        for have, wanted in zip(self._spec.placements, places, strict=True):
            if wanted.is_partial() and have != wanted:
                raise RuntimeError(f"Can not redistribute from {have} to {wanted}, redistributing to Partial is for internal use only!")
        return Redistribute.apply(self, places, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole, on every process, recorded by autograd.

        Args:
            grad_placements: how the whole's gradient lies on the processes; replicated when None.
        Source: torch.distributed.tensor.DTensor.full_tensor.
        """
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return _ToLocal.apply(whole, grad_placements)

    # -- protocols ---------------------------------------------------------------------------------------------------------------
    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], context: Any, outer_size: Any, outer_stride: Any) -> Any:
        spec, requires_grad = context
        return DTensor._around(inner["_local_tensor"], spec, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = DTensor._around(self._local_tensor.detach().clone(), self._spec, self.requires_grad)
            copied.__dict__.update({name: value for name, value in self.__dict__.items() if name == "_is_param"})
            memo[id(self)] = copied
        return memo[id(self)]

    def tolist(self) -> Any:
        return self.full_tensor().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")


def _mesh_of(device_mesh: Any) -> Any:
    """The mesh, or all processes in a row."""
    if device_mesh is not None:
        return device_mesh
    from .. import get_world_size

    return DeviceMesh("cpu", list(range(get_world_size())))


def _share_copies(tensor: Tensor, mesh: Any, placements: Sequence[Placement], src_data_rank: int | None = 0) -> None:
    """Give copies the values of the first process's, along each dimension of the mesh that has copies."""
    for i, placement in enumerate(placements):
        if placement.is_replicate() and src_data_rank is not None and mesh.size(i) > 1:
            collectives.broadcast(tensor, src_data_rank, mesh.get_group(i))


# -- distributing --------------------------------------------------------------------------------------------------------------------
def distribute_tensor(
    tensor: Tensor, device_mesh: Any = None, placements: Sequence[Placement] | None = None, *, src_data_rank: int | None = 0
) -> Any:
    """Spread a tensor that every process has.

    Args:
        tensor: the whole, a leaf.
        device_mesh: the processes; all of them in a row when None.
        placements: how it shall lie on each dimension of the mesh; replicated when None.
        src_data_rank: the place, along each dimension of the mesh, of the process whose values count; with None each takes its own.
    Returns:
        A ``DTensor`` that is a leaf, a parameter if ``tensor`` is one.
    Raises:
        RuntimeError: ``tensor`` has a history, or terms of a reduction are asked for.
        ValueError: another number of placements than the mesh has dimensions.
    Source: torch.distributed.tensor.distribute_tensor.
    Example:
        >>> from flambeau.distributed.tensor import distribute_tensor
        >>> distribute_tensor(torch.ones(2), torch.zeros(1), [])
        Traceback (most recent call last):
        ValueError: `placements` must have the same length as `device_mesh.ndim`! Found placements length: 0, ndim: 1.
    """
    mesh = _mesh_of(device_mesh)
    places = normalized(placements, mesh.ndim, tensor.dim())
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}.")
        if tensor.placements != places:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {places}. do you want to call "
                "`redistribute` instead?"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    if any(placement.is_partial() for placement in places):
        raise RuntimeError("distribute_tensor: Partial is not supported; its terms are made with DTensor.from_local")
    with no_grad():
        local = tensor.detach().clone(memory_format=contiguous_format)
        if mesh.get_coordinate() is not None:
            if src_data_rank is not None:
                for i in range(mesh.ndim):
                    collectives.broadcast(local, src_data_rank, mesh.get_group(i))
            spec = spec_of(mesh, places, tensor.shape, tensor.dtype)
            local = redistributed(local, spec.placed([Replicate()] * mesh.ndim), places)
        else:
            spec, local = spec_of(mesh, places, tensor.shape, tensor.dtype), local.new_empty(0)
        made = DTensor._around(local, spec)
    made.requires_grad_(tensor.requires_grad)
    return Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made


def distribute_module(
    module: Module, device_mesh: Any = None, partition_fn: Callable[[str, Module, Any], None] | None = None,
    input_fn: Callable[[Module, Any, Any], Any] | None = None, output_fn: Callable[[Module, Any, Any], Any] | None = None
) -> Module:  # fmt: skip
    """Spread a module's parameters and buffers, and prepare its inputs and outputs.

    Args:
        module: changed in place.
        device_mesh: the processes; all of them in a row when None.
        partition_fn: called with each submodule's name, the submodule and the mesh; replaces parameters. What it leaves is replicated.
        input_fn: called before ``forward`` with the module, its inputs and the mesh; returns the inputs.
        output_fn: called after ``forward`` with the module, its outputs and the mesh; returns the outputs.
    Returns:
        ``module``.
    Source: torch.distributed.tensor.distribute_module.
    Example:
        >>> from flambeau.distributed.tensor import distribute_module
        >>> distribute_module(nn.ReLU(), device_mesh="a mesh")
        ReLU()
    """
    mesh = _mesh_of(device_mesh)
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        _replicate_rest(submodule, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda owner, inputs: input_fn(owner, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda owner, inputs, outputs: output_fn(owner, outputs, mesh))
    return module


def _replicate_rest(module: Module, mesh: Any) -> None:
    """Replicate the parameters and buffers of a module that are not spread yet."""
    for key, param in list(module._parameters.items()):
        if param is not None and not isinstance(param, DTensor):
            module.register_parameter(key, distribute_tensor(param, mesh))
    for key, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[key] = distribute_tensor(buffer, mesh)


# -- factories -----------------------------------------------------------------------------------------------------------------------
def _factory(name: str, sizes: tuple[Any, ...], options: dict[str, Any], fill: tuple[Any, ...] = ()) -> Any:
    """A spread tensor whose parts are made where they lie."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    mesh = _mesh_of(options.pop("device_mesh", None))
    places = normalized(options.pop("placements", None), mesh.ndim, len(shape))
    requires_grad = options.pop("requires_grad", False)
    if any(isinstance(placement, Partial) for placement in places):
        raise NotImplementedError(f"{name}: Partial is not supported")
    own, begin = compute_local_shape_and_global_offset(shape, mesh, places)
    if name in ("rand", "randn"):  # every process draws the whole and keeps its part, so that the numbers do not depend on the mesh
        local = getattr(ops, name)(*shape, **options)
        for dim, (size, first) in enumerate(zip(own, begin, strict=True)):
            local = local.narrow(dim, first, size)
        local = local.contiguous()
    else:
        local = getattr(ops, name)(own, *fill, **options)
    return DTensor._around(local, spec_of(mesh, places, shape, local.dtype), requires_grad)


def _made(name: str, what: str) -> Callable[..., Any]:
    def function(*size: Any, **options: Any) -> Any:
        return _factory(name, size, options)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"""{what}, spread over a mesh.

    Args:
        size: the shape of the whole, as ints or a tuple.
        options: ``dtype``, ``layout``, ``requires_grad``; ``device_mesh``, all processes in a row when left out; ``placements``,
            replicated when left out.
    Returns:
        A ``DTensor``.
    Source: torch.distributed.tensor.{name}.
    Example:
        >>> from flambeau.distributed import tensor
        >>> tensor.{name}.__name__
        '{name}'
    """
    return function


zeros = _made("zeros", "Zeros")
ones = _made("ones", "Ones")
empty = _made("empty", "A tensor without values")
rand = _made("rand", "Numbers from the uniform distribution between 0 and 1")
randn = _made("randn", "Numbers from the standard normal distribution")


def full(size: Any, fill_value: Any, **options: Any) -> Any:
    """A tensor of one number, spread over a mesh.

    Args:
        size: the shape of the whole.
        fill_value: the number.
        options: as for :func:`zeros`.
    Returns:
        A ``DTensor``.
    Source: torch.distributed.tensor.full.
    Example:
        >>> from flambeau.distributed import tensor
        >>> tensor.full.__name__
        'full'
    """
    return _factory("full", (tuple(size),), options, (fill_value,))
