"""Tracing of programs: they run once, on stand-ins, and what they do becomes a graph. Source: torch.fx._symbolic_trace.

While a program is traced, calls of modules and reads of their parameters are seen because ``Module.__call__`` and ``Module.__getattr__``
are others; functions that were given to ``wrap``, and those of ``math``, are others in the module that names them. Other threads see
this, too: as in PyTorch, one program is traced at a time.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

from ..core.checks import _assert
from ..core.tensor import Parameter, Tensor
from ..core.traced import WHOLE, keep_whole
from ..nn import Module, Sequential
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree  # noqa: F401 - generated code imports it from here
from ._library import NAME
from .graph import Graph, PyTreeCodeGen, _PyTreeInfo
from .graph_module import GraphModule
from .node import Argument, Node
from .proxy import Proxy, Scope, ScopeContextManager, TracerBase

__all__ = ["PH", "PHBase", "Tracer", "symbolic_trace", "wrap"]


class PHBase:
    """A placeholder in ``concrete_args``: what stands there stays an argument. Source: torch.fx._symbolic_trace.PHBase.

    Example:
        >>> torch.fx.PH
        PH
    """

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


def wrap(fn_or_name: Any) -> Any:
    """Have a tracer call a function without looking inside: call it at the top level of a module.

    Args:
        fn_or_name: a function, or the name of one among the module's globals or of Python's own, as ``"len"``.
    Returns:
        ``fn_or_name`` itself, so that this is a decorator, too.
    Raises:
        RuntimeError: neither a function nor a name.
        NotImplementedError: called within a function.
    Source: torch.fx.wrap.
    Example:
        >>> torch.fx.wrap("len")
        'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    keep_whole(frame.f_globals, name)
    return fn_or_name


def _assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


def _first_proxy(*values: Any) -> Proxy | None:
    return next((leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Proxy)), None)


def _wrapper_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that becomes a node where a proxy is among its arguments."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    wrapped.__fx_already_patched = True  # type: ignore[attr-defined]
    return wrapped


@contextlib.contextmanager
def _in_place_of(changes: Iterator[tuple[Any, str, Any]]) -> Iterator[None]:
    """Context in which names of dictionaries and attributes of classes are others."""
    before: list[tuple[Any, str, Any]] = []
    missing = object()
    try:
        for owner, name, value in changes:
            if isinstance(owner, dict):
                before.append((owner, name, owner.get(name, missing)))
                owner[name] = value
            else:
                before.append((owner, name, vars(owner).get(name, missing)))
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if isinstance(owner, dict):
                if value is missing:
                    del owner[name]
                else:
                    owner[name] = value
            elif value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


class Tracer(TracerBase):
    """Traces modules and functions; subclasses say what a tracer does not look into.

    Args:
        autowrap_modules: modules whose functions become nodes where they are given a proxy; ``math`` is.
        autowrap_functions: further functions that do.
        param_shapes_constant: whether shapes of parameters are numbers in the graph, in place of nodes.
    Source: torch.fx.Tracer.
    Example:
        >>> graph = torch.fx.Tracer().trace(lambda x: x * 2)
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'call_function', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        found = chain.from_iterable(vars(module).items() for module in autowrap_modules)
        self._autowrap_function_ids = {id(value) for name, value in found if not name.startswith("_") and callable(value)}
        self._autowrap_function_ids |= {id(function) for function in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = {}
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    # ---- what subclasses change
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module's call is one node: modules of the library but ``Sequential``. Source: torch.fx.Tracer.is_leaf_module."""
        module = type(m).__module__
        return module.startswith(("torch.nn", "torch.ao.nn", f"{NAME}.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the one that is traced.

        Raises:
            NameError: it is none of its modules.
        Source: torch.fx.Tracer.path_of_module.
        """
        paths = self.submodule_paths
        found = paths.get(mod) if paths else next((name for name, each in self.root.named_modules() if each is mod), None)
        if found is None:
            raise NameError("module is not installed as a submodule")
        return found

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace the call of a module: a node of a leaf, or what its ``forward`` does. Source: torch.fx.Tracer.call_module."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            self.num_calls[path] = times = self.num_calls.get(path, 0) + 1
            key = path if times == 1 else f"{path}@{times - 1}"
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                del self.module_stack[key]

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """The value of a module's attribute in the program: a proxy of a parameter, others as they are. Source: torch.fx.Tracer.getattr."""
        if isinstance(attr_val, Parameter):
            return self._member(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._member(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _member(self, value: Any, members: Iterator[tuple[str, Any]], cache: dict[str, Any]) -> Any:
        """The proxy of a parameter or buffer of the root; the value itself where it is none of its."""
        for name, member in members:
            if member is value:
                if name not in cache:
                    made: Callable[[Node], Proxy] | None = None
                    if self.param_shapes_constant:
                        from .proxy import ParameterProxy

                        made = functools.partial(ParameterProxy, self, name=name, param=value)
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=made)
                return cache[name]
        return value

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node; tensors of the module by their names, other tensors by new ones.

        Raises:
            NameError: a parameter that is none of the module's.
        Source: torch.fx.Tracer.create_arg.
        """
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            if (known := self.tensor_attrs.get(id(a))) is None:
                known = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[id(a)] = known
                setattr(self.root, known, a)
            return self.create_node("get_attr", known, (), {})
        from ..aten.quantized import ScriptObject

        if isinstance(a, ScriptObject):
            known = next((name for name, value in vars(self.root).items() if value is a), None)
            if known is None:
                setattr(self.root, known := self.get_fresh_qualname("_torchbind_obj"), a)
            return self.create_node("get_attr", known, (), {})
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the module has no attribute of. Source: torch.fx.Tracer.get_fresh_qualname."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # ---- arguments
    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> tuple[Any, list[Any]]:
        """Make the placeholders.

        Args:
            root_fn: the function that is traced. is_module: whether its first argument is the module.
            concrete_args: values in place of placeholders, by name or in order.
        Returns:
            The function to call, and its arguments.
        Raises:
            RuntimeError: a module's ``forward`` without ``self``; as many ``concrete_args`` in order as do not fit.
        Source: torch.fx.Tracer.create_args_for_root.
        """
        function = inspect.unwrap(root_fn)
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        arguments: list[Any] = []
        first = 0
        if is_module:
            if count == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            first = 1
            arguments.append(self.root)
        signature = inspect.signature(function)
        if isinstance(concrete_args, tuple):
            if len(names[first:count]) != len(concrete_args):
                raise RuntimeError(f"Tracing expected {len(names[first:count])} arguments but got {len(concrete_args)} concrete arguments")
            concrete_args = dict(zip(names[first:count], concrete_args, strict=True))
        keyword_only = code.co_kwonlyargcount
        arguments += [self._placeholder(name, concrete_args, signature) for name in names[first : count - keyword_only]]
        given = [self._placeholder(name, concrete_args, signature) for name in names[count - keyword_only : count]]
        call: Any = root_fn
        if keyword_only:
            named = names[count - keyword_only : count]

            def call_by_name(*args: Any) -> Any:
                positional = len(args) - len(named)
                return root_fn(*args[:positional], **dict(zip(named, args[positional:], strict=True)))

            call = call_by_name
            arguments += given
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return self._with_any_number(call, code, names[count:], arguments), arguments
        if concrete_args is not None:
            return self._flattened(call, arguments, names[:count])
        return call, arguments

    def _with_any_number(self, call: Any, code: Any, names: list[str], arguments: list[Any]) -> Any:
        """A call whose last arguments are the proxies of ``*args`` and ``**kwargs``."""
        starred = bool(code.co_flags & inspect.CO_VARARGS)
        if starred:
            arguments.append(self.create_proxy("placeholder", f"*{names[0]}", (), {}))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            arguments.append(self.create_proxy("placeholder", f"**{names[starred]}", (), {}))
        function = inspect.unwrap(call)
        return _with_plain_arguments(function) if isinstance(function, FunctionType) else call

    def _placeholder(self, name: str, concrete_args: Any, signature: inspect.Signature) -> Any:
        if concrete_args is not None and name in concrete_args:
            return self._concrete(name, concrete_args[name])
        default = signature.parameters[name].default if name in signature.parameters else inspect.Parameter.empty
        args = () if default is inspect.Parameter.empty else (default,)
        annotation = signature.parameters[name].annotation if name in signature.parameters else None
        kind = None if annotation is inspect.Parameter.empty else annotation
        return self.create_proxy("placeholder", name, args, {}, type_expr=kind)

    def _concrete(self, name: str, value: Any) -> Any:
        """A structure with placeholders for its leaves; those that are known are checked when the graph runs."""
        number = 0

        def leaf(known: Any) -> Any:
            nonlocal number
            number += 1
            default = () if known is PH or isinstance(known, PHBase) else self._default(name)
            made = self.create_proxy("placeholder", f"{name}_{number}", default, {})
            if isinstance(known, PHBase):
                if known is not PH:  # its notes go to the node
                    made.node.meta.update(vars(known))
                return made
            if known is None:
                message = f"{name} has been specialized to have value None but got another value"
                self.create_proxy("call_function", _assert_is_none, (made, message), {})
            elif isinstance(known, bool | int | float) or type(known) is str:
                message = f"{name} has been specialized to have value {known} but got another value"
                self.create_proxy("call_function", _assert, (made == known, message), {})
            else:
                import warnings

                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the user to "
                    "make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=5,
                )
            return known

        return pytree.tree_map(leaf, value)

    def _default(self, name: str) -> tuple[Any, ...]:
        parameter = self._signature.parameters.get(name)
        return () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)

    def _flattened(self, call: Any, arguments: list[Any], names: list[str]) -> tuple[Any, list[Any]]:
        """A call of leaves in place of structures, and the leaves; the graph's code flattens and builds them again."""
        leaves, spec = pytree.tree_flatten(tuple(arguments))
        if not any(not isinstance(child, pytree.LeafSpec) for child in spec.children_specs):
            return call, arguments

        def flat(*values: Any) -> Any:
            result, out = pytree.tree_flatten(call(*pytree.tree_unflatten(list(values), spec)))
            codegen = self.graph._codegen
            assert isinstance(codegen, PyTreeCodeGen)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out)
            return result

        self.graph._codegen = PyTreeCodeGen(_PyTreeInfo(names, spec, None))
        return flat, leaves

    # ---- tracing
    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or a function.

        Args:
            root: a module, whose ``traced_func_name`` is traced, or a function.
            concrete_args: values that take the place of arguments; branches on them are taken. In structures, ``PH`` stays an argument.
        Raises:
            TraceError: the program looks at a traced value, as ``if`` does.
        Source: torch.fx.Tracer.trace.
        """
        if isinstance(root, Module):
            self.root = root
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
            self.submodule_paths = None
        extras = getattr(self, "_extras", None)
        owner = self.__class__ if "<locals>" not in type(self).__qualname__ else None
        self.graph = Graph(tracer_cls=owner, tracer_extras=extras)
        self.tensor_attrs = {id(value): name for name, value in _tensors_of(self.root)}
        if not callable(function):
            raise AssertionError(f"{root} is neither a module nor a function")
        self._signature = inspect.signature(function)
        names = function.__globals__ if isinstance(function, FunctionType) else {}
        call, arguments = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with _in_place_of(self._changes(names)):
            result = call(*arguments)
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=_annotation(self._signature.return_annotation))
        self.submodule_paths = None
        return self.graph

    def _changes(self, names: dict[str, Any]) -> Iterator[tuple[Any, str, Any]]:
        """The replacements of methods and names while a program is traced."""
        call, read, find = Module.__call__, Module.__getattribute__, Module.__getattr__
        cache: dict[str, Any] = {}

        @functools.wraps(call)
        def called(mod: Module, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(mod, functools.partial(call, mod), args, kwargs)

        def attribute(mod: Module, attr: str) -> Any:
            value = read(mod, attr)
            return self.getattr(attr, value, cache) if isinstance(value, Tensor) else value

        def found(mod: Module, attr: str) -> Any:  # of classes whose members have no slots
            return self.getattr(attr, find(mod, attr), cache)

        yield Module, "__call__", called
        yield Module, "__getattribute__", attribute
        yield Module, "__getattr__", found
        for (_, name), scope in list(WHOLE.items()):
            original = scope.get(name, getattr(builtins, name, None))
            if original is not None and not hasattr(original, "__fx_already_patched"):
                yield scope, name, _wrapper_of(original)
        for scope in (names, *(vars(module) for module in self._autowrap_search)):
            for name, value in list(scope.items()):
                if not name.startswith("_") and callable(value) and id(value) in self._autowrap_function_ids:
                    yield scope, name, _wrapper_of(value)


def _annotation(annotation: Any) -> Any:
    return None if annotation is inspect.Signature.empty else annotation


def _tensors_of(root: Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors that modules have as plain attributes, with their paths."""
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{path}.{name}".lstrip("."), value


def _with_plain_arguments(function: FunctionType) -> FunctionType:
    """A function that takes what ``*args`` and ``**kwargs`` would be as plain arguments."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    extra = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    changed = code.replace(co_argcount=count + extra, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=flags)
    return FunctionType(changed, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module or a function as a ``GraphModule``: a program that other programs can read and change.

    Args:
        root: the module, whose ``forward`` is traced, or the function.
        concrete_args: values that take the place of arguments, as of ``Tracer.trace``.
    Returns:
        A module that computes the same.
    Raises:
        TraceError: the program looks at a traced value, as ``if`` does.
    Source: torch.fx.symbolic_trace.
    Example:
        >>> print(torch.fx.symbolic_trace(lambda x: x + 1).code.strip())
        def forward(self, x):
            add = x + 1;  x = None
            return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
