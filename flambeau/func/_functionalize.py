"""``functionalize`` and ``debug_unwrap``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..utils._pytree import tree_leaves, tree_map
from ._levels import Wrapped, core_of


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that gives what ``func`` gives, and does to its arguments what ``func`` does, without sharing intermediate memory with
    others.

    PyTorch runs ``func`` on copies and writes to the arguments at the end, for tracers that know no mutation. Tensors are written in place
    here, views and all, which gives the same values and gradients; what a dispatch mode sees are the calls that ``func`` makes.

    Args:
        remove: "mutations"; or "mutations_and_views", where what is returned is never a view of something else.
    Returns: a function with the arguments of ``func``.
    Raises:
        RuntimeError: another ``remove``.
    Source: torch.func.functionalize.
    Example:
        >>> torch.func.functionalize(lambda x: x.clone().mul_(2).view(4))(torch.ones(2, 2))
        tensor([2., 2., 2., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n     "
            "remove='mutations': all inplace and out= operators will be removed from the program, and replaced with their out-of-place "
            "equivalents.\n     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be replaced "
            "with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        if remove == "mutations":
            return made
        given = {id(each) for each in tree_leaves((args, kwargs))}
        return tree_map(lambda each: each.clone() if _is_view(each) and id(each) not in given else each, made)

    return wrapper


def _is_view(value: Any) -> bool:
    value = core_of(value)
    return isinstance(value, Tensor) and value._view_of is not None


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Value that a tensor inside of transforms computes with: with the dimensions of ``vmap``, and without tangents. For debugging only.

    A variable of ``grad`` is a plain tensor already.

    Args:
        tensor: of any shape, seen inside of a transform.
        recurse: through all levels, or one.
    Returns: the tensor inside; ``tensor`` itself outside of transforms.
    Raises:
        TypeError: no tensor.
    Source: torch.func.debug_unwrap.
    Example:
        >>> _ = torch.vmap(lambda row: print(torch.func.debug_unwrap(row).shape) or row)(torch.ones(2, 3))
        torch.Size([2, 3])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"debug_unwrap(): expected a Tensor, got {type(tensor).__name__}")
    if tensor.__class__ is not Wrapped:
        return tensor
    inner = tensor._inner
    return debug_unwrap(inner) if recurse else inner
