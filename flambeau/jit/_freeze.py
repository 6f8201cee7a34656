"""``torch.jit.freeze`` and what prepares modules for inference. Source: torch.jit._freeze."""

from __future__ import annotations

import re
from typing import Any

from ..core.tensor import Tensor
from ._modules import RecursiveScriptModule, ScriptModule
from ._unit import Unit

__all__ = ["freeze", "optimize_for_inference", "run_frozen_optimizations"]


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """A module in evaluation mode whose parameters and attributes are part of its code.

    The result has ``forward`` (and what ``preserved_attrs`` names) and no parameters, and cannot be trained.

    Args:
        mod: a compiled module in evaluation mode.
        preserved_attrs: attributes and methods to keep.
        optimize_numerics: whether PyTorch may fold layers into each other; nothing is folded here, the numbers stay.
    Returns: a ``RecursiveScriptModule``.
    Raises:
        RuntimeError: ``mod`` is not compiled, or is in training.
    Source: torch.jit.freeze.
    Example:
        >>> frozen = torch.jit.freeze(torch.jit.script(nn.Linear(2, 1).eval()))
        >>> list(frozen.parameters()), frozen(torch.ones(1, 2)).shape
        ([], torch.Size([1, 1]))
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    assert isinstance(mod, RecursiveScriptModule)
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    preserved = list(preserved_attrs or ())
    for name in preserved:
        if not hasattr(mod, name):
            raise RuntimeError(f"Unknown name: {name}")
    return _Frozen(mod, preserved).made


class _Frozen:
    """Writes classes whose parameters, buffers and ``training`` are constants of the code."""

    def __init__(self, mod: RecursiveScriptModule, preserved: list[str]) -> None:
        self.unit = Unit()
        self.old = mod._script_unit
        places = {place: self.unit.constant(tensor) for place, tensor in enumerate(self.old.constants)}
        self.names: dict[int, str] = {}
        self.preserved = preserved
        for name in self.old.reachable(mod._script_type.name):
            text = self.old.texts[name]
            if text.startswith("def "):
                self.unit.add(name, self._with_constants(text, places))
        self.places = places
        self.made = self._module(mod, True)

    def _with_constants(self, text: str, places: dict[int, str]) -> str:
        return re.sub(r"\bCONSTANTS\.c(\d+)\b", lambda match: places[int(match[1])], text)

    def _module(self, mod: Any, outermost: bool = False) -> Any:
        kind = mod._script_type
        children = {name: self._module(child) for name, child in mod._modules.items()}
        values = {name: tensor for registry in (mod._parameters, mod._buffers) for name, tensor in registry.items()}
        kept = {name: values.pop(name) for name in self.preserved if outermost and name in values}
        methods = _methods_of(self.old.texts[kind.name])
        texts = [self._frozen_text(text, values, mod) for text in methods.values()]

        def text(name: str) -> str:
            lines = [f"class {name.rpartition('.')[2]}(Module):\n", "  __parameters__ = []\n", "  __buffers__ = []\n"]
            lines += [f"  {member} : Tensor\n" for member in kept] + ["  training : bool\n"]
            for member, annotation in kind.fields.items():
                if member not in values and member not in kept and member not in children and member != "training":
                    lines.append(_line_of(self.old.texts[kind.name], member) or f"  {member} : {annotation}\n")
            for member, child in children.items():
                of = child._script_type.name
                lines.append(f"  {member} : {of}\n" if member.isidentifier() else f'  __annotations__["{member}"] = {of}\n')
            return "".join([*lines, *texts]).replace(f"self: {kind.name}", f"self: {name}")

        name = self.unit.add_like(kind.name, text)
        made = RecursiveScriptModule(self.unit, self.unit.type(name))
        attributes = {member: mod.__dict__[member] for member in kind.fields if member in mod.__dict__}
        made.__dict__.update(attributes, training=False, _modules=children)
        made.__dict__.update({member: tensor.detach() for member, tensor in kept.items()})
        return made

    def _frozen_text(self, text: str, values: dict[str, Any], mod: Any) -> str:
        text = self._with_constants(text, self.places)
        text = re.sub(r"\bself\.training\b", "False", text)

        def constant(match: re.Match[str]) -> str:
            found = self._attribute(mod, match[0])
            return match[0] if found is None else found

        return re.sub(r"\bself(?:\.\w+)+|\bself\.\w+", constant, text)

    def _attribute(self, mod: Any, path: str) -> str | None:
        """The constant for ``self.a.weight``."""
        owner = mod
        names = path.split(".")[1:]
        for place, name in enumerate(names):
            if name in owner._modules:
                owner = owner._modules[name]
                continue
            for registry in (owner._parameters, owner._buffers):
                if name in registry:
                    value = registry[name]
                    if owner is mod and name in self.preserved:
                        return None
                    rest = "".join([f".{word}" for word in names[place + 1 :]])
                    return ("None" if value is None else self._constant(value)) + rest
            return None
        return None

    def _constant(self, tensor: Any) -> str:
        if id(tensor) not in self.names:
            assert isinstance(tensor, Tensor)
            self.names[id(tensor)] = self.unit.constant(tensor.detach())
        return self.names[id(tensor)]


def _methods_of(text: str) -> dict[str, str]:
    found = re.findall(r"^(  def (\w+)\(.*?)(?=^  def |\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: body for body, name in found}


def _line_of(text: str, member: str) -> str | None:
    match = re.search(rf"^  {re.escape(member)} : .*\n", text, re.MULTILINE)
    return None if match is None else match[0]


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None) -> None:
    """Fold the layers of a frozen module, as PyTorch does: nothing is folded here.

    Args:
        mod: the module. optimize_numerics, preserved_methods: as of ``freeze``.
    Source: torch.jit.run_frozen_optimizations.
    Example:
        >>> torch.jit.run_frozen_optimizations(torch.jit.freeze(torch.jit.script(nn.ReLU().eval())))
    """


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """A module in evaluation mode, frozen.

    Args:
        mod: a compiled module.
        other_methods: methods to keep beside ``forward``.
    Returns: the frozen module.
    Raises:
        RuntimeError: ``mod`` is not compiled.
    Source: torch.jit.optimize_for_inference.
    Example:
        >>> traced = torch.jit.trace(nn.Linear(2, 1).eval(), torch.ones(1, 2))
        >>> len(list(torch.jit.optimize_for_inference(traced).parameters()))
        0
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    return freeze(mod.eval(), preserved_attrs=other_methods) if list(mod.parameters()) or mod.training else mod
