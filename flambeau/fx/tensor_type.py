"""Types of tensors by their sizes, which may be unknown. Source: torch.fx.tensor_type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class TensorType:
    """The type of tensors of these sizes.

    Args:
        dim: the sizes; ``Dyn`` where one is unknown.
    Source: torch.fx.tensor_type.TensorType.
    Example:
        >>> from flambeau.fx.tensor_type import Dyn, TensorType
        >>> TensorType((1, Dyn))
        TensorType[(1, Dyn)]
    """

    def __init__(self, dim: Sequence[Any]):
        self.__origin__, self.__args__ = TensorType, dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def __class_getitem__(dim: Any) -> TensorType:
        return TensorType(dim if isinstance(dim, tuple) else (dim,))


class _DynType:
    """The type of what nothing is known of."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


def is_consistent(t1: object, t2: object) -> bool:
    """Whether something may have both types.

    Args:
        t1, t2: types, or sizes in them.
    Returns: a bool.
    Source: torch.fx.tensor_type.is_consistent.
    Example:
        >>> from flambeau.fx.tensor_type import Dyn, TensorType, is_consistent
        >>> is_consistent(TensorType((1, 2)), TensorType((1, Dyn))), is_consistent(TensorType((1,)), TensorType((2,)))
        (True, False)
    """
    if t1 == t2 or t1 == Dyn or t2 == Dyn:
        return True
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return False
    return len(t1.__args__) == len(t2.__args__) and all(map(is_consistent, t1.__args__, t2.__args__))


def is_more_precise(t1: object, t2: object) -> bool:
    """Whether whatever has one type has another as well.

    Args:
        t1: the type that says as much, or more. t2: the other one.
    Returns: a bool.
    Source: torch.fx.tensor_type.is_more_precise.
    Example:
        >>> from flambeau.fx.tensor_type import Dyn, TensorType, is_more_precise
        >>> is_more_precise(TensorType((1, 2)), TensorType((1, Dyn))), is_more_precise(Dyn, 1)
        (True, False)
    """
    if t1 == t2 or t2 == Dyn:
        return True
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return False
    return len(t1.__args__) == len(t2.__args__) and all(map(is_more_precise, t1.__args__, t2.__args__))
