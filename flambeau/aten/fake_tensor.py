"""``FakeTensorMode``: tensors that have a shape, strides, a dtype and a claimed device, and no values.

The mode does every call on tensors of the device ``meta`` that show the same (absent) memory, and says of the results that they lie
where the arguments claim to lie. Source: torch._subclasses.fake_tensor.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Iterator
from typing import Any

from ..core.arrays.hollow import HollowArray, filled, hollow
from ..core.arrays.kinds import MissingValue, MissingValues
from ..core.arrays.meta_array import empty_strided, view_at
from ..core.calls.override import DisableTorchFunction
from ..core.device import cpu, device as Device
from ..core.dtype import get_default_dtype
from ..core.shape import contiguous_strides, wrap_dim
from ..core.state import thread
from ..core.tensor import Parameter, Tensor, share, storage_of, wrap
from ..utils._python_dispatch import TorchDispatchMode
from ..utils._pytree import tree_flatten, tree_map_only
from . import below
from .calls import overload_named

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorConverter", "FakeTensorDeviceMismatchError",
    "FakeTensorMode", "UnsupportedFakeTensorException", "UnsupportedOperatorException", "is_fake", "maybe_get_fake_mode",
    "unset_fake_temporarily",
]  # fmt: skip

CONSTANT_NUMEL_LIMIT = 1  # tensors of data keep their values up to this size
_META = Device("meta")
# Kernels whose results' shapes depend on values, and those that return a value.
_OF_DYNAMIC_SHAPE = frozenset(("aten::nonzero", "aten::masked_select", "aten::bincount"))
_OF_VALUES = frozenset(("aten::_local_scalar_dense", "aten::equal", "aten::allclose", "aten::is_nonzero"))
_RANDOM = ("aten.normal", "aten.uniform", "aten.random", "aten.bernoulli", "aten.exponential", "aten.rand", "aten.empty")
_MOVING = frozenset(("aten::_to_copy", "aten::_pin_memory"))


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that cannot be faked, a sparse one for example."""


class _OfKernel(RuntimeError):
    def __init__(self, func: Any):
        super().__init__(str(func))
        self.func = func


class DynamicOutputShapeException(_OfKernel):
    """A result's shape depends on values, which are not there."""


class DataDependentOutputException(_OfKernel):
    """A value is read, which is not there."""


class UnsupportedOperatorException(_OfKernel):
    """A kernel that does not run without values."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """Arguments claim to lie on different devices."""


class FakeTensor(Tensor):
    """A tensor without values that says on which device it lies; see ``FakeTensorMode``.

    Attributes:
        fake_mode: the mode that made it. fake_device: where it says it lies.
        constant: the tensor of data that it stands for, where that is known and small.
    Source: torch._subclasses.fake_tensor.FakeTensor.
    """

    fake_mode: FakeTensorMode
    constant: Tensor | None
    _sizes: Any = None  # its shape, where a size of it is symbolic
    _worlds: Any = None  # what stands for it at other sizes: see ``symbolic_fakes``

    @staticmethod
    def __new__(
        cls: type, fake_mode: FakeTensorMode, elem: Tensor, device: Any, constant: Tensor | None = None, real_tensor: Any = None
    ) -> Any:
        if real_tensor is not None:
            raise NotImplementedError("FakeTensor: real tensors beside fake ones (real_tensor) are not supported")
        if elem.device.type != "meta":
            raise AssertionError(f"elem.device.type must be 'meta', got {elem.device.type}")
        fake: Any = object.__new__(cls)
        fake._array = hollow(filled(elem._array), _with_index(Device(device)))
        fake._storage = storage_of(elem)
        fake._storage._add_alias(fake)
        fake._node = fake._view_of = fake._grad = None
        fake._requires_grad = False
        fake.fake_mode, fake.constant = fake_mode, constant
        return fake

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """A fake of a tensor; see ``FakeTensorMode.from_tensor``."""
        return fake_mode.from_tensor(t)

    @property
    def fake_device(self) -> Any:
        return self.device

    @property
    def shape(self) -> Any:
        return Tensor.shape.fget(self) if self._sizes is None else self._sizes  # type: ignore[attr-defined]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension; symbolic ones are symbolic integers."""
        return Tensor.size(self, dim) if self._sizes is None else self._sizes if dim is None else self._sizes[wrap_dim(dim, self.ndim)]

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements; those of a row-major tensor follow its symbolic sizes."""
        strides = Tensor.stride(self)
        if self._sizes is not None and strides == contiguous_strides(tuple(self._array.shape)):
            strides = tuple([math.prod(self._sizes[d + 1 :]) for d in range(self.ndim)])
        return strides if dim is None else strides[wrap_dim(dim, len(strides))]

    def numel(self) -> int:
        """Number of elements."""
        return Tensor.numel(self) if self._sizes is None else math.prod(self._sizes)

    nelement = numel

    def __len__(self) -> int:
        return Tensor.__len__(self) if self._sizes is None else int(self._sizes[0])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tracer = thread.dispatch_modes[-1] if thread.dispatch_modes else None
        with _without_override():
            takes: Any = getattr(tracer, "takes_function", None)
            result = NotImplemented if takes is None else takes(func, args, kwargs or {})
            return func(*args, **(kwargs or {})) if result is NotImplemented else result

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mode = next(item.fake_mode for item in below.tensors_in(args, kwargs or {}) if isinstance(item, FakeTensor))
        return mode.dispatch(func, args, kwargs or {})

    def tolist(self) -> Any:
        """The value of a 0-d tensor of data; others have none.

        Raises:
            DataDependentOutputException: there are no values.
        """
        return self.item() if not self.dim() else [part.tolist() for part in self.unbind(0)]

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def data_ptr(self) -> int:
        return 0

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        parts = ["..."]
        if self.device.type != "cpu":
            parts.append(f"device='{self.device}'")
        parts.append(f"size={tuple(self.shape)}")
        if self.dtype is not get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self._node is not None:
            parts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        shown = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({shown})" if getattr(self, "_is_param", False) else shown

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            if self._node is not None:
                raise RuntimeError(
                    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
                )
            with self.fake_mode:
                copied: Any = self.detach().clone().requires_grad_(self.requires_grad)
            if getattr(self, "_is_param", False):
                copied._is_param = True
            memo[id(self)] = copied
        return memo[id(self)]


_without_override = DisableTorchFunction.__bases__[0]


def _with_index(where: Any) -> Any:
    """A device with its index: ``cuda`` is ``cuda:0``."""
    return Device(where.type, 0) if where.index is None and where.type not in ("cpu", "meta") else where


class FakeTensorConverter:
    """Fakes of tensors: the same one for the same tensor, memory shared where the tensors' is. Source: torch._subclasses.fake_tensor."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, FakeTensor]] = {}
        self._storages: dict[int, tuple[Any, Tensor]] = {}

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor) -> FakeTensor:
        """The fake of ``t``."""
        if id(t) in self._known and self._known[id(t)][0]() is t:
            return self._known[id(t)][1]
        if t.is_sparse or getattr(t._array, "layout", None) is not None or t.is_nested:
            raise UnsupportedFakeTensorException(f"no fake of a tensor of layout {t.layout}")
        base = t._base
        if base is not None and t._node is None and not t.requires_grad:
            whole = self.from_real_tensor(fake_mode, base)
            with fake_mode:
                fake = whole.as_strided(tuple(t.shape), t.stride(), t.storage_offset())
        else:
            fake = FakeTensor(fake_mode, self._meta(t), t.device)
            if t.requires_grad:
                fake.requires_grad_()
        if isinstance(t, Parameter):
            fake.__dict__["_is_param"] = True
        key = id(t)
        self._known[key] = (weakref.ref(t, lambda _: self._known.pop(key, None)), fake)
        return fake

    def _meta(self, t: Tensor) -> Tensor:
        """A tensor of the meta device with the strides of ``t``, over memory that stands for that of ``t``."""
        storage = storage_of(t)
        kind = t._array.dtype
        if id(storage) not in self._storages or self._storages[id(storage)][0]() is not storage:
            whole = wrap(empty_strided((max(storage.nbytes() // kind.itemsize, 1),), (1,), kind))
            self._storages[id(storage)] = (weakref.ref(storage), whole)
        whole = self._storages[id(storage)][1]
        steps = [step * kind.itemsize for step in t.stride()]
        return share(view_at(whole._array, tuple(t.shape), kind, t.storage_offset() * kind.itemsize, steps), storage_of(whole))


class FakeTensorMode(TorchDispatchMode):
    """A context in which tensors have no values: they are made at once, whatever their size, on any device that they name.

    Args:
        allow_non_fake_inputs: whether plain tensors may be arguments too; fakes are made of them.
        allow_fallback_kernels, export: for kernels that need values, which there are none of.
        shape_env: a ``ShapeEnv``, for tensors with symbolic sizes.
        static_shapes: whether ``from_tensor`` makes sizes that are no symbols; so it does without a ``shape_env``.
    Raises:
        AssertionError: from calls, a plain tensor among the arguments, or fakes of another mode.
        DataDependentOutputException, DynamicOutputShapeException: from calls that need values.
        FakeTensorDeviceMismatchError: from calls with arguments on several devices.
    Example:
        >>> import flambeau as torch
        >>> from flambeau._subclasses import FakeTensorMode
        >>> with FakeTensorMode():
        ...     layer = torch.nn.Linear(200_000, 200_000, device="cuda")
        ...     result = layer(torch.empty(64, 200_000, device="cuda"))
        >>> result
        FakeTensor(..., device='cuda:0', size=(64, 200000), grad_fn=<AddmmBackward0>)

    Source: torch._subclasses.fake_tensor.FakeTensorMode.
    """

    _mode_key = "FAKE"

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        super().__init__()
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.export = shape_env, export
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.fake_tensor_converter = FakeTensorConverter()

    def from_tensor(
        self, tensor: Tensor, *, static_shapes: bool | None = None, source: Any = None, symbolic_context: Any = None, trace: bool = True
    ) -> FakeTensor:
        """A fake with the shape, strides, dtype, device and ``requires_grad`` of a tensor; the same one every time.

        Args:
            static_shapes: whether its sizes are no symbols; as the mode says when None.
            source, trace: for PyTorch's tracers; there is nothing to do.
            symbolic_context: None.
        Raises:
            NotImplementedError: a ``symbolic_context``.
        """
        if symbolic_context is not None:
            raise NotImplementedError(
                "FakeTensorMode.from_tensor: a symbolic_context is not supported; see fx.experimental.symbolic_shapes"
            )
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError(f"Mixing fake modes NYI x.fake_mode={tensor.fake_mode} vs self={self}")
            return tensor
        with below.without_modes(), DisableTorchFunction():
            fake = self.fake_tensor_converter.from_real_tensor(self, tensor)
        if not (self.static_shapes if static_shapes is None else static_shapes) and fake._sizes is None and self.shape_env is not None:
            self.shape_env.fakes.symbolize(fake, [self.shape_env.create_size(n) if n > 1 else n for n in fake._array.shape])
        return fake

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Do a call: on tensors of the meta device, results on the arguments' device."""
        name = func.name()
        if name == "aten::lift_fresh":
            return self._of_data(args[0])
        if self.shape_env is not None and (name in _OF_VALUES or self.shape_env.fakes.has_unknown_length(name) or _takes_mask(name, args)):
            if (
                _constants(args, kwargs) is None
                and (made := self.shape_env.fakes.of_values(self, func, args, kwargs)) is not NotImplemented
            ):
                return made
        if self.shape_env is not None and self.shape_env.fakes.concerns(args, kwargs):
            return self.shape_env.fakes.dispatch(self, func, args, kwargs)
        fakes = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, Tensor)]
        for item in fakes:
            self._check(func, item, args, kwargs)
        if name in _OF_VALUES or name in _OF_DYNAMIC_SHAPE or _takes_mask(name, args):
            return self._of_values(func, name, args, kwargs)
        fakes = [item if isinstance(item, FakeTensor) else self.from_tensor(item) for item in fakes]
        device, args, kwargs = self._placed(func, name, fakes, args, kwargs)
        if name.startswith("aten::index_put") and _has_mask(args[1]):  # as many elements as are there are written, wherever they are
            return args[0] if name == "aten::index_put_" else args[0].clone()
        metas: dict[int, tuple[Tensor, Any, Any]] = {}  # by id of what stands for a fake: itself, so that it lives, fake and device

        def meta_of(tensor: Tensor) -> Tensor:
            fake = tensor if isinstance(tensor, FakeTensor) else self.from_tensor(tensor)
            meta = share(filled(fake._array), storage_of(fake))
            metas[id(meta)] = (meta, fake, fake.device)
            return meta

        plain_args, plain_kwargs = tree_map_only(Tensor, meta_of, (args, kwargs))
        with below.without_modes(), DisableTorchFunction():
            try:
                result = func(*plain_args, **plain_kwargs)
            except MissingValue as error:
                raise (DynamicOutputShapeException if "repeat_interleave" in name else DataDependentOutputException)(func) from error
            except MissingValues as error:
                raise DynamicOutputShapeException(func) from error

        for _, fake, where in metas.values():
            if fake._array.__class__ is not HollowArray:  # its memory has grown, and all that show it were moved
                fake._array = hollow(fake._array, where)

        def fake_of(tensor: Tensor) -> Tensor:
            known = metas.get(id(tensor))
            if known is None:
                return FakeTensor(self, tensor, device)
            fake = known[1]
            if tensor._array._frame is not fake._array._frame:  # another shape in place: resize_, t_
                fake._array = hollow(tensor._array, fake._array._where)
                fake._storage = storage_of(tensor)
            return fake

        found = tree_map_only(Tensor, fake_of, result)
        if isinstance(found, FakeTensor) and fakes:
            self._keep_constant(func, found, fakes, args, kwargs)
        return found

    def _check(self, func: Any, item: Tensor, args: Any, kwargs: Any) -> None:
        if isinstance(item, FakeTensor):
            if item.fake_mode is not self:
                raise AssertionError(f"Mixing fake modes NYI x.fake_mode={item.fake_mode} vs self={self}")
        elif not self.allow_non_fake_inputs:
            shown = [repr(value) if not isinstance(value, Tensor) or isinstance(value, FakeTensor) else _outline(value) for value in args]
            shown += [f"{key}={value!r}" for key, value in kwargs.items()]
            raise AssertionError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. "
                f"Found in {func}({', '.join(shown)})"
            )

    def _of_data(self, tensor: Tensor) -> Tensor:
        """``torch.tensor(data)``: small data are remembered, and their sizes are what they are."""
        if isinstance(tensor, FakeTensor):
            return tensor
        fake = self.from_tensor(tensor, static_shapes=True)
        if tensor.numel() <= CONSTANT_NUMEL_LIMIT and tensor.device.type == "cpu":
            fake.constant = tensor
        return fake

    def _of_values(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """A call that needs values: done where those of all arguments are known."""
        known = _constants(args, kwargs)
        if known is None:
            kind = DataDependentOutputException if name in _OF_VALUES else DynamicOutputShapeException
            raise kind(func if not _takes_mask(name, args) else overload_named("nonzero"))
        with below.without_modes(), DisableTorchFunction():
            result = func(*known[0], **known[1])
        return tree_map_only(Tensor, self._of_data, result)

    def _keep_constant(self, func: Any, result: FakeTensor, fakes: list[Any], args: Any, kwargs: Any) -> None:
        """The value of a result of tensors of data; one that is written to has none any more where not all are known."""
        is_known = result.numel() <= CONSTANT_NUMEL_LIMIT and not any(fake.constant is None for fake in fakes)
        known = _constants(args, kwargs) if is_known and not str(func).startswith(_RANDOM) else None
        if known is not None:
            with below.without_modes(), DisableTorchFunction():
                result.constant = func(*known[0], **known[1])
        elif func._schema.is_mutable:
            result.constant = None

    def _placed(self, func: Any, name: str, fakes: list[Any], args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """The device of the results, and arguments that say ``meta`` where they say a device."""
        if name.startswith("flambeau::") and not fakes:
            names = [argument.name for argument in func._schema.arguments]
            if "device" in names:
                place = names.index("device")
                where = args[place] if args[place] is not None else thread.creation_device
                return cpu if where is None else _with_index(Device(where)), (*args[:place], _META, *args[place + 1 :]), kwargs
        given = kwargs.get("device")
        if given is not None or (not fakes and "device" in [argument.name for argument in func._schema.arguments]):
            where = cpu if given is None else _with_index(Device(given))
            if name in _MOVING:
                return where, args, {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking")}
            return where, args, {**kwargs, "device": _META, **({"pin_memory": False} if "pin_memory" in kwargs else {})}
        return self._common_device(fakes), args, kwargs

    def _common_device(self, fakes: list[Any]) -> Any:
        """Device of all arguments; numbers in tensors of the CPU may lie beside."""
        found: Any = None
        for fake in fakes:
            where = fake.device
            if found is None or (found[1] and where.type != "cpu"):
                found = (where, not fake.dim() and where.type == "cpu")
            elif found[0] != where and not (not fake.dim() and where.type == "cpu"):
                if not found[1]:
                    raise FakeTensorDeviceMismatchError(
                        f"Expected all tensors to be on the same device, but found at least two devices, {found[0]} and {where}!"
                    )
                found = (where, False)
            elif found[0] == where and fake.dim():
                found = (where, False)
        return cpu if found is None else found[0]


def _takes_mask(name: str, args: Any) -> bool:
    """Whether an indexing reads as many elements as a mask has that are not zero."""
    return name == "aten::index.Tensor" and _has_mask(args[1])


def _has_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index._array.dtype.kind == "b" for index in indices)


def _constants(args: Any, kwargs: Any) -> Any:
    """Arguments with the tensors of data that fakes stand for; None where one stands for none."""
    if any(isinstance(item, FakeTensor) and item.constant is None for item in tree_flatten((args, kwargs))[0]):
        return None
    return tree_map_only(FakeTensor, lambda fake: fake.constant, (args, kwargs))


def _outline(tensor: Tensor) -> str:
    return f"tensor([...], size={tuple(tensor.shape)})"


def is_fake(x: Any) -> bool:
    """Whether a tensor has no values of its own: a fake, or one that consists of fakes. Source: torch._subclasses.fake_tensor.is_fake."""
    if isinstance(x, FakeTensor):
        return True
    if isinstance(x, Tensor) and hasattr(x, "__tensor_flatten__"):
        return any(is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0])
    return False


def maybe_get_fake_mode(t: Any) -> FakeTensorMode | None:
    """The mode that made a fake. Source: torch._subclasses.fake_tensor.maybe_get_fake_mode."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Context without ``FakeTensorMode``, which it gives. Source: torch._subclasses.fake_tensor.unset_fake_temporarily."""
    was = thread.dispatch_modes
    fake = next((mode for mode in reversed(was) if isinstance(mode, FakeTensorMode)), None)
    thread.dispatch_modes = tuple([mode for mode in was if not isinstance(mode, FakeTensorMode)])
    try:
        yield fake
    finally:
        thread.dispatch_modes = was
