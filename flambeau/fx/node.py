"""Nodes of a graph: one operation each, linked in the order in which they run. Source: torch.fx.node."""

from __future__ import annotations

import builtins
import inspect
import operator
import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ..aten.overloads import OperatorBase, OpOverload
from ..core.calls.registry import entries
from ._library import NAME, library
from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
Target = Callable[..., Any] | str
Argument = Any  # nodes, and numbers, strings, dtypes, devices, tensors, in tuples, lists, slices and dicts

_side_effectful_functions: set[Callable[..., Any]] = set()


def has_side_effect(fn: Any) -> Any:
    """Have ``Graph.eliminate_dead_code`` keep calls of a function whose results nothing uses.

    Args:
        fn: the function.
    Returns:
        ``fn`` itself, so that this is a decorator, too.
    Source: torch.fx.node.has_side_effect.
    Example:
        >>> torch.fx.node.has_side_effect(print) is print
        True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """A structure of arguments with ``fn`` of each of its leaves.

    Args:
        a: tuples, lists, dicts and slices as deep as you like; named tuples stay what they are.
        fn: is given each of the leaves.
    Returns:
        The structure; lists and dicts in it refuse writes, since nodes depend on what they hold.
    Source: torch.fx.node.map_aggregate.
    Example:
        >>> torch.fx.node.map_aggregate((1, [2, {"a": 3}]), lambda leaf: leaf + 1)
        (2, [3, {'a': 4}])
    """
    if isinstance(a, tuple):
        elements = [map_aggregate(element, fn) for element in a]
        return type(a)(*elements) if hasattr(a, "_fields") else tuple(elements)
    if isinstance(a, list):
        return immutable_list([map_aggregate(element, fn) for element in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(element, fn) for key, element in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """A structure of arguments with ``fn`` of each node in it.

    Args:
        a: as of ``map_aggregate``.
        fn: is given each of the nodes; other leaves stay.
    Returns:
        The structure.
    Raises:
        AssertionError: ``fn`` is not callable.
    Source: torch.fx.node.map_arg.
    Example:
        >>> x = torch.fx.Graph().placeholder("x")
        >>> torch.fx.node.map_arg((x, 2), lambda node: node.name)
        ('x', 2)
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def qualified_name(function: Callable[..., Any]) -> str:
    """The name by which generated code finds a function: ``torch.nn.functional.relu``, ``operator.add``, ``getattr``.

    Raises:
        RuntimeError: no module says that it is its own.
    """
    if isinstance(function, OperatorBase):
        return f"torch.ops.{function}" if isinstance(function, OpOverload) else f"torch.ops.higher_order.{function}"
    name = getattr(function, "__name__", "")
    if getattr(builtins, name, None) is function:
        return name
    if getattr(library, name, None) is function and getattr(function, "__module__", "") != "typing":
        return f"torch.{name}"
    if getattr(operator, name, None) is function:
        return f"_operator.{name}"
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        return f"{function.__objclass__.__module__}.{function.__objclass__.__name__}.{name}"
    if inspect.ismethod(function) and not inspect.isclass(function.__self__):
        raise RuntimeError(f"the method {function.__qualname__} of an object has no name that code could use; wrap it in a function")
    module = inspect.getmodule(function)
    where = getattr(function, "__module__", None) or (module.__name__ if module is not None else None)
    if where is None:
        raise RuntimeError(f"Unknown module of {function!r}")
    if where.startswith(f"{NAME}.vision"):
        where = "torchvision" + where.removeprefix(f"{NAME}.vision")
    elif where.partition(".")[0] == NAME:
        where = "torch" + where.removeprefix(NAME)
    name = getattr(function, "__qualname__", None) or name or type(function).__name__
    return f"{where}.{name.rpartition('.<locals>.')[2]}"


_get_qualified_name = qualified_name


def type_repr(annotation: Any) -> str:
    """An annotation as text: ``torch.Tensor``, ``int``, ``list[int]``."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        name = str(annotation.__qualname__)
        if annotation.__module__ == "builtins":
            return name
        if getattr(library, name, None) is annotation and annotation.__module__ != "typing":
            return f"torch.{name}"
        return f"{annotation.__module__.replace(NAME, 'torch', 1)}.{name}"
    if annotation is ...:
        return "..."
    if isinstance(annotation, types.FunctionType):
        return annotation.__name__
    return repr(annotation).replace(f"{NAME}.", "torch.")


class Node:
    """One step of a graph.

    Nodes are made by ``Graph.create_node`` and the methods that call it, not by hand.

    Args:
        graph: the graph that it belongs to.
        name: unique in its graph.
        op: ``placeholder`` (an input), ``get_attr`` (a parameter or another attribute of the module), ``call_function``,
            ``call_module``, ``call_method`` or ``output``.
        target: the function; or the name of the input, attribute, module or method.
        args, kwargs: nodes and constants, in tuples, lists, dicts and slices.
        return_type: the annotation of its value.
    Attributes:
        users: the nodes that have it as an argument, in the order in which they came.
        meta: what passes note about it; copies keep it.
        type: ``return_type``.
    Raises:
        AssertionError: an unknown ``op``.
        ValueError: a target that does not fit ``op``.
    Source: torch.fx.Node.
    Example:
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.relu, (graph.placeholder("x"),))
        >>> y.format_node()
        '%relu : [num_users=0] = call_function[target=torch.relu](args = (%x,), kwargs = {})'
    """

    def __init__(
        self, graph: Any, name: str, op: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], return_type: Any = None
    ):
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a Callable is expected")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is expected")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._erased = False
        self._prev = self._next = self
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._take(args, kwargs)

    # ---- arguments
    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Have other arguments, and be a user of the nodes in them alone."""
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def used(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                self._input_nodes.setdefault(leaf)
                leaf.users.setdefault(self)
            return leaf

        self._args, self._kwargs = map_aggregate(tuple(args), used), map_aggregate(dict(kwargs), used)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by position; assigning others updates ``users``."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._take(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by keyword; assigning others updates ``users``."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._take(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among its arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Put ``arg`` in place of the argument at position ``idx``."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put ``arg`` before the argument at position ``idx``.

        Raises:
            AssertionError: a position outside of the arguments.
        """
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Put ``arg`` in place of the argument named ``key``."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put ``new_input`` wherever ``old_input`` is an argument."""

        def other(node: Node) -> Node:
            return new_input if node is old_input else node

        self._take(map_arg(self._args, other), map_arg(self._kwargs, other))
        module = self.graph.owning_module
        for hook in getattr(module, "_replace_hooks", ()):
            hook(old=old_input, new=new_input.name, user=self)

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Put another node wherever this one is an argument.

        Args:
            replace_with: the other node.
            delete_user_cb: whether a user is changed; all are when None.
            propagate_meta: copy what this node's ``meta`` has into ``replace_with``'s, which has to be empty.
        Returns:
            The users that were changed.
        Raises:
            AssertionError: ``propagate_meta``, and ``replace_with`` has notes of its own.
        Source: torch.fx.Node.replace_all_uses_with.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- place in the graph
    @property
    def next(self) -> Node:
        """The node after this one; the graph's root, which is no step, after the last."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x``, a node of the same graph, before this one.

        Raises:
            AssertionError: a node of another graph.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move ``x``, a node of the same graph, behind this one."""
        if x is not self:
            self._next.prepend(x)

    def _steps(self) -> Iterable[Node]:
        node = self.graph._root._next
        while node.op != "root":
            yield node
            node = node._next

    def _before(self, other: Node) -> bool:
        """Whether it runs before another node of its graph."""
        for node in self._steps():
            if node is self or node is other:
                return node is self and self is not other
        return False

    def __lt__(self, other: Node) -> bool:
        return self._before(other)

    def __gt__(self, other: Node) -> bool:
        return other._before(self)

    def __le__(self, other: Node) -> bool:
        return self is other or self._before(other)

    def __ge__(self, other: Node) -> bool:
        return self is other or other._before(self)

    # ---- what it is
    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made it, where the tracer noted them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether its call does more than give a result, so that it stays although nothing uses that.

        Args:
            impure_random: whether functions that draw random numbers count.
        Source: torch.fx.Node.is_impure.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            schema = getattr(self.target, "_schema", None)
            if schema is not None and schema.is_mutable:
                return True
            return self.target in _side_effectful_functions or (impure_random and self.target in random_functions()) or name == "setitem"
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            found = module.get_submodule(self.target)
            return bool(getattr(found, "_is_impure", False))
        return False

    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False
    ) -> Any:
        """Its arguments in the order of its target's signature, defaults filled in.

        Args:
            root: the module that ``call_module`` targets are of.
            arg_types, kwarg_types: types of the arguments, where several signatures fit.
            normalize_to_only_use_kwargs: whether all of them are given by keyword.
        Returns:
            A named pair of ``args`` and ``kwargs``; None for a target without a signature.
        Source: torch.fx.Node.normalized_arguments.
        """
        from .operator_schemas import normalize_function, normalize_module

        if callable(self.target):
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, str(self.target), self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        """Have another name, or one near it that is free."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, self)

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        """A target as listings show it: ``torch.relu``, ``operator.add``."""
        if isinstance(target, str):
            return target
        name = str(getattr(target, "__name__", ""))
        if getattr(builtins, name, None) is target:
            return f"builtins.{name}"
        name = qualified_name(target)
        return name.replace("_operator.", "operator.", 1) if name.startswith("_operator.") else name

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as a line of a listing.

        Args:
            placeholder_names: a list that a placeholder adds its own line to, and gives None.
            maybe_return_typename: a list whose first element becomes the annotation of what is returned.
            include_tensor_metadata: whether shapes and dtypes in ``meta`` are shown.
        Source: torch.fx.Node.format_node.
        """
        kind = f"{type_repr(self.type)} " if self.type else ""
        if include_tensor_metadata and (note := self.meta.get("tensor_meta")) is not None and hasattr(note, "dtype"):
            kind += f"{note.dtype}[{', '.join(map(str, note.shape))}] "
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            line = start + (f"(default={self.args[0]})" if self.args else "")
            if placeholder_names is not None:
                placeholder_names.append(line)
                return None
            return line
        if self.op == "get_attr":
            return start
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self.args[0]}"
        return f"{start}(args = {shown(self.args)}, kwargs = {shown(self.kwargs)})"


def shown(argument: Argument) -> str:
    """Arguments as listings show them: nodes with ``%``, strings bare."""
    if isinstance(argument, list):
        return "[" + ", ".join(map(shown, argument)) + "]"
    if isinstance(argument, tuple) and not hasattr(argument, "_fields"):
        return "(" + ", ".join(map(shown, argument)) + ("," if len(argument) == 1 else "") + ")"
    if isinstance(argument, dict):
        return "{" + ", ".join(f"{key}: {shown(value)}" for key, value in argument.items()) + "}"
    return f"%{argument}" if isinstance(argument, Node) else str(argument)


@cache
def random_functions() -> set[Any]:
    """The functions of the library that give random numbers; layers such as dropout are left out where nothing uses them."""
    return {entry.wrapper for entry in entries() if entry.draws in ("numbers", "rows") and entry.namespace != "Tensor"}
