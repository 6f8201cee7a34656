"""Doors: the functions that users call, generated per operation so that the usual case takes a handful of bytecodes.

The usual case is: every operand is exactly a ``Tensor`` (or ``Parameter``), operands share one of the common dtypes, no mode is
on, no ``out=``.  Then the door runs the kernel on the arrays, wraps the result, and, if an operand requires grad, puts a node
on the tape, all inline: no ``*args``, no signature binding, no context manager.  Anything else, and any exception, goes to
``dispatch.long``, which does the same job with every check and raises the error that the user should see.

What a generated door looks like (``mul``):

    def mul(input, other, *, out=None):
        if (input.__class__ is Tensor or input.__class__ is Parameter) and not modes.active and out is None:
            a = input._array
            d = a.dtype
            if other.__class__ is Tensor or other.__class__ is Parameter:
                b = other._array
                if b.dtype is d and (d is F32 or d is F64 or d is I64 or d is B8):
                    try:
                        r = quiet(kernel, a, b)
                    except Exception:
                        return long(op, (input, other), out)
                    ...wrap, record, return
            elif ...a Python number...
        return long(op, (input, other), out)

Set ``FLAMBEAU_SHOW_DOORS=1`` to print each door as it is made.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from . import dispatch
from .derivatives import Item
from .dispatch import BOOL, KEEP, REQUIRED, SAME, Op
from .history import view_of
from .node import Saved
from .state import modes, quiet, run_quietly, thread, tick
from .tensor import Parameter, Tensor, storage_of

_SHOW = bool(os.environ.get("FLAMBEAU_SHOW_DOORS"))
_ENVIRONMENT = {
    "Tensor": Tensor,
    "Parameter": Parameter,
    "modes": modes,
    "thread": thread,
    "quiet": quiet,
    "run_quietly": run_quietly,
    "tick": tick,
    "new": object.__new__,
    "ndarray": np.ndarray,
    "asarray": np.asarray,
    "long": dispatch.long,
    "long_inplace": dispatch.long_inplace,
    "long_inplace_view": dispatch.long_inplace_view,
    "storage_of": storage_of,
    "view_of": view_of,
    "Saved": Saved,
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "B8": np.dtype(np.bool_),
}


def _plain(name: str) -> str:
    return f"({name}.__class__ is Tensor or {name}.__class__ is Parameter)"


class _Source:
    """Lines of a door being written, with the environment it will run in."""

    def __init__(self, op: Op):
        self.op, self.lines, self.env = op, [], dict(_ENVIRONMENT, op=op)

    def add(self, indent: int, *lines: str) -> None:
        self.lines += ["    " * indent + line for line in lines]

    def compile(self, name: str) -> Any:
        text = "\n".join(self.lines)
        if _SHOW:
            print(text, end="\n\n")
        exec(compile(text, f"<door of {self.op.name}>", "exec"), self.env)
        made = self.env[name]
        made.__module__ = "torch._C._nn" if self.op.namespace == "nn.functional" else "torch"
        made.__doc__, made.__qualname__ = self.op.doc, name
        return made


def signature_of(op: Op, source: _Source, with_out: bool) -> str:
    """The parameter list of a door, defaults passed through the environment."""
    parts, starred = [], False
    for p in op.params:
        if p.keyword_only and not starred:
            parts.append("*")
            starred = True
        if p.default is REQUIRED:
            parts.append(p.name)
        else:
            source.env[f"default_{p.name}"] = p.default
            parts.append(f"{p.name}=default_{p.name}")
    if with_out:
        parts += ([] if starred else ["*"]) + ["out=None"]
    return ", ".join(parts)


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"


def saved_source(item: Item, op: Op, numbers: frozenset[str] = frozenset()) -> str:
    """Expression for one saved thing, under the condition that some gradient needs it."""
    if item.source == "result":
        value = "Saved(r, storage_of(t))"
    else:
        value = op.names[item.position or 0]
    operands = [n for n in op.names if n in item.needed_for and n not in numbers]
    if not operands:
        return "None"
    if len([n for n in op.node.inputs if n not in numbers]) == len(operands):
        return value  # some input requires grad, or the node would not be made; every one of them needs this
    return f"({value} if {' or '.join(_requires(op, n) for n in operands)} else None)"


def _requires(op: Op, name: str) -> str:
    kind = op.params[op.names.index(name)].kind
    return f"({name} is not None and {name}._requires_grad)" if kind == "optional" else f"{name}._requires_grad"


def attr_source(item: Item, op: Op, numbers: frozenset[str] = frozenset()) -> str:
    name = op.names[item.position or 0]
    if item.source == "attr":
        return name
    if name in numbers:
        return "()" if item.source == "shape" else "None"
    if op.params[item.position or 0].kind == "optional":
        return f"(None if {name} is None else {name}.{'_array.shape' if item.source == 'shape' else item.source})"
    return {"shape": f"{name}._array.shape", "dtype": f"{name}.dtype", "strides": f"{name}.stride()"}[item.source]


def _add_wrap(source: _Source, indent: int) -> None:
    """Lines that make tensor ``t`` around array ``r``."""
    op = source.op
    source.add(indent, "t = new(Tensor)", "t._array = r")
    if op.is_view:
        source.add(
            indent,
            "storage = input._storage",
            "if storage is None: storage = storage_of(input)",
            "t._storage = storage",
            "if modes.all_grad or thread.grad: t._view_of = input if input._view_of is None else input._view_of",
            "else: t._view_of = view_of(input)",
            "storage._add_alias(t)",
        )
    else:
        source.add(indent, "t._storage = t._view_of = None")


def _add_record(source: _Source, indent: int, numbers: frozenset[str] = frozenset()) -> None:
    """Lines that put the call on the tape if needed, and return ``t``."""
    op = source.op
    if op.rules is None:
        source.add(indent, "t._node = None", "t._requires_grad = False", "return t")
        return
    kind = op.node
    source.env["Kind"] = kind
    inputs = [n for n in kind.inputs if n not in numbers]
    if not inputs:
        source.add(indent, "t._node = None", "t._requires_grad = False", "return t")
        return
    edges = []
    for n in kind.inputs:
        if n in numbers:
            edges.append("None")
        elif len(inputs) == 1 and op.params[op.names.index(n)].kind != "optional":
            edges.append(f"({n} if {n}._node is None else {n}._node)")
        else:
            edges.append(f"(({n} if {n}._node is None else {n}._node) if {_requires(op, n)} else None)")
    integer_results = op.promotion in (KEEP, SAME)
    guard = " and r.dtype.kind in 'fcV'" if integer_results else ""
    source.add(indent, f"if ({' or '.join(_requires(op, n) for n in inputs)}) and (modes.all_grad or thread.grad){guard}:")
    source.add(
        indent + 1,
        "n = new(Kind)",
        f"n.edges = {_tuple(edges)}",
        f"n.saved = {_tuple([saved_source(i, op, numbers) for i in kind.tensors])}",
        f"n.attrs = {_tuple([attr_source(i, op, numbers) for i in kind.others])}",
        "n.shape = r.shape",
        "n.dtype = r.dtype",
        "n.hooks = None",
        "n.seq = tick()",
        "t._node = n",
        "t._requires_grad = True",
    )
    source.add(indent, "else:", "    t._node = None", "    t._requires_grad = False", "return t")


def _add_call(source: _Source, indent: int, arguments: str, fallback: str, check: bool) -> None:
    """Lines that run the kernel; whatever goes wrong is the long way's to explain."""
    op = source.op
    source.add(indent, "try:", f"    r = quiet(kernel, {arguments})", "except Exception:", f"    return {fallback}")
    if not getattr(op, "ufunc", None) or op.fast is not op.ufunc:
        source.add(indent, f"if r is None: return {fallback}")
    if check:
        source.add(indent, f"if r.dtype is not d: return {fallback}")
    source.add(indent, "if r.__class__ is not ndarray: r = asarray(r)")


def make_door(op: Op, name: str | None = None, *, operator: bool = False) -> Any:
    """The public function of ``op`` (for an operator: of two arguments, NotImplemented for foreign operands)."""
    name = name or op.name
    source = _Source(op)
    params = op.params
    with_out = op.out and not operator
    if operator:
        shown = [p for p in params if p.default is REQUIRED]
        header = ", ".join(p.name for p in shown)
        for p in params:
            if p not in shown:
                source.env[p.name] = p.default
        fallback = f"operator_long(op, {_tuple([p.name for p in params])})"
        source.env["operator_long"] = operator_long
    else:
        header = signature_of(op, source, with_out)
        fallback = f"long(op, {_tuple([p.name for p in params])}{', out' if with_out else ''})"
    source.add(0, f"def {name}({header}):")
    if op.fast is not None:
        _add_fast(source, fallback, with_out, operator)
    source.add(1, f"return {fallback}")
    made = source.compile(name)
    made.__wrapped__ = op.kernel
    return made


def _add_fast(source: _Source, fallback: str, with_out: bool, operator: bool) -> None:
    op = source.op
    source.env["kernel"] = op.fast
    operands = [p for p in op.params if p.kind in ("tensor", "number", "optional")]
    lists = [p for p in op.params if p.kind == "list"]
    if lists:
        raise TypeError(f"{op.name}: an operation that takes a list of tensors has no generated short way")
    first, rest = operands[0], operands[1:]
    conditions = [_plain(first.name), "not modes.active"]
    if with_out:
        conditions.append("out is None")
    # a ufunc takes operands only; its other arguments must have their defaults
    attrs = [p.name for p in op.params if p.kind == "attr"]
    passed = [] if op.fast is op.ufunc else attrs
    if op.fast is op.ufunc and not operator:
        conditions += [f"{n} is default_{n}" for n in attrs]
    number = next((p for p in rest if p.kind == "number"), None)
    strict = [p for p in rest if p is not number]
    for p in strict:
        conditions.append(f"({p.name} is None or {_plain(p.name)})" if p.kind == "optional" else _plain(p.name))
    source.add(1, f"if {' and '.join(conditions)}:")
    source.add(2, f"a = {first.name}._array", "d = a.dtype")
    arrays = {first.name: "a"}
    same = []
    for k, p in enumerate(strict):
        arrays[p.name] = f"b{k}"
        if p.kind == "optional":
            source.add(2, f"b{k} = None if {p.name} is None else {p.name}._array")
            same.append(f"(b{k} is None or b{k}.dtype is d)")
        else:
            source.add(2, f"b{k} = {p.name}._array")
            same.append(f"b{k}.dtype is d")
    check = op.promotion in ("default", "int_to_float", "bool_to_long")
    gate = [] if op.promotion == KEEP else [*same, "(d is F32 or d is F64 or d is I64 or d is B8)"]
    def arguments(extra: dict[str, str]) -> str:
        names = {**arrays, **extra}
        order = []
        for p in op.params:
            if p.name in names:
                order.append(names[p.name])
            elif p.name in passed:
                order.append(f"{p.name}={p.name}" if p.keyword_only and op.fast is op.kernel else p.name)
        return ", ".join(order)
    if number is None:
        indent = 2
        if gate:
            source.add(2, f"if {' and '.join(gate)}:")
            indent = 3
        _add_call(source, indent, arguments({}), fallback, check)
        _add_wrap(source, indent)
        _add_record(source, indent)
        return
    n = number.name
    source.add(2, f"if {_plain(n)}:", f"    b = {n}._array")
    source.add(3, f"if {' and '.join(['b.dtype is d', *gate])}:" if gate else "if True:")
    _add_call(source, 4, arguments({n: "b"}), fallback, check)
    _add_wrap(source, 4)
    _add_record(source, 4)
    source.add(2, f"elif ({n}.__class__ is float or {n}.__class__ is int){' and (d is F32 or d is F64 or d is I64)' if gate else ''}:")
    _add_call(source, 3, arguments({n: n}), fallback, check)
    _add_wrap(source, 3)
    _add_record(source, 3, frozenset((n,)))


def operator_long(op: Op, values: tuple[Any, ...]) -> Any:
    """The long way of an operator: operands that are neither tensors nor numbers get their chance with NotImplemented."""
    for i in op.positions:
        value = values[i]
        if not isinstance(value, Tensor) and not dispatch.is_number(value):
            if hasattr(type(value), "__torch_function__"):
                continue
            return NotImplemented
    return dispatch.long(op, values)


def make_reflected(op: Op, name: str) -> Any:
    """``__rsub__`` and the like: the operation with its operands exchanged."""
    door = make_door(op, name, operator=True)

    def reflected(self: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor):
            return door(other, self)
        if not dispatch.is_number(other):
            return NotImplemented
        return dispatch.long(op, (other, self, *[p.default for p in op.params[2:]]))

    reflected.__name__ = reflected.__qualname__ = name
    return reflected


def make_inplace(op: Op, name: str, *, operator: bool = False) -> Any:
    """``f_``: the operation with its result written into its first operand."""
    source = _Source(op)
    params = op.params
    if operator:
        shown = [p for p in params if p.default is REQUIRED]
        header = ", ".join(p.name for p in shown)
        for p in params:
            if p not in shown:
                source.env[p.name] = p.default
    else:
        header = signature_of(op, source, False)
    values = _tuple([p.name for p in params])
    fallback = f"long_inplace_view(op, {values})" if op.is_view else f"long_inplace(op, {values})"
    source.add(0, f"def {name}({header}):")
    if op.ufunc is not None and op.fast is op.ufunc:
        _add_fast_inplace(source, fallback, operator)
    source.add(1, f"return {fallback}")
    made = source.compile(name)
    made.__doc__ = f"In-place version of :func:`torch.{op.name}`."
    return made


def _add_fast_inplace(source: _Source, fallback: str, operator: bool) -> None:
    """The short way of an in-place ufunc: nothing to record, memory that is surely not overlapping, equal dtypes."""
    op = source.op
    source.env["kernel"] = op.ufunc
    operands = [p for p in op.params if p.kind in ("tensor", "number")]
    attrs = [p.name for p in op.params if p.kind == "attr"]
    conditions = [_plain("input"), "not modes.active"]
    if not operator:
        conditions += [f"{n} is default_{n}" for n in attrs]
    source.add(1, f"if {' and '.join(conditions)}:")
    source.add(2, "a = input._array", "d = a.dtype")
    if len(operands) == 1:
        source.add(2, "if (not input._requires_grad or not (modes.all_grad or thread.grad)) and (d is F32 or d is F64 or d is I64):")
        _add_inplace_call(source, 3, "a, a", fallback)
        return
    n = operands[1].name
    source.add(2, f"if {_plain(n)}:", f"    b = {n}._array")
    source.add(
        3,
        f"if b.dtype is d and (d is F32 or d is F64 or d is I64) and (not (input._requires_grad or {n}._requires_grad) "
        "or not (modes.all_grad or thread.grad)):",
    )
    _add_inplace_call(source, 4, "a, b, a", fallback)
    source.add(
        2,
        f"elif ({n}.__class__ is float or {n}.__class__ is int) and (d is F32 or d is F64 or d is I64) and "
        "(not input._requires_grad or not (modes.all_grad or thread.grad)):",
    )
    _add_inplace_call(source, 3, f"a, {n}, a", fallback)


def _add_inplace_call(source: _Source, indent: int, arguments: str, fallback: str) -> None:
    source.add(
        indent,
        "storage = input._storage",
        "if storage is None: storage = storage_of(input)",
        "if (input._view_of is None or a.flags.c_contiguous) and not storage.is_inference:",
        "    try:",
        f"        quiet(kernel, {arguments})",
        "    except Exception:",
        f"        return {fallback}",
        "    storage.version += 1",
        "    storage.changed = tick()",
        "    return input",
    )


__all__ = ["BOOL", "KEEP", "SAME", "make_door", "make_inplace", "make_reflected", "operator_long"]
