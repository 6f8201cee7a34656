"""Compiled functions and modules: what ``script``, ``trace`` and ``load`` return. Source: torch.jit._script.

A module that was scripted is a second view of the module it was made of: both have the same ``__dict__``, so parameters, buffers, hooks
and ``training`` are one. It runs the Python; its ``unit`` has the code that an archive gets. A module that was traced or loaded has the
code alone, and runs that.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

from ..core.late import from_above
from ..core.profiling import SCRIPT, is_in_script, profiled
from ..core.state import grad_enabled, profiling, set_grad
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.parameter import Parameter
from ._state import thread
from ._unit import Unit
from ._values import ScriptType

_OWN = ("_script_unit", "_script_type", "_script_python")
_STATELESS = frozenset(("_is_full_backward_hook",))


@functools.cache
def _of_modules() -> frozenset[str]:
    return frozenset(Module().__dict__) - {"training"}


def run_scripted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call Python of a program that was scripted: ``is_scripting()`` holds in it."""
    thread.scripted += 1
    try:
        return function(*args, **kwargs)
    finally:
        thread.scripted -= 1


def run_code(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call code of a program: an exception leaves no grad mode behind, which code sets before and after a block."""
    enabled = grad_enabled()
    try:
        return function(*args, **kwargs)
    except BaseException:
        set_grad(enabled)
        raise


class _Saved:
    """The common part of compiled functions and modules: they can be written to archives."""

    def save(self, f: Any, **kwargs: Any) -> None:
        """Write an archive; see ``torch.jit.save``."""
        from_above("jit._serialization").save(self, f, **kwargs)

    def save_to_buffer(self, **kwargs: Any) -> bytes:
        """The bytes of an archive."""
        buffer = io.BytesIO()
        self.save(buffer, **kwargs)
        return buffer.getvalue()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} cannot be pickled; use torch.jit.save")


class ScriptFunction(_Saved):
    """A function that was scripted or traced. It is called as the function is.

    Args:
        unit: where its code is. qualified_name: its name there.
        python: the function that runs; the code itself when None.
    Source: torch.jit.ScriptFunction.
    Example:
        >>> @torch.jit.script
        ... def double(x):
        ...     return 2 * x
        >>> double(torch.ones(2)), double.name
        (tensor([2., 2.]), 'double')
    """

    def __init__(self, unit: Unit, qualified_name: str, python: Callable[..., Any] | None = None) -> None:
        self._script_unit, self.qualified_name, self._python = unit, qualified_name, python
        self.__name__ = self.name = qualified_name.rpartition(".")[2]
        if python is not None:
            functools.update_wrapper(self, python)
            self._torchdynamo_inline = python

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if thread.tracer is not None:
            result = thread.tracer.compiled(self, args, kwargs)
            if result is not NotImplemented:
                return result
        return self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The call itself, which a trace does not look into."""
        if profiling and not is_in_script():
            with profiled(self.qualified_name.rpartition(".")[2], SCRIPT):
                return self._run(*args, **kwargs)
        return self._run(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        if self._python is not None:
            return run_scripted(self._python, *args, **kwargs)
        return run_code(self._script_unit.find(self.qualified_name), *args, **kwargs)

    @property
    def code(self) -> str:
        """The function in TorchScript."""
        return self._script_unit.texts[self.qualified_name]

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The code, and the tensors that it names."""
        return self.code, ConstMap(self._script_unit.constants)

    @property
    def graph(self) -> Any:
        """The function as a graph of operators."""
        from ._graph import graph_of

        return graph_of(self._script_unit, self.qualified_name)

    @property
    def inlined_graph(self) -> Any:
        """The graph, with what it calls in its place."""
        from ._graph import graph_of

        return graph_of(self._script_unit, self.qualified_name, inline=True)

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph that a call runs."""
        return self.graph

    @property
    def schema(self) -> Any:
        """Names, types and defaults of the arguments."""
        from ._graph import schema_of

        return schema_of(self._script_unit, self.qualified_name)

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction object at {id(self):#x}>"


class ConstMap:
    """Tensors that code names: ``c0`` and so on. Source: torch.jit._script.ConstMap."""

    def __init__(self, const_mapping: Any) -> None:
        self.const_mapping = const_mapping

    def __getattr__(self, name: str) -> Any:
        try:
            return self.const_mapping[int(name.removeprefix("c"))]
        except (ValueError, LookupError):
            raise AttributeError(name) from None


class ScriptModule(_Saved, Module):
    """A module with code in TorchScript.

    Programs of PyTorch's first versions derive from it and mark methods with ``script_method``; they are ordinary modules here,
    which ``script`` compiles.

    Source: torch.jit.ScriptModule.
    Example:
        >>> isinstance(torch.jit.script(nn.Linear(2, 3)), torch.jit.ScriptModule)
        True
    """


class RecursiveScriptModule(ScriptModule):
    """A module that was scripted, traced or loaded, whose submodules are such modules too.

    Args:
        unit: where its code is. kind: its class there.
        python: the module that it was made of, with the same attributes; the code runs when None.
    Shape:
        That of the module.
    Raises:
        NotImplementedError: at the call, a module without ``forward``.
    Attributes:
        original_name: name of the module's class.
    Source: torch.jit.RecursiveScriptModule.
    Example:
        >>> torch.jit.script(nn.ReLU())
        RecursiveScriptModule(original_name=ReLU)
    """

    _disable_script_meta = True

    def __init__(self, unit: Unit, kind: ScriptType, python: Module | None = None) -> None:
        super().__init__()
        members = self.__dict__
        if python is not None:
            members.update(python.__dict__)
            for registry in ("_modules", "_parameters", "_buffers"):
                members[registry] = dict(members[registry])
        members.update(_script_unit=unit, _script_type=kind, _script_python=None)
        if python is not None:
            twin = python.__class__.__new__(python.__class__)
            object.__setattr__(twin, "__dict__", members)
            members["_script_python"] = twin

    # -- calls ----------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if thread.tracer is not None:
            result = thread.tracer.compiled(self, args, kwargs)
            if result is not NotImplemented:
                return result
        return super().__call__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's ``forward``."""
        if profiling and not is_in_script():
            with profiled("forward", SCRIPT):
                return self._forward(*args, **kwargs)
        return self._forward(*args, **kwargs)

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        python = self.__dict__["_script_python"]
        if python is not None:
            return run_scripted(python.forward, *args, **kwargs)
        methods = self.__dict__["_script_type"].methods
        if "forward" not in methods:
            raise NotImplementedError(f'Module [{self.original_name}] is missing the required "forward" function')
        return run_code(methods["forward"], self, *args, **kwargs)

    def script_attribute(self, name: str) -> Any:
        """A member, as code of an archive reads it: what the class says it has, and nothing else.

        Raises:
            AttributeError: there is none of that name.
        """
        members = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in members[registry]:
                return members[registry][name]
        kind = members["_script_type"]
        if name in kind.constants:
            return kind.constants[name]
        if name in kind.fields and name in members and name not in _OWN:
            return members[name]
        if name in kind.methods:
            return kind.methods[name].__get__(self)
        raise AttributeError(f"'{kind.name}' object has no attribute or method '{name}'")

    def script_assign(self, name: str, value: Any) -> None:
        """Set a member from code of an archive."""
        if name not in self.__dict__["_script_type"].fields or self._is_reserved(name):
            raise AttributeError(f"'{self.__dict__['_script_type'].name}' object has no attribute '{name}'")
        if self.__dict__["_script_unit"].loading:
            self.set_state({name: value})  # of a ``__setstate__``: nothing is registered yet
        else:
            setattr(self, name, value)

    def _is_reserved(self, name: str) -> bool:
        """Whether a module needs an attribute for itself, so that no archive may set it."""
        return name in _OWN or name in _of_modules() or hasattr(type(self), name)

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in members.get(registry, ()):
                return members[registry][name]
        kind, python = members.get("_script_type"), members.get("_script_python")
        if python is not None and not name.startswith("_script") and hasattr(type(python), name):
            value = getattr(python, name)
            return functools.partial(run_scripted, value) if callable(value) and not isinstance(value, (Module, Tensor)) else value
        if kind is not None and name in kind.methods:
            return functools.partial(run_code, kind.methods[name], self)
        if kind is not None and name in kind.constants:
            return kind.constants[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    # -- as containers are ------------------------------------------------------------------------------------------------------
    def _contained(self, name: str, *args: Any) -> Any:
        python = self.__dict__["_script_python"]
        if python is not None and hasattr(type(python), name):
            return getattr(python, name)(*args)
        children = list(self._modules.values())
        if name == "__len__":
            return len(children)
        if name == "__iter__":
            return iter(children)
        return self._modules[args[0]] if isinstance(args[0], str) else children[args[0]]

    def __len__(self) -> int:
        return self._contained("__len__")

    def __iter__(self) -> Any:
        return self._contained("__iter__")

    def __getitem__(self, key: Any) -> Any:
        return self._contained("__getitem__", key)

    def __contains__(self, key: Any) -> bool:
        return key in self._modules or any(key is child for child in self._modules.values())

    def __bool__(self) -> bool:
        return True

    # -- code -----------------------------------------------------------------------------------------------------------------
    @property
    def original_name(self) -> str:
        """Name of the class that the module was made of."""
        return self._script_type.short_name

    def _method(self, name: str) -> str:
        return f"{self._script_type.name}.{name}"

    @property
    def code(self) -> str:
        """``forward`` in TorchScript."""
        from ._graph import code_of

        return code_of(self._script_unit, self._method("forward"))

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The code, and the tensors that it names."""
        return self.code, ConstMap(self._script_unit.constants)

    @property
    def graph(self) -> Any:
        """``forward`` as a graph of operators."""
        from ._graph import graph_of

        return graph_of(self._script_unit, self._method("forward"))

    @property
    def inlined_graph(self) -> Any:
        """The graph, with what it calls in its place."""
        from ._graph import graph_of

        return graph_of(self._script_unit, self._method("forward"), inline=True)

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph that a call runs."""
        return self.graph

    @property
    def forward_magic_method(self) -> Any:
        """PyTorch's hook for methods of containers; ``__len__`` and so on work by themselves here."""
        return self._contained

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def define(self, src: str) -> None:
        """Add methods, given in TorchScript: ``def scaled(self, x): ...``.

        Source: torch.jit.ScriptModule.define.
        """
        import textwrap

        kind, unit = self._script_type, self._script_unit
        text = textwrap.indent(textwrap.dedent(src).strip() + "\n", "  ")
        unit.replace(kind.name, unit.texts[kind.name] + text)
        self.__dict__["_script_type"] = unit.type(kind.name)

    def copy(self) -> Any:
        """A module over the same tensors. Source: torch.jit.RecursiveScriptModule.copy."""
        made = type(self).__new__(type(self))
        members = dict(self.__dict__)
        for registry in ("_parameters", "_buffers", "_modules"):
            members[registry] = dict(members[registry])
        object.__setattr__(made, "__dict__", members)
        members["_modules"] = {name: child.copy() for name, child in self._modules.items()}
        if members["_script_python"] is not None:
            cls: Any = type(self._script_python)
            twin = cls.__new__(cls)
            object.__setattr__(twin, "__dict__", members)
            members["_script_python"] = twin
        return made

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return from_above("jit._serialization").load(io.BytesIO(self.save_to_buffer()))

    def get_debug_state(self, *args: Any, **kwargs: Any) -> Any:
        """Not supported: there is no executor that has one."""
        raise NotImplementedError("ScriptModule.get_debug_state is not supported")

    # -- what archives are made of ----------------------------------------------------------------------------------------------
    def script_state(self) -> dict[str, tuple[Any, str]]:
        """Attributes that an archive has, with their types."""
        members, found = self.__dict__, {}
        kind = members["_script_type"]
        for name, annotation in kind.fields.items():
            if name in kind.constants:
                continue
            for registry in (members["_parameters"], members["_buffers"], members["_modules"], members):
                if name in registry:
                    found[name] = registry[name], annotation
                    break
            else:
                if name not in _STATELESS:
                    raise RuntimeError(f"torch.jit.save: the module {kind.name} lacks its attribute '{name}'")
                found[name] = None, annotation
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Take the attributes of an archive.

        Raises:
            RuntimeError: the class has no such attribute, or one that a module needs for itself.
        """
        kind, members = self._script_type, self.__dict__
        for name, value in state.items():
            if type(name) is not str or name not in kind.fields:
                raise RuntimeError(f"the archive has a value for {name!r:.100}, which {kind.name:.200} has no attribute for")
            if name in kind.parameters:
                members["_parameters"][name] = None if value is None else _parameter(value)
            elif name in kind.buffers:
                members["_buffers"][name] = value
            elif isinstance(value, Module):
                members["_modules"][name] = value
            elif name == "training":
                members["training"] = bool(value)
            elif name not in _STATELESS:
                if self._is_reserved(name):
                    raise RuntimeError(f"the archive's attribute '{name:.100}' of {kind.name:.200} is one that every module has")
                members[name] = value


def _parameter(value: Any) -> Any:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"the archive has {type(value).__name__} where a parameter is expected")
    return value if isinstance(value, Parameter) else Parameter(value.detach(), requires_grad=value.requires_grad)


class TracedModule(RecursiveScriptModule):
    """A module that was traced.

    Args:
        unit, kind, python: as of ``RecursiveScriptModule``.
    Source: torch.jit.TracedModule.
    Example:
        >>> traced = torch.jit.trace(nn.Sequential(nn.ReLU()), torch.ones(1))
        >>> isinstance(traced[0], torch.jit.TracedModule)
        True
    """

    def _get_name(self) -> str:
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """The outermost module that was traced.

    Args:
        unit, kind, python: as of ``RecursiveScriptModule``.
    Source: torch.jit.TopLevelTracedModule.
    Example:
        >>> torch.jit.trace(nn.ReLU(), torch.ones(1))
        ReLU(original_name=ReLU)
    """
