"""``vmap`` against a loop of calls, over PyTorch's database of operations.

Each sample becomes a stack of three examples, the batch at one dimension or another of each operand, some operands without it, nested or in
place. A case is right if it equals the loop in values, shape and dtype; what raises is listed with its operation, and nothing may be wrong.

    python -m tests.programs.vmap_operations                     the percentage, what raises, and what is called example by example
    python -m tests.programs.vmap_operations --ops NAME...       every case of these operations that is not right (patterns such as 'fft.*')
    python -m tests.programs.vmap_operations --gradients         gradients through vmap too, and vmap of gradients
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import flambeau
from conformance.columns import UNDETERMINED, Comparison
from conformance.database import ENTRIES, FUNCTIONS, Converter, Unsupported
from flambeau.core.random.generator import drawn_here, unwatch, watch
from flambeau.func import _batch

SIZE = 3
DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bool)
MODES = ("front", "mixed", "nested", "in place")
_OF_MEMORY = ("as_strided",)  # what strides mean depends on where the batch lies
_REFUSED = ("dynamic shape", "differently shaped", "not being vmapped over", "were not batched")
_SKIPPED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}  # values nobody chose


@dataclass
class Outcome:
    """What came of the cases of an operation."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    refused: int = 0  # as PyTorch does
    looped: set[str] = field(default_factory=set)


def leaves_of(value: Any) -> Iterator[Any]:
    """The tensors in arguments."""
    if isinstance(value, flambeau.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from leaves_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves_of(each)
    elif isinstance(value, slice):
        yield from leaves_of((value.start, value.stop, value.step))


def with_leaves(value: Any, leaves: Iterator[Any]) -> Any:
    """Arguments with their tensors replaced, in order."""
    if isinstance(value, flambeau.Tensor):
        return next(leaves)
    if isinstance(value, dict):
        return {key: with_leaves(each, leaves) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[with_leaves(each, leaves) for each in value])
    if isinstance(value, flambeau.Size):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)([with_leaves(each, leaves) for each in value])
    if isinstance(value, slice):
        return slice(*[with_leaves(each, leaves) for each in (value.start, value.stop, value.step)])
    return value


def changed(array: np.ndarray, k: int, how: int) -> np.ndarray:
    """Example ``k`` of an operand: the sample itself, or something that the operation is likely to take too."""
    if not k or not how:
        return array
    if array.dtype.kind in "fc":
        return (array * array.dtype.type(1 - 0.1 * k)).astype(array.dtype)
    return np.flip(array).copy() if how == 2 and array.ndim else array


def flat(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [each for part in result for each in flat(part)]
    return [result]


class Case:
    """One sample under one mode: which operands have a batch, and where."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, mode: str):
        self.function, self.args, self.kwargs, self.mode = function, args, kwargs, mode
        self.leaves = [each.detach() for each in leaves_of((args, kwargs))]
        n = len(self.leaves)
        self.batched = [mode in ("front", "in place") or (i + (n > 2)) % 2 == 0 for i in range(n)]
        self.inner = [mode == "nested" and (i % 2 == 1 or n == 1) for i in range(n)]
        self.dims = [0 if mode != "mixed" else (i + 1) % (each.dim() + 1) for i, each in enumerate(self.leaves)]

    def call(self, *leaves: Any) -> Any:
        given = iter(leaves)
        args, kwargs = with_leaves((self.args, self.kwargs), given)
        if self.mode == "in place":
            args = (args[0].clone(), *args[1:])
        result = self.function(*args, **kwargs)
        made = flat(result)
        if not all(isinstance(each, flambeau.Tensor) and each.layout is flambeau.strided for each in made):
            raise Unsupported("results that are no strided tensors")
        wide = {flambeau.bfloat16: flambeau.float32, flambeau.complex32: flambeau.complex64}
        return [each.to(wide.get(each.dtype, each.dtype)) for each in made]

    def examples(self, how: int) -> tuple[list[Any], list[Any]]:
        """Stacked operands, and what the loop makes of the examples; nested ones in the order of two loops."""
        stacks, inners = [], []
        for leaf, batched, inner in zip(self.leaves, self.batched, self.inner, strict=True):
            array = leaf.numpy()
            outer_of = [changed(array, k, how) for k in range(SIZE)] if batched else [array] * SIZE
            stacks.append(outer_of)
            inners.append([[changed(each, j, how) if inner else each for j in range(2)] for each in outer_of])
        if self.mode != "nested":
            operands = [
                flambeau.from_numpy(np.stack(stack, dim) if batched else stack[0].copy())
                for stack, dim, batched in zip(stacks, self.dims, self.batched, strict=True)
            ]
            made = [self.call(*[flambeau.from_numpy(np.array(stack[k])) for stack in stacks]) for k in range(SIZE)]
            return operands, made
        operands = []
        for own, batched, inner in zip(inners, self.batched, self.inner, strict=True):
            array = np.stack([np.stack(pair, -1) if inner else pair[0] for pair in own]) if batched else own[0]
            operands.append(flambeau.from_numpy(np.array(array if batched else np.stack(array, -1) if inner else array[0])))
        made = [self.call(*[flambeau.from_numpy(np.array(own[k][j])) for own in inners]) for k in range(SIZE) for j in range(2)]
        return operands, made

    def transformed(self, call: Callable[..., Any], operands: list[Any]) -> list[Any]:
        """The same by vmap; results with the batches in front, one dimension for both."""
        outer = tuple(dim if batched else None for dim, batched in zip(self.dims, self.batched, strict=True))
        if self.mode != "nested":
            return flambeau.vmap(call, in_dims=outer)(*operands)
        within = tuple(-1 if inner else None for inner in self.inner)
        if not any(self.inner) or not any(self.batched):
            raise Unsupported("nothing to nest")
        made = flambeau.vmap(flambeau.vmap(call, in_dims=within), in_dims=outer)(*operands)
        return [each.flatten(0, 1) for each in made]


def close(got: np.ndarray, want: np.ndarray) -> bool:
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if got.dtype.kind not in "fc":
        return bool((got == want).all())
    scale = 2e-4 if got.dtype.itemsize <= 8 and got.dtype != np.float64 else 1e-7
    return bool(np.allclose(got, want, rtol=scale, atol=scale, equal_nan=True))


def compared(case: Case, outcome: Outcome, name: str, gradients: bool = False) -> None:
    """Count one case."""
    for how in (2, 1, 0):
        try:
            watch(case)
            before = drawn_here.times
            operands, loop = case.examples(how)
            if drawn_here.times != before:
                return  # random numbers
            break
        except Unsupported:
            return
        except Exception:  # the changed examples are not what the operation takes
            continue
        finally:
            unwatch(case)
    else:
        return
    shown = f"{name} [{case.mode}, in_dims {[d if b else None for d, b in zip(case.dims, case.batched, strict=True)]}] " + ", ".join(
        f"{str(leaf.dtype)[6:]}{list(leaf.shape)}" for leaf in case.leaves
    )
    shown += f" {case.args[1:] if not any(True for _ in leaves_of(case.args[1:])) else ''} {case.kwargs or ''}"
    is_dynamic = len({tuple(tuple(each.shape) for each in made) for made in loop}) > 1
    before = dict(_batch.loops)
    try:
        made = case.transformed(case.call, operands)
    except Unsupported:
        return
    except Exception as error:
        if is_dynamic or any(words in str(error) for words in _REFUSED):
            outcome.refused += 1
        else:
            outcome.raised.append(f"{shown}: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")
        return
    outcome.looped |= {each for each, count in _batch.loops.items() if count != before.get(each)}
    if is_dynamic:
        outcome.wrong.append(f"{shown}: results of several shapes as one")
        return
    for j, got in enumerate(made):
        want = np.stack([each[j].detach().numpy() for each in loop])
        if not close(got.detach().numpy(), want):
            outcome.wrong.append(f"{shown}: result {j} {list(got.shape)} {got.dtype}, the loop {list(want.shape)} {want.dtype}")
            return
    outcome.right += 1
    if gradients:
        _compared_gradients(case, operands, loop, outcome, shown)


def _compared_gradients(case: Case, operands: list[Any], loop: list[Any], outcome: Outcome, shown: str) -> None:
    """Gradients of weighted sums: through vmap."""
    floats = [i for i, each in enumerate(operands) if each.dtype.is_floating_point]
    if not floats or case.mode == "in place" or not any(each.dtype.is_floating_point for each in loop[0]):
        return

    def total(made: list[Any]) -> Any:
        parts = [each for each in made if each.dtype.is_floating_point and each.requires_grad]
        return sum(((each * flambeau.linspace(0.5, 1.5, each.numel()).reshape(each.shape)).nan_to_num().sum() for each in parts), 0.0)

    def by_loop(*given: Any) -> list[Any]:
        outs = []
        for k in range(SIZE):
            at = [
                each.select(dim, k).clone() if batched else each for each, dim, batched in zip(given, case.dims, case.batched, strict=True)
            ]
            if case.mode != "nested":
                outs.append(case.call(*at))
                continue
            for j in range(2):
                outs.append(case.call(*[each.select(-1, j) if inner else each for each, inner in zip(at, case.inner, strict=True)]))
        return [flambeau.stack(parts) for parts in zip(*outs, strict=True)]

    found = []
    for way in (by_loop, lambda *given: case.transformed(case.call, list(given))):
        given = [each.detach().requires_grad_(i in floats) for i, each in enumerate(operands)]
        try:
            value = total(way(*given))
            if not isinstance(value, flambeau.Tensor) or not value.requires_grad:
                return
            found.append(flambeau.autograd.grad(value, [given[i] for i in floats], allow_unused=True))
        except Exception as error:
            if not found and way is by_loop:
                return
            outcome.raised.append(f"{shown}: gradient: {type(error).__name__}: {str(error)[:200]}")
            return
    for i, want, got in zip(floats, *found, strict=True):
        zeros = np.zeros(operands[i].shape, np.float32)
        a, b = (zeros if each is None else each.numpy() for each in (got, want))
        if not np.isfinite(b).all():
            return
        if a.shape != b.shape or not np.allclose(a, b, rtol=2e-3, atol=2e-3 * max(1.0, float(np.abs(b).max(initial=0)))):
            outcome.wrong.append(f"{shown}: gradient of operand {i}")
            return
    outcome.right += 1


def outcome_of(name: str, count: int | None, modes: tuple[str, ...] = MODES, gradients: bool = False) -> Outcome:
    """All cases of one entry of the database."""
    outcome, entry = Outcome(), ENTRIES[name]
    if entry.name in UNDETERMINED or entry.name in _SKIPPED:
        return outcome
    comparison = Comparison(name, count)
    has_dtypes = [dtype for dtype in DTYPES if dtype in entry.supported_dtypes("cpu")]
    for dtype in has_dtypes[: 1 if gradients else 2]:
        for number, sample in enumerate(comparison.samples(dtype)):
            try:
                args, kwargs = Converter()(((sample.input, *sample.args), sample.kwargs))
            except Unsupported:
                continue
            if not any(True for _ in leaves_of((args, kwargs))):
                continue
            for mode in modes:
                if name.startswith(_OF_MEMORY) and mode != "front":
                    continue
                function = FUNCTIONS[name]
                if mode == "in place":
                    word = entry.inplace_variant
                    function = getattr(flambeau.Tensor, getattr(word, "__name__", ""), None)
                    if function is None or number % 2:
                        continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    compared(Case(function, args, kwargs, mode), outcome, name, gradients)
    return outcome


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.vmap_operations", description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="*", metavar="NAME", help="names in PyTorch's database, or patterns")
    parser.add_argument("--count", type=int, default=4, help="samples of each of two dtypes")
    parser.add_argument("--nested", action="store_true", help="nested cases only")
    parser.add_argument("--gradients", action="store_true", help="compare gradients too")
    parser.add_argument("--part", default="0/1", help="'2/5': every fifth operation from the third on")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    names = [n for n in FUNCTIONS if not options.ops or any(fnmatch.fnmatchcase(n, p) or ENTRIES[n].name == p for p in options.ops)]
    part, parts = map(int, options.part.split("/"))
    outcomes: dict[str, Outcome] = {}
    for name in names[part::parts]:
        try:
            outcomes[name] = outcome_of(name, options.count, ("nested",) if options.nested else MODES, options.gradients)
        except Exception as error:  # a sample that the converter cannot digest
            print(f"{name}: the comparison itself failed: {error!r}")
    limit = 20 if options.ops else 2
    for word in ("wrong", "raised"):
        print(f"-- {word}")
        for outcome in outcomes.values():
            for line in getattr(outcome, word)[:limit]:
                print(f"  ({len(getattr(outcome, word))}) {line}")
    looped = Counter(each for outcome in outcomes.values() for each in outcome.looped)
    print("-- example by example:", " ".join(f"{each}" for each, _ in looped.most_common()))
    right, wrong, raised = (
        sum(o.right for o in outcomes.values()),
        sum(len(o.wrong) for o in outcomes.values()),
        sum(len(o.raised) for o in outcomes.values()),
    )
    tried = [o for o in outcomes.values() if o.right or o.wrong or o.raised]
    print(
        f"{right} of {right + wrong + raised} cases right ({right / max(right + wrong + raised, 1):.2%}), {wrong} wrong, {raised} raise; "
        f"{sum(not o.wrong and not o.raised for o in tried)} of {len(tried)} operations without any; "
        f"{sum(o.refused for o in outcomes.values())} cases raise as PyTorch's do"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
