"""Users' operations inside transforms of ``torch.func``."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...func import _levels
from ...func._batch import Batch
from ...utils import _pytree


class VmapInfo(NamedTuple):
    """Facts about the batch that a rule for ``vmap`` gets. Source: torch._functorch.autograd_function.VmapInfo."""

    batch_size: int
    randomness: str


_slow: set[str] = set()  # names of operations that were called example by example


def transformed(operation: Any, values: list[Any], tensors: list[Any]) -> Any:
    """A call with operands of a transform; NotImplemented where there are none, or where the body's calls are transformed one by one."""
    owner = _levels.highest(tensors)
    if owner is None or (operation._is_composite("CPU") and operation.formula is None and operation.vmap is None):
        return NotImplemented
    with _levels.below(owner):
        if isinstance(owner, Batch):
            return _batched(owner, operation, values)
        return _dual(owner, operation, values)


def _batched(batch: Batch, operation: Any, values: list[Any]) -> Any:
    """The call for all examples: by the operation's rule, or one by one."""
    overload = operation.overload
    args, kwargs = operation.schema.split(values)
    if operation.vmap is None:
        if operation.schema.is_mutable or overload.is_view:
            raise RuntimeError(f"Batching rule not implemented for {overload._name}; the fallback path doesn't work on out= or view ops.")
        if overload._name not in _slow:
            _slow.add(overload._name)
            warnings.warn(
                f"There is a performance drop because we have not yet implemented the batching rule for {overload._name}. "
                "torch.library.register_vmap gives an operation one.",
                UserWarning,
                stacklevel=4,
            )
        return batch.examples(overload._name, lambda *each: operation.run(list(each)), values)

    def dims_of(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
            return type(value)([dims_of(each) for each in value])
        return 0 if batch.has(value) else None

    def inside(value: Any) -> Any:
        return _levels.mapped(value, lambda each: each._inner if batch.has(each) else each)

    info = VmapInfo(batch.size, batch.randomness)
    named = {name: inside(value) for name, value in kwargs.items()}
    result = operation.vmap(info, tuple(map(dims_of, args)), *map(inside, args), **named)
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{overload._name}: expected the vmap rule to return a tuple of the result and its dimensions, got {result!r}")
    return _wrapped(batch, *result)


def _wrapped(batch: Batch, made: Any, dims: Any) -> Any:
    """A rule's result as values of the batch."""
    if isinstance(made, (tuple, list)):
        each_dims = dims if isinstance(dims, (tuple, list)) else [dims] * len(made)
        return type(made)([_wrapped(batch, each, dim) for each, dim in zip(made, each_dims, strict=True)])
    return batch.wrap(made.movedim(dims, 0)) if isinstance(made, Tensor) and dims is not None else made


def _dual(owner: Any, operation: Any, values: list[Any]) -> Any:
    """The call in forward mode: the value, and the tangent by the derivative of the backward formula, which is linear in the gradient.

    Raises:
        NotImplementedError: an operation without a formula.
    """
    from ...func._reverse import vjp

    if operation.formula is None or operation.formula.backward is None:
        raise NotImplementedError(
            f"{operation.overload._name}: forward-mode differentiation needs a derivative, which torch.library.register_autograd gives"
        )
    leaves, structure = _pytree.tree_flatten(values)
    places = [place for place, leaf in enumerate(leaves) if owner.has(leaf) and owner.tangent(leaf) is not None]
    plain = [owner.primal(leaf) if owner.has(leaf) else leaf for leaf in leaves]
    kept: list[Any] = []

    def called(*moving: Any) -> Any:
        """The results that have tangents, and those that do not; what is no tensor stays in ``kept``."""
        given = list(plain)
        for place, value in zip(places, moving, strict=True):
            given[place] = value
        made, _ = kept[:] = _pytree.tree_flatten(operation.run(_pytree.tree_unflatten(given, structure)))
        return tuple([each for each in made if _moves(each)]), [each for each in made if isinstance(each, Tensor) and not _moves(each)]

    if not places:
        return _levels.mapped(operation.run(_pytree.tree_unflatten(plain, structure)), _wrapper(owner))
    results, pull, rest = vjp(called, *[plain[place] for place in places], has_aux=True)
    tangents: Any = ()
    if results:
        _, push = vjp(lambda *seeds: pull(seeds), *[each.new_zeros(each.shape) for each in results])
        tangents = push(tuple([owner.tangent(leaves[place]) for place in places]))
    moving = iter([owner.wrap(each, tangent) for each, tangent in zip(results, tangents, strict=True)])
    still = iter([owner.wrap(each) for each in rest])
    made, structure_of_result = kept
    filled = [next(moving if _moves(each) else still) if isinstance(each, Tensor) else each for each in made]
    return _pytree.tree_unflatten(filled, structure_of_result)


def _moves(value: Any) -> bool:
    """Whether a result has a tangent."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def _wrapper(owner: Any) -> Any:
    return lambda value: owner.wrap(value) if isinstance(value, Tensor) else value
