"""Nested tensors of the jagged layout: sequences of different lengths, one behind the other in one tensor.

A tensor of shape ``(B, j1, D)`` has ``values`` of shape ``(L, D)`` with all sequences' elements, ``L`` together, and ``offsets`` of shape
``(B + 1,)``: sequence ``i`` begins at ``offsets[i]``. The ragged dimension may also stand further behind, as in ``(B, H, j1, D)`` with
values ``(H, L, D)``. With ``lengths`` there are holes: a sequence ends before the next one begins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..core import dtype as dtypes
from ..core.layout import jagged
from ..core.protocols.wrapper import WrapperTensor
from ..core.shape import Size, wrap_dim
from ..core.tensor import Tensor
from ..ops import resolve
from ._sizes import ragged_size


class NestedTensor(WrapperTensor):
    """A batch of sequences of different lengths, in the jagged layout; see ``torch.nested``.

    Args:
        values: the sequences' elements, one sequence behind the other along dimension ``_ragged_idx - 1``.
        offsets: ``(B + 1,)``, integers: where each sequence begins, and the end.
        lengths: ``(B,)``, or None where each sequence ends as the next one begins.
        requires_grad: whether operations are recorded.
        _ragged_idx: which dimension of the nested tensor is the ragged one.
    Source: torch.nested._internal.nested_tensor.NestedTensor.
    """

    __slots__ = ()
    _inner: Tensor
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    _apply: ClassVar[Callable[..., Any]]  # answers calls; ``_operations``, which is written with this class, puts it here
    layout = jagged
    is_nested = True

    def __new__(
        cls, values: Tensor, offsets: Tensor, *, lengths: Tensor | None = None, requires_grad: bool = False, _ragged_idx: int = 1
    ) -> Any:
        made: Any = object.__new__(cls)
        made._inner, made._offsets, made._lengths, made._ragged_idx = values, offsets, lengths, _ragged_idx
        ragged_size(offsets if lengths is None else lengths)  # numbered in the order in which tensors are made
        return made.requires_grad_() if requires_grad else made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _wrapping(self, inner: Tensor) -> Any:
        return NestedTensor(inner, self._offsets, lengths=self._lengths, _ragged_idx=self._ragged_idx)

    # -- its parts --------------------------------------------------------------------------------------------------------
    @property
    def _values(self) -> Tensor:
        return self._inner

    def values(self) -> Tensor:
        """All sequences' elements, one sequence behind the other; a view. Source: torch.Tensor.values."""
        return self._inner.view(self._inner.shape)

    def offsets(self) -> Tensor:
        """Position of each sequence's beginning in the values, and the end of the last one: ``(B + 1,)``. Source: NestedTensor.offsets."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """The sequences' lengths where there are holes between them, else None. Source: NestedTensor.lengths."""
        return self._lengths

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Beginnings and lengths of sequences, as arrays on the host."""
        offsets = self._offsets.cpu().numpy()
        return offsets[:-1], np.diff(offsets) if self._lengths is None else self._lengths.cpu().numpy()

    def _places(self) -> tuple[Tensor, Tensor]:
        """Of each element of the sequences: which sequence it belongs to, and its place there."""
        _, lengths = self._bounds()
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(sequence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        device = self._inner.device
        made = resolve("torch", "tensor")
        return made(sequence, dtype=dtypes.int64, device=device), made(place, dtype=dtypes.int64, device=device)

    @property
    def _max_seqlen(self) -> int:
        return int(self._bounds()[1].max(initial=0))

    # -- what it is -------------------------------------------------------------------------------------------------------
    @property
    def _size(self) -> tuple[Any, ...]:
        shape, place = self._inner._array.shape, self._ragged_idx - 1
        size = ragged_size(self._offsets if self._lengths is None else self._lengths)
        return (self._offsets._array.shape[0] - 1, *shape[:place], size, *shape[place + 1 :])

    @property
    def _strides(self) -> tuple[Any, ...]:
        strides = self._inner.stride()
        return (self._size[self._ragged_idx] * strides[self._ragged_idx - 1], *strides)

    @property
    def shape(self) -> Size:
        return tuple.__new__(Size, self._size)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension, which may be ragged."""
        return self.shape if dim is None else self._size[wrap_dim(dim, self.ndim)]

    @property
    def ndim(self) -> int:
        return self._inner._array.ndim + 1

    def dim(self) -> int:
        """Number of dimensions, with those of the batch and of the sequences."""
        return self.ndim

    ndimension = dim

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements; that of the batch is a multiple of the ragged size."""
        return self._strides if dim is None else self._strides[wrap_dim(dim, self.ndim)]

    def numel(self) -> int:
        """Number of elements of all sequences, without holes."""
        if self._lengths is None:
            return self._inner.numel()
        shape = self._inner._array.shape
        return int(self._bounds()[1].sum()) * int(np.prod(shape[: self._ragged_idx - 1] + shape[self._ragged_idx :]))

    nelement = numel

    def __len__(self) -> int:
        return self._size[0]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the values are row-major and there are no holes."""
        return self._lengths is None and self._inner.is_contiguous()

    def is_same_size(self, other: Tensor) -> bool:
        return tuple(self.shape) == tuple(other.shape)

    @property
    def names(self) -> tuple[None, ...]:
        return (None,) * self.ndim

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        history = ", requires_grad=True" if self.requires_grad else ""
        if self.grad_fn is not None:
            history = f", grad_fn={self.grad_fn}"
        return f"NestedTensor(size={self._size}, offsets={self._offsets}{history}, contiguous={self.is_contiguous()})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rebuilt, (self._inner.detach(), self._offsets, self._lengths, self._ragged_idx, self.requires_grad)

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """A strided tensor with ``padding`` behind the sequences; see ``torch.nested.to_padded_tensor``."""
        if self._lengths is not None:
            raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
        return padded(self, padding, self._max_seqlen if output_size is None else int(output_size[self._ragged_idx]))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NestedTensor._apply(func, args, kwargs or {})


def rebuilt(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged_idx: int, requires_grad: bool) -> Any:
    """A nested tensor from a pickle."""
    return NestedTensor(values, offsets, lengths=lengths, _ragged_idx=ragged_idx, requires_grad=requires_grad)


@functools.cache
def _put() -> Any:
    return resolve("Tensor", "index_put")


def padded(nested: NestedTensor, padding: Any, length: int) -> Tensor:
    """The sequences as rows of a strided tensor whose ragged dimension has size ``length``, cut or padded."""
    values, place = nested._inner, nested._ragged_idx - 1
    sequence, position = nested._places()
    rows = values.movedim(place, 0)
    if length < nested._max_seqlen:
        kept = position < length
        sequence, position, rows = sequence[kept], position[kept], rows[kept]
    blank = rows.new_full((len(nested), length, *rows.shape[1:]), padding)
    return blank.index_put((sequence, position), rows).movedim(1, nested._ragged_idx)


def from_padded(whole: Tensor, nested: NestedTensor) -> Any:
    """The elements of a padded tensor that lie in the sequences of ``nested``, as a nested tensor of its lengths."""
    rows = whole.movedim(nested._ragged_idx, 1)[nested._places()]
    return nested._wrapping(rows.movedim(0, nested._ragged_idx - 1))
