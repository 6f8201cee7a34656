"""The programs of ``dispatch_sequences`` exported: their operations beside PyTorch's, and what onnxruntime makes of them.

python -m tests.programs.exported_operations             operations before they are divided, against ``make_fx(pre_dispatch=True)``
python -m tests.programs.exported_operations onnx        exported to ONNX and run; every number is compared
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections import Counter
from typing import Any

import dispatch_sequences
from dispatch_sequences import PROGRAMS
from oracle import pytorch

import flambeau
from flambeau import nn

# Not compared: constants that are lifted, and checks that PyTorch adds.
UNSEEN = ("aten.detach.default", "aten.detach_.default", "aten.lift_fresh_copy.default", "aten._assert", "profiler")
RANDOM = ("rand", "dropout", "bernoulli", "rrelu", "normal_", "uniform_", "poisson", "multinomial", "exponential_", "empty", "gumbel")


def run(library: Any, source: str, scope: dict[str, Any]) -> list[Any]:
    """What a program returns."""
    *steps, last = source.split("; ")
    for step in steps:
        exec(step, scope)
    return dispatch_sequences.flat(library, eval(last, scope))


def operations(library: Any, source: str) -> list[str]:
    """The operations of a program as the dispatcher is called with them."""
    scope = dispatch_sequences.environment(library, source)
    make_fx = importlib.import_module(f"{library.__name__}.fx.experimental.proxy_tensor").make_fx
    library.manual_seed(0)
    graph = make_fx(lambda: run(library, source, scope), tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)().graph
    names = [str(node.target) for node in graph.nodes if node.op == "call_function" and "getitem" not in str(node.target)]
    return [name for name in names if not any(part in name for part in UNSEEN)]


def compare() -> Counter[str]:
    """How many programs have PyTorch's operations; the others are printed."""
    found: Counter[str] = Counter()
    library = pytorch()
    for name, source in PROGRAMS.items():
        try:
            theirs = operations(library, source)
        except Exception:  # what PyTorch cannot trace is not compared
            found["not traced by PyTorch"] += 1
            continue
        try:
            ours = operations(flambeau, source)
        except Exception as error:
            found["not traced"] += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:100]}")
            continue
        found["equal" if ours == theirs else "different"] += 1
        if ours != theirs:
            print(f"{name}\n    PyTorch   {' '.join(theirs)}\n    flambeau  {' '.join(ours)}")
    return found


class Program(nn.Module):
    """A program as a module of one number that is added to its floats, so that they are no constants."""

    def __init__(self, source: str):
        super().__init__()
        self.source, self.scope = source, dispatch_sequences.environment(flambeau, source)
        for name, value in self.scope.items():
            if isinstance(value, nn.Module):
                setattr(self, f"m_{name}", value.eval())

    def forward(self, zero: Any) -> list[Any]:
        scope = {name: getattr(self, f"m_{name}", value) for name, value in self.scope.items()}
        for name, value in scope.items():
            if isinstance(value, flambeau.Tensor):
                scope[name] = value.detach() + zero if value.dtype is flambeau.float32 else value.detach()
        return run(flambeau, self.source, scope)


def onnx_outcome(source: str) -> str:
    """What becomes of a program that is exported, written, checked and run."""
    model, zero = Program(source), flambeau.zeros(())
    wanted = [value for value in model(zero) if isinstance(value, flambeau.Tensor)]
    wanted = [flambeau.view_as_real(value) if value.is_complex() else value for value in wanted]  # ONNX has pairs
    try:
        program = flambeau.onnx.export(model, (zero,), opset_version=18)
    except flambeau.onnx.OnnxExporterError:
        return "not supported"
    importlib.import_module("onnx").checker.check_model(program.model_proto, full_check=True)
    found = program(zero)
    close = [
        a.shape == b.shape and a.dtype is b.dtype and flambeau.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(wanted, found, strict=True)
    ]
    return "equal" if all(close) else "DIFFERENT"


def compare_onnx() -> Counter[str]:
    """How many programs give the same numbers in onnxruntime; those that do not, or fail, are printed."""
    found: Counter[str] = Counter()
    for name, source in PROGRAMS.items():
        if any(part in source for part in RANDOM):
            continue
        try:
            outcome = onnx_outcome(source)
        except Exception as error:
            outcome = "fails"
            print(f"{name}: {type(error).__name__}: {str(error)[:120]}")
        found[outcome] += 1
        if outcome == "DIFFERENT":
            print(f"{name}: other numbers")
    return found


def main(arguments: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_onnx() if "onnx" in arguments else compare()
    print(", ".join(f"{count} {word}" for word, count in found.most_common()))
    return int(bool(found["DIFFERENT"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
