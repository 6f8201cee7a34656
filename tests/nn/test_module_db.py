"""PyTorch's own database of modules as a yardstick: its sample inputs and its error inputs, given to both libraries.

Every module of ``module_db`` that ``flambeau.nn`` has is constructed from one seed in both; its printed form, its state, what it gives in
training and in evaluation, and its gradients must agree, and wrong arguments must be refused in PyTorch's words.

By hand, with all samples instead of a few:

    python -m tests.nn.test_module_db NAME...      every mismatch of these modules; of all modules without a name
"""

from __future__ import annotations

import importlib
import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

sys.path.append(str(Path(__file__).parents[1] / "helpers"))  # for `python -m tests.nn.test_module_db`; pytest does it by itself

from libraries import OURS, flat

import flambeau

torch = pytorch()
pytest.importorskip("expecttest")  # torch.testing._internal needs it

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = pytorch("torch.testing._internal.common_modules")

    from conformance.database import Converter, Unsupported, array_of

pytestmark = pytest.mark.oracle

SAMPLES = 5  # of each mode, evenly spaced among those of the database
ENTRIES = {entry.name.removeprefix("nn."): entry for entry in theirs.module_db if hasattr(flambeau.nn, entry.module_cls.__name__)}
WITH_ERRORS = [name for name, entry in ENTRIES.items() if entry.module_error_inputs_func is not None]
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class ModuleConverter(Converter):
    """PyTorch's functions and modules among a constructor's arguments as flambeau's."""

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return self.module(value)
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            for namespace in (flambeau.nn.functional, flambeau):
                if getattr(torch.nn.functional, value.__name__, None) is value or getattr(torch, value.__name__, None) is value:
                    return getattr(namespace, value.__name__)
        return super().__call__(value)

    def module(self, value: Any) -> Any:
        """A module of the same class with copies of all members."""
        path = type(value).__module__.replace("torch.", "flambeau.", 1)
        cls = getattr(importlib.import_module(path), type(value).__name__)
        state = {key: self(item) for key, item in vars(value).items() if key not in ("_parameters", "_modules", "_buffers")}
        for key in ("_buffers", "_modules"):
            state[key] = {name: self(member) for name, member in getattr(value, key).items()}
        state["_parameters"] = {
            name: None if member is None else flambeau.nn.Parameter(self.tensor(member.detach()))
            for name, member in value._parameters.items()
        }
        module = cls.__new__(cls)
        module.__setstate__(state)
        return module


class Differs(Exception):
    """A comparison found a difference."""


def _inputs(entry: Any, function: Any, training: bool) -> list[Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(function(entry, device="cpu", dtype=torch.float64, requires_grad=True, training=training))


def _chosen(samples: list[Any], count: int | None) -> list[Any]:
    if count is None or len(samples) <= count:
        return samples
    return [samples[k] for k in sorted({round(k) for k in np.linspace(0, len(samples) - 1, count)})]


def _printed(module: Any) -> str:
    return _ADDRESS.sub("0x", repr(module))


def _compare(what: str, got: Any, want: Any) -> None:
    """Tensors, and whatever holds them, agree in number, dtype, shape and values."""
    got, want = flat(got), flat(want)
    if len(got) != len(want):
        raise Differs(f"{what}: {len(got)} values, PyTorch has {len(want)}")
    for k, (ours, other) in enumerate(zip(got, want, strict=True)):
        if not isinstance(other, torch.Tensor):
            if str(ours) != str(other):
                raise Differs(f"{what} {k}: {ours!r}, PyTorch has {other!r}")
            continue
        if flambeau.nn.parameter.is_lazy(ours) or torch.nn.parameter.is_lazy(other):
            if repr(ours) != repr(other):
                raise Differs(f"{what} {k}: {ours!r}, PyTorch has {other!r}")
            continue
        if str(ours.dtype) != str(other.dtype) or tuple(ours.shape) != tuple(other.shape):
            raise Differs(f"{what} {k}: {ours.dtype} {tuple(ours.shape)}, PyTorch has {other.dtype} {tuple(other.shape)}")
        mine, expected = OURS.array(ours).astype(np.float64), array_of(other).astype(np.float64)
        if not np.allclose(mine, expected, rtol=1e-6, atol=1e-8, equal_nan=True):
            raise Differs(f"{what} {k}: values differ by up to {np.nanmax(np.abs(mine - expected)):.3g}")


def _gradients(library: Any, results: Any, tensors: list[Any]) -> list[Any]:
    """The gradients of a weighted sum of all results; None for what took no part."""
    roots = [result for result in flat(results) if isinstance(result, library.Tensor) and result.requires_grad]
    if not roots or not tensors:
        return []
    total = sum((root * library.linspace(0.5, 1.5, root.numel(), dtype=root.dtype).reshape(root.shape)).sum() for root in roots)
    gradients = library.autograd.grad(total, tensors, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None and (gradient != 0).any()]


def _built(entry: Any, given: Any, convert: Converter) -> tuple[Any, Any]:
    """The module in both libraries, from one seed."""
    arguments = given.constructor_input
    torch.manual_seed(1)
    other = entry.module_cls(*arguments.args, **arguments.kwargs)
    flambeau.manual_seed(1)
    ours = getattr(flambeau.nn, entry.module_cls.__name__)(*convert(tuple(arguments.args)), **convert(arguments.kwargs))
    return ours, other


def _check_sample(entry: Any, given: Any, training: bool) -> None:
    convert = ModuleConverter()
    ours, other = _built(entry, given, convert)
    if _printed(ours) != _printed(other):
        raise Differs(f"printed {_printed(ours)}, PyTorch prints {_printed(other)}")
    mine, expected = ours.state_dict(), other.state_dict()
    if list(mine) != list(expected):
        raise Differs(f"state {list(mine)}, PyTorch has {list(expected)}")
    _compare("initial state", list(mine.values()), list(expected.values()))
    ours.to(flambeau.float64).train(training)
    other.to(torch.float64).train(training)
    arguments = given.forward_input
    if arguments is None:
        return
    args, kwargs = convert(tuple(arguments.args)), convert(arguments.kwargs)
    torch.manual_seed(2)
    want = other(*arguments.args, **arguments.kwargs)
    flambeau.manual_seed(2)
    got = ours(*args, **kwargs)
    _compare("result", got, want)
    leaves = [*convert.leaves, *zip(ours.parameters(), other.parameters(), strict=True)]
    leaves = [(a, b) for a, b in leaves if b.requires_grad and b.is_leaf]
    gradients = _gradients(flambeau, got, [a for a, _ in leaves]), _gradients(torch, want, [b for _, b in leaves])
    _compare("gradient", *gradients)
    _compare("state after the call", list(ours.state_dict().values()), list(other.state_dict().values()))


def mismatches(name: str, training: bool, count: int | None) -> Iterator[str]:
    """What differs, sample by sample."""
    entry = ENTRIES[name]
    for given in _chosen(_inputs(entry, entry.module_inputs_func, training), count):
        where = f"{name}{tuple(given.constructor_input.args)} {given.constructor_input.kwargs} {given.desc}"
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                _check_sample(entry, given, training)
            except Unsupported:
                continue
            except Exception as error:
                yield f"{where}: {type(error).__name__}: {error}"


def error_mismatches(name: str) -> Iterator[str]:
    """Error inputs that are accepted, or refused in other words than the database expects."""
    entry = ENTRIES[name]
    for given in _inputs(entry, entry.module_error_inputs_func, True):
        convert = ModuleConverter()
        sample, cls = given.module_error_input, getattr(flambeau.nn, entry.module_cls.__name__)
        arguments, inputs = sample.constructor_input, sample.forward_input
        where = f"{name}{tuple(arguments.args)} {arguments.kwargs}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = cls(*convert(tuple(arguments.args)), **convert(arguments.kwargs))
                if given.error_on is not theirs.ModuleErrorEnum.CONSTRUCTION_ERROR:
                    module(*convert(tuple(inputs.args)), **convert(inputs.kwargs))
            except given.error_type as error:
                if not re.search(given.error_regex, str(error)):
                    yield f"{where}: says {error!s}, expected {given.error_regex}"
            except Exception as error:
                yield f"{where}: raises {error!r}, expected {given.error_type.__name__}: {given.error_regex}"
            else:
                yield f"{where}: accepted, expected {given.error_type.__name__}: {given.error_regex}"


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", ENTRIES)
def test_module(name: str, training: bool) -> None:
    differing = list(mismatches(name, training, SAMPLES))
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("name", WITH_ERRORS)
def test_error_inputs(name: str) -> None:
    differing = list(error_mismatches(name))
    assert not differing, "\n".join(differing)


def main(names: list[str]) -> None:
    for name in names or ENTRIES:
        texts = [text for training in (True, False) for text in mismatches(name, training, None)]
        texts += list(error_mismatches(name)) if name in WITH_ERRORS else []
        for text in texts:
            print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
