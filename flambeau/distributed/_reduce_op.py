"""Reductions of several processes' values to one. Source: torch.distributed.ReduceOp."""

from __future__ import annotations

import enum
import warnings
from typing import Any

__all__ = ["RedOpType", "ReduceOp", "reduce_op", "supports_complex"]


class RedOpType(enum.Enum):
    """The kinds of reduction.

    Source: torch.distributed.ReduceOp.RedOpType.
    Example:
        >>> torch.distributed.ReduceOp.SUM
        <RedOpType.SUM: 0>
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class _Kinds(type):
    """Kinds count as reductions: both may be given where one is asked for."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, RedOpType)


class ReduceOp(metaclass=_Kinds):
    """A reduction: one of the constants ``SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``, ``BAND``, ``BOR``, ``BXOR``, or a sum of
    premultiplied values.

    Args:
        op: a constant.
    Source: torch.distributed.ReduceOp.
    Example:
        >>> torch.distributed.ReduceOp(torch.distributed.ReduceOp.MAX) == torch.distributed.ReduceOp.MAX
        True
    """

    SUM, AVG, PRODUCT, MIN, MAX = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR, PREMUL_SUM = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM
    factor: Any = None

    def __init__(self, op: RedOpType | ReduceOp) -> None:
        self.op = ReduceOp.kind_of(op)
        self.factor = getattr(op, "factor", None)

    @staticmethod
    def kind_of(op: Any) -> RedOpType:
        """The constant of a reduction; TypeError for anything else."""
        if op.__class__ is RedOpType:
            return op
        if op.__class__ is ReduceOp:
            return op.op
        raise TypeError(f"expected a torch.distributed.ReduceOp, got {type(op).__name__}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self.op is ReduceOp.kind_of(other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<torch.distributed.ReduceOp {self.op.name}>"


ReduceOp.RedOpType = RedOpType  # type: ignore[attr-defined]


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """A sum of values that are multiplied by ``factor`` first.

    Args:
        factor: a number, or a tensor of one element.
    Returns: a ``ReduceOp``.
    Source: torch.distributed._make_nccl_premul_sum.
    Example:
        >>> torch.distributed._make_nccl_premul_sum(0.5) == torch.distributed.ReduceOp.PREMUL_SUM
        True
    """
    op = ReduceOp(RedOpType.PREMUL_SUM)
    op.factor = factor
    return op


class _ReduceOpNames:
    """``ReduceOp``'s constants under their first name."""

    __members__ = {name: kind for name, kind in RedOpType.__members__.items() if name != "AVG"}

    def __getattribute__(self, name: str) -> Any:
        members = object.__getattribute__(self, "__members__")
        if name in members:
            warnings.warn(
                "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead", FutureWarning, stacklevel=2
            )
            return members[name]
        return object.__getattribute__(self, name)


reduce_op = _ReduceOpNames()


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex values can be reduced so.

    Args:
        reduceOp: a ``ReduceOp``.
    Returns: a bool.
    Source: torch.distributed.distributed_c10d.supports_complex.
    Example:
        >>> torch.distributed.supports_complex(torch.distributed.ReduceOp.MAX)
        False
    """
    return ReduceOp.kind_of(reduceOp) in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)
