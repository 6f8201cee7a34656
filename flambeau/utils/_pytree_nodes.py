"""Types of containers of trees, with their functions that take them apart: the registry of ``_pytree``."""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..core.calls.return_types import NamedResult
from ..core.shape import Size

__all__ = [
    "BUILTIN_TYPES", "CONSTANT_NODES", "NO_SERIALIZED_TYPE_NAME_FOUND", "SERIALIZED_TYPE_TO_PYTHON_TYPE", "STANDARD_DICT_TYPES",
    "SUPPORTED_NODES", "SUPPORTED_SERIALIZED_TYPES", "ConstantNode", "Context", "DumpableContext", "FlattenFn", "FlattenWithKeysFn",
    "FromDumpableContextFn", "GetAttrKey", "KeyEntry", "KeyPath", "MappingKey", "NodeDef", "PyTree", "SequenceKey", "ToDumpableContextFn",
    "UnflattenFn", "_check_fields", "_defaultdict_deserialize", "_defaultdict_flatten", "_defaultdict_flatten_with_keys",
    "_defaultdict_serialize", "_defaultdict_unflatten", "_deque_flatten", "_deque_flatten_with_keys", "_deque_unflatten",
    "_deregister_pytree_node", "_dict_flatten", "_dict_flatten_with_keys", "_dict_unflatten", "_get_node_type", "_is_namedtuple_instance",
    "_list_flatten", "_list_flatten_with_keys", "_list_unflatten", "_namedtuple_deserialize", "_namedtuple_flatten",
    "_namedtuple_flatten_with_keys", "_namedtuple_serialize", "_namedtuple_unflatten", "_node_def", "_node_of", "_odict_unflatten",
    "_ordereddict_flatten", "_ordereddict_flatten_with_keys", "_ordereddict_unflatten", "_private_register_pytree_node",
    "_register_namedtuple", "_register_pytree_node", "_register_sequence", "_SerializeNodeDef", "_tuple_flatten",
    "_tuple_flatten_with_keys", "_tuple_unflatten", "is_constant_class", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance", "key_get", "keystr", "register_constant", "register_dataclass",
    "register_pytree_node",
]  # fmt: skip

K = TypeVar("K")
PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable[Any], Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
FlattenWithKeysFn = Callable[[PyTree], tuple[list[tuple["KeyEntry", Any]], Any]]

NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES: frozenset[Any] = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})


# -- steps of a path ----------------------------------------------------------------------------------------------------------
class KeyEntry(Protocol):
    """One step from a container to a child of it."""

    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __str__(self) -> str: ...
    def get(self, parent: Any) -> Any:
        """The child of ``parent`` at this step."""


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The step to an element of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """``sequence[idx]``."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey(Generic[K]):
    """The step to a value of a mapping."""

    key: K

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """``mapping[key]``."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """``obj.name``."""
        return getattr(obj, self.name)


KeyPath = tuple[KeyEntry, ...]


def keystr(kp: KeyPath) -> str:
    """A path as source: ``"['a'][0].x"``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """The part of ``obj`` at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- what is a container ------------------------------------------------------------------------------------------------------
class NodeDef(NamedTuple):
    """Functions that take instances of a type apart and put them together."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()


def is_namedtuple(obj: Any) -> bool:
    """Whether ``obj`` is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls: type) -> bool:
    """Whether ``cls`` is a class of named tuples."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and all(type(field) is str for field in cls._fields)  # type: ignore[attr-defined]
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether ``obj`` is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether ``obj`` is a result like ``torch.return_types.max`` or ``sys.version_info``, or a class of such results."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether ``cls`` is a class like ``torch.return_types.max``, or one that Python itself fills."""
    if not isinstance(cls, type):
        return False
    if issubclass(cls, NamedResult):
        return cls is not NamedResult
    counts = (getattr(cls, name, None) for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    return cls.__bases__ == (tuple,) and all(isinstance(count, int) for count in counts)


def is_structseq_instance(obj: object) -> bool:
    """Whether ``obj`` is a result like ``torch.return_types.max`` or ``sys.version_info``."""
    return is_structseq_class(type(obj))


def _is_namedtuple_instance(tree: Any) -> bool:
    return is_namedtuple_instance(tree)


def _get_node_type(tree: Any) -> Any:
    """The type under which ``tree`` would be registered."""
    node_type = type(tree)
    return namedtuple if is_namedtuple_class(node_type) else node_type


def _node_def(node_type: Any) -> NodeDef | None:
    """Functions for a type's instances; None for leaves."""
    node = SUPPORTED_NODES.get(node_type)
    # The classes of results are made when operations are first called.
    if node is None and isinstance(node_type, type) and issubclass(node_type, NamedResult) and node_type is not NamedResult:
        _register_sequence(node_type, lambda values, context: node_type(list(values)))
        node = SUPPORTED_NODES[node_type]
    return node


def _node_of(tree: Any) -> NodeDef | None:
    """Functions for the container ``tree``; None for leaves."""
    kind = type(tree)
    if kind is not tuple and issubclass(kind, tuple):
        return _node_def(_get_node_type(tree))
    return SUPPORTED_NODES.get(kind)


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Make ``cls`` a container.

    Args:
        cls: the type; instances of subclasses stay leaves.
        flatten_fn: from an instance to its children and a context, anything that can be compared.
        unflatten_fn: from children and context to an instance.
        serialized_type_name: the type's name in :func:`treespec_dumps`.
        to_dumpable_context, from_dumpable_context: a context as JSON can hold it, and back; both or none.
        flatten_with_keys_fn: as ``flatten_fn``, with each child's step beside it.
    Raises:
        ValueError: ``cls`` is registered already, or one of the two conversions is missing.
    Source: torch.utils._pytree.register_pytree_node.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    node = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _register(node, serialized_type_name, to_dumpable_context, from_dumpable_context)


def _register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Callable[..., str] | None = None,
    maybe_from_str_fn: Callable[[str], Any] | None = None,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """The older form of :func:`register_pytree_node`; functions to and from text are ignored with a warning."""
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and `from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    node = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _register(node, serialized_type_name, to_dumpable_context, from_dumpable_context)


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """The form that registers a type anew, where it is registered already."""
    node = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _register(node, serialized_type_name, to_dumpable_context, from_dumpable_context)


def _register(
    node: NodeDef, name: str | None, to_dumpable: ToDumpableContextFn | None = None, from_dumpable: FromDumpableContextFn | None = None
) -> None:
    if (to_dumpable is None) ^ (from_dumpable is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {node.type} must be None or registered.")
    name = NO_SERIALIZED_TYPE_NAME_FOUND if name is None else name
    SUPPORTED_NODES[node.type] = node
    SUPPORTED_SERIALIZED_TYPES[node.type] = _SerializeNodeDef(node.type, name, to_dumpable, from_dumpable)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = node.type


def _deregister_pytree_node(cls: type[Any]) -> None:
    """Make ``cls`` a leaf again."""
    del SUPPORTED_NODES[cls]
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(name, None)
    CONSTANT_NODES.discard(cls)


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a data class a container whose children are its fields; fields that are None belong to the context.

    Args:
        cls: a data class, or any class that is made of keyword arguments, with ``field_names`` said.
        field_names: the children; all fields that ``__init__`` takes when None.
        drop_field_names: fields to be forgotten: they get their defaults again.
        serialized_type_name: the type's name in :func:`treespec_dumps`.
    Raises:
        ValueError: names that do not match the data class's fields.
    """
    dropped = [] if drop_field_names is None else drop_field_names
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError(f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass.")
    elif field_names is None:
        field_names = [field.name for field in dataclasses.fields(cls) if field.init and field.name not in dropped]
    else:
        _check_fields(cls, field_names, dropped)
    children = [name for name in field_names if name not in dropped]

    def flatten(obj: Any, key: Callable[[str], Any] | None = None) -> tuple[list[Any], Any]:
        present = [name for name in children if getattr(obj, name) is not None]
        absent = [name for name in children if getattr(obj, name) is None]
        values = [getattr(obj, name) if key is None else (key(name), getattr(obj, name)) for name in present]
        return values, [present, absent]

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    _register(NodeDef(cls, flatten, unflatten, lambda obj: flatten(obj, GetAttrKey)), serialized_type_name)


def _check_fields(cls: type[Any], field_names: list[str], dropped: list[str]) -> None:
    known = {field.name for field in dataclasses.fields(cls) if field.init}
    unknown = set(field_names) - known
    if missing := known - set(field_names) - set(dropped):
        raise ValueError(
            f"field_names does not include all dataclass fields.\nMissing fields in `field_names`: {missing}. If you want to include these "
            "fields in the pytree, please add them to `field_names`, otherwise please add them to `drop_field_names`.\n"
        )
    if unknown:
        raise ValueError(f"field_names does not include all dataclass fields.\nUnknown fields in `field_names`: {unknown}.\n")


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a constant: the object itself."""

    value: Any


def register_constant(cls: type[Any]) -> None:
    """Make instances of ``cls`` containers without children, compared by ``==``.

    Raises:
        TypeError: ``cls`` has no ``__eq__`` or ``__hash__`` of its own.
    """
    for method in ("__eq__", "__hash__"):
        if getattr(cls, method) in (getattr(object, method), None):
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{method}` implementation.")

    def flatten(obj: Any) -> tuple[list[Any], Context]:
        return [], ConstantNode(obj)

    _register(NodeDef(cls, flatten, lambda values, context: context.value, flatten), None)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    """Whether ``cls`` was given to :func:`register_constant`."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# -- the containers of Python and of PyTorch ------------------------------------------------------------------------------------
def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    return d, None


def _list_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return [(SequenceKey(position), value) for position, value in enumerate(d)], None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Context]:
    return list(d), None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


def _dict_flatten(d: Mapping[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


_ordereddict_flatten = _odict_flatten = _dict_flatten
_ordereddict_flatten_with_keys = _dict_flatten_with_keys


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


_odict_unflatten = _ordereddict_unflatten


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    values, keys = _dict_flatten(d)
    return values, [d.default_factory, keys]


def _defaultdict_flatten_with_keys(d: defaultdict[Any, Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    values, keys = _dict_flatten_with_keys(d)
    return values, [d.default_factory, keys]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    factory, keys = context
    return defaultdict(factory, _dict_unflatten(values, keys))


def _defaultdict_serialize(context: Context) -> DumpableContext:
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__, "dict_context": keys}


def _defaultdict_deserialize(dumpable_context: DumpableContext) -> Context:
    module = importlib.import_module(dumpable_context["default_factory_module"])
    return [getattr(module, dumpable_context["default_factory_name"]), dumpable_context["dict_context"]]


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque[Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _list_flatten_with_keys(d)[0], d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque[Any]:
    return deque(values, maxlen=context)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return [(GetAttrKey(field), value) for field, value in zip(d._fields, d, strict=True)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _namedtuple_serialize(context: Context) -> DumpableContext:
    registered = SUPPORTED_SERIALIZED_TYPES.get(context)
    if registered is None or registered.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a serializated_type_name. Please register "
            "using `_register_namedtuple`."
        )
    return registered.serialized_type_name


def _namedtuple_deserialize(dumpable_context: DumpableContext) -> Context:
    if dumpable_context not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumpable_context} because we couldn't find a serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Give a class of named tuples its name in :func:`treespec_dumps`."""
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def _register_sequence(cls: type[Any], unflatten: UnflattenFn) -> None:
    name = f"torch.return_types.{cls.__name__}" if issubclass(cls, NamedResult) else "torch.Size"
    _register(NodeDef(cls, _tuple_flatten, unflatten, _list_flatten_with_keys), name)


_OF_NAMED_TUPLES = NodeDef(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys)
_OF_DEFAULT_DICTS = NodeDef(defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys)
_register(NodeDef(tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys), "builtins.tuple")
_register(NodeDef(list, _list_flatten, _list_unflatten, _list_flatten_with_keys), "builtins.list")
_register(NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys), "builtins.dict")
_register(NodeDef(OrderedDict, _ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys), "collections.OrderedDict")
_register(NodeDef(deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys), "collections.deque")
_register(_OF_NAMED_TUPLES, "collections.namedtuple", _namedtuple_serialize, _namedtuple_deserialize)
_register(_OF_DEFAULT_DICTS, "collections.defaultdict", _defaultdict_serialize, _defaultdict_deserialize)
_register_sequence(Size, _tuple_unflatten)
