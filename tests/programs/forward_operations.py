"""Forward-mode derivatives against PyTorch's, over its database of operations.

Every input of a sample that can require grad gets a tangent.  PyTorch's answer is its forward mode's; where it has none for an operation,
it is two of its reverse passes.  A sample agrees where all tangents do, one that is missing counting as zeros; it *raises* where flambeau
says that it cannot; everything else is wrong.

    python -m tests.programs.forward_operations              shares, and what is wrong or raises
    python -m tests.programs.forward_operations NAME...      every difference of these operations, and the way that each call took
    python -m tests.programs.forward_operations --ways       which way each operation takes
    python -m tests.programs.forward_operations --in-place   the in-place forms instead
    python -m tests.programs.forward_operations --nested     two tangents at once, by vmap, against one after the other, and tangents of
                                                    tangents against two reverse passes
    python -m tests.programs.forward_operations --times      a few operations beside PyTorch, in microseconds
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from libraries import OURS, flat
from torch.autograd import forward_ad as theirs

import flambeau
from conformance.columns import Comparison
from conformance.comparing import Differs, attempt, check_close, cotangent, describe, first_line
from conformance.database import ENTRIES, FUNCTIONS, Converter, Unsupported, array_of, our_variant, rebound, seed
from conformance.exclusions import EXCLUDED, is_public
from flambeau.autograd import forward_ad as ours
from flambeau.func import _dual

DTYPES = (torch.float64, torch.complex128)
# How far PyTorch's forward formulas are off where that is more than rounding; where they have no number, nothing is compared.
INEXACT = {"cholesky_inverse": 2e-5, "logcumsumexp": 5e-6}
AGREES, RAISES, WRONG = "agrees", "raises", "wrong"


@dataclass
class Found:
    """What came out of one operation's samples.

    Attributes:
        counts: how many agree, raise and are wrong.
        notes: what was wrong, or raised.
        ways: which ways the primitives took: (name, way) and how often.
        oracle: how PyTorch found its tangents.
    """

    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    oracle: set[str] = field(default_factory=set)


class DualConverter(Converter):
    """PyTorch's arguments as flambeau's; those with a tangent are dual."""

    def __init__(self, tangents: dict[int, Any]):
        super().__init__()
        self.tangents = tangents

    def leaf(self, result: Any, value: Any) -> Any:
        if id(value) not in self.tangents:
            return result
        self.leaves.append((result, value))
        return ours.make_dual(result, Converter()(self.tangents[id(value)]))


def variables(sample: Any) -> list[Any]:
    """The tensors of a sample that require grad, each once."""
    found = {}

    def look(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                found[id(value)] = value
        elif isinstance(value, (list, tuple)):
            for item in value:
                look(item)
        elif isinstance(value, dict):
            look(list(value.values()))

    look([sample.input, sample.args, sample.kwargs])
    return list(found.values())


def replaced(value: Any, by: dict[int, Any]) -> Any:
    """Arguments with other tensors in place of some."""
    if isinstance(value, torch.Tensor):
        return by[id(value)] if id(value) in by else value
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [replaced(item, by) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: replaced(item, by) for key, item in value.items()}
    return value


def differentiable(result: Any) -> list[Any]:
    return [each for each in flat(result) if hasattr(each, "is_floating_point") and (each.is_floating_point() or each.is_complex())]


# -- PyTorch ------------------------------------------------------------------------------------------------------------------
def by_forward_mode(call: Callable[..., Any], sample: Any, tangents: dict[int, Any]) -> list[np.ndarray]:
    """Tangents of the results; zeros where there is none."""
    with theirs.dual_level():
        duals = {id(x): theirs.make_dual(x.detach().clone(), tangents[id(x)].clone()) for x in variables(sample)}
        seed()
        results = differentiable(call(*replaced((sample.input, *sample.args), duals), **replaced(sample.kwargs, duals)))
        found = [theirs.unpack_dual(each) for each in results]
        return [zeros_like(p) if t is None else array_of(t).copy() for p, t in found]


def by_two_passes(call: Callable[..., Any], sample: Any, tangents: dict[int, Any]) -> list[np.ndarray]:
    """The same by differentiating the vector-Jacobian product by its vector."""
    fresh = {id(x): x.detach().clone().requires_grad_() for x in variables(sample)}
    seed()
    given = {key: x.clone() for key, x in fresh.items()}
    results = differentiable(call(*replaced((sample.input, *sample.args), given), **replaced(sample.kwargs, given)))
    used = [each for each in results if each.requires_grad]
    seeds = [torch.zeros_like(each).requires_grad_() for each in used]
    first = torch.autograd.grad(used, list(fresh.values()), seeds, create_graph=True, allow_unused=True) if used else []
    pairs = [(g, tangents[key]) for g, key in zip(first, fresh, strict=False) if g is not None and g.requires_grad]
    second = torch.autograd.grad([g for g, _ in pairs], seeds, [t for _, t in pairs], allow_unused=True) if pairs else [None] * len(used)
    by_place = {id(each): t for each, t in zip(used, second, strict=True)}
    return [zeros_like(each) if by_place.get(id(each)) is None else array_of(by_place[id(each)]).copy() for each in results]


def zeros_like(tensor: Any) -> np.ndarray:
    return np.zeros(tuple(tensor.shape), array_of(tensor.detach()).dtype)


def expected(name: str, call: Any, sample: Any, tangents: dict[int, Any]) -> tuple[list[np.ndarray], str]:
    """PyTorch's tangents, and how it found them.

    Raises:
        Unsupported: it has none.
    """
    ways = [("two passes", by_two_passes)]
    if ENTRIES[name].supports_forward_ad:
        ways.insert(0, ("forward mode", by_forward_mode))
    for way, compute in ways:
        found, error = attempt(compute, call, sample, tangents)
        if error is None:
            return found, way
    raise Unsupported(f"PyTorch has no tangents: {first_line(error)}")


# -- flambeau -----------------------------------------------------------------------------------------------------------------
def found_here(function: Any, sample: Any, tangents: dict[int, Any], process: Any) -> list[np.ndarray]:
    with ours.dual_level():
        convert = DualConverter(tangents)
        mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
        flambeau.manual_seed(0)
        results = differentiable(rebound(process)(function(mine, *args, **kwargs)))
        found = [ours.unpack_dual(each) for each in results]
        for primal, tangent in found:
            if tangent is not None and (tangent.shape != primal.shape or tangent.dtype != primal.dtype):
                raise Differs(f"a tangent {tangent.dtype}{list(tangent.shape)} of {primal.dtype}{list(primal.shape)}")
        return [np.zeros_like(OURS.array(p)) if t is None else OURS.array(t).copy() for p, t in found]


def compare(name: str, function: Any, call: Any, sample: Any, found: Found) -> None:
    """Add one sample to what was found."""
    rng = np.random.default_rng(0)
    where = describe(name, (sample.input, *sample.args), sample.kwargs)
    process, prepare = sample.output_process_fn_grad, ENTRIES[name].gradcheck_wrapper  # which makes Hermitian matrices of any, and so on
    if "masked" not in prepare.__name__:
        call, function = functools.partial(prepare, call), functools.partial(rebound(prepare), function)
    try:
        tangents = {id(x): cotangent(rng, x.detach()) for x in variables(sample)}
        if not tangents:
            return
        want, way = expected(name, lambda *a, **k: process(call(*a, **k)), sample, tangents)
        got, error = attempt(found_here, function, sample, tangents, process)
        found.oracle.add(way)
        if error is not None:
            if isinstance(error, Unsupported):
                return
            kind = RAISES if isinstance(error, NotImplementedError) else WRONG
            found.counts[kind] += 1
            found.notes.append(f"{where}: {kind}: {type(error).__name__}: {first_line(error)}")
            return
        if len(got) != len(want):
            raise Differs(f"{len(got)} results, PyTorch has {len(want)}")
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            if a.shape != b.shape:
                raise Differs(f"tangent {k} has shape {a.shape}, PyTorch's {b.shape}")
            if name in INEXACT:
                known = ~np.isnan(b)
                if not np.allclose(a[known], b[known], rtol=INEXACT[name], atol=INEXACT[name]):
                    raise Differs(f"tangent {k} differs by {np.abs(a - b)[known].max():.3g}")
            else:
                check_close(a, b, name, "float64")
        found.counts[AGREES] += 1
    except Unsupported:
        return
    except Differs as difference:
        found.counts[WRONG] += 1
        found.notes.append(f"{where}: {difference}")


class _Ways:
    """Counts which way each primitive takes."""

    def __init__(self, counts: Counter[tuple[str, str]]):
        self.counts = counts

    def __enter__(self) -> None:
        self.before, _dual.on_way = _dual.on_way, lambda op, way: self.counts.update([(op.name, way)])

    def __exit__(self, *error: object) -> None:
        _dual.on_way = self.before


def operation(name: str, count: int | None = None, in_place: bool = False, dtypes: Any = DTYPES) -> Found:
    """All that comes out of one entry of the database."""
    comparison, found = Comparison(name, count), Found()
    entry = ENTRIES[name]
    variant = entry.inplace_variant if in_place else entry.op
    function = FUNCTIONS[name] if not in_place else variant and our_variant(entry, variant)
    if function is None:
        return found
    if in_place:
        plain, plain_here = variant, function
        variant = lambda x, *a, **k: plain(x.clone(), *a, **k)  # noqa: E731
        function = lambda x, *a, **k: plain_here(x.clone(), *a, **k)  # noqa: E731
    with _Ways(found.ways):
        for dtype in dtypes:
            for sample in comparison.samples(dtype, requires_grad=True):
                if not in_place or (isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input):
                    compare(name, function, variant, sample, found)
    return found


def names(patterns: list[str]) -> Iterator[str]:
    for name in sorted(FUNCTIONS):
        entry = ENTRIES[name]
        if patterns and not any(fnmatch.fnmatchcase(name, p) or entry.name == p or name.rpartition(".")[2] == p for p in patterns):
            continue
        if patterns or (entry.supports_autograd and is_public(name) and name not in EXCLUDED):
            yield name


# -- levels in each other --------------------------------------------------------------------------------------------------------
def nested(name: str, count: int | None, dtypes: Any = DTYPES) -> Found:
    """flambeau against itself: ``vmap(jvp)`` against the loop, and ``jvp(jvp)`` against the reverse derivative of ``jvp``."""
    comparison, found = Comparison(name, count), Found()
    for dtype in dtypes:
        for sample in comparison.samples(dtype, requires_grad=True):
            where = describe(name, (sample.input, *sample.args), sample.kwargs)
            for how, compute in (("vmap(jvp)", over_batch), ("jvp(jvp)", second_order)):
                outcome, error = attempt(compute, name, sample)
                if isinstance(error, Unsupported) or (error is None and outcome is None):
                    continue
                if error is None:
                    kind, note = (AGREES, "") if not outcome else (WRONG, outcome)
                else:
                    kind, note = (RAISES if isinstance(error, (NotImplementedError, RuntimeError)) else WRONG), repr(error)[:200]
                found.counts[kind] += 1
                if kind != AGREES:
                    found.notes.append(f"{where}: {how}: {kind}: {note}")
    return found


class _Leaves(Converter):
    """flambeau's arguments, with other tensors in place of the variables."""

    def __init__(self, by: dict[int, Any]):
        super().__init__()
        self.by = by

    def leaf(self, result: Any, value: Any) -> Any:
        return self.by.get(id(value), result) if self.by else super().leaf(result, value)


def as_function(name: str, sample: Any) -> tuple[Any, tuple[Any, ...]]:
    """A sample's call as a function of its variables, and their values."""
    leaves = variables(sample)
    prepare, process = ENTRIES[name].gradcheck_wrapper, rebound(sample.output_process_fn_grad)
    function = FUNCTIONS[name] if "masked" in prepare.__name__ else functools.partial(rebound(prepare), FUNCTIONS[name])

    def call(*values: Any) -> Any:
        convert = _Leaves({id(leaf): value for leaf, value in zip(leaves, values, strict=True)})
        flambeau.manual_seed(0)
        given = convert(sample.input), *convert(tuple(sample.args))
        return tuple(differentiable(process(function(*given, **convert(sample.kwargs)))))

    return call, tuple([Converter()(leaf.detach()) for leaf in leaves])


def directions(values: Any, seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return tuple([OURS.tensor(np.asarray(rng.uniform(0.5, 1.5, tuple(v.shape))).astype(v._array.dtype)) for v in values])


def over_batch(name: str, sample: Any) -> str | None:
    call, values = as_function(name, sample)
    if not values:
        return None
    ways = [directions(values, k) for k in range(2)]
    apart = [flambeau.func.jvp(call, values, way)[1] for way in ways]
    together = flambeau.func.vmap(lambda *way: flambeau.func.jvp(call, values, way)[1], randomness="same")(
        *[flambeau.stack(pair) for pair in zip(*ways, strict=True)]
    )
    return unlike(together, [flambeau.stack(pair) for pair in zip(*apart, strict=True)])


def second_order(name: str, sample: Any) -> str | None:
    call, values = as_function(name, sample)
    if not values or not ENTRIES[name].supports_gradgrad:
        return None
    along, across = directions(values, 0), directions(values, 1)
    slope = lambda *at: flambeau.func.jvp(call, at, along)[1]  # noqa: E731
    got = flambeau.func.jvp(slope, values, across)[1]
    leaves = [value.detach().requires_grad_() for value in values]
    slopes = slope(*leaves)
    used = [each for each in slopes if each.requires_grad]
    seeds = [flambeau.zeros_like(each).requires_grad_() for each in used]
    first = flambeau.autograd.grad(used, leaves, seeds, create_graph=True, allow_unused=True) if used else []
    pairs = [(g, a) for g, a in zip(first, across, strict=False) if g is not None and g.requires_grad]
    bends = flambeau.autograd.grad([g for g, _ in pairs], seeds, [a for _, a in pairs], allow_unused=True) if pairs else [None] * len(used)
    found = {id(each): bend for each, bend in zip(used, bends, strict=True)}
    return unlike(got, [flambeau.zeros_like(each) if found.get(id(each)) is None else found[id(each)] for each in slopes])


def unlike(got: Any, want: Any) -> str:
    """Where results differ; nothing where they agree, or where both have no numbers."""
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        x, y = OURS.array(a.detach()), OURS.array(b.detach())
        if x.shape != y.shape:
            return f"result {k} has shape {x.shape}, expected {y.shape}"
        if not np.allclose(x, y, rtol=1e-6, atol=1e-6, equal_nan=True) and not np.isnan(y).any():
            return f"result {k} differs by {np.abs(x - y).max():.3g}"
    return ""


# -- times --------------------------------------------------------------------------------------------------------------------
def times() -> None:
    """A table of a few operations on 64 x 64 float32, primal and tangent, in microseconds; the least of many runs."""
    rng = np.random.default_rng(0)
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "sin": lambda lib, x: x.sin(),
        "mm": lambda lib, x: x.mm(x),
        "softmax": lambda lib, x: lib.softmax(x, 1),
        "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (64,)),
    }
    arrays = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2)]
    print(f"{'':12}{'flambeau':>10}{'PyTorch':>10}")
    for name, call in calls.items():
        row = []
        for library in (flambeau, torch):
            x, t = (library.tensor(array) for array in arrays)

            def once(library: Any = library, x: Any = x, t: Any = t, call: Any = call) -> None:
                library.func.jvp(lambda y: call(library, y), (x,), (t,))

            row.append(least(once))
        print(f"{name:12}{row[0]:10.1f}{row[1]:10.1f}")


def least(function: Callable[[], Any], rounds: int = 60, calls: int = 20) -> float:
    """Microseconds of one call, the least over the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


# -- by hand ------------------------------------------------------------------------------------------------------------------
def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.forward_operations", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database, or patterns")
    parser.add_argument("--count", type=int, default=6, help="samples of each dtype, evenly spaced; 0 takes all")
    parser.add_argument("--ways", action="store_true", help="which way each primitive takes")
    parser.add_argument("--in-place", action="store_true", help="the in-place forms instead")
    parser.add_argument("--nested", action="store_true", help="levels in each other, against one after the other")
    parser.add_argument("--times", action="store_true", help="a few operations beside PyTorch")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.times:
        times()
        return 0
    results = {}
    for name in names(options.names):
        try:
            count = options.count or None
            results[name] = nested(name, count) if options.nested else operation(name, count, options.in_place)
        except Exception as problem:  # a sample that the comparison itself cannot digest
            print(f"{name}: the comparison failed: {problem!r}"[:300])
            continue
        for note in results[name].notes[: None if options.names else 1]:
            print(note, flush=True)
    total: Counter[str] = sum((found.counts for found in results.values()), Counter())
    compared = {name: found for name, found in results.items() if found.counts}
    right = [name for name, found in compared.items() if set(found.counts) == {AGREES}]
    raising = [name for name, found in compared.items() if found.counts[RAISES] and not found.counts[WRONG]]
    wrong = [name for name, found in compared.items() if found.counts[WRONG]]
    forward = [name for name, found in compared.items() if "forward mode" in found.oracle]
    print(f"{len(right)} of {len(compared)} operations agree ({100 * len(right) / max(len(compared), 1):.1f} %)")
    print(f"{len(set(right) & set(forward))} of the {len(forward)} that PyTorch has forward mode for")
    print(f"samples: {total[AGREES]} of {sum(total.values())} agree, {total[RAISES]} raise, {total[WRONG]} are wrong")
    print("raising:", *(raising or ["none"]))
    print("wrong:", *(wrong or ["none"]))
    ways: dict[str, set[str]] = defaultdict(set)
    for found in results.values():
        for name, way in found.ways:
            ways[way].add(name)
    for way, primitives in sorted(ways.items()):
        print(f"{way}: {len(primitives)}" + (f": {' '.join(sorted(primitives))}" if options.ways or options.names else ""))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
