"""Dynamic shapes that follow from further inputs, or from what an error suggested. Source: torch.export.dynamic_shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from .dynamic_shapes import Dim, UserError
from .inputs import combined


class AdditionalInputs:
    """Dynamic shapes by further inputs: sizes that are not the same in all of them are dynamic.

    Raises:
        AssertionError: from ``add``, arguments that are no tuple and no dict.
        ValueError: from ``dynamic_shapes``, inputs of other structures, or values that differ and are no sizes and no integers.
    Source: torch.export.AdditionalInputs.
    Example:
        >>> shapes = torch.export.AdditionalInputs()
        >>> shapes.add((torch.ones(5, 2),))
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(3, 2),), dynamic_shapes=shapes)
        >>> program.module()(torch.ones(8, 2)).shape
        torch.Size([8, 2])
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add inputs that the program is to take."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """The shapes, in the structure of the arguments of ``m``: ``Dim.DYNAMIC`` where sizes differ."""
        found = [tree_flatten(combined(m, *each)) for each in [(args, kwargs or {}), *[(a, k or {}) for a, k in self._examples]]]
        spec = found[0][1]
        for _, other in found[1:]:
            if other != spec:
                raise ValueError(f"Node arity mismatch; expected the structure {spec}, but got {other}.")
        return tree_unflatten([_shape_of(leaves) for leaves in zip(*[leaves for leaves, _ in found], strict=True)], spec)

    def verify(self, ep: Any) -> None:
        """Raise where a program does not take the inputs.

        Raises:
            RuntimeError: one that it does not take.
        """
        module = ep.module()
        for args, kwargs in self._examples:
            try:
                module(*args, **(kwargs or {}))
            except AssertionError as error:
                raise RuntimeError(str(error)) from error


def _shape_of(leaves: tuple[Any, ...]) -> Any:
    first = leaves[0]
    if all(isinstance(leaf, Tensor) for leaf in leaves):
        sizes = zip(*[leaf.shape for leaf in leaves], strict=True)
        return tuple([None if len({*each}) == 1 else Dim.DYNAMIC for each in sizes])
    if all(leaf is first or (type(leaf) is type(first) and not isinstance(leaf, Tensor) and leaf == first) for leaf in leaves):
        return None
    if not all(type(leaf) is int for leaf in leaves):
        raise ValueError(f"The following inputs were found to have differing values, but they cannot be marked as dynamic: {leaves}.")
    return Dim.DYNAMIC


# ---- what errors suggest
_DIM = re.compile(r"(?P<name>\w+) = Dim\('\w+'(?:, min=(?P<min>\d+))?(?:, max=(?P<max>\d+))?\)")
_LINEAR = re.compile(r"(?P<name>\w+) = (?:(?P<factor>\d+)\*)?(?P<root>[A-Za-z_]\w*)(?: (?P<sign>[+-]) (?P<shift>\d+))?")
_SIZE = re.compile(r"(?P<name>\w+) = (?P<size>\d+)")


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """Dynamic shapes as the message of an error suggests them.

    Args:
        msg: the message, with "Suggested fixes:" in it. dynamic_shapes: the shapes that were refused.
    Returns:
        The shapes, with other ``Dim``s.
    Raises:
        UserError: a message without suggestions.
        AssertionError: a suggestion that names a ``Dim`` that is not there.
    Source: torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes.
    Example:
        >>> from flambeau.export.dynamic_shapes import Dim, refine_dynamic_shapes_from_suggested_fixes
        >>> refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\\n  n = Dim('n', max=9)", {"x": {0: Dim("n")}})
        {'x': {0: Dim('n', min=0, max=9)}}
    """
    _, found, text = msg.partition("Suggested fixes:")
    if not found:
        raise UserError("Suggested fixes not found in error message given to refine_dynamic_shapes_from_suggested_fixes()")
    lines = [line.strip() for line in text.partition("\n\n")[0].splitlines()]
    given = {dim.root.__name__: dim.root for dim in _dims(dynamic_shapes)}
    sizes: dict[str, Any] = {}
    for match in filter(None, map(_DIM.fullmatch, lines)):
        bounds = {key: None if match[key] is None else int(match[key]) for key in ("min", "max")}
        sizes[match["name"]] = given[match["name"]] = Dim(match["name"], **bounds)
    for line in lines:
        size, linear = _SIZE.fullmatch(line), _LINEAR.fullmatch(line)
        if size is not None:
            sizes[size["name"]] = int(size["size"])
        elif linear is not None:
            if linear["root"] not in given:
                raise AssertionError(f"symbol.name '{linear['root']}' not found in name_to_dim")
            shift = int(linear["shift"] or 0) * (-1 if linear["sign"] == "-" else 1)
            root = given[linear["root"]]
            sizes[linear["name"]] = root if linear["factor"] is None and not shift else root * int(linear["factor"] or 1) + shift
    return tree_map(lambda dim: _refined(dim, sizes), dynamic_shapes, is_leaf=lambda node: isinstance(node, Dim))


def _dims(shapes: Any) -> list[Dim]:
    return [leaf for leaf in tree_flatten(shapes, is_leaf=lambda node: isinstance(node, Dim))[0] if isinstance(leaf, Dim)]


def _refined(dim: Any, sizes: Mapping[str, Any]) -> Any:
    """A dim with what was suggested for it, or for its root."""
    if not isinstance(dim, Dim):
        return dim
    if dim.__name__ in sizes:
        return sizes[dim.__name__]
    root = sizes.get(dim.root.__name__, dim.root)
    return dim if root is dim.root else root * dim.factor + dim.shift
