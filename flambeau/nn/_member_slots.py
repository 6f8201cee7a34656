"""Fast reading of a module's parameters, buffers and submodules as attributes.

Members live in the registries ``_parameters``, ``_buffers`` and ``_modules``, not in the instance's ``__dict__``.  Plain Python finds
them through ``Module.__getattr__``, but only after the normal lookup failed, and before Python 3.12 that failure builds an exception:

    module.weight --> class (nothing) --> __dict__ (nothing) --> AttributeError --> __getattr__ --> _parameters["weight"]    420 ns
    module.weight --> class: ParameterSlot ----------------------------------------------------> _parameters["weight"]    105 ns

So registering a member also puts a *slot* of its name on the module's class: a descriptor without ``__set__``, which Python calls before
``__getattr__`` and after it has looked in the instance's ``__dict__``.  A slot only speeds up the lookup; programs see no difference:

* it serves exactly the class that it was made for.  For a subclass it continues the lookup, so that a later class in the method
  resolution order, or the subclass's own ``__getattr__``, still takes effect;
* it is not made where the class (or a base) has an attribute of that name, nor for classes with an own ``__getattr__``;
* where the registry does not have the name, and for reads on the class itself, it raises AttributeError as if it were not there.
"""

from __future__ import annotations

from typing import Any


class MemberSlot:
    """Descriptor of one member name on one class."""

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: type) -> None:
        self.name = name
        self.owner = owner

    def step_aside(self, module: Any, owner: type) -> Any:
        """Go on with the lookup as if this slot were not there."""
        if module is None:
            return getattr(super(self.owner, owner), self.name)
        return getattr(super(self.owner, module), self.name)


class ParameterSlot(MemberSlot):
    __slots__ = ()

    def __get__(self, module: Any, owner: type) -> Any:
        if owner is self.owner and module is not None:
            try:
                return module._parameters[self.name]
            except KeyError:
                pass
        return self.step_aside(module, owner)


class BufferSlot(MemberSlot):
    __slots__ = ()

    def __get__(self, module: Any, owner: type) -> Any:
        if owner is self.owner and module is not None:
            try:
                return module._buffers[self.name]
            except KeyError:
                pass
        return self.step_aside(module, owner)


class ModuleSlot(MemberSlot):
    __slots__ = ()

    def __get__(self, module: Any, owner: type) -> Any:
        if owner is self.owner and module is not None:
            try:
                return module._modules[self.name]
            except KeyError:
                pass
        return self.step_aside(module, owner)


def install(slot: type[MemberSlot], name: str, owner: type, plain_getattr: Any) -> None:
    """Give ``owner`` a slot for ``name``, unless it has one or must not have one.

    Args:
        slot: ParameterSlot, BufferSlot or ModuleSlot.
        plain_getattr: ``Module.__getattr__``; a class with another one handles every lookup itself.
    """
    present = owner.__dict__.get(name)
    if present.__class__ is slot:
        return
    if not isinstance(present, MemberSlot):
        if owner.__getattr__ is not plain_getattr or owner.__getattribute__ is not object.__getattribute__:  # type: ignore[attr-defined]
            return
        if not name.isidentifier() or is_class_attribute(owner, name):
            return
    type.__setattr__(owner, name, slot(name, owner))


def is_class_attribute(owner: type, name: str) -> bool:
    """Whether ``owner`` or a base defines ``name`` otherwise than by a slot."""
    return any(name in base.__dict__ and not isinstance(base.__dict__[name], MemberSlot) for base in owner.__mro__)
