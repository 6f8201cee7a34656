"""Nested tensors of the strided layout: tensors of one number of dimensions and of any sizes, one behind the other in a flat tensor.

Operations are done element by element on the flat tensor, or tensor by tensor.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from ..core.layout import strided
from ..core.protocols.handlers import Handlers
from ..core.protocols.wrapper import WrapperTensor
from ..core.shape import wrap_dim
from ..core.tensor import Tensor
from ..ops import resolve
from ._operations import is_pointwise

handles = Handlers("nested")  # (function, its name, arguments by name)
_NO_SIZES = "Internal error: NestedTensorImpl doesn't support {}. Please file an issue."


class StridedNestedTensor(WrapperTensor):
    """A batch of tensors of different sizes, as ``torch.nested.nested_tensor`` makes them.

    Args:
        buffer: all elements, in one dimension.
        sizes: the shape of each tensor.
    Source: torch.nested, the strided layout, where it is a plain ``torch.Tensor``.
    """

    __slots__ = ()
    _inner: Tensor
    _sizes: tuple[tuple[int, ...], ...]
    layout = strided
    is_nested = True

    def __new__(cls, buffer: Tensor, sizes: Sequence[Sequence[int]]) -> Any:
        made: Any = object.__new__(cls)
        made._inner, made._sizes = buffer, tuple(map(tuple, sizes))
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _wrapping(self, inner: Tensor) -> Any:
        return StridedNestedTensor(inner, self._sizes)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The tensors, as views."""
        if wrap_dim(dim, self.ndim) != 0:
            raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
        parts = self._inner.split_with_sizes([math.prod(size) for size in self._sizes]) if self._sizes else ()
        return tuple(part.view(size) for part, size in zip(parts, self._sizes, strict=True))

    def values(self) -> Tensor:
        """All elements, in one dimension."""
        return self._inner.view(self._inner.shape)

    def _nested_tensor_size(self) -> Tensor:
        return resolve("torch", "tensor")([list(size) for size in self._sizes])

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """One tensor of the largest sizes, with ``padding`` behind the tensors; see ``torch.nested.to_padded_tensor``."""
        if not self._sizes:
            raise RuntimeError("to_padded_tensor: expected at least one tensor")
        sizes = [max(sizes) for sizes in zip(*self._sizes, strict=True)]
        if output_size is not None:
            if len(output_size) != self.ndim:
                raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
            if any(wanted < size for wanted, size in zip(output_size[1:], sizes, strict=True)):
                raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
            sizes = list(output_size[1:])
        pad = resolve("nn.functional", "pad")
        return resolve("torch", "stack")([pad(part, _padding_to(part.shape, sizes), value=padding) for part in self.unbind()])

    # -- what it is -------------------------------------------------------------------------------------------------------
    @property
    def ndim(self) -> int:
        return len(self._sizes[0]) + 1 if self._sizes else 1

    def dim(self) -> int:
        """Number of dimensions, with that of the batch."""
        return self.ndim

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        """The size of a dimension that is the same in all tensors.

        Raises:
            RuntimeError: it is not, or no ``dim``.
        """
        if dim is None:
            raise RuntimeError(_NO_SIZES.format("sizes"))
        wrapped = wrap_dim(dim, self.ndim)
        sizes = {size[wrapped - 1] for size in self._sizes} if wrapped else {len(self._sizes)}
        if len(sizes) != 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return sizes.pop()

    @property
    def shape(self) -> Any:
        raise RuntimeError(_NO_SIZES.format("sizes"))

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def stride(self, dim: int | None = None) -> Any:
        raise RuntimeError(_NO_SIZES.format("strides"))

    def is_same_size(self, other: Any) -> bool:
        return isinstance(other, StridedNestedTensor) and self._sizes == other._sizes

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True: the tensors lie one behind the other."""
        return True

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        history = ", requires_grad=True" if self.requires_grad else ""
        if self.grad_fn is not None:
            history = f", grad_fn=<{self.grad_fn.name()}>"
        parts = [part.detach().requires_grad_(self.requires_grad) for part in self.unbind()]
        text = ",\n".join("\n".join(f"  {line}" for line in repr(part).split("\n")) for part in parts)
        return f"nested_tensor([\n{text}\n]{history})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self._inner.detach(), self._sizes, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", str(func)), kwargs or {}
        handler = handles.named.get(name)
        if handler is _on_buffer:
            return _on_buffer(func, name, args, kwargs)
        if is_pointwise(name) or name in ("relu", "relu_"):
            return _elementwise(func, name, args, kwargs)
        if handler is None:
            raise NotImplementedError(f"{name}: not supported for nested tensors of the strided layout; layout=torch.jagged may do it")
        return handler(func, name, dict(inspect.signature(func).bind(*args, **kwargs).arguments))


def _rebuilt(buffer: Tensor, sizes: Any, requires_grad: bool) -> Any:
    return StridedNestedTensor(buffer, sizes).requires_grad_(requires_grad)


def _padding_to(shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """``pad``'s list of widths, last dimension first."""
    return [width for have, want in zip(reversed(shape), reversed(sizes), strict=True) for width in (0, want - have)]


def packed(tensors: Sequence[Tensor], like: Tensor | None = None) -> Any:
    """A nested tensor of copies of these tensors.

    Raises:
        RuntimeError: tensors of different numbers of dimensions.
    """
    if not tensors:
        return StridedNestedTensor(resolve("torch", "empty")(0) if like is None else like.new_empty(0), ())
    for index, tensor in enumerate(tensors):
        if tensor.dim() != tensors[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. "
                f"Found dimension {tensor.dim()} for Tensor at index {index} and dimension {tensors[0].dim()} for Tensor at index 0."
            )
    buffer = resolve("torch", "cat")([tensor.reshape(-1) for tensor in tensors])
    return StridedNestedTensor(buffer, [tensor.shape for tensor in tensors])


# -- operations -------------------------------------------------------------------------------------------------------------------------
def _elementwise(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    nested = next(value for value in (*args, *kwargs.values()) if isinstance(value, StridedNestedTensor))

    def inner(value: Any) -> Any:
        if not isinstance(value, Tensor) or not getattr(value, "ndim", 1):
            return value
        if not isinstance(value, StridedNestedTensor):
            raise RuntimeError("Expected both self and other to be nested, but got a nested self and non-nested other")
        if value._sizes != nested._sizes:
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
        return value._inner

    result = func(*map(inner, args), **{key: inner(value) for key, value in kwargs.items()})
    return nested if result is nested._inner else nested._wrapping(result)


def _each(func: Any, name: str, given: dict[str, Any]) -> Any:
    """The operation on one tensor of the batch after the other, on those of all nested tensors together."""
    lists = {key: value.unbind() for key, value in given.items() if isinstance(value, StridedNestedTensor)}
    count = {len(parts) for parts in lists.values()}
    if len(count) != 1:
        raise RuntimeError(f"{name}: expected nested tensors of the same number of tensors, got {sorted(count)}")
    rest = {key: value for key, value in given.items() if key not in lists}
    results = [func(**rest, **{key: parts[i] for key, parts in lists.items()}) for i in range(count.pop())]
    if results and isinstance(results[0], (tuple, list)):
        return tuple(map(packed, zip(*results, strict=True)))
    return packed(results, like=next(iter(given.values()))._inner)


def _of_dims(func: Any, name: str, given: dict[str, Any]) -> Any:
    """Operations along dimensions other than the batch's, which the tensors count without it."""
    nested = given["input"] if "input" in given else given["tensor"]
    for key in ("dim", "dim0", "dim1", "start_dim", "end_dim"):
        if isinstance(given.get(key), int):
            wrapped = wrap_dim(given[key], nested.ndim + (name == "unsqueeze"))
            if wrapped == 0:
                raise RuntimeError(f"{name}(): not supported for nested tensors along dimension 0")
            given[key] = wrapped - 1
    return _each(func, name, given)


@handles("squeeze")
def _squeeze(func: Any, name: str, given: dict[str, Any]) -> Any:
    """A dimension that has one element in every tensor taken out."""
    nested, dim = given["input"], given.get("dim")
    if not isinstance(dim, int):
        raise RuntimeError("squeeze(): a nested tensor needs one dimension, given as dim")
    place = wrap_dim(dim, nested.ndim) - 1
    ragged = place >= 0 and any(size[place] != 1 for size in nested._sizes)
    return nested if ragged else _of_dims(func, name, given)


@handles("bmm")
def _bmm(func: Any, name: str, given: dict[str, Any]) -> Any:
    if any(value.ndim != 3 for value in given.values()):
        raise RuntimeError("bmm: expected two nested tensors of matrices")
    return _each(resolve("torch", "matmul"), name, dict(zip(("input", "other"), given.values(), strict=True)))


def _softmax(func: Any, name: str, given: dict[str, Any]) -> Any:
    given.pop("_stacklevel", None)
    return _of_dims(func, name, given)


@handles("sum")
def _sum(func: Any, name: str, given: dict[str, Any]) -> Any:
    nested, dim = given["input"], given.get("dim")
    dims: list[Any] = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    if dims == [None]:
        raise NotImplementedError("sum: of all elements is not supported for nested tensors of the strided layout; sum values()")
    if len(dims) != 1 or wrap_dim(dims[0], nested.ndim) != nested.ndim - 1:
        raise RuntimeError(f"NestedTensor can only be reduced across the last dimension for now got dimension {dims[0]} instead.")
    if not given.get("keepdim"):
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return _each(func, name, {**given, "dim": -1})


def _reshape(func: Any, name: str, given: dict[str, Any]) -> Any:
    nested, shape = given["input"], given["shape"]
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)
    if not shape or shape[0] not in (len(nested._sizes), -1):
        raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit batch dimension")
    parts = []
    for part in nested.unbind():
        sizes = [part.shape[i] if size == -1 and i < part.dim() else size for i, size in enumerate(shape[1:])]
        parts.append(part.reshape(sizes))
    return packed(parts)


@handles("Tensor.__getitem__")
def _item(func: Any, name: str, given: dict[str, Any]) -> Any:
    nested, key = given.values()
    first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
    if not isinstance(first, int):
        raise NotImplementedError("__getitem__: a nested tensor of the strided layout takes an integer first")
    part = nested.unbind()[first]
    return part[rest] if rest else part


@handles("select")
def _select(func: Any, name: str, given: dict[str, Any]) -> Any:
    nested = given["input"]
    return nested.unbind()[given["index"]] if wrap_dim(given["dim"], nested.ndim) == 0 else _of_dims(func, name, given)


@handles("narrow")
def _narrow(func: Any, name: str, given: dict[str, Any]) -> Any:
    nested = given["input"]
    placed: tuple[Any, ...] = given.get("args", ())
    dim, start, length = [*placed, *[given[key] for key in ("dim", "start", "length") if key in given]]
    if wrap_dim(dim, nested.ndim) != 0:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
    return packed(nested.unbind()[start : start + length], like=nested._inner)


@handles("embedding")
def _embedding(func: Any, name: str, given: dict[str, Any]) -> Any:
    nested = next(value for value in given.values() if isinstance(value, StridedNestedTensor))
    results = func(**{key: value._inner if value is nested else value for key, value in given.items()})
    return StridedNestedTensor(results.reshape(-1), [(*size, results.shape[-1]) for size in nested._sizes])


@handles("unbind")
def _unbind(func: Any, name: str, given: dict[str, Any]) -> Any:
    return given["input"].unbind(given.get("dim", 0))


def _on_buffer(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Copies, constants and conversions, which are of all elements alike."""
    result = func(args[0]._inner, *args[1:], **{key: value for key, value in kwargs.items() if key != "memory_format"})
    return args[0] if result is args[0]._inner else args[0]._wrapping(result)


handles("clone", "detach", "Tensor.contiguous", "Tensor.to", "Tensor.type", "Tensor.cpu", "Tensor.cuda", "_to_copy")(_on_buffer)
handles("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "dropout", "fill_", "zero_")(_on_buffer)
handles("isnan", "isinf", "isfinite")(_on_buffer)
handles("nn.functional.linear", "matmul", "layer_norm", "nn.functional.scaled_dot_product_attention")(_each)
handles("transpose", "unsqueeze", "chunk", "split", "split_with_sizes", "unflatten", "flatten")(_of_dims)
handles("softmax", "log_softmax")(_softmax)
handles("Tensor.view", "reshape", "_view")(_reshape)
