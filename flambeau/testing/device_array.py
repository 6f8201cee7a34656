"""Arrays of a device that is not there: they behave as CuPy's do, computed by NumPy in memory that only they reach.

What CuPy refuses is refused here (read off CuPy 14.2):

- no implicit conversion: ``np.asarray(array)``, the buffer protocol and ``__array_interface__`` are errors;
- a NumPy array beside a device array is a TypeError, 0-d ones too; NumPy *scalars* and Python numbers are welcome, and an index may be
  a NumPy array;
- results are always arrays: a full reduction and an element are 0-d device arrays, never scalars;
- ufuncs' ``reduce`` and ``accumulate`` of add and multiply only, ``at`` of seven and of some dtypes, no ``where=``, no ``initial=``;
  ``where`` makes float32 of bfloat16;
- functions that go by a method take arrays alone, no numbers or tuples; arrays are joined with arrays, not with lists; systems of equations
  come with right sides of as many dimensions;
- a ufunc's result lies row by row, or column by column where its operands do;
- ``flags`` have three fields; functions that CuPy lacks are missing here too.

``reads.count`` is how often the host read a value, which on a GPU waits for the device, and ``reads.copies`` how many of these were whole
arrays: such an operation is computed on the host.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..core.arrays.device_numpy import REDUCED, SCATTERED

_COMPARISONS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
MISSING = frozenset(
    (
        "asmatrix block bmat busday_count busday_offset datetime_as_string einsum_path frompyfunc fromregex geomspace histogram_bin_edges "
        "insert isnat matvec nanpercentile nanquantile ndenumerate nditer nested_iters polyder polydiv polyint spacing unstack vecdot "
        "vecmat"
    ).split()
)
# Of SciPy's special functions that kernels use, what ``cupyx.scipy.special`` has not.
MISSING_SPECIAL = frozenset(("airy",))
# Methods and functions whose result shows the same memory, and which start no work on the device.
_VIEWS = frozenset("transpose swapaxes squeeze view diagonal broadcast_to moveaxis expand_dims as_strided".split())


class Reads:
    """Counter of the host's reads of values of a device."""

    count = 0
    copies = 0


reads = Reads()


class Memory:
    """``array.data``: where on the device it lies."""

    __slots__ = ("array", "ptr")

    def __init__(self, array: DeviceArray):
        self.array, self.ptr = array, array._host.__array_interface__["data"][0]


class Flags:
    __slots__ = ("c_contiguous", "f_contiguous", "owndata")

    def __init__(self, flags: Any):
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata


class DeviceArray(NDArrayOperatorsMixin):
    """A strided, mutable array on a device; subclasses determine which, in ``_placed`` and ``_used``. Operators are calls of ufuncs."""

    __slots__ = ("__weakref__", "_host")
    _host: np.ndarray
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    # -- for subclasses -------------------------------------------------------------------------------------------------------------
    @classmethod
    def _placed(cls, host: np.ndarray, viewed: DeviceArray | None = None) -> Any:
        """An array of the device with NumPy's array ``host`` behind it, which is a view of the memory of ``viewed``."""
        array = object.__new__(cls)
        array._host = host
        return array

    def _used(self) -> np.ndarray:
        """The array behind, for work on the device."""
        return self._host

    # -- between the host's side and the device's ------------------------------------------------------------------------------------
    @classmethod
    def _put(cls, host: Any, viewed: DeviceArray | None = None) -> Any:
        """NumPy's results as device arrays, in tuples and lists too."""
        if host.__class__ is np.ndarray or isinstance(host, np.generic):
            return cls._placed(np.asarray(host), viewed)
        if isinstance(host, tuple):
            parts = [cls._put(part) for part in host]
            return type(host)(*parts) if hasattr(host, "_fields") else tuple(parts)
        return [cls._put(part) for part in host] if isinstance(host, list) else host

    @classmethod
    def _take(cls, value: Any) -> Any:
        """The host's side of an argument.

        Raises:
            TypeError: a NumPy array, which would have to be copied to the device behind the caller's back.
        """
        kind = value.__class__
        if kind is cls:
            return value._used()
        if kind is np.ndarray:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        if kind is tuple or kind is list:
            return kind([cls._take(part) for part in value])
        return {name: cls._take(part) for name, part in value.items()} if kind is dict else value

    @classmethod
    def _take_index(cls, key: Any) -> Any:
        """An index, in which NumPy arrays may stand."""
        if key.__class__ is tuple:
            return tuple([cls._take_index(part) for part in key])
        return key._host if key.__class__ is cls else key

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(type(self), ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in MISSING:
            raise TypeError(f"no implementation found for {function.__name__}")
        return call(type(self), function, args, kwargs)

    dtype = property(lambda self: self._host.dtype)
    shape = property(lambda self: self._host.shape)
    strides = property(lambda self: self._host.strides)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    flags = property(lambda self: Flags(self._host.flags))
    data: Any = property(Memory)
    device: Any = property(lambda self: 0)
    T = property(lambda self: self._put(self._host.T, self))
    real = property(lambda self: self._put(self._host.real, self), lambda self, value: setattr(self._used(), "real", self._take(value)))
    imag = property(lambda self: self._put(self._host.imag, self), lambda self, value: setattr(self._used(), "imag", self._take(value)))
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
        return f"{type(self).__name__}({self._host!r})"

    def __getitem__(self, key: Any) -> Any:
        if not _is_basic(key):
            return self._put(self._used()[self._take_index(key)])
        part = self._host[key]
        if part.__class__ is not np.ndarray:  # an element: NumPy's is a scalar, here it is a view like any other
            part = self._host[(*key, ...) if key.__class__ is tuple else (key, ...)]
        return self._put(part, self)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._used()[self._take_index(key)] = self._take(value)


def _is_basic(key: Any) -> bool:
    """Whether an index selects a view: numbers, slices, None and the ellipsis."""
    parts = key if key.__class__ is tuple else (key,)
    return all(
        part is None or part is Ellipsis or (isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool)) for part in parts
    )


def _read(name: str, function: Callable[..., Any]) -> None:
    def method(self: DeviceArray, *args: Any) -> Any:
        reads.count += 1
        return function(self._host, *args)

    setattr(DeviceArray, name, method)


for _name, _function in {"__bool__": bool, "__int__": int, "__float__": float, "__complex__": complex, "__index__": operator.index}.items():
    _read(_name, _function)  # type: ignore[arg-type]
_read("item", np.ndarray.item)
_read("tolist", np.ndarray.tolist)
_read("tobytes", np.ndarray.tobytes)


def _refuse(kwargs: dict[str, Any]) -> None:
    for name in ("where", "initial"):
        if kwargs.get(name, True) is not True and kwargs[name] is not None:
            raise TypeError(f"got an unexpected keyword argument '{name}'")
        kwargs.pop(name, None)


def _method(name: str) -> None:
    plain = getattr(np.ndarray, name)

    def method(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        _refuse(kwargs)
        out = kwargs.get("out")
        may_view = name in _VIEWS or name in ("reshape", "ravel")
        result = plain(self._host if may_view else self._used(), *self._take(args), **self._take(kwargs))
        if out is not None:
            return out
        if may_view and result.__class__ is np.ndarray and (name in _VIEWS or np.may_share_memory(result, self._host)):
            return self._put(result, self)
        return self._put(result)

    method.__name__ = name
    setattr(DeviceArray, name, method)


_METHODS = frozenset(
    (
        "reshape transpose swapaxes ravel flatten squeeze astype copy view fill sort argsort partition argpartition cumsum cumprod sum "
        "prod max min mean std var any all argmax argmin clip round nonzero take put repeat diagonal trace conj conjugate dot "
        "searchsorted compress choose"
    ).split()
)
for _name in _METHODS:
    _method(_name)


def call(cls: type[DeviceArray], function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One of NumPy's functions, over arrays of class ``cls``."""
    if function is not np.where and function is not np.copyto:  # the two that take ``where``
        _refuse(kwargs)
    name: str = function.__name__
    first: Any = args[0] if args else None
    if name in _METHODS and args and first.__class__ is not cls and function.__module__ == "numpy":
        raise TypeError(f"'a' must be a cupy.ndarray object, not {type(first)}.")
    if name in ("concatenate", "stack") and any(part.__class__ is not cls for part in first):
        raise TypeError(f"Unsupported type {next(type(part) for part in first if part.__class__ is not cls)}")
    if name == "solve" and first.ndim > 2 and args[1].shape[: first.ndim - 1] != first.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    if name == "where" and len(args) == 3:
        kinds = {part.dtype.kind for part in args[1:] if part.__class__ is cls}
        if kinds == {"V"}:
            return cls._put(function(*cls._take(tuple(args))).astype(np.float32))
    if name in _VIEWS and first.__class__ is cls:
        return cls._put(function(first._host, *args[1:], **kwargs), first)
    out = kwargs.get("out")
    result = function(*cls._take(tuple(args)), **cls._take(kwargs))
    return out if out is not None else cls._put(result)


def call_ufunc(cls: type[DeviceArray], ufunc: Any, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """A ufunc as ``cupy.ndarray.__array_ufunc__`` runs it."""
    name = ufunc.__name__
    out = kwargs.pop("out", None)
    _refuse(kwargs)
    if method in ("reduce", "accumulate") and name not in REDUCED:
        raise TypeError(f"`cupy_{name}.{method}` is not supported yet")
    if method == "reduceat" and name != "add":
        raise TypeError(f"`cupy_{name}.reduceat` is not supported yet")
    if method == "reduceat" and inputs[0].dtype.kind == "V":
        raise TypeError("no kernel of bfloat16")
    if method == "at":
        if name not in SCATTERED:
            raise TypeError(f"`cupy_{name}.at` is not supported yet")
        array, index, *rest = inputs
        if array.dtype.name not in SCATTERED[name]:
            raise TypeError(f"cupy.{name}.at only supports {', '.join(sorted(SCATTERED[name]))} as data type")
        ufunc.at(cls._take(array), cls._take_index(index), *cls._take(rest))
        return None
    if name in _COMPARISONS:  # NumPy hands a scalar left of an operator over as a 0-d array (numpy/numpy#12142); CuPy takes its value
        inputs = [value.item() if value.__class__ is np.ndarray and not value.ndim else value for value in inputs]
    hosts = cls._take(list(inputs))
    if out is None:
        result = getattr(ufunc, method)(*hosts, **kwargs)
        return cls._put(_in_cupys_order(result, hosts) if method == "__call__" else result)
    outs = out if isinstance(out, tuple) else (out,)
    getattr(ufunc, method)(*hosts, out=tuple(cls._take(list(outs))) if method == "__call__" else cls._take(outs[0]), **kwargs)
    return outs[0] if len(outs) == 1 else outs


def _in_cupys_order(result: Any, operands: list[Any]) -> Any:
    """Result of a ufunc, row by row or, if every operand is so, column by column: CuPy keeps no other order of dimensions."""
    if isinstance(result, tuple):
        return tuple([_in_cupys_order(part, operands) for part in result])
    if result.__class__ is not np.ndarray or result.flags.c_contiguous:
        return result
    in_columns = all(array.flags.f_contiguous for array in operands if array.__class__ is np.ndarray)
    return np.array(result, order="F" if in_columns else "C")


class DeviceUfunc:
    """Counterpart of ``cupy.add``: gives device arrays, whatever it is given."""

    def __init__(self, kind: type[DeviceArray], ufunc: Any):
        self._kind, self._ufunc, self.__name__ = kind, ufunc, ufunc.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        nin = self._ufunc.nin
        if len(args) > nin:
            args, kwargs["out"] = args[:nin], tuple(args[nin:])
        return call_ufunc(self._kind, self._ufunc, "__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("reduce", "accumulate", "at", "outer", "reduceat"):
            return lambda *args, **kwargs: call_ufunc(self._kind, self._ufunc, name, args, kwargs)
        return getattr(self._ufunc, name)


class Module:
    """Counterpart of the module ``cupy``: NumPy's names over arrays of class ``kind``, as far as CuPy has them.

    Args:
        kind: the class of its arrays.
        module: NumPy, or a sub-module of it.
        name: as messages show it.
        missing: names that are not there.
    """

    def __init__(self, kind: type[DeviceArray], module: Any = np, name: str = "cupy", missing: frozenset[str] = MISSING):
        self.ndarray, self._kind, self._module, self.__name__, self._missing = kind, kind, module, name, missing

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        plain = getattr(self._module, name)
        found: Any
        if isinstance(plain, np.ufunc):
            found = DeviceUfunc(self._kind, plain)
        elif type(plain) is type(np):
            found = type(self)(self._kind, plain, f"{self.__name__}.{name}")
        elif isinstance(plain, type) or not callable(plain):
            found = plain
        else:

            def found(*args: Any, **kwargs: Any) -> Any:
                return call(self._kind, plain, args, kwargs)

            found.__name__ = name
        self.__dict__[name] = found
        return found

    def asarray(self, value: Any, dtype: Any = None, order: Any = None) -> Any:
        """``value`` on the device, which is how NumPy arrays get there."""
        kind = self._kind
        host = value._host if value.__class__ is kind else value
        if host.__class__ in (list, tuple):
            host = [part._host if part.__class__ is kind else part for part in host]
        array = np.asarray(host, dtype, order)
        if array is host:
            return value if value.__class__ is kind else kind._put(array.copy(order="K"))
        return kind._put(array)

    def array(self, value: Any, dtype: Any = None, copy: bool = True, order: Any = "K", ndmin: int = 0) -> Any:
        return self._kind._put(np.array(value._host if value.__class__ is self._kind else value, dtype, order=order, ndmin=ndmin))


def view_at(base: Any, shape: Any, dtype: np.dtype, offset: int, strides: Any) -> np.ndarray:
    """As ``cupy.ndarray(shape, dtype, base.data + offset, strides)``, on the host's side."""
    host = base._host
    if not host.flags.c_contiguous:
        reach = 1 + sum((n - 1) * step // host.itemsize for n, step in zip(host.shape, host.strides, strict=True))
        host = np.lib.stride_tricks.as_strided(host, (reach,), (host.itemsize,))
    return np.ndarray(shape, dtype, host, offset, strides)
