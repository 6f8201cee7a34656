"""NumPy's functions over ``MetaArray``: rules on shapes and element types, from which reference kernels learn what they would return.

ufuncs              broadcast shape, element type by ``ufunc.resolve_dtypes``, strides as element-wise operations have them
reductions, views   a line each
anything else       computed on a few ones; ``NeedsRule`` for larger arrays
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .kinds import missing_values
from .meta_array import MetaArray, empty, empty_elementwise, empty_like, framed

FEW = 1 << 16  # elements up to which a function without a rule is computed


class NeedsRule(NotImplementedError):
    """A function of large arrays without a rule."""


def is_array(value: Any) -> bool:
    return value.__class__ is MetaArray or value.__class__ is np.ndarray


def is_meta(value: Any) -> bool:
    """Whether a value is, or has in it, a meta array."""
    return value.__class__ is MetaArray or (value.__class__ in (tuple, list) and any(map(is_meta, value)))


def shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if hasattr(value, "shape") else np.shape(value)


# -- ufuncs -----------------------------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=4096)
def result_dtypes(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype, ...]:
    """Element types of a ufunc's results for operands' types (Python's number classes among them)."""
    try:
        return ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))[ufunc.nin :]
    except (TypeError, ValueError):
        few = [kind(1) if kind in (int, float, complex) else np.ones((1,) * (2 if ufunc.signature else 1), kind) for kind in kinds]
        result = ufunc(*few)
        return tuple([array.dtype for array in (result if isinstance(result, tuple) else (result,))])


def kind_of_operand(value: Any) -> Any:
    if value.__class__ in (int, float, complex):
        return value.__class__
    return np.dtype(np.asarray(value).dtype if not hasattr(value, "dtype") else value.dtype)


def dtype_of(value: Any) -> np.dtype:
    kind = kind_of_operand(value)
    return kind if isinstance(kind, np.dtype) else np.dtype(kind)


class Ufunc:
    """A ufunc over meta arrays."""

    def __init__(self, ufunc: np.ufunc):
        self.ufunc, self.__name__ = ufunc, ufunc.__name__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ufunc, name)

    def __call__(self, *inputs: Any, out: Any = None, dtype: Any = None, where: Any = True, **named: Any) -> Any:
        ufunc = self.ufunc
        if not any(operand.__class__ is MetaArray for operand in (*inputs, where)) and not is_meta(out):
            return ufunc(*inputs, out=out, dtype=dtype, where=where, **named)
        if len(inputs) > ufunc.nin:
            inputs, out = inputs[: ufunc.nin], inputs[ufunc.nin :]
        out = out[0] if out.__class__ is tuple and len(out) == 1 else out
        if out is not None:
            if ufunc.signature is None and np.broadcast_shapes(*[shape_of(operand) for operand in inputs]) != shape_of(out):
                raise ValueError(f"{ufunc.__name__}: the result does not have the shape of out, {shape_of(out)}")
            return out
        kinds = result_dtypes(ufunc, tuple([kind_of_operand(operand) for operand in inputs]))
        if dtype is not None:
            kinds = (np.dtype(dtype),) * ufunc.nout
        if ufunc.signature is not None:
            return empty(product_shape(ufunc, *[shape_of(operand) for operand in inputs]), kinds[0])
        shape = np.broadcast_shapes(*[shape_of(operand) for operand in inputs])
        outputs = tuple([empty_elementwise(shape, kind, [operand for operand in inputs if is_array(operand)]) for kind in kinds])
        return outputs[0] if len(outputs) == 1 else outputs

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **named: Any) -> Any:
        if array.__class__ is not MetaArray:
            return self.ufunc.reduce(array, axis, dtype, out, keepdims, **named)
        if out is not None:
            return out
        result = empty(reduced(array.shape, axis, keepdims), self.ufunc.reduce(np.ones(1, array.dtype), dtype=dtype).dtype)
        result._truth = self.ufunc is np.logical_and
        return result

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if array.__class__ is not MetaArray:
            return self.ufunc.accumulate(array, axis, dtype, out)
        return empty_like(array, self.ufunc.accumulate(np.ones(1, array.dtype), dtype=dtype).dtype) if out is None else out

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if array.__class__ is not MetaArray:
            return self.ufunc.reduceat(array, indices, axis, dtype, out)
        kind = self.ufunc.reduceat(np.ones(1, array.dtype), [0], dtype=dtype).dtype
        return out if out is not None else empty(replaced(array.shape, axis, len(indices)), kind)

    def outer(self, a: Any, b: Any, **named: Any) -> Any:
        if not is_meta([a, b]):
            return self.ufunc.outer(a, b, **named)
        return empty((*shape_of(a), *shape_of(b)), result_dtypes(self.ufunc, (kind_of_operand(a), kind_of_operand(b)))[0])

    def at(self, array: Any, *args: Any) -> None:
        if array.__class__ is not MetaArray:
            self.ufunc.at(array, *args)


def reduced(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    axes = range(len(shape)) if axis is None else (axis,) if hasattr(axis, "__index__") else axis
    gone = {dim % max(len(shape), 1) for dim in axes}
    return tuple([1 if d in gone else n for d, n in enumerate(shape) if keepdims or d not in gone])


def replaced(shape: tuple[int, ...], axis: int, *sizes: int) -> tuple[int, ...]:
    """``shape`` with other sizes in place of one dimension."""
    axis %= len(shape)
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def product_shape(ufunc: np.ufunc, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of ``matmul`` and its like."""
    if ufunc is np.vecdot:
        return np.broadcast_shapes(a, b)[:-1]
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ValueError(f"{ufunc.__name__}: sizes {a} and {b} do not fit")
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    return (*lead, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


# -- functions --------------------------------------------------------------------------------------------------------------------------
def frames(value: Any) -> Any:
    if value.__class__ is MetaArray:
        return value._frame
    return value.__class__(map(frames, value)) if value.__class__ in (tuple, list) else value


def all_framed(result: Any) -> Any:
    return framed(result) if result.__class__ is np.ndarray else type(result)(map(all_framed, result))


def _ones(value: Any) -> Any:
    if value.__class__ is MetaArray:
        if value.size > FEW:
            raise NeedsRule(f"a function of {value.size} elements on the meta device has no rule")
        return np.ones(value.shape, value.dtype)
    return value.__class__(map(_ones, value)) if value.__class__ in (tuple, list) else value


def emptied(value: Any) -> Any:
    """Results that were computed, without their values."""
    if isinstance(value, (np.ndarray, np.generic)):
        return empty_like(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(emptied, value))
    return type(value)(map(emptied, value)) if isinstance(value, (tuple, list)) else value


def computed(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Result of a function without a rule, computed with ones in place of the elements."""
    out = kwargs.pop("out", None)
    with np.errstate(all="ignore"):
        result = function(*_ones(tuple(args)), **{key: _ones(value) for key, value in kwargs.items()})
    return out if out is not None else emptied(result)


_VIEWS = frozenset(
    "moveaxis rollaxis swapaxes transpose permute_dims matrix_transpose expand_dims squeeze broadcast_to diagonal split array_split "
    "broadcast_arrays atleast_1d atleast_2d atleast_3d as_strided sliding_window_view".split()
)
_ALIKE = frozenset("sort roll flip flipud fliplr clip nan_to_num round around copy tril triu sort_complex fftshift ifftshift".split())
_REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "amax": np.maximum, "min": np.minimum, "amin": np.minimum}
_REDUCTIONS |= {"any": np.logical_or, "all": np.logical_and}
_OF_NUMBERS = frozenset("dtype iinfo finfo errstate broadcast_shapes promote_types can_cast isscalar issubdtype ndindex".split())


def _where(condition: Any, *values: Any) -> Any:
    if not values:
        missing_values("nonzero")
    x, y = values
    kinds = kind_of_operand(x), kind_of_operand(y)
    kind = np.dtype(kinds[0]) if kinds[0] == kinds[1] else result_dtypes(np.add, kinds)[0]
    shape = np.broadcast_shapes(*map(shape_of, (condition, x, y)))
    return empty_elementwise(shape, kind, [operand for operand in (condition, x, y) if is_array(operand)])


def _mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **_: Any) -> Any:
    kind = np.dtype(dtype) if dtype is not None else a.dtype if a.dtype.kind in "fcV" else np.dtype(np.float64)
    return empty(reduced(a.shape, axis, keepdims), kind)


def _arg(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    return empty(reduced(a.shape, axis, keepdims), np.int64)


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, **_: Any) -> Any:
    if out is not None:
        return out
    shapes = [shape_of(array) for array in arrays]
    if axis is None:
        shapes, axis = [(math.prod(shape),) for shape in shapes], 0
    kind = np.result_type(*[dtype_of(array) for array in arrays]) if dtype is None else dtype
    return empty(replaced(shapes[0], axis, sum(shape[axis] for shape in shapes)), kind)


def _stack(arrays: Any, axis: int = 0, out: Any = None, **_: Any) -> Any:
    shape = shape_of(arrays[0])
    dim = axis % (len(shape) + 1)
    kind = np.result_type(*[dtype_of(array) for array in arrays])
    return out if out is not None else empty((*shape[:dim], len(arrays), *shape[dim:]), kind)


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    sizes = shape_of(indices)
    return empty(sizes if axis is None else replaced(a.shape, axis, *sizes), a.dtype) if out is None else out


def _take_along_axis(a: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        return empty(indices.shape, a.dtype)
    axis %= a.ndim
    lead = np.broadcast_shapes(replaced(a.shape, axis, 1), replaced(indices.shape, axis, 1))
    return empty(replaced(lead, axis, indices.shape[axis]), a.dtype)


def _pad(a: Any, width: Any, *args: Any, **kwargs: Any) -> Any:
    pairs = np.broadcast_to(width, (a.ndim, 2)).tolist()
    return empty([n + low + high for n, (low, high) in zip(a.shape, pairs, strict=True)], a.dtype)


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if is_meta(repeats):
        missing_values("repeat_interleave.Tensor")
    shape, axis = ((a.size,), 0) if axis is None else (a.shape, axis)
    counts = np.asarray(repeats)
    return empty(
        replaced(shape, axis, int(counts.sum()) if counts.ndim and counts.size > 1 else shape[axis] * int(counts.reshape(()))), a.dtype
    )


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    if out is not None:
        return out
    shape = (*a.shape[:-1], *b.shape[:-2], *b.shape[-1:][: b.ndim - 1]) if a.ndim and b.ndim else np.broadcast_shapes(a.shape, b.shape)
    return empty(shape, np.result_type(a.dtype, b.dtype))


def _einsum(subscripts: str, *operands: Any, out: Any = None, **_: Any) -> Any:
    if out is not None:
        return out
    shape = np.einsum(subscripts, *[np.broadcast_to(np.zeros((), np.bool_), operand.shape) for operand in operands]).shape
    return empty(shape, np.result_type(*[operand.dtype for operand in operands]))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if hasattr(axes, "__index__"):
        axes = (list(range(a.ndim - axes, a.ndim)), list(range(axes)))
    left, right = [[axes_of] if hasattr(axes_of, "__index__") else list(axes_of) for axes_of in axes]
    return empty((*reduced(a.shape, left, False), *reduced(b.shape, right, False)), np.result_type(a.dtype, b.dtype))


def _accumulated(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda a, axis=None, dtype=None, out=None: Ufunc(ufunc).accumulate(a if axis is not None else a.ravel(), axis or 0, dtype, out)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Functions that only write."""


def _unknown(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: missing_values(name)


def _ravel(a: Any, order: str = "C") -> Any:
    return a.ravel(order)


def _tile(a: Any, times: Any) -> Any:
    times = (times,) if hasattr(times, "__index__") else tuple(times)
    count = max(len(times), a.ndim)
    pairs = zip((1,) * (count - len(times)) + times, (1,) * (count - a.ndim) + a.shape, strict=True)
    return empty([n * size for n, size in pairs], a.dtype)


_RULES: dict[str, Callable[..., Any]] = {
    "where": _where,
    "mean": _mean,
    "argmax": _arg,
    "argmin": _arg,
    "count_nonzero": lambda a, axis=None, *, keepdims=False: empty(reduced(a.shape, axis, keepdims), np.int64),
    "concatenate": _concatenate,
    "stack": _stack,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "pad": _pad,
    "repeat": _repeat,
    "tile": _tile,
    "dot": _dot,
    "einsum": _einsum,
    "tensordot": _tensordot,
    "cumsum": _accumulated(np.add),
    "cumprod": _accumulated(np.multiply),
    "argsort": lambda a, axis=-1, **_: empty_like(a, np.int64),
    "argpartition": lambda a, kth, axis=-1, **_: empty_like(a, np.int64),
    "partition": lambda a, kth, axis=-1, **_: empty_like(a),
    "searchsorted": lambda a, v, *args, **kwargs: empty(shape_of(v), np.int64),
    "unravel_index": lambda places, shape, order="C": tuple([empty_like(places, np.int64) for _ in shape]),
    "isin": lambda a, b, **_: empty(a.shape, np.bool_),
    "ravel": _ravel,
    "reshape": lambda a, *sizes, **kwargs: a.reshape(*sizes, **kwargs),
    "rot90": lambda a, k=1, axes=(0, 1): empty_like(np.rot90(a._frame, k, axes)),
    "diff": lambda a, n=1, axis=-1, **_: empty(replaced(a.shape, axis, max(a.shape[axis] - n, 0)), a.dtype),
    "put_along_axis": _nothing,
    "copyto": _nothing,
    "fill_diagonal": _nothing,
    "put": _nothing,
    "putmask": _nothing,
    "nonzero": _unknown("nonzero"),
    "flatnonzero": _unknown("nonzero"),
    "argwhere": _unknown("nonzero"),
    "unique": _unknown("_unique2"),
    "bincount": _unknown("bincount"),
    "result_type": lambda *values: np.result_type(*[value.dtype if value.__class__ is MetaArray else value for value in values]),
    "shape": shape_of,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "real": lambda a: a.real,
    "imag": lambda a: a.imag,
    "isrealobj": lambda a: a.dtype.kind != "c",
    "iscomplexobj": lambda a: a.dtype.kind == "c",
    "shares_memory": lambda a, b: False,
    "may_share_memory": lambda a, b: False,
}


def _transformed(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    return empty(a.shape, np.result_type(a.dtype, np.complex64))


def _half_transformed(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    return empty(replaced(a.shape, axes[-1], a.shape[axes[-1]] // 2 + 1), np.result_type(a.dtype, np.complex64))


def _real_transformed(a: Any, n: int, axis: int = -1, norm: Any = None) -> Any:
    return empty(replaced(a.shape, axis, n), a.real.dtype)


# Rules for functions of NumPy's sub-modules.
_OF_MODULES: dict[Any, dict[str, Callable[..., Any]]] = {
    np.linalg: {"inv": lambda a: empty(a.shape, a.dtype)},
    np.fft: {"fftn": _transformed, "ifftn": _transformed, "rfftn": _half_transformed, "irfft": _real_transformed},
}


def _reduction(ufunc: np.ufunc, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    names = ("axis", "dtype", "out", "keepdims") if ufunc in (np.add, np.multiply) else ("axis", "out", "keepdims")
    given = {"axis": None, **dict(zip(names, args[1:], strict=False)), **kwargs}
    given.pop("initial", None)
    given.pop("where", None)
    return Ufunc(ufunc).reduce(args[0], **given)


def _asarray(value: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, **_: Any) -> Any:
    if value.__class__ is MetaArray:
        if dtype is not None and value.dtype != dtype:
            return empty_like(value, dtype, order or "K")
        if order == "C" and not value.flags.c_contiguous:
            return empty(value.shape, value.dtype)
        return empty_like(value, order=order or "K") if copy else value
    if is_meta(value):
        return _stack([_asarray(item, dtype) for item in value])
    return np.asarray(value, dtype, order)  # known values stay: shapes may come from them


class Namespace:
    """A module of NumPy's over meta arrays."""

    ndarray = MetaArray
    asarray = staticmethod(_asarray)

    def __init__(self, module: Any = np):
        self.__dict__["_module"] = module

    @staticmethod
    def empty(shape: Any, dtype: Any = np.float64, order: str = "C", **_: Any) -> MetaArray:
        return empty(shape, dtype, order)

    zeros = ones = empty

    @staticmethod
    def empty_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **_: Any) -> MetaArray:
        return empty_like(a, dtype, order, (shape,) if hasattr(shape, "__index__") else shape)

    zeros_like = ones_like = empty_like

    @staticmethod
    def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **_: Any) -> MetaArray:
        return empty(shape, dtype_of(fill_value) if dtype is None else dtype, order)

    @staticmethod
    def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> MetaArray:
        return empty_like(a, dtype, order, shape)

    @staticmethod
    def array(value: Any, dtype: Any = None, *, copy: bool = True, order: str = "K", **_: Any) -> Any:
        return _asarray(value, dtype, order, copy=copy)

    @staticmethod
    def ascontiguousarray(value: Any, dtype: Any = None) -> Any:
        return _asarray(value, dtype, "C")

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._module, name)
        if isinstance(attribute, np.ufunc):
            wrapped: Any = Ufunc(attribute)
        elif type(attribute) is type(np):
            wrapped = Namespace(attribute)
        elif name in _OF_NUMBERS or isinstance(attribute, type) or not callable(attribute):
            wrapped = attribute
        else:
            wrapped = self._function(name, attribute)
        self.__dict__[name] = wrapped
        return wrapped

    def _function(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        is_numpys = self._module is np
        rule = _OF_MODULES.get(self._module, {}).get(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_meta(args) and not any(map(is_meta, kwargs.values())):
                return function(*args, **kwargs)  # values are known
            if is_numpys and name in _RULES:
                return _RULES[name](*args, **kwargs)
            if rule is not None:
                return rule(*args, **kwargs)
            if name in _VIEWS:
                return all_framed(function(*frames(args), **kwargs))
            if name in _ALIKE:
                return empty_like(args[0])
            if is_numpys and name in _REDUCTIONS:
                return _reduction(_REDUCTIONS[name], args, kwargs)
            return computed(function, args, kwargs)

        call.__name__ = name
        return call


xp = Namespace()


# -- methods and operators of the arrays ------------------------------------------------------------------------------------------------
def _install_methods() -> None:
    def method(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: getattr(xp, name)(self, *args, **kwargs)

    for name in (
        "sum prod max min any all mean argmax argmin argsort argpartition cumsum cumprod take repeat clip round nonzero dot searchsorted"
    ).split():
        setattr(MetaArray, name, method(name))


def _array_ufunc(self: MetaArray, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if any(operand.__class__ is np.ndarray and operand.ndim for operand in inputs):  # a tensor of the CPU, say on a fast path
        return NotImplemented
    return getattr(Ufunc(ufunc), method)(*inputs, **kwargs)


def _array_function(self: MetaArray, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    module = np if function.__module__ == "numpy" else sys.modules[function.__module__]
    return getattr(Namespace(module) if module is not np else xp, function.__name__)(*args, **kwargs)


MetaArray.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]
MetaArray.__array_function__ = _array_function  # type: ignore[attr-defined]


def _install_operators() -> None:
    def binary(name: str, function: Ufunc) -> None:
        setattr(MetaArray, f"__{name}__", lambda self, other: function(self, other))
        setattr(MetaArray, f"__r{name}__", lambda self, other: function(other, self))
        setattr(MetaArray, f"__i{name}__", lambda self, other: self)

    def plain(name: str, function: Ufunc) -> None:
        setattr(MetaArray, f"__{name}__", lambda self, *other: function(self, *other))

    for name, function in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide, "mod": np.remainder,
        "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
        "rshift": np.right_shift, "matmul": np.matmul,
    }.items():  # fmt: skip
        binary(name, Ufunc(function))
    for name, function in {
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
        "neg": np.negative, "abs": np.absolute, "invert": np.invert, "pos": np.positive,
    }.items():  # fmt: skip
        plain(name, Ufunc(function))


_install_methods()
_install_operators()

__all__ = ["Namespace", "NeedsRule", "Ufunc", "xp"]
