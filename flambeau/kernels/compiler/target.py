"""The processor that kernels are written for.

A few classes of processor rather than each model: code for a class runs on all its members, so that a cache directory may be shared,
and finding out which class this machine is needs no LLVM.  ``FLAMBEAU_TARGET`` chooses a lower one (``avx512``, ``avx2``, ``plain``).
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import NamedTuple

from ...core.arrays.native import NoKernel

CLASS = object.__basicsize__ - 8  # offset of an object's class: the last field of Python's own header
ARRAY_DATA = object.__basicsize__  # offset of the data pointer in NumPy's array object: first field after Python's own header


class Target(NamedTuple):
    """A class of processors.

    Attributes:
        name: what ``FLAMBEAU_TARGET`` calls it; ``triple``, ``cpu``, ``features``: LLVM's words for it.
        width: bytes of a vector register; ``registers``: how many there are.
        has_fma: whether one instruction computes ``a * b + c``; ``has_rounding``: whether one computes floor and rint.
        has_halves: whether instructions convert float16.
        has_masks: whether loads and stores of all element sizes can be masked.
    """

    name: str
    triple: str
    cpu: str
    features: str
    width: int
    registers: int
    has_fma: bool = True
    has_rounding: bool = True
    has_halves: bool = True
    has_masks: bool = False


_X86 = "x86_64-unknown-linux-gnu"
AVX512 = Target("avx512", _X86, "x86-64-v4", "", 64, 32, has_masks=True)
AVX2 = Target("avx2", _X86, "x86-64-v3", "", 32, 16)
PLAIN = Target("plain", _X86, "x86-64", "", 16, 16, has_fma=False, has_rounding=False, has_halves=False)
NEON = Target("neon", "aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32)
ALL = {t.name: t for t in (AVX512, AVX2, PLAIN, NEON)}

# What /proc/cpuinfo must list for a class: x86-64-v3 and -v4 as the ABI document defines them, as far as Linux names the parts.
_V3 = frozenset("avx avx2 bmi1 bmi2 f16c fma abm movbe xsave".split())
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())


class UnsupportedMachine(NoKernel):
    """There are no kernels for this operating system or processor; everything runs on NumPy."""


def features() -> frozenset[str]:
    """Names of an x86 processor's features, as /proc/cpuinfo lists them."""
    with open("/proc/cpuinfo") as file:
        return next((frozenset(line.split()) for line in file if line.startswith("flags")), frozenset())


@cache
def dot_features() -> str:
    """LLVM's words for the instruction that adds four products of bytes to each lane (``Builder.dot``); empty where there is none."""
    target = current()
    for wanted, name, words in ((AVX512, "avx512_vnni", "+avx512vnni"), (AVX2, "avx_vnni", "+avxvnni")):
        if target is wanted and name in features():
            return words
    return ""


@cache
def host() -> Target:
    """The best class that this machine belongs to.

    Raises:
        UnsupportedMachine: not Linux on x86-64 or aarch64.
    """
    if not sys.platform.startswith("linux") or sys.byteorder != "little":
        raise UnsupportedMachine(f"kernels are made for Linux so far, not for {sys.platform}")
    machine = os.uname().machine
    if machine == "aarch64":
        return NEON
    if machine != "x86_64":
        raise UnsupportedMachine(f"no kernels for the processor {machine}")
    return AVX512 if features() >= _V4 else AVX2 if features() >= _V3 else PLAIN


@cache
def current() -> Target:
    """The class that kernels are written for: this machine's, or the one that ``FLAMBEAU_TARGET`` names.

    Raises:
        ValueError: an unknown name, or one that this machine cannot run.
    """
    best = host()
    name = os.environ.get("FLAMBEAU_TARGET", "")
    if not name:
        return best
    runnable = [t.name for t in (PLAIN, AVX2, AVX512) if best.triple == _X86 and t.width <= best.width] or [best.name]
    if name not in runnable:
        raise ValueError(f"FLAMBEAU_TARGET: expected one of {', '.join(runnable)} on this machine, got {name!r}")
    return ALL[name]
