"""Samples of PyTorch's database of operations exported to ONNX and run: what onnxruntime makes of them beside eager results.

python -m tests.programs.exported_database                    every entry, some samples of float32, int64 and bool
python -m tests.programs.exported_database 'linalg.*' --count 20 --opset 23
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import sys
import warnings
from collections import Counter
from typing import Any

from oracle import pytorch

import flambeau
from flambeau import nn
from flambeau._dynamo.exc import UserError
from flambeau._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException
from flambeau.utils._pytree import tree_leaves, tree_map

torch = pytorch()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from conformance.columns import Comparison
    from conformance.comparing import UNDETERMINED
    from conformance.database import FUNCTIONS, Converter

DTYPES = (torch.float32, torch.int64, torch.bool)
# Not compared: values that are drawn, memory that is not written, and what no runtime has.
LEFT_OUT = ("rand", "empty", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential", "cauchy", "geometric", "log_normal")
# The second result is the place of one of equal elements, any of them.
PLACES = ("kthvalue", "median", "nanmedian", "mode")
# What torch.export refuses: sizes and branches that depend on values, and layouts that have no fakes.
REFUSALS = (UserError, UnsupportedFakeTensorException, DynamicOutputShapeException, DataDependentOutputException)


def real(value: Any) -> Any:
    return flambeau.view_as_real(value.resolve_conj()) if value.is_complex() else value


class Called(nn.Module):
    """A call of a function, the tensors of which are inputs."""

    def __init__(self, function: Any, arguments: Any):
        super().__init__()
        self.function, self.arguments = function, arguments

    def forward(self, *tensors: Any) -> Any:
        left = iter(tensors)
        args, kwargs = tree_map(lambda leaf: next(left) if isinstance(leaf, flambeau.Tensor) else leaf, self.arguments)
        results = self.function(*args, **kwargs)
        return [leaf for leaf in tree_leaves(results) if isinstance(leaf, flambeau.Tensor)]


def outcome(function: Any, arguments: Any, opset: int, tolerance: float) -> str:
    """What becomes of a call that is exported, checked and run."""
    tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, flambeau.Tensor)]
    model = Called(function, arguments)
    drawn_before = flambeau.get_rng_state()
    try:
        wanted = [real(value.detach()) for value in model(*[tensor.clone() for tensor in tensors])]
    except Exception:
        return "refused by the operation"
    if not wanted:
        return "nothing to compare"
    if not flambeau.equal(flambeau.get_rng_state(), drawn_before):  # dropout inside of attention
        return "drawn"
    try:
        program = flambeau.onnx.export(model, tuple(tensors), opset_version=opset)
    except flambeau.onnx.OnnxExporterError as error:
        return f"not supported: {str(error)[:150]}"
    importlib.import_module("onnx").checker.check_model(program.model_proto, full_check=True)
    found = program(*tensors)
    if function in [FUNCTIONS.get(name) for name in PLACES]:
        wanted, found = wanted[:1], found[:1]
    for a, b in zip(wanted, found, strict=True):
        if a.shape != b.shape or a.dtype is not b.dtype:
            return f"DIFFERENT: {a.dtype} {tuple(a.shape)}, in onnxruntime {b.dtype} {tuple(b.shape)}"
        if not flambeau.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"DIFFERENT: {a.flatten()[:6].tolist()}, in onnxruntime {b.flatten()[:6].tolist()}"
    return "equal"


def compare(name: str, count: int, opset: int) -> Counter[str]:
    """The outcomes of an entry's samples; those that are neither equal nor without a row are printed."""
    found: Counter[str] = Counter()
    comparison = Comparison(name, count)
    for dtype in DTYPES:
        for sample in comparison.samples(dtype):
            convert = Converter()
            try:
                arguments = convert((sample.input, *sample.args)), convert(sample.kwargs)
            except Exception:
                continue
            try:
                result = outcome(FUNCTIONS[name], arguments, opset, 1e-3)
            except REFUSALS as error:
                result = f"not supported: {type(error).__name__}: {str(error)[:150]}"
            except Exception as error:
                result = f"fails: {type(error).__name__}: {str(error)[:200]}"
            found[result.partition(":")[0]] += 1
            if ":" in result:
                print(f"{name} [{dtype}] {result}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.exported_database", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database, or patterns")
    parser.add_argument("--count", type=int, default=4, help="samples of each dtype")
    parser.add_argument("--opset", type=int, default=18)
    options = parser.parse_args(arguments)
    names = [name for name in FUNCTIONS if any(fnmatch.fnmatchcase(name, each) for each in options.names or ["*"])]
    found: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if name not in UNDETERMINED and not any(part in name for part in LEFT_OUT):
                found += compare(name, options.count, options.opset)
    print(", ".join(f"{count} {word}" for word, count in found.most_common()))
    return int(bool(found["DIFFERENT"] or found["fails"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
