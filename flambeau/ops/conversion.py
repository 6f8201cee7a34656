"""Copies and conversions: ``clone``, ``contiguous``, ``detach``, dtype and device changes."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.copies import copy_into
from ..core.arrays.kinds import copying, kind_of, moved, pinned, pinning_kind, place_of
from ..core.calls.annotations import Tensor
from ..core.calls.casting import cast_array
from ..core.calls.creation import PYTHON_TYPES
from ..core.calls.override import call_override
from ..core.calls.questions import asks
from ..core.calls.registry import add_method, composite, documented, method, op, view
from ..core.device import device, device as Device
from ..core.layout import contiguous_format, empty_as, is_contiguous_as, laid_out, memory_format, preserve_format, suggested_format
from ..core.profiling import OPERATION, profiled
from ..core.shape import element_strides, restrided
from ..core.state import INFERENCE, active, in_mode, interposed, modes, profiling
from ..core.tape.history import watch
from ..core.tape.node import StaleHistory
from ..core.tensor import Parameter, Tensor as TensorType, blanks, mark_of, share, storage_of
from .small import LIMIT  # noqa: F401  # for ``_SMALL_CAST``

_ref = weakref.ref


def copied(array: np.ndarray, form: Any, dtype: np.dtype) -> np.ndarray:
    """A copy in a memory format; strides are kept for ``preserve_format`` where the elements are dense."""
    if array.size and array.flags.c_contiguous and (form is None or form is preserve_format) and array.dtype is dtype:
        return _row_major_copy(array)
    copy = empty_as(array, form, array.shape, dtype)
    copy_into(copy, array)
    return copy


def _row_major_copy(array: np.ndarray) -> np.ndarray:
    """A copy of row-major memory, whose sizes of 1 may have any strides."""
    copy = array.copy()
    return copy if copy.strides == array.strides else restrided(copy, array.shape, array.strides)


@op(
    fast="(a.copy() if a.base is None or 1 not in a.shape else _row_major_copy(a)) "
    "if memory_format is None and 0 < a.size < THRESHOLD and (a.flags.c_contiguous or a.ndim == 1) "
    "else None if a.size < THRESHOLD else large(a, memory_format)",
    grad={"input": lambda grad: grad},
    out=False,
    forward="linear",
)
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy that stays in the graph.

    Args:
        input: any shape and dtype.
        memory_format: ``torch.preserve_format`` (the default) keeps the strides of a dense tensor.
    Returns:
        A new tensor with memory of its own, of ``input``'s shape and dtype.
    Raises:
        RuntimeError: a format for another number of dimensions.
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad``.
    Source: torch.clone.
    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> y = torch.clone(x).fill_(7)
        >>> x, y
        (tensor([1., 2.]), tensor([7., 7.]))
    """
    return copied(input, memory_format, input.dtype)


@method()
def contiguous(input: Tensor, *, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if its memory has that format, a copy in that format otherwise.

    Args:
        input: any shape and dtype.
        memory_format: ``torch.contiguous_format`` (row by row), ``torch.channels_last`` or ``torch.channels_last_3d``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself where nothing is to be moved.
    Raises:
        RuntimeError: ``preserve_format`` of a tensor that does not lie row by row, or a format for another number of dimensions.
    Gradient: ``grad``.
    Source: torch.Tensor.contiguous.
    Example:
        >>> x = torch.arange(6).reshape(2, 3).t()
        >>> x.stride(), x.contiguous().stride(), x.contiguous() is x
        ((1, 3), (2, 1), False)
    """
    if memory_format is contiguous_format or memory_format is preserve_format:
        if input.is_contiguous():
            return input
        if memory_format is contiguous_format:
            return input.clone(memory_format=memory_format)
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    elif is_contiguous_as(input._array, memory_format):
        return input
    return input.clone(memory_format=memory_format)


@asks("detached", "input")
def detach(input: Any) -> Any:
    """The same memory outside the graph: writes to either are seen by both, and noticed by backward.

    Returns:
        A tensor of this one's shape, strides and dtype that does not require a gradient.
    Gradient: none.
    Source: torch.Tensor.detach.
    """
    kind = input.__class__
    if (kind is TensorType or kind is Parameter) and not profiling:
        storage = input._storage
        if storage is None:
            storage = storage_of(input)
        detached = next(blanks)  # ``share`` spelled out: the call would be a third of the cost
        detached._array = input._array
        detached._storage = storage
        detached._node = detached._view_of = None
        detached._requires_grad = INFERENCE if input._requires_grad is INFERENCE else False
        if input._view_of is not None:
            storage.uneven = True  # perhaps: what is no view any more is looked at all the same
        aliases = storage._aliases
        if aliases:
            last = aliases.pop()
            if last() is not None:
                aliases.append(last)
                storage._room -= 1
                if not storage._room:
                    aliases = storage._prune()
            aliases.append(_ref(detached))
        else:
            storage._add_alias(detached)
        return detached
    if (active and in_mode()) or isinstance(input, TensorType):
        result = call_override(detach, (input,), (input,), {})
        if result is not NotImplemented:
            return result
        if interposed and modes.below.is_handled((input,)):
            return modes.below.detached(input)
    if not profiling:
        return share(input._array, storage_of(input), mark_of(input))
    with profiled("aten::detach", OPERATION, values=(input,)) as inside:
        return inside.gives(share(input._array, storage_of(input), mark_of(input)))


TensorType.detach = detach  # type: ignore[attr-defined]


@composite()
def detach_(input: Tensor) -> Tensor:
    """Take this tensor out of the graph; it becomes a leaf that does not require grad.

    Args:
        input: any shape and dtype; no view.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: a view, whose root would stay in the graph.
    Gradient: none flows through it any longer.
    Source: torch.Tensor.detach_.
    Example:
        >>> y = torch.ones(2, requires_grad=True) * 3
        >>> y.detach_() is y, y.requires_grad, y.is_leaf
        (True, False, True)
    """
    if input._view_of is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if input._requires_grad and input._storage is not None:
        input._pass_on(False)
        watch(input._storage)  # the next write ends the histories of its views, whose values have none from then on
    input._node, input._requires_grad = None, mark_of(input)
    return input


@composite(name="detach", method=False)
def detach_function(input: Tensor) -> Tensor:
    """``input`` without its history: a view of the same memory that does not require grad.

    Args:
        input: any shape and dtype.
    Returns:
        A tensor on ``input``'s memory; a write to one shows in the other.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: none.
    Source: torch.detach.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = torch.detach(x)
        >>> y.requires_grad, y.data_ptr() == x.data_ptr()
        (False, True)
    """
    return input.detach()


@view(batch=0, name="_alias", grad={"input": lambda grad: grad}, aten="alias")
def alias(input: Tensor) -> Tensor:
    """A view of the whole tensor."""
    return input[...]


view_of_all = alias


_float32, _float64, _float16, _bfloat16 = dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16
_SMALL_CAST = (
    "ignoring_fp(a.astype, dtype.numpy) if memory_format is None and (((dtype is _float32 or dtype is _float64) and "
    "(d is F32 or d is F64 or d is I64)) or (d is F32 and (dtype is _bfloat16 or dtype is _float16))) and "
    "a.size <= LIMIT and a.flags.c_contiguous and 1 not in a.shape else ignoring_fp(_copied_as, a, dtype, memory_format)"
)


@op(name="_to_copy", grad={"input": lambda grad: grad}, fast=_SMALL_CAST, forward="linear")
def to_copy(input: Tensor, dtype: Any, memory_format: Any = None) -> Tensor:
    """``input`` with another dtype, always a copy; see ``Tensor.to``."""
    return _copied_as(input, dtype, memory_format)


def _copied_as(input: np.ndarray, dtype: Any, memory_format: Any) -> np.ndarray:
    """Kernel of ``_to_copy``."""
    target = dtype.numpy
    if memory_format is None or memory_format is preserve_format:
        if input.flags.c_contiguous and input.dtype is not target and input.dtype.kind != "c":
            copy = cast_array(input, dtype)
            return copy if input.size and 1 not in input.shape else laid_out(copy, element_strides(input))
    copy = empty_as(input, memory_format, input.shape, target)
    copy[...] = cast_array(input, dtype)
    return copy


@op(
    batch=0,
    name="_to_device",
    node_name="ToCopyBackward0",
    grad={"input": lambda grad, source: to_device(grad, source, grad.device)},
    forward="linear",
)
def to_device(input: Tensor, where: Any, source: Any) -> Tensor:
    """A copy of ``input``, which lies on device ``source``, on another one."""
    return moved(input, where)


def converted(input: Any, dtype: Any, copy: bool = False, form: Any = None) -> Any:
    """``input`` with a dtype: itself if nothing changes and no copy is wanted."""
    have = dtypes.BY_NUM[input._array.dtype.num]
    if dtype is None or dtype is have:
        if form is not None and form is not preserve_format and suggested_format(input._array) is not form:
            return input.clone(memory_format=form)
        return to_copy(input, have, form) if copy else input
    if dtype.numpy is None:
        raise NotImplementedError(f"to: dtype {dtype} is not supported yet")
    if input._array.__class__ is not np.ndarray:
        kind_of(input._array).check_dtype(dtype.numpy)
    if have.is_complex and not dtype.is_complex and dtype is not dtypes.bool_:
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=3)
    if input._requires_grad.__class__ is StaleHistory and dtype.category < dtypes.FLOATING:
        input = input.detach()  # what cannot require grad needs no history
    return to_copy(input, dtype, form)


@method()
@asks("converted", "input, args", "not kwargs")
def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``input`` with another dtype or on another device.

    Args:
        *args, **kwargs: ``to(dtype)``, ``to(device, dtype)`` or ``to(other)``, each followed by ``non_blocking=False, copy=False`` and
            with ``memory_format=``. A class of numbers stands for its dtype (``float`` for float64), and so does a number, but for ints.
    Returns:
        ``input``'s shape; the tensor itself when nothing changes and ``copy`` is False.
    Raises:
        TypeError: arguments of no such form.
        RuntimeError: a device that does not exist.
    Gradient: ``grad`` with ``input``'s dtype, on its device.
    Source: torch.Tensor.to.
    Example:
        >>> x = torch.tensor([1.9, -1.9])
        >>> x.to(torch.int64), x.to("cpu") is x
        (tensor([ 1, -1]), True)
    """
    if len(args) == 1 and not kwargs and args[0].__class__ is dtypes.dtype:
        return converted(input, args[0])
    where, dtype, copy, form, non_blocking = parse_to(args, kwargs)
    if where is None:
        return converted(input, dtype, copy, form)
    if interposed and modes.below.is_handled((input,)):
        return modes.below.moved(input, where, dtype, copy, form, non_blocking)
    return relocated(input, place_of(where, "to"), dtype, copy, form, non_blocking)


def relocated(input: Any, where: device, dtype: Any = None, copy: bool = False, form: Any = None, non_blocking: bool = False) -> Any:
    """``input`` on a device, with a dtype: itself if nothing changes and no copy is wanted."""
    source = input.device
    if source == where:
        return converted(input, dtype, copy, form)
    with copying.without_waiting(non_blocking):
        elsewhere = to_device(converted(input, dtype), where, source)
    return converted(elsewhere, None, False, form)


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any, bool]:
    """Arguments of ``Tensor.to`` as (device, dtype, copy, memory format, non-blocking).

    Raises:
        TypeError: arguments that fit none of the forms.
    """
    given = dict(kwargs)
    rest = list(args)
    where: Any = None
    dtype: Any = None
    if rest:
        first = rest.pop(0)
        if isinstance(first, (dtypes.dtype, type)):
            dtype = first
        elif isinstance(first, (bool, float, complex)):  # as the class of the number, but an int is a device
            dtype = type(first)
        elif isinstance(first, TensorType):
            where, dtype = first.device, first.dtype
        elif first is None or isinstance(first, (str, device, int)):
            where = first
            if rest and (isinstance(rest[0], (dtypes.dtype, type)) or rest[0] is None):
                dtype = rest.pop(0)
        else:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(first).__name__})")
    elif "other" in given:
        other = given.pop("other")
        if not isinstance(other, TensorType):
            raise TypeError(f"to(): argument 'other' must be Tensor, not {type(other).__name__}")
        where, dtype = other.device, other.dtype
    where = given.pop("device", where)
    dtype = given.pop("dtype", dtype)
    for name in ("non_blocking", "copy"):
        if rest:
            given[name] = rest.pop(0)
    non_blocking = bool(given.pop("non_blocking", False))
    copy, form = given.pop("copy", False), given.pop("memory_format", None)
    if rest or given:
        raise TypeError(f"to() received an invalid combination of arguments - unexpected {sorted(given) or rest}")
    if form is not None and not isinstance(form, memory_format):
        raise TypeError(f"to(): argument 'memory_format' must be torch.memory_format, not {type(form).__name__}")
    if isinstance(dtype, type):
        dtype = PYTHON_TYPES.get(dtype, dtype)
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"to() received an invalid combination of arguments - got dtype={dtype!r}")
    return where, dtype, bool(copy), form, non_blocking


def _cast_method(name: str, dtype: Any) -> None:
    @documented(name=name, dtype=dtype)
    @asks("converted", "self, dtype", "memory_format is preserve_format")
    def cast(self: Any, *, memory_format: Any = preserve_format) -> Any:
        """The tensor as ``{dtype}``.

        Args:
            memory_format: of a copy; ``torch.preserve_format`` keeps the strides of a dense tensor.
        Returns:
            The tensor itself where it has that dtype, a copy otherwise.
        Raises:
            RuntimeError: a format for another number of dimensions.
        Gradient: ``grad`` with this tensor's dtype.
        Source: torch.Tensor.{name}.
        """
        if self.dtype is dtype and memory_format is preserve_format:
            return self
        return converted(self, dtype, False, memory_format)

    cast.__name__ = cast.__qualname__ = name
    add_method(name, lambda: cast)


for _name, _dtype in {
    **{n: dtypes.ALL[n] for n in ("float", "double", "half", "bfloat16", "short", "int", "long", "bool", "cfloat", "cdouble", "chalf")},
    "char": dtypes.int8,
    "byte": dtypes.uint8,
}.items():
    _cast_method(_name, _dtype)


@method(name="cpu")
def to_cpu(input: Tensor, *, memory_format: Any = preserve_format) -> Tensor:
    """The tensor on the CPU.

    Args:
        input: any shape and dtype.
        memory_format: of a copy; ``torch.preserve_format`` keeps the strides of a dense tensor.
    Returns:
        ``input`` itself when it is there, a copy otherwise.
    Raises:
        NotImplementedError: a tensor of the meta device, which has no values.
    Gradient: ``grad`` on ``input``'s device.
    Source: torch.Tensor.cpu.
    Example:
        >>> x = torch.tensor([1, 2])
        >>> x.cpu() is x
        True
    """
    return relocated(input, place_of("cpu"), None, False, memory_format)


@method()
def cuda(input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """The tensor on a CUDA device.

    Args:
        input: any shape and dtype.
        device: which; the current one for None.
        non_blocking: let a copy from pinned memory go on while the host continues.
        memory_format: of the copy.
    Returns:
        ``input`` itself when it is there, a copy otherwise.
    Raises:
        AssertionError: there is no CUDA device.
        RuntimeError: a device of another type.
    Gradient: ``grad`` on ``input``'s device.
    Source: torch.Tensor.cuda.
    Example:
        >>> x = torch.tensor([1, 2])
        >>> (x.cuda() if torch.cuda.is_available() else x).cpu()
        tensor([1, 2])
    """
    if device is not None and Device(device).type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    where = place_of("cuda" if device is None else device, "cuda")
    return relocated(input, where, None, False, memory_format, non_blocking)


def _declare_absent(name: str, error: type[Exception], message: str) -> None:
    @method(name=name)
    @documented(name=name, error=error.__name__, message=message)
    def absent(input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = preserve_format) -> Tensor:
        """The tensor on a device that is never there.

        Args:
            input: any shape and dtype.
            device, non_blocking, memory_format: as for ``Tensor.cuda``.
        Returns:
            Nothing.
        Raises:
            {error}: always.
        Source: torch.Tensor.{name}.
        Example:
            >>> torch.ones(2).{name}()
            Traceback (most recent call last):
            {error}: {message}
        """
        raise error(message)


_declare_absent("xpu", AssertionError, "Torch not compiled with XPU enabled")
_declare_absent("ipu", RuntimeError, "PyTorch is not linked with support for ipu devices")
_declare_absent("mtia", AssertionError, "Torch not compiled with MTIA enabled.")


@method(name="type")
def type_method(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The legacy type's name, or the tensor converted to a dtype, a type name or a typed constructor.

    Args:
        input: any shape and dtype.
        dtype: ``torch.float64``, ``'torch.DoubleTensor'`` or ``torch.DoubleTensor``; a type names a device, too.
        non_blocking: as for ``Tensor.to``.
    Returns:
        A str without ``dtype``; otherwise a tensor of ``input``'s shape, itself when nothing changes.
    Raises:
        ValueError: an unknown name.
        TypeError: a ``dtype`` that is none of these.
    Gradient: ``grad`` with ``input``'s dtype.
    Source: torch.Tensor.type.
    Example:
        >>> x = torch.tensor([1.5, 2.5])
        >>> x.type(), x.type("torch.LongTensor")
        ('torch.FloatTensor', tensor([1, 2]))
    """
    from ..core.protocols.legacy import parse_type

    if dtype is None:
        where = input.device.type
        if input.is_sparse:
            return f"torch.sparse.{input.dtype.legacy}Tensor"
        return f"torch.{'' if where == 'cpu' else where + '.'}{input.dtype.legacy}Tensor"
    if isinstance(dtype, dtypes.dtype):
        return converted(input, dtype)
    wanted, where = parse_type(dtype)
    if where is None or where == input.device.type:
        return converted(input, wanted)
    return relocated(input, place_of(where, "type"), wanted, non_blocking=non_blocking)


@method()
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` with the dtype and device of ``other``.

    Args:
        input: any shape and dtype.
        other: tensor whose dtype and device are taken.
    Returns:
        ``input``'s shape; ``input`` itself when nothing changes.
    Raises:
        TypeError: an ``other`` that is no tensor.
    Gradient: ``grad`` with ``input``'s dtype.
    Source: torch.Tensor.type_as.
    Example:
        >>> torch.tensor([0, 2]).type_as(torch.tensor(1.0)), torch.tensor([0, 2]).type_as(torch.tensor(True))
        (tensor([0., 2.]), tensor([False,  True]))
    """
    return relocated(input, other.device, other.dtype)


@method()
def new(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Tensor that ``torch.Tensor(...)`` makes of the arguments, with ``input``'s dtype. Old: use ``new_tensor`` or ``new_empty``.

    Args:
        input: tensor whose dtype and device are taken.
        *args: sizes, for uninitialised values; or a sequence of values, a storage, or a tensor.
        **kwargs: ``device``.
    Returns:
        A new tensor of ``input``'s dtype; of a storage or a tensor the same memory.
    Raises:
        TypeError: no sizes, sequence, storage, or tensor of that dtype.
    Source: torch.Tensor.new.
    Example:
        >>> x = torch.tensor([1.0])
        >>> x.new(2, 3).shape, x.new([2, 3])
        (torch.Size([2, 3]), tensor([2., 3.]))
    """
    from ..core.protocols.legacy import construct

    return construct(TensorType, input.dtype, args, {"device": input.device, **kwargs})


@op(batch=0, name="_pin_memory", grad={"input": lambda grad: grad}, aten=None)
def pinned_copy(input: Tensor) -> Tensor:
    """A copy of ``input`` in page-locked memory."""
    return pinned(input)


@method()
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """The tensor in page-locked memory of the host, from which a device copies faster, and while the host continues.

    Args:
        input: any shape; dense, on the CPU.
        device: deprecated; the current accelerator is meant.
    Returns:
        The tensor itself where it lies there, a copy otherwise.
    Raises:
        RuntimeError: there is no accelerator to pin it for, or the tensor is on one.
    Source: torch.Tensor.pin_memory.
    Example:
        >>> x = torch.ones(2)
        >>> y = x.pin_memory() if torch.cuda.is_available() else x
        >>> y.is_pinned() == torch.cuda.is_available()
        True
    """
    if input.is_pinned():
        return input
    pinning_kind("Cannot access accelerator device when none is available.")
    if input.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{input.type()}' only dense CPU tensors can be pinned")
    return pinned_copy(input)


@method()
def record_stream(input: Tensor, s: Any) -> None:
    """Keep the tensor's memory, once the tensor is gone, until the work queued on ``s`` by then is done.

    Args:
        input: a CUDA tensor of any shape.
        s: a stream that uses the tensor, beside the one on which it was made.
    Returns:
        None.
    Raises:
        RuntimeError: no CUDA tensor, or no stream.
    Source: torch.Tensor.record_stream.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.ones(2, device="cuda").record_stream(torch.cuda.Stream())
    """
    if not hasattr(s, "cuda_stream"):
        raise RuntimeError("unknown parameter type")
    if not input.is_cuda:
        raise RuntimeError(f"record_stream: expected a CUDA tensor, got one on device '{input.device}'")
    kind: Any = kind_of(input._array)
    kind.hold_for(storage_of(input), s._cupy)


@method()
def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether both show exactly the same memory with the same shape and strides.

    Args:
        input, tensor: any shapes and dtypes.
    Returns:
        A Python bool.
    Raises:
        TypeError: a ``tensor`` that is none.
    Source: torch.Tensor.is_set_to.
    Example:
        >>> x = torch.tensor([1, 2])
        >>> x.is_set_to(x.view(2)), x.is_set_to(x.clone()), x.is_set_to(x[:1])
        (True, False, False)
    """
    a, b = input._array, tensor._array
    same = storage_of(input) is storage_of(tensor) and input.storage_offset() == tensor.storage_offset()
    return same and a.shape == b.shape and a.strides == b.strides


__all__ = ["clone", "converted", "detach", "parse_to"]
