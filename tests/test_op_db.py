"""PyTorch's own database of operations as a yardstick: its sample inputs and its error inputs, given to both libraries.

Every entry of ``op_db`` whose name flambeau has is called as a function, as a method and in place, in five groups of dtypes; results
must agree in value, dtype, shape, strides and in which inputs they share memory with, and gradients must agree.  Known differences
stand in ``op_db_gaps.GAPS``, each with its reason; an entry there that is no longer true fails.

By hand, with all samples instead of a few:

    python -m tests.test_op_db NAME...      every mismatch of these operations (patterns such as 'fft.*' are understood)
    python -m tests.test_op_db --all        the operations that have mismatches, and the names that flambeau lacks
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import itertools
import re
import sys
import types
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))  # for `python -m tests.test_op_db`; pytest does it by itself

from libraries import OURS, TOLERANCE, expected_type, flat, relevant_strides
from op_db_gaps import GAPS, LOOSE, VALUES_OF, Gap
from records.record import numpy_dtype

import flambeau

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal needs it

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations as theirs

pytestmark = pytest.mark.oracle

GROUPS = {
    "float": (torch.float32, torch.bfloat16),
    "integral": (torch.int64, torch.bool),
    "complex": (torch.complex64,),
    "gradient": (torch.float64, torch.complex128),
    "errors": (),
}
SAMPLES = 3  # of each dtype
LOOKED_AT = 40  # samples from which those are chosen, evenly spaced
# Of memory that nobody has written there is nothing to compare but its shape.
UNDETERMINED = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_ nn.functional.rrelu".split()
)


# -- the same thing in the other library ------------------------------------------------------------------------------------
def array_of(tensor: Any) -> np.ndarray:
    """The values of a PyTorch tensor, strides and all; shares its memory."""
    tensor = torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()


class Unsupported(Exception):
    """The sample has something that both libraries cannot have: a sparse tensor, another device."""


class Converter:
    """PyTorch's arguments as flambeau's; the same tensor twice stays the same tensor."""

    def __init__(self) -> None:
        self.leaves: list[tuple[Any, Any]] = []
        self.made: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self.made:
                self.made[id(value)] = value, self.tensor(value)
            return self.made[id(value)][1]
        if isinstance(value, torch.Size):
            return flambeau.Size(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, (list, tuple)):
            return type(value)([self(item) for item in value])
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self(value.start), self(value.stop), self(value.step))
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return getattr(flambeau, str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return flambeau.device(str(value))
        if isinstance(value, torch.Generator):
            return flambeau.Generator().manual_seed(value.initial_seed())
        if isinstance(value, torch.nn.Module):  # one without parameters, such as a distance
            module = getattr(flambeau.nn, type(value).__name__)()
            module.__dict__.update({key: item for key, item in vars(value).items() if isinstance(item, (int, float, str))})
            return module
        return rebound(value) if is_written_for_tests(value) else value

    def tensor(self, value: Any) -> Any:
        if value.layout is not torch.strided or value.device.type != "cpu":
            raise Unsupported(f"{value.layout} tensor on {value.device}")
        plain = value.detach().resolve_conj().resolve_neg()
        memory = array_of(torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage()))
        offset = plain.storage_offset() if plain.numel() else 0
        try:
            result = flambeau.core.tensor.wrap(memory.copy()).as_strided(plain.shape, plain.stride(), offset).detach()
        except (RuntimeError, ValueError) as error:  # memory that was given up, or more dimensions than NumPy has
            raise Unsupported(str(error)) from error
        if value.requires_grad:
            result.requires_grad_()
            self.leaves.append((result, value))
        return result


def seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the database calls random operations through."""
    flambeau.manual_seed(42)
    return function(*args, **kwargs)


def rebound(function: Any) -> Any:
    """A function of the database over flambeau instead of PyTorch."""
    scope = dict(function.__globals__)
    scope.update(torch=flambeau, wrapper_set_seed=seeded, F=flambeau.nn.functional)
    for name in function.__code__.co_names:
        value = scope.get(name)
        if value is not function and value is not seeded and is_written_for_tests(value):
            scope[name] = rebound(value)
    function_copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    function_copy.__kwdefaults__ = function.__kwdefaults__
    return function_copy


def is_written_for_tests(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and (function.__module__ or "").startswith("torch.testing")


def attribute(root: Any, dotted: str) -> Any:
    """``root.a.b`` for 'a.b', or None where there is none."""
    try:
        for part in dotted.split("."):
            root = getattr(root, part)
    except (AttributeError, ImportError):
        return None
    return root


def our_function(entry: Any) -> Callable[..., Any] | None:
    """flambeau's counterpart of an entry's function; None where flambeau lacks the name."""
    candidate = attribute(flambeau, entry.name)
    if not callable(candidate):  # a dtype's name may be a method's too
        candidate = attribute(flambeau.Tensor, entry.name)
    if candidate is None and is_written_for_tests(entry.op):  # such as 'uniform', which exists in place only
        candidate = attribute(flambeau.Tensor, entry.name + "_")
    if candidate is None:
        return None
    if is_written_for_tests(entry.op):
        return rebound(entry.op)
    return candidate if attribute(torch, entry.name) or attribute(torch.Tensor, entry.name) else None


def our_variant(entry: Any, variant: Any) -> Callable[..., Any] | None:
    """flambeau's counterpart of a method."""
    if isinstance(variant, functools.partial):  # an in-place form by `inplace=True`
        function = getattr(flambeau.nn.functional, variant.func.__name__, None)
        return function and functools.partial(function, *variant.args, **variant.keywords)
    return rebound(variant) if is_written_for_tests(variant) else getattr(flambeau.Tensor, variant.__name__, None)


def full_name(entry: Any) -> str:
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name


ENTRIES = {full_name(entry): entry for entry in theirs.op_db if entry.op is not None}
FUNCTIONS = {name: found for name, entry in ENTRIES.items() if (found := our_function(entry)) is not None}


# -- one call in both -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mismatch:
    """Where the two libraries differ."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Differs(Exception):
    """A comparison found a difference."""


def attempt(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


def short(value: Any) -> str:
    if hasattr(value, "stride") and hasattr(value, "dtype"):
        plain = value.is_contiguous()
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{'' if plain else f'/{list(value.stride())}'}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(short, value))}]"
    return repr(value)[:60]


def describe(name: str, args: Any, kwargs: Any) -> str:
    return f"{name}({', '.join([short(arg) for arg in args] + [f'{key}={short(value)}' for key, value in kwargs.items()])})"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def check_close(got: np.ndarray, want: np.ndarray, name: str, dtype: str) -> None:
    rtol, atol = LOOSE.get(name, {}).get(dtype, TOLERANCE.get(dtype, (0, 0)))
    kind = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    if got.dtype.kind in "biu" and want.dtype.kind in "biu":
        kind = np.int64
    got, want = np.asarray(got).astype(kind), np.asarray(want).astype(kind)
    with np.errstate(all="ignore"):
        close = np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if not close.all():
        k = tuple(int(i) for i in np.argwhere(~close)[0])
        raise Differs(f"values differ at {(~close).sum()} of {close.size} places, first {list(k)}: {got[k]!r}, PyTorch has {want[k]!r}")


def check_results(got: Any, want: Any, name: str, values: bool = True) -> None:
    got, want = flat(got), flat(want)
    if len(got) != len(want):
        raise Differs(f"{len(got)} results, PyTorch has {len(want)}")
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if not isinstance(b, torch.Tensor):
            same = type(a).__name__ == type(b).__name__ and (str(a) == str(b) or a == b)
            if not same and not (isinstance(a, float) and isinstance(b, float) and np.isclose(a, b, rtol=1e-5)):
                raise Differs(f"result {k} is {a!r}, PyTorch has {b!r}")
            continue
        if b.layout is not torch.strided:
            raise Unsupported("sparse result")
        if not isinstance(a, flambeau.Tensor):
            raise Differs(f"result {k} is a {type(a).__name__}, no tensor")
        if str(a.dtype) != str(b.dtype):
            raise Differs(f"dtype of result {k}: {a.dtype}, PyTorch has {b.dtype}")
        if tuple(a.shape) != tuple(b.shape):
            raise Differs(f"shape of result {k}: {tuple(a.shape)}, PyTorch has {tuple(b.shape)}")
        if relevant_strides(a) != relevant_strides(b):
            raise Differs(f"strides of result {k}: {a.stride()}, PyTorch has {b.stride()}")
        if values and k in VALUES_OF.get(name, (k,)):
            check_close(OURS.array(a), array_of(b), name, str(b.dtype).removeprefix("torch."))


def shared(results: Any, inputs: Any) -> list[tuple[int, int]]:
    """Which results share memory with which inputs."""

    def places(values: Any) -> list[int]:
        tensors = [item for item in flat(values) if hasattr(item, "untyped_storage") and item.layout in (torch.strided, flambeau.strided)]
        return [item.untyped_storage().data_ptr() if item.numel() else 0 for item in tensors]

    return [(i, j) for i, a in enumerate(places(results)) for j, b in enumerate(places(inputs)) if a == b != 0]


def compare_outcomes(ours: Any, oracle: Any, name: str, values: bool = True) -> bool:
    """Both succeed alike, or both fail alike.  Returns whether they succeed."""
    (got, error), (want, expected) = ours, oracle
    if expected is not None:
        if error is None:
            raise Differs(f"accepted, PyTorch raises {type(expected).__name__}: {first_line(expected)}")
        if not isinstance(error, expected_type(expected)) and not isinstance(error, NotImplementedError):
            raise Differs(
                f"raises {type(error).__name__}: {first_line(error)}; PyTorch raises {type(expected).__name__}: {first_line(expected)}"
            )
        return False
    if error is not None:
        raise Differs(f"{type(error).__name__}: {first_line(error)}")
    check_results(got, want, name, values)
    return True


class Comparison:
    """One entry of the database in both libraries."""

    def __init__(self, name: str, few: bool):
        self.name, self.few = name, few
        self.entry, self.ours = ENTRIES[name], FUNCTIONS[name]
        self.values = self.entry.name not in UNDETERMINED
        self.mismatches: list[Mismatch] = []
        self.compared = 0

    def run(self, group: str) -> list[Mismatch]:
        if group == "errors":
            self.errors()
        for dtype in GROUPS[group]:
            for sample in self.samples(dtype, group == "gradient"):
                if group == "gradient":
                    self.attempt(sample, "", self.gradients)
                    continue
                self.attempt(sample, "", self.function)
                if isinstance(sample.input, torch.Tensor) and self.entry.method_variant is not None:
                    self.attempt(sample, " as a method", self.method)
                inplace = self.entry.inplace_variant is not None and not sample.broadcasts_input
                if isinstance(sample.input, torch.Tensor) and inplace:
                    self.attempt(sample, " in place", self.inplace)
        return self.mismatches

    def samples(self, dtype: Any, requires_grad: bool) -> list[Any]:
        if dtype not in self.entry.supported_dtypes("cpu"):
            return []
        if requires_grad and not (self.entry.supports_autograd and dtype in self.entry.supported_backward_dtypes("cpu")):
            return []
        torch.manual_seed(zlib.crc32(self.name.encode()))
        np.random.seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                listed = list(itertools.islice(self.entry.sample_inputs("cpu", dtype, requires_grad), LOOKED_AT if self.few else 10**6))
            except RuntimeError as error:  # the database's own samples want a GPU
                if "CUDA" in str(error):
                    return []
                raise
        if not self.few or len(listed) <= SAMPLES:
            return listed
        return [listed[k * (len(listed) - 1) // (SAMPLES - 1)] for k in range(SAMPLES)]

    def attempt(self, sample: Any, how: str, compare: Callable[[Any], None]) -> None:
        try:
            compare(sample)
            self.compared += 1
        except Unsupported:
            return
        except Differs as difference:
            where = describe(self.name, (sample.input, *sample.args), sample.kwargs) + how
            self.mismatches.append(Mismatch(where, str(difference)))

    def call_both(self, sample: Any, ours: Callable[..., Any], oracle: Callable[..., Any]) -> tuple[Any, Any, Any, Any]:
        convert = Converter()
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        flambeau.manual_seed(0)
        got = attempt(ours, mine, *args, **kwargs)
        copy = _copied(sample.input)
        torch.manual_seed(0)
        want = attempt(oracle, copy, *_copied(tuple(sample.args)), **_copied(sample.kwargs))
        return got, want, (mine, args), (copy, sample.args)

    def function(self, sample: Any) -> None:
        convert = Converter()
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        flambeau.manual_seed(0)
        got = attempt(self.ours, mine, *args, **kwargs)
        copies = _copied((sample.input, *sample.args)), _copied(sample.kwargs)
        torch.manual_seed(0)
        want = attempt(self.entry.op, *copies[0], **copies[1])
        if compare_outcomes(got, want, self.name, self.values):
            a, b = shared(got[0], (mine, args)), shared(want[0], copies[0])
            if a != b:
                raise Differs(f"results share memory with inputs at {a}, PyTorch's at {b}")

    def method(self, sample: Any) -> None:
        ours = our_variant(self.entry, self.entry.method_variant)
        if ours is None:
            raise Differs("there is no such method")
        got, want, _, _ = self.call_both(sample, ours, self.entry.method_variant)
        compare_outcomes(got, want, self.name, self.values)

    def inplace(self, sample: Any) -> None:
        ours = our_variant(self.entry, self.entry.inplace_variant)
        if ours is None:
            raise Differs("there is no such method")
        got, want, (mine, _), (copy, _) = self.call_both(sample, ours, self.entry.inplace_variant)
        if compare_outcomes(got, want, self.name, self.values):
            if want[0] is copy and got[0] is not mine:
                raise Differs("the result is not the input itself")
            check_results(mine, copy, self.name, self.values)

    def gradients(self, sample: Any) -> None:
        convert = Converter()
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        if not convert.leaves:
            return
        process = sample.output_process_fn_grad
        flambeau.manual_seed(0)
        got = attempt(lambda: rebound(process)(self.ours(mine, *args, **kwargs)))
        torch.manual_seed(0)
        want = attempt(lambda: process(self.entry.op(sample.input, *sample.args, **sample.kwargs)))
        if got[1] is not None or want[1] is not None:
            compare_outcomes(got, want, self.name)
            return
        outputs, expected = self.differentiable(got[0]), self.differentiable(want[0])
        if len(outputs) != len(expected):
            raise Differs(f"{len(outputs)} results require grad, PyTorch has {len(expected)}")
        if not outputs:
            return
        rng = np.random.default_rng(0)
        weights = [_weight(rng, result) for result in expected]
        leaves, originals = zip(*convert.leaves, strict=True)
        grads = attempt(flambeau.autograd.grad, outputs, leaves, [OURS.tensor(array_of(w)) for w in weights], allow_unused=True)
        truth = attempt(torch.autograd.grad, expected, originals, weights, allow_unused=True)
        if grads[1] is not None or truth[1] is not None:
            compare_outcomes(grads, truth, self.name)
            return
        for k, (a, b, leaf) in enumerate(zip(grads[0], truth[0], originals, strict=True)):
            if a is not None and (tuple(a.shape) != tuple(leaf.shape) or str(a.dtype) != str(leaf.dtype)):
                raise Differs(f"gradient {k} is {short(a)} for {short(leaf)}")
            zero = np.zeros(tuple(leaf.shape))
            try:
                mine, other = (zero if a is None else OURS.array(a)), (zero if b is None else array_of(b))
                check_close(mine, other, self.name, str(leaf.dtype).removeprefix("torch."))
            except Differs as difference:
                raise Differs(f"gradient {k}: {difference}") from None

    def differentiable(self, result: Any) -> list[Any]:
        return [output for output in flat(result) if getattr(output, "requires_grad", False)]

    def errors(self) -> None:
        if self.entry.error_inputs_func is None:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                error_inputs = list(self.entry.error_inputs("cpu"))
            except RuntimeError as error:
                if "CUDA" in str(error):
                    return
                raise
        for error_input in error_inputs:
            self.attempt(error_input.sample_input, " (error input)", lambda sample: self.error(sample))

    def error(self, sample: Any) -> None:
        convert = Converter()
        try:
            mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        except (AttributeError, TypeError) as problem:  # an argument that flambeau has no counterpart of
            raise Unsupported(str(problem)) from problem
        expected = attempt(self.entry.op, sample.input, *sample.args, **sample.kwargs)[1]
        if expected is not None:
            compare_outcomes(attempt(self.ours, mine, *args, **kwargs), (None, expected), self.name)


def _copied(value: Any) -> Any:
    """The same arguments with tensors of their own, outside any graph, strides kept."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise Unsupported(str(value.layout))
        plain = value.detach()
        storage = plain.untyped_storage().clone()
        copy = torch.empty(0, dtype=plain.dtype).set_(storage, plain.storage_offset(), plain.size(), plain.stride())
        copy = copy.conj() if plain.is_conj() else copy
        return torch._neg_view(copy) if plain.is_neg() else copy
    if type(value) in (list, tuple):
        return type(value)([_copied(item) for item in value])
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value


def _weight(rng: np.random.Generator, tensor: Any) -> Any:
    """A cotangent for a PyTorch tensor."""
    values = np.asarray(rng.uniform(0.5, 1.5, tuple(tensor.shape)))
    if tensor.is_complex():
        values = values + 1j * rng.uniform(0.5, 1.5, tuple(tensor.shape))
    return torch.from_numpy(np.asarray(values)).to(tensor.dtype)


# -- tests ------------------------------------------------------------------------------------------------------------------
def has_group(name: str, group: str) -> bool:
    entry = ENTRIES[name]
    if group == "errors":
        return entry.error_inputs_func is not None
    if group == "gradient":
        return entry.supports_autograd
    return any(dtype in entry.supported_dtypes("cpu") for dtype in GROUPS[group])


def known(name: str, group: str) -> list[Gap]:
    return [gap for gap in GAPS.get(name, ()) if group in (gap.groups or GROUPS)]


CASES = [(name, group) for name in FUNCTIONS for group in GROUPS if has_group(name, group)]


@pytest.mark.parametrize(("name", "group"), CASES, ids=[f"{name}-{group}" for name, group in CASES])
def test_agrees_with_the_database(name: str, group: str) -> None:
    mismatches, gaps = Comparison(name, few=True).run(group), known(name, group)
    unexpected = [mismatch for mismatch in mismatches if not any(re.search(gap.pattern, str(mismatch)) for gap in gaps)]
    assert not unexpected, "\n".join(map(str, unexpected)) + f"\nall of it: python -m tests.test_op_db '{name}'"
    stale = [gap for gap in gaps if gap.groups and not any(re.search(gap.pattern, str(mismatch)) for mismatch in mismatches)]
    assert not stale, f"no longer true, remove from op_db_gaps.GAPS[{name!r}]: {stale}"


def test_gaps_name_operations_that_exist() -> None:
    unknown = sorted(set(GAPS) - set(FUNCTIONS))
    assert not unknown, f"not in PyTorch's database, or not in flambeau: {unknown}"
    assert all(gap.groups and set(gap.groups) <= set(GROUPS) and gap.reason for gaps in GAPS.values() for gap in gaps)


# -- by hand ----------------------------------------------------------------------------------------------------------------
def chosen(patterns: list[str]) -> Iterator[str]:
    for pattern in patterns:
        names = [n for n in ENTRIES if fnmatch.fnmatchcase(n, pattern) or ENTRIES[n].name == pattern]
        names = names or [n for n in ENTRIES if ENTRIES[n].name.rpartition(".")[2] == pattern]
        if not names:
            print(f"{pattern}: no such operation in PyTorch's database")
        yield from names


def report(name: str, groups: list[str], few: bool, limit: int) -> int:
    if name not in FUNCTIONS:
        print(f"{name}: flambeau has no such name")
        return 0
    total = 0
    for group in groups:
        comparison = Comparison(name, few)
        try:
            mismatches = comparison.run(group)
        except Exception as problem:  # a sample that the converter or the comparison cannot digest
            print(f"{name} [{group}] the comparison itself failed: {problem!r}")
            total += 1
            continue
        total += len(mismatches)
        if limit:
            print(f"{name} [{group}] {comparison.compared} comparisons agree, {len(mismatches)} mismatches")
        elif mismatches:
            print(f"{name} [{group}] {len(mismatches)}: {mismatches[0]}")
        for mismatch in mismatches[:limit]:
            print(f"    {mismatch}")
        if limit and len(mismatches) > limit:
            print(f"    and {len(mismatches) - limit} more")
    return total


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.test_op_db", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database, or patterns")
    parser.add_argument("--all", action="store_true", help="a line for each operation and group with mismatches")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only these groups")
    parser.add_argument("--few", action="store_true", help="the few samples that the tests take")
    parser.add_argument("--limit", type=int, default=20, help="mismatches shown for an operation and group")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    groups = options.group or list(GROUPS)
    if options.all or not options.names:
        totals = {name: report(name, groups, True, 0) for name in FUNCTIONS}
        missing = sorted(set(ENTRIES) - set(FUNCTIONS))
        print(f"{sum(not n for n in totals.values())} of {len(totals)} operations agree; {len(missing)} are lacking: {' '.join(missing)}")
        return 0
    counts = [report(name, groups, options.few, options.limit) for name in chosen(options.names)]
    return int(any(counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
