"""Sequences of several lengths: padded to one length, or packed step by step.

padded (T=3, N=2)      packed: step by step, the shorter sequences ending first
  a0  b0                 data         a0 b0 a1 b1 a2
  a1  b1                 batch_sizes  2     2     1
  a2   0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite
from ..core.tensor import wrap


def _packed_rows(batch_sizes: Any, batch: int) -> np.ndarray:
    """Row, among the ``T * batch`` rows of padded data, of each row of packed data."""
    sizes = np.asarray(batch_sizes)
    starts = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(np.arange(sizes.size) * batch - starts, sizes)


@composite(method=False)
def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> Any:
    """Padded sequences, longest first, as packed data.

    Args:
        input: ``(T, N, *)``, or ``(N, T, *)`` with ``batch_first``.
        lengths: ``(N,)``, decreasing, each at least 1.
    Returns:
        The data, ``(sum of lengths, *)``, and how many sequences each step has, int64 ``(longest,)``.
    Raises:
        RuntimeError: lengths that are not positive, not decreasing, not one for each sequence, or longer than the input.
    Source: torch._pack_padded_sequence.
    """
    if lengths.dim() != 1 or lengths.device.type != "cpu" or lengths.dtype is not dtypes.int64:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device.type} "
            f"{lengths.dtype.legacy} tensor"
        )
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch, *features = input.shape
    counts = lengths._array
    if counts.size != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {counts.size} (batch_size={batch})")
    if counts.min() <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if (counts[1:] > counts[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
        )
    longest = int(counts[0])
    if longest > steps:
        raise RuntimeError(f"pack_padded_sequence: expected lengths of at most {steps}, the input's number of steps, got {longest}")
    batch_sizes = (counts > np.arange(longest)[:, None]).sum(1)
    flat = input.reshape(steps * batch, *features)
    if int(counts[-1]) == longest:  # nothing is padded
        data = flat[: longest * batch].clone()
    else:
        data = flat.index_select(0, wrap(_packed_rows(batch_sizes, batch)).to(input.device))
    return data, wrap(batch_sizes)


@composite(method=False)
def _pad_packed_sequence(data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int) -> Any:
    """Packed data as padded sequences.

    Args:
        data, batch_sizes: as ``_pack_padded_sequence`` returns them.
        batch_first: whether the result is ``(N, T, *)``.
        padding_value: what stands behind the shorter sequences.
        total_length: length of the result; the longest sequence's where it is not positive.
    Returns:
        The padded sequences, ``(T, N, *)``, and their lengths, int64 ``(N,)``.
    Raises:
        RuntimeError: ``total_length`` is shorter than the longest sequence.
    Source: torch._pad_packed_sequence.
    """
    sizes = batch_sizes._array
    longest, batch = sizes.size, int(sizes[0])
    steps = longest
    if total_length > 0:
        if total_length < longest:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        steps = total_length
    features = data.shape[1:]
    if steps == longest and int(sizes[-1]) == batch:
        padded = data.clone()
    else:
        padded = data.new_full((steps * batch, *features), padding_value)
        padded = padded.index_copy(0, wrap(_packed_rows(sizes, batch)).to(data.device), data)
    padded = padded.reshape(steps, batch, *features)
    lengths = (np.arange(batch) < sizes[:, None]).sum(0)
    return (padded.transpose(0, 1) if batch_first else padded), wrap(lengths)
