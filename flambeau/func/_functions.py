"""``autograd.Function`` inside of transforms: what its ``jvp`` and ``vmap`` are for.

A call with wrapped operands is the highest level's. Forward mode has the call done one level further down, and asks ``jvp`` for the
tangents. ``vmap`` calls the class's own ``vmap`` with what is inside, or (``generate_vmap_rule``) another Function, whose ``forward``,
``backward`` and ``jvp`` are the class's own, each run over a batch. Each level has a context of its own, which is why ``setup_context``
must be apart from ``forward``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autograd.function import Function, FunctionCtx, called
from ..core.tensor import Tensor, storage_of
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from ._batch import Batch
from ._dual import Dual, check_tangent
from ._levels import Hook, Wrapped, below, highest, mapped

_PAGE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """Facts about the batch that a Function's ``vmap`` gets.

    Attributes:
        batch_size: number of examples. randomness: as given to ``vmap``.
    """

    batch_size: int
    randomness: str


def applied(cls: Any, args: tuple[Any, ...]) -> Any:
    """``cls.apply(*args)``; NotImplemented where no operand is wrapped.

    Raises:
        RuntimeError: the class lacks what the transform needs.
    """
    owner = highest(tree_flatten(args)[0])
    if owner is None:
        return NotImplemented
    if cls.setup_context is Function.setup_context and not getattr(owner, "is_dual_level", False):
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
            f"setup_context staticmethod. {_PAGE}"
        )
    with below(owner):
        if owner.records:
            return owner.applied(cls, args)
        return _with_tangents(owner, cls, args) if isinstance(owner, Dual) else _over_batch(owner, cls, args)


# -- forward mode -------------------------------------------------------------------------------------------------------------------------
def _with_tangents(dual: Dual, cls: Any, args: tuple[Any, ...]) -> Any:
    primals = tuple([mapped(arg, dual.primal) for arg in args])
    if not dual.runs():
        return cls.apply(*primals)
    if cls.jvp is Function.jvp:
        Function.jvp(None)
    if cls.setup_context is Function.setup_context:
        output, ctx = called(cls, primals)
    else:
        output, ctx = cls.apply(*primals), FunctionCtx()
        ctx.needs_input_grad = tuple([isinstance(arg, Tensor) and arg.requires_grad for arg in primals])
        cls.setup_context(ctx, primals, output)
    given = [_given(dual, ctx, arg, primal) for arg, primal in zip(args, primals, strict=True)]
    ctx._runs_jvp = True
    try:
        slopes = cls.jvp(ctx, *given)
    finally:
        ctx._runs_jvp = False
    outputs = output if isinstance(output, tuple) else (output,)
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    if len(slopes) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got {len(slopes)})"
        )
    results = [_dual_result(dual, ctx, args, primals, given, i, *each) for i, each in enumerate(zip(outputs, slopes, strict=True))]
    return tuple(results) if isinstance(output, tuple) else results[0]


def _given(dual: Dual, ctx: Any, arg: Any, primal: Any) -> Any:
    """Argument of ``jvp`` for an argument: its tangent, zeros for a tensor without one, or None."""
    if dual.has(arg):
        return arg._tangent
    return dual.zeros(primal) if isinstance(primal, Tensor) and ctx.materialize_grads else None


def _dual_result(
    dual: Dual, ctx: Any, args: tuple[Any, ...], primals: tuple[Any, ...], given: list[Any], i: int, output: Any, slope: Any
) -> Any:
    """One output with what ``jvp`` returned for it.

    Raises:
        RuntimeError: that is no tangent of it.
    """
    if slope is None:
        return output
    if not isinstance(slope, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type(slope).__name__}) for grad output {i}.")
    if not isinstance(output, Tensor) or any(output is each for each in ctx._non_differentiable):
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a differentiable Tensor."
            "You should return None at that position instead."
        )
    check_tangent(output, slope)
    place = next((k for k, primal in enumerate(primals) if primal is output), None)
    if place is not None and any(output is each for each in ctx._dirty):
        if not dual.has(args[place]):
            return dual.put(args[place], dual.wrap(output, slope), lambda part, value: None if part is value else part.copy_(value))
        if slope is not given[place]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an input "
                "inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        return args[place]
    for primal, tangent in zip(primals, given, strict=True):
        if _shares(output, primal) and isinstance(tangent, Tensor):
            if slope is tangent or (slope.__class__ is Tensor and slope._view_of is None):
                whole = output._array.shape == primal._array.shape
                raise RuntimeError(
                    "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
                    if whole
                    else "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
                )
            if not _shares(slope, tangent):
                raise RuntimeError("A custom Function is returning a view but the jvp is not returning a view of the given grad input.")
    return dual.wrap(output, slope)


def _shares(a: Any, b: Any) -> bool:
    """Whether two plain tensors show the same memory; unknown for wrapped ones."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a.__class__ is Wrapped or b.__class__ is Wrapped:
        return a is b
    return a._storage is not None and storage_of(a) is storage_of(b)


# -- vmap -------------------------------------------------------------------------------------------------------------------------------
def _over_batch(batch: Batch, cls: Any, args: tuple[Any, ...]) -> Any:
    own_rule = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and own_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please "
            f"set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. {_PAGE}"
        )
    if not cls.generate_vmap_rule and not own_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True. {_PAGE}"
        )
    leaves, spec = tree_flatten(args)
    inner = tree_unflatten([each._inner if batch.has(each) else each for each in leaves], spec)
    dims = tree_unflatten([0 if batch.has(each) else None for each in leaves], spec)
    if cls.generate_vmap_rule:
        rule = batched(cls, batch.size, batch.randomness, dims)
        output, out_dims = rule.apply(*inner), rule.out_dims
    else:
        found = cls.vmap(VmapInfo(batch.size, batch.randomness), dims, *inner)
        if not isinstance(found, tuple) or len(found) != 2:
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the "
                f"output. Got a {type(found).__name__} from {cls.__name__}"
            )
        output, out_dims = found
    results, shape = tree_flatten(output)
    places = _broadcast_to_and_flatten(out_dims, shape)
    if places is None:
        raise RuntimeError(f"{cls.__name__}: out_dims {out_dims} of the vmap staticmethod do not fit its output of structure {shape}")
    wrapped = []
    for each, dim in zip(results, places, strict=True):
        same = next((arg for arg in leaves if batch.has(arg) and arg._inner is each), None)  # written in place
        if same is not None or dim is None or not isinstance(each, Tensor):
            wrapped.append(each if same is None else same)
        else:
            wrapped.append(batch.wrap(each.movedim(dim, 0) if dim else each))
    return tree_unflatten(wrapped, shape)


class _BatchedCtx(FunctionCtx):
    """The context that a class's own functions see while they run over a batch; ``outer`` is that of the Function around them."""

    def __init__(self, outer: Any, batch: Batch):
        self.outer, self.batch = outer, batch
        self.needs_input_grad = outer.needs_input_grad
        self.saved_dims: dict[str, list[Any]] = {}

    def _keep(self, way: str, tensors: tuple[Any, ...]) -> None:
        self.saved_dims[way] = [self.batch.has(each) for each in tensors]
        getattr(self.outer, way)(*[each._inner if self.batch.has(each) else each for each in tensors])

    def save_for_backward(self, *tensors: Any) -> None:
        self._keep("save_for_backward", tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        self._keep("save_for_forward", tensors)

    def mark_dirty(self, *args: Any) -> None:
        self.outer.mark_dirty(*[each._inner if self.batch.has(each) else each for each in args])

    def mark_non_differentiable(self, *args: Any) -> None:
        self.outer.mark_non_differentiable(*[each._inner if self.batch.has(each) else each for each in args])

    def set_materialize_grads(self, value: bool) -> None:
        self.outer.set_materialize_grads(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        way = "save_for_forward" if self.outer._runs_jvp and "save_for_forward" in self.saved_dims else "save_for_backward"
        pairs = zip(self.outer.saved_tensors, self.saved_dims.get(way, ()), strict=True)
        return tuple([self.batch.wrap(tensor) if is_batched else tensor for tensor, is_batched in pairs])


def batched(cls: Any, size: int, randomness: str, in_dims: Any) -> Any:
    """A Function that is ``cls`` over a batch, which operands have in front where ``in_dims`` has 0 and not None."""

    class Batched(Function):
        generate_vmap_rule = True
        out_dims: Any = None

        @staticmethod
        def forward(*args: Any) -> Any:
            with Batch(size, randomness) as batch:
                output = cls.forward(*_wrapped(batch, args, in_dims))
                results, spec = tree_flatten(output)
                Batched.out_dims = tree_unflatten([0 if batch.has(each) else None for each in results], spec)
                return tree_unflatten([each._inner if batch.has(each) else each for each in results], spec)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            with Batch(size, randomness) as batch:
                ctx.own = _BatchedCtx(ctx, batch)
                cls.setup_context(ctx.own, _wrapped(batch, inputs, in_dims), _wrapped(batch, output, Batched.out_dims))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            out_dims = Batched.out_dims if isinstance(Batched.out_dims, tuple) else (Batched.out_dims,)
            with Batch(size, randomness) as batch:
                ctx.own.batch = batch
                found = derivative(ctx.own, *_wrapped(batch, grads, out_dims))
                found = found if isinstance(found, tuple) else (found,)
                return tuple([_brought(batch, grad, dim) for grad, dim in zip(found, in_dims, strict=False)])

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with Batch(size, randomness) as batch:
                ctx.own.batch = batch
                found = cls.jvp(ctx.own, *_wrapped(batch, tangents, in_dims))
                dims = Batched.out_dims
                if not isinstance(found, tuple):
                    return _brought(batch, found, dims[0] if isinstance(dims, tuple) else dims, False)
                return tuple([_brought(batch, slope, dim, False) for slope, dim in zip(found, dims, strict=True)])

    derivative = cls.backward if cls.vjp is Function.vjp else cls.vjp
    Batched.__name__ = Batched.__qualname__ = f"Vmapped{cls.__name__}"
    return Batched


def _wrapped(batch: Batch, values: Any, dims: Any) -> Any:
    """``values`` as tensors of the batch where ``dims`` has 0."""
    leaves, spec = tree_flatten(values)
    places = tree_flatten(dims, is_leaf=lambda each: each is None)[0]
    if len(places) != len(leaves):
        places = [0 if isinstance(each, Tensor) else None for each in leaves]
    pairs = zip(leaves, places, strict=True)
    return tree_unflatten([batch.wrap(each) if dim == 0 and isinstance(each, Tensor) else each for each, dim in pairs], spec)


def _brought(batch: Batch, value: Any, dim: Any, summed: bool = True) -> Any:
    """A derivative as it belongs to a tensor with the batch in front (``dim`` 0), or without: then the examples' sum."""
    if not isinstance(value, Tensor):
        return value
    if dim == 0:
        return batch.inside(value)
    return value._inner.sum(0) if batch.has(value) and summed else value


Hook.function = staticmethod(applied)
