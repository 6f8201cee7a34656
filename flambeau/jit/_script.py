"""``torch.jit.script``: functions, modules and classes as TorchScript. Source: torch.jit._script."""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable
from typing import Any

from ..nn import Module
from . import _state
from ._annotations import UnknownType
from ._marks import export
from ._modules import ConstMap, RecursiveScriptModule, ScriptFunction, ScriptModule
from ._program import Program
from ._recursive import ModulesProgram
from ._source import split
from ._unit import Unit
from ._values import ScriptObject

__all__ = [
    "CompilationUnit", "ConstMap", "RecursiveScriptClass", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "interface", "script",
    "script_method",
]  # fmt: skip

RecursiveScriptClass = ScriptObject


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Compile a function, a module or a class to TorchScript, with its control flow.

    What is compiled is checked and can be saved; what runs is the Python itself.

    Args:
        obj: a function whose parameters are tensors or annotated; a module, with all submodules; a class; a list or dict, which is copied.
        optimize: ignored, deprecated.
        _frames_up, _rcb: ignored; PyTorch's own.
        example_inputs: not supported.
    Returns: a ``ScriptFunction``, a ``RecursiveScriptModule`` over the same parameters, or the class itself.
    Raises:
        torch.jit.frontend.NotSupportedError: syntax that TorchScript does not have.
        RuntimeError: a name, a type or an attribute that it does not have.
    Source: torch.jit.script.
    Example:
        >>> @torch.jit.script
        ... def signed(x, flip: bool):
        ...     if flip:
        ...         x = -x
        ...     return x
        >>> signed(torch.ones(2), True)
        tensor([-1., -1.])
        >>> torch.jit.script(nn.Linear(2, 3))
        RecursiveScriptModule(original_name=Linear)
    """
    if not _state._enabled:
        return obj
    if optimize is not None:
        warnings.warn("`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead", FutureWarning, 2)
    if example_inputs is not None:
        raise NotImplementedError("torch.jit.script: example_inputs, for which PyTorch needs MonkeyType, is not supported")
    if isinstance(obj, (RecursiveScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        obj = obj.__prepare_scriptable__() if hasattr(obj, "__prepare_scriptable__") else obj
        return ModulesProgram().module(obj)
    if isinstance(obj, (list, dict)):
        return obj.copy()
    if inspect.isclass(obj):
        return _script_class(obj)
    function = obj.__original_fn if hasattr(obj, "__script_if_tracing_wrapper") else obj
    if isinstance(function, types.MethodType) and isinstance(function.__self__, Module):
        raise RuntimeError("torch.jit.script: methods cannot be compiled by themselves; script the module")
    if not inspect.isroutine(function):
        raise TypeError(f"{type(obj)} is a built-in class" if type(obj).__module__ == "builtins" else f"cannot script {obj!r}")
    program = Program()
    name = program.function(function)
    return ScriptFunction(program.unit, name, function)


def _script_class(cls: type) -> type:
    if issubclass(cls, Module):
        raise RuntimeError(f"Type '{cls}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
    if len(cls.__mro__) > 2 and not hasattr(cls, "_fields") and not hasattr(cls, "__members__"):
        raise RuntimeError("TorchScript classes does not support inheritance yet. Please directly inherit from 'object'.")
    program = Program()
    try:
        name = program.class_name(cls)
    except UnknownType as error:
        raise RuntimeError(f"TorchScript cannot compile the class {error}") from None
    cls._script_compiled = program.unit, name  # type: ignore[attr-defined]
    return cls


def script_method(fn: Callable[..., Any], _rcb: Any = None) -> Callable[..., Any]:
    """Mark a method of a ``ScriptModule`` as compiled, as programs of PyTorch's first versions do; ``export`` is its successor.

    Args:
        fn: the method. _rcb: ignored; PyTorch's own.
    Returns: the method itself.
    Source: torch.jit.script_method.
    Example:
        >>> class Doubled(torch.jit.ScriptModule):
        ...     @torch.jit.script_method
        ...     def forward(self, x):
        ...         return 2 * x
        >>> torch.jit.script(Doubled())(torch.ones(1))
        tensor([2.])
    """
    return export(fn)


def interface(obj: Any) -> Any:
    """Mark a class as an interface: the type of a submodule, whose own class counts. A function's parameter cannot have it.

    Args:
        obj: the class.
    Returns: ``obj`` itself.
    Raises:
        RuntimeError: no class.
    Source: torch.jit.interface.
    Example:
        >>> @torch.jit.interface
        ... class Scaled:
        ...     def forward(self, x): ...
    """
    if not inspect.isclass(obj):
        raise RuntimeError("interface must be applied to a class")
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj


class CompilationUnit:
    """Functions that are given as text in TorchScript.

    Args:
        lang: the text: definitions of functions.
    Source: torch.jit.CompilationUnit.
    Example:
        >>> unit = torch.jit.CompilationUnit("def double(x):\\n    return x + x\\n")
        >>> unit.double(torch.ones(2))
        tensor([2., 2.])
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._unit = Unit()
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Add functions."""
        import textwrap

        for name, text in split(textwrap.dedent(lang).strip() + "\n", "__torch__"):
            text = _qualified_calls(text, [*self._functions, name.rpartition(".")[2]])
            self._unit.add(name, text)
            self._unit.find(name)
            last = name.rpartition(".")[2]
            self._functions[last] = ScriptFunction(self._unit, name)

    def find_function(self, name: str) -> Any:
        """A function; None if there is none of that name."""
        return self._functions.get(name)

    def get_functions(self) -> list[Any]:
        """The functions."""
        return list(self._functions.values())

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found


def _qualified_calls(text: str, names: list[str]) -> str:
    """Text in which functions of the unit are called by their qualified names."""
    import re

    head, _, rest = text.partition("(")
    for name in names:
        rest = re.sub(rf"(?<![\w.]){re.escape(name)}\(", f"__torch__.{name}(", rest)
    return f"{head}({rest}"
