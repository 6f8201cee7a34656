"""A device for tests, ``privateuseone``: what works on it has a fair chance on a GPU.  Importing this module makes it known.

``ProbeArray`` behaves as CuPy's arrays do, and ``xp`` as its module, computed by NumPy in memory that only they reach.  What CuPy
refuses is refused here (read off CuPy 14.2):

- no implicit conversion: ``np.asarray(probe)``, the buffer protocol and ``__array_interface__`` are errors;
- a NumPy array beside a device array is a TypeError, 0-d ones too; NumPy *scalars* and Python numbers are welcome, and an index may be
  a NumPy array;
- results are arrays always: a full reduction and an element are 0-d device arrays, never scalars;
- ufuncs' ``reduce`` and ``accumulate`` of add and multiply only, ``at`` of six, no ``where=``, no ``initial=``;
- ``flags`` know three fields; functions that CuPy has not are not here either.

It is a module of its own, above the core, because nothing but tests and their programs should pay for it or depend on it.  Kernels see
``xp``: the module with what it lacks put together from what it has, as the one over CuPy itself would do.

``reads.count`` is how often the host read a value, which on a GPU waits for the device, and ``reads.copies`` how many of these were whole
arrays: such an operation is computed on the host.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Kind, register
from ..core.device import device

_REDUCES = frozenset(("add", "multiply"))
_SCATTERS = frozenset(("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"))
_COMPARISONS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
_MISSING = frozenset(
    (
        "asmatrix block bmat busday_count busday_offset datetime_as_string einsum_path frompyfunc fromregex geomspace histogram_bin_edges "
        "isnat matvec nanpercentile nanquantile ndenumerate nditer nested_iters polyder polydiv polyint spacing unstack vecdot vecmat"
    ).split()
)
# What gives no array: NumPy's own serves.
_HOST = frozenset(
    (
        "dtype iinfo finfo errstate seterr geterr ndindex broadcast_shapes promote_types result_type can_cast isscalar issubdtype shape "
        "ndim size iscomplexobj isrealobj may_share_memory shares_memory index_exp s_ printoptions"
    ).split()
)


class Reads:
    """How often the host read a value of the device."""

    count = 0
    copies = 0


reads = Reads()


class _Memory:
    """``array.data``: where on the device it lies."""

    __slots__ = ("ptr",)

    def __init__(self, ptr: int):
        self.ptr = ptr


class _Flags:
    __slots__ = ("c_contiguous", "f_contiguous", "owndata")

    def __init__(self, flags: Any):
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata


def _put(host: Any) -> Any:
    """NumPy's results as device arrays, in tuples and lists too."""
    if host.__class__ is np.ndarray or isinstance(host, np.generic):
        result = object.__new__(ProbeArray)
        result._host = np.asarray(host)
        return result
    if isinstance(host, tuple):
        parts = [_put(item) for item in host]
        return type(host)(*parts) if hasattr(host, "_fields") else tuple(parts)
    return [_put(item) for item in host] if isinstance(host, list) else host


def _take(value: Any) -> Any:
    """The host's side of an argument.

    Raises:
        TypeError: a NumPy array, which would have to be copied to the device behind the caller's back.
    """
    kind = value.__class__
    if kind is ProbeArray:
        return value._host
    if kind is np.ndarray:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if kind is tuple or kind is list:
        return kind([_take(item) for item in value])
    return {name: _take(item) for name, item in value.items()} if kind is dict else value


def _take_index(key: Any) -> Any:
    """An index, in which NumPy arrays may stand."""
    if key.__class__ is tuple:
        return tuple([_take_index(part) for part in key])
    return key._host if key.__class__ is ProbeArray else key


def _refuse(kwargs: dict[str, Any]) -> None:
    for name in ("where", "initial"):
        if kwargs.get(name, True) is not True and kwargs[name] is not None:
            raise TypeError(f"got an unexpected keyword argument '{name}'")
        kwargs.pop(name, None)


class ProbeArray:
    """A strided, mutable array on the probe."""

    __slots__ = ("__weakref__", "_host")
    _host: np.ndarray
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in _MISSING:
            raise TypeError(f"no implementation found for {function.__name__}")
        return _call(function, args, kwargs)

    dtype = property(lambda self: self._host.dtype)
    shape = property(lambda self: self._host.shape)
    strides = property(lambda self: self._host.strides)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    flags = property(lambda self: _Flags(self._host.flags))
    data = property(lambda self: _Memory(self._host.__array_interface__["data"][0]))
    device = property(lambda self: 0)
    T = property(lambda self: _put(self._host.T))
    real = property(lambda self: _put(self._host.real), lambda self, value: setattr(self._host, "real", _take(value)))
    imag = property(lambda self: _put(self._host.imag), lambda self, value: setattr(self._host, "imag", _take(value)))
    base = property(lambda self: None if self._host.base is None else self)

    def get(self) -> np.ndarray:
        """A copy in the host's memory."""
        reads.count += 1
        reads.copies += 1
        return self._host.copy(order="K")

    def set(self, values: np.ndarray) -> None:
        self._host[...] = values

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"probe{self._host!r}"

    def __getitem__(self, key: Any) -> Any:
        return _put(self._host[_take_index(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[_take_index(key)] = _take(value)


def _read(name: str, function: Callable[..., Any]) -> None:
    def method(self: ProbeArray, *args: Any) -> Any:
        reads.count += 1
        return function(self._host, *args)

    setattr(ProbeArray, name, method)


for _name, _function in {"__bool__": bool, "__int__": int, "__float__": float, "__complex__": complex, "__index__": operator.index}.items():
    _read(_name, _function)  # type: ignore[arg-type]
_read("item", np.ndarray.item)
_read("tolist", np.ndarray.tolist)
_read("tobytes", np.ndarray.tobytes)


def _method(name: str) -> None:
    plain = getattr(np.ndarray, name)

    def method(self: ProbeArray, *args: Any, **kwargs: Any) -> Any:
        _refuse(kwargs)
        out = kwargs.get("out")
        result = plain(self._host, *_take(args), **_take(kwargs))
        return out if out is not None else _put(result)

    setattr(ProbeArray, name, method)


for _name in (
    "reshape transpose swapaxes ravel flatten squeeze astype copy view fill sort argsort partition argpartition cumsum cumprod sum prod "
    "max min mean std var any all argmax argmin clip round nonzero take put repeat diagonal trace conj conjugate dot searchsorted "
    "compress choose"
).split():
    _method(_name)


def _operator(name: str, ufunc: Any, *, reflected: bool = False, in_place: bool = False) -> None:
    if reflected:
        setattr(ProbeArray, f"__r{name}__", lambda self, other: _call_ufunc(ufunc, "__call__", (other, self), {}))
    if in_place:
        setattr(ProbeArray, f"__i{name}__", lambda self, other: _call_ufunc(ufunc, "__call__", (self, other), {"out": (self,)}))
    setattr(ProbeArray, f"__{name}__", lambda self, *other: _call_ufunc(ufunc, "__call__", (self, *other), {}))


for _name, _ufunc in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "matmul": np.matmul,
}.items():
    _operator(_name, _ufunc, reflected=True, in_place=True)
for _name, _ufunc in {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "neg": np.negative,
    "abs": np.absolute,
    "invert": np.invert,
    "pos": np.positive,
}.items():
    _operator(_name, _ufunc)


def _call(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One of NumPy's functions, over device arrays."""
    if function is not np.where and function is not np.copyto:  # the two that know ``where``
        _refuse(kwargs)
    out = kwargs.get("out")
    result = function(*_take(tuple(args)), **_take(kwargs))
    return out if out is not None else _put(result)


def _call_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """A ufunc as ``cupy.ndarray.__array_ufunc__`` runs it."""
    name = ufunc.__name__
    out = kwargs.pop("out", None)
    _refuse(kwargs)
    if method in ("reduce", "accumulate") and name not in _REDUCES:
        raise TypeError(f"`cupy_{name}.{method}` is not supported yet")
    if method == "reduceat" and name != "add":
        raise TypeError(f"`cupy_{name}.reduceat` is not supported yet")
    if method == "at":
        if name not in _SCATTERS:
            raise TypeError(f"`cupy_{name}.at` is not supported yet")
        array, index, *rest = inputs
        ufunc.at(_take(array), _take_index(index), *_take(rest))
        return None
    if name in _COMPARISONS:  # NumPy hands a scalar left of an operator over as a 0-d array (numpy/numpy#12142); CuPy takes its value
        inputs = [operand.item() if operand.__class__ is np.ndarray and not operand.ndim else operand for operand in inputs]
    hosts = _take(list(inputs))
    if out is None:
        return _put(getattr(ufunc, method)(*hosts, **kwargs))
    outs = out if isinstance(out, tuple) else (out,)
    getattr(ufunc, method)(*hosts, out=tuple(_take(list(outs))) if method == "__call__" else _take(outs[0]), **kwargs)
    return outs[0] if len(outs) == 1 else outs


_REDUCED = {"maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all", "fmax": "nanmax", "fmin": "nanmin"}


class _Ufunc:
    """A ufunc of the namespace: gives device arrays, whatever it is given; reductions that are missing go by other functions."""

    def __init__(self, ufunc: Any):
        self._ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        nin = self._ufunc.nin
        if len(args) > nin:
            args, kwargs["out"] = args[:nin], tuple(args[nin:])
        return _call_ufunc(self._ufunc, "__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "reduce" and self._ufunc.__name__ in _REDUCED:
            return self._reduce
        if name == "accumulate" and self._ufunc.__name__ not in _REDUCES:
            return self._accumulate
        if name == "at" and self._ufunc.__name__ not in _SCATTERS:
            return self._at
        if name in ("reduce", "accumulate", "at", "outer", "reduceat"):
            return lambda *args, **kwargs: _call_ufunc(self._ufunc, name, args, kwargs)
        return getattr(self._ufunc, name)

    def _reduce(self, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        result = getattr(xp, _REDUCED[self._ufunc.__name__])(a, axis=axis, keepdims=keepdims)
        if out is None:
            return result
        out[...] = result
        return out

    def _at(self, a: Any, index: Any, *values: Any) -> None:
        """On the host."""
        whole = a.get()
        parts = [part.get() if part.__class__ is ProbeArray else part for part in (*index, *values)] if index.__class__ is tuple else None
        if parts is None:
            self._ufunc.at(whole, _take_index(index), *[_take(value) for value in values])
        else:
            self._ufunc.at(whole, tuple(parts[: len(index)]), *parts[len(index) :])
        a.set(whole)

    def _accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Running values in as many steps as the length has binary digits."""
        result, step = a.copy(), 1
        whole = result.swapaxes(0, axis)
        while step < whole.shape[0]:
            whole[step:] = self(whole[step:], whole[:-step].copy())
            step *= 2
        if out is None:
            return result
        out[...] = result
        return out


class Namespace:
    """What the module ``cupy`` is to CuPy's arrays: NumPy's names, over probe arrays."""

    ndarray = ProbeArray

    def __init__(self, module: Any, name: str):
        self._module, self.__name__ = module, name

    def __getattr__(self, name: str) -> Any:
        if name in _MISSING:
            raise AttributeError(f"module 'cupy' has no attribute '{name}'")
        attribute = getattr(self._module, name)
        wrapped: Any
        if isinstance(attribute, np.ufunc):
            wrapped = _Ufunc(attribute)
        elif type(attribute) is type(np):
            wrapped = Namespace(attribute, f"{self.__name__}.{name}")
        elif name in _HOST or isinstance(attribute, type) or not callable(attribute):
            wrapped = attribute
        else:

            def wrapped(*args: Any, **kwargs: Any) -> Any:
                return _call(attribute, args, kwargs)

            wrapped.__name__ = name
        self.__dict__[name] = wrapped
        return wrapped

    @staticmethod
    def asarray(value: Any, dtype: Any = None, order: Any = None, copy: Any = None) -> Any:
        """``value`` on the device, which is how NumPy arrays get there."""
        host = value._host if value.__class__ is ProbeArray else value
        if host.__class__ in (list, tuple):
            host = [item._host if item.__class__ is ProbeArray else item for item in host]
        array = np.asarray(host, dtype, order)
        if array is host:
            return value if value.__class__ is ProbeArray else _put(array.copy(order="K"))
        return _put(array)

    @staticmethod
    def array(value: Any, dtype: Any = None, *, copy: bool = True, order: Any = "K", ndmin: int = 0) -> Any:
        return _put(np.array(value._host if value.__class__ is ProbeArray else value, dtype, order=order, ndmin=ndmin))


xp = Namespace(np, "probe")


class Probe(Kind):
    """The kind of the tests' device."""

    name, array_class, xp = "privateuseone", ProbeArray, xp

    def device_of(self, array: Any) -> device:
        return _DEVICE

    def address(self, array: Any) -> int:
        return array.data.ptr

    def to_host(self, array: Any) -> np.ndarray:
        return array.get()

    def from_host(self, array: np.ndarray, where: device) -> Any:
        return _put(array.copy(order="K"))

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
        """As ``cupy.ndarray(shape, dtype, base.data + offset, strides)``."""
        host = base._host
        if not host.flags.c_contiguous:
            reach = 1 + sum((n - 1) * step // host.itemsize for n, step in zip(host.shape, host.strides, strict=True))
            host = np.lib.stride_tricks.as_strided(host, (reach,), (host.itemsize,))
        return _put(np.ndarray(shape, kind, host, offset, strides))

    def placed(self, where: device) -> device:
        if where.index:
            raise RuntimeError(f"invalid device ordinal: there is one {self.name} device, got index {where.index}")
        return _DEVICE


_DEVICE = device("privateuseone", 0)
probe = register(Probe())

__all__ = ["Probe", "ProbeArray", "probe", "reads", "xp"]
