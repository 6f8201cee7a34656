"""The ``*_copy`` forms of the operations that return views: the same elements in memory of their own, row by row.

Each is made from the view's own function, whose signature it takes over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.out import LISTED
from ..core.calls.registry import Declared, composite, documented, resolve
from ..core.layout import contiguous_format
from ..core.shape import wrap_dim
from ..core.state import grad_enabled
from .parts import diagonal, narrow, select, split, split_with_sizes, unbind, unfold
from .sorting import without_derivative
from .views import expand_to, permute, reshape, squeeze, t, transpose, unsqueeze, view_as_complex, view_as_real, view_method


def _copied(view: Any) -> Any:
    return view.clone() if view._array.ndim == 1 else view.clone(memory_format=contiguous_format)


def _declare(name: str, view: Any, call: str, printed: str, error: str, method: str = "") -> Callable[..., Any]:
    """Declare ``name``, the copy of what ``view`` returns.

    Args:
        call, printed: its example: the arguments, and what comes out.
        error: what it raises.
        method: the function or method that returns the view, where that is not ``name`` without its end.
    """
    signature = inspect.signature(getattr(view, "kernel", view))
    is_declared = isinstance(view, Declared)
    several = name in ("split_copy", "split_with_sizes_copy", "unbind_copy")

    @documented(
        name=name,
        call=call,
        printed=printed,
        error=error,
        view=method or f"torch.{name.removesuffix('_copy')}",
        parameters=", ".join(signature.parameters),
        what="views in a tuple, with their shapes" if several else "shape",
    )
    def copy(*args: Any, **kwargs: Any) -> Any:
        """Copy of what ``{view}`` returns, in memory of its own.

        Args:
            {parameters}: as for ``{view}``.
        Returns:
            The {what} and dtype, row-major; never a view.
        Raises:
            {error}
        Source: torch.{name}.
        Example:
            >>> torch.{name}{call}
            {printed}
        """
        result = (view.wrapper if is_declared else view)(*args, **kwargs)
        return tuple(map(_copied, result)) if several else _copied(result)

    copy.__signature__, copy.__name__, copy.__module__ = signature, name, __name__  # type: ignore[attr-defined]
    return composite(name=name, method=False, out=LISTED if several else True)(copy)


def _alias(input: Tensor) -> Tensor:
    return input


def _strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    strided: Tensor = resolve("torch", "as_strided")(input, size, stride, storage_offset)  # the public one, which modes see
    return strided


def _detached(input: Tensor) -> Tensor:
    copy = input.detach().clone()
    return without_derivative(copy, input, "aten::detach_copy") if input.requires_grad else copy


def _as_complex(input: Tensor) -> Tensor:
    if input.requires_grad and grad_enabled():
        raise RuntimeError("view_as_complex_copy does not support automatic differentiation for outputs with complex dtype.")
    return view_as_complex(input)


def _viewed(input: Tensor, size: Any = None, *, dtype: Any = None) -> Tensor:
    if dtype is None and size is None:
        raise TypeError("view_copy(): expected a size or a dtype, got none")
    return reshape(input, size) if dtype is None and not isinstance(size, dtypes.dtype) else view_method(input, dtype or size)


def part(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    if not input.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, input.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return input[(slice(None),) * dim + (slice(start, end, step),)]


def _split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    return split(input, split_size, dim)


def _expanded(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    return expand_to(input, size, implicit)


_SHAPES = "RuntimeError: a shape or strides that do not fit."
_DIMS = "IndexError: a dimension out of range."
_NOTHING = "TypeError: no tensor."

alias_copy = _declare("alias_copy", _alias, "(torch.tensor([1, 2]))", "tensor([1, 2])", _NOTHING, "Tensor.view_as")
detach_copy = _declare("detach_copy", _detached, "(torch.tensor([1, 2]))", "tensor([1, 2])", _NOTHING, "Tensor.detach")
as_strided_copy = _declare(
    "as_strided_copy", _strided, "(torch.arange(4), (2, 2), (1, 1))", "tensor([[0, 1], [1, 2]])", _SHAPES, "torch.as_strided"
)
diagonal_copy = _declare("diagonal_copy", diagonal, "(torch.tensor([[1, 2], [3, 4]]))", "tensor([1, 4])", _DIMS)
expand_copy = _declare("expand_copy", _expanded, "(torch.tensor([1, 2]), (2, 2))", "tensor([[1, 2], [1, 2]])", _SHAPES, "Tensor.expand")
permute_copy = _declare(
    "permute_copy", permute, "(torch.zeros(2, 3, 5), (2, 0, 1)).stride()", "(6, 3, 1)", "RuntimeError: ``dims`` is no permutation."
)
select_copy = _declare("select_copy", select, "(torch.tensor([[1, 2], [3, 4]]), 1, 0)", "tensor([1, 3])", _DIMS)
slice_copy = _declare(
    "slice_copy",
    part,
    "(torch.arange(6), 0, 1, 6, 2)",
    "tensor([1, 3, 5])",
    _DIMS + "\n    RuntimeError: a ``step`` of 0 or less.",
    "Tensor.__getitem__",
)
split_copy = _declare("split_copy", _split, "(torch.arange(3), 2)", "(tensor([0, 1]), tensor([2]))", "RuntimeError: a negative size.")
split_with_sizes_copy = _declare(
    "split_with_sizes_copy",
    split_with_sizes,
    "(torch.arange(3), [1, 2])",
    "(tensor([0]), tensor([1, 2]))",
    "RuntimeError: sizes that do not add up.",
)
squeeze_copy = _declare("squeeze_copy", squeeze, "(torch.zeros(1, 3)).shape", "torch.Size([3])", _DIMS)
t_copy = _declare("t_copy", t, "(torch.tensor([[1, 2]]))", "tensor([[1], [2]])", "RuntimeError: more than two dimensions.")
transpose_copy = _declare("transpose_copy", transpose, "(torch.zeros(2, 3), 0, 1).stride()", "(2, 1)", _DIMS)
unbind_copy = _declare("unbind_copy", unbind, "(torch.tensor([[1, 2], [3, 4]]))", "(tensor([1, 2]), tensor([3, 4]))", _DIMS)
unfold_copy = _declare(
    "unfold_copy",
    unfold,
    "(torch.arange(4), 0, 3, 1)",
    "tensor([[0, 1, 2], [1, 2, 3]])",
    "RuntimeError: windows that do not fit.",
    "Tensor.unfold",
)
unsqueeze_copy = _declare("unsqueeze_copy", unsqueeze, "(torch.tensor([1, 2]), 1)", "tensor([[1], [2]])", _DIMS)
view_as_complex_copy = _declare(
    "view_as_complex_copy",
    _as_complex,
    "(torch.tensor([[1.0, 2.0]]))",
    "tensor([1.+2.j])",
    "RuntimeError: another last size than 2, or a tensor that requires a gradient.",
    "torch.view_as_complex",
)
view_as_real_copy = _declare(
    "view_as_real_copy", view_as_real, "(torch.tensor([1 + 2j]))", "tensor([[1., 2.]])", "RuntimeError: a real tensor."
)
view_copy = _declare("view_copy", _viewed, "(torch.arange(4), (2, 2))", "tensor([[0, 1], [2, 3]])", _SHAPES, "Tensor.view")


# -- parts that are views, but each of its own ------------------------------------------------------------------------------------------
def _unsafe(input: Any, sizes: Sequence[int], dim: int) -> tuple[Any, ...]:
    parts, start = [], 0
    for size in sizes:
        parts.append(narrow(input, dim, start, size))
        start += size
    return tuple(parts)


@composite(moves=True)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> Any:
    """``split`` whose parts may be written to in place while a gradient is recorded, since each is a view by itself.

    Args:
        input: at least one dimension.
        split_size: size of each part; the last may be smaller.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: a negative size, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.unsafe_split.
    Example:
        >>> torch.unsafe_split(torch.arange(5), 3)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _unsafe(input, [part.shape[dim] for part in split(input.detach(), split_size, dim)], dim)


@composite()
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """``split_with_sizes`` whose parts may be written to in place while a gradient is recorded.

    Args:
        input: at least one dimension.
        split_sizes: sizes that add up to the dimension's.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: sizes that do not add up, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.unsafe_split_with_sizes.
    Example:
        >>> torch.unsafe_split_with_sizes(torch.arange(5), [1, 4])
        (tensor([0]), tensor([1, 2, 3, 4]))
    """
    return _unsafe(input, [part.shape[dim] for part in split_with_sizes(input.detach(), split_sizes, dim)], dim)


@composite(moves=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """``chunk`` whose parts may be written to in place while a gradient is recorded.

    Args:
        input: at least one dimension.
        chunks: at most how many parts.
        dim: the dimension.
    Returns:
        A tuple of views.
    Raises:
        RuntimeError: ``chunks`` not positive, or a 0-d tensor.
        IndexError: ``dim`` out of range.
    Source: torch.unsafe_chunk.
    Example:
        >>> torch.unsafe_chunk(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _unsafe(input, [part.shape[dim] for part in input.detach().chunk(chunks, dim)], dim)
