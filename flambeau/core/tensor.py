"""The Tensor: a strided array, the storage it shares with its views, and its place on the tape.  No mathematics.

Operations are added to the class by the registry (``dispatch``), recording and ``backward`` by ``autograd``.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat, starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtype as dtypes
from .arrays.kinds import address, copied as copy_of, device_of, is_pinned, kind_of, make_at, place_of
from .calls.machine_calls import counted
from .calls.questions import asks
from .device import cpu, device
from .layout import is_contiguous_as, is_uneven, sparse_coo, sparse_csr, strided
from .shape import Size, contiguous_strides, element_strides, index_of, wrap_dim
from .state import INFERENCE, changes, dispatchers, grad_enabled, inferring, interposed, modes, profiling, thread, unrecorded
from .storage import TypedStorage, UntypedStorage
from .tape.hooks import RemovableHandle, hooked_leaves
from .tape.node import INHERITED, AccumulateGrad, Inherited, Output, StaleHistory, edge_of, graph_edge

_new = object.__new__
_size = tuple.__new__


class Tensor:
    """A multi-dimensional array of one element type. What needs more than this module is put on the class from above (``methods``).

    Slots:
        _array: strided array; strides are never negative. Views are views of the same memory.
        _storage: what it shares with its views; None until it is needed.
        _node: None for a leaf, the tape's node (or ``Output`` of one) otherwise.
        _view_of: None, the root tensor of which this is a view, or a ``ViewMeta`` naming it.
        _requires_grad, _grad: as the public attributes; ``_grad`` may be unset where there is no gradient.

    Args:
        *args: sizes, a sequence of values, another tensor or an array; the default float type is used.
    Source: torch.Tensor.
    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.shape, x[0].grad_fn is None, x.grad[1]
        (torch.Size([2, 2]), False, tensor([6., 8.]))
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_grad", "_node", "_requires_grad", "_storage", "_view_of")
    __array_priority__ = 1000
    _array: np.ndarray
    _grad: Tensor | None
    _node: Any
    _requires_grad: bool | int | Inherited | StaleHistory  # an int is INFERENCE
    _storage: UntypedStorage | None
    _view_of: Any

    if TYPE_CHECKING:  # operations and methods are put on the class from above, which a type checker cannot follow

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def as_subclass(self, cls: type) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...
        def __neg__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]  # element-wise
        def _of_two(self, other: Any) -> Tensor: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __matmul__ = _of_two
        __and__ = __or__ = __lt__ = __le__ = __gt__ = __ge__ = _of_two

        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...

    # -- what it is -------------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.BY_NUM[self._array.dtype.num]

    @property
    @asks("sizes", "self, None")
    def shape(self) -> Size:
        return _size(Size, self._array.shape)

    @property
    def device(self) -> device:
        return cpu if self._array.__class__ is np.ndarray else device_of(self._array)

    @property
    def layout(self) -> Any:
        array = self._array
        return strided if array.__class__ is np.ndarray else getattr(array, "layout", strided)

    @property
    def is_sparse(self) -> bool:
        return self._array.__class__ is not np.ndarray and self.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        return self._array.__class__ is not np.ndarray and self.layout is sparse_csr

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def names(self) -> tuple[None, ...]:
        return (None,) * self._array.ndim

    _has_tangent = False  # only tensors inside forward mode have one
    name = None  # of the function argument that it was, in PyTorch's first versions

    is_quantized = is_mkldnn = is_nested = is_mps = is_xpu = is_xla = is_vulkan = False
    is_mtia = is_ipu = is_maia = False

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    @asks("sizes", "self, dim")
    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension.

        Args:
            dim: which dimension; all when None.
        Raises:
            IndexError: ``dim`` out of range.
        """
        if dim is None:
            return _size(Size, self._array.shape)
        shape = self._array.shape
        wrapped = wrap_dim(index_of(dim), len(shape))
        if not shape:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        return shape[wrapped]

    def dim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """Number of elements."""
        return self._array.size

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._array.itemsize

    def get_device(self) -> int:
        """The device's index; -1 on the CPU."""
        index = self.device.index
        return -1 if index is None else index

    def is_floating_point(self) -> bool:
        return dtypes.BY_NUM[self._array.dtype.num].is_floating_point

    def is_complex(self) -> bool:
        return dtypes.BY_NUM[self._array.dtype.num].is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_conj(self) -> bool:
        """False: conjugation is never lazy here."""
        return False

    def is_neg(self) -> bool:
        """False: negation is never lazy here."""
        return False

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return self._requires_grad is INFERENCE

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the tensor lies in page-locked memory of the host; ``device`` is deprecated."""
        return is_pinned(self._array)

    def is_shared(self) -> bool:
        """Whether other processes can have this memory too: on CUDA always, on the CPU after ``share_memory_``."""
        return self.untyped_storage().is_shared()

    def share_memory_(self) -> Tensor:
        """Move the storage to memory that other processes can have too, and all views along; itself.

        Sent to another process, the tensor is then the same memory there. Does nothing where ``is_shared``, on CUDA for example.

        Raises:
            RuntimeError: there is no room, or the tensor lies neither on the CPU nor on CUDA.
        Source: torch.Tensor.share_memory_.
        """
        self.untyped_storage().share_memory_()
        return self

    def is_same_size(self, other: Tensor) -> bool:
        if not isinstance(other, Tensor):
            raise TypeError(f"is_same_size(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
        return self._array.shape == other._array.shape

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """The sequences of a nested tensor in a strided one; see ``torch.nested.to_padded_tensor``.

        Raises:
            NotImplementedError: the tensor is not nested.
        """
        raise NotImplementedError("to_padded_tensor: expected a nested tensor, got a strided one, which has nothing to pad")

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        return sorted(set(object.__dir__(self)))

    # -- memory -----------------------------------------------------------------------------------------------------------
    @asks("steps", "self", "dim is None")
    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements: of every dimension as a tuple, or of one.

        Example:
            >>> torch.zeros(2, 3).t().stride()
            (1, 3)
        """
        strides = element_strides(self._array)
        return strides if dim is None else strides[wrap_dim(dim, len(strides))]

    def storage_offset(self) -> int:
        """Elements between the storage's start and this tensor's first element."""
        array, storage = self._array, self._storage
        if storage is None or storage._array is array:
            return 0
        offset = address(array) - address(storage._array)
        if not array.size and not 0 <= offset <= storage._array.nbytes:
            return 0  # an empty tensor whose memory is nowhere
        return offset // array.itemsize

    @property
    def grad_dtype(self) -> Any:
        """The dtype that ``grad`` must have: the tensor's own.

        Raises:
            NotImplementedError: another one is set.
        Source: torch.Tensor.grad_dtype.
        """
        return self.dtype

    @grad_dtype.setter
    def grad_dtype(self, dtype: Any) -> None:
        if dtype is not self.dtype:
            raise NotImplementedError(f"grad_dtype: gradients of another dtype than the tensor's are not supported, got {dtype}")

    @asks("address", "self")
    def data_ptr(self) -> int:
        """Address of the first element; 0 for an empty tensor."""
        return address(self._array) if self._array.size else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in the order of the format (row-major by default).

        Source: torch.Tensor.is_contiguous.
        """
        if memory_format is not None:
            return is_contiguous_as(self._array, memory_format)
        array = self._array
        if array.flags.c_contiguous:
            return True
        return element_strides(array) == contiguous_strides(array.shape)

    def untyped_storage(self) -> UntypedStorage:
        """The bytes that this tensor shares with its views.

        Raises:
            NotImplementedError: a sparse tensor.
        """
        kind_of(self._array).check_storage(self._array)
        return storage_of(self)

    def storage(self) -> TypedStorage:
        """The storage, read as elements of this dtype."""
        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    _typed_storage = storage

    @property
    def _version(self) -> int:
        if self._requires_grad is INFERENCE:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._storage is None else self._storage.version

    # -- autograd's view of it --------------------------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        state = self._requires_grad
        return state is not False and (state is not INFERENCE or "_wants_grad" in self.__dict__)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value.__class__ is not bool:
            raise RuntimeError("requires_grad must be a bool")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Switches recording of operations on this leaf on or off, in place.

        Returns: the tensor itself.
        Raises:
            RuntimeError: an integer or bool tensor, or a tensor that is not a leaf being switched off.
            TypeError: ``requires_grad`` is no bool.
        Example:
            >>> torch.ones(2).requires_grad_()
            tensor([1., 1.], requires_grad=True)
        """
        if requires_grad.__class__ is not bool:
            raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type(requires_grad).__name__}")
        changes.count += 1
        if requires_grad:
            if self._requires_grad is not True:
                if self.dtype.category < dtypes.FLOATING:
                    raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
                if self._requires_grad is INFERENCE:
                    if not thread.inference:
                        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
                    self.__dict__["_wants_grad"] = True  # shown as requires_grad; nothing will ever be recorded
                    return self
                self._requires_grad = True
                if self._storage is not None:
                    self._pass_on(True)
        elif self._requires_grad is INFERENCE:
            self.__dict__.pop("_wants_grad", None)
        elif self._node is not None:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
                "doesn't require differentiation use var_no_grad = var.detach()."
            )
        else:
            root = root_of(self)
            if self._storage is not None and self._requires_grad:
                self._pass_on(False)
            self._requires_grad = INHERITED if root is not self and root._requires_grad else False
        return self

    def _pass_on(self, requires_grad: bool) -> None:
        """Views of this leaf that are leaves themselves require grad when it does."""
        for alias in self._storage._live_aliases():  # type: ignore[union-attr]
            if alias._requires_grad.__class__ is StaleHistory and (requires_grad or alias._requires_grad.maker[0] is not None):
                continue
            if alias is not self and alias._node is None and alias._view_of is not None and root_of(alias) is self:
                alias._requires_grad = (alias._requires_grad or INHERITED) if requires_grad else alias._requires_grad is True

    @property
    @asks("gradient", "self", answer="None if m is False else m")
    def grad(self) -> Tensor | None:
        try:
            grad = self._grad
        except AttributeError:
            grad = None
        if grad is None and self._node is not None and not self.retains_grad:
            _warn_non_leaf_grad()
        return grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            self._grad = None
            return
        if not isinstance(value, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise RuntimeError(f"assigned grad has data of a different type: expected {self.dtype}, got {value.dtype}")
        if value._array.shape != self._array.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: expected {list(self._array.shape)}, got {list(value._array.shape)}"
            )
        if value._array.__class__ is not self._array.__class__ and value.device == self.device and not value.is_sparse:
            raise RuntimeError(f"assigned grad has data of a different layout: expected {self.layout}, got {value.layout}")
        if value.device != self.device:
            raise RuntimeError(f"assigned grad has data located on a different device: expected {self.device}, got {value.device}")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def grad_fn(self) -> Any:
        if self._requires_grad.__class__ is StaleHistory:
            raise RuntimeError(self._requires_grad.message)
        return None if self._node is None else graph_edge(self._node)[0]

    @property
    def output_nr(self) -> int:
        return self._node.index if self._node.__class__ is Output else 0

    @property
    def is_leaf(self) -> bool:
        if self._requires_grad.__class__ is StaleHistory:
            raise RuntimeError(self._requires_grad.message)
        return self._node is None

    @property
    def retains_grad(self) -> bool:
        if self._node is None:
            return False
        node, index = graph_edge(self._node)
        return node.hooks is not None and index in node.hooks.retain

    def _is_view(self) -> bool:
        return self._view_of is not None

    @property
    def _base(self) -> Tensor | None:
        return root_of(self) if self._view_of is not None else None

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph; writes through it are not noticed by backward. Prefer ``detach``."""
        if self.__class__ in dispatchers:
            return self.detach()
        storage = storage_of(self)
        unchecked = storage._twin()
        if self._view_of is not None:
            unchecked.uneven = True  # perhaps: what is no view any more is looked at all the same
        storage._add_alias(alias := _leaf_around(self._array, unchecked, mark_of(self)))
        if type(self) is Tensor or issubclass(type(self), Parameter) or not thread.function_override:
            return alias
        return alias.as_subclass(type(self))

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        storage = storage_of(value)
        changes.count += 1
        self._array, self._storage = value._array, storage
        storage._add_alias(self)
        note_order(self)

    # -- Python's protocols -----------------------------------------------------------------------------------------------
    @asks("number", "self")
    def item(self) -> Any:
        """The value of a one-element tensor as a Python number.

        Raises:
            RuntimeError: the tensor has not exactly one element.
        Example:
            >>> torch.tensor([[2.5]]).item()
            2.5
        """
        array = self._array
        if interposed and modes.below.is_handled((self,)):
            return modes.below.number_of(self)
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        value = modes.item(self) if profiling else array.item()
        if value.__class__ in _PYTHON_NUMBERS:
            return value
        return complex(*value) if value.__class__ is tuple else float(value)

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a 0-d tensor.

        Example:
            >>> torch.tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        array = self._array
        if array.__class__ is not np.ndarray and interposed and modes.below.is_handled((self,)):
            raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {type(self).__name__}")
        if array.dtype.kind not in "biufc" or array.dtype.isbuiltin == 2:
            array = self.to(dtypes.complex64)._array if array.dtype == dtypes.PAIR else array.astype(np.float32)
        return array.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The tensor as an array that shares its memory.

        Args:
            force: detach and copy where sharing is impossible.
        Raises:
            RuntimeError: the tensor requires grad, and operations are recorded; or it is one around others.
            TypeError: the dtype has no NumPy counterpart (bfloat16, float8); ``force`` is no bool.
        Example:
            >>> x = torch.zeros(2)
            >>> x.numpy()[0] = 5
            >>> x
            tensor([5., 0.])
        """
        if force.__class__ is not bool:
            raise TypeError(f"numpy(): argument 'force' must be bool, not {type(force).__name__}")
        if self._requires_grad and not force and grad_enabled():
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self._array.__class__ is not np.ndarray:
            if self.layout is not strided:
                return np.asarray(self._array)  # raises: a sparse tensor has no array
            if interposed and modes.below.is_handled((self,)):
                raise RuntimeError(".numpy() is not supported for tensor subclasses.")
            if not force:
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
                )
            return kind_of(self._array).to_host(self._array)
        if self._array.dtype.isbuiltin == 2 or self._array.dtype == dtypes.PAIR:
            raise TypeError(f"Got unsupported ScalarType {self.dtype.legacy}")
        storage_of(self)  # the array escapes: from here on the memory is known to be shared
        return self._array[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is None:
            return array.copy() if copy else array
        return array.astype(dtype, copy=bool(copy) if copy is not None else False)

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        if array.dtype.num not in dtypes.BY_NUM:
            raise TypeError(f"can't convert np.ndarray of type {array.dtype}: there are no tensors of it")
        return wrap(np.array(array, np.uint8 if array.dtype.kind == "b" else None))  # bool becomes uint8, as in PyTorch

    @asks("number", "self")
    def __bool__(self) -> bool:
        array = self._array
        if array.size != 1:
            if array.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(array.item() if not interposed else self.item())

    @asks("number", "self")
    def __int__(self) -> int:
        return int(self._real_item("int64_t"))

    @asks("number", "self")
    def __float__(self) -> float:
        return float(self._real_item("double"))

    def _real_item(self, kind: str) -> Any:
        """The one element; a complex one must have no imaginary part."""
        value = self._only_item()
        if value.__class__ is not complex:
            return value
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
        return value.real

    def _only_item(self) -> Any:
        if self._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def __complex__(self) -> complex:
        return complex(self._only_item())

    def __index__(self) -> int:
        if self._array.size != 1 or self._array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._array.item() if not interposed else self.item())

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, (Tensor, int, float, complex)):
            return bool((self == element).any().item())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __iter__(self) -> Any:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Calls ``hook(grad)`` whenever this tensor's gradient was computed; a returned tensor replaces it.

        Raises:
            RuntimeError: the tensor does not require grad.
        Example:
            >>> x = torch.ones(2, requires_grad=True)
            >>> handle = x.register_hook(lambda grad: 10 * grad)
            >>> x.sum().backward()
            >>> x.grad
            tensor([10., 10.])
        """
        if not self._requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return RemovableHandle.add(self._gradient_hooks(), hook)

    def _gradient_hooks(self) -> dict[int, Any]:
        if self._node is None:
            return self.__dict__.setdefault("_backward_hooks", {})
        node, index = graph_edge(self._node)
        return node._hooks().outputs.setdefault(index, {})

    def register_post_accumulate_grad_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(tensor)`` after this leaf's ``grad`` was added to: in the middle of the backward pass, when its gradient is whole.

        Raises:
            RuntimeError: the tensor does not require grad, or is not a leaf.
        """
        if not self._requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._node is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        hooked_leaves[id(self)] = self
        return RemovableHandle.add(self.__dict__.setdefault("_post_accumulate_grad_hooks", {}), hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in ``grad`` during backward.

        Raises:
            RuntimeError: the tensor does not require grad.
        Example:
            >>> y = torch.ones(2, requires_grad=True) * 2
            >>> y.retain_grad()
            >>> (y * y).sum().backward()
            >>> y.grad
            tensor([4., 4.])
        """
        if not self._requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self._node is not None:
            import weakref

            node, index = graph_edge(self._node)
            node._hooks().retain[index] = weakref.ref(self)


class _ParameterMeta(type):
    """Makes instances of other subclasses of Tensor that were made parameters instances of ``Parameter``."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that registers itself when assigned to a Module's attribute.

    Args:
        data: values; shared, not copied. An empty tensor when None.
        requires_grad: whether operations on it are recorded.
    Source: torch.nn.Parameter.
    Example:
        >>> layer = torch.nn.Module()
        >>> layer.scale = torch.nn.Parameter(torch.ones(2))
        >>> [name for name, parameter in layer.named_parameters()]
        ['scale']
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = wrap(make_at(place_of(thread.creation_device), np.empty, 0, dtypes.get_default_dtype().numpy))
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: expected a Tensor, got {type(data).__name__}")
        if type(data) not in (Tensor, Parameter):
            param = data.detach().requires_grad_(requires_grad)
            param._is_param = True
            return param
        param = _new(cls)
        storage = storage_of(data)
        param._array, param._storage, param._node, param._view_of, param._requires_grad = data._array, storage, None, None, mark_of(data)
        param._grad = None
        storage._add_alias(param)
        return param.requires_grad_() if requires_grad else param

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = copy_of(self._array, "K")
            memo[id(self)] = type(self)(wrap(copied), self.requires_grad)
        return memo[id(self)]


_PYTHON_NUMBERS = frozenset((float, int, bool, complex))


class ViewMeta:
    """Stands in ``_view_of`` for a view that must not be written in place while gradients are recorded.

    ``creation_meta`` says why: it was made under ``no_grad`` or ``inference`` mode, is one of the views of a ``multi_output`` operation, or
    was returned ``in_custom_function``.
    """

    __slots__ = ("creation_meta", "root")

    def __init__(self, root: Tensor, creation_meta: str):
        self.root, self.creation_meta = root, creation_meta


def root_of(tensor: Tensor) -> Tensor:
    """The tensor whose memory a view ultimately shows; the tensor itself when it is no view."""
    base = tensor._view_of
    if base is None:
        return tensor
    return base.root if base.__class__ is ViewMeta else base


# ``next(blanks)`` is ``object.__new__(Tensor)`` in four fifths of the time: the tuple of arguments is made once.
# After the first of them, machine code takes over from generated wrappers, if it can (``calls.machine_calls``); the iterator that counts
# says so by going away.
blanks = counted(starmap(_new, repeat((Tensor,))))


def wrap(array: np.ndarray) -> Tensor:
    """A new leaf around an array that nothing else uses."""
    tensor = next(blanks)
    tensor._array = array
    tensor._storage = tensor._node = tensor._view_of = tensor._grad = None
    tensor._requires_grad = unrecorded() if inferring else False
    return tensor


def swap(a: Tensor, b: Tensor) -> None:
    """Exchange everything of two tensors but their identity; their storages have them in their new places."""
    slots = [_slots_of(type(tensor)) for tensor in (a, b)]
    if slots[0] != slots[1]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    a.__class__, b.__class__ = type(b), type(a)
    a.__dict__, b.__dict__ = b.__dict__, a.__dict__
    nothing = object()
    changes.count += 1
    for name in slots[0]:
        one, other = getattr(a, name, nothing), getattr(b, name, nothing)
        for tensor, value in ((a, other), (b, one)):
            if value is not nothing:
                object.__setattr__(tensor, name, value)
            elif hasattr(tensor, name):
                object.__delattr__(tensor, name)
    for tensor in (a, b):
        storage = tensor._storage
        if storage is not None:
            storage._forget(partial(_lies_elsewhere, storage._array))
            storage._add_alias(tensor)


def _lies_elsewhere(array: Any, tensor: Any) -> bool:
    """Whether a tensor is gone, or its storage is not over ``array``."""
    return tensor is None or tensor._storage is None or tensor._storage._array is not array


def _slots_of(cls: type) -> list[str]:
    """Names of a class's slots without Python's own."""
    names = {name for base in cls.__mro__ for name in base.__dict__.get("__slots__", ())}
    return sorted(names - {"__dict__", "__weakref__"})


def mark_of(tensor: Tensor) -> bool | int:
    """``_requires_grad`` of another tensor that shows ``tensor``'s memory and does not require grad: whether that is of inference mode."""
    return INFERENCE if tensor._requires_grad is INFERENCE else False


def share(array: np.ndarray, storage: UntypedStorage, mark: bool | int | None = None) -> Tensor:
    """A new leaf around an array that lies in a storage that others use; ``mark`` as ``mark_of`` says, as of now when None."""
    tensor = _leaf_around(array, storage, mark)
    note_order(tensor)
    return tensor


def _leaf_around(array: np.ndarray, storage: UntypedStorage, mark: bool | int | None) -> Tensor:
    """``share`` where the storage has the order of the array already."""
    tensor = next(blanks)
    tensor._array, tensor._storage = array, storage
    tensor._node = tensor._view_of = None
    tensor._requires_grad = unrecorded() if mark is None else mark
    storage._add_alias(tensor)
    return tensor


def storage_of(tensor: Tensor) -> UntypedStorage:
    """The tensor's storage, to be shared: made now if there is none, with this tensor in its list."""
    storage = tensor._storage
    if storage is None:
        storage = new_storage(tensor)
    if not storage._aliases:
        storage._add_alias(tensor)
    return storage


def new_storage(tensor: Tensor) -> UntypedStorage:
    """The tensor's storage, made now if there is none, for watching writes only: this tensor need not be in its list yet."""
    storage = tensor._storage
    if storage is None:  # ``_of_array`` spelled out, for its cost in every recorded call that saves its result
        made = _new(UntypedStorage)
        made._array = tensor._array
        made._aliases = ()
        made._bytes = None
        made._room = 32
        made.version = made.changed = 0
        made.uneven = False
        storage = tensor._storage
        if storage is None:
            storage = tensor._storage = made
    return storage


def note_order(tensor: Tensor) -> None:
    """Remember of a tensor, if it does not lie in memory row by row, that fast paths look at the strides of what comes of it.

    For whatever is no view and gets an array that may be in another order: a fresh one, or that of other memory.
    """
    if tensor._view_of is None and is_uneven(tensor._array):
        new_storage(tensor).uneven = True


def _warn_non_leaf_grad() -> None:
    import warnings

    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
        "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
        "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.",
        UserWarning,
        stacklevel=3,
    )


__all__ = ["AccumulateGrad", "Parameter", "Tensor", "edge_of", "root_of", "share", "storage_of", "wrap"]
