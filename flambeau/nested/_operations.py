"""Operations on nested tensors of the jagged layout: most are the same operation on the values, with dimensions counted from there."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any, NoReturn

from ..core import dtype as dtypes
from ..core.calls.registry import declared_as
from ..core.protocols.handlers import Handlers
from ..core.shape import wrap_dim
from ..core.tensor import Tensor
from ..ops import resolve
from ._jagged import NestedTensor, from_padded, padded
from ._sizes import NestedInt

_WRITING = frozenset(("fill_", "zero_", "uniform_", "normal_", "bernoulli_"))
jagged = Handlers("jagged")  # (function, its name, arguments as it has them)
_MISMATCH = "cannot call binary pointwise function {} with inputs of shapes {} and {}"


def apply(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer a call of ``func`` with a nested tensor among its arguments.

    Raises:
        NotImplementedError: the operation is not supported. RuntimeError, ValueError: it is, but not with these arguments.
    """
    name = getattr(func, "__name__", str(func))
    handler = jagged.named.get(name)
    if handler is not None:
        return handler(func, name, **_signature(func).bind(*args, **kwargs).arguments)
    if name in _WRITING or is_pointwise(name):
        return _elementwise(func, name, args, kwargs)
    raise NotImplementedError(f"{name}: not supported for nested tensors of the jagged layout")


@functools.cache
def _signature(func: Any) -> inspect.Signature:
    return inspect.signature(func)


def is_pointwise(name: str) -> bool:
    """Whether an operation works on corresponding elements, by its declaration."""
    declared = declared_as(name)
    return declared is not None and declared.pointwise


def _refuse(name: str, reason: str) -> NoReturn:
    raise RuntimeError(f"{name}(): {reason}")


# -- dimensions -------------------------------------------------------------------------------------------------------------------------
def _inner_dim(nested: NestedTensor, dim: int, name: str, ndim: int | None = None, ragged: bool = False) -> int:
    """The values' dimension for one of the nested tensor's, neither that of the batch nor, unless allowed, the ragged one.

    Raises:
        RuntimeError: these. IndexError: out of range.
    """
    wrapped = wrap_dim(dim, nested.ndim if ndim is None else ndim)
    if wrapped == nested._ragged_idx and not ragged:
        _refuse(name, "not supported for NestedTensor on ragged dim")
    if wrapped == 0:
        _refuse(name, "not supported for NestedTensor on dim=0")
    return wrapped - 1


def _same_lengths(one: NestedTensor, other: NestedTensor) -> bool:
    end = one._ragged_idx + 1
    return one._ragged_idx == other._ragged_idx and one._size[:end] == other._size[:end]


def _with_ragged(nested: NestedTensor, values: Tensor, ragged_idx: int) -> Any:
    return NestedTensor(values, nested._offsets, lengths=nested._lengths, _ragged_idx=ragged_idx)


# -- element by element -----------------------------------------------------------------------------------------------------------------
def _elementwise(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    nested = next(value for value in tensors if isinstance(value, NestedTensor))

    def inner(value: Any) -> Any:
        return value if not isinstance(value, Tensor) else _values_beside(nested, value, name)

    result = func(*map(inner, args), **{key: inner(value) for key, value in kwargs.items()})
    if isinstance(result, tuple):
        return type(result)(map(nested._wrapping, result))
    return nested if result is nested._inner else nested._wrapping(result)


def _values_beside(nested: NestedTensor, other: Tensor, name: str) -> Tensor:
    """Values of another operand that align with ``nested``'s values.

    Raises:
        RuntimeError: sequences of other lengths, or shapes that do not broadcast. NotImplementedError: an operand of more dimensions.
    """
    if isinstance(other, NestedTensor):
        if not _same_lengths(nested, other):
            raise RuntimeError(_MISMATCH.format(name, nested._size, other._size))
        return other._inner
    if other.dim() > nested.dim():
        raise NotImplementedError(f"{name}: broadcasting a nested tensor with a strided tensor of more dimensions is not supported")
    squeezed = other
    while squeezed.dim() and squeezed.shape[0] == 1:
        squeezed = squeezed.squeeze(0)
    if squeezed.dim() + nested._ragged_idx < nested.dim():
        return squeezed
    if other.dim() != nested.dim() or other.shape[0] != len(nested):
        raise RuntimeError(_MISMATCH.format(name, nested.shape, other.shape))
    ragged = nested._ragged_idx
    if other.shape[ragged] == 1:
        sizes = [-1] * other.dim()
        sizes[ragged] = nested._max_seqlen
        other = other.expand(sizes)
    elif other.shape[ragged] < nested._max_seqlen:
        raise RuntimeError(_MISMATCH.format(name, nested.shape, other.shape))
    return from_padded(other, nested)._inner


@jagged("where", "_where", "masked_fill")
def _choosing(func: Any, name: str, **given: Any) -> Any:
    return _elementwise(func, name, tuple(given.values()), {})


# -- shapes -----------------------------------------------------------------------------------------------------------------------------
@jagged("unbind")
def _unbind(func: Any, name: str, input: Any, dim: int = 0) -> Any:
    if wrap_dim(dim, input.ndim) != 0:
        _refuse("unbind", "only supported for NestedTensor on dim=0")
    starts, lengths = input._bounds()
    place, values = input._ragged_idx - 1, input._inner
    if len(lengths) and starts[-1] + lengths[-1] > values.shape[place]:
        _refuse("unbind", "nested tensor offsets and lengths do not match ragged_idx dimension")
    if input._lengths is None and len(lengths) and starts[0] == 0 and lengths.sum() == values.shape[place]:
        return values.split_with_sizes(lengths.tolist(), place)
    return tuple(values.narrow(place, int(start), int(length)) for start, length in zip(starts, lengths, strict=True))


@jagged("transpose")
def _transpose(func: Any, name: str, input: Any, dim0: int, dim1: int) -> Any:
    dims = [wrap_dim(dim, input.ndim) for dim in (dim0, dim1)]
    ragged = input._ragged_idx
    if ragged in dims:
        if 0 in dims:
            raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
        ragged = dims[1] if dims[0] == ragged else dims[0]
    return _with_ragged(input, func(input._inner, *[_inner_dim(input, dim, "transpose", ragged=True) for dim in dims]), ragged)


@jagged("permute")
def _permute(func: Any, name: str, input: Any, dims: Any = None, order: Any = None) -> Any:
    dims = dims or order
    if len(dims) == 1 and isinstance(dims[0], (tuple, list)):
        dims = dims[0]
    if len(dims) != input.ndim:
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({input.ndim}) does not match the length of the desired ordering of "
            f"dimensions ({len(dims)})."
        )
    dims = [wrap_dim(dim, input.ndim) for dim in dims]
    if len(set(dims)) != len(dims):
        raise ValueError("permute(): duplicate dims are not allowed.")
    if input._lengths is not None:
        raise ValueError("permute(): not supported on jagged layout nested tensor with holes")
    if dims[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return _with_ragged(input, input._inner.permute([dim - 1 for dim in dims[1:]]), dims.index(input._ragged_idx))


@jagged("Tensor.view", "reshape", "_view")
def _view(func: Any, name: str, input: Any, shape: Any = None, size: Any = None, dtype: Any = None) -> Any:
    shape = size if shape is None else shape
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], dtypes.dtype)):
        raise NotImplementedError("view: reading a nested tensor as another dtype is not supported")
    size, end = input._size, input._ragged_idx + 1
    if input._ragged_idx != 1 and tuple(shape) != size:
        _refuse("view", f"does not support ragged_idx != 1 except when inp._size == size. inp._size is ({size}) and size is ({shape}).")
    if len(shape) < 3 or any(new != old and new != -1 for new, old in zip(shape[:end], size[:end], strict=False)):
        _refuse("view", f"cannot view shape {size} as {list(shape)}")
    inner = [input._inner.shape[input._ragged_idx - 1] if dim == input._ragged_idx else shape[dim] for dim in range(1, len(shape))]
    return input._wrapping(input._inner.reshape(inner) if name == "reshape" else input._inner.view(inner))


@jagged("unflatten")
def _unflatten(func: Any, name: str, input: Any, dim: int, sizes: Any) -> Any:
    return input._wrapping(input._inner.unflatten(_inner_dim(input, dim, name), sizes))


@jagged("flatten")
def _flatten(func: Any, name: str, input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    start, end = (_inner_dim(input, dim, name) for dim in (start_dim, end_dim))
    if start < input._ragged_idx - 1 < end:
        _refuse("flatten", "not supported for NestedTensor on ragged dim")
    return input if start == end else _moved(input, input._inner.flatten(start, end), start, end - start)


def _moved(nested: NestedTensor, values: Tensor, at: int, fewer: int) -> Any:
    """A nested tensor of ``values`` that have ``fewer`` dimensions than before at ``at``."""
    return _with_ragged(nested, values, nested._ragged_idx - (fewer if at < nested._ragged_idx - 1 else 0))


@jagged("unsqueeze")
def _unsqueeze(func: Any, name: str, input: Any, dim: int) -> Any:
    dim = _inner_dim(input, dim, name, input.ndim + 1, ragged=True)
    return _with_ragged(input, input._inner.unsqueeze(dim), input._ragged_idx + (dim <= input._ragged_idx - 1))


@jagged("squeeze")
def _squeeze(func: Any, name: str, input: Any, dim: Any = None) -> Any:
    if not isinstance(dim, int):
        raise NotImplementedError("squeeze: a nested tensor needs one dimension, given as dim")
    dim = _inner_dim(input, dim, name)
    return _moved(input, input._inner.squeeze(dim), dim, int(input._inner.shape[dim] == 1))


@jagged("Tensor.expand")
def _expand(func: Any, name: str, input: Any, size: Any) -> Any:
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    end = input._ragged_idx + 1
    if len(size) != input.ndim or any(new != old and new != -1 for new, old in zip(size[:end], input._size[:end], strict=True)):
        _refuse("expand", f"cannot expand shape {input._size} -> {list(size)}")
    return input._wrapping(input._inner.expand([-1 if isinstance(part, NestedInt) else part for part in size[1:]]))


@jagged("split", "split_with_sizes", "chunk")
def _along_dim(func: Any, name: str, input: Any = None, tensor: Any = None, dim: int = 0, **given: Any) -> Any:
    """Parts along a dimension that is neither the batch's nor ragged."""
    nested = tensor if input is None else input
    if name == "chunk" and wrap_dim(dim, nested.ndim) == 0:
        return _chunk_batch(nested, given["chunks"])
    result = func(nested._inner, *given.values(), dim=_inner_dim(nested, dim, name))
    return tuple(map(nested._wrapping, result)) if isinstance(result, (tuple, list)) else nested._wrapping(result)


def _chunk_batch(nested: NestedTensor, chunks: int) -> Any:
    if nested._lengths is not None:
        raise NotImplementedError("chunk: nested tensors with holes cannot be cut along the batch")
    lengths = nested._offsets.diff()
    parts = lengths.chunk(chunks)
    values = nested._inner.split([int(part.sum()) for part in parts], nested._ragged_idx - 1)
    return tuple(NestedTensor(part, _offsets_of(own), _ragged_idx=nested._ragged_idx) for part, own in zip(values, parts, strict=True))


def _offsets_of(lengths: Tensor) -> Tensor:
    """Beginnings of sequences of these lengths, and the end."""
    return resolve("torch", "cat")([lengths.new_zeros(1), lengths.cumsum(0)])


@jagged("select")
def _select(func: Any, name: str, input: Any, dim: int, index: int) -> Any:
    if wrap_dim(dim, input.ndim) == 0:
        return input.unbind()[index]
    if input._lengths is not None:
        raise ValueError("select(): not yet supported on dim != 0 for non-contiguous nested tensor with holes")
    dim = _inner_dim(input, dim, name)
    return _moved(input, input._inner.select(dim, index), dim, 1)


@jagged("narrow")
def _narrow(func: Any, name: str, input: Any, args: tuple[Any, ...] = (), **named: Any) -> Any:
    dim, start, length = [*args, *[named[key] for key in ("dim", "start", "length") if key in named]]
    return input._wrapping(input._inner.narrow(_inner_dim(input, dim, name), start, length))


@jagged("Tensor.__getitem__")
def _getitem(func: Any, name: str, **given: Any) -> Any:
    nested, key = given.values()
    parts = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(part, (Tensor, list)) for part in parts):
        raise NotImplementedError("__getitem__: indexing a nested tensor with tensors is not supported")
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (nested.ndim - sum(part is not None for part in parts) + 1)
    if parts and isinstance(parts[0], int):
        part = nested.unbind()[parts[0]]
        return part[tuple(parts[1:])] if len(parts) > 1 else part
    dim = 0
    for part in parts:
        if part is None:
            nested, dim = nested.unsqueeze(dim), dim + 1
        elif isinstance(part, int):
            nested = nested.select(dim, part)
        else:
            if part != slice(None):
                inner = _inner_dim(nested, dim, "slice")
                nested = nested._wrapping(nested._inner[(slice(None),) * inner + (part,)])
            dim += 1
    return nested


@jagged("cat")
def _cat(func: Any, name: str, tensors: Any, dim: int = 0) -> Any:
    first = next(tensor for tensor in tensors if isinstance(tensor, NestedTensor))
    values = [tensor._inner if isinstance(tensor, NestedTensor) else tensor.expand(first._inner.shape) for tensor in tensors]
    for tensor in tensors:
        if isinstance(tensor, NestedTensor) and not _same_lengths(first, tensor):
            _refuse("cat", f"expected nested tensors of the same lengths, got shapes {first._size} and {tensor._size}")
    return first._wrapping(func(values, _inner_dim(first, dim, name)))


@jagged("stack")
def _stack(func: Any, name: str, tensors: Any, dim: int = 0) -> Any:
    for tensor in tensors:
        if not isinstance(tensor, NestedTensor):
            _refuse("stack", "expected all nested tensors inputs")
        if tensor.dim() != tensors[0].dim():
            _refuse("stack", "expected all nested tensors to have the same dim")
        if not _same_lengths(tensor, tensors[0]):
            _refuse("stack", "expected all nested tensors to have the same nested structure")
    first = tensors[0]
    dim = _inner_dim(first, dim, name, first.ndim + 1)
    return _with_ragged(first, func([tensor._inner for tensor in tensors], dim), first._ragged_idx + (dim < first._ragged_idx - 1))


# -- copies and constants ---------------------------------------------------------------------------------------------------------------
@jagged(
    "clone",
    "detach",
    "Tensor.to",
    "Tensor.type",
    "Tensor.type_as",
    "Tensor.cpu",
    "Tensor.cuda",
    "_to_copy",
    "Tensor.double",
    "Tensor.float",
    "Tensor.half",
    "Tensor.bfloat16",
    "Tensor.int",
    "Tensor.long",
    "Tensor.bool",
)
def _copied(func: Any, name: str, input: Any, args: Any = (), kwargs: Any = None, **given: Any) -> Any:
    values = func(input._inner, *args, **given, **(kwargs or {}))
    if values is input._inner:
        return input
    if values.device == input._offsets.device:
        return input._wrapping(values)
    lengths = None if input._lengths is None else input._lengths.to(values.device)
    return NestedTensor(values, input._offsets.to(values.device), lengths=lengths, _ragged_idx=input._ragged_idx)


@jagged("Tensor.contiguous")
def _contiguous(func: Any, name: str, input: Any, **given: Any) -> Any:
    if input._lengths is None:
        values = input._inner.contiguous()
        return input if values is input._inner else input._wrapping(values)
    values = resolve("torch", "cat")(input.unbind(), input._ragged_idx - 1)
    return NestedTensor(values, _offsets_of(input._lengths), _ragged_idx=input._ragged_idx)


@jagged("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like")
def _like(func: Any, name: str, input: Any, layout: Any = None, **given: Any) -> Any:
    if layout is not None and repr(layout) != "torch.jagged":
        raise NotImplementedError(f"{name}: a nested tensor's {name} of layout {layout} is not supported")
    return input._wrapping(func(input._inner, **given))


@jagged("copy_")
def _copy_(func: Any, name: str, **given: Any) -> Any:
    target, source = list(given.values())[:2]
    if not (isinstance(target, NestedTensor) and isinstance(source, NestedTensor)):
        _refuse("copy_", "expected two nested tensors")
    if [part.shape for part in target.unbind()] != [part.shape for part in source.unbind()]:
        _refuse("copy_", f"expected a nested tensor of the same sizes, got {source._size} for {target._size}")
    target._inner.copy_(source._inner)
    return target


# -- reductions -------------------------------------------------------------------------------------------------------------------------
_IDENTITIES: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1, "any": False, "all": True}


def _padding_of(name: str, dtype: Any) -> Any:
    """Value that changes no result of a reduction."""
    if name in _IDENTITIES:
        return _IDENTITIES[name]
    least = name in ("max", "amax", "argmax")
    if dtype.is_floating_point:
        return -math.inf if least else math.inf
    if dtype is dtypes.bool_:
        return not least
    limits = resolve("torch", "iinfo")(dtype)
    return limits.min if least else limits.max


@jagged("sum", "mean", "prod", "any", "all", "max", "min", "amax", "amin", "argmax", "argmin")
def _reduction(func: Any, name: str, input: Any, dim: Any = None, keepdim: bool = False, **given: Any) -> Any:
    if dim is None or dim == ():
        if input._lengths is not None:
            input = input.contiguous()
        result = func(input._inner, **given)
        return result.reshape((1,) * input.ndim) if keepdim else result
    several = isinstance(dim, (tuple, list))
    dims = [wrap_dim(one, input.ndim) for one in (dim if several else (dim,))]
    ragged, others = input._ragged_idx in dims, [one for one in dims if one not in (0, input._ragged_idx)]
    if ragged and input._lengths is not None:
        _refuse(name, "reducing across the ragged dimension is not supported for non-contiguous nested tensors with holes")
    if 0 in dims and not ragged:
        _refuse(name, "reducing along the batch dimension but not the ragged dimension is not supported for nested tensors")
    if not ragged:
        inner = [one - 1 for one in others]
        result = func(input._inner, inner if several else inner[0], keepdim, **given)
        fewer = 0 if keepdim else sum(one < input._ragged_idx - 1 for one in inner)
        if isinstance(result, tuple):
            return type(result)([_with_ragged(input, part, input._ragged_idx - fewer) for part in result])
        return _with_ragged(input, result, input._ragged_idx - fewer)
    if 0 in dims:
        result = func(input._inner, [input._ragged_idx - 1, *[one - 1 for one in others]], keepdim, **given)
        return result.unsqueeze(0) if keepdim else result
    if others:
        _refuse(name, "reducing along a ragged and non-batch dimension is not supported for nested tensors")
    return _over_sequences(func, name, input, several, keepdim, given)


def _over_sequences(func: Any, name: str, nested: NestedTensor, several: bool, keepdim: bool, given: Any) -> Any:
    """Each sequence reduced to one element: a strided tensor."""
    whole = padded(nested, _padding_of(name, nested.dtype), nested._max_seqlen)
    if name != "mean":
        return func(whole, (nested._ragged_idx,) if several else nested._ragged_idx, keepdim, **given)
    total = whole.sum(nested._ragged_idx, keepdim, **given)
    return total / nested._offsets.diff().reshape(-1, *[1] * (total.dim() - 1))


@jagged("softmax", "log_softmax")
def _softmax(func: Any, name: str, input: Any, dim: Any = None, _stacklevel: int = 3, **given: Any) -> Any:
    if not isinstance(dim, int):
        _refuse(name, f"not supported for dimensions of type '{type(dim).__name__}' for NestedTensor")
    dim = wrap_dim(dim, input.ndim)
    if dim == 0:
        _refuse(name, "not supported when reducing across the batch dimension for NestedTensor")
    if dim != input._ragged_idx:
        return input._wrapping(func(input._inner, dim - 1, **given))
    if name == "log_softmax":
        _refuse(name, "not supported when reducing along the ragged dimension for NestedTensor")
    if input._ragged_idx > 1:
        _refuse(name, "not supported when reducing along the ragged dimension for ragged_idx > 1 for NestedTensor")
    if input._lengths is not None:
        _refuse(name, "not supported where lengths is not None if reducing across the ragged dimension for NestedTensor")
    return from_padded(func(padded(input, -math.inf, max(input._max_seqlen, 1)), dim, **given), input)


# -- layers -----------------------------------------------------------------------------------------------------------------------------
@jagged("nn.functional.linear")
def _linear(func: Any, name: str, input: Any, **given: Any) -> Any:
    if not isinstance(input, NestedTensor):
        _refuse(name, "expected a nested input, and strided weight and bias")
    if input._ragged_idx == input.ndim - 1:
        _refuse(name, "not supported for NestedTensor on ragged dim")
    return input._wrapping(func(input._inner, **given))


@jagged("dropout")
def _on_input(func: Any, name: str, input: Any, **given: Any) -> Any:
    """Layers that work element by element, or along the last dimensions only."""
    result = func(input._inner, *given.values())
    return input if result is input._inner else input._wrapping(result)


@jagged("layer_norm", "rms_norm")
def _normalized(func: Any, name: str, input: Any, normalized_shape: Any, **given: Any) -> Any:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if input.ndim <= 2:
        _refuse(name, "not supported for NestedTensor objects with 2 or fewer dimensions")
    if len(shape) >= input.ndim:
        _refuse(name, "not supported when normalizing over the batch dimension for NestedTensor")
    if len(shape) < input.ndim - input._ragged_idx:
        return input._wrapping(func(input._inner, shape, *given.values()))
    if name == "rms_norm":
        raise ValueError("rms_norm(): Normalization over the ragged dim not supported for nested tensors")
    if input._lengths is not None:
        _refuse(name, "not supported where lengths is not None if operating on the ragged dimension for NestedTensor")
    if given.get("weight") is not None or given.get("bias") is not None or input._ragged_idx != 1:
        raise NotImplementedError(f"{name}: over the ragged dimension there are no weight and bias, and it must be dimension 1")
    parts = [func(part, part.shape, None, None, given.get("eps", 1e-5)) if part.numel() else part for part in input.unbind()]
    return input._wrapping(resolve("torch", "cat")(parts, 0))


@jagged("embedding")
def _embedding(func: Any, name: str, **given: Any) -> Any:
    key = next(key for key in ("input", "indices") if isinstance(given.get(key), NestedTensor))
    nested = given[key]
    given[key] = nested._inner
    return nested._wrapping(func(**given))


@jagged("matmul", "bmm")
def _matmul(func: Any, name: str, input: Any, other: Any = None, mat2: Any = None) -> Any:
    one, other = input, mat2 if other is None else other
    if name == "bmm":
        for tensor, which in ((one, "input"), (other, "mat2")):
            if tensor.dim() != 3:
                raise ValueError(f"bmm(): {which} must be 3D")
    matmul = resolve("torch", "matmul")
    if isinstance(one, NestedTensor) and isinstance(other, NestedTensor):
        if one.dim() > 3 and other.dim() > 3 and _same_lengths(one, other) and one._ragged_idx < one.dim() - 2:
            return one._wrapping(matmul(one._inner, other._inner))
        shapes = (one.dim(), other.dim(), one._ragged_idx, other._ragged_idx)
        if shapes == (3, 3, 2, 1) and one._size[2] == other._size[1]:
            return resolve("torch", "stack")([matmul(a, b) for a, b in zip(one.unbind(), other.unbind(), strict=True)])
    elif isinstance(one, NestedTensor):
        if one._ragged_idx < one.dim() - 1:
            if one.dim() >= 3 and one.dim() == other.dim():
                return from_padded(matmul(padded(one, 0.0, one._max_seqlen), other), one)
            if other.dim() == 2 and one.dim() > 2:
                return one._wrapping(matmul(one._inner, other))
    elif other._ragged_idx >= 2:
        if other.dim() >= 3 and other.dim() == one.dim():
            return from_padded(matmul(one, padded(other, 0.0, other._max_seqlen)), other)
        if one.dim() == 2 and other.dim() > 2:
            return other._wrapping(matmul(one, other._inner))
    _refuse(name, f"not supported between inputs of shapes {tuple(one.shape)} and {other.shape}")


@jagged("nn.functional.scaled_dot_product_attention")
def _attention(func: Any, name: str, query: Any, key: Any, value: Any, attn_mask: Any = None, **given: Any) -> Any:
    """Attention within each sequence, one after the other: no padding is computed."""
    parts = (query, key, value)
    if not all(isinstance(part, NestedTensor) for part in parts):
        raise ValueError(
            f"Expected query, key, and value to be nested tensors, but got query.is_nested: {query.is_nested}, key.is_nested: "
            f"{key.is_nested}, and value.is_nested: {value.is_nested} instead."
        )
    if query.dtype is not key.dtype or query.dtype is not value.dtype:
        raise ValueError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype}, key.dtype: {key.dtype}, "
            f"and value.dtype: {value.dtype} instead."
        )
    if min(part.dim() for part in parts) < 3:
        raise ValueError(
            f"Expected query, key, and value to all be at least 3 dimensional, but got query.dim: {query.dim()}, key.dim: {key.dim()} "
            f"and value.dim: {value.dim()} instead."
        )
    if len({part._ragged_idx for part in parts}) > 1:
        raise ValueError(
            f"Expected query, key, and value to all be ragged on the same dimension, but got ragged dims {query._ragged_idx}, "
            f"{key._ragged_idx}, and {value._ragged_idx}, respectively."
        )
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    attended = [func(q, k, v, **given) for q, k, v in zip(*[part.unbind() for part in parts], strict=True)]
    whole = query.contiguous() if query._lengths is not None else query
    return whole._wrapping(resolve("torch", "cat")(attended, query._ragged_idx - 1))


@jagged("Tensor.to_padded_tensor")
def _conversion(func: Any, name: str, input: Any, **given: Any) -> Any:
    return input.to_padded_tensor(*given.values())


@jagged("equal")
def _equal(func: Any, name: str, input: Any, other: Any) -> bool:
    same = isinstance(input, NestedTensor) and isinstance(other, NestedTensor) and input._size == other._size
    return same and func(input.contiguous()._inner, other.contiguous()._inner)


NestedTensor._apply = staticmethod(apply)
