"""``torch.vmap``: a function of examples as a function of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.random.generator import default_generator
from ..core.state import thread, unwound
from ..core.tensor import Tensor
from ..ops import joining
from ..utils import _pytree as pytree
from ..utils._pytree import (
    _broadcast_to_and_flatten as _broadcast_to_and_flatten,
    tree_flatten as tree_flatten,
    tree_unflatten as tree_unflatten,
)
from ._batch import Batch
from ._levels import Wrapped

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """``func``, which is written for one example, as a function of batches of examples.

    Args:
        func: takes and returns tensors, in tuples, lists and dictionaries as deep as you like. It may call ``vmap``, ``grad`` and the other
            transforms.
        in_dims: which dimension of each argument is the batch; None where an argument is the same for all examples. One number for all
            arguments, or a tuple in their structure. What is passed by keyword is the same for all examples.
        out_dims: where the batch comes in the results; None for a result that is the same for all examples.
        randomness: random numbers inside of ``func`` are an ``"error"``, ``"different"`` for each example, or the ``"same"``.
        chunk_size: how many examples are computed at a time; all when None.
    Returns: a function of batches.
    Raises:
        ValueError: dimensions that do not fit the arguments or results, batches of several sizes, no tensor at all.
        RuntimeError: in ``func``: ``item()``, a tensor in ``if``, results whose shape depends on values, a batch written in place into a
            tensor that has none.
    Source: torch.vmap.
    Example:
        >>> rows = torch.arange(6.0).reshape(2, 3)
        >>> torch.vmap(torch.dot)(rows, rows)
        tensor([ 5., 50.])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
        if chunk_size is None or chunk_size >= size:
            return _over_batch(func, flat, spec, dims, size, out_dims, randomness, kwargs)

        def over_some(given: list[Any], count: int) -> Any:
            return _over_batch(func, given, spec, dims, count, out_dims, randomness, kwargs)

        return _in_chunks(over_some, _get_name(func), flat, dims, size, out_dims, randomness, chunk_size)

    return transformed


def _get_name(func: Any) -> str:
    return getattr(func, "__name__", None) or (f"functools.partial({_get_name(func.func)}, ...)" if hasattr(func, "func") else repr(func))


# -- the steps of one call, under PyTorch's names: packages whose collections of tensors are arguments replace them --------------------
def _process_batched_inputs(in_dims: Any, args: tuple[Any, ...], func: Any) -> tuple[int, list[Any], list[Any], Any]:
    """The batch's size, the arguments' batch dimensions, counted from the front, the arguments one by one, and their structure."""
    name = _get_name(func)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no "
            "inputs. The latter is unsupported."
        )
    flat, spec = _leaves(args)
    dims: Any = None
    if spec is not None:
        dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    elif isinstance(in_dims, int):
        dims = [in_dims] * len(flat)
    elif len(in_dims) == len(flat):
        dims = in_dims
    if dims is None:
        spec = pytree.tree_flatten(args)[1]
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {pytree.tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    start = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim="
    counted: list[int | None] = []
    sizes: list[int] = []
    for each, dim in zip(flat, dims, strict=True):
        if dim is None:
            counted.append(None)
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{start}{dim} for an input but in_dim must be either an integer dimension or None.")
        if not isinstance(each, Tensor):
            raise ValueError(
                f"{start}{dim} for an input but the input is of type {type(each)}. We cannot vmap over non-Tensor arguments, please use "
                "None as the respective in_dim"
            )
        rank = each._array.ndim
        if not -rank <= dim < rank:
            raise ValueError(
                f"{start}{dim} for some input, but that input is a Tensor of dimensionality {rank} so expected in_dim to satisfy "
                f"-{rank} <= in_dim < {rank}."
            )
        counted.append(dim % rank)
        sizes.append(each._array.shape[dim])
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return sizes[0], counted, flat, spec


def _leaves(args: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """Arguments one by one, and their structure; None where each is a tensor."""
    for each in args:
        if each.__class__ is not Tensor and each.__class__ is not Wrapped:
            return pytree.tree_flatten(args)
    return list(args), None


def _create_batched_inputs(dims: list[Any], flat: list[Any], level: int, spec: Any) -> Any:
    """The arguments as ``func`` gets them: what has a batch dimension is a tensor of the level."""
    wrap = thread.levels[level - 1].wrap
    given = [each if dim is None else wrap(each.movedim(dim, 0) if dim else each) for each, dim in zip(flat, dims, strict=True)]
    return given if spec is None else pytree.tree_unflatten(given, spec)


def _unwrap_batched(made: Any, out_dims: Any, batch: Any, size: int, func: Any) -> Any:
    """The results as the caller gets them; ``batch`` is a running one's level, or one that has ended."""
    name = _get_name(func)
    if isinstance(batch, int):
        batch = thread.levels[batch - 1]
    if made.__class__ is Tensor or made.__class__ is Wrapped:
        return _unwrapped(batch, made, _result_dims(None, made, out_dims, name)[0], name)
    results, structure = pytree.tree_flatten(made)
    dims_out = _result_dims(structure, made, out_dims, name)
    found = [_unwrapped(batch, each, dim, name) for each, dim in zip(results, dims_out, strict=True)]
    return pytree.tree_unflatten(found, structure)


_OWN_UNWRAPPING = _unwrap_batched


@unwound
def _over_batch(
    func: Any, flat: list[Any], spec: Any, dims: list[Any], size: int, out_dims: Any, randomness: str, kwargs: dict[str, Any]
) -> Any:
    """One call of ``func`` for all examples."""
    with Batch(size, randomness) as batch:
        made = func(*_create_batched_inputs(dims, flat, batch.level, spec), **kwargs)
        if _unwrap_batched is not _OWN_UNWRAPPING:
            return _unwrap_batched(made, out_dims, batch.level, size, func)
    return _unwrap_batched(made, out_dims, batch, size, func)


def _add_batch_dim(tensor: Any, in_dim: int, level: int) -> Any:
    """``tensor`` as a batch of the ``vmap`` of that level, along one of its dimensions."""
    return thread.levels[level - 1].wrap(tensor.movedim(in_dim, 0) if in_dim else tensor)


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """The batch of that level as a dimension."""
    return thread.levels[level - 1].inside(tensor).movedim(0, out_dim)


def _maybe_remove_batch_dim(name: str, value: Any, level: int, batch_size: int, out_dim: Any) -> Any:
    """A result of the function of that name as the caller gets it."""
    return _unwrapped(thread.levels[level - 1], value, out_dim, name)


def _result_dims(structure: Any, made: Any, out_dims: Any, name: str) -> list[Any]:
    """For each result, where the batch is to come."""
    is_one = out_dims is None or isinstance(out_dims, int)
    if not is_one and not all(each is None or isinstance(each, int) for each in pytree.tree_leaves(out_dims)):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints representing where in "
            "the outputs the vmapped dimension should appear."
        )
    if isinstance(made, Tensor):  # a tuple of one is understood too
        if is_one:
            return [out_dims]
        if isinstance(out_dims, (tuple, list)) and len(out_dims) == 1:
            return [out_dims[0]]
        dims = None
    else:
        dims = pytree._broadcast_to_and_flatten(out_dims, structure)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has "
            f"structure {pytree.tree_flatten(out_dims)[1]} but outputs has structure {pytree.tree_flatten(made)[1]}."
        )
    return dims


def _unwrapped(batch: Batch, value: Any, dim: Any, name: str) -> Any:
    """A result as the caller gets it."""
    if dim is None:
        if batch.has(value):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    if not isinstance(value, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean to set out_dims= to None for "
            "output?"
        )
    inner = batch.inside(value)
    return inner.movedim(0, dim) if dim or inner.__class__ is Wrapped or not batch.has(value) else inner


def _in_chunks(
    over_some: Callable[..., Any], name: str, flat: list[Any], dims: list[Any], size: int, out_dims: Any, randomness: str, chunk_size: int
) -> Any:
    """``over_some`` of some examples at a time, the results joined."""
    state = default_generator.get_state() if randomness == "same" else None
    parts: list[list[Any]] = []
    structure: Any = None
    joined_at: list[Any] = []
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        if state is not None:
            default_generator.set_state(state)
        given = [each if dim is None else each.narrow(dim, start, length) for each, dim in zip(flat, dims, strict=True)]
        made = over_some(given, length)
        results, structure = pytree.tree_flatten(made)
        joined_at = _result_dims(structure, made, out_dims, name)
        parts.append(results)
    columns = zip(*parts, strict=True)
    joined = [column[0] if dim is None else joining.cat(list(column), dim) for column, dim in zip(columns, joined_at, strict=True)]
    return pytree.tree_unflatten(joined, structure)
