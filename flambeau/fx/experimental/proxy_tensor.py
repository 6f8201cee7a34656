"""``make_fx``: a function as a graph of PyTorch's kernels, backward passes included. Source: torch.fx.experimental.proxy_tensor.

The function runs once, and a mode below the tape notes every kernel that it calls. So the graph has neither modules nor control flow, and
derivatives are kernels as all others are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ...aten import below
from ...aten.fake_tensor import FakeTensor, FakeTensorMode
from ...core.state import thread
from ...core.symbolic import SymbolicInt
from ...core.tensor import Parameter, Tensor
from ...nn import Module
from ...utils._python_dispatch import TorchDispatchMode
from ...utils._pytree import tree_flatten, tree_unflatten
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from .recorder import Recorder, add_inputs
from .symbolic_shapes import ConstraintViolationError, ShapeEnv

__all__ = [
    "ProxyTorchDispatchMode", "PythonKeyTracer", "disable_proxy_modes_tracing", "dispatch_trace", "get_innermost_proxy_mode",
    "get_isolated_graphmodule", "get_proxy_mode", "maybe_disable_thunkify", "make_fx", "maybe_disable_fake_tensor_mode",
    "maybe_enable_thunkify", "py_sym_types",
]  # fmt: skip

py_sym_types = (SymbolicInt,)
# Recurrent layers, whose parts here are kernels for whole sequences, which PyTorch has not; and bags, whose parts depend on values.
_NEVER_DIVIDED = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu", "embedding_bag", "nn.functional.embedding_bag"))
_MODES = ("real", "fake", "symbolic")


class PythonKeyTracer(Tracer):
    """The tracer whose graph ``make_fx`` fills. Source: torch.fx.experimental.proxy_tensor.PythonKeyTracer.

    Attributes:
        root: a module that holds the constants.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import PythonKeyTracer
        >>> len(PythonKeyTracer().graph.nodes)
        0
    """

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.graph, self.root = Graph(tracer_cls=type(self)), Module()


class ProxyTorchDispatchMode(TorchDispatchMode):
    """The mode that notes kernels. Source: torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode.

    Args:
        tracer: a ``PythonKeyTracer``, or another object with ``graph`` and ``root``.
        tracing_mode: ``"real"``, ``"fake"`` or ``"symbolic"``.
        pre_dispatch: whether operations are noted before they are divided into kernels.
        decomposition_table: functions in place of kernels, by overload.
    Raises:
        NotImplementedError: ``_allow_fake_constant`` or ``_error_on_data_dependent_ops=False``.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
        >>> tracer = PythonKeyTracer()
        >>> with ProxyTorchDispatchMode(tracer):
        ...     x = torch.zeros(2) + 1
        >>> [node.name for node in tracer.graph.nodes]
        ['zeros', 'add']
    """

    _mode_key = "PROXY"

    def __init__(
        self,
        tracer: Any,
        tracing_mode: str = "real",
        pre_dispatch: bool = False,
        _allow_fake_constant: bool = False,
        _error_on_data_dependent_ops: bool = True,
        decomposition_table: Any = None,
    ):
        super().__init__()
        _refuse("ProxyTorchDispatchMode", _allow_fake_constant=_allow_fake_constant)
        _refuse("ProxyTorchDispatchMode", **{"_error_on_data_dependent_ops=False": not _error_on_data_dependent_ops})
        self.tracer, self.tracing_mode, self.pre_dispatch, self.enable_tracing = tracer, tracing_mode, pre_dispatch, True
        self.recorder = Recorder(tracer.graph, self._constant, decomposition_table)
        self.recorder.whole = pre_dispatch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.enable_tracing or func.name() == "aten::sym_size.int":
            return func(*args, **kwargs)
        decomposition = self.recorder.decompositions.get(func)
        if decomposition is not None:
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func.name() == "aten::lift_fresh":
            return self.recorder.record(below.aten.overload_named("lift_fresh_copy"), args, kwargs, _lifted)
        return self.recorder.record(func, args, kwargs, _called)

    def takes(self, call: Any) -> Any:
        """The result of an operation that is noted as a whole; NotImplemented where it is divided."""
        if not self.enable_tracing or not (self.pre_dispatch or call.op.key in _NEVER_DIVIDED):
            return NotImplemented
        from ...aten.whole_calls import Done, as_whole

        whole = as_whole(call)
        if isinstance(whole, Done):
            return whole.value
        return NotImplemented if whole is None else self.note(*whole)

    def takes_function(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of a function of any number of tensors, which no call arrives of; NotImplemented for others."""
        if not self.pre_dispatch or not self.enable_tracing:
            return NotImplemented
        from ...aten.whole_calls import function_as_whole

        whole = function_as_whole(function, args, kwargs)
        return NotImplemented if whole is None else self.note(*whole)

    def note(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Do a call of an operation as a whole, and note it; NotImplemented where it is to be decomposed."""
        if self.recorder.decompositions.get(func) is not None:
            return NotImplemented
        outside = thread.dispatch_modes
        thread.dispatch_modes = outside[:-1]
        try:
            return self.recorder.record(func, args, kwargs, _asked if outside[:-1] else _called)
        finally:
            thread.dispatch_modes = outside

    def _constant(self, tensor: Tensor) -> Any:
        """A tensor of the program itself: an attribute of the root."""
        root = self.tracer.root
        kind = "_param_constant" if isinstance(tensor, Parameter) else "_tensor_constant"
        found = next((name for name, value in vars(root).items() if value is tensor), None)
        found = found or next((name for name, value in root._parameters.items() if value is tensor), None)
        if found is None:
            count = sum(name.startswith(kind) for name in (*vars(root), *root._parameters))
            found = f"{kind}{count}"
            setattr(root, found, tensor)
        node = self.tracer.graph.get_attr(found)
        node.meta["val"] = tensor
        return node


def _called(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _lifted(func: Any, tensor: Any) -> Any:
    """A copy of data of the program, which modes without values take as ``lift_fresh`` only."""
    around = thread.dispatch_modes
    return (below.ask(below.aten.overload_named("lift_fresh"), (tensor,), {}) if around else tensor).clone()


def _asked(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of an operation by the mode around, as it is: it would be divided otherwise."""
    return below.ask(func, args, kwargs)


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that notes kernels now.

    Returns:
        A ``ProxyTorchDispatchMode``, or None.
    Source: torch.fx.experimental.proxy_tensor.get_proxy_mode.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import get_proxy_mode
        >>> get_proxy_mode() is None
        True
    """
    return next((mode for mode in reversed(thread.dispatch_modes) if isinstance(mode, ProxyTorchDispatchMode)), None)


@contextlib.contextmanager
def _without(kind: type) -> Iterator[None]:
    """Context without the modes of a class."""
    was = thread.dispatch_modes
    thread.dispatch_modes = tuple([mode for mode in was if not isinstance(mode, kind)])
    try:
        yield
    finally:
        thread.dispatch_modes = was


@contextlib.contextmanager
def disable_proxy_modes_tracing() -> Iterator[Any]:
    """Context in which nothing is noted.

    Returns:
        The context.
    Source: torch.fx.experimental.proxy_tensor.disable_proxy_modes_tracing.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
        >>> with disable_proxy_modes_tracing():
        ...     torch.ones(1) + 1
        tensor([2.])
    """
    with _without(ProxyTorchDispatchMode):
        yield get_proxy_mode()


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[Any]:
    """Context without fake tensors.

    Returns:
        The context.
    Source: torch.fx.experimental.proxy_tensor.maybe_disable_fake_tensor_mode.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import maybe_disable_fake_tensor_mode
        >>> with maybe_disable_fake_tensor_mode():
        ...     torch.ones(1) + 1
        tensor([2.])
    """
    with _without(FakeTensorMode):
        yield None


def get_innermost_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The innermost mode that notes kernels now.

    Returns:
        A ``ProxyTorchDispatchMode``, or None.
    Source: torch.fx.experimental.proxy_tensor.get_innermost_proxy_mode.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import get_innermost_proxy_mode
        >>> get_innermost_proxy_mode() is None
        True
    """
    return get_proxy_mode()


@contextlib.contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    """Context that does nothing: nodes of sizes are made when they are used, always.

    Returns:
        The context.
    Source: torch.fx.experimental.proxy_tensor.maybe_disable_thunkify.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import maybe_disable_thunkify
        >>> with maybe_disable_thunkify():
        ...     pass
    """
    yield


@contextlib.contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """Context that does nothing: nodes of sizes are made when they are used, always.

    Returns:
        The context.
    Source: torch.fx.experimental.proxy_tensor.maybe_enable_thunkify.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import maybe_enable_thunkify
        >>> with maybe_enable_thunkify():
        ...     torch.ones(1) + 1
        tensor([2.])
    """
    yield


def _names_of(f: Callable[..., Any], count: int) -> list[str]:
    """Names of the arguments, as far as they are known."""
    try:
        names = [
            name
            for name, param in inspect.signature(f).parameters.items()
            if param.kind in (param.POSITIONAL_OR_KEYWORD, param.POSITIONAL_ONLY)
        ]
    except (TypeError, ValueError):
        names = []
    return names if len(names) >= count else [f"arg{k}" for k in range(count)]


def _placeholders(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """Names of the placeholders: the argument's with a number, as PyTorch's; leaves of a structure are numbered further."""
    names: list[str] = []
    for name, arg in zip(_names_of(f, len(args)), args, strict=False):
        count = len(tree_flatten(arg)[0])
        names += [f"{name}_{k + 1}" for k in range(count)]
    return names


def _fakes(leaves: list[Any], mode: FakeTensorMode | None, dynamic: dict[tuple[int, int], Any]) -> list[Any]:
    """The inputs as they are traced: fakes, with symbols for their sizes, equal ones for equal sizes."""
    if mode is None:
        return leaves
    from ...aten.symbolic_fakes import symbolize

    env = mode.shape_env
    known: dict[int, Any] = {}
    found: list[Any] = []
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            fake: Any = leaf if isinstance(leaf, FakeTensor) else mode.from_tensor(leaf, static_shapes=True)
            if env is not None and fake._sizes is None:
                sizes: list[Any] = []
                for dim, size in enumerate(fake._array.shape):
                    if size < 2 or dynamic.get((place, dim)) is False:
                        sizes.append(size)
                    else:
                        if size not in known:
                            known[size] = env.create_size(size)
                        sizes.append(known[size])
                        dynamic[place, dim] = str(sizes[-1])
                fake = symbolize(fake, sizes)
            found.append(fake)
        else:
            found.append(leaf)
    return found


def _refuse(called: str, **options: bool) -> None:
    for name, given in options.items():
        if given:
            raise NotImplementedError(f"{called}: {name} is not supported")


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., GraphModule]:
    """A function that runs ``f`` on its arguments and returns the graph of the kernels that ``f`` called.

    Args:
        f: a function of tensors and structures of them, or a module.
        decomposition_table: what is called in place of kernels, by overload: ``torch._decomp.get_decompositions`` makes one.
        tracing_mode: ``"real"`` runs on the arguments as they are, ``"fake"`` without values, ``"symbolic"`` with sizes that may be others.
        _allow_non_fake_inputs: whether ``f`` may have tensors of its own, parameters too, where it runs without values.
        pre_dispatch: note operations before they are divided into kernels: ``aten.linear`` and not ``aten.t`` and ``aten.addmm``.
    Returns:
        A function with the arguments of ``f``, which gives a ``GraphModule``.
    Raises:
        AssertionError: ``f`` has tensors of its own, and may not.
        NotImplementedError: the other options.
    Source: torch.fx.experimental.proxy_tensor.make_fx.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import make_fx
        >>> def f(x):
        ...     return (x * 2).sin()
        >>> print(make_fx(f)(torch.ones(2)).code.strip())
        def forward(self, x_1):
            mul = torch.ops.aten.mul.Tensor(x_1, 2);  x_1 = None
            sin = torch.ops.aten.sin.default(mul);  mul = None
            return sin
    """
    _refuse(
        "make_fx", record_module_stack=record_module_stack, _allow_fake_constant=_allow_fake_constant,
        record_stack_traces=record_stack_traces, proxy_module_inputs=proxy_module_inputs,
        _disable_torch_fn_metadata_mode=_disable_torch_fn_metadata_mode,
        **{"_error_on_data_dependent_ops=False": not _error_on_data_dependent_ops},
    )  # fmt: skip
    if tracing_mode not in _MODES:
        raise AssertionError(f"tracing_mode must be one of {_MODES}, got {tracing_mode!r}")

    @functools.wraps(f if not isinstance(f, Module) else f.forward)
    def traced(*args: Any) -> GraphModule:
        static: set[tuple[int, int]] = set()
        while True:
            dynamic: dict[tuple[int, int], Any] = dict.fromkeys(static, False)
            try:
                return _traced(f, args, tracing_mode, _allow_non_fake_inputs, decomposition_table, pre_dispatch, dynamic)
            except ConstraintViolationError as error:
                names = error.fixed | {name for pair in error.equal for name in pair} | {name for name, _, _ in error.sums}
                more = {place for place, name in dynamic.items() if name in names}
                if not more:
                    raise
                static |= more

    return traced


def _traced(
    f: Any, args: Any, tracing_mode: str, allow_non_fake_inputs: bool, decompositions: Any, pre_dispatch: bool, dynamic: Any
) -> GraphModule:
    leaves, spec = tree_flatten(args)
    fake_mode: Any = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), None)
    if fake_mode is None and tracing_mode != "real":
        env = ShapeEnv() if tracing_mode == "symbolic" else None
        fake_mode = FakeTensorMode(allow_non_fake_inputs=allow_non_fake_inputs, shape_env=env)
    inputs = _fakes(leaves, fake_mode if tracing_mode != "real" else None, dynamic)
    tracer = PythonKeyTracer()
    mode = ProxyTorchDispatchMode(tracer, tracing_mode, pre_dispatch, decomposition_table=decompositions)
    add_inputs(mode.recorder, inputs, _placeholders(f, args), hoisted=False)
    with contextlib.ExitStack() as stack:
        if fake_mode is not None:
            stack.enter_context(fake_mode)
        stack.enter_context(mode)
        result = f(*tree_unflatten(inputs, spec))
        tracer.graph.output(mode.recorder.arguments(result))
    _drop_unused(tracer.graph)
    module = GraphModule(tracer.root, tracer.graph, getattr(f, "__name__", type(f).__name__))
    module.shape_env = fake_mode.shape_env if fake_mode is not None else None
    return module


def _drop_unused(graph: Graph) -> None:
    """Take out parts of results that nothing uses, and other calls that have no effect."""
    from .impure import is_impure

    graph.eliminate_dead_code(is_impure)


def dispatch_trace(root: Any, tracer: Any, concrete_args: Any = None) -> GraphModule:
    """The graph that ``tracer`` makes of ``root``.

    Args:
        root: a module or a function. tracer: a tracer of ``torch.fx``. concrete_args: arguments that are constants.
    Returns:
        The graph as a module.
    Source: torch.fx.experimental.proxy_tensor.dispatch_trace.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import dispatch_trace
        >>> dispatch_trace(lambda x: x + 1, torch.fx.Tracer())(torch.ones(1))
        tensor([2.])
    """
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, getattr(root, "__name__", type(root).__name__))


def get_isolated_graphmodule(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tracing_mode: str = "real", decomposition_table: Any = None
) -> GraphModule:
    """The graph of a call, noted apart from modes that are on.

    Args:
        func: the function. args, kwargs: its arguments. tracing_mode, decomposition_table: as of ``make_fx``.
    Returns:
        The graph as a module of all tensors among the arguments.
    Source: torch.fx.experimental.proxy_tensor.get_isolated_graphmodule.
    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import get_isolated_graphmodule
        >>> get_isolated_graphmodule(torch.sin, (torch.zeros(1),), {})(torch.zeros(1))
        tensor([0.])
    """
    leaves, spec = tree_flatten((args, kwargs))

    def wrapped(*parts: Any) -> Any:
        inner_args, inner_kwargs = tree_unflatten(list(parts), spec)
        return func(*inner_args, **inner_kwargs)

    with disable_proxy_modes_tracing():
        return make_fx(wrapped, decomposition_table, tracing_mode)(*leaves)
