"""Comparing exported models, run by onnxruntime, with the programs that they were made of. Source: torch.onnx.verification."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..core import dtype as dtypes
from ..core.tensor import Tensor
from ..ops.from_data import tensor
from ..ops.statistics import histogram
from ..ops.views import view_as_real
from ..utils._pytree import tree_flatten
from .program import ONNXProgram

__all__ = ["VerificationInfo", "verify_onnx_program"]

_EDGES = (0.0, *[10.0**power for power in range(-6, 2)], 1e6)  # of the histograms
_LEAST = 1e-7  # added to what differences are divided by


@dataclasses.dataclass
class VerificationInfo:
    """The differences of one result.

    Args:
        name: of the result. max_abs_diff, max_rel_diff: the largest difference, and the largest share of what was expected; infinite
            where there are no elements.
        abs_diff_hist, rel_diff_hist: how many differences lie between which edges, as ``torch.histogram`` gives them.
        expected_dtype, actual_dtype: of the program's result and the model's.
    Source: torch.onnx.verification.VerificationInfo.
    Example:
        >>> from flambeau.onnx.verification import VerificationInfo
        >>> VerificationInfo.from_tensors("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])).max_abs_diff
        0.5
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[Tensor, Tensor]
    rel_diff_hist: tuple[Tensor, Tensor]
    expected_dtype: dtypes.dtype
    actual_dtype: dtypes.dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        """Compare two tensors, or numbers, of one shape; those of complex numbers by parts, of which models have pairs."""
        expected, actual = (value.detach() if isinstance(value, Tensor) else tensor(value) for value in (expected, actual))
        one, other = map(_as_real, (expected, actual))
        difference = (one - other).abs()
        share = difference / (one.abs() + _LEAST)
        edges = tensor(_EDGES, dtype=dtypes.float32)
        absolute, relative = (histogram(each.float(), edges) for each in (difference, share))
        most, largest = (each.max().item() if each.numel() else math.inf for each in (difference, share))
        return cls(name, most, largest, absolute, relative, expected.dtype, actual.dtype)

    def asdict(self) -> dict[str, Any]:
        """The same as lists, numbers and strings."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("abs_diff_hist", "rel_diff_hist"):
            found[name] = [part.tolist() for part in found[name]]
        return {**found, "expected_dtype": str(self.expected_dtype), "actual_dtype": str(self.actual_dtype)}


def _as_real(value: Tensor) -> Tensor:
    if value.dtype.is_complex:
        return view_as_real(value)
    return value.to(dtypes.float32) if value.dtype == dtypes.bool_ else value


def verify_onnx_program(
    onnx_program: ONNXProgram,
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    compare_intermediates: bool = False,
) -> list[VerificationInfo]:
    """The differences between a model's results and those of the program that it was made of.

    Args:
        onnx_program: what ``torch.onnx.export`` made.
        args, kwargs: inputs; those of the export when both are None.
        compare_intermediates: not supported.
    Returns:
        One for each result.
    Raises:
        ValueError: the program that it was made of is not known, or there are no inputs.
        NotImplementedError: ``compare_intermediates``.
    Source: torch.onnx.verification.verify_onnx_program.
    Example:
        >>> program = torch.onnx.export(nn.Linear(2, 1), (torch.ones(1, 2),), dynamo=True, verbose=False)
        >>> [info.max_abs_diff < 1e-5 for info in torch.onnx.verification.verify_onnx_program(program)]
        [True]
    """
    program = onnx_program.exported_program
    if compare_intermediates:
        raise NotImplementedError("verify_onnx_program: compare_intermediates is not supported")
    if program is None:
        raise ValueError("verify_onnx_program: the model knows no exported program to be compared with")
    if args is None and kwargs is None:
        if program.example_inputs is None:
            raise ValueError("verify_onnx_program: no inputs are given, and the exported program has none")
        args, kwargs = program.example_inputs
    args, kwargs = args or (), kwargs or {}
    expected = tree_flatten(program.module()(*args, **kwargs))[0]
    names = [item.name for item in onnx_program.model_proto.graph.output]
    actual = onnx_program(*args, **kwargs)
    return [VerificationInfo.from_tensors(*each) for each in zip(names, expected, actual, strict=True)]
