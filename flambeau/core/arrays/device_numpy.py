"""NumPy's names over another module of arrays, CuPy's or the probe's, with what such a module lacks put together from what it has.

Reference kernels of a device are bound to a ``Namespace``, on the tests' probe and on CuPy alike: what the tests see there is what runs.

    a kernel says             CuPy 14 has                       what is done here
    np.maximum.reduce(x)      ``reduce`` of add and multiply    ``max``, ``min``, ``any``, ``all``, ``nanmax``, ``nanmin``
    np.maximum.accumulate(x)  ``accumulate`` of these two       running values in log2(n) steps
    np.multiply.at(x, i, v)   ``at`` of seven ufuncs            on the host
    np.add.at(x, i, v)        of some dtypes, and of maxima of  of a wider dtype; complex numbers and maxima of
                              float64 with 24 bits              float64 on the host
    np.add.reduceat(x, i)     none of bfloat16                  of float32
    np.where(c, x, y)         float32 where x is bfloat16       of the bits
    np.add.reduce(x, ...)     no ``where=``, no ``initial=``    kernels do without
    np.logical_not(z)         none of complex numbers           of ``z != 0``; so for bfloat16
    np.errstate, np.finfo     none, or NumPy's own              NumPy's own: they make no array
    np.vecdot(x, y)           no such function                  on the host, as every function that CuPy lacks
    special.erf(x)            ``cupyx.scipy.special``           that; on the host what it lacks
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Ufuncs whose methods a module of device arrays has itself.
REDUCED = frozenset(("add", "multiply"))
_WORDS = frozenset(("int32", "int64", "uint32", "uint64"))
_COMPARED, _ADDED = _WORDS | {"float32"}, _WORDS | {"float16", "float32", "float64"}
# The dtypes in which ``at`` can be trusted; others are computed in a wider one, or else on the host.
SCATTERED = {"add": _ADDED, "subtract": _ADDED, "maximum": _COMPARED, "minimum": _COMPARED}
SCATTERED |= dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _WORDS)
_WIDER = dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), "int32") | dict.fromkeys(("float16", "bfloat16"), "float32")
# Reductions that have a function of their own.
_REDUCTIONS = {"maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all", "fmax": "nanmax", "fmin": "nanmin"}
_OF_TRUTH = frozenset(("logical_and", "logical_or", "logical_xor", "logical_not"))
# What gives no array: NumPy's own serves.
_OF_THE_HOST = frozenset(
    (
        "dtype iinfo finfo errstate seterr geterr ndindex broadcast_shapes promote_types result_type can_cast isscalar issubdtype shape "
        "ndim size iscomplexobj isrealobj may_share_memory shares_memory index_exp s_ printoptions"
    ).split()
)


class Ufunc:
    """A ufunc of the namespace; reductions that its module lacks go by other functions.

    Args:
        namespace: whose ufunc it is.
        function: the module's own.
        name: NumPy's name of it.
    """

    def __init__(self, namespace: Namespace, function: Any, name: str):
        self._namespace, self._function, self.__name__ = namespace, function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if out.__class__ is tuple and len(out) == 1:
            kwargs["out"] = out[0]
        if self.__name__ in _OF_TRUTH:
            args = tuple([value != 0 if hasattr(value, "dtype") and value.dtype.kind in "cV" else value for value in args])
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        name = self.__name__
        if name not in _REDUCTIONS:
            return self._function.reduce(array, axis, dtype, out, keepdims)
        result = getattr(self._namespace, _REDUCTIONS[name])(array, axis=axis, keepdims=keepdims)
        if out is None:
            return result
        out[...] = result
        return out

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ in REDUCED:
            return self._function.accumulate(array, axis, dtype, out)
        result, step = array.copy(), 1
        lines = result.swapaxes(0, axis)
        while step < lines.shape[0]:  # after a step each element has met the ``2 * step`` before it
            lines[step:] = self(lines[step:], lines[:-step].copy())
            step *= 2
        if out is None:
            return result
        out[...] = result
        return out

    def reduceat(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        """``reduceat``, of bfloat16 in float32."""
        if array.dtype.kind != "V":
            return self._function.reduceat(array, *args, **kwargs)
        return self._function.reduceat(array.astype(np.float32), *args, **kwargs).astype(array.dtype)

    def at(self, array: Any, index: Any, *values: Any) -> None:
        dtypes = SCATTERED.get(self.__name__, frozenset())
        wider = _WIDER.get(array.dtype.name)
        if array.dtype.name in dtypes:
            self._function.at(array, index, *values)
            return
        if wider in dtypes:
            wide = array.astype(wider)
            self._function.at(wide, index, *[value.astype(wider) if hasattr(value, "dtype") else value for value in values])
            array[...] = wide != 0 if array.dtype.kind == "b" else wide.astype(array.dtype)
            return
        whole = array.get()
        getattr(np, self.__name__).at(whole, _on_host(index), *map(_on_host, values))
        array[...] = self._namespace.asarray(whole)


def _on_host(value: Any) -> Any:
    """``value`` with its device arrays as NumPy's."""
    if value.__class__ is list or value.__class__ is tuple:
        return type(value)([_on_host(part) for part in value])
    return value.get() if hasattr(value, "get") and hasattr(value, "dtype") else value


def _each_array(value: Any, function: Callable[[Any], Any]) -> Any:
    """``value`` with ``function`` applied to its NumPy arrays and scalars."""
    if isinstance(value, (tuple, list)):
        parts = [_each_array(part, function) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return function(value) if isinstance(value, (np.ndarray, np.generic)) else value


class Namespace:
    """The module that the name ``np`` stands for in a kernel bound to device arrays.

    Args:
        module: CuPy, or what stands in for it, or a sub-module of either.
        original: NumPy, or its sub-module of the same name, or SciPy's.
    """

    def __init__(self, module: Any, original: Any = np, root: Any = None):
        self._module, self._original, self.__name__ = module, original, original.__name__
        self._root = module if root is None else root  # the module that makes arrays

    def __getattr__(self, name: str) -> Any:
        original = getattr(self._original, name)
        if name in _OF_THE_HOST and self._original is np:
            found = original
        else:
            found = getattr(self._module, name, None)
            if found is None and callable(original):
                found = self._hosted(original)
            elif isinstance(original, np.ufunc):
                found = Ufunc(self, found, original.__name__)
            elif type(original) is type(np):
                found = Namespace(found, original, self._root)
            elif found is None:
                raise AttributeError(f"module '{self.__name__}' of a device has no attribute '{name}'")
        self.__dict__[name] = found
        return found

    def where(self, condition: Any, *values: Any) -> Any:
        """``where``, which selects bits where bfloat16 is all there is."""
        kinds = [value.dtype for value in values if value.__class__ is self._root.ndarray]
        if not kinds or kinds[0].kind != "V" or kinds[-1] != kinds[0]:
            return self._module.where(condition, *values)
        bits = [self._root.asarray(value, kinds[0]).view(np.uint16) for value in values]
        return self._module.where(condition, *bits).view(kinds[0])

    def _hosted(self, function: Any) -> Any:
        """A function that the device's module lacks: on copies in the host's memory."""

        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*map(_on_host, args), **{name: _on_host(value) for name, value in kwargs.items()})
            return _each_array(result, self._root.asarray)

        return call
