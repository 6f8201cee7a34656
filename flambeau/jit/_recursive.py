"""Scripting of modules: each module of a tree becomes a class, with the methods that ``forward`` calls. Source: torch.jit._recursive."""

from __future__ import annotations

import inspect
import math
import re
import sys
import typing
from typing import Any

from ..nn import Module, Sequential
from ..nn.utils.rnn import PackedSequence
from ._annotations import UnknownType, arguments_of, type_text
from ._expressions import Expressions, Typed
from ._literals import literal, type_of
from ._modules import RecursiveScriptModule
from ._program import SELF, Method, Program, Signature, library_methods, read_signature
from ._source import parse
from ._unit import PYTHON
from ._written import attribute, members, qualified

_PACKAGE = __name__.partition(".")[0] + "."
_OF_PACKED = "forward__1"  # PyTorch's name of it
_STATE = frozenset(Module().__dict__) | {"_flat_weights", "_flat_weight_refs", "_flat_weights_names", "_all_weights"}


class _Attribute:
    """An attribute of a module that is data.

    Attributes:
        kind: its type. constant: whether its value is part of the code.
    """

    def __init__(self, kind: str, constant: bool) -> None:
        self.kind, self.constant = kind, constant


class ModuleProgram:
    """Knowledge of one module while it is compiled."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.scripted: Any = None  # the compiled module, once it is
        self.attributes: dict[str, _Attribute] = {}
        self.texts: dict[str, str] = {}
        self.signatures: dict[str, Signature] = {}
        self.open: set[str] = set()
        self.is_compiled = False


class ModulesProgram(Program):
    """Compiles a tree of modules into one unit."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, ModuleProgram] = {}

    # -- modules --------------------------------------------------------------------------------------------------------------
    def module(self, module: Module) -> RecursiveScriptModule:
        """Compile a module and those in it.

        Raises:
            NotImplementedError: it has hooks.
        """
        found = self.of(module)
        if found.scripted is not None:
            return found.scripted
        if isinstance(module, RecursiveScriptModule):
            found.scripted = self._adopted(module)
            return found.scripted
        self._compile(module)  # all of a tree first: a module may call other methods of those in it
        children = {name: self.module(child) for name, child in module._modules.items() if child is not None}
        kinds = {name: child._script_type.name for name, child in children.items()}
        name = self.unit.add_like(qualified(module), lambda name: self._text(found, kinds, name))
        for method, signature in found.signatures.items():
            self.signatures[f"{name}.{method}"] = signature
        scripted = RecursiveScriptModule(self.unit, self.unit.type(name), module)
        scripted.__dict__["_modules"].update(children)
        found.scripted = scripted
        return scripted

    def _compile(self, module: Module) -> None:
        """Compile the methods that can be called from outside, of those in it first."""
        found = self.of(module)
        if found.is_compiled or isinstance(module, RecursiveScriptModule):
            return
        found.is_compiled = True
        if module._forward_hooks or module._forward_pre_hooks:
            raise NotImplementedError(f"torch.jit.script: {type(module).__name__} has hooks, which are not supported")
        for child in module._modules.values():
            if child is not None:
                self._compile(child)
        for name in self._entry_points(module):
            self.method(module, name)

    def of(self, module: Module) -> ModuleProgram:
        """The knowledge of a module."""
        found = self.known.get(id(module))
        if found is None:
            found = self.known[id(module)] = ModuleProgram(module)
            if not isinstance(module, RecursiveScriptModule):
                found.attributes = self._attributes(module)
        return found

    def _adopted(self, module: RecursiveScriptModule) -> RecursiveScriptModule:
        """A compiled module as part of this unit, with the same tensors."""
        names: dict[str, str] = {}

        def copy(part: Any) -> Any:
            old = part._script_type.name
            if old not in names:
                names[old] = self.unit.adopt(part._script_unit, old)
            made = part.copy() if part is module else part
            made.__dict__.update(_script_unit=self.unit, _script_type=self.unit.type(names[old]))
            for name, child in made._modules.items():
                made._modules[name] = copy(child)
            return made

        return copy(module)

    def _entry_points(self, module: Module) -> list[str]:
        cls = type(module)
        names = [] if cls.forward is Module.forward and "forward" not in vars(module) else ["forward"]
        if getattr(cls.forward, "_torchscript_modifier", "").startswith("ignore"):
            names = []
        for name in dir(cls):
            if getattr(inspect.getattr_static(cls, name, None), "_torchscript_modifier", "").startswith("export") and name != "forward":
                names.append(name)
        return names

    def _text(self, found: ModuleProgram, kinds: dict[str, str], name: str) -> str:
        module = found.module
        lines = [f"class {name.rpartition('.')[2]}(Module):\n", *members(module, kinds)]
        for member, data in found.attributes.items():
            value = getattr(module, member)
            if data.constant and literal(value) is not None:
                lines.append(f"  {member} : Final[{data.kind}] = {literal(value)}\n")
            elif not data.constant:
                lines.append(f"  {member} : {data.kind}\n")
        return "".join([*lines, *found.texts.values()]).replace(SELF, name)

    # -- attributes -------------------------------------------------------------------------------------------------------------
    def _attributes(self, module: Module) -> dict[str, _Attribute]:
        cls = type(module)
        annotations = _class_annotations(cls)
        constants = {*getattr(cls, "__constants__", ()), *(name for name, kind in annotations.items() if _is_final(kind))}
        ours = cls.__module__.startswith(_PACKAGE)
        found = {}
        for name, value in module.__dict__.items():
            if name in _STATE or name.startswith("_script") or not name.isidentifier() or isinstance(value, Module):
                continue
            if ours and name.startswith("_"):
                continue
            constant = name in constants or (ours and literal(value) is not None)
            kind = type_of(value) if constant and ours else self._kind_of(annotations.get(name), value)
            if kind is not None and not (value is None and kind == "NoneType"):
                found[name] = _Attribute(kind, constant)
        return found

    def _kind_of(self, annotation: Any, value: Any) -> str | None:
        if annotation is not None:
            inner = typing.get_args(annotation)[0] if _is_final(annotation) and typing.get_args(annotation) else annotation
            if inner is not typing.Final:
                try:
                    return type_text(inner, self.class_name)
                except UnknownType:
                    return None
        return type_of(value)

    def member(self, base: Typed, name: str, context: Expressions, node: Any) -> Typed:
        """An attribute of a module."""
        module: Any = base.static
        path = f"{base.text}.{name}" if name.isidentifier() else f'getattr({base.text}, "{name}")'
        if name in module._modules:
            child = module._modules[name]
            return context.static(None) if child is None else Typed(path, None, child)
        for registry in (module._parameters, module._buffers):
            if name in registry:
                return context.static(None) if registry[name] is None else Typed(path, "Tensor")
        if name == "training":
            return Typed(path, "bool")
        attribute = self.of(module).attributes.get(name)
        if isinstance(module, RecursiveScriptModule):
            attribute = None if name not in module._script_type.fields else _Attribute(module._script_type.fields[name], False)
        if attribute is not None:
            return context.static(getattr(module, name)) if attribute.constant else Typed(path, attribute.kind)
        return self._other_member(base, name, context, node)

    def _other_member(self, base: Typed, name: str, context: Expressions, node: Any) -> Typed:
        """A method, a property, a constant of the class, or a function among the attributes."""
        module: Any = base.static
        found = inspect.getattr_static(type(module), name, None)
        if name in module.__dict__:
            value = module.__dict__[name]
            if value is None or callable(value):
                return context.static(value)
            raise context.source.error(
                f"Module '{type(module).__name__}' has no attribute '{name}' (This attribute exists on the Python module, but we failed to "
                f"convert Python type: '{type(value).__name__}' to a TorchScript type. Its type was inferred; try adding a type annotation "
                "for the attribute.)",
                node,
            )
        if isinstance(found, property):
            method = Method(base, name, found.fget)
            return self.call_method(context, method, None)
        if inspect.isfunction(found) or (isinstance(module, RecursiveScriptModule) and name in module._script_type.methods):
            return Typed("", None, Method(base, name, found))
        if isinstance(found, (staticmethod, classmethod)):
            return context.static(found.__func__ if isinstance(found, staticmethod) else found)
        if found is not None:
            return context.static(found)
        raise context.source.error(f"Module '{type(module).__name__}' has no attribute '{name}' ", node)

    def has_attribute(self, module: Any, name: str) -> bool:
        """Whether a module has an attribute that may be set."""
        return name in self.of(module).attributes or name in module._parameters or name in module._buffers or name == "training"

    def super_of(self, context: Any) -> Any:
        """The meaning of ``super()`` in a method: the module, with the methods of its bases."""
        owner, function = context.owner, context.function
        for cls in type(owner).__mro__:
            if any(inspect.unwrap(value) is function for value in vars(cls).values() if inspect.isfunction(value)):
                return _Super(owner, cls)
        raise context.source.error("super() is not supported here", context.source.tree)

    # -- methods ------------------------------------------------------------------------------------------------------------------
    def method(self, module: Any, name: str, function: Any = None) -> Signature:
        """Compile a method of a module."""
        found = self.of(module)
        if name in found.signatures:
            return found.signatures[name]
        if isinstance(module, RecursiveScriptModule):
            tree = next(part for part in module._script_unit.tree(module._script_type.name).body if getattr(part, "name", "") == name)
            return read_signature(tree, 1)
        written = library_methods(type(module)).get(name)
        if function is None and written is None:
            function = inspect.unwrap(getattr(type(module), name) if name not in vars(module) else vars(module)[name])
        if written is not None:
            return self._library_method(found, name, written)
        if function is inspect.unwrap(Sequential.forward):
            return self._chain(found, name)
        if name in found.open:
            raise RuntimeError(f"function '{name}' is called recursively. Recursive calls are not supported")
        found.open.add(name)
        signature, lines = self.compiled(function, module, {arguments_of(function)[0].name: Typed("self", None, module)})
        returns = f" -> {signature.returns}" if signature.returns else ""
        body = "\n".join([f"  {line}" for line in lines])
        found.texts[name] = f"  def {name}({signature.text(SELF)}){returns}:\n{body}\n"
        return found.signatures.setdefault(name, signature)

    def _library_method(self, found: ModuleProgram, name: str, written: str) -> Signature:
        """A method of one of the layers that the library has."""
        module = found.module
        text = _filled(written, module)
        for other in _paths(text):
            self.add_library(other)
        tree = parse(text, type(module).__name__)
        text = text.replace("self,", f"self: {SELF},", 1).replace("self)", f"self: {SELF})", 1)
        found.texts[name] = "".join([f"  {line}\n" for line in text.splitlines()])
        return found.signatures.setdefault(name, read_signature(tree, 1))

    def _chain(self, found: ModuleProgram, method: str) -> Signature:
        """``forward`` of a chain of modules: what the first takes, and the last gives."""
        children = list(found.module._modules.items())
        signatures = [self.method(child, "forward") for _, child in children]
        first = signatures[0].parameters[0][1] if signatures and signatures[0].parameters else "Tensor"
        last = signatures[-1].returns if signatures else first
        signature = Signature([("input", first, None)], last)
        text, lines = "input", []
        for place, (name, _) in enumerate(children):
            lines.append(f"    x{place} = ({attribute(name)}).forward({text})\n")
            text = f"x{place}"
        returns = f" -> {last}" if last else ""
        found.texts[method] = f"  def {method}({signature.text(SELF)}){returns}:\n{''.join(lines)}    return {text}\n"
        return found.signatures.setdefault(method, signature)

    def call_module(self, context: Expressions, target: Typed, node: Any) -> Typed:
        """A call of a module."""
        module: Any = target.static
        function = getattr(type(module).forward, "_torchscript_modifier", "")
        if function.startswith("ignore"):
            return Typed(f"{PYTHON}.{type(module).__name__}({context.arguments(node)})", "Tensor")
        name = self._form(context, module, node)
        signature = self.method(module, name)
        return Typed(f"({target.text}).{name}({self.arguments(context, node, signature, 'forward')})", signature.returns)

    def _form(self, context: Expressions, module: Any, node: Any) -> str:
        """The method that a call of a module is one of: layers that take packed sequences, too, have another one for these."""
        if _OF_PACKED not in library_methods(type(module)):
            return "forward"
        given = [*node.args[:1], *[keyword.value for keyword in node.keywords if keyword.arg == "input"]]
        is_packed = given and context.expression(given[0]).kind == self.class_name(PackedSequence)
        return _OF_PACKED if is_packed else "forward"

    def call_method(self, context: Expressions, method: Method, node: Any) -> Typed:
        """A call of a method of a module."""
        modifier = getattr(method.function, "_torchscript_modifier", "") if method.function is not None else ""
        if modifier.startswith("ignore"):
            return self.ignored(context, method.function, node)
        signature = self.method(method.base.static, method.name, method.function)
        arguments = "" if node is None else self.arguments(context, node, signature, method.name)
        return Typed(f"({method.base.text}).{method.name}({arguments})", signature.returns)


class _Super:
    """``super()``: attributes are methods of the bases of a class, compiled under names of their own."""

    def __init__(self, owner: Any, cls: type) -> None:
        self._owner, self._cls = owner, cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        mro = type(self._owner).__mro__
        for base in mro[mro.index(self._cls) + 1 :]:
            if name in vars(base):
                return Method(Typed("self", None, self._owner), f"{name}_of_{base.__name__}", inspect.unwrap(vars(base)[name]))
        raise AttributeError(name)


def _filled(text: str, module: Any) -> str:
    """Text of a method with the values of ``{attribute}``; ``{attribute!f}`` is one of type float."""

    def value(match: re.Match[str]) -> str:
        if match[1] in _DERIVED:
            return _DERIVED[match[1]](module)
        found: Any = getattr(module, match[1])
        found = list(found) if isinstance(found, tuple) else found
        return str(literal(float(found) if match[2] else found))

    return re.sub(r"\{(\w+)(!f)?\}", value, text)


def _momentum_of(module: Any) -> str:
    if module.momentum is None:
        return "(torch.div(1.0, float(self.num_batches_tracked)) if self.training else 0.0)" if module.track_running_stats else "0.0"
    return repr(float(module.momentum))


def _activation_of(module: Any) -> str:
    """The operator that a layer has as its activation."""
    name = getattr(module.activation, "__name__", "")
    if isinstance(module.activation, Module) or name not in ("relu", "gelu"):
        return "(self.activation).forward" if isinstance(module.activation, Module) else _refused(module, name)
    return f"torch.{name}"


def _refused(module: Any, what: str) -> str:
    raise NotImplementedError(f"torch.jit.script: {type(module).__name__} with the activation {what} is not supported")


def _layers_of(arguments: str) -> Any:
    """Lines that call the layers of a stack one after the other."""

    def lines(module: Any) -> str:
        paths = [attribute(f"layers.{place}") for place in range(len(module.layers))]
        return "\n  ".join([f"output = ({path}).forward(output, {arguments})" for path in paths]) or "pass"

    return lines


_OF_DECODER = "memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, False, False"


def _padded_of(module: Any) -> str:
    if module.padding_mode == "zeros":
        return "input"
    return f'torch.pad(input, {list(module._reversed_padding_repeated_twice)}, "{module.padding_mode}")'


def _padding_of(module: Any) -> str:
    if module.padding_mode != "zeros":
        return "0"
    return str(literal(list(module.padding) if isinstance(module.padding, tuple) else module.padding))


# What methods of the library say about a layer beside its attributes.
_DERIVED: dict[str, Any] = {
    "_batch_dim": lambda module: "0" if module.batch_first else "1",
    "_state_count": lambda module: str(module.num_layers * (2 if module.bidirectional else 1)),
    "_output_size": lambda module: str(module.proj_size or module.hidden_size),
    "_weight_names": lambda module: ", ".join([f"self.{name}" for names in module._all_weights for name in names]),
    "_function": lambda module: module.mode.lower(),
    "_allowed_dims": lambda module: str(list(module._allowed_dims)),
    "_allowed_text": lambda module: f'"{" or ".join(map(str, module._allowed_dims))}"',
    "_unbatched": lambda module: str(module._allowed_dims[0]),
    "_running": lambda module: "self.running_mean, self.running_var" if module.track_running_stats else "None, None",
    "_by_batch": lambda module: "self.training" if module.track_running_stats else "True",
    "_momentum": _momentum_of,
    "_count_batch": lambda module: (
        "if self.training:\n    _0 = torch.add_(self.num_batches_tracked, 1)\n  else:\n    pass" if module.track_running_stats else "pass"
    ),
    "_cell": lambda module: "gru_cell" if not hasattr(module, "nonlinearity") else f"rnn_{module.nonlinearity}_cell",
    "_activation": _activation_of,
    "_places": lambda module: str(math.prod(module.window_size)),
    "_encoder_layers": _layers_of("mask, src_key_padding_mask, False"),
    "_decoder_layers": _layers_of(_OF_DECODER),
    "_padded": _padded_of,
    "_padding": _padding_of,
    "_normed": lambda module: "output" if module.norm is None else "(self.norm).forward(output)",
    "_root": lambda module: repr(float(module.head_dim) ** 0.5),
}


def _paths(text: str) -> list[str]:
    from ._program import _LIBRARY_PATH, library

    return [name for name in dict.fromkeys(_LIBRARY_PATH.findall(text)) if name in library()]


def _class_annotations(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        try:
            found.update(inspect.get_annotations(base, eval_str=True))
        except Exception:  # a name that is only known to type checkers
            found.update({name: kind for name, kind in inspect.get_annotations(base).items() if not isinstance(kind, str)})
    return found


def _is_final(annotation: Any) -> bool:
    return annotation is typing.Final or typing.get_origin(annotation) is typing.Final


def _register() -> None:
    """Tell the compiler about functions of modules above it."""
    from .. import overrides
    from . import _marks, _special

    _special.add_jit_functions(
        _marks.annotate, _marks.isinstance, _marks._unwrap_optional, vars(sys.modules[_PACKAGE[:-1]])["is_tensor"],
        [overrides.has_torch_function],
    )  # fmt: skip


_register()
