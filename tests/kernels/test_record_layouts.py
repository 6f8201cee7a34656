"""Every operation record over many layouts, native kernels against the reference, forbidden pages around every operand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flambeau.kernels.families.reduction")

import records

from flambeau.kernels import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
# Kernels that no operation of the records calls by itself, and where they are tested instead.
ELSEWHERE = {
    "optim.step": "test_optimizer",
    "optim.norms": "test_optimizer",
    "optim.scale": "test_optimizer",
    **{f"_{name}": "test_integer_products" for name in ("int_mm", "pack_panels", "quantized_linear", "quantized_linear_dynamic")},
    **dict.fromkeys(("_weight_int8pack_mm", "_weight_int4pack_mm_for_cpu"), "test_integer_products"),
    "_csr_times_dense": "test_sparse",
    "_dots_at_places": "test_sparse",
    **dict.fromkeys(("_lstm_cells", "_recurrent_steps", "_recurrent_steps_backward"), "test_recurrent"),
    **dict.fromkeys(("addmm", "addbmm", "baddbmm"), "test_split_products"),
    **dict.fromkeys(("_correlate_few", "bfloat16:convolution", "bfloat16:_convolution_weight"), "test_convolution"),
    **{f"bfloat16:{name}": "test_narrow_products" for name in ("addmm", "bmm", "matmul", "mm", "nn.functional.linear")},
}


def worker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, in which small samples reach kernels; a kernel that reads a forbidden page ends it."""
    command = [sys.executable, "-m", "tests.kernels.record_layouts", *arguments]
    environment = {**os.environ, "FLAMBEAU_KERNELS": "llvm", "FLAMBEAU_KERNELS_FROM": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("family", records.FAMILIES)
def test_kernels_equal_references_in_every_layout(family: str) -> None:
    done = worker(family)
    lines = done.stdout.splitlines()
    at = [line.removeprefix("at ") for line in lines if line.startswith("at ")]
    assert done.returncode == 0, f"{at[-1] if at else family} ended the process ({done.returncode}): {done.stderr[-2000:]}"
    assert at[-1] == "the end"
    wrong = "\n".join(line for line in lines if not line.startswith("at "))
    assert not wrong, wrong


@pytest.mark.slow
def test_records_reach_every_native_kernel() -> None:
    done = worker("--reached")
    assert done.returncode == 0, done.stderr[-2000:]
    reached = set(done.stdout.split()[1:])
    assert "pointwise" in reached
    assert set(FAMILIES) - reached == set(ELSEWHERE)
