"""Context managers that are decorators too. Source: torch.utils._contextlib."""

from __future__ import annotations

from ..autograd.grad_mode import _ContextDecorator as _DecoratorContextManager, _NoParameters as _NoParamDecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager"]
