"""``torch.func.jvp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import inference_mode
from ..core.state import unwound
from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from ._dual import Dual, check_tangent
from ._reverse import over_batches_of, tensors_of, wrapped_at

_CALL = "jvp(f, primals, tangents)"


@unwound
def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """``func(*primals)``, and the Jacobian of ``func`` there times ``tangents``, in one forward pass.

    Args:
        func: takes tensors, or trees of them (tuples, lists, dictionaries), and returns such a tree.
        primals: a tuple of its arguments, floating point or complex.
        tangents: a tuple like ``primals``, of the same shapes.
        strict: raise where an output does not depend on any input, instead of returning zeros.
        has_aux: ``func`` returns a pair, and its second part is returned as it is.
    Returns:
        ``(output, product)``, two trees of one kind; and the second part with ``has_aux``.
    Raises:
        RuntimeError: arguments that do not go together, outputs that are no tensors, or a missing dependence in strict mode.
        ValueError: integers or bools.
        NotImplementedError: an operation without derivative.
    Example:
        >>> import flambeau as torch
        >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
        (tensor(0.), tensor(2.))

    Source: torch.func.jvp.
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{_CALL}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    given, spec = tree_flatten(primals)
    along, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            f"{_CALL}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 tensors, "
            f"tangents also must be. Got primals with structure {spec} and tangents with structure {other}"
        )
    for name, values in (("primals", given), ("tangents", along)):
        _check_tensors(values, name)
    for primal, tangent in zip(given, along, strict=True):
        check_tangent(primal, tangent)
    with Dual() as dual:
        for primal in given:
            dual.lend(primal)
        duals = [wrapped_at(dual, primal, over_batches_of(primal, _kept(tangent))) for primal, tangent in zip(given, along, strict=True)]
        output = func(*tree_unflatten(duals, spec))
        aux = None
        if has_aux:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError(f"{_CALL}: output of function f should be a tuple: (output, aux) if has_aux is True")
            output, aux = output
        results, shape = tensors_of(output, _CALL)
        for each in results:
            if strict and not dual.has(each):
                raise RuntimeError(
                    "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with "
                    "strict=True."
                )
        values = [dual.primal(each) for each in results]
        slopes = [each._tangent if dual.has(each) else each.detach().new_zeros(each._array.shape) for each in results]
        aux = tree_map(lambda each: _plain_aux(dual, each), aux) if has_aux else None
    pair = (values[0], slopes[0]) if shape is None else (tree_unflatten(values, shape), tree_unflatten(slopes, shape))
    return (*pair, aux) if has_aux else pair


def _check_tensors(values: list[Any], name: str) -> None:
    if not values:
        raise RuntimeError(f"{_CALL}: Expected {name} to contain at least one Tensor.")
    for each in values:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"{_CALL}: Expected {name} to only contain Tensors, got {type(each)}")


def _kept(tangent: Any) -> Any:
    """A tangent that what records inside of the function may keep: none of inference mode."""
    if not tangent.is_inference():
        return tangent
    with inference_mode(False):
        return tangent.clone()


def _plain_aux(dual: Dual, value: Any) -> Any:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"Expected tensors, got unsupported type {type(value)}")
    return dual.primal(value)
