"""Stand-ins for values while a program is traced: what is done with them becomes nodes. Source: torch.fx.proxy."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import enum
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from ..core.calls.operation import REQUIRED
from ..core.checks import _assert
from ..core.device import device
from ..core.dtype import dtype
from ..core.layout import layout, memory_format
from ..core.state import thread
from ..core.tensor import Parameter, Tensor
from ..overrides import is_tensor_method_or_property
from ..utils._pytree import tree_leaves
from ._library import NAME
from .graph import Graph
from .node import Argument, Node, Target, map_aggregate

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

CONSTANTS = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)
BINARY = "eq ne lt gt le ge add sub mul floordiv truediv mod pow lshift rshift and or xor getitem matmul".split()
REFLECTED = "add sub mul floordiv truediv mod pow lshift rshift and or xor matmul".split()
UNARY = "pos neg invert abs".split()


class TraceError(ValueError):
    """A program does with a traced value what a graph cannot say. Source: torch.fx.proxy.TraceError.

    Example:
        >>> issubclass(torch.fx.proxy.TraceError, ValueError)
        True
    """


class Scope:
    """The module in whose ``forward`` the tracer is: its path and its class. Source: torch.fx.proxy.Scope.

    Args:
        module_path: as of ``named_modules``. module_type: its class.
    Example:
        >>> torch.fx.proxy.Scope("layers.0", torch.nn.Linear).module_path
        'layers.0'
    """

    def __init__(self, module_path: str, module_type: Any):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Context in which a scope is another one. Source: torch.fx.proxy.ScopeContextManager.

    Args:
        scope: the scope that is changed. current_scope: what it becomes.
    Example:
        >>> scope = torch.fx.proxy.Scope("", None)
        >>> with torch.fx.proxy.ScopeContextManager(scope, torch.fx.proxy.Scope("inner", None)):
        ...     print(scope.module_path)
        inner
    """

    def __init__(self, scope: Scope, current_scope: Scope):
        self._before = copy_of(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exc_info: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


def copy_of(scope: Scope) -> Scope:
    return Scope(scope.module_path, scope.module_type)


class TracerBase:
    """Makes nodes of the operations on proxies. Source: torch.fx.proxy.TracerBase.

    Attributes:
        graph: where they are added.
        record_stack_traces: whether nodes note the lines of the program that made them.
        check_mutable_operations: whether functions that write to an operand, or to ``out=``, are refused.
        trace_asserts: whether ``assert`` of a proxy becomes a node.
        proxy_buffer_attributes: whether reads of buffers become nodes at once.
        traced_func_name: the method that is traced.
    Example:
        >>> tracer = torch.fx.proxy.GraphAppendingTracer(torch.fx.Graph())
        >>> torch.fx.Proxy(tracer.graph.placeholder("x"), tracer) + 1
        Proxy(add)
    """

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node to the graph.

        Raises:
            RuntimeError: a function that writes, with ``check_mutable_operations``.
        Source: torch.fx.proxy.TracerBase.create_node.
        """
        if kind == "call_function" and self.check_mutable_operations:
            called = getattr(target, "__name__", "")
            if (called.endswith("_") and not called.endswith("__")) or kwargs.get("out") is not None:
                raise RuntimeError(
                    f"Tried to trace mutable operation {called}. FX only supports functional code, so operations that mutate operands "
                    "in-place (e.g. via `out` arguments) are not supported"
                )
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if (scope := getattr(self, "scope", None)) is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if stack := getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = dict(stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """The stand-in for a node's value; a tracer may give one of another class. Source: torch.fx.proxy.TracerBase.proxy."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """Add a node for an operation on proxies.

        Args:
            kind, target, args, kwargs, name, type_expr: as of ``Graph.create_node``, proxies among the arguments.
            proxy_factory_fn: makes the stand-in, in place of ``proxy``.
        Returns:
            The stand-in for its value.
        Source: torch.fx.proxy.TracerBase.create_proxy.
        """
        node_args, node_kwargs = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, node_args, node_kwargs, name, type_expr)
        if self.record_stack_traces and kind != "placeholder" and not node.stack_trace:
            node.stack_trace = "".join(traceback.StackSummary.from_list(_users_frames()).format()).strip()
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node.

        Raises:
            NotImplementedError: a value that nodes cannot hold.
            RuntimeError: a dict with a proxy in a key.
        Source: torch.fx.proxy.TracerBase.create_arg.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(part) for part in a]
            return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(part) for part in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(part) for key, part in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {each.name: self.create_arg(getattr(a, each.name)) for each in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if a is None or a is ... or isinstance(a, (*CONSTANTS, enum.Enum)):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        made = self.create_arg(key)

        def refuse(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {made}")
            return leaf

        map_aggregate(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy, which ``if`` asks for: TraceError. Source: torch.fx.proxy.TracerBase.to_bool."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The elements of a proxy, which ``for`` asks for: TraceError. Source: torch.fx.proxy.TracerBase.iter."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function "
            "argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, "
            "and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a proxy, which ``**`` asks for: a proxy. Source: torch.fx.proxy.TracerBase.keys."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer for proxies that are made by hand. Source: torch.fx.proxy.GraphAppendingTracer.

    Args:
        graph: where nodes are added.
    Example:
        >>> torch.fx.proxy.GraphAppendingTracer(torch.fx.Graph()).graph.owning_module
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}


class Proxy:
    """A stand-in for a node's value: operations, functions of the library, methods and attributes become nodes.

    Args:
        node: the node. tracer: adds the nodes; a ``GraphAppendingTracer`` when None.
    Source: torch.fx.Proxy.
    Example:
        >>> graph = torch.fx.Graph()
        >>> x = torch.fx.Proxy(graph.placeholder("x"))
        >>> torch.relu(x).sum(dim=0)
        Proxy(sum_1)
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):  # of a proxy in the making, and protocols
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        found, at = _instructions(sys._getframe(1))
        if found[at].opname == "UNPACK_SEQUENCE":
            return iter([self[i] for i in range(found[at].argval)])  # type: ignore[index]  # operators are set below
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            message = _asserted_message(sys._getframe(1))
            if message is not None:
                self.tracer.create_proxy("call_function", _assert, (self, message), {})
                return True
        return self.tracer.to_bool(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call torch.fx.wrap('len') "
            "at module scope"
        )

    def keys(self) -> Any:
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = _as_called(args, kwargs or {})
        tracers = {id(leaf.tracer): leaf.tracer for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)}
        if len(tracers) > 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers.values())} while trying to trace operations {orig_method}")
        (tracer,) = tracers.values()
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=getattr(orig_method, "__name__", None))


class Attribute(Proxy):
    """An attribute of a proxy: a method once it is called, a node of ``getattr`` once its value is used.

    Args:
        root: the proxy. attr: the name.
    Source: torch.fx.proxy.Attribute.
    Example:
        >>> x = torch.fx.Proxy(torch.fx.Graph().placeholder("x"))
        >>> torch.fx.proxy.Attribute(x, "shape")[0]
        Proxy(getitem)
    """

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:  # made late: most are methods, which need none
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape, number of dimensions and elements are known. Source: torch.fx.proxy.ParameterProxy.

    Args:
        tracer, node: as of ``Proxy``. name: of the parameter. param: the parameter.
    Example:
        >>> node = torch.fx.Graph().get_attr("w")
        >>> torch.fx.proxy.ParameterProxy(None, node, "w", torch.nn.Parameter(torch.ones(2, 3))).shape
        torch.Size([2, 3])
    """

    def __init__(self, tracer: TracerBase | None, node: Node, name: str, param: Parameter):
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


class MetaProxy(Proxy):
    """A proxy whose results note what fake tensors of their shapes and dtypes are.

    Source: torch.fx.proxy.MetaProxy.

    Args:
        node, tracer: as of ``Proxy``. fake_mode: the mode of the fake tensors, in ``node.meta["val"]``.
    Example:
        >>> node = torch.fx.Graph().placeholder("x")
        >>> node.meta["val"] = torch.ones(2, device="meta")
        >>> torch.relu(torch.fx.proxy.MetaProxy(node)).node.meta["val"].shape
        torch.Size([2])
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None):
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, MetaProxy)]
        if not found:
            raise RuntimeError(f"{orig_method}: no MetaProxy among the arguments")
        proxy = Proxy.__torch_function__(orig_method, types, args, kwargs)
        mode = found[0].fake_mode
        with contextlib.ExitStack() as stack:
            if mode is not None:
                stack.enter_context(mode)
            values = map_aggregate((args, kwargs or {}), lambda leaf: leaf.node.meta["val"] if isinstance(leaf, MetaProxy) else leaf)
            proxy.node.meta["val"] = orig_method(*values[0], **values[1])
        return MetaProxy(proxy.node, proxy.tracer, mode)


def _binary(name: str) -> Callable[[Proxy, Any], Any]:
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)

    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return method


def _reflected(name: str) -> Callable[[Proxy, Any], Any]:
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)

    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    return method


def _unary(name: str) -> Callable[[Proxy], Any]:
    function = getattr(operator, name)

    def method(self: Proxy) -> Any:
        return self.tracer.create_proxy("call_function", function, (self,), {})

    return method


for _name in BINARY:
    setattr(Proxy, f"__{_name}__", _binary(_name))
for _name in REFLECTED:
    setattr(Proxy, f"__r{_name}__", _reflected(_name))
for _name in UNARY:
    setattr(Proxy, f"__{_name}__", _unary(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


# ---- the program that is traced, by its frames and bytecode
def _instructions(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    """The instructions of a frame's code, and the index of the one that it is at."""
    found = [each for each in dis.get_instructions(frame.f_code) if each.opname not in ("CACHE", "NOP", "EXTENDED_ARG")]
    return found, max((i for i, each in enumerate(found) if each.offset <= frame.f_lasti), default=-1)  # a call may be at its cache


def _asserted_message(frame: FrameType) -> str | None:
    """The message of the ``assert`` whose condition a frame is at; None where it is at something else."""
    found, at = _instructions(frame)
    rest = [each for each in found[at : at + 6] if each.opname not in ("TO_BOOL", "COPY")]
    jump = next((i for i, each in enumerate(rest[:2]) if "JUMP" in each.opname and "IF_TRUE" in each.opname), None)
    if jump is None or len(rest) <= jump + 2 or "ASSERTION" not in f"{rest[jump + 1].opname} {rest[jump + 1].argrepr}".upper():
        return None
    return rest[jump + 2].argval if rest[jump + 2].opname == "LOAD_CONST" else ""


def _is_generated(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<flambeau:")


def _is_ours(frame: FrameType) -> bool:
    return _is_generated(frame) or str(frame.f_globals.get("__name__", "")).partition(".")[0] == NAME


def _users_frames() -> list[traceback.FrameSummary]:
    """The frames of the program, those of the library left out."""
    frames = [(frame, line) for frame, line in traceback.walk_stack(sys._getframe(1)) if not _is_ours(frame)]
    return list(reversed(traceback.StackSummary.extract(iter(frames))))


def _as_called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as the program gave them: wrappers of operations bind keywords to positions before anyone can look.

    The names are those that the instruction of the call says. Of functions that are Python's in PyTorch (``nn.functional``), all
    arguments with defaults are named, since there they are when ``__torch_function__`` is called.
    """
    call = thread.overridden
    if call is None or call.args is not args or kwargs:
        return args, kwargs
    params = call.op.params
    if any(param.kind == "rest" for param in params):
        return args, kwargs
    values = {param.name: value for param, value in zip(params, call.values, strict=False)}
    if getattr(call.op, "namespace", "") == "nn.functional" and not call.op.compiled:
        named = [param.name for param in params if param.default is not REQUIRED]
        return tuple([value for name, value in values.items() if name not in named]), {name: values[name] for name in named}
    count, names = _called_with()
    if count is None or count > len(values) or not values.keys() >= {*names}:
        return args, kwargs
    return tuple(values.values())[:count], {name: values[name] for name in names}


def _called_with() -> tuple[int | None, tuple[str, ...]]:
    """The number of arguments by position in the call that the program is at, and the keywords; None where the call does not say."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_generated(frame):  # up to the operation's wrapper
        frame = frame.f_back
    while frame is not None and _is_generated(frame):
        frame = frame.f_back
    if frame is None:
        return None, ()
    found, at = _instructions(frame)
    call = found[at]
    names: tuple[str, ...] = ()
    if call.opname == "CALL_KW":  # 3.13: the names are a constant before it
        names = found[at - 1].argval
    elif call.opname == "CALL":
        for each in found[max(at - 2, 0) : at]:
            if each.opname == "KW_NAMES" and each.arg is not None:
                names = frame.f_code.co_consts[each.arg]
    else:
        return None, ()
    return (call.arg or 0) - len(names), names
