"""``rearrange``: dimensions of tensors by name, as in einops."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..ops import resolve

Group = tuple[str, ...]
_ELLIPSIS = "..."


class DimensionBindError(RuntimeError):
    """Sizes do not fit a pattern."""


def _side(text: str, *, is_left: bool, pattern: str) -> list[Group | str]:
    """One side of a pattern: names outside of parentheses as strings, groups as tuples.

    Raises:
        ValueError: it cannot be read.
    """
    if "." in text and (text.count(_ELLIPSIS) != 1 or text.count(".") != 3):
        what = "" if _ELLIPSIS not in text else "; only one ellipsis for tensor "
        raise ValueError(f"Expression may contain dots only inside ellipsis (...){what}")
    found: list[Any] = []
    group: list[str] | None = None
    seen: set[str] = set()
    for token in _tokens(text):
        if token == "(":
            if group is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            group = []
        elif token == ")":
            if group is None:
                raise ValueError("Brackets are not balanced")
            found.append(tuple(group))
            group = None
        else:
            if token in seen:
                raise ValueError(f"Indexing expression contains duplicate dimension '{token}'")
            if token != "1":
                _check_name(token)
                seen.add(token)
            if token == _ELLIPSIS and group is not None and is_left:
                raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
            if group is not None:
                group += [] if token == "1" else [token]
            else:
                found.append(() if token == "1" else token)
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
    return found


def _tokens(text: str) -> list[str]:
    for sign in "()":
        text = text.replace(sign, f" {sign} ")
    for character in text:
        if not (character.isalnum() or character in "()_. "):
            raise ValueError(f"Unknown character '{character}'")
    return text.replace(_ELLIPSIS, f" {_ELLIPSIS} ").split()


def _check_name(name: str) -> None:
    if name == _ELLIPSIS:
        return
    if name.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if not name.isidentifier():
        raise ValueError(f"Invalid axis identifier: {name}\nnot a valid python identifier")
    if name[0] == "_" or name[-1] == "_":
        raise ValueError(f"Invalid axis identifier: {name}\naxis name should should not start or end with underscore")


def _names(side: Sequence[Group | str]) -> set[str]:
    return {name for part in side for name in ((part,) if isinstance(part, str) else part)}


@functools.lru_cache(256)
def _parsed(pattern: str, lengths: tuple[str, ...]) -> tuple[list[Group | str], list[Group | str]]:
    """Both sides of a pattern.

    Raises:
        ValueError: it cannot be read, or its sides do not name the same dimensions.
    """
    if pattern.count("->") != 1:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_side(text, is_left=i == 0, pattern=pattern) for i, text in enumerate(pattern.split("->")))
    names, others = _names(left), _names(right)
    if _ELLIPSIS in others - names:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if names != others:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {names ^ others}")
    if unknown := set(lengths) - names:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    return left, right


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """Transposes, splits and merges dimensions as a pattern of their names says.

    Args:
        tensor: a tensor, or several of one shape, which are stacked first.
        pattern: the dimensions before and after ``->``, by names that both sides have. Names in parentheses are one dimension together,
            the last of them moving fastest; ``1`` and ``()`` are dimensions of size 1; ``...`` stands for any number of dimensions.
        axes_lengths: sizes of named dimensions, where a group on the left does not tell.
    Returns:
        A view where possible.
    Raises:
        ValueError: the pattern cannot be read, or is for another number of dimensions.
        RuntimeError: sizes do not fit.
        TypeError: a size that is no integer.
    Example:
        >>> torch.func.rearrange(torch.arange(6).view(2, 3), "a b -> (b a)")
        tensor([0, 3, 1, 4, 2, 5])
        >>> torch.func.rearrange(torch.zeros(8, 3, 4, 4), "b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2).shape
        torch.Size([8, 4, 12])

    Source: torch.func.rearrange.
    """
    whole: Tensor = tensor if isinstance(tensor, Tensor) else resolve("torch", "stack")(tensor)
    left, right = _parsed(pattern, tuple(axes_lengths))
    for size in axes_lengths.values():
        if not isinstance(size, int):
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(size)}")
    shape = whole.shape
    rank = len([part for part in left if part != _ELLIPSIS])
    if len(shape) < rank or (_ELLIPSIS not in left and len(shape) != rank):
        raise ValueError(f"Number of dimensions in pattern ({rank}) must be equal to the number of dimensions in the tensor ({len(shape)})")
    rest = tuple(f"{_ELLIPSIS}{i}" for i in range(len(shape) - rank))
    groups = _expanded(left, rest)
    sizes: dict[str, int] = {}
    for group, size in zip(groups, shape, strict=True):
        sizes.update(_sizes_of(group, size, axes_lengths))
    order = [name for group in groups for name in group]
    wanted = _expanded(right, rest)
    split = whole.reshape([sizes[name] for name in order])
    moved = split.permute([order.index(name) for group in wanted for name in group])
    return moved.reshape([math.prod(sizes[name] for name in group) for group in wanted])


def _expanded(side: Sequence[Group | str], rest: Group) -> list[Group]:
    """A side's dimensions as groups of names, with names for what the ellipsis stands for."""
    groups: list[Group] = []
    for part in side:
        if part == _ELLIPSIS:
            groups += [(name,) for name in rest]
        elif isinstance(part, str):
            groups.append((part,))
        else:
            groups.append(tuple(each for name in part for each in (rest if name == _ELLIPSIS else (name,))))
    return groups


def _sizes_of(group: Group, size: int, lengths: dict[str, int]) -> dict[str, int]:
    """Sizes of the dimensions that make up one of ``size``.

    Raises:
        DimensionBindError: they do not fit, or two are not known.
    """
    unknown = [name for name in group if name not in lengths]
    known = math.prod(lengths[name] for name in group if name in lengths)
    if len(unknown) > 1:
        raise DimensionBindError(f"cannot infer the sizes of two dimensions at once {unknown[0]} and {unknown[1]}")
    if unknown and (not known or size % known):
        raise DimensionBindError(f"inferred dimension does not evenly fit into larger dimension: {size} vs {known} for {group}")
    if not unknown and known != size:
        raise DimensionBindError(f"Dimension sizes to do not match ({size} != {known}) when matching dimension pack {group}")
    return {name: lengths[name] if name in lengths else size // known for name in group}
