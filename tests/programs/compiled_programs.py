"""Random programs of the differential areas as functions: compiled, and as they stand.

    python -m tests.programs.compiled_programs --area views --count 1000 --seed 1
    python -m tests.programs.compiled_programs --area low_precision --seed 17 --count 1   # one of them again, with its source

The statements that make a program's first tensors become arguments, the others the body of a function that returns every tensor it
made.  Both versions are called several times, with the values of the program and with others, with and without inputs that require grad,
and everything is compared: what is returned, inputs that were written to, gradients, exceptions' types.  So a value that a recording
took for a constant shows, which is the point of it.
"""

from __future__ import annotations

import argparse
import random
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
import tests.differential  # noqa: F401 (makes the areas' modules importable)
from tests.differential.area import attempt, draw_program, find_area, reset

AREAS = ("views", "low_precision")
MAKERS = ("torch.tensor(", "torch.arange(", "torch.randn(", "torch.rand(", "torch.ones(", "torch.zeros(", "torch.randint(")


def parts_of(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines that make arguments, and those of the body."""
    first: list[str] = []
    for line in lines:
        name, _, value = line.partition(" = ")
        if not (name.isidentifier() and value.startswith(MAKERS)) or (name in [made.partition(" = ")[0] for made in first]):
            break
        first.append(line)
    return first, list(lines[len(first) :])


def possible(body: Sequence[str], space: dict[str, Any]) -> list[str]:
    """The statements that raise nothing, each run after those before it."""
    kept = [line for line in body if attempt(line, space) is None]
    torch.set_grad_enabled(True)
    return kept


def function_of(arguments: Sequence[str], body: Sequence[str], space: dict[str, Any]) -> Callable[..., Any]:
    """The function of a program; what it returns are its variables."""
    lines = textwrap.indent("\n".join(body) or "pass", "    ")
    source = f"def program({', '.join(arguments)}):\n{lines}\n    return tuple(locals().values())\n"
    exec(compile(source, "<program>", "exec"), space)
    program: Callable[..., Any] = space["program"]
    return program


def altered(value: Any, draw: random.Random) -> Any:
    """Other values of the same shape, strides and dtype."""
    with torch.no_grad():
        other = value.detach().clone()
        if other.dtype is torch.bool:
            return (other ^ (draw.random() < 0.5)).requires_grad_(value.requires_grad)
        factor = draw.choice((2, 3, -1)) if not other.is_floating_point() else draw.choice((0.5, -1.0, 1.25))
        return (other * factor).to(other.dtype).requires_grad_(value.requires_grad)


def outcome(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What a call gives: its results and gradients, or the exception; and the inputs afterwards."""
    inputs = [value.detach().clone().requires_grad_(value.requires_grad) for value in inputs]
    torch.manual_seed(0)
    try:
        results = function(*inputs)
    except Exception as error:
        return type(error), ()
    finally:
        torch.set_grad_enabled(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grads = [None if not value.is_leaf else value.grad for value in inputs]
    return None, (*results, *grads, *inputs)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two results agree: tensors in dtype, shape, strides and values, up to the rounding of fused arithmetic."""
    if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
        return type(ours) is type(theirs) and (not isinstance(ours, (int, float, bool, str)) or ours == theirs or ours != ours)
    if ours.dtype is not theirs.dtype or ours.shape != theirs.shape or ours.requires_grad != theirs.requires_grad:
        return False
    if ours.numel() and ours.stride() != theirs.stride():
        return False
    bound = {torch.float64: 1e-12, torch.float32: 1e-5, torch.complex64: 1e-5, torch.complex128: 1e-12}.get(ours.dtype, 1e-2)
    if not ours.dtype.is_floating_point and not ours.dtype.is_complex:
        return bool((ours == theirs).all())
    return torch.allclose(ours.detach(), theirs.detach(), rtol=bound, atol=bound, equal_nan=True)


def compare(area: str, seed: int) -> tuple[str, str]:
    """('equal' | 'error' | 'none' | 'different', the program where it differs); 'error' where both raise."""
    lines = draw_program(find_area(area), area, seed)
    making, body = parts_of(lines)
    if not making or not body:
        return "none", ""
    space = find_area(area).space(torch)
    reset(torch)
    if any(attempt(line, space) for line in making):
        return "none", ""
    names = [line.partition(" = ")[0] for line in making]
    inputs = [space[name].detach().clone().requires_grad_(space[name].requires_grad) for name in names]
    body = possible(body, dict(space))
    draw = random.Random(seed)
    calls = [inputs, inputs, [altered(value, draw) for value in inputs], [altered(value, draw) for value in inputs]]
    plain, compiled = function_of(names, body, space), torch.compile(function_of(names, body, space))
    verdict = "equal"
    for number, values in enumerate(calls):
        want, have = outcome(plain, values), outcome(compiled, values)
        if want[0] is not have[0] or len(want[1]) != len(have[1]):
            return "different", f"call {number}: eager {want[0]}, compiled {have[0]}"
        if want[0] is not None:
            verdict = "error"
        for place, (a, b) in enumerate(zip(have[1], want[1], strict=True)):
            if not same(a, b):
                return "different", f"call {number}, result {place}: eager {b}, compiled {a}"
    return verdict, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.compiled_programs", description="Random programs, compiled and not.")
    parser.add_argument("--area", choices=AREAS, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    counts: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(given.seed, given.seed + given.count):
            verdict, difference = compare(given.area, seed)
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict == "different" or given.count == 1:
                print(
                    f"-- {given.area} {seed}: {verdict}", *draw_program(find_area(given.area), given.area, seed), difference, "", sep="\n"
                )
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if counts.get("different") else 0


if __name__ == "__main__":
    sys.exit(main())
