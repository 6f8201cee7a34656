"""Random trees of containers: ``torch.utils._pytree`` takes them apart, describes and rebuilds them as PyTorch's does."""

from __future__ import annotations

import collections
import copy
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from oracle import pytorch

from flambeau.utils import _pytree as ours

Pair = collections.namedtuple("Pair", "left right")
leaves = st.none() | st.integers(0, 9) | st.sampled_from(["a", 1.5, b"b", frozenset()])
keys = st.sampled_from(["x", "y", "z", 0, 1, (1, 2), None])


class Own:
    """A container of this test's, registered with both."""

    def __init__(self, parts: Any, name: str):
        self.parts, self.name = parts, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and (self.parts, self.name) == (other.parts, other.name)

    def __repr__(self) -> str:
        return f"Own({self.parts!r}, {self.name!r})"


def containers(trees: Any) -> Any:
    dicts = st.dictionaries(keys, trees, max_size=3)
    lists = st.lists(trees, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        dicts.map(collections.OrderedDict),
        dicts.map(lambda d: collections.defaultdict(list, d)),
        st.tuples(lists, st.sampled_from([None, 3])).map(lambda given: collections.deque(*given)),
        st.tuples(trees, trees).map(lambda given: Pair(*given)),
        st.tuples(lists, st.sampled_from("pq")).map(lambda given: Own(*given)),
    )


trees = st.recursive(leaves, containers, max_leaves=8)


def register(library: Any) -> None:
    library.register_pytree_node(
        Own,
        lambda own: (own.parts, own.name),
        lambda parts, name: Own(list(parts), name),
        serialized_type_name="tests.Own",
        flatten_with_keys_fn=lambda own: ([(library.SequenceKey(i), part) for i, part in enumerate(own.parts)], own.name),
    )


@pytest.fixture(scope="module")
def theirs():
    oracle = pytorch("torch.utils._pytree")
    for library in (ours, oracle):
        register(library)
    yield oracle
    for library in (ours, oracle):
        library._deregister_pytree_node(Own)


def told(function: Any) -> str:
    try:
        text = repr(function())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return text.replace("flambeau", "torch")


pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore::FutureWarning")]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(tree=trees)
def test_a_tree_and_its_description(theirs, tree):
    for library in (ours, theirs):
        found, spec = library.tree_flatten(tree)
        assert library.tree_unflatten(found, spec) == tree
        assert list(library.tree_iter(tree)) == found == library.tree_leaves(tree)
        assert (spec.num_leaves, library.tree_structure(tree)) == (len(found), spec)
        assert copy.deepcopy(spec) == spec == pickle.loads(pickle.dumps(spec))
    for question in (
        lambda p: p.tree_flatten(tree),
        lambda p: (p.tree_structure(tree).num_nodes, p.tree_structure(tree).num_children, p.tree_is_leaf(tree)),
        lambda p: [(p.keystr(path), leaf) for path, leaf in p.tree_leaves_with_path(tree)],
        lambda p: [[p.key_get(tree, path), path] for path, _ in p.tree_flatten_with_path(tree)[0]],
        lambda p: p.treespec_dumps(p.tree_structure(tree)),
        lambda p: p.treespec_loads(p.treespec_dumps(p.tree_structure(tree))) == p.tree_structure(tree),
        lambda p: p.tree_map(lambda leaf: [leaf], tree),
        lambda p: p.tree_map_only(int, lambda leaf: -leaf, tree),
        lambda p: p.tree_map_only((str, float), lambda leaf: leaf * 2, tree),
        lambda p: (p.tree_any(bool, tree), p.tree_all(bool, tree), p.tree_any_only(int, bool, tree), p.tree_all_only(int, bool, tree)),
        lambda p: p.tree_leaves(tree, is_leaf=lambda part: isinstance(part, (tuple, Own))),
        lambda p: p.tree_map_with_path(lambda path, leaf: (p.keystr(path), leaf), tree),
        lambda p: p.treespec_pprint(p.tree_structure(tree)),
    ):
        assert told(lambda question=question: question(ours)) == told(lambda question=question: question(theirs))


@quick
@given(tree=trees, other=trees, values=st.lists(leaves, max_size=6))
def test_two_trees_and_leaves_that_do_not_fit(theirs, tree, other, values):
    for question in (
        lambda p: p.tree_map(lambda a, b: (a, b), tree, other),
        lambda p: p.tree_structure(tree) == p.tree_structure(other),
        lambda p: p.tree_structure(tree).flatten_up_to(other),
        lambda p: p.tree_structure(tree).unflatten(values),
        lambda p: p._broadcast_to_and_flatten(tree, p.tree_structure(other)),
    ):
        assert told(lambda question=question: question(ours)) == told(lambda question=question: question(theirs))
