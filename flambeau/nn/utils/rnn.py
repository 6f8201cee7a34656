"""``torch.nn.utils.rnn``: sequences of several lengths, padded or packed, for the recurrent layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ... import ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(NamedTuple):
    """The fields of a ``PackedSequence``."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences of several lengths, step by step without padding; made by the ``pack_*`` functions.

    Attributes:
        data: ``(sum of lengths, *)``: all first elements, longest sequence first, then all second ones, and so on.
        batch_sizes: int64 on the CPU: how many sequences have a first, a second, ... element.
        sorted_indices: which sequence stands where after sorting by length; None where they came sorted.
        unsorted_indices: the inverse of that permutation.
    Source: torch.nn.utils.rnn.PackedSequence.
    Example:
        >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])])
        >>> packed.data, packed.batch_sizes
        (tensor([1., 4., 2., 3.]), tensor([2, 1, 1]))
    """

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None
    ) -> PackedSequence:
        if batch_sizes is None:  # the old form: one pair
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")  # PyTorch's type
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should be "
                "instantiated by functions like pack_sequence and pack_padded_sequence in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With ``data`` on another device or of another dtype; itself where nothing changes.

        Source: torch.nn.utils.rnn.PackedSequence.to.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        if kwargs.get("copy"):
            raise RuntimeError(".to() does not accept copy argument")
        return self._with(data)

    def _with(self, data: Tensor) -> PackedSequence:
        """The same sequences with other data; the permutations go to its device, the batch sizes stay on the CPU."""
        indices = [None if index is None else index.to(data.device) for index in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def _converted(self, dtype: Any) -> PackedSequence:
        data = self.data.to(dtype)
        return self if data is self.data else self._with(data)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the GPU. Source: torch.nn.utils.rnn.PackedSequence.cuda."""
        data = self.data.cuda(*args, **kwargs)
        return self if data is self.data else self._with(data)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the CPU. Source: torch.nn.utils.rnn.PackedSequence.cpu."""
        return self.to(*args, device="cpu", **kwargs)

    def pin_memory(self) -> PackedSequence:
        """In page-locked memory. Source: torch.nn.utils.rnn.PackedSequence.pin_memory."""
        data = self.data.pin_memory()
        return self if data is self.data else self._with(data)

    def double(self) -> PackedSequence:
        """As float64. Source: torch.nn.utils.rnn.PackedSequence.double."""
        return self._converted(dtypes.float64)

    def float(self) -> PackedSequence:
        """As float32. Source: torch.nn.utils.rnn.PackedSequence.float."""
        return self._converted(dtypes.float32)

    def half(self) -> PackedSequence:
        """As float16. Source: torch.nn.utils.rnn.PackedSequence.half."""
        return self._converted(dtypes.float16)

    def long(self) -> PackedSequence:
        """As int64. Source: torch.nn.utils.rnn.PackedSequence.long."""
        return self._converted(dtypes.int64)

    def int(self) -> PackedSequence:
        """As int32. Source: torch.nn.utils.rnn.PackedSequence.int."""
        return self._converted(dtypes.int32)

    def short(self) -> PackedSequence:
        """As int16. Source: torch.nn.utils.rnn.PackedSequence.short."""
        return self._converted(dtypes.int16)

    def char(self) -> PackedSequence:
        """As int8. Source: torch.nn.utils.rnn.PackedSequence.char."""
        return self._converted(dtypes.int8)

    def byte(self) -> PackedSequence:
        """As uint8. Source: torch.nn.utils.rnn.PackedSequence.byte."""
        return self._converted(dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether ``data`` lies on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether ``data`` lies in page-locked memory. Source: torch.nn.utils.rnn.PackedSequence.is_pinned."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another one.

    Args:
        permutation: ``(n,)``, the numbers from 0 to ``n - 1``; or None.
    Returns:
        ``(n,)``, of the same dtype; None for None.
    Source: torch.nn.utils.rnn.invert_permutation.
    Example:
        >>> nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = ops.empty_like(permutation)
    return inverse.scatter_(0, permutation, ops.arange(0, permutation.numel(), device=permutation.device))


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences that were padded to one length.

    Args:
        input: ``(T, N, *)``, or ``(N, T, *)`` with ``batch_first``.
        lengths: of the sequences, a list or an integer tensor on the CPU.
        batch_first: whether the batch is the first dimension.
        enforce_sorted: whether the sequences must come longest first; otherwise they are sorted.
    Returns:
        A ``PackedSequence``, whose data are ``(sum of lengths, *)``.
    Raises:
        RuntimeError: lengths that do not fit the input, or are not sorted where they must be.
    Source: torch.nn.utils.rnn.pack_padded_sequence.
    Example:
        >>> padded = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
        >>> nn.utils.rnn.pack_padded_sequence(padded, [3, 1], batch_first=True).data
        tensor([1., 4., 2., 3.])
    """
    lengths = ops.as_tensor(lengths, dtype=dtypes.int64, device="cpu")
    sorted_indices: Tensor | None = None
    if not enforce_sorted:
        lengths, sorted_indices = ops.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = ops._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, invert_permutation(sorted_indices))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Unpack to sequences of one length, in the order in which they were before packing.

    Args:
        sequence: what to unpack.
        batch_first: whether the result is ``(N, T, *)`` instead of ``(T, N, *)``.
        padding_value: what stands behind the shorter sequences.
        total_length: length of the result; the longest sequence's when None.
    Returns:
        The padded sequences, and their lengths, int64 on the CPU.
    Raises:
        ValueError: ``total_length`` is shorter than the longest sequence.
    Source: torch.nn.utils.rnn.pad_packed_sequence.
    Example:
        >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])])
        >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1., 2., 3.],
                [4., 0., 0.]]), tensor([3, 1]))
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    padded, lengths = ops._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest if total_length is None else total_length
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of several lengths as one tensor.

    Args:
        sequences: each ``(length, *)``.
        batch_first: whether the result is ``(N, T, *)`` instead of ``(T, N, *)``.
        padding_value: what the shorter ones are filled up with.
        padding_side: ``"right"`` behind them, ``"left"`` before them.
    Returns:
        ``(T, N, *)``, or ``(N, T, *)`` with ``batch_first``; ``T`` is the greatest length.
    Raises:
        RuntimeError: no sequences, another ``padding_side``, or features of different sizes.
    Source: torch.nn.utils.rnn.pad_sequence.
    Example:
        >>> nn.utils.rnn.pad_sequence([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])], batch_first=True, padding_value=-1.0)
        tensor([[ 1.,  2.,  3.],
                [ 4., -1., -1.]])
    """
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    for position, sequence in enumerate(sequences):
        if not isinstance(sequence, Tensor):
            raise TypeError(f"expected Tensor as element {position} in argument 0, but got {type(sequence).__name__}")
        if sequence.dim() == 0:
            raise RuntimeError("pad_sequence: expected sequences of at least 1 dimension, got a 0-d tensor")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max([sequence.size(0) for sequence in sequences])
    features = sequences[0].shape[1:]
    count = len(sequences)
    padded = sequences[0].new_full((count, longest, *features) if batch_first else (longest, count, *features), padding_value)
    for position, sequence in enumerate(sequences):
        length = sequence.size(0)
        span = slice(0, length) if padding_side == "right" else slice(longest - length, longest)
        padded[(position, span) if batch_first else (span, position)] = sequence
    return padded


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, each with its own length.

    Args:
        padded_sequences: ``(T, N, *)``, or ``(N, T, *)`` with ``batch_first``.
        lengths: ``(N,)``.
        batch_first: whether the batch is the first dimension.
    Returns:
        A list of ``N`` tensors, each ``(length, *)``.
    Source: torch.nn.utils.rnn.unpad_sequence.
    Example:
        >>> nn.utils.rnn.unpad_sequence(torch.tensor([[1.0, 2.0], [4.0, 0.0]]), torch.tensor([2, 1]), batch_first=True)
        [tensor([1., 2.]), tensor([4.])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[:length] for sequence, length in zip(padded_sequences.unbind(0), lengths.tolist(), strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of several lengths, each ``(length, *)``.

    Args:
        sequences: longest first, if ``enforce_sorted``.
        enforce_sorted: whether they must come so; otherwise they are sorted.
    Returns:
        A ``PackedSequence``, whose data are ``(sum of lengths, *)``.
    Raises:
        RuntimeError: sequences that are not sorted where they must be, or features of different sizes.
    Source: torch.nn.utils.rnn.pack_sequence.
    Example:
        >>> nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])]).data
        tensor([1., 4., 2., 3.])
    """
    lengths = ops.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that ``pack_sequence`` packed, in their order.

    Args:
        packed_sequences: what to unpack.
    Returns:
        A list of tensors, each ``(length, *)``.
    Source: torch.nn.utils.rnn.unpack_sequence.
    Example:
        >>> nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])]))
        [tensor([1., 2., 3.]), tensor([4.])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
