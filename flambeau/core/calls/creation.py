"""Options and sizes that all factories share: ``out``, ``dtype``, ``layout``, ``device``, ``pin_memory`` and ``requires_grad``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtype as dtypes
from ..arrays.kinds import make_at, pinning_kind, place_of
from ..device import pinned_host
from ..layout import layout as Layout, strided
from ..state import thread, without_grad
from ..tensor import Tensor

OPTIONS = {"dtype": None, "layout": None, "device": None, "pin_memory": False, "requires_grad": False}
PYTHON_TYPES = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_, complex: dtypes.complex128}


def dtype_of(value: Any, operation: str) -> dtypes.dtype:
    """``dtype`` argument as a dtype that arrays can have; Python's number types stand for their widest dtype.

    Raises:
        TypeError: no dtype. NotImplementedError: a dtype that NumPy has no element type for.
    """
    if not isinstance(value, dtypes.dtype):
        dtype = PYTHON_TYPES.get(value) if isinstance(value, type) else None
        if dtype is None:
            raise TypeError(f"{operation}(): argument 'dtype' must be torch.dtype, not {type(value).__name__}")
        return dtype
    if value.numpy is None:
        raise NotImplementedError(f"{operation}: dtype {value} is not supported yet: NumPy has no such element type")
    return value


def sizes_from(size: tuple[Any, ...], operation: str) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence.

    Raises:
        TypeError: not integers. RuntimeError: negative.
    """
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    elif not size:
        raise TypeError(f'{operation}() missing 1 required positional arguments: "size"')
    for value in size:
        if value.__class__ is not int or value < 0:
            break
    else:  # the usual case
        return size
    sizes = []
    for position, value in enumerate(size):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            where = (
                "(position 1) must be tuple of ints, not"
                if position == 0 and len(size) == 1
                else (f'failed to unpack the object at pos {position + 1} with error "type must be tuple of ints,but got')
            )
            raise TypeError(f"{operation}(): argument 'size' {where} {type(value).__name__}" + ('"' if "unpack" in where else ""))
        sizes.append(value.__index__())
    if sizes and min(sizes) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    return tuple(sizes)


def require_grad(tensor: Tensor) -> Tensor:
    """Mark a fresh leaf.

    Raises:
        RuntimeError: an integer or bool tensor.
    """
    if tensor._array.dtype.kind in "biu":
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if without_grad and thread.inference:
        return tensor.requires_grad_()
    tensor._requires_grad = True
    return tensor


class Creation:
    """The options of one call of a factory, checked.

    Attributes:
        name: the factory's.
        layout: the one given, else that of the tensor that the factory follows, else ``torch.strided``.
        where: the device that the tensor is to be on: the one given, else that of the tensor that the factory follows or of ``out``, else
            the thread's.
        dtype: the one given, else ``out``'s, else that of the tensor that the factory follows, else None.
        out: the tensor to write into, or None.
        requires_grad: whether the result is to be a leaf that requires grad.
        options: those that are not at their defaults.
    Raises:
        NotImplementedError: a layout, dtype or device that is not there. TypeError: ``dtype`` or ``out`` of another type.
        RuntimeError: pinned memory, which needs an accelerator, or ``dtype`` is not ``out``'s.
    """

    __slots__ = ("dtype", "layout", "name", "options", "out", "requires_grad", "where")

    def __init__(self, name: str, options: dict[str, Any], model: Any, out: Any):
        self.name, self.options, self.out = name, options, out
        if out is not None and not isinstance(out, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
        followed = model if isinstance(model, Tensor) else out
        self.layout = strided if followed is None else followed.layout
        where = options.get("device")
        if where is None and followed is not None:
            self.where = followed.device
        else:
            self.where = place_of(thread.creation_device if where is None else where, name)
        self.dtype = None if followed is None else followed.dtype
        self.requires_grad = False
        if options:
            self._choose(**options)

    def _choose(
        self, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False
    ) -> None:
        if layout is not None:
            if not isinstance(layout, Layout):
                raise TypeError(f"{self.name}(): argument 'layout' must be torch.layout, not {type(layout).__name__}")
            self.layout = layout
        if pin_memory:
            pinning_kind(
                "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system."
            )
            if self.where.type != "cpu":
                raise RuntimeError(f"Only dense CPU tensors can be pinned, got device '{self.where}'")
            self.where = pinned_host
        self.requires_grad = bool(requires_grad)
        if dtype is not None:
            self.dtype = dtype_of(dtype, self.name)
            if self.out is not None and self.out.dtype is not self.dtype:
                raise RuntimeError(f"dtype {self.dtype.legacy} does not match dtype of out parameter ({self.out.dtype.legacy})")

    def make(self, function: Callable[..., Any], *args: Any) -> Any:
        """Array that ``function(*args)``, with NumPy's functions, makes on the device."""
        return make_at(self.where, function, *args)

    def dtype_or_default(self) -> dtypes.dtype:
        return self.dtype or dtypes.get_default_dtype()

    def sizes(self, sizes: tuple[Any, ...], size: Any) -> tuple[int, ...]:
        """Sizes given one by one, as a sequence, or by the keyword ``size``.

        Raises:
            TypeError: not integers, or given twice. RuntimeError: negative.
        """
        if size is None:
            return sizes_from(sizes, self.name)
        if sizes:
            raise TypeError(f"{self.name}() got multiple values for argument 'size'")
        return sizes_from((tuple(size),), self.name)
