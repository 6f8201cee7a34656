"""Random programs of tensors, numbers and sizes: compiled, and as they stand.

    python -m tests.programs.compiled_numbers --count 1000 --seed 1
    python -m tests.programs.compiled_numbers --seed 17 --count 1   # one of them, with its source

A program is a function of two tensors, an integer, a float and a table. It computes with numbers and sizes, branches on them, takes
elements of Python's containers by them, gives them to functions, and writes and differentiates. Both forms are called a dozen times,
with numbers and sizes that change, so that a number which a recording took for a constant shows. What is returned, gradients, inputs
that were written to, and exceptions' types are compared.
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
from tests.programs.compiled_programs import same

HEAD = """
import math
TABLE = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.5, 2.5, 0.5, 3.5] * 3
WORDS = {2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 2.0, 7: 3.0}

def pick(table, i):
    return table[i]

def scaled(x, factor=2.0):
    return x * factor

def chosen(n, a, b):
    return a if n > 4 else b
"""
# Expressions: {i} is an integer, {f} a float, {n} any number, {t} a tensor, {k} a constant.
NUMBERS = """
{i} + {k}
{i} * {k}
{i} - {i}
{i} // 2
{i} % 3
-{i}
abs({i})
min({i}, 5)
max({i}, {k})
{i} ** 2
x.shape[0]
x.shape[0] * {k}
x.size(1)
len(x)
x.numel()
x.shape[0] - {k}
x.ndim
""".strip().splitlines()
FLOATS = """
{f} * {n}
{f} + {n}
{f} / 3
{f} - {n}
-{f}
{f} ** 2
float({n})
{n} / 4
abs({f})
max({f}, 0.25)
TABLE[{i} % 7]
pick(TABLE, {i} % 9)
WORDS.get({i}, 4.0)
chosen({n}, {f}, 0.75)
math.sqrt(abs({n}))
round({f}, 1)
(1 if {i} > 4 else 2) * {f}
table[{i} % 3]
sum(TABLE[:{i} % 6])
len('ab' * ({i} % 4)) * 0.5
{f} if {f} > 0.4 else {n}
[0.5, 1.0, 1.5][{i} % 3]
(lambda v: v * 2)({f})
float(str({i}) == '6')
{f} % 0.7
math.exp(-abs({f}))
1.0 * ({i} == 5)
TABLE[x.shape[0]]
WORDS.get(x.shape[0], 4.0)
pick(table, x.shape[1] % 3)
int({f} * 2) * 0.5
1 / (1 + abs({n}))
TABLE[{i}]
WORDS.get({n}, 4.0)
""".strip().splitlines()
TENSORS = """
{t} * {n}
{t} + {n}
{n} - {t}
{t} / (abs({n}) + 1)
{t}.clamp(max={f})
{t}.clamp(-{f}, abs({f}))
torch.where({t} > {f}, {t}, {t} * {f})
({t} > {n}).float()
{t}.tanh() ** 2
scaled({t}, {n})
scaled({t})
torch.add({t}, {t}, alpha={n})
{t}.sub({t}, alpha={f})
{t} * TABLE[{i} % 7]
{t}.sum(0, keepdim=True) * {n}
{t}.mean() * {n} + {t}
{t} + torch.full((1,), float({n}))
{t} * torch.tensor({f})
torch.lerp({t}, {t} * 2, {f})
{t}.abs().pow({f})
{t} @ {t}.t() * {n} @ {t} * 0.01
{t}[: max(1, {i} % 3)].sum() + {t}
{t}.roll({i} % 3, 0)
torch.cat([{t}, {t} * {n}])[: x.shape[0]]
{t} * x.shape[0]
{t} / x.size(1)
{t}.sin() * {f} + {t}.cos() * {n}
torch.relu({t} - {f})
torch.addcmul({t}, {t}, {t}, value={f})
torch.nn.functional.leaky_relu({t}, {f})
sum({t} * k for k in range(abs({i}) % 4)) + {t}
{t} * x.shape[0] ** -0.5
torch.stack([{t}, {t} * {n}]).sum(0)
{t}.softmax(-1) * {n}
{t}.norm() * {f} + {t}
{t} * (torch.arange(x.shape[1]) * {n})
{t} ** {i}
""".strip().splitlines()
WRITES = """
y.mul_({f})
y.add_({t}, alpha={n})
y += {t} * {n}
y[0] = {n}
y.copy_({t} * {f})
y.clamp_(max=abs({n}))
""".strip().splitlines()
BRANCHES = """
if {i} > 4:
if {f} < 0.5:
if x.shape[0] > 4:
if {i} == 5:
if {i} % 2:
if {n} > {n}:
if len(x) == 6:
""".strip().splitlines()


class Writer:
    """Writes one program."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.integers, self.floats, self.tensors = ["i"], ["f"], ["x"]
        self.count = 0

    def filled(self, form: str) -> str:
        while "{" in form:
            which = form[form.index("{") + 1]
            names = {"i": self.integers, "f": self.floats, "t": self.tensors, "n": [*self.integers, *self.floats], "k": ["1", "2", "3"]}[
                which
            ]
            form = form.replace("{" + which + "}", self.draw.choice(names[-4:] if self.draw.random() < 0.6 else names), 1)
        return form

    def statement(self) -> list[str]:
        self.count += 1
        kind = self.draw.choices(("int", "float", "tensor", "write", "branch"), (2, 3, 6, 1, 1))[0]
        if kind == "write":
            return [self.filled(self.draw.choice(WRITES))]
        if kind == "branch":
            name = self.draw.choice(self.tensors)
            first = [self.filled(self.draw.choice(BRANCHES)), f"    {name} = {self.filled(self.draw.choice(TENSORS))}"]
            return [*first, "else:", f"    {name} = {name} * 0.5"] if self.draw.random() < 0.5 else first
        names, forms, letter = {
            "int": (self.integers, NUMBERS, "i"), "float": (self.floats, FLOATS, "f"), "tensor": (self.tensors, TENSORS, "t"),
        }[kind]  # fmt: skip
        line = f"{letter}{self.count} = {self.filled(self.draw.choice(forms))}"
        names.append(f"{letter}{self.count}")
        return [line]

    def program(self) -> str:
        body = [line for _ in range(self.draw.randint(2, 8)) for line in self.statement()]
        results = [self.tensors[-1], *([self.draw.choice(self.tensors)] if self.draw.random() < 0.3 else [])]
        if self.draw.random() < 0.15:
            results.append(self.draw.choice([*self.integers, *self.floats]))
        if self.draw.random() < 0.3:
            body.append(f"{self.tensors[-1]}.sum().backward()" if self.draw.random() < 0.3 else "y = y * 1")
        return f"def program(x, y, i, f, table):\n{textwrap.indent(chr(10).join(body), '    ')}\n    return {', '.join(results)}\n"


def calls_of(seed: int) -> list[tuple[int, int, int, float, bool]]:
    """Rows, columns, the integer, the float and whether ``x`` requires grad, call by call."""
    draw = random.Random(seed + 1)
    sizes, integers, floats = draw.random() < 0.5, draw.random() < 0.7, draw.random() < 0.7
    grad = draw.random() < 0.5
    calls = []
    for _ in range(12):
        rows = draw.choice((3, 4, 5, 6, 7, 8)) if sizes else 5
        calls.append((rows, 4, draw.choice((2, 3, 4, 5, 6, 7, 8, 11, -1, 0, 1)) if integers else 3,
                      draw.choice((0.1, 0.3, 0.5, 0.7, 1.0, 2.5, -0.4, 0.0)) if floats else 0.3, grad))  # fmt: skip
    return calls


def outcome(function: Callable[..., Any], call: tuple[int, int, int, float, bool], seed: int) -> tuple[Any, ...]:
    rows, columns, i, f, grad = call
    torch.manual_seed(seed)
    x, y = torch.randn(rows, columns), torch.randn(rows, columns)
    x.requires_grad_(grad)
    try:
        results = function(x, y, i, f, [0.25, 0.25, 1.25])
        results = results if isinstance(results, tuple) else (results,)
        tensors = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad and each.grad_fn is not None]
        if tensors:
            try:
                sum(each.sum() for each in tensors).backward()
            except RuntimeError as error:
                return type(error), (y, x.grad)
    except Exception as error:
        return type(error), (y,)
    return None, (*results, x.grad, y)


def compare(seed: int) -> tuple[str, str, str]:
    """('equal' | 'error' | 'different', where it differs, the program); 'error' where both raise in all calls."""
    source = Writer(seed).program()
    space: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(HEAD + source, f"<program {seed}>", "exec"), space)
    plain, compiled = space["program"], torch.compile(space["program"])
    fine = 0
    for number, call in enumerate(calls_of(seed)):
        want, have = outcome(plain, call, number), outcome(compiled, call, number)
        place = f"call {number} {call}"
        if want[0] is not have[0] or len(want[1]) != len(have[1]):
            return "different", f"{place}: eager {want[0]}, compiled {have[0]}", source
        fine += want[0] is None
        for k, (a, b) in enumerate(zip(have[1], want[1], strict=True)):
            if not same(a, b) and not _both_far(a, b, want[1]):
                return "different", f"{place}, result {k}: eager {b}, compiled {a}", source
    kinds = "+".join(sorted({type(each).__name__ for each in compiled._call.programs if each.failure is None})) or "eager"
    return ("equal, " + kinds) if fine else "error", "", source


def _both_far(a: Any, b: Any, results: Sequence[Any]) -> bool:
    """Whether two results are as near as rounding of the largest numbers among all results leaves them."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype is not b.dtype:
        return False
    tensors = [each.detach() for each in results if isinstance(each, torch.Tensor) and each.numel()]
    scale = max([float(each.abs().max()) for each in tensors if each.is_floating_point()], default=0.0)
    return bool((a.detach() - b.detach()).abs().max() <= 2e-5 * scale) if b.numel() else True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.compiled_numbers", description="Random programs, compiled and not.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    counts: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(given.seed, given.seed + given.count):
            verdict, difference, source = compare(seed)
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict == "different" or given.count == 1:
                print(f"-- {seed}: {verdict}", source, difference, "", sep="\n", flush=True)
            if (seed - given.seed) % 100 == 99:
                print(f"{seed - given.seed + 1} programs, {counts.get('different', 0)} different", file=sys.stderr, flush=True)
    print("\n".join(f"{count:5} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if counts.get("different") else 0


if __name__ == "__main__":
    sys.exit(main())
