"""``torch.nested``: batches of sequences of different lengths, without padding.

The layout ``torch.jagged`` has one ragged dimension, prints its size as ``j1`` and supports most of what layers of a Transformer need;
``torch.strided``, the default as in PyTorch, takes tensors of any sizes and does less.

Example:
    >>> import flambeau as torch
    >>> batch = torch.nested.nested_tensor([torch.ones(3, 2), torch.ones(1, 2)], layout=torch.jagged)
    >>> torch.nn.functional.linear(batch, torch.ones(4, 2)).sum(1)
    tensor([[6., 6., 6., 6.],
            [2., 2., 2., 2.]])
"""

from __future__ import annotations

from typing import Any

from ..autograd import no_grad
from ..core import dtype as dtypes, late as _late
from ..core.layout import jagged, layout as Layout, strided
from ..core.tensor import Tensor
from ..ops import resolve
from ._jagged import NestedTensor
from ._strided import StridedNestedTensor, packed

_late.adopt(__name__)

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Layout | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A nested tensor that is a leaf, of copies of tensors.

    Args:
        tensor_list: tensors, or what ``torch.as_tensor`` takes. For the jagged layout their sizes may differ in one dimension only.
        dtype, device: those of the first tensor when None.
        layout: ``torch.strided`` (when None) or ``torch.jagged``.
        requires_grad: whether operations are recorded.
        pin_memory: in page-locked memory.
    Returns: a tensor whose first dimension counts the sequences.
    Raises:
        RuntimeError: tensors that do not go together, or another layout.
    Source: torch.nested.nested_tensor.
    Example:
        >>> batch = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged)
        >>> batch.size(0), [row.tolist() for row in batch.unbind()]
        (2, [[1.0, 2.0], [3.0]])
    """
    layout = strided if layout is None else layout
    if layout not in (strided, jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    as_tensor = resolve("torch", "as_tensor")
    tensors = [tensor if isinstance(tensor, Tensor) else as_tensor(tensor) for tensor in tensor_list]
    with no_grad():
        if layout is jagged:
            made = _jagged_of_list(tensors, dtype, device)
        else:
            made = packed(_alike(tensors, dtype, device))
        if pin_memory:
            made = made._wrapping(made._inner.pin_memory())
    made._inner = made._inner.detach()
    return made.requires_grad_(requires_grad)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Layout | None = None) -> Any:
    """A nested tensor with the history of what it is made of.

    Args:
        ts: tensors of one number of dimensions, which are copied; a tensor of two dimensions or more, whose rows are taken and whose
            memory is used where it can be; or a nested tensor of that layout.
        dtype, device: converted to, unless None.
        layout: ``torch.strided`` (when None) or ``torch.jagged``.
    Returns: a nested tensor; gradients go back to ``ts``.
    Raises:
        TypeError: ``ts`` is something else.
        RuntimeError: too few dimensions, or another layout.
    Source: torch.nested.as_nested_tensor.
    Example:
        >>> x = torch.ones(3, requires_grad=True)
        >>> batch = torch.nested.as_nested_tensor([x, torch.zeros(1)], layout=torch.jagged)
        >>> (batch * 2).values().sum().backward()
        >>> x.grad
        tensor([2., 2., 2.])
    """
    is_list = isinstance(ts, (list, tuple)) and all(isinstance(tensor, Tensor) for tensor in ts)
    if not isinstance(ts, Tensor) and not is_list:
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    if isinstance(ts, Tensor) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if isinstance(ts, Tensor) and ts.is_nested:
        if layout is not ts.layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(device=device, dtype=dtype)
    layout = strided if layout is None else layout
    if layout is jagged:
        if is_list:
            return _jagged_of_list(list(ts), dtype, device)
        values = ts.contiguous().flatten(0, 1).to(device=device, dtype=dtype)
        length, count = ts.shape[1], ts.shape[0]
        offsets = resolve("torch", "arange")(0, count + 1, dtype=dtypes.int64, device=values.device) * length
        return NestedTensor(values, offsets)
    if layout is not strided:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    if is_list:
        return packed(_alike(list(ts), dtype, device))
    return StridedNestedTensor(ts.reshape(-1).to(device=device, dtype=dtype), [row.shape for row in ts])


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Any:
    """A nested tensor of the jagged layout around a packed batch, whose memory it shows.

    Args:
        values: the sequences, one behind the other along dimension ``jagged_dim - 1``.
        offsets: ``(B + 1,)``: where each sequence begins, and the end; made of ``lengths`` when None.
        lengths: ``(B,)``. With ``offsets`` too there are holes: a sequence may end before the next one begins.
        jagged_dim: the ragged dimension, 1 when None.
        min_seqlen, max_seqlen: the least and the greatest length, which are looked up here anyway.
    Returns: a nested tensor, a view of ``values``.
    Raises:
        RuntimeError: neither offsets nor lengths.
        ValueError: ``jagged_dim`` less than 1.
    Source: torch.nested.nested_tensor_from_jagged.
    Example:
        >>> import flambeau as torch
        >>> batch = torch.nested.nested_tensor_from_jagged(torch.arange(6.0), torch.tensor([0, 2, 6]))
        >>> batch.unbind()
        (tensor([0., 1.]), tensor([2., 3., 4., 5.]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = _offsets_of(lengths), None
    if jagged_dim is not None and jagged_dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {jagged_dim}.")
    if offsets.dim() != 1 or (lengths is not None and lengths.shape[0] != offsets.shape[0] - 1):
        raise RuntimeError(f"nested_tensor_from_jagged(): expected offsets of shape (B + 1,) and lengths of (B,), got {offsets.shape}")
    return NestedTensor(values.view(values.shape), offsets, lengths=lengths, _ragged_idx=1 if jagged_dim is None else jagged_dim)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Layout = strided) -> Any:
    """A nested tensor of a part of each row of a strided tensor.

    Args:
        tensor: at least two dimensions.
        dim: 1 for the jagged layout.
        start: a number, or for the jagged layout a tensor with one for each row.
        length: likewise.
        layout: ``torch.jagged`` shows the memory of ``tensor``; ``torch.strided`` copies.
    Returns: a nested tensor with as many rows as ``tensor``.
    Raises:
        RuntimeError: arguments of other types, another ``dim`` or layout.
    Source: torch.nested.narrow.
    Example:
        >>> rows = torch.arange(8.0).view(2, 4)
        >>> part = torch.nested.narrow(rows, 1, torch.tensor([0, 1]), torch.tensor([1, 3]), layout=torch.jagged)
        >>> [row.tolist() for row in part.unbind()]
        [[0.0], [5.0, 6.0, 7.0]]
    """
    for value, name in ((start, "start"), (length, "length")):
        if not isinstance(value, (int, Tensor)):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if layout is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(tensor.unbind(), layout=strided).narrow(dim, start, length)
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    count, width = tensor.shape[0], tensor.shape[1]
    as_tensor = resolve("torch", "as_tensor")
    try:
        starts, lengths = (as_tensor(value, dtype=dtypes.int64, device=tensor.device).expand(count) for value in (start, length))
    except RuntimeError as error:
        raise RuntimeError(
            "When constructing a jagged nested tensor using narrow(), your start and length must be Tensors that broadcast to "
            "input.shape[0]"
        ) from error
    begins = starts + width * resolve("torch", "arange")(count, dtype=dtypes.int64, device=tensor.device)
    offsets = resolve("torch", "cat")([begins, begins[-1:] + lengths[-1:]])
    return NestedTensor(tensor.view(-1, *tensor.shape[2:]), offsets, lengths=lengths)


def masked_select(tensor: Tensor, mask: Tensor) -> Any:
    """The elements where ``mask`` holds, row by row: a nested tensor of the jagged layout with one sequence for each row.

    Args:
        tensor: strided.
        mask: bool, broadcasts to ``tensor``'s shape.
    Returns: a nested tensor.
    Raises:
        RuntimeError: another layout.
    Source: torch.nested.masked_select.
    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> [row.tolist() for row in torch.nested.masked_select(x, x > 1).unbind()]
        [[2], [3, 4]]
    """
    for value, name in ((tensor, "tensor"), (mask, "mask")):
        if value.layout is not strided:
            raise RuntimeError(f"torch.nested.masked_select requires a strided {name}, given {value.layout}")
    lengths = mask.expand(tensor.shape).sum(-1).reshape(-1)
    return NestedTensor(tensor.masked_select(mask), _offsets_of(lengths))


def to_padded_tensor(input: Any, padding: float, output_size: Any = None, out: Tensor | None = None) -> Tensor:
    """A strided tensor of the sequences, with ``padding`` behind them.

    Args:
        input: a nested tensor.
        padding: the number behind short sequences.
        output_size: the result's shape, or None for the greatest sizes. The jagged layout looks at the ragged dimension's only, and cuts.
        out: written into, where given.
    Returns: a tensor of shape ``(B, longest, *)``.
    Raises:
        RuntimeError: no nested tensor, one with holes, or for the strided layout a size that is too small.
    Source: torch.nested.to_padded_tensor.
    Example:
        >>> import flambeau as torch
        >>> torch.nested.to_padded_tensor(torch.nested.nested_tensor([[1.0, 2.0], [3.0]]), 0.0)
        tensor([[1., 2.],
                [3., 0.]])
    """
    if not isinstance(input, (NestedTensor, StridedNestedTensor)):
        raise RuntimeError("to_padded_tensor: expected a nested tensor")
    result = input.to_padded_tensor(padding, output_size)
    return result if out is None else out.resize_(result.shape).copy_(result)


# -- lists of tensors -------------------------------------------------------------------------------------------------------------------
def _alike(tensors: list[Tensor], dtype: Any, device: Any) -> list[Tensor]:
    """Tensors of one dtype and device: the first one's where none are given."""
    if tensors:
        dtype, device = tensors[0].dtype if dtype is None else dtype, tensors[0].device if device is None else device
    return [tensor.to(device=device, dtype=dtype) for tensor in tensors]


def _jagged_of_list(tensors: list[Tensor], dtype: Any, device: Any) -> Any:
    """A nested tensor of the jagged layout.

    Raises:
        RuntimeError: no tensors, or tensors of no dimensions, different dtypes or devices, or of sizes that differ in two dimensions.
    """
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for name, of in (("have the same dtype", "dtype"), ("be on the same device", "device"), ("have the same dim", "ndim")):
        if len({getattr(tensor, of) for tensor in tensors}) != 1:
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must {name}")
    if not tensors[0].dim():
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [dim for dim in range(tensors[0].dim()) if len({tensor.shape[dim] for tensor in tensors}) > 1] or [0]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only allows for a "
            "single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    (dim,) = ragged
    values = resolve("torch", "cat")(tensors, dim).to(device=device, dtype=dtype)
    lengths = resolve("torch", "tensor")([tensor.shape[dim] for tensor in tensors], dtype=dtypes.int64, device=values.device)
    return NestedTensor(values, _offsets_of(lengths), _ragged_idx=dim + 1)


def _offsets_of(lengths: Tensor) -> Tensor:
    return resolve("torch", "cat")([lengths.new_zeros(1), lengths.cumsum(0)])
