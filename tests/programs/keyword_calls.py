"""Every public function and method called with all of its arguments by PyTorch's names of them.

PyTorch's stubs say the names of each overload of what is compiled, its Python functions say their own, and the schemas those of ``linalg``,
``fft`` and ``special``. The samples of PyTorch's database of operations are bound to each overload that takes them, as a function, as a
method and in place, and as every alias; what PyTorch computes then must come out here too. Of overloads that no sample reaches
(``unreached``), the names are looked for in what our function is declared to take.

    python -m tests.programs.keyword_calls [NAME ...]
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

import flambeau

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from conformance.columns import Comparison, Mismatch
    from conformance.database import FUNCTIONS, attribute

SAMPLES = 5
MISTAKEN = {"numel", "set_num_threads", "set_num_interop_threads", "Tensor.requires_grad_"}  # the stubs say names that PyTorch refuses
# Values that are not compared here: which of equal elements is meant is left open; the last digits of sums that nearly cancel.
VALUES_LEFT_OUT = {"median", "nanmedian", "fft.hfft2"}
# name and keyword -> why not
KNOWN = {
    ("quantize_per_tensor", "tensors"): "lists of tensors come by position",
    ("max", "dim"): "a tensor for `dim` is the other operand, also by keyword, where PyTorch takes it for a number",
}
KNOWN |= {(name, "dim"): KNOWN["max", "dim"] for name in ("min", "Tensor.max", "Tensor.min")}


class Signature(NamedTuple):
    """The names of one overload: those that may be given by position, the others, and the first of a method's."""

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...] = ()

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """All arguments by keyword; None where they do not fit."""
        names = self.positional[: len(args)]
        if len(names) < len(args) or not kwargs.keys() <= {*self.positional, *self.keyword_only} or set(names) & kwargs.keys():
            return None
        return {**dict(zip(names, args, strict=True)), **kwargs}


def _of_definition(node: ast.FunctionDef) -> Signature:
    positional = [arg.arg for arg in node.args.posonlyargs + node.args.args]
    return Signature(tuple(positional), tuple(arg.arg for arg in node.args.kwonlyargs))


def _definitions(body: list[ast.stmt], is_class: bool = False) -> dict[str, list[Signature]]:
    found: dict[str, list[Signature]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            signature = _of_definition(node)
            if node.args.vararg is None:
                found.setdefault(node.name, []).append(Signature(signature.positional[is_class:], signature.keyword_only))
    return found


@functools.cache
def stubs() -> dict[str, dict[str, list[Signature]]]:
    """PyTorch's overloads by namespace and name."""
    folder = Path(torch.__file__).parent / "_C"

    def parsed(name: str) -> list[ast.stmt]:
        return ast.parse((folder / name).read_text()).body

    base = next(node for node in parsed("__init__.pyi") if isinstance(node, ast.ClassDef) and node.name == "TensorBase")
    found = {
        "torch": _definitions(parsed("_VariableFunctions.pyi")),
        "Tensor": _definitions(base.body, is_class=True),
        "nn.functional": _definitions(parsed("_nn.pyi")),
        "linalg": {},
        "fft": {},
        "special": {},
    }
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.removeprefix("aten::").partition("_")
        if schema.name.startswith("aten::") and namespace in ("linalg", "fft", "special") and not name.endswith("_"):
            own = [("input" if arg.name == "self" else arg.name, arg.kwarg_only) for arg in schema.arguments if arg.name != "out"]
            signature = Signature(tuple(n for n, only in own if not only), tuple(n for n, only in own if only))
            found[namespace].setdefault(name, []).append(signature)
    return found


@functools.cache
def signatures(name: str) -> tuple[Signature, ...]:
    """The overloads of ``add``, ``Tensor.add``, ``nn.functional.relu``, ``linalg.inv``."""
    namespace, _, last = name.rpartition(".")
    function = attribute(torch, name)
    if inspect.isfunction(function):
        kinds = inspect.Parameter
        parameters = list(inspect.signature(function).parameters.values())
        if any(p.kind is kinds.VAR_POSITIONAL for p in parameters):
            return ()
        own = [p for p in parameters if p.kind is not kinds.VAR_KEYWORD]
        return (
            Signature(
                tuple(p.name for p in own if p.kind is not kinds.KEYWORD_ONLY)[namespace == "Tensor" :],
                tuple(p.name for p in own if p.kind is kinds.KEYWORD_ONLY),
            ),
        )
    return tuple(dict.fromkeys(stubs().get(namespace or "torch", {}).get(last, ())))


class Calls(Comparison):
    """The samples of one entry of the database, called by keyword in both libraries."""

    def __init__(self, name: str):
        super().__init__(name, SAMPLES)
        self.values = self.values and self.entry.name not in VALUES_LEFT_OUT
        self.reached: set[tuple[str, Signature]] = set()

    def names(self) -> Iterator[str]:
        """The function's name and its aliases, the methods, and the in-place forms."""
        entry = self.entry
        if entry.name.startswith("_"):  # private functions, and operators
            return
        for name in (entry.name, *[alias.name.removeprefix("torch.") for alias in entry.aliases]):
            for candidate in (name, f"{name}_", f"Tensor.{name}", f"Tensor.{name}_"):
                if attribute(torch, candidate) is not None:
                    yield candidate

    def compare(self) -> None:
        for dtype in [dtype for dtype in (torch.float32, torch.int64, torch.bool) if dtype in self.entry.supported_dtypes("cpu")][:2]:
            for sample in self.samples(dtype):
                for name in self.names():
                    for signature in signatures(name):
                        if "self" not in signature.positional:
                            self.one(sample, name, signature)

    def one(self, sample: Any, name: str, signature: Signature) -> None:
        is_method = name.startswith("Tensor.")
        if (is_method and not isinstance(sample.input, torch.Tensor)) or (name.endswith("_") and sample.broadcasts_input):
            return
        bound = signature.bind((*([] if is_method else [sample.input]), *sample.args), sample.kwargs)
        if bound is None or any((name, key) in KNOWN and isinstance(value, torch.Tensor) for key, value in bound.items()):
            return

        def oracle(*args: Any, **kwargs: Any) -> Any:
            return attribute(torch, name)(*args, **kwargs)

        def ours(*args: Any, **kwargs: Any) -> Any:
            return attribute(flambeau, name)(*args, **kwargs)

        keyword_sample = type(sample)(sample.input, args=(), kwargs=bound)

        def call(made: Any) -> None:
            (got, error), (want, expected), *_ = self.call_by(made, is_method, ours, oracle)
            if expected is not None:
                return
            self.reached.add((name, signature))
            self.agree((got, error), (want, None), sample, lambda *args, **kwargs: None)

        shown = f" as {name}({', '.join(bound)})"
        self.attempt(keyword_sample, shown, call)

    def call_by(self, sample: Any, is_method: bool, ours: Any, oracle: Any) -> tuple[Any, ...]:
        if is_method:
            return self.call_both(sample, ours, oracle)
        kwargs = sample.kwargs
        return self.call_both(type(sample)(None, args=(), kwargs=kwargs), lambda _, **kw: ours(**kw), lambda _, **kw: oracle(**kw))


def compared(name: str) -> Calls:
    calls = Calls(name)
    calls.compare()
    return calls


# -- what no sample reaches --------------------------------------------------------------------------------------------------
def accepted(name: str) -> set[str] | None:
    """The keywords of our function; None where it takes any."""
    function = attribute(flambeau, name)
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}


def unreached(reached: set[tuple[str, Signature]]) -> Iterator[Mismatch]:
    """Overloads whose names are not those of our function's parameters, among the ones that no sample reached.

    Left out are overloads of PyTorch's first versions, in which a number comes before the tensor that it scales (``old_order`` in the
    registry); those of recurrent layers over packed sequences; and what PyTorch's stubs say wrongly.
    """
    for namespace, table in stubs().items():
        for last in table:
            name = last if namespace == "torch" else f"{namespace}.{last}"
            if last.startswith("_") or attribute(torch, name) is None or not callable(attribute(flambeau, name)):
                continue
            for signature in signatures(name):
                if (name, signature) in reached or "self" in signature.positional or "batch_sizes" in signature.positional:
                    continue
                if name in MISTAKEN:
                    continue
                try:
                    ours = accepted(name)
                except (ValueError, TypeError) as error:
                    yield Mismatch(name, f"its signature cannot be read: {error}")
                    continue
                missing = [] if ours is None else [n for n in (*signature.positional, *signature.keyword_only) if n not in ours]
                if missing and (name, missing[0]) not in KNOWN:
                    yield Mismatch(name, f"({', '.join(signature.positional)}, *, {', '.join(signature.keyword_only)}): no {missing}")


def main(names: list[str]) -> None:
    reached: set[tuple[str, Signature]] = set()
    agreed = different = 0
    for name in names or FUNCTIONS:
        calls = compared(name)
        reached |= calls.reached
        agreed += calls.outcome.agreed
        different += len(calls.outcome.mismatches)
        for mismatch in calls.outcome.mismatches:
            print(mismatch)
    print(f"{agreed} calls agree, {different} differ; {len(reached)} overloads reached")
    if not names:
        for mismatch in unreached(reached):
            print(mismatch)


if __name__ == "__main__":
    main(sys.argv[1:])
