"""What is asked of an entry of the database, column by column."""

from __future__ import annotations

import itertools
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from libraries import OURS, flat

import flambeau

from .comparing import (
    UNDETERMINED,
    Differs,
    ValuesDiffer,
    attempt,
    attempt_loudly,
    check_close,
    check_results,
    compare_outcomes,
    cotangent,
    describe,
    shared,
    short,
)
from .database import ENTRIES, FUNCTIONS, Converter, Unsupported, array_of, attribute, copied, our_variant, rebound, seed, seed_samples

COLUMNS = {
    "forward": "values, dtypes, shapes, strides, and which inputs a result shares memory with, in one dtype of each category",
    "forms": "the method, the in-place form and the operators",
    "gradient": "first derivatives in float64 and complex128",
    "second": "derivatives of these, by the inputs and by the cotangents",
    "out": "`out=`: the right result in memory of any strides, a warning where it is resized, an error where it cannot hold the result",
    "aliases": "each alias, its method and its in-place form",
    "errors": "the exception's type for inputs that are wrong",
    "dtypes": "values in every dtype that the entry has on the CPU",
}
LOOKED_AT = 40  # samples from which some are chosen, evenly spaced
CATEGORIES = (
    (torch.float32, torch.float64, torch.bfloat16, torch.float16),
    (torch.int64, torch.int32, torch.uint8),
    (torch.bool,),
    (torch.complex64, torch.complex128),
)
HALVES = {torch.bfloat16: torch.float64, torch.float16: torch.float64, torch.complex32: torch.complex128}


@dataclass(frozen=True)
class Mismatch:
    """Where the two libraries differ."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class Outcome:
    """What came out of a column of an entry.

    Attributes:
        agreed: how many comparisons agree.
        skipped: how many samples have something that cannot be compared.
        mismatches: the other ones. messages: of how many errors the message fits PyTorch's too.
    """

    agreed: int = 0
    skipped: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    messages: int = 0

    @property
    def passes(self) -> bool | None:
        """Whether all agree; None where there is nothing to compare."""
        if self.mismatches:
            return False
        return True if self.agreed else False if self.skipped else None


class Comparison:
    """One entry of the database in both libraries.

    Args:
        count: samples of each dtype; all where it is None.
    """

    def __init__(self, name: str, count: int | None):
        self.name, self.count = name, count
        self.entry, self.ours = ENTRIES[name], FUNCTIONS.get(name)
        self.values = self.entry.name not in UNDETERMINED
        self.outcome = Outcome()
        self.made: dict[Any, list[Any]] = {}

    # -- samples ---------------------------------------------------------------------------------------------------------------
    def samples(self, dtype: Any, requires_grad: bool = False, count: int | None = None) -> list[Any]:
        """Samples of a dtype; the same ones each time, evenly spaced among the first of the database."""
        if dtype not in self.entry.supported_dtypes("cpu"):
            return []
        if requires_grad and not (self.entry.supports_autograd and dtype in self.entry.supported_backward_dtypes("cpu")):
            return []
        if (dtype, requires_grad) not in self.made:
            seed_samples(zlib.crc32(self.name.encode()))
            few = 10**6 if self.count is None else LOOKED_AT
            self.made[dtype, requires_grad] = list(listed(lambda: self.entry.sample_inputs("cpu", dtype, requires_grad), few))
        samples, count = self.made[dtype, requires_grad], count or self.count
        if count is None or len(samples) <= count:
            return samples
        return [samples[k * (len(samples) - 1) // max(count - 1, 1)] for k in range(count)]

    def dtypes(self) -> list[Any]:
        """One dtype of each category that the entry has, the usual one where there are several."""
        have = self.entry.supported_dtypes("cpu")
        return [next(dtype for dtype in category if dtype in have) for category in CATEGORIES if have.intersection(category)]

    def attempt(self, sample: Any, how: str, compare: Callable[[Any], None]) -> None:
        """Count one comparison."""
        try:
            compare(sample)
            self.outcome.agreed += 1
        except Unsupported:
            self.outcome.skipped += 1
        except (Differs, NotImplementedError) as difference:  # a dtype that flambeau does not have
            where = describe(self.name, (sample.input, *sample.args), sample.kwargs) + how
            self.outcome.mismatches.append(Mismatch(where, str(difference)))

    # -- columns ---------------------------------------------------------------------------------------------------------------
    def column(self, name: str) -> Outcome:
        """What comes out of the column ``name``."""
        self.outcome = Outcome()
        if self.ours is None:
            if self.applies(name):
                self.outcome.mismatches.append(Mismatch(self.name, "there is no such function"))
        else:
            getattr(self, f"column_{name}")()
        return self.outcome

    def applies(self, column: str) -> bool:
        """Whether the database has anything for a column."""
        entry = self.entry
        return {
            "forms": entry.method_variant is not None or entry.inplace_variant is not None,
            "gradient": entry.supports_autograd,
            "second": entry.supports_gradgrad,
            "out": entry.supports_out,
            "aliases": bool(entry.aliases),
            "errors": entry.error_inputs_func is not None,
        }.get(column, True)

    def column_forward(self) -> None:
        for dtype in self.dtypes():
            for sample in self.samples(dtype):
                self.attempt(sample, "", self.function)

    def column_forms(self) -> None:
        for dtype in self.dtypes():
            for sample in self.samples(dtype):
                self.forms(sample, operators=True)

    def column_gradient(self) -> None:
        for dtype in (torch.float64, torch.complex128):
            for sample in self.samples(dtype, True):
                self.attempt(sample, "", self.gradients)

    def column_second(self) -> None:
        if self.entry.supports_gradgrad:
            for dtype in (torch.float64, torch.complex128):
                for sample in self.samples(dtype, True):
                    self.attempt(sample, "", self.second_gradients)

    def column_out(self) -> None:
        if self.entry.supports_out:
            for dtype in self.dtypes()[:1] + self.dtypes()[-1:]:
                for sample in self.samples(dtype):
                    self.out(sample)

    def column_aliases(self) -> None:
        for alias in self.entry.aliases:
            for dtype in self.dtypes():
                for sample in self.samples(dtype, count=2):
                    self.alias(alias, sample)

    def column_errors(self) -> None:
        if self.entry.error_inputs_func is not None:
            for given in listed(lambda: self.entry.error_inputs("cpu"), None):
                self.attempt(given.sample_input, " (error input)", lambda sample, given=given: self.error(sample, given.error_regex))

    def column_dtypes(self) -> None:
        for dtype in sorted(self.entry.supported_dtypes("cpu"), key=str):
            for sample in self.samples(dtype, count=2):
                self.attempt(sample, "", self.function)

    # -- one comparison --------------------------------------------------------------------------------------------------------
    def call_both(self, sample: Any, ours: Any, oracle: Any) -> tuple[Any, Any, Any, Any]:
        """Both outcomes of a call, and what it was called with: (input, arguments) of either library."""
        convert = Converter()
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        flambeau.manual_seed(0)
        got = attempt(ours, mine, *args, **kwargs)
        copy, copied_args = copied((sample.input, tuple(sample.args)))
        seed()
        want = attempt(oracle, copy, *copied_args, **copied(sample.kwargs))
        return got, want, (mine, args), (copy, copied_args)

    def agree(self, got: Any, want: Any, sample: Any, oracle: Any) -> bool:
        """``compare_outcomes``; values of 16 bits may also be those that PyTorch computes in float64 and rounds once."""
        try:
            return compare_outcomes(got, want, self.name, self.values)
        except ValuesDiffer:
            if not any(isinstance(t, torch.Tensor) and t.dtype in HALVES for t in flat(want[0])):
                raise
            seed()
            args, kwargs = widened(copied((sample.input, *sample.args))), widened(copied(sample.kwargs))
            exact, error = attempt(oracle, *args, **kwargs)
            if error is not None:
                raise
            check_results(got[0], as_before(exact, want[0]), self.name)
            return True

    def function(self, sample: Any) -> None:
        got, want, mine, theirs = self.call_both(sample, self.ours, self.entry.op)
        if self.agree(got, want, sample, self.entry.op):
            a, b = shared(got[0], mine), shared(want[0], theirs)
            if a != b:
                raise Differs(f"results share memory with inputs at {a}, PyTorch's at {b}")

    def forms(self, sample: Any, operators: bool = False) -> None:
        """Method, in-place form, and the operators of a call."""
        if not isinstance(sample.input, torch.Tensor):
            return
        entry = self.entry
        if entry.method_variant is not None:
            self.attempt(sample, " as a method", lambda s: self.form(s, entry.method_variant))
        if entry.inplace_variant is not None and not sample.broadcasts_input:
            self.attempt(sample, " in place", lambda s: self.form(s, entry.inplace_variant, in_place=True))
        if operators and not sample.kwargs:
            if entry.operator_variant is not None:
                self.attempt(sample, " by the operator", lambda s: self.operator(s, entry.operator_variant))
            if entry.inplace_operator_variant is not None and not sample.broadcasts_input:
                self.attempt(sample, " by the in-place operator", lambda s: self.operator(s, entry.inplace_operator_variant, in_place=True))

    def form(self, sample: Any, variant: Any, in_place: bool = False, ours: Any = None) -> None:
        ours = ours or our_variant(self.entry, variant)
        if ours is None:
            raise Differs("there is no such method")
        got, want, (mine, _), (copy, _) = self.call_both(sample, ours, variant)
        if self.agree(got, want, sample, variant) and in_place:
            if want[0] is copy and got[0] is not mine:
                raise Differs("the result is not the input itself")
            if got[0] is not mine:
                check_results(mine, copy, self.name, self.values)

    def operator(self, sample: Any, variant: Any, in_place: bool = False) -> None:
        self.form(sample, variant, in_place, ours=variant)

    def alias(self, alias: Any, sample: Any) -> None:
        """An alias as a function and, where PyTorch has them, as a method and in place."""
        forms = [(f" as {alias.name}", alias.op, attribute(flambeau, alias.name.removeprefix("torch.")), False)]
        if isinstance(sample.input, torch.Tensor):
            forms.append((f" as method {alias.name}", alias.method_variant, attribute(flambeau.Tensor, alias.name), False))
            if not sample.broadcasts_input:
                forms.append((f" as {alias.name}_", alias.inplace_variant, attribute(flambeau.Tensor, alias.name + "_"), True))
        for how, oracle, ours, in_place in forms:
            if oracle is not None:
                self.attempt(sample, how, lambda s, o=ours, t=oracle, i=in_place: self.form(s, t, i, ours=o or missing))

    def gradients(self, sample: Any) -> None:
        self.differentiate(sample, 1)

    def second_gradients(self, sample: Any) -> None:
        self.differentiate(sample, 2)

    def differentiate(self, sample: Any, order: int) -> None:
        """Compare derivatives for fixed cotangents; the second ones by the first ones' cotangents too."""
        convert = Converter()
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        if not convert.leaves:
            return
        process = sample.output_process_fn_grad
        flambeau.manual_seed(0)
        got = attempt(lambda: rebound(process)(self.ours(mine, *args, **kwargs)))
        seed()
        want = attempt(lambda: process(self.entry.op(sample.input, *sample.args, **sample.kwargs)))
        leaves, originals = map(list, zip(*convert.leaves, strict=True))
        rng = np.random.default_rng(0)
        for k in range(1, order + 1):
            if got[1] is not None or want[1] is not None:
                if want[1] is not None and k > 1:  # a second derivative that PyTorch does not have
                    return
                compare_outcomes(got, want, self.name)
                return
            outputs, expected = differentiable(got[0]), differentiable(want[0])
            if len(outputs) != len(expected):
                raise Differs(f"{len(outputs)} results require grad, PyTorch has {len(expected)}")
            if not outputs:
                return
            weights = [cotangent(rng, result) for result in expected]
            mine_weights = [Converter()(weight) for weight in weights]
            if k < order:
                weights, mine_weights = [w.requires_grad_() for w in weights], [w.requires_grad_() for w in mine_weights]
            options = {"allow_unused": True, "create_graph": k < order}
            got = attempt(flambeau.autograd.grad, outputs, leaves, mine_weights, **options)
            want = attempt(torch.autograd.grad, expected, originals, weights, **options)
            if k < order:
                if got[1] is None and want[1] is None:
                    alike = [a is None or b is None or a.requires_grad != b.requires_grad for a, b in zip(got[0], want[0], strict=True)]
                    got = [a for a, skip in zip(got[0], alike, strict=True) if not skip], None
                    want = [b for b, skip in zip(want[0], alike, strict=True) if not skip], None
                leaves, originals = leaves + mine_weights, originals + weights
        if got[1] is not None or want[1] is not None:
            if want[1] is None or order == 1:
                compare_outcomes(got, want, self.name)
            return
        for k, (a, b, leaf) in enumerate(zip(got[0], want[0], originals, strict=True)):
            self.check_gradient(f"gradient {k}", a, b, leaf)

    def check_gradient(self, where: str, got: Any, want: Any, leaf: Any) -> None:
        if got is not None and (tuple(got.shape) != tuple(leaf.shape) or str(got.dtype) != str(leaf.dtype)):
            raise Differs(f"{where} is {short(got)} for {short(leaf)}")
        zero = np.zeros(tuple(leaf.shape))
        try:
            mine, other = (
                (zero if got is None else OURS.array(got if got.layout is flambeau.strided else got.to_dense())),
                (zero if want is None else array_of(want)),
            )
            check_close(mine, other, self.name, str(leaf.dtype).removeprefix("torch."))
        except Differs as difference:
            raise Differs(f"{where}: {difference}") from None

    def error(self, sample: Any, pattern: str = "") -> None:
        convert = Converter()
        try:
            mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        except (AttributeError, TypeError) as problem:  # an argument that flambeau has no counterpart of
            raise Unsupported(str(problem)) from problem
        expected = attempt(self.entry.op, sample.input, *sample.args, **sample.kwargs)[1]
        if expected is not None:
            outcome = attempt(self.ours, mine, *args, **kwargs)
            compare_outcomes(outcome, (None, expected), self.name)
            self.outcome.messages += bool(re.search(pattern, str(outcome[1])))

    def out(self, sample: Any) -> None:
        """``out=`` of every kind that is asked for."""
        seed()
        try:
            want, error = attempt(self.entry.op, *copied((sample.input, *sample.args)), **copied(sample.kwargs))
        except Unsupported:
            return
        tensors = flat(want)
        if error is not None or not tensors or not all(isinstance(t, torch.Tensor) and t.layout is torch.strided for t in tensors):
            return
        for kind, make in OUTS.items():
            given = [make(tensor) for tensor in tensors]
            if all(tensor is not None for tensor in given):
                target = given[0] if isinstance(want, torch.Tensor) else tuple(given)
                self.attempt(sample, f" with out= {kind}", lambda s, out=target, plain=tensors: self.one_out(s, out, plain))

    def one_out(self, sample: Any, out: Any, plain: list[Any]) -> None:
        convert = Converter()
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        my_out = convert(copied(out))  # whose memory NumPy shares, so that PyTorch cannot resize it
        shapes = [tuple(tensor.shape) for tensor in flat(out)]
        places = [(a.data_ptr(), b.data_ptr()) for a, b in zip(flat(my_out), flat(out), strict=True)]
        flambeau.manual_seed(0)
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            got = attempt_loudly(self.ours, mine, *args, **kwargs, out=my_out)
        seed()
        arguments = copied((sample.input, *sample.args)), copied(sample.kwargs)
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            want = attempt_loudly(self.entry.op, *arguments[0], **arguments[1], out=out)
        if got[1] is not None or want[1] is not None:
            compare_outcomes(got, want, self.name)
            return
        alike = all(before == tuple(tensor.shape) for before, tensor in zip(shapes, flat(out), strict=True))
        self.check_out(*[flat(tensors) if alike else [t.contiguous() for t in flat(tensors)] for tensors in (my_out, out)], plain)
        if len(flat(got[0])) != len(flat(want[0])):
            raise Differs(f"{len(flat(got[0]))} results, PyTorch has {len(flat(want[0]))}")
        if resized(ours) != resized(theirs):
            raise Differs("warns that out= is resized, PyTorch does not" if resized(ours) else "no warning that out= is resized")
        for (mine_before, before), a, b in zip(places, flat(my_out), flat(out), strict=True):
            if a.numel() and before == b.data_ptr() and mine_before != a.data_ptr():
                raise Differs("out= has lost its memory")
        if isinstance(out, torch.Tensor) and want[0] is out and got[0] is not my_out:
            raise Differs("the result is not out= itself")

    def check_out(self, got: list[Any], want: list[Any], plain: list[Any]) -> None:
        """What was written; how a tensor lies in memory once it was resized is not asked."""
        try:
            check_results(got, want, self.name, self.values)
        except ValuesDiffer:
            if all(a.dtype is not b.dtype or torch.allclose(a, b, equal_nan=True) for a, b in zip(want, plain, strict=True)):
                raise
            check_results(got, as_before(plain, want), self.name)  # PyTorch has not written its own result


def listed(make: Callable[[], Iterable[Any]], limit: int | None) -> Iterator[Any]:
    """Samples of the database, or none where it wants a GPU for making them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield from list(itertools.islice(make(), limit))
        except RuntimeError as error:
            if "CUDA" not in str(error):
                raise


def widened(value: Any) -> Any:
    """Arguments with float64 in place of 16 bits, complex128 in place of twice 16."""
    if isinstance(value, torch.Tensor):
        return value.to(HALVES.get(value.dtype, value.dtype))
    if isinstance(value, torch.dtype):
        return HALVES.get(value, value)
    if type(value) in (list, tuple):
        return type(value)(map(widened, value))
    return {key: widened(item) for key, item in value.items()} if isinstance(value, dict) else value


def as_before(result: Any, model: Any) -> list[Any]:
    """Results with the dtypes and strides of ``model``'s."""
    paired = zip(flat(result), flat(model), strict=True)
    return [torch.empty_strided(b.shape, b.stride(), dtype=b.dtype).copy_(a) if isinstance(b, torch.Tensor) else b for a, b in paired]


def differentiable(result: Any) -> list[Any]:
    return [output for output in flat(result) if getattr(output, "requires_grad", False)]


def missing(*args: Any, **kwargs: Any) -> Any:
    raise Differs("there is no such name")


def resized(caught: list[Any]) -> bool:
    return any("was resized since it had shape" in str(warning.message) for warning in caught)


# -- what is given for out= ---------------------------------------------------------------------------------------------------
def _filled(tensor: Any, shape: Any = None, dtype: Any = None) -> Any:
    return torch.full(shape or tensor.shape, 1, dtype=dtype or tensor.dtype)


def _as_it_is(tensor: Any) -> Any:
    result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return result.fill_(1)


def _stepped(tensor: Any) -> Any:
    return _filled(tensor, (*tensor.shape, 2))[..., 0]


def _longer(tensor: Any) -> Any:
    return _filled(tensor, (*tensor.shape[:-1], tensor.shape[-1] + 1) if tensor.dim() else (2,))


def _of_integers(tensor: Any) -> Any:
    return _filled(tensor, dtype=torch.int64) if tensor.is_floating_point() or tensor.is_complex() else None


OUTS: dict[str, Callable[[Any], Any]] = {
    "of the right shape": _as_it_is,
    "of other strides": _stepped,
    "of no element": lambda tensor: _filled(tensor, (0,)),
    "of another shape": _longer,
    "of integers": _of_integers,
}
