"""Every operation's record compiled for many sizes: recorded on one sample, and run on samples of other sizes, forward and backward.

    python -m tests.programs.capture_sizes [part of a name ...]

prints results that differ from eager ones (there must be none), and with ``-v`` the operations of which each size has a program of its own.
"""

from __future__ import annotations

import collections
import sys
import warnings
from typing import Any

from records import RECORDS, Record
from records.record import Maker, Sample

import flambeau
from flambeau.compiler.arguments import Arguments
from flambeau.compiler.compiled import Compiled
from flambeau.compiler.dynamic import DynamicProgram
from flambeau.compiler.dynamism import Dynamism
from flambeau.compiler.worlds import arguments_in, with_tensors
from flambeau.core.tensor import Tensor
from flambeau.utils._pytree import tree_flatten, tree_map
from programs.capture_records import SKIPPED, compared, program_of, tensors_of

STEPS = (1, -1, 2, 3, 5)  # what is added to one of the sizes, or to all


def others(args: tuple[Any, ...]) -> list[Any]:
    """The arguments at other sizes."""
    arguments = Arguments(args, {})
    wanted = Dynamism(True).wanted(arguments)
    made = []
    for step in STEPS if wanted is not None else ():
        for name in (*wanted.sizes, None) if len(wanted.sizes) > 1 else (None,):
            world = {each: size + step * (name in (None, each)) for each, size in wanted.sizes.items()}
            if min(world.values()) >= 2:
                try:
                    made.append(arguments_in(world, wanted, arguments, args, {})[0])
                except ValueError:  # gaps that are too small
                    continue
    return made


def outcome(record: Record, sample: Sample, backward: bool) -> list[str]:
    """For each other size 'equal', 'different', or 'each size has a program'."""
    args, kwargs = tensors_of(sample, backward)
    if any(isinstance(leaf, Tensor) for leaf in tree_flatten(kwargs)[0]):
        return ["tensors by keyword"]
    program = program_of(record, kwargs, backward)
    compiled = Compiled(program, limit=1000, dynamic=True)
    flambeau.manual_seed(1)
    try:
        given = others(tuple(args))
        compiled(tuple(args), {})
    except Exception as error:
        return [f"raises {type(error).__name__}"]
    if not compiled.programs or not isinstance(compiled.programs[0], DynamicProgram):
        return ["each size has a program"]
    return [run(compiled, program, each) for each in given]


def run(compiled: Compiled, program: Any, args: Any) -> str:
    """One call, beside the eager one."""
    results = []
    for call in (lambda given: program(*given), lambda given: compiled(tuple(given), {}), lambda given: compiled(tuple(given), {})):
        given = Arguments(args, {})
        copies = {id(tensor): tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in given.tensors}
        mine = with_tensors(args, copies)
        flambeau.manual_seed(2)
        try:
            results.append((call(mine), mine))
        except Exception as error:
            results.append(type(error))
    eager, *compileds = results
    if isinstance(eager, type):
        return "equal" if all(each is eager for each in compileds) else f"different: raises {compileds} and {eager}"
    if any(isinstance(each, type) for each in compileds):
        return f"different: raises {compileds}"
    flat = [tree_map(lambda leaf: leaf.contiguous() if isinstance(leaf, Tensor) else leaf, each) for each in (eager, *compileds)]
    return "equal" if all(compared(each, flat[0]) for each in flat[1:]) else "different"  # whatever the strides


def outcomes(names: list[str], part_of: bool = False) -> dict[str, collections.Counter[str]]:
    """For each record how often there was which outcome."""
    found = {}
    for name, record in RECORDS.items():
        if name in SKIPPED or (names and name not in names and not (part_of and any(part in name for part in names))):
            continue
        kind = "float32" if "float32" in record.dtypes else record.dtypes[0]
        counts: collections.Counter[str] = collections.Counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in record.samples(Maker(kind, name)):
                for backward in (False, True) if record.gradient else (False,):
                    for each in outcome(record, sample, backward):
                        counts[("backward " if backward else "") + each] += 1
        found[name] = counts
    return found


if __name__ == "__main__":
    names = [each for each in sys.argv[1:] if not each.startswith("-")]
    totals: collections.Counter[str] = collections.Counter()
    chosen = [name for name in RECORDS if not names or any(part in name for part in names)]
    for name, counts in ((name, outcomes([name]).get(name, {})) for name in chosen):
        for each, count in counts.items():
            totals[each] += count
            if "different" in each or ("-v" in sys.argv and "equal" not in each):
                print(f"{name}: {each} ({count})", flush=True)
    for each, count in totals.most_common(40):
        print(count, each)
