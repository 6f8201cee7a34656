"""Modules as functions of their parameters. Source: torch._functorch.functional_call."""

from __future__ import annotations

from ..func import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
