"""Wrappers: the functions that users call, generated per operation so that the usual case takes a handful of bytecodes.

The usual case is: every operand is exactly a ``Tensor`` (or ``Parameter``), operands share one of the common dtypes, no mode is
on, no ``out=``.  Then the wrapper runs the kernel on the arrays, wraps the result, and, if an operand requires grad, puts a node
on the tape, all inline: no ``*args``, no signature binding, no context manager.  Anything else, and a kernel's own errors, go to
``dispatch``, which does the same job with every check and raises the error that the user should see.  What a signal handler
raises while a kernel runs is no error of the kernel (``interruption``) and is passed on.

What a generated wrapper looks like (``mul``):

    def mul(input, other, *, out=None):
        if (input.__class__ is Tensor or input.__class__ is Parameter) and not (active and in_mode()) and out is None:
            a = input._array
            d = a.dtype
            if other.__class__ is Tensor or other.__class__ is Parameter:
                b = other._array
                if b.dtype is d and (d is F32 or d is F64 or d is I64 or d is B8):
                    try:
                        r = ignoring_fp(kernel, a, b)
                    except Exception as error:
                        if is_interruption(error): raise
                        return dispatch(op, (input, other), out)
                    ...wrap, record, return
            elif ...a Python number...
        return dispatch(op, (input, other), out)

Set ``FLAMBEAU_SHOW_WRAPPERS=1`` to print each wrapper as it is made.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
import weakref
from typing import Any

import numpy as np

from ..arrays import native
from ..arrays.kinds import as_array, host
from ..dtype import BY_NUM
from ..shape import overlaps_itself
from ..state import INFERENCE, active, clock, ignoring_fp, in_mode, run_ignoring_fp, thread, tick, without_grad
from ..tape.derivatives import Item
from ..tape.history import inherited, view_of
from ..tape.node import Output
from ..tape.saved import check_saved, complain_inference
from ..tensor import Parameter, Tensor, new_storage, storage_of
from .casting import is_number
from .creation import require_grad
from .dispatch import FACTORY, IN_PLACE, IN_PLACE_VIEW, dispatch, dispatch_old_order
from .interruption import GENERATED, is_interruption, source_files
from .operation import BOOL, KEEP, REQUIRED, SAME, Op, Param
from .return_types import named_result
from .scalars import FLOATS32, FLOATS64, INTS32, INTS64

NO_MODE = "not (active and in_mode())"  # no mode is on, or none of this thread
_CHECKED = ("default", "int_to_float", "bool_to_long")  # where the fast path's result has the operands' dtype, or the slow path is taken
_INT = np.dtype(np.int64).char
_PACKAGE = __name__.partition(".")[0]
_SHOW = bool(os.environ.get("FLAMBEAU_SHOW_WRAPPERS"))
_ENVIRONMENT = {
    "Tensor": Tensor,
    "Parameter": Parameter,
    "active": active,
    "in_mode": in_mode,
    "thread": thread,
    "without_grad": without_grad,
    "ignoring_fp": ignoring_fp,
    "run_ignoring_fp": run_ignoring_fp,
    "tick": tick,
    "INFERENCE": INFERENCE,
    "complain_inference": complain_inference,
    "check_saved": check_saved,
    "clock": clock,
    "new": object.__new__,
    "BY_NUM": BY_NUM,
    "ndarray": np.ndarray,
    "asarray": as_array,
    "host_array": np.asarray,
    "dispatch": dispatch,
    "dispatch_old_order": dispatch_old_order,
    "IN_PLACE": IN_PLACE,
    "IN_PLACE_VIEW": IN_PLACE_VIEW,
    "storage_of": storage_of,
    "is_interruption": is_interruption,
    "complain_missing": None,  # set below
    "complain_many": None,
    "nothing": REQUIRED,
    "view_of": view_of,
    "ref": weakref.ref,
    "new_storage": new_storage,
    "Output": Output,
    "FLOATS32": FLOATS32,
    "FLOATS64": FLOATS64,
    "INTS32": INTS32,
    "INTS64": INTS64,
    "inherited": inherited,
    "overlaps_itself": overlaps_itself,
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "B8": np.dtype(np.bool_),
}


def _plain(name: str) -> str:
    return f"({name}.__class__ is Tensor or {name}.__class__ is Parameter)"


def _edge(name: str, otherwise: str = "None") -> str:
    """Expression for the edge to an operand, as ``node.edge_of`` makes it."""
    return f"(({name} if {name}._node is None else {name}._node) if {name}._requires_grad else {otherwise})"


class _Source:
    """Lines of a wrapper being written, with the environment it will run in."""

    def __init__(self, op: Op):
        self.op = op
        self.lines: list[str] = []
        self.has_guard = False  # whether parameter ``_`` stands before those that are passed by keyword only
        self.first = "a"  # where the first operand's array is
        self.arrays: dict[str, str] = {}  # where the operands' arrays are, by parameter
        self.env = dict(_ENVIRONMENT, op=op)

    def add(self, indent: int, *lines: str) -> None:
        self.lines += ["    " * indent + line for line in lines]

    def compile(self, name: str) -> Any:
        text = "\n".join(self.lines)
        if _SHOW:
            print(text, end="\n\n")
        exec(compile(text, f"{GENERATED}{name}>", "exec"), self.env)
        function = self.env[name]
        function.__module__ = public_module(self.op.namespace)
        function.__doc__, function.__qualname__ = self.op.doc, name
        return function


def public_module(namespace: str) -> str:
    """The module where pickle finds the functions of a namespace."""
    return _PACKAGE if namespace in ("torch", "Tensor") else f"{_PACKAGE}.{namespace}"


def signature_of(op: Op, source: _Source, with_out: bool) -> str:
    """The parameter list of a wrapper, defaults passed through the environment; other spellings follow as keywords.

    Python spends 10 ns on each keyword-only parameter that is left out.  A parameter ``_``, which nobody may pass, takes the place of
    the star where it can.
    """
    parts, starred = [], False
    others = op.other_keywords
    star = "*more" if op.old_orders else "*" if any(p.keyword_only and p.default is REQUIRED for p in op.params) else "_=nothing"
    for p in op.params:
        if p.keyword_only and not starred:
            parts.append(star)
            starred = True
        if p.default is REQUIRED and p.name in others.values():
            source.env["REQUIRED"] = REQUIRED
            parts.append(f"{p.name}=REQUIRED")
        elif p.default is REQUIRED and any("=" in part for part in parts) and not starred:
            source.env["REQUIRED"] = REQUIRED
            parts.append(f"{p.name}=REQUIRED")
        elif p.default is REQUIRED:
            parts.append(p.name)
        else:
            source.env[f"default_{p.name}"] = p.default
            parts.append(f"{p.name}=default_{p.name}")
    if (with_out or others) and not starred:
        parts.append(star)
    if with_out:
        parts.append("out=None")
    source.has_guard = "_=nothing" in parts
    return ", ".join([*parts, *[f"{name}=None" for name in others]])


def add_other_keywords(op: Op, source: _Source, form: str) -> None:
    """Lines that refuse too many arguments or put them in order, and that give a parameter the value passed under another spelling.

    The slow path complains where there is none at all.
    """
    if source.has_guard:
        source.add(1, "if _ is not nothing: complain_many(op)")
    if op.old_orders:
        placed, keywords = (_tuple([p.name for p in op.params if p.keyword_only == word]) for word in (False, True))
        source.add(1, f"if more: return dispatch_old_order(op, {placed} + more, {keywords}, {form})")
    for other, name in op.other_keywords.items():
        source.add(1, f"if {other} is not None: {name} = {other}")


def complain_missing(op: Op, name: str) -> None:
    raise TypeError(f'{op.name}() missing 1 required positional arguments: "{name}"')


def complain_many(op: Op) -> None:
    count = sum(not p.keyword_only for p in op.params)
    raise TypeError(f"{op.name}() takes {count} positional argument{'s' if count != 1 else ''} but more were given")


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"


def saved_source(item: Item, op: Op, numbers: frozenset[str] = frozenset()) -> str:
    """Expression for one saved thing, under the condition that some gradient needs it."""
    if item.source == "result":
        k = item.position
        value = "(r, new_storage(t), None)"
        if op.is_multi_output:
            value = f"(r[{k}], new_storage({f'output{k}' if op.returns is not None else f'outputs[{k}]'}), {k})"
    else:
        value = op.names[item.position or 0]
    condition = _condition(item, op, numbers)
    return value if condition == "True" else "None" if condition == "False" else f"({value} if {condition} else None)"


def _condition(item: Item, op: Op, numbers: frozenset[str]) -> str:
    """Expression for whether something is needed by an input that requires grad."""
    operands = [n for n in op.names if n in item.needed_for and n not in numbers]
    if len([n for n in op.node.inputs if n not in numbers]) == len(operands):
        return "True" if operands else "False"  # some input requires grad, or the node would not be made; all of them need this
    return " or ".join(_requires(op, n) for n in operands) or "False"


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
    return {"shape": f"{name}._array.shape", "dtype": f"BY_NUM[{name}._array.dtype.num]", "strides": f"{name}.stride()"}[item.source]


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
            "if not without_grad or thread.grad: t._view_of = input if input._view_of is None else input._view_of",
            "else: t._view_of = view_of(input)",
            "aliases = storage._aliases",
            "if aliases:",  # as a rule the last view is dead, and its place is free
            "    last = aliases.pop()",
            "    if last() is not None:",
            "        aliases.append(last)",
            "        storage._room -= 1",
            "        if not storage._room: aliases = storage._prune()",
            "else:",
            "    aliases = storage_of(input)._aliases",
            "aliases.append(ref(t))",
        )
    else:
        source.add(indent, "t._storage = t._view_of = None")


def _add_inference_check(source: _Source, indent: int, numbers: frozenset[str]) -> dict[str, str]:
    """Refuse tensors of inference mode that would be saved: lines for operands without edge, for others what stands in place of no edge."""
    op, otherwise = source.op, {}
    for item in op.node.tensors:
        name = op.names[item.position or 0]
        if item.source != "operand" or name in numbers or op.params[item.position or 0].kind == "list":
            continue
        condition = _condition(item, op, numbers)
        if name in op.node.inputs:
            complain = "complain_inference()" if condition == "True" else f"complain_inference() if {condition} else None"
            if condition != "False":
                otherwise[name] = f"(None if {name}._requires_grad is False else {complain})"
        else:
            present = f"{name} is not None and " if op.params[item.position or 0].kind == "optional" else ""
            test = "" if condition == "True" else f" and ({condition})"
            source.add(indent, f"if {present}{name}._requires_grad is INFERENCE{test}: complain_inference()")
    return otherwise


def _add_record(source: _Source, indent: int, numbers: frozenset[str] = frozenset()) -> None:
    """Lines that put the call on the tape if needed, and return ``t``."""
    op = source.op
    checked = op.promotion in _CHECKED
    guard, dtype = "", "d" if checked else "a.dtype" if op.is_view else "r.dtype"
    if not checked and not op.is_view and op.promotion in (KEEP, SAME):  # an operand that requires grad is floating point or complex
        alike = op.promotion == SAME or sum(p.kind != "attr" for p in op.params) == 1
        guard = f" and ({'r.dtype is d or ' if alike else ''}r.dtype.kind in 'fcV')"
    unrecorded = "inherited(input, r) if input._requires_grad else input._requires_grad" if op.is_view else _UNRECORDED
    if _recorded_inputs(op, numbers):
        source.add(indent, "if not without_grad or (g := thread.grad):")
        _add_node(source, indent + 1, numbers, "r.shape", dtype, guard, asked=True)
        source.add(indent + 2, "t._node = n", "t._requires_grad = True", "return t")
        if not op.is_view:
            source.add(indent + 1, "g = False")
            unrecorded = "g"
    source.add(indent, "t._node = None", f"t._requires_grad = {unrecorded}", "return t")


_UNRECORDED = "thread.grad and False if without_grad else False"  # ``state.unrecorded`` without the call


def _recorded_inputs(op: Op, numbers: frozenset[str]) -> list[str]:
    """The operands that may require grad."""
    return [n for n in op.node.inputs if n not in numbers] if op.rules is not None else []


def _add_node(source: _Source, indent: int, numbers: frozenset[str], shape: str, dtype: str, guard: str, *, asked: bool = False) -> bool:
    """Lines that make node ``n`` of a call with an input that requires grad; False where the call is never recorded.

    Args:
        guard: a further condition; asked: whether it is known that this thread records.
    """
    op = source.op
    inputs = _recorded_inputs(op, numbers)
    if not inputs:
        return False
    kind = source.env[f"Kind{op.name}"] = op.node
    recording = "" if asked else " and (not without_grad or thread.grad)"
    source.add(indent, f"if ({' or '.join(_requires(op, n) for n in inputs)}){recording}{guard}:")
    otherwise = _add_inference_check(source, indent + 1, numbers)
    edges = []
    for n in kind.inputs:
        edge = _edge(n, otherwise.get(n, "None"))
        if n in numbers:
            edges.append("None")
        elif len(inputs) == 1 and op.params[op.names.index(n)].kind != "optional":
            edges.append(f"({n} if {n}._node is None else {n}._node)")
        else:
            edges.append(edge if op.params[op.names.index(n)].kind != "optional" else f"(None if {n} is None else {edge})")
    source.add(
        indent + 1,
        f"n = Kind{op.name}()",
        f"n.edges = {_tuple(edges)}",
        f"n.saved = {_tuple([saved_source(i, op, numbers) for i in kind.tensors])}",
        f"n.attrs = {_tuple([attr_source(i, op, numbers) for i in kind.others])}",
        f"n.shape = {shape}",
        f"n.dtype = {dtype}",
        "n.hooks = None",
        "n.seq = next(clock)",
    )
    return True


def _add_outputs(source: _Source, indent: int, numbers: frozenset[str]) -> None:
    """Lines that wrap a tuple of results, record the call if needed, and return the tuple."""
    op = source.op
    source.env["package"] = named_result(op.result_name, op.returns) if op.returns is not None else tuple
    if op.returns is not None:
        _add_named(source, indent, numbers, range(len(op.returns)))
        return
    source.add(
        indent,
        "outputs = []",
        "for a in r:",
        "    t = new(Tensor)",
        "    t._array = a",
        "    t._storage = t._view_of = t._node = None",
        f"    t._requires_grad = {_UNRECORDED}",
        "    outputs.append(t)",
    )
    if _add_node(source, indent, numbers, "tuple([a.shape for a in r])", "tuple([a.dtype for a in r])", ""):
        source.add(
            indent + 1,
            "for k, t in enumerate(outputs):",
            "    if t._array.dtype.kind in 'fcV':",
            "        t._node = Output(n, k)",
            "        t._requires_grad = True",
        )
    source.add(indent, "return package(outputs)")


def _add_named(source: _Source, indent: int, numbers: frozenset[str], places: range) -> None:
    """As ``_add_outputs``, without loops, for a number of results that the declaration tells."""
    tensors, results = [f"output{k}" for k in places], [f"r{k}" for k in places]
    source.add(indent, f"{_tuple(results)} = r")
    for k, (t, r) in enumerate(zip(tensors, results, strict=True)):
        source.add(indent, f"{t} = new(Tensor)", f"{t}._array = {r}", f"{t}._storage = {t}._view_of = {t}._node = None")
        source.add(indent, f"{t}._requires_grad = {_UNRECORDED if k == 0 else 'output0._requires_grad'}")
    shape, dtype = _tuple([f"{r}.shape" for r in results]), _tuple([f"{r}.dtype" for r in results])
    if _add_node(source, indent, numbers, shape, dtype, ""):
        alike = "e is d or " if source.op.promotion == SAME else ""  # then d is the dtype of an operand that requires grad
        for k in places:
            source.add(indent + 1, f"e = r{k}.dtype", f"if {alike}e is not I64 and e.kind in 'fcV':")
            source.add(indent + 2, f"output{k}._node = e = new(Output)", "e.node = n", f"e.index = {k}", f"output{k}._requires_grad = True")
    source.add(indent, f"return package({_tuple(tensors)})")


def _add_finish(source: _Source, indent: int, numbers: frozenset[str] = frozenset()) -> None:
    """Lines from the kernel's result to the caller's."""
    if source.op.is_multi_output and not source.op.is_multi_view:
        _add_outputs(source, indent, numbers)
    else:
        _add_wrap(source, indent)
        _add_record(source, indent, numbers)


def scalar_source(name: str) -> str:
    """Line that looks up a Python number as a 0-d array ``b`` of the other operand's dtype."""
    floats = f"FLOATS32[{name}] if d is F32 else FLOATS64[{name}] if d is F64 else {name}"
    return f"b = ({floats}) if {name}.__class__ is float else INTS32[{name}] if d is F32 else {name} if d is F64 else INTS64[{name}]"


def _sized_kernel(source: _Source) -> str:
    """Expression for the kernel to call: the native one, where the array kind has one for so much work."""
    choice = host.choice_for(source.op)
    if choice is None:
        return "kernel"
    choice.bind(source.env)
    return f"(kernel if {_work_source(source, choice.work)} < {choice.threshold} else large)"


def _work_source(source: _Source, work: str | None) -> str:
    """A call's work as an expression over the wrapper's variables."""
    if work is None:
        return f"{source.first}.size"
    _add_names(source, work)
    source.env["prod"] = math.prod
    return re.sub(r"\b[a-z]\w*\b", lambda name: source.arrays.get(name[0], name[0]), work)


def _expression_source(source: _Source, expression: str) -> str:
    """The expression of a fast path, with its native kernel ``large`` and the work from which on that is called, ``THRESHOLD``."""
    choice = host.choice_for(source.op)
    if choice is None:
        return expression
    choice.bind(source.env)
    return expression.replace("THRESHOLD", str(choice.threshold))


def _add_call(source: _Source, indent: int, arguments: str, fallback: str, check: bool, before: str | None = None) -> None:
    """Lines that run the kernel (after line ``before``); whatever goes wrong is the slow path's to explain."""
    op = source.op
    if isinstance(op.fast, str):
        call = _expression_source(source, op.fast)
    elif op.is_view or op.fp_safe:
        call = f"{_sized_kernel(source)}({arguments})"
    else:
        call = f"ignoring_fp({_sized_kernel(source)}, {arguments})"
    source.add(indent, "try:", *([] if before is None else [f"    {before}"]), f"    r = {call}")
    _add_fallback(source, indent, fallback)
    declines = op.fast is not op.ufunc and (not isinstance(op.fast, str) or "None" in op.fast or "large(" in op.fast)
    declined = f"if r is None: return {fallback}"
    if declines and (check or op.is_view or op.is_multi_output):
        source.add(indent, declined)
        declines = False
    if op.is_multi_output:
        return
    if check:
        source.add(indent, f"if r.dtype is not d: return {fallback}")
    if not op.is_view:
        # a ufunc may have been given another kind's array; other kernels gave NumPy's scalar
        as_array = f"r = {'asarray' if op.fast is op.ufunc else 'host_array'}(r)"
        source.add(indent, "if r.__class__ is not ndarray:", *([f"    {declined}"] if declines else []), f"    {as_array}")


def _add_fallback(source: _Source, indent: int, fallback: str, *undo: str) -> None:
    """Lines that answer a kernel's error by the slow path, and pass on what interrupted it (after lines ``undo``)."""
    op = source.op
    own = source_files(op.kernel, op.fast)
    test = f"if is_interruption(error{''.join(f', {operand!r}' for operand in own)}):"
    source.add(indent, f"except {'BaseException' if undo else 'Exception'} as error:", f"    {test}")
    source.add(indent + 2, *undo, "raise")
    source.add(indent, f"    return {fallback}")


def make_wrapper(op: Op, name: str | None = None, *, operator: bool = False) -> Any:
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
        fallback = f"operator_slow(op, {_tuple([p.name for p in params])})"
        source.env["operator_slow"] = operator_slow
    else:
        header = signature_of(op, source, with_out)
        fallback = f"dispatch(op, {_tuple([p.name for p in params])}{', out' if with_out else ''})"
    source.add(0, f"def {name}({header}):")
    if not operator:
        add_other_keywords(op, source, "out" if with_out else "None")
    if op.inplace and any(p.name == "inplace" for p in params):
        source.add(1, f"if inplace: return dispatch(op, {_tuple([p.name for p in params])}, None, IN_PLACE)")
    if op.fast is not None:
        _add_fast(source, fallback, with_out, operator)
    source.add(1, f"return {fallback}")
    function = source.compile(name)
    function.__wrapped__ = function.kernel = op.kernel
    return function


def make_factory(entry: Any) -> Any:
    """The public function of a factory."""
    source = _Source(entry)
    source.env.update(FACTORY=FACTORY, require_grad=require_grad)
    parts, starred = [], False
    for p in [*entry.params, *([Param("out", "", None, True)] if entry.out else [])]:
        if p.keyword_only and not starred:
            parts.append("*")
        starred = starred or p.keyword_only or p.kind == "rest"
        source.env[f"default_{p.name}"] = p.default
        parts.append(f"*{p.name}" if p.kind == "rest" else p.name if p.default is REQUIRED else f"{p.name}=default_{p.name}")
    source.add(0, f"def {entry.name}({', '.join(parts)}):")
    fallback = f"dispatch(op, {_tuple(list(entry.names))}, {'out' if entry.out else 'None'}, FACTORY)"
    if entry.fast is not None:
        first = entry.params[0]
        conditions = [_plain(first.name), f"{first.name}._array.__class__ is ndarray"] if first.kind == "tensor" else []
        conditions += [f"{name} is None" for name in ("out",) * entry.out + entry.option_names if name in ("out", "layout", "device")]
        conditions += ["not pin_memory"] * ("pin_memory" in entry.option_names) + [NO_MODE]
        source.add(1, f"if {' and '.join(conditions)}:")
        _add_names(source, entry.fast)
        if first.kind == "tensor":
            source.add(2, f"a = {first.name}._array")
        source.add(2, "try:", f"    r = {entry.fast}")
        _add_fallback(source, 2, fallback)
        source.add(2, "if r is not None:")
        source.add(3, "t = new(Tensor)", "t._array = r", "t._storage = t._node = t._view_of = None", f"t._requires_grad = {_UNRECORDED}")
        source.add(3, "return require_grad(t) if requires_grad else t" if "requires_grad" in entry.option_names else "return t")
    source.add(1, f"return {fallback}")
    function = source.compile(entry.name)
    function.kernel = entry.body
    return function


def make_getitem(select: Op, part: Op, general: Any) -> Any:
    """``__getitem__``: a fast path for one int or one slice, taken by ``select`` and ``part``; ``general`` does everything else."""
    source = _Source(select)
    source.env["general"] = general
    source.env.update(Select=select.node, Part=part.node, everything=slice(None))
    source.add(0, "def __getitem__(input, key):")
    source.add(1, f"if {_plain('input')} and {NO_MODE}:", "    a = input._array", "    given = key")
    source.add(2, "if key.__class__ is int:", "    key = (key, ...)", "    Kind = Select")
    source.add(2, "elif key.__class__ is slice:", "    if key.step is not None: return general(input, key)", "    Kind = Part")
    source.add(
        2,
        "elif key.__class__ is tuple and key:",
        "    Kind = Part",
        "    for p in key:",
        "        if p.__class__ is int: Kind = Select",
        "        elif p.__class__ is not slice or p.step is not None: return general(input, key)",
        "        elif p != everything: Kind = Part",
        "    key = (*key, ...)",
        "else:",
        "    return general(input, key)",
    )
    source.add(2, "try:", "    r = a[key]")
    _add_fallback(source, 2, "general(input, given)")
    _add_wrap(source, 2)
    _add_record(source, 2)
    source.lines = [line.replace(f"Kind{select.name}()", "Kind()") for line in source.lines]
    source.add(1, "return general(input, key)")
    return source.compile("__getitem__")


def make_sized(op: Op, name: str, general: Any) -> Any:
    """The method ``view`` or ``reshape``: a fast path for sizes given one by one over row-major memory; ``general`` does the rest."""
    source = _Source(op)
    source.env["general"] = general
    has_keywords = any(p.kind is p.KEYWORD_ONLY for p in inspect.signature(general).parameters.values())
    named, none_named = (", **named", " and not named") if has_keywords else ("", "")
    source.add(0, f"def {name}(input, *shape{named}):")
    source.add(1, f"if shape and shape[0].__class__ is int and {_plain('input')} and {NO_MODE}{none_named}:")
    source.add(2, "a = input._array", "if a.flags.c_contiguous:")
    source.add(3, "try:", "    r = a.reshape(shape)")
    _add_fallback(source, 3, "general(input, *shape)")
    _add_wrap(source, 3)
    _add_record(source, 3)
    source.add(1, f"return general(input, *shape{named})")
    function = source.compile(name)
    function.__doc__, function.__wrapped__ = general.__doc__, general
    return function


def _add_fast(source: _Source, fallback: str, with_out: bool, operator: bool) -> None:
    op = source.op
    source.env["kernel"] = op.fast
    if isinstance(op.fast, str):
        _add_names(source, op.fast)
    operands = [p for p in op.params if p.kind in ("tensor", "number", "optional")]
    lists = [p for p in op.params if p.kind == "list"]
    if lists:
        if len(lists) != 1 or operands or op.params[0] is not lists[0]:
            raise TypeError(f"{op.name}: the fast path for lists of tensors needs one list, first, and no further operand")
        _add_fast_list(source, lists[0].name, fallback, with_out)
        return
    first, rest = operands[0], operands[1:]
    conditions = [_plain(first.name), NO_MODE]
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
    if op.fast is not op.ufunc and not op.is_view:  # ufuncs and views ask the array itself
        source.add(2, f"if a.__class__ is not ndarray: return {fallback}")
    arrays = source.arrays = {first.name: "a"}
    same = []
    for k, p in enumerate(strict):
        arrays[p.name] = f"b{k}"
        if p.kind == "optional":
            source.add(2, f"b{k} = None if {p.name} is None else {p.name}._array")
            same.append(f"(b{k} is None or b{k}.dtype is d)")
        else:
            source.add(2, f"b{k} = {p.name}._array")
            same.append(f"b{k}.dtype is d")
    check = op.promotion in _CHECKED
    allowed = f"(d is F32 or d is F64 or d is I64{' or d is B8' if op.fast_bool else ''})"
    if check and not _keeps_dtype(op, "fd" + _INT + ("?" if op.fast_bool else "")) and _keeps_dtype(op, "fd"):
        allowed = "(d is F32 or d is F64)"  # the results of others are not what PyTorch's are
    check_tensors = check and not _keeps_dtype(op, "fd")
    gate = [] if op.promotion == KEEP else [*same, allowed]

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
        _add_call(source, indent, arguments({}), fallback, check_tensors)
        _add_finish(source, indent)
        return
    n = number.name
    source.add(2, f"if {_plain(n)}:", f"    b = {n}._array")
    source.add(3, f"if {' and '.join(['b.dtype is d', *gate])}:" if gate else "if True:")
    _add_call(source, 4, arguments({n: "b"}), fallback, check_tensors)
    _add_finish(source, 4)
    # an integer tensor and a float number are compared in the default float dtype
    is_float = f"({n}.__class__ is float and d is not I64)" if gate and not check else f"{n}.__class__ is float"
    source.add(2, f"elif ({is_float} or {n}.__class__ is int){' and (d is F32 or d is F64 or d is I64)' if gate else ''}:")
    as_array = op.fast is op.ufunc
    _add_call(source, 3, arguments({n: "b" if as_array else n}), fallback, check, scalar_source(n) if as_array else None)
    _add_finish(source, 3, frozenset((n,)))


def _add_names(source: _Source, expression: str) -> None:
    """Give the wrapper what ``expression`` names of its family's module."""
    family = sys.modules[source.op.module].__dict__
    for name in compile(expression, "<expression>", "eval").co_names:
        if name in family and name not in source.op.names:
            source.env.setdefault(name, family[name])


def _keeps_dtype(op: Op, kinds: str) -> bool:
    """Whether the fast path is a ufunc whose results have the operands' dtype, for the dtypes that ``kinds`` names as NumPy does."""
    ufunc: Any = op.ufunc
    if not isinstance(ufunc, np.ufunc) or op.fast is not op.ufunc:
        return False
    return all(f"{kind * ufunc.nin}->{kind}" in ufunc.types for kind in kinds)


def _add_fast_list(source: _Source, name: str, fallback: str, with_out: bool) -> None:
    """The fast path of an operation over one list of tensors, all of the same dtype."""
    op = source.op
    attrs = [p.name for p in op.params if p.kind == "attr"]
    source.first, source.arrays = "arrays[0]", {name: "arrays"}
    passed = ", ".join(["arrays", *[f"{p.name}={p.name}" if p.keyword_only else p.name for p in op.params if p.kind == "attr"]])
    out_test = " and out is None" if with_out else ""
    source.add(1, f"if ({name}.__class__ is list or {name}.__class__ is tuple) and {name} and {NO_MODE}{out_test}:")
    source.add(
        2,
        "arrays = None",
        f"if len({name}) == 2:",  # the usual number, without a loop
        f"    e, f = {name}",
        f"    if {_plain('e')} and {_plain('f')}:",
        "        a = e._array",
        "        b = f._array",
        "        d = a.dtype",
        "        if b.dtype is d:",
        "            arrays = (a, b)",
        "            needs = e._requires_grad or f._requires_grad",
        "else:",
        "    gathered = []",
        "    needs = False",
        "    d = None",
        f"    for e in {name}:",
        "        if e.__class__ is not Tensor and e.__class__ is not Parameter: break",
        "        a = e._array",
        "        if a.dtype is not d:",
        "            if d is not None: break",
        "            d = a.dtype",
        "        gathered.append(a)",
        "        if e._requires_grad: needs = True",
        "    else:",
        "        arrays = gathered",
        "if arrays is not None and a.__class__ is ndarray:",
    )
    checked = op.promotion in _CHECKED
    _add_call(source, 3, passed, fallback, checked)
    source.add(3, f"if not r.flags.c_contiguous: return {fallback}")  # NumPy keeps the order of columns-first inputs
    _add_wrap(source, 3)
    source.add(3, "t._node = None", f"t._requires_grad = {_UNRECORDED}")
    if op.rules is not None:
        source.env["Kind"] = op.node
        values = _tuple([name, *attrs])
        source.add(
            3,
            "if needs and (not without_grad or thread.grad)" + ("" if checked else " and r.dtype.kind in 'fcV'") + ":",
            "    n = Kind()",
            f"    if len({name}) == 2: n.edges = ({_edge('e')}, {_edge('f')})",
            f"    else: n.edges = tuple([{_edge('e')} for e in {name}])",
            *_list_saved(op, name, values),
            "    n.shape = r.shape",
            f"    n.dtype = {'d' if checked else 'r.dtype'}",
            "    n.hooks = None",
            "    n.seq = next(clock)",
            "    t._node = n",
            "    t._requires_grad = True",
        )
    source.add(3, "return t")


def _list_saved(op: Op, name: str, values: str) -> list[str]:
    """Lines that fill ``saved`` and ``attrs`` of a node over a list of tensors."""
    if op.node.tensors:
        return [f"    n.saved, n.attrs = Kind.collect({values}, {{{name!r}: True}}, (t,))", "    check_saved(n.saved)"]
    facts = {
        "shape": f"(a.shape, b.shape) if len({name}) == 2 else tuple([a.shape for a in arrays])",
        "dtype": f"tuple([e.dtype for e in {name}])",
    }
    attrs = [op.names[i.position or 0] if i.source == "attr" else facts[i.source] for i in op.node.others]
    return ["    n.saved = ()", f"    n.attrs = {_tuple(attrs)}"]


def operator_slow(op: Op, values: tuple[Any, ...]) -> Any:
    """The slow path of an operator: operands that are neither tensors nor numbers get their chance with NotImplemented."""
    for i in op.positions:
        value = values[i]
        if not isinstance(value, Tensor) and not is_number(value):
            if hasattr(type(value), "__torch_function__"):
                continue
            return NotImplemented
    return dispatch(op, values)


def make_reflected(op: Op, name: str) -> Any:
    """``__rsub__`` and the like: the operation with its operands exchanged, for a number on the left."""
    source = _Source(op)
    first, second = (p.name for p in op.params if p.kind != "attr")
    rest = [p for p in op.params if p.kind == "attr"]
    source.env.update({p.name: p.default for p in rest}, kernel=op.ufunc, reflected_slow=reflected_slow)
    fallback = f"reflected_slow(op, {_tuple([p.name for p in op.params])})"
    source.add(0, f"def {name}({second}, {first}):")
    if op.ufunc is not None:
        source.add(1, f"if ({first}.__class__ is float or {first}.__class__ is int) and {_plain(second)} and {NO_MODE}:")
        source.add(2, f"a = {second}._array", "d = a.dtype", "if d is F32 or d is F64 or d is I64:")
        _add_call(source, 3, "b, a", fallback, op.promotion in ("default", "int_to_float"), scalar_source(first))
        _add_wrap(source, 3)
        _add_record(source, 3, frozenset((first,)))
    source.add(1, f"return {fallback}")
    return source.compile(name)


def reflected_slow(op: Op, values: tuple[Any, ...]) -> Any:
    """The slow path of a reflected operator; the left operand is a number, or something else's turn."""
    if not isinstance(values[0], Tensor) and not is_number(values[0]):
        return NotImplemented
    return dispatch(op, values)


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
    fallback = f"dispatch(op, {values}, None, {'IN_PLACE_VIEW' if op.is_view else 'IN_PLACE'})"
    source.add(0, f"def {name}({header}):")
    if not operator:
        add_other_keywords(op, source, f"None, {'IN_PLACE_VIEW' if op.is_view else 'IN_PLACE'}")
    if op.ufunc is not None and op.fast is op.ufunc:
        _add_fast_inplace(source, fallback, operator)
    written = op.fast if op.fast is not op.ufunc else None
    if op.ufunc is not None and not op.overloads and any(p.kind == "attr" for p in params):
        written = op.kernel  # the ufunc does not know these arguments
    if written is not None and op.broadcasts and not operator:
        _add_written_inplace(source, fallback, written)
    source.add(1, f"return {fallback}")
    function = source.compile(name)
    function.__doc__ = f"In-place version of :func:`torch.{op.name}`."
    return function


def _add_fast_inplace(source: _Source, fallback: str, operator: bool) -> None:
    """The fast path of an in-place ufunc: nothing to record, memory that is surely not overlapping, equal dtypes."""
    op = source.op
    source.env["kernel"] = native.writing(op.ufunc)
    operands = [p for p in op.params if p.kind in ("tensor", "number")]
    attrs = [p.name for p in op.params if p.kind == "attr"]
    conditions = [_plain("input"), NO_MODE]
    if not operator:
        conditions += [f"{n} is default_{n}" for n in attrs]
    source.add(1, f"if {' and '.join(conditions)}:")
    source.add(2, "a = input._array", "d = a.dtype")
    if len(operands) == 1:
        source.add(2, "if (not input._requires_grad or not (not without_grad or thread.grad)) and (d is F32 or d is F64 or d is I64):")
        _add_inplace_call(source, 3, "a, a", fallback)
        return
    n = operands[1].name
    source.add(2, f"if {_plain(n)}:", f"    b = {n}._array")
    source.add(
        3,
        f"if b.dtype is d and (d is F32 or d is F64 or d is I64) and (not (input._requires_grad or {n}._requires_grad) "
        "or not (not without_grad or thread.grad)):",
    )
    source.add(4, f"if input._storage is not None and input._storage is {n}._storage and {n} is not input: return {fallback}")
    _add_inplace_call(source, 4, "a, b, a", fallback)
    if operands[1].kind != "number":
        return
    source.add(
        2,
        f"elif ({n}.__class__ is float or {n}.__class__ is int) and (d is F32 or d is F64 or d is I64) and "
        "(not input._requires_grad or not (not without_grad or thread.grad)):",
    )
    _add_inplace_call(source, 3, "a, b, a", fallback, scalar_source(n))


def _add_written_inplace(source: _Source, fallback: str, kernel: Any) -> None:
    """The fast path of other element-wise in-place operations on floats: the kernel's result is copied over the operand."""
    op = source.op
    source.env["written"] = kernel
    source.add(1, f"if {_plain('input')} and {NO_MODE}:")
    source.add(2, "a = input._array", "d = a.dtype", "fits = (d is F32 or d is F64) and a.__class__ is ndarray")
    source.add(2, "needs = input._requires_grad")
    passed = []
    for k, p in enumerate(op.params):
        if p.kind == "attr":
            passed.append(f"{p.name}={p.name}" if p.keyword_only and kernel is op.kernel else p.name)
            continue
        if p.name == "input":
            passed.append("a")
            continue
        passed.append(f"b{k}")
        source.add(
            2,
            f"if {_plain(p.name)}:",
            f"    b{k} = {p.name}._array",
            f"    fits = fits and b{k}.dtype is d",
            f"    needs = needs or {p.name}._requires_grad",
            "else:",
            f"    b{k} = {p.name}",
            "    fits = " + (f"fits and (b{k}.__class__ is float or b{k}.__class__ is int)" if p.kind == "number" else "False"),
        )
    source.add(2, "if fits and not (needs and (not without_grad or thread.grad)):")
    source.add(3, "storage = input._storage", "if storage is None: storage = new_storage(input)")
    source.add(3, "if (a.flags.c_contiguous or not overlaps_itself(a)) and (input._requires_grad is not INFERENCE or thread.inference):")
    source.add(
        4,
        "try:",
        f"    r = ignoring_fp(written, {', '.join(passed)})",
    )
    _add_fallback(source, 4, fallback)
    source.add(
        4,
        "if r is not None and r.dtype is d and r.shape == a.shape:",
        "    a[...] = r",
        "    storage._bump()",
        "    return input",
    )


def _add_inplace_call(source: _Source, indent: int, arguments: str, fallback: str, before: str | None = None) -> None:
    source.add(
        indent,
        "storage = input._storage",
        "if storage is None: storage = new_storage(input)",
        "if (a.flags.c_contiguous or not overlaps_itself(a)) and (input._requires_grad is not INFERENCE or thread.inference):",
        "    try:",
        *([] if before is None else [f"        {before}"]),
        f"        ignoring_fp({_sized_kernel(source)}, {arguments})",
        "        storage.version += 1",
        "        storage.changed = tick()",
    )
    _add_fallback(source, indent + 1, fallback, "storage._bump()")  # something may have been written
    source.add(indent + 1, "return input")


_ENVIRONMENT.update(complain_missing=complain_missing, complain_many=complain_many)

__all__ = ["BOOL", "KEEP", "SAME", "make_wrapper", "make_inplace", "make_reflected", "operator_slow"]
