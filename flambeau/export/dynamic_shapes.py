"""Sizes of the inputs of an exported program that may be others. Source: torch.export.dynamic_shapes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.expressions import Expr, symbol
from ..core.tensor import Tensor
from ..facades._dynamo.exc import UserError
from ..fx.experimental.symbolic_shapes import UNBOUNDED
from ..utils._pytree import tree_flatten, tree_map, tree_map_with_path, tree_unflatten
from .inputs import combined

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "dims", "refine_dynamic_shapes_from_suggested_fixes"]

Constraint = Any


@dataclasses.dataclass(frozen=True)
class DimHint:
    """A hint about a dimension without a name: none (``AUTO``), that it is always dynamic, or that it is always as in the example.

    Source: torch.export.dynamic_shapes._DimHint. Called, it is one with bounds.
    """

    type: str
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        if self.min is not None or self.max is not None or self.type == "STATIC":
            raise TypeError(f"'DimHint' {self!r} takes no bounds")
        return DimHint(self.type, min, max)

    def __repr__(self) -> str:
        bounds = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint({', '.join([self.type, *bounds])})"


class Dim:
    """A size with a name: wherever it is given, the size is the same.

    Args:
        name: an identifier. min, max: bounds, both included.
    Raises:
        AssertionError: a name that is no identifier, or ``min`` above ``max``.
        NotImplementedError: from arithmetic, what is not ``a * dim + b`` with ``a`` a positive integer.
    Source: torch.export.Dim.
    Example:
        >>> batch = torch.export.Dim("batch", max=64)
        >>> batch, 2 * batch, torch.export.Dim.AUTO
        (Dim('batch', min=0, max=64), 2*batch, DimHint(AUTO))
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        self.min, self.max = 0 if min is None else min, UNBOUNDED if max is None else max
        if self.max < self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.root, self.factor, self.shift = self, 1, 0

    def _linear(self, factor: int, shift: int) -> Dim:
        made: Dim = object.__new__(Dim)
        made.root, made.factor, made.shift = self.root, self.factor * factor, self.shift * factor + shift
        made.min = self.root.min * made.factor + made.shift
        made.max = self.root.max if self.root.max == UNBOUNDED else self.root.max * made.factor + made.shift
        made.__name__ = str(symbol(self.root.__name__) * made.factor + made.shift)
        return made

    def __add__(self, other: Any) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(f"Attempted to add {other} to {self.__name__}, where an integer was expected. {_ONLY}")
        return self._linear(1, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(f"Attempted to subtract {other} from {self.__name__}, where an integer was expected. {_ONLY}")
        return self._linear(1, -other)

    def __rsub__(self, other: Any) -> Dim:
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_ONLY}")

    def __mul__(self, other: Any) -> Dim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. {_ONLY}")
        return self._linear(other, 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        lower = "" if self.min == 2 else f", min={self.min}"  # 0 and 1 are what needs to be said
        upper = "" if self.max == UNBOUNDED else f", max={self.max}"
        return f"Dim('{self.__name__}'{lower}{upper})"


_ONLY = "(Only increasing linear operations with integer coefficients are supported.)"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several ``Dim``s with the same bounds.

    Args:
        names: their names. min, max: bounds, both included.
    Returns:
        A tuple of them.
    Source: torch.export.dims.
    Example:
        >>> torch.export.dims("batch", "length")
        (Dim('batch', min=0), Dim('length', min=0))
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


class ShapesCollection:
    """Dynamic shapes by tensor, for inputs whose structure is laborious to write again.

    Source: torch.export.ShapesCollection.
    Example:
        >>> x = torch.ones(3, 2)
        >>> shapes = torch.export.ShapesCollection()
        >>> shapes[x] = {0: torch.export.Dim("batch")}
        >>> shapes.dynamic_shapes(None, ([x],))
        {'args': [[{0: Dim('batch', min=0)}]]}
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (Tensor, int)):
            raise AssertionError(f"Cannot assign shape to non-tensor or non-int type {type(t)}")
        if id(t) in self._shapes and self._shapes[id(t)][1] != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {self._shapes[id(t)][1]}, got {shape}")
        self._shapes[id(t)] = (t, shape)

    def __getitem__(self, t: Any) -> Any:
        if id(t) not in self._shapes:
            self._shapes[id(t)] = (t, {})
        return self._shapes[id(t)][1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """The shapes in the structure of the arguments of ``m``.

        Raises:
            ValueError: a tensor that is not among the arguments.
        """
        seen: set[int] = set()

        def shape_of(path: Any, leaf: Any) -> Any:
            seen.add(id(leaf))
            return self._shapes[id(leaf)][1] if id(leaf) in self._shapes else None

        names = combined(m, args, kwargs or {}) if m is not None else {"args": list(args), **(kwargs or {})}
        found = tree_map_with_path(shape_of, names)
        if any(key not in seen for key in self._shapes):
            raise ValueError("a tensor with a shape is not among the arguments")
        return found


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
        different = next((leaf for leaf in leaves if leaf.dim() != first.dim()), None)
        if different is not None:
            raise ValueError(f"Node arity mismatch; expected {first.dim()} dimensions, but got {different.dim()}.")
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
    present = {name for dim in _dims(dynamic_shapes) for name in (dim.__name__, dim.root.__name__)}
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
    for name in sizes:
        if name not in present:
            raise AssertionError(f"shape_fixes key '{name}' not found in name_to_dim or roots")
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


# ---- the shapes of a program's inputs, leaf by leaf
_SEE = "For more information about this error, see: https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation"


def dims_of_leaves(names: Mapping[str, Any], dynamic_shapes: Any) -> list[dict[int, Any]]:
    """The dims of every leaf of the arguments, by dimension.

    Args:
        names: the arguments by name. dynamic_shapes: as of ``export``.
    Raises:
        UserError: a structure that is not the arguments'.
    """
    if dynamic_shapes is None:
        return [{} for _ in tree_flatten(dict(names))[0]]
    if isinstance(dynamic_shapes, Mapping):
        if set(dynamic_shapes) != set(names):
            raise UserError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {list(names)} of `inputs`, but "
                f"here they are {list(dynamic_shapes)}. Alternatively, you could also ignore arg names entirely and specify "
                f"`dynamic_shapes` as a list/tuple matching `inputs`. {_SEE}"
            )
        parts = [(names[name], dynamic_shapes[name], f"['{name}']") for name in names]
    else:
        if len(dynamic_shapes) != len(names):
            raise UserError(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has {len(names)} elements, but "
                f"`dynamic_shapes` has {len(dynamic_shapes)} elements\n{_SEE}"
            )
        parts = [(value, shapes, f"[{k}]") for k, (value, shapes) in enumerate(zip(names.values(), dynamic_shapes, strict=True))]
    found: list[dict[int, Any]] = []
    for value, shapes, where in parts:
        _collect(value, shapes, where, found)
    return found


def _collect(value: Any, shapes: Any, where: str, found: list[dict[int, Any]]) -> None:
    children, spec = tree_flatten(value, is_leaf=lambda node: node is not value)
    if spec.is_leaf() or isinstance(value, Tensor):
        found.append(_dims_of_tensor(value, shapes, where))
        return
    if shapes is None or isinstance(shapes, DimHint):
        found += [_dims_of_tensor(leaf, shapes, where) for leaf in tree_flatten(value)[0]]
        return
    parts = list(shapes.values()) if isinstance(shapes, Mapping) else list(shapes) if isinstance(shapes, Iterable) else []
    if isinstance(value, Mapping) and isinstance(shapes, Mapping):
        if set(value) != set(shapes):
            raise UserError(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{where}` has keys {list(value)}, but "
                f"`dynamic_shapes{where}` has keys {list(shapes)}\n{_SEE}"
            )
        parts = [shapes[key] for key in value]
    if len(parts) != len(children):
        raise UserError(
            f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{where}` has {len(children)} elements, but "
            f"`dynamic_shapes{where}` has {len(parts)} elements\n{_SEE}"
        )
    for k, (child, part) in enumerate(zip(children, parts, strict=True)):
        _collect(child, part, f"{where}[{k}]", found)


def _dims_of_tensor(value: Any, shapes: Any, where: str) -> dict[int, Any]:
    if shapes is None:
        return {}
    if not isinstance(value, Tensor):
        if isinstance(value, int) and isinstance(shapes, (Dim, DimHint)):
            return {-1: shapes}
        if not tree_flatten(shapes)[0] or all(each is None for each in tree_flatten(shapes)[0]):
            return {}
        raise UserError(
            f"Cannot associate shape {shapes} specified at `dynamic_shapes{where}` to non-tensor type {type(value)} at `inputs{where}`"
        )
    ndim = value.dim()
    if isinstance(shapes, DimHint):
        return dict.fromkeys(range(ndim), shapes)
    items = dict(shapes) if isinstance(shapes, Mapping) else dict(enumerate(shapes)) if isinstance(shapes, (tuple, list)) else None
    if items is None or (not isinstance(shapes, Mapping) and len(items) != ndim):
        raise UserError(
            f"Expected dynamic shape spec {shapes} specified at `dynamic_shapes{where}` to have the same length as the actual tensor shape "
            f"{value.shape} (expected {ndim}, but got {len(items) if items is not None else 0} instead)"
        )
    found: dict[int, Any] = {}
    for dim, each in items.items():
        if not -ndim <= dim < ndim:
            raise IndexError(f"dimension {dim} at `dynamic_shapes{where}` is out of range for a tensor of shape {tuple(value.shape)}")
        if each is None or each is Dim.STATIC or (isinstance(each, int) and not isinstance(each, bool)):
            if isinstance(each, int) and each != value.shape[dim]:
                raise UserError(
                    f"Static shape constraint of {each} does not match input size of {value.shape[dim]} for `inputs{where}.shape[{dim}]`"
                )
            continue
        if not isinstance(each, (Dim, DimHint)):
            raise UserError(
                f"Unexpected dimension mapped to index {dim} in input tensor shape {shapes} specified at `dynamic_shapes{where}` (expected "
                f"None, an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC, but got {each!r} instead)"
            )
        found[dim % ndim] = each
    return found


def root_size(dim: Dim, size: int) -> int:
    """The size of a dim's root, of which a dimension of size ``size`` is a linear function.

    Raises:
        UserError: there is none.
    """
    if (size - dim.shift) % dim.factor:
        raise UserError(f"a dimension {dim.__name__} cannot have the size {size} of the example")
    found = (size - dim.shift) // dim.factor
    if not dim.root.min <= found <= dim.root.max:
        raise UserError(f"the size {size} of the example is out of the range of {dim!r}")
    return found


def expression(dim: Dim, root: Expr) -> Expr:
    """The size of a dimension as a function of the root's."""
    return root * dim.factor + dim.shift
