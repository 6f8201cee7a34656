"""Trees of containers (``torch.utils._pytree``) against PyTorch's: leaves, descriptions, paths, text and errors."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import pickle
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from flambeau.utils import _pytree

pytestmark = pytest.mark.oracle

Point = collections.namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Further(Point):
    __slots__ = ()


class OwnList(list):
    pass


class OwnTuple(tuple):
    pass


WORDS = collections.defaultdict(list, {"k": [1]})
LAST = collections.deque([1, 2], maxlen=3)
ORDERED = collections.OrderedDict(b=1, a=2)
MIXED = {"a": [1, (2, None)], "b": WORDS, "n": LAST, "o": ORDERED}
TREES = {
    "leaf": 3,
    "none": None,
    "empty": [[], {}, ()],
    "mixed": MIXED,
    "point": Point(1, [2]),
    "further": Further(1, 2),
    "own": [OwnList([1])],
    "version": (sys.version_info,),
    "enumeration": {Colour.RED: 1},
    "tuple key": {(1, 2): 1},
    "type key": {object: 1},
}


def shown(function: Callable[[], Any], library: str) -> str:
    """The result's ``repr``, or the error, with PyTorch's names in either library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function()
        except Exception as error:
            result = type(error).__name__, str(error)
    return repr(result).replace(library, "torch")


def same(oracle: ModuleType, function: Callable[[Any, Any], Any]) -> None:
    """``function(torch, torch.utils._pytree)`` gives the same in both."""
    theirs = pytorch("torch.utils._pytree")
    assert shown(lambda: function(flambeau, _pytree), "flambeau") == shown(lambda: function(oracle, theirs), "torch")


@pytest.mark.parametrize("name", TREES)
def test_trees_are_taken_apart_and_put_together(oracle, name):
    tree = TREES[name]
    same(oracle, lambda torch, p: p.tree_flatten(tree))
    same(oracle, lambda torch, p: p.tree_unflatten(*p.tree_flatten(tree)))
    same(oracle, lambda torch, p: p.tree_flatten_with_path(tree))
    same(oracle, lambda torch, p: [p.keystr(path) for path, leaf in p.tree_leaves_with_path(tree)])
    same(oracle, lambda torch, p: p.treespec_pprint(p.tree_structure(tree)))
    same(oracle, lambda torch, p: p.treespec_dumps(p.tree_structure(tree)))
    same(oracle, lambda torch, p: p.treespec_loads(p.treespec_dumps(p.tree_structure(tree))) == p.tree_structure(tree))
    same(oracle, lambda torch, p: pickle.loads(pickle.dumps(p.tree_structure(tree))) == copy.deepcopy(p.tree_structure(tree)))


@pytest.mark.parametrize("make", [lambda torch: torch.Size([2, 3]), lambda torch: torch.tensor([[1.0, 2.0]]).max(1)], ids=["Size", "max"])
def test_pytorchs_own_containers(oracle, make):
    same(oracle, lambda torch, p: p.tree_flatten_with_path(make(torch)))
    same(oracle, lambda torch, p: p.tree_map(lambda leaf: leaf, make(torch)))
    same(oracle, lambda torch, p: (p.is_structseq(make(torch)), p.is_namedtuple(make(torch)), p.is_structseq_class(type(make(torch)))))


@pytest.mark.parametrize(
    ("tree", "rest"),
    [
        ({"a": 1, "b": 2}, {"b": 10, "a": 20}),
        ([1, 2], [1]),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1, 2], [(1, 2), {"x": 1}]),
        (LAST, collections.deque([1, 2])),
        (LAST, [1, 2]),
        (WORDS, {"k": [1]}),
        ({"k": [1]}, WORDS),
        ([1], 5),
        (Point(1, 2), Further(1, 2)),
    ],
    ids=repr,
)
def test_trees_side_by_side(oracle, tree, rest):
    same(oracle, lambda torch, p: p.tree_map(lambda a, b: (a, b), tree, rest))
    same(oracle, lambda torch, p: p.tree_map_with_path(lambda path, a, b: (p.keystr(path), a, b), tree, rest))
    same(oracle, lambda torch, p: p._broadcast_to_and_flatten(rest, p.tree_structure(tree)))
    same(oracle, lambda torch, p: p.tree_structure(tree).flatten_up_to(rest))


def test_what_a_container_says_beside_its_children_counts(oracle):
    for rest in (collections.deque([1, 2]), collections.deque([1, 2], maxlen=5)):
        same(oracle, lambda torch, p, rest=rest: p.tree_structure(LAST).flatten_up_to(rest))


def test_named_tuples_need_named_tuples():
    with pytest.raises(ValueError, match="Node type mismatch"):
        _pytree.tree_map(lambda a, b: a, Point(1, 2), (1, 2))


@pytest.mark.parametrize("prefix", [1, [1], [1, 2], [1, [2]], {"a": 1}])
def test_a_tree_is_broadcast_to_a_description(oracle, prefix):
    same(oracle, lambda torch, p: p._broadcast_to_and_flatten(prefix, p.tree_structure([1, [2, 3]])))


@pytest.mark.parametrize(
    "kinds", [int, (int, float), int | float, lambda leaf: leaf == 1, 3], ids=["kind", "kinds", "union", "function", "none"]
)
def test_only_some_leaves(oracle, kinds):
    tree = [1, "a", (2.0, 3)]
    same(oracle, lambda torch, p: p.tree_map_only(kinds, lambda leaf: 2 * leaf, tree))
    same(oracle, lambda torch, p: p.tree_map_only_(kinds, lambda leaf: 2 * leaf, tree))
    same(oracle, lambda torch, p: p.map_only(kinds)(lambda leaf: 2 * leaf)(1))


@pytest.mark.parametrize(
    "function",
    [
        lambda torch, p: p.tree_leaves({"a": None, "b": [1, []]}, is_leaf=lambda part: isinstance(part, list)),
        lambda torch, p: p.tree_structure({"a": None, "b": [1, []]}, is_leaf=lambda part: part is None),
        lambda torch, p: p.tree_unflatten([1], p.tree_structure([1, 2])),
        lambda torch, p: p.tree_unflatten([1], [1, 2]),
        lambda torch, p: p.tree_unflatten(iter([1, 2]), p.tree_structure([1, 2])),
        lambda torch, p: (p.tree_all(bool, [1, 0]), p.tree_any(bool, [1, 0]), p.tree_all(bool, []), p.tree_any(bool, [])),
        lambda torch, p: (p.tree_all_only(int, bool, [1, ""]), p.tree_any_only(int, bool, [0, "a"])),
        lambda torch, p: p.key_get([1, {"a": 2}], (p.SequenceKey(1), p.MappingKey("a"))),
        lambda torch, p: p.keystr((p.GetAttrKey("u"), p.SequenceKey(1))),
        lambda torch, p: [p.tree_is_leaf(part) for part in (1, [1], None)] + [p.tree_is_leaf([1], is_leaf=lambda part: True)],
        lambda torch, p: p.arg_tree_leaves(1, [2], k={"a": 3}),
        lambda torch, p: p.treespec_dumps(p.tree_structure(1), protocol=2),
        lambda torch, p: p.treespec_loads("[7, {}]"),
        lambda torch, p: p.treespec_loads('[1, {"type": "nobody", "context": "null", "children_spec": []}]'),
        lambda torch, p: p.treespec_dumps(3),
        lambda torch, p: p.treespec_dict({"a": p.treespec_leaf()}, b=p.treespec_tuple([p.treespec_leaf()])),
        lambda torch, p: p.treespec_dict([("a", 3)]),
        lambda torch, p: p.treespec_tuple([3]),
        lambda torch, p: [p.is_namedtuple(part) for part in (Point, Point(1, 2), (1, 2), 3)],
        lambda torch, p: [p.is_namedtuple_class(part) for part in (Point, Point(1, 2))],
        lambda torch, p: [p.is_structseq(part) for part in (sys.version_info, (1, 2), tuple)],
        lambda torch, p: (p.SequenceKey(1) == p.SequenceKey(1), str(p.MappingKey("a")), str(p.GetAttrKey("b")), p.SequenceKey(0)),
        lambda torch, p: (p.TreeSpec(tuple, None, [p.LeafSpec()]) == p.tree_structure((1,)), p.tree_structure(1) != 3),
        lambda torch, p: p.register_pytree_node(list, lambda part: (part, None), lambda values, context: values),
        lambda torch, p: p.register_pytree_node(OwnTuple, list, list, to_dumpable_context=lambda context: context),
        lambda torch, p: p.register_dataclass(int),
        lambda torch, p: p.register_constant(OwnList),
        lambda torch, p: p.register_constant(Colour) or p.tree_flatten([Colour.RED, 1])[0],
        lambda torch, p: (
            p.is_constant_class(Colour),
            p._retrieve_constant(p.tree_structure(Colour.RED)),
            p._deregister_pytree_node(Colour),
        ),
        lambda torch, p: p._deregister_pytree_node(Colour),
    ],
)
def test_the_rest(oracle, function):
    same(oracle, function)


def test_what_a_description_tells(oracle):
    def told(torch, p):
        spec, leaf = p.tree_structure(MIXED), p.treespec_leaf()
        counts = spec.num_nodes, spec.num_leaves, spec.num_children, leaf.num_nodes, leaf.num_leaves, leaf.num_children
        parts = spec.type, spec.context, spec.child(0), spec.children(), leaf.type, leaf.context, leaf.children()
        kinds = [isinstance(part, kind) for part in (spec, leaf, 3) for kind in (p.TreeSpec, p.LeafSpec)]
        return counts, parts, kinds, spec.is_leaf(), leaf.is_leaf(), hash(spec) == hash(p.tree_structure(MIXED)), leaf == p.LeafSpec()

    same(oracle, told)


def test_own_containers(oracle):
    """Registered, with and without a name and keys, and as data classes."""

    def told(torch, p):
        class Pair:
            def __init__(self, x: Any, y: Any) -> None:
                self.x, self.y = x, y

            def __repr__(self) -> str:
                return f"Pair({self.x}, {self.y})"

        class Named(Pair):
            pass

        @dataclasses.dataclass
        class Record:
            a: int
            b: object = 3
            c: object = None

        @dataclasses.dataclass
        class Partial:
            a: int
            b: object = 3

        flatten = lambda pair: ([pair.x], pair.y)  # noqa: E731
        p.register_pytree_node(Pair, flatten, lambda values, y: Pair(*values, y))
        p.register_pytree_node(
            Named,
            flatten,
            lambda values, y: Named(*values, y),
            serialized_type_name="tests.Named",
            flatten_with_keys_fn=lambda pair: ([(p.GetAttrKey("x"), pair.x)], pair.y),
        )
        p.register_dataclass(Record)
        p.register_dataclass(Partial, field_names=["a"], drop_field_names=["b"])
        spec = p.tree_structure([Named(1, 2)])
        seen = [
            p.tree_map(lambda leaf: 5 * leaf, [tree]) for tree in (Pair(1, 2), Named(1, 2), Record(1, 2), Record(1, 2, 3), Partial(1, 2))
        ]
        seen += [
            spec,
            p.treespec_loads(p.treespec_dumps(spec)) == spec,
            p.treespec_dumps(spec),
            p.tree_flatten_with_path([Named(1, 2), Record(1)]),
        ]
        for question in (lambda: p.treespec_dumps(p.tree_structure(Pair(1, 2))), lambda: p.tree_flatten_with_path([Pair(1, 2)])):
            try:
                question()
            except Exception as error:
                seen.append(str(error))
        try:
            p.register_dataclass(Partial, field_names=["a"])
        except ValueError as error:
            seen.append(str(error))
        p._deregister_pytree_node(Pair)
        return seen, p.tree_is_leaf(Pair(1, 2))

    same(oracle, told)


def test_names_of_named_tuples(oracle):
    def told(torch, p):
        Named = collections.namedtuple("Named", "x")
        p._register_namedtuple(Named, serialized_type_name="tests.NamedTuple")
        spec = p.tree_structure(Named(1))
        return p.treespec_dumps(spec), p.treespec_loads(p.treespec_dumps(spec)) == spec

    same(oracle, told)


def test_every_public_name(oracle):
    assert set(pytorch("torch.utils._pytree").__all__) == set(_pytree.__all__)
