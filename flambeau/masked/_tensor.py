"""``MaskedTensor``: a tensor and a mask of its shape, which says of each element whether it is specified.

Operations look at specified elements only, and results and gradients have masks of their own. A gradient that comes from an unspecified
element is unspecified itself, so that no infinity or NaN of the data gets into it.

Data and mask may be sparse, COO or CSR, and then have the same places: element-wise operations and whole reductions look at values alone.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..core import dtype as dtypes
from ..core.calls.registry import declared_as, is_moving
from ..core.layout import sparse_coo, sparse_csr
from ..core.protocols.handlers import Handlers
from ..core.protocols.wrapper import WrapperTensor
from ..core.shape import wrap_dims
from ..core.state import thread
from ..core.tensor import Tensor
from ..ops.sparse.construction import entries, with_values
from . import _functions
from ._sparse import LAYOUTS, agreeing, at_places, is_sparse, operand, position

_DTYPES = frozenset((dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64))
_NUMBER = "{0:8.4f}"


class _Shown(Function):
    """The data as they are; only elements that the mask shows pass a gradient back."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> Tensor:
        ctx.mask = mask
        return data.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad, mask = grads[0], ctx.mask
        if is_sparse(mask):
            if not is_masked_tensor(grad):
                return _made(at_places(grad, mask), mask), None
            shown = entries(grad._masked_mask, mask) & entries(mask, mask)
            return _made(at_places(grad._inner, mask), with_values(shown, mask)), None
        if is_masked_tensor(grad):
            return _made(grad._inner, grad._masked_mask & mask), None
        return _made(grad, mask), None


def _checked(data: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Data and mask of a masked tensor.

    Raises:
        TypeError: no tensors, masked ones, two layouts, a mask that is not bool, or a layout or dtype that is not supported.
        ValueError: other shapes, or sparse tensors of other places.
    """
    for name, value in (("data", data), ("mask", mask)):
        if is_masked_tensor(value) or not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a Tensor")
    data, mask = agreeing(data, mask)
    if mask.dtype is not dtypes.bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    return data, mask


class MaskedTensor(WrapperTensor):
    """Data and a mask of the same shape; True specifies an element.

    Args:
        data: strided, COO or CSR, of a floating point dtype but bfloat16, an integer dtype but uint8, or bool; copied, without history.
        mask: bool, of the same shape, layout and, where it is sparse, places; copied.
        requires_grad: whether operations are recorded; reductions of sparse data are not.
    Raises:
        TypeError, ValueError: data and mask that do not go together.
    Example:
        >>> import warnings
        >>> import flambeau as torch
        >>> warnings.simplefilter("ignore")
        >>> torch.masked.MaskedTensor(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True])).sum()
        MaskedTensor(  4.0000, True)

    Source: torch.masked.MaskedTensor, a prototype there.
    """

    __slots__ = ()
    _inner: Tensor
    _masked_mask: Tensor

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        shown, shown_mask = _checked(data, mask)
        warnings.warn(
            "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github issue for "
            "features requests and see our documentation on the torch.masked module for further information about the project.",
            UserWarning,
            stacklevel=2,
        )
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
                "data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        return _made(shown.detach().clone().requires_grad_(requires_grad), shown_mask.detach().clone())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @property
    def _masked_data(self) -> Tensor:
        return self._inner.detach()

    def _wrapping(self, inner: Tensor) -> Any:
        return _made(inner, self._masked_mask)

    def get_data(self) -> Tensor:
        """The data, those of unspecified elements too; their gradients are masked. Source: MaskedTensor.get_data."""
        return _Shown.apply(self._inner, self._masked_mask)

    def get_mask(self) -> Tensor:
        """The mask. Source: MaskedTensor.get_mask."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data, dense, with ``value`` in place of unspecified elements. Source: MaskedTensor.to_tensor."""
        if is_sparse(self._inner):
            return self.to_dense().to_tensor(value)
        return self.get_data().masked_fill(~self._masked_mask, value)

    def is_sparse_coo(self) -> bool:
        """Whether data and mask are COO tensors. Source: MaskedTensor.is_sparse_coo."""
        return self._inner.layout is sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]  # a method in PyTorch, too
        """Whether data and mask are CSR tensors. Source: MaskedTensor.is_sparse_csr."""
        return self._inner.layout is sparse_csr

    @property
    def is_sparse(self) -> bool:
        """Whether data and mask are sparse, CSR ones too. Source: MaskedTensor.is_sparse."""
        return is_sparse(self._inner)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        if self.is_sparse_coo():
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return super().is_contiguous(*args, **kwargs)

    def item(self) -> Any:
        if self._inner.numel() == 1 and not self._masked_mask.to_dense().item():
            raise ValueError("item: expected an element that the mask specifies")
        return self._inner.to_dense().item()

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        data, mask = self._inner.detach().to_dense(), self._masked_mask.to_dense()
        if not self.dim():
            return f"MaskedTensor({_text(data, mask)}, {bool(mask)})"
        return f"MaskedTensor(\n{_indented(_text(data, mask))}\n)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self._inner.detach(), self._masked_mask, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        handler = _handler_of(name)
        if handler is None:
            if thread.function_override:
                return NotImplemented
            handler = _inside_backward
        return handler(func, name, args, kwargs or {})


@functools.cache
def _handler_of(name: str) -> Callable[..., Any] | None:
    """Function that handles calls of that name: a row below, or what follows from the operation's declaration."""
    if name in handles.named:
        return handles.named[name]
    if is_moving(name):
        return _passed_through
    declared = declared_as(name)
    if declared is None or not declared.pointwise or name.startswith("_") or getattr(declared, "is_multi_output", False):
        return None
    return {1: _unary, 2: _binary}.get(declared.arity)


def _made(data: Tensor, mask: Tensor) -> Any:
    """A masked tensor around these very tensors."""
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    made: Any = object.__new__(MaskedTensor)
    made._inner, made._masked_mask = data, mask
    return made


def _rebuilt(data: Tensor, mask: Tensor, requires_grad: bool) -> Any:
    return _made(data.requires_grad_(requires_grad), mask)


def is_masked_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a ``MaskedTensor``.

    Args:
        obj: anything.
    Returns: a bool.
    Source: torch.masked.is_masked_tensor.
    Example:
        >>> torch.masked.is_masked_tensor(torch.ones(1))
        False
    """
    return isinstance(obj, MaskedTensor)


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> Any:
    """A ``MaskedTensor`` that is a leaf: a copy, without history.

    Args:
        data, mask, requires_grad: as for ``MaskedTensor``.
    Returns: a ``MaskedTensor``.
    Source: torch.masked.masked_tensor.
    Example:
        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])).to_tensor(0)
        tensor([1., 0.])
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> Any:
    """A ``MaskedTensor`` through which gradients go back to ``data``, where they are masked tensors too.

    Args:
        data, mask: as for ``MaskedTensor``.
    Returns: a ``MaskedTensor``.
    Source: torch.masked.as_masked_tensor.
    Example:
        >>> x, divisor = torch.ones(2, requires_grad=True), torch.tensor([0.0, 1.0])
        >>> torch.masked.as_masked_tensor(x / divisor, divisor != 0).sum().backward()
        >>> x.grad
        MaskedTensor(
          [      --,   1.0000]
        )
    """
    data, mask = _checked(data, mask)
    return _made(_Shown.apply(data, mask.detach()).clone(), mask.detach().clone())


# -- printing ---------------------------------------------------------------------------------------------------------------------------
def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _text(data: Tensor, mask: Tensor) -> str:
    """The elements, row by row; unspecified ones are dashes."""
    if data.dim() > 1:
        rows = [_indented(_text(row, row_mask)) for row, row_mask in zip(data, mask, strict=True)]
        return "[\n" + ",\n".join(rows) + "\n]"
    values, shown = data.tolist(), mask.tolist()
    if not data.dim():
        return _number(values) if shown else "--"
    texts = [_number(value) if is_shown else "" for value, is_shown in zip(values, shown, strict=True)]
    width = max([8, *[len(text) for text in texts]]) if texts else 8
    return "[" + ", ".join(text if is_shown else "--".rjust(width) for text, is_shown in zip(texts, shown, strict=True)) + "]"


def _number(value: Any) -> str:
    return _NUMBER.format(value) if isinstance(value, float) else str(value)


# -- operations -------------------------------------------------------------------------------------------------------------------------
def _mapped(value: Any, of_masked: Callable[[Any], Any]) -> Any:
    """Arguments with what ``of_masked`` makes of each masked tensor among them."""
    if is_masked_tensor(value):
        return of_masked(value)
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([_mapped(item, of_masked) for item in value])
    return value


def _of_data(args: Any) -> Any:
    return _mapped(args, lambda masked: masked._inner)


def _joined(data: Any, mask: Any) -> Any:
    """Masked tensors of results of the data and results of the mask."""
    if isinstance(data, (tuple, list)):
        return type(data)([_joined(part, part_mask) for part, part_mask in zip(data, mask, strict=True)])
    return _made(*agreeing(data, mask)) if is_sparse(data) else _made(data, mask)


def _values_of(masked: MaskedTensor) -> Any:
    """The values of a sparse masked tensor, a dense one."""
    mask = masked._masked_mask
    return _made(entries(masked._inner, mask), entries(mask, mask))


def _on_values(handler: Callable[..., Any], func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """An element-wise operation of sparse operands: that of their values."""
    first = next(filter(is_masked_tensor, args))
    layouts = [arg._inner.layout for arg in args[:2] if is_masked_tensor(arg)]
    if layouts[0] is not layouts[-1]:
        raise ValueError(f"`a` and `b` must have the same layout. Got {layouts[0]} and {layouts[1]}")
    places, writes = first._masked_mask, name.endswith("_")
    operands = list(args)
    for at, arg in enumerate(args[:2]):
        if is_masked_tensor(arg):
            operand(arg._masked_mask, places, name)
            operands[at] = _values_of(arg)
        elif isinstance(arg, Tensor):
            arg = operand(arg, places, name)
            operands[at] = entries(arg, places) if is_sparse(arg) else arg
    if writes:
        if first is not args[0]:
            raise TypeError(f"{name}: expected a MaskedTensor as what is written to, beside one of layout {places.layout}")
        operands[0] = operands[0].clone()
    result = handler(func, name, operands, kwargs)
    data = with_values(result._inner, places)
    if not writes:
        return _made(data, with_values(result._masked_mask, places))
    first._inner.copy_(data)
    return first


def _unary(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    if kwargs:
        raise ValueError(
            "MaskedTensor unary ops require that len(kwargs) == 0. If you need support for this, please open an issue on Github."
        )
    if any(isinstance(arg, Tensor) for arg in args[1:]):
        raise TypeError("MaskedTensor unary ops do not support additional Tensor arguments")
    if is_sparse(args[0]._inner):
        return _on_values(_unary, func, name, args, kwargs)
    result = func(*_of_data(args))
    return args[0] if result is args[0]._inner else args[0]._wrapping(result)


def _binary(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    if kwargs and thread.function_override:
        raise ValueError("len(kwargs) must equal 0")
    if any(is_masked_tensor(arg) and is_sparse(arg._inner) for arg in args[:2]):
        return _on_values(_binary, func, name, args, kwargs)
    masks = [arg._masked_mask for arg in args[:2] if is_masked_tensor(arg)]
    mask = masks[0]
    if len(masks) == 2 and masks[1] is not mask and not (masks[1].dim() == mask.dim() and bool((masks[1] == mask).all())):
        if thread.function_override or name != "add":
            raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
        return _sum_of_gradients(*args)
    result = func(*_of_data(args), **kwargs)
    if is_masked_tensor(args[0]) and result is args[0]._inner:
        return args[0]
    if is_sparse(result):
        raise RuntimeError(f"{name}: data and mask must have the same layout, got a sparse result beside a dense mask; use to_dense()")
    return _made(result, mask if mask.shape == result.shape else mask.expand(result.shape))


def _sum_of_gradients(one: MaskedTensor, other: MaskedTensor) -> Any:
    """Two gradients of the same tensor: specified where either is."""
    zero = one._inner.new_zeros(())
    data = one._inner.where(one._masked_mask, zero) + other._inner.where(other._masked_mask, zero)
    return _made(data, one._masked_mask | other._masked_mask)


def _passed_through(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Move the masks as the data move."""
    if args and isinstance(args[0], (list, tuple)) and not all(map(is_masked_tensor, args[0])):
        raise TypeError("mask must have dtype bool.")
    return _joined(func(*_of_data(args), **kwargs), func(*_mapped(args, MaskedTensor.get_mask), **kwargs))


def _reduced_mask(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim is None or dim == ():
        return mask.any() if not keepdim else mask.any(tuple(range(mask.dim())), True)
    return mask.any(wrap_dims(dim, mask.dim()), keepdim)


def _reduction(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    masked = given.pop("input")
    mask, dim, keepdim = masked._masked_mask, given.pop("dim", None), given.pop("keepdim", False)
    dim = None if dim == () else dim
    places = mask if is_sparse(mask) else None
    if places is not None:
        if dim is not None or keepdim:
            raise TypeError(f"{name}: a MaskedTensor of layout {places.layout} is reduced as a whole, got dim or keepdim; use to_dense()")
        masked = _values_of(masked.detach())
        mask = masked._masked_mask
    data = masked.get_data()
    if name == "all":
        shown = data.bool() | ~mask
        result = shown.all() if dim is None else shown.all(dim, keepdim)
    elif name == "norm":
        order = given.pop("p", "fro")
        result = _functions.norm(data, 2.0 if order == "fro" else order, dim, keepdim=keepdim, mask=mask, **given)
    else:
        result = getattr(_functions, name)(data, dim, keepdim=keepdim, mask=mask, **given)
    if places is not None and name in ("argmax", "argmin"):
        result = position(result, places, dtypes.get_default_dtype() if places.layout is sparse_coo else result.dtype)
    return _made(result, _reduced_mask(mask, dim, keepdim))


def _to_dense(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    masked, dtype = given.pop("input"), given.pop("dtype", None)
    dense = _made(func(masked._inner, **given), masked._masked_mask.to_dense()) if is_sparse(masked._inner) else masked
    return dense if dtype is None else dense.to(dtype)


def _to_sparse(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    masked, layout = given.pop("input"), given.pop("layout", None)
    data, mask, form = masked._inner, masked._masked_mask, sparse_csr if name == "to_sparse_csr" else layout or sparse_coo
    if form not in LAYOUTS:
        raise NotImplementedError(f"{name}: masked tensors of layout {form} are not supported; use torch.sparse_coo or torch.sparse_csr")
    if any(value is not None for value in given.values()):
        raise NotImplementedError(f"{name}: {', '.join(given)} of a masked tensor is not supported")
    if form is sparse_csr and data.dim() != 2:
        raise ValueError(f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {data.shape}")
    if data.layout is form:
        return masked
    places = mask.to_sparse(layout=form)
    return _made(data.to_sparse(layout=form) if is_sparse(data) else data.sparse_mask(places), places)


def _raw_part(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """``_indices`` and ``_values``, in which every element is specified."""
    data = args[0]._inner.detach()
    part = entries(data, data) if name == "_values" and is_sparse(data) else func(data)
    return _made(part, part.new_ones(part.shape, dtype=dtypes.bool_))


def _softmax(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    masked, mask = given["input"], given["input"]._masked_mask
    result = _functions.softmax(masked.get_data(), given["dim"], dtype=given.get("dtype"), mask=mask)
    return _made(result.masked_fill(~mask, 0.0), mask)


def _where(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    if len(args) != 3 or kwargs:
        raise ValueError(f"__torch_function__, torch.where: len(args) must be 3 but got {len(args)}")
    condition, data, masks = args[0], [], []
    for value, shown in ((args[1], condition), (args[2], ~condition)):
        if is_masked_tensor(value):
            both = value._masked_mask & shown
            data.append(_Shown.apply(value._inner.expand(both.shape), both))
            masks.append(value._masked_mask)
        else:
            data.append(value)
            masks.append(condition.new_ones((), dtype=dtypes.bool_))
    result = func(condition, *data)
    return _made(result, func(condition, *masks).expand(result.shape))


def _on_data(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Copies, conversions and constants of the data, whose mask stays."""
    masked = args[0]
    if name == "detach":
        return _made(masked._inner.detach().clone(), masked._masked_mask)
    if name == "contiguous" and masked.is_sparse_coo():
        raise ValueError("MaskedTensors with sparse data do not have contiguous")
    result = func(*_of_data(args), **kwargs)
    if result is masked._inner:
        return masked
    if not isinstance(result, Tensor):  # a dtype's or a device's name
        return result
    mask = masked._masked_mask
    if name in ("to", "cpu", "cuda", "contiguous", "clone"):
        mask = mask.to(result.device).contiguous() if name == "contiguous" else mask.to(result.device)
    return _made(result, mask.clone() if name == "clone" else mask)


def _copied(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    target, source = args[0], args[1]
    if not is_masked_tensor(target):
        raise TypeError("copy_: expected a masked tensor to write a masked tensor to")
    if not is_masked_tensor(source):  # the mask stays
        mask = target._masked_mask
        func(target._inner, at_places(source, mask) if is_sparse(source) and source.layout is mask.layout else source)
        return target
    masks = [target._masked_mask, source._masked_mask]
    if is_sparse(masks[0]):
        masks = [entries(operand(mask, masks[0], name), masks[0]) for mask in masks]
    if target.shape != source.shape or not bool((masks[0] == masks[1]).all()):
        raise ValueError("args[0] mask and args[1] mask must match but do not")
    func(target._inner, source._inner)
    return target


def _filled(masked: MaskedTensor) -> Tensor:
    """The data with 0 in place of unspecified elements, in their layout."""
    if is_sparse(masked._inner):
        return with_values(_filled(_values_of(masked)), masked._masked_mask)
    return masked._inner.where(masked._masked_mask, masked._inner.new_zeros(()))


def _inside_backward(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """An operation of a derivative rule: on the data of specified elements, with the mask where the shape is kept."""
    masked = next(value for value in _flat((args, kwargs)) if is_masked_tensor(value))
    mask = masked._masked_mask
    result = func(*_mapped(args, _filled), **{key: _mapped(value, _filled) for key, value in kwargs.items()})
    if not isinstance(result, Tensor) or result.dtype not in _DTYPES:
        return result
    if result.shape == mask.shape:
        return _made(*agreeing(result, mask)) if is_sparse(result) else _made(result, mask.to_dense())
    if name == "_sum_to_size":
        return _made(result, func(mask.to(dtypes.float32), *args[1:]) != 0)
    return result


def _flat(values: Any) -> Any:
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, (list, tuple, dict)):
            yield from _flat(value)
        else:
            yield value


handles = Handlers("masked")  # (function, its name, positional and other arguments)
handles("clamp", "clamp_", "pow", "pow_")(_unary)  # by numbers
# what is not moved alone: zeros come in, or elements are multiplied or added up, as those of masks then are
handles("Tensor.__getitem__", "kron", "_scatter_part", "_diagonal_backward", "nn.functional._im2col", "nn.functional._col2im")(
    _passed_through
)
handles("_sparse_entries", "_sparse_with_values", "_to_sparse", "_to_sparse_csr", "_to_strided", "_coalesce")(_passed_through)
handles("clone", "detach", "_to_copy", "ones_like")(_on_data)
handles(*[f"Tensor.{name}" for name in "contiguous to type type_as cpu cuda double float half int long short char bool".split()])(_on_data)
handles("sum", "mean", "amin", "amax", "argmin", "argmax", "prod", "all", "norm", "var", "std")(_reduction)
handles("Tensor.to_sparse", "Tensor.to_sparse_coo", "Tensor.to_sparse_csr")(_to_sparse)
handles("Tensor._indices", "Tensor._values")(_raw_part)
handles("Tensor.to_dense")(_to_dense)
handles("conj", "real", "resolve_conj", "resolve_neg")(lambda func, name, args, kwargs: args[0])  # no dtype is complex
handles("is_nonzero")(lambda func, name, args, kwargs: bool(args[0].item()))
handles("is_same_size")(lambda func, name, args, kwargs: func(*_of_data(args), **kwargs))
handles("softmax")(_softmax)
handles("where", "_where")(_where)
handles("copy_")(_copied)
