"""``Parameter`` and ``Buffer``: tensors that register themselves when assigned to a module's attribute.

An uninitialized one has a dtype and a device, but no shape yet: a lazy module gives it one at its first call.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.calls.override import DisableTorchFunctionSubclass
from ..core.tensor import Parameter, Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]


_ParameterMeta = type(Parameter)


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """A buffer is an ordinary tensor with a mark, so that tensor subclasses can be buffers too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that registers itself as a buffer when assigned to a Module's attribute.

    Args:
        data: values; shared, not copied. An empty tensor when None.
        persistent: whether the module's ``state_dict`` holds it.
    Source: torch.nn.Buffer.
    Example:
        >>> layer = nn.Module()
        >>> layer.mean = nn.Buffer(torch.zeros(2))
        >>> list(layer.state_dict())
        ['mean']
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        values = ops.empty(0) if data is None else data
        buffer = values.detach().requires_grad_(values.requires_grad)
        buffer._is_buffer = True
        buffer.persistent = persistent
        return buffer


def _complain(func: Any) -> None:
    raise ValueError(
        f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a `LazyModule` or explicitly "
        "manipulating `torch.nn.parameter.UninitializedParameter` objects. When using LazyModules Call `forward` with a dummy batch "
        "to initialize the parameters before calling torch functions"
    )


def _refused(name: str) -> Any:
    """A method that raises."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _complain(getattr(Tensor, name))

    method.__name__ = name
    return method


class UninitializedTensorMixin:
    """Methods of uninitialized parameters and buffers: nothing but conversions can be done with them until they have a shape.

    Attributes:
        cls_to_become: the class of the tensor once it has a shape.
    Source: torch.nn.parameter.UninitializedTensorMixin.
    Example:
        >>> weight = nn.parameter.UninitializedParameter(dtype=torch.float64)
        >>> weight.materialize((2, 3))
        >>> weight.shape, weight.dtype
        (torch.Size([2, 3]), torch.float64)
    """

    cls_to_become: Any = Tensor
    _allowed = frozenset(
        "__hash__ size copy_ is_complex is_floating_point half float double char short int long cuda cpu to get_device "
        "requires_grad dtype device is_leaf grad grad_fn data _to_copy".split()
    )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take a shape, with memory that is not initialized, and become an ordinary parameter or tensor.

        Args:
            shape: sizes of the dimensions.
            device, dtype: those the tensor has already, when None.
        Source: torch.nn.parameter.UninitializedTensorMixin.materialize.
        """
        this: Any = self
        this.data = ops.empty(shape, device=this.device if device is None else device, dtype=this.dtype if dtype is None else dtype)
        this.__class__ = this.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when trying "
            "to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before accessing "
            "their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters before calling "
            "`module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)  # type: ignore[attr-defined]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in cls._allowed:
            with DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
            # a parameter takes over the data of what it was converted to; a buffer is replaced by it
            return result.as_subclass(cls) if cls.cls_to_become is Tensor and type(result) is Tensor else result
        _complain(func)

    # methods that call no operation, so that ``__torch_function__`` is not called for them
    requires_grad_, backward, tolist, item = map(_refused, ("requires_grad_", "backward", "tolist", "item"))
    numel, nelement, dim, ndimension, __len__ = map(_refused, ("numel", "nelement", "dim", "ndimension", "__len__"))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape; ``materialize`` gives it one.

    Args:
        requires_grad: whether operations on it are recorded.
        device, dtype: as for ``torch.empty``.
    Raises:
        TypeError: ``requires_grad`` is not a bool.
        ValueError: any operation before ``materialize``.
    Source: torch.nn.parameter.UninitializedParameter.
    Example:
        >>> weight = nn.parameter.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> type(weight).__name__, weight.shape
        ('Parameter', torch.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        if not isinstance(requires_grad, bool):
            raise TypeError(f"UninitializedParameter: requires_grad must be bool, not {type(requires_grad).__name__}")
        parameter = Parameter.__new__(cls, ops.empty(0, device=device, dtype=dtype), False)
        parameter._requires_grad = requires_grad
        return parameter

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape; ``materialize`` gives it one.

    Args:
        requires_grad: whether operations on it are recorded.
        device, dtype: as for ``torch.empty``.
        persistent: whether the module's ``state_dict`` holds it.
    Raises:
        ValueError: any operation before ``materialize``.
    Source: torch.nn.parameter.UninitializedBuffer.
    Example:
        >>> statistics = nn.parameter.UninitializedBuffer()
        >>> statistics.materialize((3,))
        >>> type(statistics).__name__, statistics.shape
        ('Tensor', torch.Size([3]))
    """

    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True) -> Any:
        buffer = ops.empty(0, device=device, dtype=dtype)
        buffer._requires_grad = requires_grad
        buffer.__class__ = cls
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def is_lazy(param: Any) -> bool:
    """Whether a tensor is an uninitialized parameter or buffer.

    Args:
        param: any object.
    Returns:
        A bool.
    Source: torch.nn.parameter.is_lazy.
    Example:
        >>> nn.parameter.is_lazy(nn.LazyLinear(2).weight), nn.parameter.is_lazy(nn.Linear(3, 2).weight)
        (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)
