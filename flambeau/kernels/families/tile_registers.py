"""The processor's eight registers of tiles (AMX): 16 rows of 64 bytes each, and products of two of them that are added to a third."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..compiler import target as targets
from ..compiler.language import Builder, Value

FEATURES = "+amx-tile,+amx-bf16"  # LLVM's words for them
INTEGER_FEATURES = "+amx-tile,+amx-int8"
_TILE_DATA, _REQUEST, _ARCH_PRCTL = 18, 0x1023, 158  # Linux's numbers: the state of tile registers, permission for it, the system call
ROWS = 16
ROW = 64  # bytes
_INTRINSICS = {
    "ldtilecfg": "ptr", "tilerelease": "", "tilezero": "i8",
    "tdpbf16ps": "i8, i8, i8", "tdpbusd": "i8, i8, i8", "tdpbssd": "i8, i8, i8",
    "tileloadd64": "i8, ptr, i64", "tilestored64": "i8, ptr, i64",
}  # fmt: skip


@cache
def instructions() -> str:
    """The kind that this process may use: 'tiles', 'pairs', or '' where the processor has none of them."""
    if targets.current() is not targets.AVX512 or not sys.platform.startswith("linux"):
        return ""
    has = targets.features()
    if {"amx_tile", "amx_bf16"} <= has and _allowed():
        return "tiles"
    return "pairs" if "avx512_bf16" in has else ""


@cache
def has_integers() -> bool:
    """Whether this process may use tiles of bytes."""
    return (
        targets.current() is targets.AVX512
        and sys.platform.startswith("linux")
        and {"amx_tile", "amx_int8"} <= targets.features()
        and _allowed()
    )


def _allowed() -> bool:
    """Whether the system gives this process the state of tile registers, when asked."""
    return not ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA)


class TileRegisters:
    """Writes instructions for tiles; registers are named by number."""

    def __init__(self, k: Builder):
        self.k = k
        for name, types in _INTRINSICS.items():
            k.declared[f"llvm.x86.{name}"] = f"declare void @llvm.x86.{name}({types.replace('i8', 'i8 immarg')})"

    def _do(self, name: str, *operands: str) -> None:
        self.k.effect(f"call void @llvm.x86.{name}({', '.join(operands)})")

    def within(self, body: Callable[[], Any], rows: Value | None = None) -> Any:
        """``body()`` with eight tiles, which are free again afterwards: switches between threads need not save them.

        Args:
            rows: of all but the last two tiles; 16 where nothing is said.
        """
        k = self.k
        # palette 1, and eight tiles of 16 rows of 64 bytes
        form = k.table(words := [1, 0, *[ROW * 0x1000100010001] * 2, 0, 0, ROWS * 0x101010101010101, 0], "i64")
        if rows is not None:
            form = k.scratch(len(words), "i64")
            for at, word in enumerate(words):
                k.store(k.const(word, "i64") if at != 6 else rows * 0x10101010101 + (ROWS * 0x101 << 48), form, at, "i64")
        self._do("ldtilecfg", f"ptr {form.text}")
        result = body()
        self._do("tilerelease")
        return result

    def clear(self, tiles: Sequence[int]) -> None:
        for tile in tiles:
            self._do("tilezero", f"i8 {tile}")

    def load(self, tile: int, place: Value, pitch: Value | int = ROW) -> None:
        """Read rows ``pitch`` bytes apart."""
        self._do("tileloadd64", f"i8 {tile}", f"ptr {place.text}", f"i64 {pitch.text if isinstance(pitch, Value) else pitch}")

    def store(self, tile: int, place: Value, pitch: Value | int = ROW) -> None:
        self._do("tilestored64", f"i8 {tile}", f"ptr {place.text}", f"i64 {pitch.text if isinstance(pitch, Value) else pitch}")

    def add_product(self, total: int, left: int, right: int, instruction: str = "tdpbf16ps") -> None:
        """Add products of bfloat16 in float32: pair p of row i of ``left`` with pair j of row p of ``right`` to number j of row i.

        Args:
            instruction: ``tdpbusd`` or ``tdpbssd`` add products of four bytes in int32, those of ``left`` without a sign or with one.
        """
        self._do(instruction, f"i8 {total}", f"i8 {left}", f"i8 {right}")
