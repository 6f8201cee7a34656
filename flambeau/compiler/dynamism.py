"""The sizes of a function's arguments that are symbolic when a program is recorded: those that were marked, and those that have changed.

A dimension whose size was another one at an earlier recording is symbolic from then on, as are all of them with ``dynamic=True``. Sizes of
0 and 1 never are: they broadcast, or leave nothing to do. Equal sizes share a symbol with ``dynamic=True``, and where they have to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.expressions import symbol
from ..core.symbolic import ConstraintViolationError
from ..core.tensor import Parameter, Tensor
from .arguments import SMALLEST, Arguments

__all__ = ["Dynamism", "Wanted", "mark_dynamic", "mark_static", "maybe_mark_dynamic"]

_VARIES = object()  # in place of a size
_PATIENCE = 2  # attempts to make a program for many sizes, after which each has its own


class Wanted:
    """The sizes of one call's arguments that are to be symbolic.

    Attributes:
        symbols: names by place: number of the tensor, dimension. sizes: by name, as they are.
        strict: names of those that were marked with ``mark_dynamic``, with how the program calls them. ranges: least and most, by name.
    """

    def __init__(self) -> None:
        self.symbols: dict[tuple[int, int], str] = {}
        self.sizes: dict[str, int] = {}
        self.strict: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, int | None]] = {}
        self._labels: dict[tuple[int, int], tuple[str, bool]] = {}

    def add(self, place: tuple[int, int], size: int, label: str, strict: bool, ends: tuple[int, int | None]) -> None:
        """Make a size symbolic."""
        name = self.symbols[place] = f"s{len(self.sizes)}"
        self.sizes[name], self.ranges[name] = size, ends
        self._labels[place] = label, strict
        if strict:
            self.strict[name] = label

    def shared(self, by_dim: bool = False) -> Wanted:
        """The same with one symbol for all sizes that are equal; ``by_dim``: of the same dimension."""
        made = Wanted()
        names: dict[Any, str] = {}
        for place, old in self.symbols.items():
            size, (label, strict) = self.sizes[old], self._labels[place]
            key = (size, place[1]) if by_dim else size
            if key not in names:
                made.add(place, size, label, strict, self.ranges[old])
                names[key] = made.symbols[place]
            else:
                made.symbols[place], made._labels[place] = names[key], (label, strict)
        return made

    def alternatives(self) -> list[Wanted]:
        """This, and the same with fewer symbols, where there are equal sizes."""
        found = [self]
        for other in (self.shared(True), self.shared()):
            if len(other.sizes) < len(found[-1].sizes):
                found.append(other)
        return found

    def bounds(self) -> list[str]:
        """Bounds of the sizes by their marks, as conditions."""
        found = []
        for name, (least, most) in self.ranges.items():
            if most is not None or least > SMALLEST:
                found.append(f"{least} <= {name}" + ("" if most is None else f" <= {most}"))
        return found

    def shapes(self, tensors: Sequence[Tensor]) -> list[list[Any]]:
        """Shapes of the arguments with symbols in them."""
        made = []
        for i, tensor in enumerate(tensors):
            names = [self.symbols.get((i, dim)) for dim in range(tensor._array.ndim)]
            made.append([size if name is None else symbol(name) for name, size in zip(names, tensor._array.shape, strict=True)])
        return made

    def violated(self, fixed: set[str]) -> None:
        """Complain if sizes that were marked as dynamic cannot vary.

        Raises:
            ConstraintViolationError: one of them is in ``fixed``.
        """
        lines = [
            f"  - You marked {self.strict[name]} as dynamic but your code specialized it to be a constant ({self.sizes[name]}). If you're "
            "using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either "
            "Dim.STATIC or Dim.AUTO."
            for name in self.strict
            if name in fixed
        ]
        if lines:
            names = ", ".join(self.strict[name] for name in self.strict if name in fixed)
            more = 'For more information, run with TORCH_LOGS="+dynamic".'
            raise ConstraintViolationError("\n".join([f"Constraints violated ({names})! {more}", *lines]), fixed)


class Dynamism:
    """The knowledge of how the sizes of a function's arguments vary.

    Args:
        dynamic: of ``torch.compile``.
    """

    def __init__(self, dynamic: bool | None = None):
        self.dynamic = dynamic
        self._seen: dict[str, Any] = {}  # sizes, or what stands for them, by the names of arguments
        self._numbers: dict[str, Any] = {}  # the same of numbers, by their places
        self._static: Counter[frozenset[Any]] = Counter()

    def clear(self) -> None:
        self._seen, self._numbers, self._static = {}, {}, Counter()

    def wanted(self, arguments: Arguments) -> Wanted | None:
        """The sizes that are to be symbolic in a program for a call, which is about to be recorded; None where there are none."""
        wanted = Wanted()
        for i, (tensor, name) in enumerate(zip(arguments.tensors, arguments.names, strict=True)):
            for dim, strict, ends in self._dims(tensor, self._changed(name, tensor)):
                label = f"L['{name}'].size()[{dim}]"
                wanted.add((i, dim), tensor._array.shape[dim], label, strict, ends)
        if self.dynamic is True and not wanted.strict:
            wanted = wanted.shared()
        return wanted if wanted.symbols and (wanted.strict or self._static[frozenset(wanted.symbols)] < _PATIENCE) else None

    def numbers(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Places, as text, of the numbers among a call's arguments that are to be inputs of a program."""
        from ..facades._dynamo import config

        given = {f"args[{i}]": value for i, value in enumerate(args)} | {f"kwargs[{key!r}]": value for key, value in kwargs.items()}
        is_static = {int: config.specialize_int, float: config.specialize_float}
        found = []
        for place, value in given.items():
            if is_static.get(type(value), True):
                continue
            seen = self._numbers.setdefault(place, value)
            if seen is not _VARIES and seen != value and (seen == seen or value == value):
                seen = self._numbers[place] = _VARIES
            if self.dynamic is True or (seen is _VARIES and self.dynamic is None and config.automatic_dynamic_shapes):
                found.append(place)
        return found if self._static[frozenset(found)] < _PATIENCE else []

    def stays(self, places: Iterable[Any]) -> None:
        """Take note that the program is another one for every size, or number, at these places."""
        self._static[frozenset(places)] += 1

    def _changed(self, name: str, tensor: Tensor) -> list[bool]:
        """For each size of an argument whether it has changed since it was seen first."""
        shape = tensor._array.shape
        seen = self._seen.setdefault(name, list(shape))
        if seen is not _VARIES and len(seen) != len(shape):
            seen = self._seen[name] = _VARIES
        if seen is _VARIES:  # another number of dimensions
            return [True] * len(shape)
        for dim, size in enumerate(shape):
            if seen[dim] is not _VARIES and seen[dim] != size:
                seen[dim] = _VARIES
        return [size is _VARIES for size in seen]

    def _dims(self, tensor: Tensor, changed: list[bool]) -> list[tuple[int, bool, tuple[int, int | None]]]:
        """The symbolic dimensions of an argument, whether each was marked, and its least and largest size."""
        from ..facades._dynamo import config

        if tensor.__class__ is Parameter and config.force_parameter_static_shapes:
            return []
        marks = tensor.__dict__
        always = self.dynamic is True or (self.dynamic is None and not config.assume_static_by_default)
        by_change = self.dynamic is None and config.automatic_dynamic_shapes
        found = []
        for dim, size in enumerate(tensor._array.shape):
            ends = marks.get("_dynamo_dynamic_range", {}).get(dim, (SMALLEST, None))
            if not ends[0] <= size <= (size if ends[1] is None else ends[1]) and size >= SMALLEST:
                raise ConstraintViolationError(f"{size} not in range [{ends[0]}, {ends[1]}]")
            strict = dim in marks.get("_dynamo_dynamic_indices", ())
            weak = dim in marks.get("_dynamo_weak_dynamic_indices", ())
            if size < SMALLEST or (dim in marks.get("_dynamo_static_indices", ()) and not strict):
                continue
            if strict or weak or always or (by_change and changed[dim]):
                found.append((dim, strict, ends))
        return found


# -- marks -----------------------------------------------------------------------------------------------------------------------------
def _marked(kind: str, t: Any, index: Any) -> list[int]:
    """Put dimensions into one of a tensor's sets of marks."""
    if not isinstance(t, Tensor):
        raise TypeError(f"expected a tensor whose dimensions can be marked, got {type(t).__name__}")
    dims = list(index) if isinstance(index, list | tuple) else [index]
    t.__dict__.setdefault(kind, set()).update(dims)
    return dims


def mark_dynamic(
    t: Any,
    index: Any,
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: list[Any] | None = None,
) -> None:
    """Say that a dimension's size will change, so that compiled programs have it as a symbol from the first call on.

    Args:
        t: argument of a compiled function. index: a dimension, or several in a list or tuple.
        min, max: least and largest size.
        hint_override, specialize_on: choices of PyTorch's compiler.
    Raises:
        NotImplementedError: ``hint_override`` or ``specialize_on``.
        ConstraintViolationError: later, where a compiled program has to have one size.
    Source: torch._dynamo.mark_dynamic.
    Example:
        >>> x = torch.ones(3, 2)
        >>> torch._dynamo.mark_dynamic(x, 0, max=64)
        >>> torch.compile(lambda x: x.sum(0))(x)
        tensor([3., 3.])
    """
    if hint_override is not None or specialize_on:
        raise NotImplementedError("torch._dynamo.mark_dynamic: hint_override and specialize_on are not supported")
    for dim in _marked("_dynamo_dynamic_indices", t, index):
        if min is not None or max is not None:
            least = SMALLEST if min is None or min < SMALLEST else min
            t.__dict__.setdefault("_dynamo_dynamic_range", {})[dim] = least, max


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Say that a dimension's size may change: it is a symbol where that can be.

    Args:
        t: argument of a compiled function. index: a dimension, or several in a list or tuple.
    Source: torch._dynamo.maybe_mark_dynamic.
    Example:
        >>> torch._dynamo.maybe_mark_dynamic(torch.ones(3, 2), 0)
    """
    _marked("_dynamo_weak_dynamic_indices", t, index)


def mark_static(t: Any, index: Any = None) -> None:
    """Say that sizes will not change: each size has a program of its own.

    Args:
        t: argument of a compiled function. index: a dimension, several in a list or tuple, or None for all.
    Source: torch._dynamo.mark_static.
    Example:
        >>> torch._dynamo.mark_static(torch.ones(3, 2), 0)
    """
    _marked("_dynamo_static_indices", t, list(range(t.dim())) if index is None and isinstance(t, Tensor) else index)
