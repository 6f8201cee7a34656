"""Reverse mode inside of transforms: fresh variables on the one tape, and gradients level by level.

``grad`` needs no interpreter: a fresh alias of an argument is its level. Over a ``Batch`` the gradient of the sum over the batch is
every example's gradient, provided that the argument is spread over the batch first; over a ``Dual`` there are the gradient of the value
and the gradient of the tangent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.engine import run_backward
from ..autograd.grad_mode import enable_grad
from ..core.state import thread
from ..core.tensor import Tensor
from ._batch import Batch
from ._dual import Dual
from ._levels import Wrapped, highest, mapped, needs_grad


def alias(tensor: Any) -> Any:
    """``tensor`` as a new variable, still connected to whatever it was computed from, at all levels."""
    if tensor.__class__ is Wrapped:
        return tensor._owner.wrap(alias(tensor._inner), tensor._tangent)
    made = tensor.view_as(tensor)
    if not made.requires_grad:
        made = made.detach().requires_grad_()
    return made


def zeros_of(tensor: Any) -> Any:
    """Zeros at all levels of batching, so that each example has its own."""
    if tensor.__class__ is not Wrapped:
        return tensor.new_zeros(tensor._array.shape)
    return tensor._owner.wrap(zeros_of(tensor._inner), None)  # a Dual without a tangent is the value itself


def spread(tensor: Any, below: int = 1 << 30) -> Any:
    """``tensor`` over all batches that are running, so that every example has a gradient of its own; each at its level."""
    own = 0
    if tensor.__class__ is Wrapped:
        own = tensor._owner.level
        tensor = tensor._owner.wrap(spread(tensor._inner, own), tensor._tangent)
    for each in thread.levels:
        if each.__class__ is Batch and own < each.level < below:
            tensor = each.wrap(each.inside(tensor))
    return tensor


def gradients(outs: Any, inputs: Any, seeds: Any, record: bool) -> list[Any]:
    """Gradients of ``outs`` at ``inputs``; each level of wrapping is taken off, and put around the result again."""
    owner = highest([*outs, *inputs])
    if owner is None:
        used = [(o, s) for o, s in zip(outs, seeds, strict=True) if o.requires_grad]
        if not used:
            return [None] * len(inputs)
        return run_backward([o for o, _ in used], [s for _, s in used], True, record, inputs, accumulates=False)
    if owner.__class__ is Batch:
        inner = [owner.inside(each) for each in outs]
        plain = [each._inner if owner.has(each) else each for each in inputs]
        found = gradients(inner, plain, [inside_at(owner, each) for each in seeds], record)
        return [None if g is None else wrapped_at(owner, g) if owner.has(x) else g for g, x in zip(found, inputs, strict=True)]
    values = [owner.primal(each) for each in outs]
    plain = [owner.primal(each) for each in inputs]
    primals, tangents = [primal_at(owner, each) for each in seeds], [tangent_at(owner, each) for each in seeds]
    found = gradients(values, plain, primals, record)
    pairs = [(t, s) for o, s in zip(outs, primals, strict=True) if (t := owner.tangent(o)) is not None and needs_grad(t)]
    pairs += [(v, s) for v, s in zip(values, tangents, strict=True) if s is not None]
    second = gradients([t for t, _ in pairs], plain, [s for _, s in pairs], record) if pairs else [None] * len(inputs)
    return [g if g is None or t is None else wrapped_at(owner, g, t) for g, t in zip(found, second, strict=True)]


def inside_at(owner: Any, value: Any) -> Any:
    """``owner.inside(value)``, also where wrappings of higher levels are around: they stay."""
    above = value._owner if value.__class__ is Wrapped else None
    if above is None or above.level <= owner.level:
        return owner.inside(value)
    if above.__class__ is Batch:
        return above.wrap(inside_at(owner, value._inner).movedim(0, 1))
    return above.wrap(inside_at(owner, value._inner), inside_at(owner, value._tangent))


def primal_at(owner: Any, value: Any) -> Any:
    """``owner.primal(value)``, wrappings of higher levels staying around."""
    if value.__class__ is not Wrapped or value._owner.level <= owner.level:
        return owner.primal(value)
    return value._owner.rewrapped(value, lambda each: primal_at(owner, each))


def tangent_at(owner: Any, value: Any) -> Any:
    """``owner.tangent(value)``, wrappings of higher levels staying around; None where there is none."""
    if value.__class__ is not Wrapped or value._owner.level <= owner.level:
        return owner.tangent(value)
    found = tangent_at(owner, value._inner)
    if value._tangent is None:
        return None if found is None else value._owner.wrap(found)
    second = tangent_at(owner, value._tangent)
    if found is None and second is None:
        return None
    filled = [each.new_zeros(each._array.shape) if t is None else t for t, each in ((found, value._inner), (second, value._tangent))]
    return value._owner.wrap(*filled)


def wrapped_at(owner: Any, inner: Any, tangent: Any = None) -> Any:
    """``inner`` wrapped by ``owner``, below the wrappings of higher levels that it has already (cotangents can be of a later vmap)."""
    above = highest([inner, tangent])
    if above is None or above.level < owner.level:
        return owner.wrap(inner, tangent)
    if above.__class__ is Batch:
        parts: list[Any] = [None if each is None else above.inside(each) for each in (inner, tangent)]
        if owner.__class__ is Batch:
            parts[0] = parts[0].movedim(1, 0)
        return above.wrap(wrapped_at(owner, *parts))
    return above.wrap(wrapped_at(owner, above.primal(inner)), wrapped_at(owner, above.tangent(inner)))


def vjp(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[..., Any]]:
    record = any(needs_grad(each) for each in args)
    with enable_grad():
        fresh = [alias(spread(each)) for each in args]
        made = function(*fresh)
    outs = list(made) if isinstance(made, (tuple, list)) else [made]

    def back(*cotangents: Any) -> tuple[Any, ...]:
        seeds = list(cotangents[0]) if isinstance(made, (tuple, list)) and isinstance(cotangents[0], (tuple, list)) else list(cotangents)
        found = gradients(outs, fresh, seeds, record or any(needs_grad(each) for each in seeds))
        return tuple([x.new_zeros(x._array.shape) if g is None else g for g, x in zip(found, fresh, strict=True)])

    return made if record else mapped(made, lambda each: each.detach()), back


def grad_and_value(function: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The graph of the gradient is kept only where an argument is somebody's variable."""

    def call(*args: Any, **kwargs: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        outer = [each for each in args if isinstance(each, Tensor) and needs_grad(each)]
        with enable_grad():
            fresh = {i: alias(spread(args[i])) for i in numbers}
            made = function(*[fresh.get(i, each) for i, each in enumerate(args)], **kwargs)
        value, aux = made if has_aux else (made, None)
        if value._array.ndim:
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with {value._array.ndim} dims."
            )
        record = bool(outer)
        found = gradients([value], list(fresh.values()), [value.detach().new_ones(())], record=record)
        found = [x.new_zeros(x._array.shape) if g is None else g for g, x in zip(found, fresh.values(), strict=True)]
        if not record:
            value = value.detach()
        result = found[0] if isinstance(argnums, int) else tuple(found)
        return (result, (value, aux)) if has_aux else (result, value)

    return call


def grad(function: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    both = grad_and_value(function, argnums, has_aux)

    def call(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return call


def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    with Dual() as dual:
        made = function(*[dual.wrap(p, t) for p, t in zip(primals, tangents, strict=True)])

    def tangent_of(each: Any) -> Any:
        return dual.tangent(each) if dual.has(each) else each.new_zeros(each._array.shape)

    return mapped(made, dual.primal), mapped(made, tangent_of)
