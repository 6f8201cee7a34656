"""Functions of sparse tensors: ``torch.sparse``. Tensors are made by ``torch.sparse_coo_tensor`` and the like, or by ``to_sparse``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..core import late as _late
from ..ops import resolve
from ..ops.sparse.construction import checking as _checking
from .legacy import CONSTRUCTORS as _CONSTRUCTORS

_late.adopt(__name__)

mm, addmm, sampled_addmm = (resolve("sparse", name) for name in ("mm", "addmm", "sampled_addmm"))
sum, softmax, log_softmax, spdiags = (resolve("sparse", name) for name in ("sum", "softmax", "log_softmax", "spdiags"))
globals().update(_CONSTRUCTORS)


class check_sparse_tensor_invariants:
    """Whether constructors look at all invariants of indices: a context manager, a decorator, or switched by ``enable`` and ``disable``.

    That indices lie within the size is always checked; sorted and distinct indices only here.

    Args:
        enable: whether it is on within the context.
    Source: torch.sparse.check_sparse_tensor_invariants.
    Example:
        >>> import flambeau as torch
        >>> with torch.sparse.check_sparse_tensor_invariants():
        ...     torch.sparse_csr_tensor([0, 2], [0, 1], [1.0, 2.0], (1, 2))._nnz()
        2
    """

    def __init__(self, enable: bool = True):
        self.state, self.before = enable, None

    before: bool | None

    @staticmethod
    def is_enabled() -> bool:
        """Whether it is on."""
        return _checking.on

    @staticmethod
    def enable() -> None:
        """Switch it on."""
        _checking.on = True

    @staticmethod
    def disable() -> None:
        """Switch it off."""
        _checking.on = False

    def __enter__(self) -> None:
        if self.before is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for context nesting."
            )
        self.before, _checking.on = _checking.on, self.state

    def __exit__(self, *error: Any) -> None:
        _checking.on, self.before = bool(self.before), None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            context: AbstractContextManager[None] = type(self)(self.state)
            with context:
                return function(*args, **kwargs)

        return call


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """``gradcheck`` for functions of sparse tensors: they are passed by their values, and results are compared as dense ones.

    Args:
        gradcheck: ``torch.autograd.gradcheck`` or ``gradgradcheck``.
    Returns: a function with the arguments of ``gradcheck``.
    Source: torch.sparse.as_sparse_gradcheck.
    Example:
        >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
        >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
        >>> check(lambda x: x.to_dense(), x, masked=True)
        True
    """

    @functools.wraps(gradcheck)
    def check(function: Callable[..., Any], inputs: Any, *args: Any, masked: bool = False, **kwargs: Any) -> Any:
        return gradcheck(function, inputs, *args, masked=masked, **kwargs)

    return check


__all__ = [
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip
