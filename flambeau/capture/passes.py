"""Passes over graphs: ``Graph -> Graph``, each a few lines over nodes and values.

They keep what can be observed: outputs, writes to memory from outside, and 'call' nodes in their order.
"""

from __future__ import annotations

from typing import Any

from .graph import Graph, Node, Value, replaced
from .interpret import function_of

__all__ = ["folded", "root_of", "simplified", "without_copies", "without_dead", "without_twins"]

RANDOM = frozenset(("rrelu_with_noise",))  # operations that draw numbers by themselves
_LARGEST = 1 << 16  # bytes: a larger constant is computed at each run rather than kept


def root_of(value: Value) -> Value:
    """The value whose memory ``value`` shows: through views, and through writes to what was there before them."""
    while value.node is not None:
        node = value.node
        if node.kind == "view":
            value = node.args[0]
        elif node.kind == "write":
            value = node.args[2]
        elif node.kind == "call" and value in node.outs[len(node.outs) - len(node.writes) :]:
            value = node.writes[node.outs.index(value) - len(node.outs) + len(node.writes)]
        else:
            return value
    return value


def _written(graph: Graph) -> set[Value]:
    """Roots of memory that some node writes to."""
    return {root_of(value) for node in graph.nodes for value in node.overwritten}


def without_dead(graph: Graph) -> Graph:
    """Without nodes whose results nobody needs. Writes to memory that is gone afterwards are among them."""
    needed = {*graph.outputs, *[after for _, after in graph.writes]}
    kept = []
    for node in reversed(graph.nodes):
        if node.is_pinned or any(out in needed for out in node.outs):
            needed.update(node.inputs())
            needed.update(node.writes)
            kept.append(node)
    made = graph.with_nodes(kept[::-1])
    needed |= {value for pair in graph.writes for value in pair}
    made.held = [value for value in graph.held if value in needed]
    return made


def _key_of(arg: Any) -> Any:
    if arg.__class__ is list or arg.__class__ is tuple:
        return (arg.__class__, *[_key_of(each) for each in arg])
    if isinstance(arg, float) and arg != arg:
        return (float, "nan")
    try:
        hash(arg)
    except TypeError:
        return id(arg)
    return (arg.__class__, arg, str(arg)) if isinstance(arg, float | complex) else (arg.__class__, arg)  # 0.0 and -0.0


def without_twins(graph: Graph) -> Graph:
    """Equal operations on equal arguments once, but for results that are written to or that come out."""
    shared = _written(graph) | {root_of(value) for value in graph.outputs}
    seen: dict[Any, Node] = {}
    instead: dict[Value, Value] = {}

    def now(value: Value) -> Value:
        return instead.get(value, value)

    kept = []
    for node in graph.nodes:
        node.take(now)
        if node.kind not in ("op", "view") or (node.kind == "op" and _keeps_alone(node, shared)):
            kept.append(node)
            continue
        outs = node.outs[0].dtype if node.kind == "view" else None
        key = (node.kind, node.op, tuple(map(_key_of, node.args)), node.dtypes, outs)
        twin = seen.setdefault(key, node)
        if twin is node:
            kept.append(node)
        else:
            instead.update(zip(node.outs, twin.outs, strict=True))
    return graph.with_nodes(kept, now)


def _keeps_alone(node: Node, shared: set[Value]) -> bool:
    return node.op.name in RANDOM or any(out in shared for out in node.outs)


def without_copies(graph: Graph) -> Graph:
    """Without copies of results that nothing else shows or writes to."""
    written = _written(graph)
    shows: dict[Value, int] = {}
    for value in {value for node in graph.nodes for value in node.inputs()} | set(graph.outputs):
        root = root_of(value)
        shows[root] = shows.get(root, 0) + 1
    users = graph.users()
    instead: dict[Value, Value] = {}
    outputs = {root_of(value) for value in graph.outputs}

    def now(value: Value) -> Value:
        return instead.get(value, value)

    kept = []
    for node in graph.nodes:
        node.take(now)
        if node.kind == "op" and node.op.name == "clone" and node.args[0].__class__ is Value:
            source, made = node.args[0], node.outs[0]
            alike = source.strides == made.strides and source.dtype == made.dtype
            owned = source.node is not None and source.node.kind == "op" and source not in written and source not in outputs
            only = shows.get(source, 0) <= 1 and len(users.get(source, ())) <= 1
            if alike and owned and (only or (made not in written and made not in outputs)):
                instead[made] = source
                for roots in (written, outputs):  # what is true of the copy is true of its source from here on
                    if made in roots:
                        roots.add(source)
                shows[source] += shows.get(made, 1) - 1
                users[source] = [user for user in users[source] if user is not node] + list(users.get(made, ()))
                continue
        kept.append(node)
    return graph.with_nodes(kept, now)


def folded(graph: Graph) -> Graph:
    """With what follows from constants computed now, where it is small and nobody writes to it."""
    stays = _written(graph) | {root_of(value) for value in graph.outputs}
    instead: dict[Value, Value] = {}
    held = list(graph.held)

    def now(value: Value) -> Value:
        return instead.get(value, value)

    kept = []
    for node in graph.nodes:
        node.take(now)
        made = _constants(node, stays) if node.kind == "op" else None
        if made is None:
            kept.append(node)
        else:
            instead.update(zip(node.outs, made, strict=True))
            held += made
    made_graph = graph.with_nodes(kept, now)
    made_graph.held = held
    return made_graph


def _constants(node: Node, stays: set[Value]) -> list[Value] | None:
    """The results of a node all of whose operands are constants, as constants."""
    given = list(node.inputs())
    if not given or not all(value.fixed for value in given) or node.op.name in RANDOM:
        return None
    if any(out in stays or out.nbytes > _LARGEST for out in node.outs):
        return None
    if node.op.name == "clone" and given[0].strides == node.outs[0].strides:
        return given
    made = function_of(node)(*[replaced(arg, lambda value: value.array) for arg in node.args])
    made = made if made.__class__ in (list, tuple) else [made]
    constants = [Value.like(array, "held", name="constant") for array in made]
    for value in constants:
        value.fixed = True
    return constants


def simplified(graph: Graph) -> Graph:
    """All passes that every way of running wants."""
    graph = graph.copy()
    for step in (without_dead, folded, without_twins, without_copies, without_dead):
        graph = step(graph)
    return graph
