"""Nested containers taken apart into leaves and a description, and put together again.

A tree is a leaf, or an instance of a registered container whose children are trees. None is a leaf. A container is registered by its exact
type: instances of subclasses are leaves, but those of named tuples, which all share the node type ``collections.namedtuple``.

Source: torch.utils._pytree.
"""

# ruff: noqa: F403, F405 - the registry's names are this module's, too

from __future__ import annotations

import enum
import functools
import importlib
import json
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._pytree_nodes import *

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree", "PyTreeSpec", "ToDumpableContextFn",
    "TreeSpec", "UnflattenFn", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
    "is_structseq_instance", "key_get", "keystr", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dumps", "treespec_loads",
    "treespec_pprint",
]  # fmt: skip

IsLeaf = Callable[[PyTree], bool] | None
ToStrFunc = Callable[["TreeSpec", list[str]], str]
MaybeFromStrFunc = Callable[[str], tuple[Any, Context, str] | None]
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


# -- descriptions -------------------------------------------------------------------------------------------------------------
class TreeSpec:
    """Structure of a tree without its leaves: the container's type and context, and a description of each child."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]):
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = 1 + sum([child.num_nodes for child in children_specs])
        self.num_leaves: int = sum([child.num_leaves for child in children_specs]) if type is not None else 1

    @property
    def context(self) -> Context:
        """Context that the container's ``flatten_fn`` returned beside the children."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The children's descriptions."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """The children's descriptions, in a list of their own."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """One child's description."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this describes a leaf."""
        return self.type is None

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        # Every line of a child stands two further in than its container.
        children = ",\n".join(map(repr, self._children)).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type == other.type and self._context == other._context and self._children == other._children

    def __hash__(self) -> int:
        return hash((self.type, json.dumps(self._context, default=repr), tuple(self._children)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_LeafSpec, ()) if self.is_leaf() else (TreeSpec, (self.type, self._context, self._children))

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The parts of ``tree`` that stand where this description has leaves.

        Raises:
            ValueError: ``tree`` does not begin as described.
        """
        subtrees: list[PyTree] = []
        self._flatten_up_to(tree, subtrees)
        return subtrees

    def _flatten_up_to(self, tree: PyTree, subtrees: list[PyTree]) -> None:
        if self.is_leaf():
            subtrees.append(tree)
            return
        node_type = _get_node_type(tree)
        both_dicts = self.type in STANDARD_DICT_TYPES and node_type in STANDARD_DICT_TYPES
        if node_type != self.type and not both_dicts:
            what = "Node type" if self.type in BUILTIN_TYPES else "Type"
            raise ValueError(f"{what} mismatch; expected {self.type}, but got {node_type}.")
        if both_dicts:
            children = self._children_of_dict(tree)
        else:
            node = _node_def(node_type)
            assert node is not None  # self.type was a container when this was made
            children, context = node.flatten_fn(tree)
            if len(children) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
            if self.type is not deque and context != self._context:  # how long a deque may become does not matter
                if self.type not in BUILTIN_TYPES:
                    raise ValueError(f"Node context mismatch for custom node type {self.type}.")
                raise ValueError(f"Node context mismatch for node type {self.type}; expected {self._context!r}, but got {context!r}.")
        for spec, child in zip(self._children, children, strict=True):
            spec._flatten_up_to(child, subtrees)

    def _keys(self) -> list[Any]:
        """The keys of a described dict."""
        return self._context[1] if self.type is defaultdict else self._context

    def _children_of_dict(self, tree: dict[Any, Any]) -> list[Any]:
        """The values of ``tree``, in this description's order of keys."""
        keys = self._keys()
        if len(tree) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(tree)}.")
        if set(keys) != set(tree):
            missing, extra = set(keys) - set(tree), set(tree) - set(keys)
            raise ValueError(
                "Node keys mismatch"
                + (f"; missing key(s): {missing}" if missing else "")
                + (f"; extra key(s): {extra}" if extra else "")
                + "."
            )
        return [tree[key] for key in keys]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree of this description with these leaves.

        Raises:
            ValueError: not as many leaves as described.
        """
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
                f"{self.num_leaves} items ({self})."
            )
        return self._unflatten(iter(leaves))

    def _unflatten(self, leaves: Iterator[Any]) -> PyTree:
        if self.type is None:
            return next(leaves)
        node = SUPPORTED_NODES[self.type]
        return node.unflatten_fn([child._unflatten(leaves) for child in self._children], self._context)


PyTreeSpec = TreeSpec


class _LeafType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(TreeSpec, metaclass=_LeafType):
    """The description of a leaf. Programs ask ``spec.is_leaf()`` today."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LeafSpec = LeafSpec
_LEAF_SPEC = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The description of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The description of a tuple of what is described."""
    children = list(iterable)
    if any(not isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The description of a dict of what is described."""
    children = dict(mapping, **kwargs)
    if any(not isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children}.")
    return TreeSpec(dict, list(children), list(children.values()))


def _is_pytreespec_instance(obj: Any) -> bool:
    return isinstance(obj, TreeSpec)


def _check_spec(treespec: Any) -> None:
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")


def _is_constant_holder(spec: TreeSpec) -> bool:
    return isinstance(spec._context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    """The constant that a description holds."""
    if not _is_constant_holder(spec):
        raise AssertionError("spec does not correspond to a registered constant pytree")
    return tree_unflatten([], spec)


# -- taking apart and putting together ------------------------------------------------------------------------------------------
def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``tree`` is a leaf: of no registered type, or one that ``is_leaf`` takes for a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


_is_leaf = tree_is_leaf


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """A tree's leaves and its description.

    Args:
        is_leaf: asked of every part first: where it says True, the part is a leaf whatever it is.
    Example:
        >>> from flambeau.utils import _pytree
        >>> _pytree.tree_flatten({"a": [1, 2], "b": 3})
        ([1, 2, 3], TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,
            *]),
          *]))
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a description with these leaves.

    Raises:
        TypeError: ``treespec`` is no description.
        ValueError: not as many leaves as described.
    """
    _check_spec(treespec)
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """A tree's leaves, one by one."""
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """A tree's leaves."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """A tree's description."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of the arguments of a call."""
    leaves = [leaf for arg in args for leaf in tree_iter(arg)]
    return leaves + [leaf for arg in kwargs.values() for leaf in tree_iter(arg)]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """A tree like ``tree`` whose leaves are ``func`` of its leaves.

    Args:
        rests: further trees that begin as ``tree`` does: ``func`` gets what stands in the same place.
        is_leaf: what else of ``tree`` is a leaf.
    Raises:
        ValueError: one of ``rests`` has another structure.
    Example:
        >>> from flambeau.utils import _pytree
        >>> _pytree.tree_map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
        {'a': 11, 'b': (22,)}
    """
    leaves, treespec = tree_flatten(tree, is_leaf)
    return treespec.unflatten(list(map(func, leaves, *(treespec.flatten_up_to(rest) for rest in rests))))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call ``func`` of each leaf for what it does; returns ``tree`` itself."""
    leaves, treespec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *(treespec.flatten_up_to(rest) for rest in rests)), maxlen=0)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorator: a function of what is of these types, or of what a predicate takes; anything else is left as it is.

    Raises:
        TypeError: neither types nor something to call.
    """
    kinds = type_or_types_or_pred
    if isinstance(kinds, (type, types.UnionType)) or (isinstance(kinds, tuple) and all(isinstance(kind, type) for kind in kinds)):

        def takes(value: Any) -> bool:
            return isinstance(value, kinds)
    elif callable(kinds):
        takes = kinds
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def wrapped(value: Any) -> Any:
            return func(value) if takes(value) else value

        return wrapped

    return decorate


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """:func:`tree_map` of the leaves of some types, or that a predicate takes; the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """:func:`tree_map_` of the leaves of some types, or that a predicate takes."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for every leaf of some types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf of some types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


# -- with paths ---------------------------------------------------------------------------------------------------------------
def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """A tree's leaves, each with the path to it, and its description.

    Raises:
        ValueError: a container that was registered without ``flatten_with_keys_fn``.
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """A tree's leaves, each with the path to it."""
    return list(_generate_key_paths((), tree, is_leaf))


def _generate_key_paths(key_path: KeyPath, tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        yield key_path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _generate_key_paths((*key_path, key), child, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """:func:`tree_map` with ``func(path, leaf, ...)``."""
    keyed_leaves, treespec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = zip(*keyed_leaves, strict=True) if keyed_leaves else ((), ())
    return treespec.unflatten([func(*values) for values in zip(paths, leaves, *map(treespec.flatten_up_to, rests), strict=True)])


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """One leaf of ``tree`` for each leaf of the description, repeated where a leaf stands for a container; None where they do not fit."""
    _check_spec(treespec)
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    node_type = _get_node_type(tree)
    both_dicts = node_type in STANDARD_DICT_TYPES and treespec.type in STANDARD_DICT_TYPES
    if treespec.is_leaf() or (node_type != treespec.type and not both_dicts):
        return None
    children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
    if both_dicts:
        fits = set(tree) == set(treespec._keys())
    else:
        fits = len(children) == treespec.num_children and (node_type is deque or context == treespec._context)
    if not fits:
        return None
    leaves: list[Any] = []
    for child, spec in zip(children, treespec._children, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        leaves += part
    return leaves


# -- descriptions as text -----------------------------------------------------------------------------------------------------
class EnumEncoder(json.JSONEncoder):
    """JSON with members of enumerations."""

    def default(self, o: object) -> Any:
        """A member of an enumeration by its name."""
        if isinstance(o, enum.Enum):
            cls = type(o)
            return {"__enum__": True, "fqn": f"{cls.__module__}:{cls.__qualname__}", "name": o.name}
        return super().default(o)


def enum_object_hook(obj: dict[str, Any]) -> enum.Enum | dict[str, Any]:
    """The member of an enumeration that :class:`EnumEncoder` wrote."""
    if "__enum__" not in obj:
        return obj
    module, _, qualname = obj["fqn"].partition(":")
    cls: Any = importlib.import_module(module)
    for name in qualname.split("."):
        cls = getattr(cls, name)
    return cls[obj["name"]]


def _treespec_to_json(treespec: TreeSpec) -> dict[str, Any]:
    if treespec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    registered = SUPPORTED_SERIALIZED_TYPES.get(treespec.type)
    if registered is None:
        raise NotImplementedError(f"Serializing {treespec.type} in pytree is not registered.")
    if registered.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {treespec.type} found. Please update your _register_pytree_node call with a "
            "`serialized_type_name` kwarg."
        )
    if registered.to_dumpable_context is not None:
        context = registered.to_dumpable_context(treespec._context)
    else:
        try:
            context = json.dumps(treespec._context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer using "
                "_register_pytree_node."
            ) from error
    children = [_treespec_to_json(child) for child in treespec._children]
    return {"type": registered.serialized_type_name, "context": context, "children_spec": children}


def _json_to_treespec(json_schema: dict[str, Any]) -> TreeSpec:
    if json_schema["type"] is None and json_schema["context"] is None and not json_schema["children_spec"]:
        return _LEAF_SPEC
    name = json_schema["type"]
    if name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    cls = SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    registered = SUPPORTED_SERIALIZED_TYPES[cls]
    context = json_schema["context"]
    if registered.from_dumpable_context is None:
        context = json.loads(context, object_hook=enum_object_hook)
    else:
        context = registered.from_dumpable_context(context)
    return TreeSpec(cls, context, [_json_to_treespec(child) for child in json_schema["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A description as JSON.

    Raises:
        TypeError: no description, or a context that JSON cannot hold.
        NotImplementedError: a container without ``serialized_type_name``.
        ValueError: a protocol other than 1.
    """
    _check_spec(treespec)
    number = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(number)
    return json.dumps([number, _treespec_to_json(treespec)], cls=EnumEncoder)


def treespec_loads(serialized: str) -> TreeSpec:
    """The description that :func:`treespec_dumps` wrote.

    Raises:
        NotImplementedError: a name of a container that nobody registered.
        ValueError: a protocol other than 1.
    """
    protocol, schema = json.loads(serialized)
    _check_protocol(protocol)
    return _json_to_treespec(schema)


def _check_protocol(protocol: int) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL}]")


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads


class _Star:
    def __repr__(self) -> str:
        return "*"


_asterisk = _Star()


def treespec_pprint(treespec: TreeSpec) -> str:
    """The described tree with stars for leaves."""
    return repr(tree_unflatten([_asterisk] * treespec.num_leaves, treespec))
