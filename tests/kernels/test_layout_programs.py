"""A thousand programs of ``layout_programs`` with a fixed seed, and a hundred with a new one; ``docs/testing.md`` says more of them."""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flambeau.kernels.families.reduction")

from layout_programs.comparing import HAS_ORACLE, differences
from layout_programs.drawing import Bound
from layout_programs.operations import FAMILIES, draw_program
from layout_programs.running import Report, run_programs

from flambeau.core.arrays import native

FIXED, STEP = 0, 250  # the first seed, and programs a test


def check(seed: int, count: int) -> None:
    lines: list[str] = []
    report = run_programs(Report(seed), count, None, complain=lines.extend)
    assert not lines, "\n".join(lines)
    assert report.count == count


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIXED, FIXED + 1000, STEP))
def test_programs_agree(seed: int) -> None:
    check(seed, STEP)


def test_new_programs_agree() -> None:
    seed = secrets.randbelow(1 << 40)
    print(f"python -m tests.layout_programs --seed {seed} --count 100")
    check(seed, 100)


def test_a_seed_determines_its_program() -> None:
    assert [str(draw_program(seed)) for seed in range(50)] == [str(draw_program(seed)) for seed in range(50)]


def test_programs_are_of_all_families_and_mostly_large() -> None:
    programs = [draw_program(seed) for seed in range(1000)]
    assert len({program.text.split()[0] for program in programs}) > 3 * len(FAMILIES)
    sizes = [max(math.prod(operand.layout.shape) for operand in program.operands) for program in programs]
    assert sum(size >= native.LARGE for size in sizes) > 700
    assert sum(any(operand.repeats > 1 for operand in program.operands) for program in programs) > 300


def _of(name: str) -> int:
    """The seed of a program of operation ``name`` over a large tensor."""
    for seed in range(100_000):
        program = draw_program(seed)
        if program.text.startswith(name) and len(program.text) > 3 and program.operands[0].layout.shape[0] > 4000:
            return seed
    raise AssertionError(f"no program of {name}")


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong element is enough, in the values and in the memory that a write has to leave alone."""
    seed = _of("sum float32")
    assert not differences(seed)
    real: Any = native.find("sum")

    def wrong(*given: Any) -> Any:
        result = real(*given)
        if result is not None:
            result.reshape(-1)[-1] += 1
        return result

    monkeypatch.setitem(native._found, "sum", wrong)
    lines = differences(seed)
    assert len(lines) == 2 + HAS_ORACLE
    assert lines[0].startswith(f"program {seed}: sum float32")
    assert any("reference: result 0: 1 of" in line for line in lines)


def test_a_program_that_ends_its_process_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its seed is named, and those after it are run."""
    seed = _of("sum float32")
    monkeypatch.setenv("LAYOUT_PROGRAMS_END_AT", str(seed + 1))
    lines: list[str] = []
    report = run_programs(Report(seed), 3, None, complain=lines.extend)
    assert (report.count, report.wrong) == (3, 1)
    assert lines[0].startswith(f"program {seed + 1}:")
    assert lines[-1].strip() == "ended the process: SIGSEGV"


def test_bounds() -> None:
    one = np.ones(1)
    assert Bound().of(one, "float32") == 0
    assert Bound(4).of(one, "int64") == 0
    assert Bound(2).of(one, "float32") == 2 * 2.0**-23
    assert Bound(1, 8).of(one, "bfloat16") == 8 * 2.0**-7
    assert Bound(0, 1, 100).of(one, "bfloat16") == 6 * 10 * 100 * 2.0**-23
