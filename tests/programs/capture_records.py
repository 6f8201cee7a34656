"""Every operation's record compiled: recorded on one sample and replayed on another of the same shapes, forward and backward.

    python -m tests.programs.capture_records [part of a name ...]

prints results that differ from eager ones (there must be none), and with ``-v`` which operations are not replayed, and why.
"""

from __future__ import annotations

import collections
import sys
import warnings
from typing import Any

import numpy as np
from libraries import OURS
from records import RECORDS, Record
from records.record import Maker, Sample

import flambeau
from flambeau.compiler.compiled import Compiled
from flambeau.core.tensor import Tensor
from flambeau.utils._pytree import tree_flatten, tree_map

# Memory that nobody wrote, the clock, addresses: no two calls give the same.
SKIPPED = {"empty", "empty_like", "empty_strided", "empty_permuted", "Tensor.new", "Tensor.new_empty", "Tensor.new_empty_strided"} | {
    "Tensor.resize_", "Tensor.resize_as_", "from_file", "from_dlpack",
}  # fmt: skip


def tensors_of(sample: Sample, grad: bool) -> tuple[Any, Any]:
    """The arguments of a call as fresh tensors."""
    args, kwargs = OURS.arguments(list(sample.args)), OURS.arguments(dict(sample.kwargs))

    def made(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and grad and leaf.dtype.is_floating_point:
            return leaf.detach().clone().requires_grad_()
        return leaf

    return tree_map(made, args), tree_map(made, kwargs)


def compared(a: Any, b: Any) -> bool:
    """Whether two results agree."""
    ours, theirs = tree_flatten(a)[0], tree_flatten(b)[0]
    if len(ours) != len(theirs):
        return False
    for x, y in zip(ours, theirs, strict=True):
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            if x._array.__class__ is not np.ndarray:
                continue
            if x.shape != y.shape or x.dtype != y.dtype or x.requires_grad != y.requires_grad or x.stride() != y.stride():
                return False
            p, q = x.detach()._array, y.detach()._array
            if p.dtype.kind in "fc" and p.dtype.isbuiltin == 1:
                if not np.allclose(p, q, rtol=1e-5, atol=1e-6, equal_nan=True):
                    return False
            elif p.tobytes() != q.tobytes():
                return False
        elif type(x) is not type(y) or (isinstance(x, float | int | str | bool) and x != y and x == x):
            return False
    return True


def program_of(record: Record, kwargs: Any, backward: bool) -> Any:
    """A function of the positional arguments that returns results, and all that may have been written to."""
    function = OURS.function(record.name)

    def program(*args: Any) -> Any:
        result = function(*args, **kwargs)
        if not backward:
            return result, [arg for arg in args if isinstance(arg, Tensor)]
        outs = [out for out in tree_flatten(result)[0] if isinstance(out, Tensor) and out.requires_grad and out.dtype.is_floating_point]
        leaves = [arg for arg in tree_flatten(args)[0] if isinstance(arg, Tensor) and arg.requires_grad]
        if not outs or not leaves:
            return None
        return flambeau.autograd.grad([(out * 0.7).sum() for out in outs], leaves, allow_unused=True)

    return program


def outcome(record: Record, first: Sample, second: Sample, backward: bool) -> str:
    """'equal', 'different', or why it is not replayed."""
    args, kwargs = tensors_of(first, backward)
    if tree_flatten(kwargs)[0] and any(isinstance(leaf, Tensor) for leaf in tree_flatten(kwargs)[0]):
        return "tensors by keyword"
    program = program_of(record, kwargs, backward)
    compiled = Compiled(program)
    flambeau.manual_seed(1)
    try:
        compiled(tuple(args), {})
    except Exception as error:
        return f"raises {type(error).__name__}"
    if compiled.programs and compiled.programs[0].failure is not None:
        return compiled.programs[0].failure

    def replay(given: Any) -> Any:
        return compiled(tuple(given), {})

    replayed = eager = replayed_error = eager_error = None
    for place, call in (("replayed", replay), ("replayed", replay), ("eager", lambda given: program(*given))):  # a plan is made by a replay
        given, _ = tensors_of(second, backward)
        flambeau.manual_seed(2)
        result = error = None
        try:
            result = call(given)
        except Exception as raised:
            error = type(raised)
        if place == "replayed":
            replayed, replayed_error = (result, given), error
        else:
            eager, eager_error = (result, given), error
    if replayed_error is not eager_error:
        return f"different: raises {replayed_error} and {eager_error}"
    if len(compiled.programs) > 1:
        return "recorded again: " + compiled.programs[1].reason(tuple(tensors_of(second, backward)[0]), {})
    if eager_error is not None:
        return "equal"
    return "equal" if compared(replayed, eager) else "different"


def outcomes(names: list[str], dtype: str | None = None, part_of: bool = False) -> dict[str, collections.Counter[str]]:
    """For each record how often there was which outcome."""
    found = {}
    for name, record in RECORDS.items():
        if name in SKIPPED or (names and name not in names and not (part_of and any(part in name for part in names))):
            continue
        kind = dtype or ("float32" if "float32" in record.dtypes else record.dtypes[0])
        counts: collections.Counter[str] = collections.Counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for one, other in zip(record.samples(Maker(kind, name)), record.samples(Maker(kind, f"{name} again")), strict=False):
                for backward in (False, True) if record.gradient else (False,):
                    counts[("backward " if backward else "") + outcome(record, one, other, backward)] += 1
        found[name] = counts
    return found


if __name__ == "__main__":
    names = [each for each in sys.argv[1:] if not each.startswith("-")]
    totals: collections.Counter[str] = collections.Counter()
    for name, counts in outcomes(names, part_of=True).items():
        for each, count in counts.items():
            totals[each] += count
            if "different" in each or ("-v" in sys.argv and "equal" not in each):
                print(f"{name}: {each} ({count})", flush=True)
    for each, count in totals.most_common(40):
        print(count, each)
