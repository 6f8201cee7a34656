"""A recorder whose graph writes to nothing: what a program writes becomes a new value, and whoever shows the same memory sees it.

y = x[0]        a view: y is known to be select(x, 0)
y.add_(1)       y' = add(y, 1), and so x' = select_scatter(x, y', 0)
x.sum()         sum(x')
y * 2           y is taken from x' anew, when it is next used: select(x') * 2
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from ...aten.calls import overload_named, sibling
from ...core.tensor import Tensor
from ...utils._pytree import tree_map
from ..node import Node
from .recorder import Recorder


class _View(NamedTuple):
    parent: Tensor
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int | None  # in the list that the kernel returns


class FunctionalRecorder(Recorder):
    """See this module's docstring."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._views: dict[int, _View] = {}
        self._values: dict[int, tuple[int, Any]] = {}  # by id of a tensor: when its value was made, and the value
        self._written: dict[int, int] = {}  # by id of a tensor that is no view: when it was written to
        self._kept: list[Any] = []
        self._clock = itertools.count(1)

    # ---- values
    def _root(self, tensor: Tensor) -> Tensor:
        while id(tensor) in self._views:
            tensor = self._views[id(tensor)].parent
        return tensor

    def current(self, tensor: Tensor, run: Callable[..., Any]) -> Any:
        """The value that a tensor has now."""
        when, value = self._values.get(id(tensor), (0, tensor))
        view = self._views.get(id(tensor))
        if view is None or self._written.get(id(self._root(tensor)), 0) <= when:
            return value
        parent = self.current(view.parent, run)
        made: Any = super().record(view.func, (parent, *view.args), view.kwargs, run)
        made = made if view.place is None else made[view.place]
        self._values[id(tensor)] = (next(self._clock), made)
        return made

    def final(self, tensor: Tensor) -> Node | None:
        """The node of what an input was overwritten with; None where it was not."""
        if id(tensor) not in self._written:
            return None
        return self.node_of(self._values[id(tensor)][1])

    def argument(self, value: Any) -> Any:
        return super().argument(self.current(value, _called) if isinstance(value, Tensor) else value)

    # ---- calls
    def record(self, func: Any, args: Any, kwargs: Any, run: Callable[..., Any]) -> Any:
        given = tree_map(lambda leaf: self.current(leaf, run) if isinstance(leaf, Tensor) else leaf, (tuple(args), dict(kwargs)))
        schema = func._schema
        if schema.is_mutable:
            return self._write(func, args, given, run)
        if func.name() == "aten::native_batch_norm" and given[0][5] and args[3] is not None:
            return self._batch_norm(func, args, given[0], run)
        result = super().record(func, given[0], given[1], run)
        if func.is_view and args and isinstance(args[0], Tensor):
            parts = result if isinstance(result, (tuple, list)) else [result]
            for place, part in enumerate(parts):
                if part is not args[0]:
                    self._views[id(part)] = _View(args[0], func, given[0][1:], given[1], None if parts is not result else place)
                    self._values[id(part)] = (next(self._clock), part)
                    self._kept.append(part)
        return result

    def _write(self, func: Any, args: Any, given: Any, run: Callable[..., Any]) -> Any:
        name = f"{func._opname}.{func._overloadname}"
        functional = sibling(name, func._opname.removesuffix("_"), False)
        if functional is None or not isinstance(args[0], Tensor):
            raise NotImplementedError(f"{func}: a kernel that writes, and has no form that does not, is not supported here")
        target, value = args[0], given[0][0]
        found = overload_named(functional)
        made = super().record(found, (*given[0], *_defaults(func, found, len(given[0]))), given[1], run)
        if made.dtype is not value.dtype:
            made = super().record(overload_named("_to_copy"), (made,), {"dtype": value.dtype}, run)
        self._store(target, made, run)
        return target

    def _batch_norm(self, func: Any, args: Any, given: Any, run: Callable[..., Any]) -> Any:
        """The kernel that updates running statistics, without them, and what they become."""
        x, weight, bias, mean, variance, _, momentum, eps = given
        result = super().record(func, (x, weight, bias, None, None, True, momentum, eps), {}, run)
        dims = [d for d in range(x.dim()) if d != 1]
        of_batch = super().record(overload_named("var.correction"), (x, dims), {}, run)
        for target, old, new in ((args[3], mean, result[1]), (args[4], variance, of_batch)):
            kept = super().record(overload_named("mul.Tensor"), (old, 1 - momentum), {}, run)
            self._store(target, super().record(overload_named("add.Tensor"), (kept, new), {"alpha": momentum}, run), run)
        return result

    def _store(self, tensor: Tensor, value: Any, run: Callable[..., Any]) -> None:
        """Have a tensor, and what it is a view of, be another value."""
        chain = [(tensor, value)]
        while id(tensor) in self._views:
            view = self._views[id(tensor)]
            value = self._put(view, self.current(view.parent, run), value, run)
            tensor = view.parent
            chain.append((tensor, value))
        when = next(self._clock)
        self._written[id(tensor)] = when
        for part, new in chain:
            self._values[id(part)] = (when, new)
            self._kept.append((part, new))

    def _put(self, view: _View, parent: Any, value: Any, run: Callable[..., Any]) -> Any:
        """The parent of a view with another value in the view's place."""
        name = view.func._opname
        if name not in _PUTS:
            raise NotImplementedError(f"writing to a view that {view.func} makes is not supported here")
        put = _PUTS[name](view, parent, value)
        return value if put is None else super().record(overload_named(put[0]), put[1], {}, run)


def _defaults(writing: Any, found: Any, count: int) -> list[Any]:
    """Arguments that have defaults in the form that writes only."""
    pairs = list(zip(writing._schema.positional, found._schema.positional, strict=False))[count:]
    return [ours.default_value for ours, other in pairs if ours.has_default_value() and not other.has_default_value()]


def _called(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _dim(view: _View, place: int) -> int:
    return view.args[place] if len(view.args) > place else 0


def _inverse(dims: Any) -> list[int]:
    order = [d % len(dims) for d in dims]
    return [order.index(d) for d in range(len(order))]


def _of_list(view: _View, parent: Any, value: Any) -> tuple[str, tuple[Any, ...]]:
    """A part of a split."""
    sizes, dim = view.args[0], _dim(view, 1)
    length = parent.shape[dim]
    if isinstance(sizes, (tuple, list)):
        start = sum(sizes[: view.place])
        return "slice_scatter", (parent, value, dim, start, start + sizes[view.place or 0])
    step = sizes if view.func._opname == "split" else -(-length // sizes)
    start = step * (view.place or 0)
    return "slice_scatter", (parent, value, dim, start, min(start + step, length))


def _as_before(view: _View, parent: Any, value: Any) -> tuple[str, tuple[Any, ...]]:
    return "view", (value, list(parent.shape))


# By the kernel that made a view: the call that puts another value in its place; None where it is the whole.
_PUTS: dict[str, Callable[[_View, Any, Any], Any]] = {
    "select": lambda view, parent, value: ("select_scatter", (parent, value, *view.args)),
    "slice": lambda view, parent, value: ("slice_scatter", (parent, value, *view.args)),
    "diagonal": lambda view, parent, value: ("diagonal_scatter", (parent, value, *view.args)),
    "as_strided": lambda view, parent, value: ("as_strided_scatter", (parent, value, *view.args)),
    "unbind": lambda view, parent, value: ("select_scatter", (parent, value, _dim(view, 0), view.place)),
    "split": _of_list,
    "split_with_sizes": _of_list,
    "chunk": _of_list,
    "transpose": lambda view, parent, value: ("transpose.int", (value, *view.args)),
    "t": lambda view, parent, value: ("t", (value,)),
    "permute": lambda view, parent, value: ("permute", (value, _inverse(view.args[0]))),
    **dict.fromkeys(("view", "_unsafe_view", "unsqueeze", "squeeze", "reshape", "flatten", "unflatten"), _as_before),
    **dict.fromkeys(("alias", "detach", "lift_fresh"), lambda view, parent, value: None),
}
