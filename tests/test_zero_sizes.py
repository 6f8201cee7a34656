"""Dimensions of size 0: every operation gives PyTorch's shapes, errors, history and gradients where a batch, or another side, is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from libraries import OURS, Library, arrays_in, assert_same_outcome, describe, differentiable_inputs, flat, map_arrays
from records import RECORDS, Record
from records.record import Maker, Sample

pytestmark = pytest.mark.slow


def emptied(axis: int, which: Callable[[np.ndarray, np.ndarray], bool]) -> Callable[[Sample], Sample | None]:
    """A sample whose arrays that ``which`` chooses, given the first array and each one, have size 0 along an axis."""

    def change(sample: Sample) -> Sample | None:
        arrays = arrays_in(sample.args)
        if not arrays or not -arrays[0].ndim <= axis < arrays[0].ndim:
            return None
        first = arrays[0]

        def empty(array: np.ndarray) -> np.ndarray:
            fits = -array.ndim <= axis < array.ndim
            return array if not fits or not which(first, array) else np.take(array, [], axis)

        return Sample(map_arrays(sample.args, empty), sample.kwargs)

    return change


def is_first(first: np.ndarray, array: np.ndarray) -> bool:
    return array is first


VARIANTS = {
    "batch": emptied(0, is_first),
    "equal batches": emptied(0, lambda first, array: array.shape[0] == first.shape[0]),
    "second dimension": emptied(1, is_first),
    "last dimension": emptied(-1, is_first),
    "equal last dimensions": emptied(-1, lambda first, array: array.shape[-1] == first.shape[-1]),
    "all batches": emptied(0, lambda first, array: True),
}


def samples_of(record: Record) -> Iterator[tuple[str, Sample]]:
    for sample in record.samples(Maker(record.dtypes[0], record.name)):
        for name, change in VARIANTS.items():
            changed = change(deepcopy(sample))
            if changed is not None:
                yield name, changed


def outcome(library: Any, record: Record, sample: Sample) -> tuple[Any, Any, Any]:
    """((result, error) forward, which results have history, (gradients, error))."""
    args, kwargs = library.arguments(sample.args), library.arguments(sample.kwargs)
    if record.random:
        library.seed()
    inputs = [tensor.requires_grad_() for tensor in differentiable_inputs([*args, kwargs])]
    result = library.attempt(library.function(record.name), *args, **kwargs)
    outputs = [tensor for tensor in flat(result[0]) if hasattr(tensor, "requires_grad")]
    history = [output.requires_grad and output.grad_fn is not None for output in outputs]
    rooted = [output for output, has in zip(outputs, history, strict=True) if has]

    def compute() -> list[np.ndarray | None]:
        ones = [library.tensor(np.ones(tuple(output.shape), library.array(output.detach()).dtype)) for output in rooted]
        grads = library.torch.autograd.grad(rooted, inputs, ones, allow_unused=True)
        return [None if grad is None else library.array(grad.detach()) for grad in grads]

    return result, history, library.attempt(compute) if rooted else ([], None)


def outcome_of_pytorch(torch: Any, record: Record, sample: Sample) -> tuple[Any, Any, Any]:
    return outcome(Library(torch, True), record, sample)


# Operations whose results for nothing are not compared, and why.
KNOWN = {
    "pdist": "PyTorch ends the process with a segmentation fault",
    **dict.fromkeys(
        ("pixel_shuffle", "nn.functional.pixel_shuffle", "pixel_unshuffle", "nn.functional.pixel_unshuffle"),
        "PyTorch gives pixel_unshuffle of nothing its input's shape, so that both backward passes fail",
    ),
    **dict.fromkeys(("channel_shuffle", "nn.functional.channel_shuffle"), "PyTorch's backward passes fail for 0 channels"),
    **dict.fromkeys(("group_norm", "nn.functional.group_norm"), "PyTorch's gradients of the parameters are NaN where groups are empty"),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", *[f"nn.functional.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)]),
        "PyTorch refuses 0 channels in the backward pass only, and no space where the output has more than one position only",
    ),
    "nn.functional.scaled_dot_product_attention": "PyTorch does not look at the mask's shape where the batch is empty",
    "nn.functional.multi_head_attention_forward": "PyTorch takes projection weights without rows for heads of size 0",
    "nn.functional.interpolate": "as adaptive_avg_pool2d, which the mode 'area' is",
    "nn.functional.pad": "PyTorch lets circular padding through where a dimension that is not padded is 0",
    "norm_except_dim": "PyTorch refuses a first or last dimension of 0, by way of a reshape that is ambiguous",
    "Tensor.fill_diagonal_": "PyTorch refuses leaves that require grad, whatever their size",
    "Tensor.set_": "PyTorch refuses leaves that require grad, whatever their size",
    "Tensor.index_reduce_": "PyTorch refuses leaves that require grad, whatever their size",
    "embedding_renorm_": "PyTorch refuses leaves that require grad, whatever their size",
    "nn.functional.embedding_bag": "PyTorch's error for bags of nothing comes from arange",
    **dict.fromkeys(
        ("nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss"),
        "PyTorch returns memory that nothing was written to; here the mean of nothing is NaN",
    ),
    "copy": "PyTorch has no derivative of the functional form",
    "asarray": "PyTorch records the conversion where requires_grad is not given",
    "cholesky": "PyTorch looks at the shape of nothing in the backward pass only",
    "linalg.lstsq": "PyTorch has residuals of 0 where there are no unknowns",
    "lu_unpack": "PyTorch swaps rows that are not there, and ends the process with a segmentation fault",
    **dict.fromkeys(("linalg.householder_product", "orgqr"), "the gradient of nothing is an empty array here, absent in PyTorch"),
    "vander": "PyTorch's backward pass fails",
    **dict.fromkeys(
        [f"fft.{name}{dims}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for dims in ("", "2", "n")] + ["stft"],
        "oneMKL, which computes for PyTorch, refuses batches of nothing",
    ),
    **dict.fromkeys(
        ["nn.functional.grouped_mm", *[f"view_as_{kind}{copy}" for kind in ("real", "complex") for copy in ("", "_copy")]],
        "empty arrays of NumPy have strides of 0, which PyTorch takes over here and then refuses",
    ),
    "repeat_interleave": "PyTorch does not compare output_size with no repeats",
    **dict.fromkeys(("trapezoid", "cumulative_trapezoid"), "PyTorch gives zeros without history for no points"),
    **dict.fromkeys(("norm", "linalg.vector_norm"), "the gradient of the norm 0 is zeros, of an empty shape here, absent in PyTorch"),
    **dict.fromkeys(("median", "nanmedian"), "PyTorch's NaN of nothing has history"),
    **dict.fromkeys(("histogram", "histogramdd"), "PyTorch gives the edges history for no values"),
    "segment_reduce": "PyTorch ends the process with a segmentation fault",
    "native_batch_norm": "PyTorch refuses running moments that require grad, whatever their size",
    "embedding_bag": "PyTorch leaves the bags of rows without columns unnumbered in one of two ways",
    **dict.fromkeys(
        ("conv_tbc", "nn.functional.conv_tbc"), "by way of conv1d, whose channels would be the times: PyTorch's has no such check"
    ),
    "ops.aten.max_pool2d_with_indices_backward": "the gradient of nothing is an empty array here, absent in PyTorch",
    "slice_inverse": "PyTorch looks at the sizes in the backward pass only",
    "_unsafe_masked_index": "PyTorch's filling for nothing has history",
    "binary_cross_entropy_with_logits": "sizes that differ are refused as by nn.functional, with ValueError",
    "dequantize": "PyTorch records that floating point numbers stay what they are, and fails in the backward pass",
    "bincount": "PyTorch ignores weights without values",
    **dict.fromkeys(
        ("embedding", "index_select", "index_add", "index_copy", "index_fill", "index_reduce"),
        "positions in a dimension of size 0 are out of range, which PyTorch does not check, or calls a storage that is too small",
    ),
}


def test_what_is_known_to_differ_has_a_record() -> None:
    assert not set(KNOWN) - set(RECORDS)


@pytest.mark.parametrize("name", [name for name in RECORDS if name not in KNOWN])
@pytest.mark.filterwarnings("ignore")  # means of nothing warn in both libraries
def test_zero_sizes_agree_with_pytorch(name: str, of_pytorch: Callable[..., Any], recorded_oracle: Any) -> None:
    theirs, record = recorded_oracle, RECORDS[name]
    for variant, sample in samples_of(record):
        where = f"{describe(record, sample)} ({variant})"
        result, history, (gradients, error) = outcome(OURS, record, sample)
        wanted, wanted_history, (wanted_gradients, wanted_error) = of_pytorch(outcome_of_pytorch, record, sample)
        if wanted[1] is None and result[1] is None:
            result, wanted = (detached(result[0]), None), (detached(wanted[0]), None)
        assert_same_outcome(result, wanted, theirs, record, where, values=not record.random)
        if wanted[1] is not None:
            continue
        assert history == wanted_history, f"{where}: history {history}, PyTorch has {wanted_history}"
        if wanted_error is not None:
            assert error is not None, f"{where}: gradient given, PyTorch raises {wanted_error!r}"
            continue
        assert error is None, f"{where}: gradient: {error!r}"
        for got, want in zip(gradients, wanted_gradients, strict=True):
            assert (got is None) == (want is None), f"{where}: gradient {got}, PyTorch has {want}"
            if want is not None:
                assert got.dtype == want.dtype and got.shape == want.shape, where
                np.testing.assert_allclose(got.astype(complex), want.astype(complex), rtol=1e-4, atol=1e-5, err_msg=f"{where}: gradient")


def detached(result: Any) -> Any:
    return [value.detach() if hasattr(value, "detach") else value for value in flat(result)]
