"""Arguments of an exported program: their names, and what they must be for it to take them."""

from __future__ import annotations

import inspect
import re
from typing import Any

from ..core.expressions import Expr, as_expr, symbol
from ..core.symbolic import expression_of
from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten_with_path


def combined(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names that ``forward`` gives them, in the order of ``tree_flatten((args, kwargs))``."""
    forward = mod.forward if hasattr(mod, "forward") else mod
    signature = inspect.signature(forward)
    signature.bind(*args, **kwargs)  # the error, if there is one
    return {**signature.bind_partial(*args).arguments, **kwargs}


def shapes_by_name(mod: Any, names: dict[str, Any], dynamic_shapes: Any) -> Any:
    """``dynamic_shapes``, by name where they are a tuple, which has the signature's order, and the call has another; None for ``()``."""
    if dynamic_shapes == () and names:
        return None
    parameters = list(inspect.signature(mod.forward if hasattr(mod, "forward") else mod).parameters)
    order = sorted(names, key=lambda name: parameters.index(name) if name in parameters else len(parameters))
    if not isinstance(dynamic_shapes, (tuple, list)) or order == list(names) or len(order) != len(dynamic_shapes):
        return dynamic_shapes
    return dict(zip(order, dynamic_shapes, strict=True))


def leaf_names(names: dict[str, Any]) -> list[str]:
    """Names of placeholders: ``x``, ``x_a`` for ``x["a"]``, ``y_0`` for ``y[0]``."""
    found = []
    for path, _ in tree_flatten_with_path(names)[0]:
        words = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        found.append(re.sub(r"[^a-zA-Z0-9]", "_", "_".join(words)).lower())
    return found


def leaf_places(names: dict[str, Any]) -> list[str]:
    """Each leaf as a program writes it: ``x``, ``x['a']``, ``y[0]``."""
    found = []
    for path, _ in tree_flatten_with_path(names)[0]:
        first, *rest = path
        text = str(getattr(first, "key", first))
        for key in rest:
            text += f".{key.name}" if hasattr(key, "name") else f"[{getattr(key, 'key', getattr(key, 'idx', None))!r}]"
        found.append(text)
    return found


class Guards:
    """The conditions on the inputs of an exported program: sizes that are fixed, equal, or in a range.

    Args:
        places: how programs write the leaves. expected: of each, its shape with expressions, a constant, or None for anything.
        ranges: bounds by symbol.
    """

    def __init__(self, places: list[str], expected: list[Any], ranges: dict[str, tuple[int, int]]):
        self.places, self.expected, self.ranges = places, expected, ranges

    @classmethod
    def of(cls, places: list[str], leaves: list[Any], ranges: dict[str, tuple[int, int]]) -> Guards:
        """Guards for inputs that are like these, symbolic, ones."""
        expected: list[Any] = []
        for leaf in leaves:
            expected.append([as_expr(expression_of(size)) for size in leaf.shape] if isinstance(leaf, Tensor) else leaf)
        return cls(places, expected, ranges)

    def check(self, leaves: Any) -> None:
        """AssertionError where an input is not what it must be."""
        known: dict[str, tuple[int, str]] = {}
        later: list[tuple[int, Expr, str]] = []
        for leaf, wanted, place in zip(leaves, self.expected, self.places, strict=True):
            if not isinstance(wanted, list):
                self._check_constant(leaf, wanted, place)
                continue
            if not isinstance(leaf, Tensor):
                raise AssertionError(f"Guard failed: isinstance({place}, torch.Tensor)")
            if leaf.dim() != len(wanted):
                raise AssertionError(f"Guard failed: {place}.dim() == {len(wanted)}")
            for dim, (size, expr) in enumerate(zip(leaf.shape, wanted, strict=True)):
                where = f"{place}.size()[{dim}]"
                if not self._take(size, expr, where, known):
                    later.append((size, expr, where))
        for size, expr, where in later:
            self._check_size(size, expr, where, known)

    def _take(self, size: int, expr: Expr, where: str, known: dict[str, tuple[int, str]]) -> bool:
        """Learn from a size what a symbol is, of which it is a linear function; False where there is nothing to learn."""
        factor, shift = expr.terms.get(((str(next(iter(expr.symbols), "")), 1),), 0), expr.terms.get((), 0)
        name = next(iter(expr.symbols), "")
        if len(expr.symbols) != 1 or expr != symbol(name) * factor + shift or name in known or name not in self.ranges:
            return False
        if (size - shift) % factor:
            raise AssertionError(f"Guard failed: {where} % {factor} == {shift % factor}")
        root = (size - shift) // factor
        known[name] = (root, where if factor == 1 and not shift else f"(({where} - {shift}) // {factor})")
        low, high = self.ranges[name]
        if root < low:
            raise AssertionError(f"Guard failed: {where} >= {low * factor + shift}")
        if root > high:
            raise AssertionError(f"Guard failed: {where} <= {high * factor + shift}")
        return True

    def _check_size(self, size: Any, expr: Expr, where: str, known: dict[str, tuple[int, str]]) -> None:
        if expr.constant is not None:
            if size != expr.constant:
                raise AssertionError(f"Guard failed: {where} == {expr.constant}")
            return
        if not expr.symbols <= known.keys():
            return  # a root that is no input's own size
        text = str(expr)
        for name, (_, place) in known.items():
            text = re.sub(rf"\b{name}\b", place.replace("\\", ""), text)
        if size != expr.evaluate({name: value for name, (value, _) in known.items()}):
            raise AssertionError(f"Guard failed: {where} == {text}")

    def _check_constant(self, leaf: Any, wanted: Any, place: str) -> None:
        if isinstance(wanted, int) and not isinstance(wanted, bool) and hasattr(wanted, "expr"):
            return
        if type(leaf) is not type(wanted) or leaf != wanted:
            raise AssertionError(f"Guard failed: {place} == {wanted!r}")


def check_inputs(leaves: list[Any], expected: list[Any], places: list[str], ranges: dict[str, tuple[int, int]]) -> None:
    """Raise for an argument of an unflattened module that the program was not exported for.

    Args:
        leaves: the arguments. expected: of each, a tensor or a number with symbols, or a constant. places: how programs write them.
        ranges: bounds by symbol.
    Raises:
        RuntimeError: another size or value; other dtypes are for operations to refuse.
    """
    known: dict[str, int] = {}
    for leaf, wanted, place in zip(leaves, expected, places, strict=True):
        where = f"Expected input at {place}"
        if isinstance(wanted, Tensor):
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"{where} to be a tensor, but got {type(leaf)}")
            if leaf.dim() != wanted.dim():
                raise RuntimeError(f"{where}.shape to have {wanted.dim()} dimensions, but got {leaf.dim()}")
            for dim, (size, each) in enumerate(zip(leaf.shape, wanted.shape, strict=True)):
                _check_dim(size, as_expr(expression_of(each)), f"{where}.shape[{dim}]", known, ranges)
        elif isinstance(wanted, int) and hasattr(wanted, "expr"):
            _check_dim(leaf, as_expr(expression_of(wanted)), where, known, ranges)
        elif type(leaf) is not type(wanted) or leaf != wanted:
            raise RuntimeError(f"{where} to be equal to {wanted}, but got {leaf}")


def _check_dim(size: int, expr: Expr, where: str, known: dict[str, int], ranges: dict[str, tuple[int, int]]) -> None:
    name = str(next(iter(expr.symbols), ""))
    if expr.constant is None and expr == symbol(name) and name not in known:
        low, high = ranges.get(name, (0, size))
        for word, bad, bound in ((">=", size < low, low), ("<=", size > high, high)):
            if bad:
                raise RuntimeError(f"{where} to be {word} {bound}, but got {size}")
        known[name] = size
        return
    if not expr.symbols <= known.keys():
        return
    wanted = expr.evaluate(known) if expr.constant is None else expr.constant
    if size != wanted:
        advice = ". If you meant for this dimension to be dynamic, please re-export and specify dynamic_shapes (e.g. with Dim.DYNAMIC)"
        raise RuntimeError(f"{where} to be equal to {wanted}, but got {size}{'' if expr.symbols else advice}")
