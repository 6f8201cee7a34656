"""Machine code for what every call of a module does: reading members, going through a ``Sequential``, calling a ``Linear``.

It takes over when that of operations has (``core/calls/machine_calls.py``), and does what the lines in Python do. It leaves to them what is
unusual: a forward, a call or ``linear`` that a program has exchanged, and everything once there are hooks.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import partial
from typing import Any

from ..core.calls import machine_calls
from ..core.calls.registry import primitive
from ..kernels.compiler.language import Value
from ..kernels.fastpath import records
from ..kernels.fastpath.code import Code, builtin, loaded
from ..kernels.fastpath.forms import Form
from ..kernels.fastpath.interpreter import Unsupported, api, require, word
from ..kernels.fastpath.objects import Function
from . import _module_hooks as hooks, containers, functional, linear, module
from ._member_slots import BufferSlot, MemberSlot, ModuleSlot, ParameterSlot

_REGISTRIES = {ParameterSlot: "_parameters", BufferSlot: "_buffers", ModuleSlot: "_modules"}
_GET = 54  # CPython's number of tp_descr_get
_BASE, _WRAPPED = 40, 48  # of a descriptor of a type's slot: what the slot is, and the function in it


def _item(k: Function, dictionary: Value, key: Any) -> Value:
    """An item (borrowed) of a dictionary, or null."""
    return k.call_c("PyDict_GetItemWithError", "ptr", dictionary, key if isinstance(key, Value) else k.object(key))


# -- members ----------------------------------------------------------------------------------------------------------------------------
def _reader(code: Code, slot: type[MemberSlot]) -> str:
    """``__get__(descriptor, module, owner)`` of a kind of members."""
    k = Function(code, f"read{_REGISTRIES[slot]}", "descriptor", "module", "owner")
    descriptor, owned, owner = k.operands
    k.require(k.exists(owned) & k.same(k.slot(descriptor, MemberSlot, "owner"), owner))
    attributes = k.call_c("PyObject_GenericGetDict", "ptr", owned, k.null)
    k.check(k.exists(attributes))
    registry = _item(k, attributes, _REGISTRIES[slot])
    k.call_c("Py_DecRef", None, attributes)  # the module has it
    is_there = k.when(k.exists(registry), lambda: k.is_exactly(registry, dict), lambda: k.const(False, "b1"))
    k.require(is_there)
    member = _item(k, registry, k.slot(descriptor, MemberSlot, "name"))
    k.require(k.exists(member))
    k.give(k.incref(member))

    def otherwise() -> Value:
        arguments, none = k.scratch(3, "ptr"), k.object(None)
        for place, operand in enumerate(k.operands):
            k.store(k.pick(k.exists(operand), operand, none), arguments, place, "ptr")
        function = k.object(slot.__get__)  # type: ignore[attr-defined]
        return k.call_c("PyObject_Vectorcall", "ptr", function, arguments, k.i64(3), k.null)

    return k.finish(otherwise)


def _bind(slot: type[MemberSlot], address: int) -> None:
    """Put a function into a class's slot for ``__get__`` by a descriptor, as CPython's own classes do."""
    model = property.__dict__["__get__"]
    api.PyType_GetSlot.restype, api.PyType_GetSlot.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    require(api.PyType_GetSlot(property, _GET) == word(id(model) + _WRAPPED), "descriptors of slots lie otherwise")
    new = api.PyDescr_NewWrapper
    new.restype, new.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
    slot.__get__ = new(slot, word(id(model) + _BASE), address)  # type: ignore[attr-defined]


# -- calls ------------------------------------------------------------------------------------------------------------------------------
class _Call(Form):
    """A call of modules."""

    def calls_are_plain(self, kind: Value) -> Value:
        """Whether calls of modules of a class do nothing but call ``forward``."""
        registered = _item(self, self.object(vars(hooks)), "registered")
        found = self.call_c("_PyType_Lookup", "ptr", kind, self.object("__call__"))
        return self.same(registered, self.object(False)) & self.same(found, self.object(module.Module.__call__))

    def linear_is_plain(self) -> Value:
        """Whether ``Linear.forward`` and ``linear`` are those of the library."""
        forward = self.call_c("_PyType_Lookup", "ptr", self.object(linear.Linear), self.object("forward"))
        function = _item(self, self.object(vars(functional)), "linear")
        return self.same(forward, self.object(linear.Linear.forward)) & self.same(function, self.object(functional.linear))

    def linear_result(self, layer: Value, x: Value) -> Value:
        """A ``Linear``'s result (owned), or null where Python has to call it."""
        attributes = self.call_c("PyObject_GenericGetDict", "ptr", layer, self.null)
        self.check(self.exists(attributes))
        registry = _item(self, attributes, "_parameters")
        replaced = self.exists(_item(self, attributes, "forward"))
        self.call_c("Py_DecRef", None, attributes)
        usable = self.when(self.exists(registry), lambda: self.is_exactly(registry, dict), lambda: self.const(False, "b1"))

        def members() -> tuple[Value, Value]:
            return _item(self, registry, "weight"), _item(self, registry, "bias")

        weight, bias = self.when(usable & ~replaced, members, lambda: (self.null, self.null))

        def call() -> Value:
            given = self.scratch(3, "ptr")
            for place, thing in enumerate((x, weight, bias)):
                self.store(thing, given, place, "ptr")
            for thing in (weight, bias):
                self.incref(thing)
            function = self.word(records.EXTRA, element="ptr")
            result = self.call_c("PyObject_Vectorcall", "ptr", function, given, self.i64(3), self.null)
            for thing in (weight, bias):
                self.call_c("Py_DecRef", None, thing)
            self.check(self.exists(result))
            return self.when(self.same(result, self.object(None)), lambda: self._dropped(result), lambda: result)

        return self.when(self.exists(weight) & self.exists(bias), call, lambda: self.null)

    def _dropped(self, thing: Value) -> Value:
        self.call_c("Py_DecRef", None, thing)
        return self.null


def _linear(code: Code) -> str:
    """``f(layer, inputs)`` of a ``Linear``."""
    k = _Call(code, "linear_layer")
    k.require_count(2)
    layer, inputs = k.argument(0), k.argument(1)
    k.require(k.field(inputs, 16, "i64").eq(1))
    k.require(k.calls_are_plain(k.object(linear.Linear)))
    k.require(k.linear_is_plain())
    result = k.linear_result(layer, k.field(inputs, k.interpreter.tuple_items))
    k.require(k.exists(result))
    k.give(result)
    return k.finish()


def _sequence(code: Code) -> str:
    """``f(modules, input)``: the modules in a dictionary, one after the other."""
    k = _Call(code, "sequence")
    k.require_count(2)
    modules, x = k.argument(0), k.argument(1)
    k.require(k.is_exactly(modules, dict))
    listed = k.own(k.call_c("PyDict_Values", "ptr", modules))
    k.check(k.exists(listed))
    count = k.field(listed, 16, "i64")
    k.incref(x)
    given = k.scratch(2, "ptr")

    def call(i: Value, x: Value) -> Value:
        child = k.load(k.field(listed, k.interpreter.list_items), i, "ptr")
        kind = k.type_of(child)
        plain = k.calls_are_plain(kind)
        is_linear = plain & k.same(kind, k.object(linear.Linear))
        k.own(x)

        def quick() -> Value:
            return k.when(k.linear_is_plain(), lambda: k.linear_result(child, x), lambda: k.null)

        found = k.when(is_linear, quick, lambda: k.null)

        def usual() -> Value:
            k.store(child, given, 0, "ptr")
            k.store(x, given, 1, "ptr")

            def forward() -> Value:
                return k.call_c("PyObject_VectorcallMethod", "ptr", k.object("forward"), given, k.i64(2), k.null)

            def whole() -> Value:
                return k.call_c("PyObject_Vectorcall", "ptr", child, k.at(given, 1, "ptr"), k.i64(1), k.null)

            return k.when(plain, forward, whole)

        result = k.when(k.exists(found), lambda: found, usual)
        k.check(k.exists(result))
        k.own(result)
        same_size = k.call_c("PyDict_Size", "i64", modules).eq(count)

        def complain() -> None:
            k.call_c("PyErr_SetObject", None, k.object(RuntimeError), k.object("dictionary changed size during iteration"))

        k.when(~same_size, complain)
        k.check(same_size)
        k.disown(result)
        k.call_c("Py_DecRef", None, k.disown(x))
        return result

    result = k.loop(0, count, call, carried=(x,))
    k.call_c("Py_DecRef", None, k.disown(listed))
    k.give(result)
    return k.finish()


def _is_untouched() -> bool:
    """Whether calls, ``Linear.forward`` and ``linear`` are still the library's: machine code tells by what it finds when it is loaded."""
    own = ((module.Module.__call__, module), (linear.Linear.forward, linear))
    is_own = all(getattr(function, "__globals__", None) is vars(its_module) for function, its_module in own)
    return is_own and functional.linear is functional._find("linear")


def _load() -> None:
    """Load it, and have it take over."""
    require(_is_untouched(), "a program has exchanged what machine code does, before it was there")
    quick = machine_calls.found(primitive("linear", "nn.functional"), "whole")
    if quick is None:
        return
    names, addresses = loaded("modules", [_linear, _sequence, *[partial(_reader, slot=slot) for slot in _REGISTRIES]])
    record = records.Record()
    record.keep(records.EXTRA, quick)
    for slot, name in zip(_REGISTRIES, names[2:], strict=True):
        _bind(slot, addresses[name])
    containers.sequence.append(builtin("sequence", addresses[names[1]], record))
    module.call_quickly = builtin("linear", addresses[names[0]], record)
    module.quick_class = linear.Linear


def take_over() -> None:
    """Load it where this interpreter allows that."""
    with suppress(Unsupported, RuntimeError, ImportError, OSError):  # no such interpreter, no compiler, no memory that may be executed
        _load()
