"""Source of a wrapper: parameters, operands, the kernel's call, wrapping, recording. A whole one stands in ``wrappers``."""

from __future__ import annotations

import math
import os
import re
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np

from .. import state
from ..arrays.kinds import as_array, host
from ..dtype import BY_NUM
from ..shape import overlaps_itself
from ..tape.derivatives import Item
from ..tape.history import inherited, view_of
from ..tape.node import Output
from ..tape.saved import check_saved, complain_inference
from ..tensor import Parameter, Tensor, blanks, new_storage, note_order, storage_of
from .casting import CAST, cast_array, opmath
from .dispatch import IN_PLACE, IN_PLACE_VIEW, dispatch, dispatch_old_order, settled
from .interruption import GENERATED, is_interruption, source_files
from .machine_calls import Offer, offer
from .operation import KEEP, REQUIRED, SAME, Op
from .return_types import named_result
from .scalars import FLOATS32, FLOATS64, INTS32, INTS64

NO_MODE = "not (active and in_mode())"  # no mode is on, or none of this thread
CHECKED = ("default", "int_to_float", "bool_to_long")  # where the fast path's result has the operands' dtype, or the slow path is taken
INT64_CHAR = np.dtype(np.int64).char
_PACKAGE = __name__.partition(".")[0]
_SHOW = bool(os.environ.get("FLAMBEAU_SHOW_WRAPPERS"))
_OF_STATE = "active in_mode thread without_grad inferring ignoring_fp run_ignoring_fp tick INFERENCE clock".split()
ENVIRONMENT = {
    **{name: getattr(state, name) for name in _OF_STATE},
    "Tensor": Tensor, "Parameter": Parameter, "complain_inference": complain_inference, "check_saved": check_saved, "new": object.__new__,
    "blanks": blanks, "BY_NUM": BY_NUM, "ndarray": np.ndarray, "asarray": as_array, "host_array": np.asarray, "dispatch": dispatch,
    "dispatch_old_order": dispatch_old_order, "IN_PLACE": IN_PLACE, "IN_PLACE_VIEW": IN_PLACE_VIEW, "storage_of": storage_of,
    "is_interruption": is_interruption, "nothing": REQUIRED, "REQUIRED": REQUIRED, "view_of": view_of, "ref": weakref.ref,
    "new_storage": new_storage, "Output": Output, "FLOATS32": FLOATS32, "FLOATS64": FLOATS64, "INTS32": INTS32, "INTS64": INTS64,
    "inherited": inherited, "overlaps_itself": overlaps_itself, "F32": np.dtype(np.float32), "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64), "B8": np.dtype(np.bool_), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip


def no_mode(op: Any, env: dict[str, Any]) -> str:
    """``NO_MODE`` for an operation; for one that autocast lists also that this thread does not autocast."""
    policies = op.autocast
    if not policies:
        return NO_MODE
    env["autocasting"] = (
        state.autocasting if len(policies) > 1 else state.autocasting_cpu if "cpu" in policies else state.autocasting_others
    )
    return f"{NO_MODE} and not (autocasting and thread.autocast)"


def is_plain(name: str) -> str:
    return f"({name}.__class__ is Tensor or {name}.__class__ is Parameter)"


def edge_source(name: str, otherwise: str = "None") -> str:
    """Expression for the edge to an operand, as ``node.edge_of`` makes it."""
    return f"(({name} if {name}._node is None else {name}._node) if {name}._requires_grad else {otherwise})"


class Source:
    """Lines of a wrapper being written, with the environment it will run in."""

    def __init__(self, op: Any):
        self.op = op
        self.lines: list[str] = []
        self.is_direct = False  # whether machine code is asked at the beginning
        self.has_guard = False  # whether parameter ``_`` stands before those that are passed by keyword only
        self.unchecked: list[str] = []  # parameters that Python does not know to be required
        self.first = "a"  # where the first operand's array is
        self.arrays: dict[str, str] = {}  # where the operands' arrays are, by parameter
        self.env = dict(ENVIRONMENT, op=op)
        self.offers: list[Offer] = []

    def offer(self, indent: int, form: str, arguments: str, condition: str = "", *more: Any, op: Any = None) -> None:
        """Here machine code may go on, in place of ``op`` (this source's when None); see ``machine_calls.Offer``."""
        self.offers.append(Offer(len(self.lines), indent, op or self.op, form, arguments, condition, more))

    def add(self, indent: int, *lines: str) -> None:
        self.lines += ["    " * indent + line for line in lines]

    def compile(self, name: str) -> Any:
        text = "\n".join(self.lines)
        if _SHOW:
            print(text, end="\n\n")
        exec(compile(text, f"{GENERATED}{name}>", "exec"), self.env)
        function = self.env[name]
        if self.offers:
            offer(function, self.lines, self.offers)
        function.__module__ = public_module(self.op.namespace)
        function.__doc__, function.__qualname__ = self.op.doc, name
        return function


def public_module(namespace: str) -> str:
    """The module where pickle finds the functions of a namespace."""
    return _PACKAGE if namespace in ("torch", "Tensor") else f"{_PACKAGE}.{namespace}"


def inplace_doc(entry: Any) -> str:
    """The docstring of an operation's in-place form."""
    path = entry.name if entry.namespace in ("torch", "Tensor") else f"{entry.namespace}.{entry.name}"
    first = entry.params[0].name
    if getattr(entry, "is_view", False):
        change, result, error = f"``{first}`` becomes that view", "the view's shape", ""
    else:
        change, result = f"the result is written into ``{first}``", "its shape and dtype"
        error = "a result of another shape, or of a dtype that cannot be cast to its own; elements that share memory;\n            "
    return f"""In-place form of :func:`torch.{path}`: {change}.

    Args:
        As of :func:`torch.{path}`.
    Returns:
        ``{first}`` itself, with {result}.
    Raises:
        RuntimeError: {error}a leaf that requires a gradient.
    """


def signature_of(entry: Any, source: Source, with_out: bool) -> str:
    """The parameter list of a wrapper, defaults passed through the environment; other spellings follow as keywords.

    Python spends 10 ns on each keyword-only parameter that is left out.  A parameter ``_``, which must not be passed, takes the place of
    the star of primitives where it can.
    """
    parts, starred = [], False
    others, star = entry.other_keywords, "*"
    if isinstance(entry, Op):
        star = "*more" if entry.old_orders else "*" if any(p.keyword_only and p.default is REQUIRED for p in entry.params) else "_=nothing"
    for p in entry.params:
        if p.keyword_only and not starred:
            parts.append(star)
        starred = starred or p.keyword_only or p.kind == "rest"
        if p.kind == "rest":
            parts.append(f"*{p.name}")
        elif p.default is not REQUIRED:
            source.env[f"default_{p.name}"] = p.default
            parts.append(f"{p.name}=default_{p.name}")
        elif p.name in others.values() or (not starred and any("=" in part for part in parts)):
            source.unchecked.append(p.name)
            parts.append(f"{p.name}=REQUIRED")
        else:
            parts.append(p.name)
    if (with_out or others) and not starred:
        parts.append(star)
    if with_out:
        parts.append("out=None")
    source.has_guard = "_=nothing" in parts
    return ", ".join([*parts, *[f"{name}=None" for name in others]])


def add_other_keywords(op: Any, source: Source, form: str) -> None:
    """Lines that refuse too many arguments or put them in order, and that give a parameter the value passed under another spelling.

    The slow path complains where there is none at all.
    """
    if source.has_guard:
        source.add(1, "if _ is not nothing: complain_many(op)")
    if op.old_orders:
        placed, keywords = (tuple_source([p.name for p in op.params if p.keyword_only == word]) for word in (False, True))
        source.add(1, f"if more: return dispatch_old_order(op, {placed} + more, {keywords}, {form})")
    for other, name in op.other_keywords.items():
        source.add(1, f"if {other} is not None: {name} = {other}")


def complain_missing(op: Op, name: str) -> None:
    raise TypeError(f'{op.name}() missing 1 required positional arguments: "{name}"')


def complain_many(op: Op) -> None:
    count = sum(not p.keyword_only for p in op.params)
    raise TypeError(f"{op.name}() takes {count} positional argument{'s' if count != 1 else ''} but more were given")


def tuple_source(names: list[str]) -> str:
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
    if kind == "list":
        return "True"
    return f"({name} is not None and {name}._requires_grad)" if kind == "optional" else f"{name}._requires_grad"


def attr_source(item: Item, op: Op, arrays: dict[str, str], numbers: frozenset[str]) -> str:
    """Expression for another saved thing; ``arrays`` are the operands' arrays where the wrapper has them at hand."""
    name = op.names[item.position or 0]
    if item.source == "attr":
        return name
    if name in numbers:
        return "()" if item.source == "shape" else "None"
    if op.params[item.position or 0].kind == "optional":
        return f"(None if {name} is None else {name}.{'_array.shape' if item.source == 'shape' else item.source})"
    array = arrays.get(name, f"{name}._array")
    return {"shape": f"{array}.shape", "dtype": f"BY_NUM[{array}.dtype.num]", "strides": f"{name}.stride()"}[item.source]


def add_wrap(source: Source, indent: int) -> None:
    """Lines that make tensor ``t`` around array ``r``."""
    op = source.op
    source.add(indent, "t = next(blanks)", "t._array = r")
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


def add_settle(source: Source, indent: int, numbers: frozenset[str] = frozenset()) -> None:
    """Lines that look at the strides of an element-wise result if an operand is a view or known not to lie in memory row by row.

    Fresh tensors have no storage: for them it is one test each.
    """
    op = source.op
    keeps = "memory_format" in op.names  # a copy in the order of its only operand
    if not keeps and (not op.broadcasts or op.row_major):
        return
    operands = [p for p in op.params if p.kind in ("tensor", "number", "optional")]
    tests = []
    for p in operands:
        if p.name in numbers:
            continue
        test = f"{p.name}._storage is not None and ({p.name}._view_of is not None or {p.name}._storage.uneven)"
        tests.append(f"({p.name} is not None and {test})" if p.kind == "optional" else test)
    source.env.update(settled=settled, note_order=note_order)
    if keeps:
        source.add(indent, f"if memory_format is not None or {tests[0]}: note_order(t)")
        return
    source.add(indent, f"if {' or '.join(tests)}: r = settled(op, t, {tuple_source([p.name for p in operands])})")


def _add_inference_check(source: Source, indent: int, numbers: frozenset[str]) -> dict[str, str]:
    """Refuse tensors of inference mode that would be saved: lines for operands without edge, for others what stands in place of no edge."""
    op, otherwise = source.op, {}
    for item in op.node.tensors:
        name = op.names[item.position or 0]
        if item.source != "operand" or name in numbers or op.params[item.position or 0].kind == "list":
            continue
        needing = tuple_source([_requires(op, n) for n in op.names if n in item.needed_for and n not in numbers])
        condition = _condition(item, op, numbers)
        if name in op.node.inputs:
            complain = (
                f"complain_inference({needing})" if condition == "True" else f"complain_inference({needing}) if {condition} else None"
            )
            if condition != "False":
                otherwise[name] = f"(None if {name}._requires_grad is False else {complain})"
        else:
            present = f"{name} is not None and " if op.params[item.position or 0].kind == "optional" else ""
            test = "" if condition == "True" else f" and ({condition})"
            source.add(indent, f"if {present}{name}._requires_grad is INFERENCE{test}: complain_inference({needing})")
    return otherwise


def add_record(source: Source, indent: int, numbers: frozenset[str] = frozenset()) -> None:
    """Lines that put the call on the tape if needed, and return ``t``."""
    op = source.op
    checked = op.promotion in CHECKED
    guard, dtype = "", "d" if checked else "a.dtype" if op.is_view else "r.dtype"
    if not checked and not op.is_view and op.promotion in (KEEP, SAME):  # an operand that requires grad is floating point or complex
        alike = op.promotion == SAME or sum(p.kind != "attr" for p in op.params) == 1
        guard = f" and ({'r.dtype is d or ' if alike else ''}r.dtype.kind in 'fcV')"
    unrecorded = "inherited(input, r) if input._requires_grad else input._requires_grad" if op.is_view else UNRECORDED
    if _add_node(source, indent, numbers, "r.shape", dtype, guard):
        source.add(indent + 1, "t._node = n", "t._requires_grad = True", "return t")
    source.add(indent, "t._node = None", f"t._requires_grad = {unrecorded}", "return t")


UNRECORDED = "thread.grad and False if inferring else False"  # ``state.unrecorded`` without the call


def _recorded_inputs(op: Op, numbers: frozenset[str]) -> list[str]:
    """The operands that may require grad."""
    return [n for n in op.node.inputs if n not in numbers] if op.rules is not None else []


def _add_node(source: Source, indent: int, numbers: frozenset[str], shape: str, dtype: str, guard: str) -> bool:
    """Lines that make node ``n`` of a call with an input that requires grad, ``guard`` being a further condition.

    Returns:
        False where the call is never recorded.
    """
    op = source.op
    inputs = _recorded_inputs(op, numbers)
    if not inputs:
        return False
    kind = source.env[f"Kind{op.name}"] = op.node
    source.add(indent, f"if ({' or '.join(_requires(op, n) for n in inputs)}) and (not without_grad or thread.grad){guard}:")
    otherwise = _add_inference_check(source, indent + 1, numbers)
    edges = []
    for n in kind.inputs:
        edge = edge_source(n, otherwise.get(n, "None"))
        if n in numbers:
            edges.append("None")
        elif len(inputs) == 1 and op.params[op.names.index(n)].kind != "optional":
            edges.append(f"({n} if {n}._node is None else {n}._node)")
        else:
            edges.append(edge if op.params[op.names.index(n)].kind != "optional" else f"(None if {n} is None else {edge})")
    source.add(
        indent + 1,
        f"n = Kind{op.name}()",
        f"n.edges = {tuple_source(edges)}",
        f"n.saved = {tuple_source([saved_source(i, op, numbers) for i in kind.tensors])}",
        f"n.attrs = {tuple_source([attr_source(i, op, source.arrays, numbers) for i in kind.others])}",
        f"n.shape = {shape}",
        f"n.dtype = {dtype}",
        "n.hooks = None",
        "n.seq = next(clock)",
    )
    return True


def _add_outputs(source: Source, indent: int, numbers: frozenset[str]) -> None:
    """Lines that wrap a tuple of results, record the call if needed, and return the tuple."""
    op = source.op
    source.env["package"] = named_result(op.result_name, op.returns) if op.returns is not None else tuple
    if op.returns is not None:
        _add_named(source, indent, numbers, range(len(op.returns)))
        return
    source.add(
        indent,
        "outputs = []",
        "for part in r:",
        "    t = next(blanks)",
        "    t._array = part",
        "    t._storage = t._view_of = t._node = None",
        f"    t._requires_grad = {UNRECORDED}",
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


def _add_named(source: Source, indent: int, numbers: frozenset[str], places: range) -> None:
    """As ``_add_outputs``, without loops, for a number of results that the declaration tells."""
    tensors, results = [f"output{k}" for k in places], [f"r{k}" for k in places]
    source.add(indent, f"{tuple_source(results)} = r")
    for k, (t, r) in enumerate(zip(tensors, results, strict=True)):
        source.add(indent, f"{t} = next(blanks)", f"{t}._array = {r}", f"{t}._storage = {t}._view_of = {t}._node = None")
        source.add(indent, f"{t}._requires_grad = {UNRECORDED if k == 0 else 'output0._requires_grad'}")
    shape, dtype = tuple_source([f"{r}.shape" for r in results]), tuple_source([f"{r}.dtype" for r in results])
    if _add_node(source, indent, numbers, shape, dtype, ""):
        alike = "e is d or " if source.op.promotion == SAME else ""  # then d is the dtype of an operand that requires grad
        for k in places:
            source.add(indent + 1, f"e = r{k}.dtype", f"if {alike}e is not I64 and e.kind in 'fcV':")
            source.add(indent + 2, f"output{k}._node = e = new(Output)", "e.node = n", f"e.index = {k}", f"output{k}._requires_grad = True")
    source.add(indent, f"return package({tuple_source(tensors)})")


def add_finish(source: Source, indent: int, numbers: frozenset[str] = frozenset()) -> None:
    """Lines from the kernel's result to the caller's."""
    if source.op.is_multi_output and not source.op.is_multi_view:
        _add_outputs(source, indent, numbers)
    else:
        _offer_result(source, indent, numbers)
        add_wrap(source, indent)
        add_settle(source, indent, numbers)
        add_record(source, indent, numbers)


def _offer_result(source: Source, indent: int, numbers: frozenset[str]) -> None:
    """Let machine code wrap and record a result ``r``."""
    op = source.op
    if "memory_format" in op.names or any(p.kind in ("list", "rest") for p in op.params) or source.is_direct:
        return
    is_settled = op.broadcasts and not op.row_major
    source.offer(indent, "result", ", ".join(["r", *op.names]), "", numbers, op.promotion in CHECKED, is_settled)


def scalar_source(name: str) -> str:
    """Line that looks up a Python number as a 0-d array ``b`` of the other operand's dtype."""
    floats = f"FLOATS32[{name}] if d is F32 else FLOATS64[{name}] if d is F64 else {name}"
    return f"b = ({floats}) if {name}.__class__ is float else INTS32[{name}] if d is F32 else {name} if d is F64 else INTS64[{name}]"


def sized_kernel(source: Source) -> str:
    """Expression for the kernel to call: the native one, where the array kind has one for so much work."""
    choice = host.choice_for(source.op)
    if choice is None:
        return "kernel"
    choice.bind(source.env)
    return f"(kernel if {_work_source(source, choice.work)} < {choice.threshold} else large)"


def _work_source(source: Source, work: str | None) -> str:
    """A call's work as an expression over the wrapper's variables."""
    if work is None:
        return f"{source.first}.size"
    add_names(source, work)
    source.env["prod"] = math.prod
    return re.sub(r"\b[a-z]\w*\b", lambda name: source.arrays.get(name[0], name[0]), work)


def _expression_source(source: Source, expression: str) -> str:
    """The expression of a fast path, with its native kernel ``large`` and the work from which on that is called, ``THRESHOLD``."""
    choice = host.choice_for(source.op)
    if choice is None:
        return expression
    choice.bind(source.env)
    return expression.replace("THRESHOLD", str(choice.threshold))


def add_call(
    source: Source, indent: int, arguments: str, fallback: str, check: bool, before: str | None = None, is_reduced: bool = False
) -> None:
    """Lines that run the kernel (after line ``before``), around which operands are widened where ``is_reduced``.

    Whatever goes wrong is the slow path's to explain.
    """
    op = source.op
    if isinstance(op.fast, str):
        call = _expression_source(source, op.fast)
    elif op.is_view or op.fp_safe:
        call = f"{sized_kernel(source)}({arguments})"
    else:
        call = f"ignoring_fp({sized_kernel(source)}, {arguments})"
    source.add(indent, "try:", *([] if before is None else [f"    {before}"]))
    if is_reduced:
        source.env.update(opmath=opmath, cast_array=cast_array)
        for name, array in source.arrays.items():
            given = f"if {array} is not None: " if op.params[op.names.index(name)].kind == "optional" else ""
            small = f"{array}.size < {CAST.threshold} and {array}.flags.c_contiguous"
            source.add(indent + 1, f"{given}{array} = {array}.astype(F32) if {small} else opmath({array})")
    source.add(indent + 1, f"r = {call}")
    if is_reduced:
        narrow = f"ignoring_fp(r.astype, d) if r.size < {CAST.threshold} else ignoring_fp(cast_array, r, BY_NUM[d.num])"
        source.add(indent + 1, f"if r is not None: r = {narrow}")
    add_fallback(source, indent, fallback)
    declines = op.fast is not op.ufunc
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


def add_fallback(source: Source, indent: int, fallback: str, *undo: str) -> None:
    """Lines that take the slow path after a kernel's error, and pass on what interrupted it (after lines ``undo``)."""
    op = source.op
    own = source_files(op.kernel, op.fast)
    test = f"if is_interruption(error{''.join(f', {operand!r}' for operand in own)}):"
    source.add(indent, f"except {'BaseException' if undo else 'Exception'} as error:", f"    {test}")
    source.add(indent + 2, *undo, "raise")
    source.add(indent, f"    return {fallback}")


def add_names(source: Source, expression: str) -> None:
    """Give the wrapper what ``expression`` names of its family's module."""
    family = sys.modules[source.op.module].__dict__
    for name in compile(expression, "<expression>", "eval").co_names:
        if name in family and name not in source.op.names:
            source.env.setdefault(name, family[name])


ENVIRONMENT.update(complain_missing=complain_missing, complain_many=complain_many)
