"""What dtypes come out under autocast on the CPU, of every entry of PyTorch's database of operations, held against PyTorch's.

Each sample of float32, bfloat16 and float16 is called in both libraries inside a region of bfloat16, and of float16; the results' dtypes
must agree, or both must raise. ``test_autocast_lists`` takes a few samples of the operations that are listed.

    python -m tests.programs.autocast_dtypes              all of it; a line for each operation that differs
    python -m tests.programs.autocast_dtypes NAME...      these operations, each difference (patterns such as 'fft.*' are understood)
"""

from __future__ import annotations

import fnmatch
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from conformance.columns import Comparison
    from conformance.database import FUNCTIONS, Unsupported

import torch
from libraries import flat

import flambeau

SAMPLES = ("float32", "bfloat16", "float16")
NARROW = ("bfloat16", "float16")

# Where flambeau is known to differ, and why.
_JOINED = "PyTorch joins parts of the call inside and refuses the other narrow dtype there, though nothing is cast"
GAPS: dict[str, str] = {
    **dict.fromkeys(
        ("combinations", "isin", "matrix_exp", "roll", "unique", "unique_consecutive", "fft.fftshift", "fft.ifftshift"), _JOINED
    ),
    **dict.fromkeys(("linalg.pinv", "linalg.pinv.hermitian"), "float32: one operation; PyTorch's last product is an open one"),
    **dict.fromkeys(
        ("nn.functional.linear_cross_entropy.chunked", "nn.functional.linear_cross_entropy.chunked_none"),
        "float32, as without chunks; PyTorch's loss of chunks keeps a narrow dtype that it was given",
    ),
}


def inside(library: Any, narrow: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` in a region."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with library.autocast("cpu", getattr(library, narrow)):
            return function(*args, **kwargs)

    return call


def dtypes_of(outcome: Any) -> str:
    """The dtypes of a call's results, or that it raised."""
    result, error = outcome
    if error is not None:
        return "an error"
    return " ".join(str(item.dtype) for item in flat(result) if hasattr(item, "dtype"))


def differences(name: str, count: int | None, samples: tuple[str, ...] = SAMPLES, regions: tuple[str, ...] = NARROW) -> Iterator[str]:
    """How the dtypes of an entry's results differ from PyTorch's; ``count`` samples of each dtype, in regions of these dtypes."""
    comparison = Comparison(name, count)
    for dtype in samples:
        for sample in comparison.samples(getattr(torch, dtype)):
            for narrow in regions:
                ours, theirs = inside(flambeau, narrow, comparison.ours), inside(torch, narrow, comparison.entry.op)
                try:
                    got, want, _, _ = comparison.call_both(sample, ours, theirs)
                except Unsupported:
                    continue
                have, expected = dtypes_of(got), dtypes_of(want)
                if have != expected:
                    errors = [str(error).partition("\n")[0][:200] for error in (got[1], want[1]) if error is not None]
                    kinds = [str(getattr(item, "dtype", type(item).__name__)) for item in (sample.input, *sample.args)]
                    yield f"{dtype} samples in {narrow}, operands {kinds}: {have}, PyTorch {expected} {errors or ''}"


def main(patterns: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failed = 0
    names = [name for name in FUNCTIONS if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    for name in names:
        found = list(dict.fromkeys(differences(name, None if patterns else 4)))
        failed += bool(found) != (name in GAPS)
        for difference in found[: None if patterns else 1]:
            print(f"{name}: {difference}" + (f"    (known: {GAPS[name]})" if name in GAPS else ""), flush=True)
    print(f"{len(names) - failed} of {len(names)} operations are as expected, {len(set(names) & GAPS.keys())} of them known to differ")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
