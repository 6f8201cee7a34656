"""``torch.cond`` and ``torch.while_loop``: branches and loops that graphs can have.

Called as they are, they are Python's ``if`` and ``while``. While a graph is made, each function becomes a graph of its own, and the call a
node; what the functions use from around them becomes a further operand. Source: torch._higher_order_ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..aten.namespaces import ops
from ..aten.overloads import OperatorBase
from ..core.checks import SymBool
from ..core.state import thread
from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten, tree_unflatten
from .graph_module import GraphModule

__all__ = ["HigherOrderOperator", "cond", "cond_op", "while_loop", "while_loop_op"]


class HigherOrderOperator(OperatorBase):
    """An operation whose arguments are graphs. Source: torch._ops.HigherOrderOperator.

    Args:
        name: its name in ``torch.ops.higher_order``. run: the function that a call runs.
    Example:
        >>> torch.cond(True, lambda: 1, lambda: 2), str(torch.ops.higher_order.cond)
        (1, 'cond')
    """

    is_higher_order = True

    def __init__(self, name: str, run: Callable[..., Any]):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "torch.ops.higher_order"
        self._run = run

    def name(self) -> str:
        """The name."""
        return self.__name__

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)

    def __repr__(self) -> str:
        return f"<HigherOrderOperator {self.__name__}>"

    def __str__(self) -> str:
        return self.__name__

    def __deepcopy__(self, memo: Any = None) -> HigherOrderOperator:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        return _named, (self.__name__,)


def _named(name: str) -> HigherOrderOperator:
    return OPERATORS[name]


def _run_cond(pred: Any, true_graph: Callable[..., Any], false_graph: Callable[..., Any], operands: Any = ()) -> Any:
    mode = _recording()
    if mode is not None and not isinstance(pred, bool):
        return _recorded_cond(mode, pred, true_graph, false_graph, operands)
    return (true_graph if pred else false_graph)(*operands)


def _run_while(cond_graph: Callable[..., Any], body_graph: Callable[..., Any], carried: Any, additional: Any = ()) -> Any:
    carried = tuple(carried)
    mode = _recording()
    if mode is not None:
        return _recorded_while(
            mode,
            lambda *values: _first(cond_graph(*values, *additional)),
            lambda *values: body_graph(*values, *additional),
            carried,
        )
    while _first(cond_graph(*carried, *additional)):
        carried = tuple(body_graph(*carried, *additional))
    return carried


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, (tuple, list)) else result


cond_op = HigherOrderOperator("cond", _run_cond)
while_loop_op = HigherOrderOperator("while_loop", _run_while)
OPERATORS = {op.__name__: op for op in (cond_op, while_loop_op)}
for _name, _op in OPERATORS.items():
    setattr(ops.namespace("higher_order"), _name, _op)


# ---- functions as graphs
class _Branch:
    """A function as a graph: its operands are the ones given, and then what it uses from around it."""

    def __init__(self, function: Callable[..., Any], operands: list[Any], mode: Any):
        from .experimental.impure import is_impure
        from .experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
        from .experimental.recorder import add_inputs

        self.around: dict[int, Any] = {}  # by id: values from around it, in order
        self.tracer = PythonKeyTracer()
        decompositions = mode.recorder.decompositions
        self.mode = ProxyTorchDispatchMode(self.tracer, mode.tracing_mode, mode.pre_dispatch, decomposition_table=decompositions)
        self.outside = mode
        recorder = self.mode.recorder
        recorder.constant = self._from_around
        recorder.find_source = self._size_from_around  # type: ignore[method-assign]
        add_inputs(recorder, operands, [f"arg{k}_1" for k in range(len(operands))], hoisted=False)
        stack = thread.dispatch_modes
        thread.dispatch_modes = tuple([self.mode if each is mode else each for each in stack])
        try:
            result = function(*operands)
        finally:
            thread.dispatch_modes = stack
        self.results, self.spec = tree_flatten(result)
        self.tracer.graph.output(tuple([recorder.argument(each) for each in self.results]))
        self.tracer.graph.eliminate_dead_code(is_impure)

    def _placeholder(self, value: Any) -> Any:
        graph = self.tracer.graph
        name = f"arg{len(graph.find_nodes(op='placeholder'))}_1"
        first = next((node for node in graph.nodes if node.op != "placeholder"), None)
        if first is None:
            node = graph.placeholder(name)
        else:
            with graph.inserting_before(first):
                node = graph.placeholder(name)
        self.around[id(value)] = value
        self.mode.recorder.track(value, node)
        return node

    def _from_around(self, tensor: Tensor) -> Any:
        return self._placeholder(tensor)

    def _size_from_around(self, name: str, env: Any) -> Any:
        from ..core.expressions import symbol

        return self._placeholder(env.number(symbol(name)))

    def widened(self, values: dict[int, Any]) -> None:
        """Have placeholders for all of these values from around, in their order."""
        graph = self.tracer.graph
        for key, value in values.items():
            if key not in self.around:
                self._placeholder(value)
        own = graph.find_nodes(op="placeholder")
        count = len(own) - len(self.around)
        nodes = dict(zip(self.around, own[count:], strict=True))
        last = own[count - 1] if count else None
        for key in values:
            node = nodes[key]
            if last is not None:
                last.append(node)
            last = node
        self.around = values

    def module(self) -> GraphModule:
        return GraphModule(self.tracer.root, self.tracer.graph)


def _recording() -> Any:
    from .experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    return mode if mode is not None and mode.enable_tracing else None


def _described(values: list[Any]) -> list[Any]:
    return [(tuple(map(str, value.shape)), value.dtype) if isinstance(value, Tensor) else type(value).__name__ for value in values]


def _held(mode: Any, name: str, module: GraphModule) -> Any:
    """The node of a graph inside of the graph."""
    root, number = mode.tracer.root, 0
    while hasattr(root, f"{name}_{number}"):
        number += 1
    root.add_module(f"{name}_{number}", module)
    return mode.tracer.graph.get_attr(f"{name}_{number}")


def _recorded_cond(mode: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    leaves, spec = tree_flatten(tuple(operands))

    def flat(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: function(*tree_unflatten(list(values), spec))

    branches = [_Branch(flat(function), leaves, mode) for function in (true_fn, false_fn)]
    first, second = branches
    if first.spec != second.spec or _described(first.results) != _described(second.results):
        raise RuntimeError(
            f"cond: both branches must return the same structure of tensors of the same shapes and dtypes, got {_described(first.results)} "
            f"and {_described(second.results)}"
        )
    values = {**first.around, **second.around}
    for branch in branches:
        branch.widened(values)
    recorder = mode.recorder
    given = recorder.arguments((pred, (*leaves, *values.values())))
    graphs = [_held(mode, name, branch.module()) for name, branch in zip(("true_graph", "false_graph"), branches, strict=True)]
    node = mode.tracer.graph.create_node("call_function", cond_op, (given[0], *graphs, given[1]), {}, "cond")
    results = tuple([_fresh(value) for value in first.results])
    recorder.track(results, node)
    return tree_unflatten(list(results), first.spec)


def _fresh(value: Any) -> Any:
    from .experimental.recorder import snapshot

    if isinstance(value, Tensor):
        return snapshot(value) if getattr(value, "fake_mode", None) is not None else value.detach()
    return value


def _recorded_while(mode: Any, cond_fn: Any, body_fn: Any, carried: Any) -> Any:
    leaves, spec = tree_flatten(tuple(carried))

    def flat(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: function(*tree_unflatten(list(values), spec))

    condition, body = (_Branch(flat(function), leaves, mode) for function in (cond_fn, body_fn))
    if len(condition.results) != 1:
        raise RuntimeError(f"while_loop: cond_fn must return one bool, got {len(condition.results)} results")
    if _described(body.results) != _described(leaves):
        raise RuntimeError(
            f"while_loop: body_fn must return what it is given, of the same shapes and dtypes, got {_described(body.results)} for "
            f"{_described(leaves)}"
        )
    values = {**condition.around, **body.around}
    for branch in (condition, body):
        branch.widened(values)
    recorder = mode.recorder
    given = recorder.arguments((tuple(leaves), tuple(values.values())))
    graphs = [
        _held(mode, name, branch.module()) for name, branch in (("while_loop_cond_graph", condition), ("while_loop_body_graph", body))
    ]
    node = mode.tracer.graph.create_node("call_function", while_loop_op, (*graphs, *given), {}, "while_loop")
    results = tuple([_fresh(value) for value in body.results])
    recorder.track(results, node)
    return tree_unflatten(list(results), spec)


# ---- what programs call
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] | list[Any] = ()) -> Any:
    """``true_fn(*operands) if pred else false_fn(*operands)``, of which a graph has both.

    Args:
        pred: a bool, a symbolic one, or a tensor with one element.
        true_fn, false_fn: functions of the operands that return tensors of equal shapes and dtypes. operands: tensors, in any structure.
    Returns:
        What the function returns.
    Raises:
        RuntimeError: ``pred`` is nothing of that, or has several elements; the functions cannot be called; in a graph, they return tensors
            that differ.
    Source: torch.cond.
    Example:
        >>> x = torch.tensor([1.0, -3.0])
        >>> torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,))
        tensor([-1.,  3.])
    """
    if not isinstance(pred, (bool, Tensor, SymBool)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but got {operands}."
        )
    mode = _recording()
    if mode is None or isinstance(pred, bool):
        return (true_fn if _truth(pred) else false_fn)(*operands)
    return _recorded_cond(mode, pred, true_fn, false_fn, operands)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple[Any, ...] | list[Any],
    *,
    max_iterations: int | None = None,
) -> Any:
    """Call ``body_fn`` on what it returned before, as long as ``cond_fn`` of that is true.

    Args:
        cond_fn: gives a bool, or a tensor of one. body_fn: returns tensors of the shapes and dtypes that it is given.
        carried_inputs: what they are called with first. max_iterations: must be None.
    Returns:
        What ``body_fn`` returned last.
    Raises:
        RuntimeError: the functions cannot be called; ``body_fn`` returns something else than it is given.
        NotImplementedError: ``max_iterations``.
    Source: torch.while_loop.
    Example:
        >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(1)))
        (tensor(3), tensor([8.]))
    """
    if max_iterations is not None:
        raise NotImplementedError("while_loop: max_iterations is not supported")
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or a list, but got {type(carried_inputs)}")
    mode = _recording()
    if mode is not None:
        return _recorded_while(mode, cond_fn, body_fn, tuple(carried_inputs))
    carried = tuple(carried_inputs)
    while _truth(cond_fn(*carried)):
        made = body_fn(*carried)
        made = tuple(made) if isinstance(made, (tuple, list)) else made
        if not isinstance(made, tuple) or len(made) != len(carried):
            raise RuntimeError(f"body_fn should return a tuple or a list of {len(carried)} tensors, but got {made}")
        carried = made
    return carried


def _truth(value: Any) -> bool:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {tuple(value.shape)}")
    recorder = thread.recorder
    if recorder is None:
        return bool(value)
    recorder.branching = True
    try:
        return bool(value)
    finally:
        recorder.branching = False
