"""Kernels generated as LLVM IR: see ``docs/kernels.md`` for the way from an expression to machine code."""

from .index import FAMILIES

__all__ = ["FAMILIES"]
