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

Operations whose operands must agree in dtype have a function like it for float16 and bfloat16 (``make_reduced``): it widens the operands,
runs the same kernel and rounds its result. The wrapper calls it last, and autocast at once.

Set ``FLAMBEAU_SHOW_WRAPPERS=1`` to print each wrapper as it is made.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np

from ..arrays import native
from ..dtype import BY_NUM
from ..tensor import Tensor, wrap
from .casting import is_number
from .creation import require_grad
from .dispatch import FACTORY, dispatch
from .operation import BOOL, KEEP, REQUIRED, SAME, Op
from .wrapper_source import (
    CHECKED,
    INT64_CHAR,
    NO_MODE,
    UNRECORDED,
    Source,
    add_call,
    add_fallback,
    add_finish,
    add_names,
    add_other_keywords,
    add_record,
    add_settle,
    add_wrap,
    edge_source,
    inplace_doc,
    is_plain,
    no_mode,
    scalar_source,
    signature_of,
    sized_kernel,
    tuple_source,
)

SMALL_IN_BFLOAT16 = 4096  # elements of the first two operands: with more of them the native kernel for bfloat16 is asked


def _operator_header(source: Source) -> str:
    """The parameter list of an operator, which has the required arguments alone."""
    source.env["operator_slow"] = operator_slow
    source.env.update({p.name: p.default for p in source.op.params if p.default is not REQUIRED})
    return ", ".join(p.name for p in source.op.params if p.default is REQUIRED)


def make_wrapper(op: Op, name: str | None = None, *, operator: bool = False) -> Any:
    """The public function of ``op`` (for an operator: of two arguments, NotImplemented for foreign operands)."""
    name = name or op.name
    source = Source(op)
    params = op.params
    with_out = op.out and not operator
    if operator:
        header = _operator_header(source)
        fallback = f"operator_slow(op, {tuple_source([p.name for p in params])})"
    else:
        header = signature_of(op, source, with_out)
        fallback = f"dispatch(op, {tuple_source([p.name for p in params])}{', out' if with_out else ''})"
    source.add(0, f"def {name}({header}):")
    if not operator:
        add_other_keywords(op, source, "out" if with_out else "None")
    if op.inplace and any(p.name == "inplace" for p in params):
        passed = ", ".join(f"{p.name}={p.name}" if p.keyword_only else p.name for p in params)
        source.add(1, f"if inplace: return op.inplace_wrapper({passed})")
    _offer_whole(source, with_out, operator)
    if op.fast is not None:
        _add_fast(source, fallback, with_out, operator)
        if op.fast is op.ufunc and not operator and any(p.kind == "attr" for p in params):
            source.offer(1, "attributes", ", ".join(op.names), "out is None" if with_out else "")
    source.add(1, f"return {fallback}")
    function = source.compile(name)
    function.__wrapped__ = function.kernel = op.kernel
    return function


def _offer_whole(source: Source, with_out: bool, operator: bool) -> None:
    """Let machine code do whole calls: of an element-wise operation that is ufuncs where all but the operands have their defaults."""
    op = source.op
    conditions = ["out is None"] if with_out else []
    if op.fast is None or op.fast is not op.ufunc:
        if not any(p.kind == "rest" for p in op.params):
            source.offer(1, "whole", ", ".join(op.names), " and ".join(conditions))
        if not op.elementwise or not callable(op.fast):
            return
    if any(p.kind not in ("tensor", "number", "attr") for p in op.params):
        return
    if not operator:
        conditions += [f"{p.name} is default_{p.name}" for p in op.params if p.kind == "attr"]
    operands = [p.name for p in op.params if p.kind != "attr"]
    source.is_direct = op.fast is op.ufunc
    forms = ["pointwise", *["broadcast"] * (len(operands) == 2)] if source.is_direct else ["program"]
    for form in forms:
        source.offer(1, form, ", ".join(operands), " and ".join(conditions))


def is_widened(op: Op) -> bool:
    """Whether operands in half precision are cast to float32 around the fast kernel, as ``Call.run`` does around the other."""
    if op.promotion != SAME or op.opmath != "float32" or op.fast is None or op.elementwise or op.is_view or op.is_multi_output:
        return False
    return all(p.kind in ("tensor", "optional", "attr") for p in op.params)


def make_reduced(op: Op) -> Any:
    """A function of an operation's arguments in their order: the fast path where all operands are float16 or bfloat16.

    It returns NotImplemented for anything else, so that whoever calls it goes on.
    """
    source = Source(op)
    source.add(0, f"def {op.name}({', '.join(op.names)}):")
    _add_fast(source, "NotImplemented", False, False, is_reduced=True)
    source.add(1, "return NotImplemented")
    return source.compile(op.name)


def make_factory(entry: Any) -> Any:
    """The public function of a factory."""
    source = Source(entry)
    source.env.update(FACTORY=FACTORY, require_grad=require_grad)
    source.add(0, f"def {entry.name}({signature_of(entry, source, bool(entry.out))}):")
    fallback = f"dispatch(op, {tuple_source(list(entry.names))}, {'out' if entry.out else 'None'}, FACTORY)"
    if entry.keeps:
        no_options = " and ".join(f"{name} is None" for name in entry.option_names)
        source.add(1, f"if {is_plain(entry.follows)} and {no_options} and {NO_MODE}: return {entry.follows}")
    if entry.asked is not None:
        others = [p.name for p in entry.params if p.name not in re.findall(r"\w+", entry.asked)]
        conditions = ["out is None"] * bool(entry.out) + [f"{name} is default_{name}" for name in others]
        add_names(source, f"({entry.asked})")
        source.offer(1, "whole", entry.asked, " and ".join(conditions))
    if entry.fast is not None:
        first = entry.params[0]
        conditions = [is_plain(first.name), f"{first.name}._array.__class__ is ndarray"] if first.kind == "tensor" else []
        conditions += [f"{name} is None" for name in ("out",) * bool(entry.out) + entry.option_names if name in ("out", "layout", "device")]
        conditions += ["not pin_memory"] * ("pin_memory" in entry.option_names) + [NO_MODE]
        source.add(1, f"if {' and '.join(conditions)}:")
        add_names(source, entry.fast)
        if first.kind == "tensor":
            source.add(2, f"a = {first.name}._array")
        array = entry.fast
        if entry.part is not None:
            chosen = entry.part
            source.env["large"], array = chosen.large, array.replace("THRESHOLD", str(chosen.threshold))
        source.add(2, "try:", f"    r = {array}")
        add_fallback(source, 2, fallback)
        source.add(2, "if r is not None:")
        source.add(3, "t = next(blanks)", "t._array = r", "t._storage = t._node = t._view_of = None", f"t._requires_grad = {UNRECORDED}")
        if first.kind == "tensor" and "memory_format" in entry.names:
            add_settle(source, 3)
        source.add(3, "return require_grad(t) if requires_grad else t" if "requires_grad" in entry.option_names else "return t")
    source.add(1, f"return {fallback}")
    function = source.compile(entry.name)
    function.kernel = entry.body
    return function


def make_getitem(select: Op, part: Op, general: Any) -> Any:
    """``__getitem__``: a fast path for ints and slices, an ellipsis before them included, taken by ``select`` and ``part``; ``general``
    does everything else."""
    source = Source(select)
    source.arrays = {"input": "a"}
    source.env["general"] = general
    same = type(
        "AliasBackward0", (part.node,), {"__slots__": (), "__module__": part.node.__module__}
    )  # what whole slices of all dimensions are called
    source.env.update(Select=select.node, Part=part.node, Same=same, everything=slice(None))
    source.add(0, "def __getitem__(input, key):")
    source.offer(1, "indexed", "input, key", "", part.node, same)
    source.offer(1, "rows", "input, key", "key.__class__ is Tensor")
    source.add(1, f"if {is_plain('input')} and {NO_MODE}:", "    a = input._array", "    given = key")
    source.add(2, "if key.__class__ is int:", "    key = (key, ...)", "    Kind = Select")
    source.add(2, "elif key.__class__ is slice:", "    if key.step is not None: return general(input, key)", "    Kind = Part")
    source.add(
        2,
        "elif key.__class__ is tuple and key:",
        "    Kind = Same",
        "    for p in key:",
        "        if p.__class__ is int: Kind = Select",
        "        elif p.__class__ is not slice or p.step is not None:",
        "            if p is not ... or key[0] is not ... or len(key) == 1 or input._requires_grad: return general(input, key)",
        "        elif p != everything: Kind = Part",
        "    if key[0] is not ...: key = (*key, ...)",
        "else:",
        "    return general(input, key)",
    )
    source.add(2, "try:", "    r = a[key]")
    add_fallback(source, 2, "general(input, given)")
    for op, kind in ((select, "Select"), (part, "Part")):
        source.offer(2, "result", "r, input, key", f"Kind is {kind}", frozenset(), False, False, op=op)
    add_wrap(source, 2)
    add_record(source, 2)
    source.lines = [line.replace(f"Kind{select.name}()", "Kind()") for line in source.lines]
    source.add(1, "return general(input, key)")
    return source.compile("__getitem__")


def make_sized(op: Op, name: str, general: Any) -> Any:
    """The method ``view`` or ``reshape``: a fast path for sizes given one by one over row-major memory; ``general`` does the rest."""
    source = Source(op)
    source.arrays = {"input": "a"}
    source.env["general"] = general
    keywords = [p.name for p in inspect.signature(general).parameters.values() if p.kind is p.KEYWORD_ONLY]
    source.add(0, f"def {name}(input, *sizes{''.join(f', {word}=None' for word in keywords)}):")
    none_named = " and ".join(f"{word} is None" for word in keywords)
    source.offer(1, "whole", "input, sizes", none_named)
    source.add(1, f"if sizes and sizes[0].__class__ is int and {is_plain('input')} and {NO_MODE} and {none_named}:")
    # a view may have any stride where its size is 1, which NumPy would not keep
    source.add(2, "a = input._array", "if a.flags.c_contiguous and (a.base is None or 1 not in a.shape):")
    source.add(3, "try:", "    r = a.reshape(sizes)")
    add_fallback(source, 3, "general(input, *sizes)")
    source.offer(3, "result", "r, input, sizes", "", frozenset(), False, False)
    add_wrap(source, 3)
    add_record(source, 3)
    source.add(1, f"return general(input, *sizes{''.join(f', {word}={word}' for word in keywords)})")
    function = source.compile(name)
    function.__doc__, function.__wrapped__ = general.__doc__, general
    return function


def _add_fast(source: Source, fallback: str, with_out: bool, operator: bool, is_reduced: bool = False) -> None:
    """Lines of the fast path; those of half precision alone where ``is_reduced``."""
    op = source.op
    source.env["kernel"] = op.fast
    if isinstance(op.fast, str):
        add_names(source, op.fast)
    operands = [p for p in op.params if p.kind in ("tensor", "number", "optional")]
    lists = [p for p in op.params if p.kind == "list"]
    if lists:
        if len(lists) != 1 or operands or op.params[0] is not lists[0]:
            raise TypeError(f"{op.name}: the fast path for lists of tensors needs one list, first, and no further operand")
        _add_fast_list(source, lists[0].name, fallback, with_out)
        return
    first = next((p for p in operands if p.kind != "optional"), operands[0]) if op.work else operands[0]
    rest = [p for p in operands if p is not first]
    conditions = [is_plain(first.name), no_mode(op, source.env)]
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
        conditions.append(f"({p.name} is None or {is_plain(p.name)})" if p.kind == "optional" else is_plain(p.name))
    source.add(1, f"if {' and '.join(conditions)}:")
    source.add(2, f"a = {first.name}._array", "d = a.dtype")
    if op.fast is not op.ufunc and not op.is_view:  # ufuncs and views dispatch on the array itself
        source.add(2, f"if a.__class__ is not ndarray: return {fallback}")
    source.arrays = {first.name: "a"}
    gate = _add_arrays(source, strict, "(d is F16 or d is BF16)" if is_reduced else _common_dtypes(op))
    if is_reduced and op.in_bfloat16 and strict:
        source.add(2, f"if d is BF16 and a.size + b0.size > {SMALL_IN_BFLOAT16}: return {fallback}")
    if number is not None:
        _add_fast_number(source, number.name, gate, passed, fallback)
        return
    indent = 2
    if gate:
        source.add(2, f"if {' and '.join(gate)}:")
        indent = 3
    add_call(source, indent, _arguments(source, passed, {}), fallback, _checks_tensors(op), is_reduced=is_reduced)
    if is_reduced:
        source.arrays = {}  # what a node keeps of the operands are facts of the tensors
    add_finish(source, indent)
    if not is_reduced and is_widened(op):
        source.add(2, "if d is F16 or d is BF16:", f"    r = op.reduced_wrapper({', '.join(op.names)})")
        source.add(3, "if r is not NotImplemented: return r")


def _common_dtypes(op: Op) -> str:
    """Condition on the dtype that all operands share, as source."""
    if op.promotion in CHECKED and not _keeps_dtype(op, "fd" + INT64_CHAR + ("?" if op.fast_bool else "")) and _keeps_dtype(op, "fd"):
        return "(d is F32 or d is F64)"  # the results of others are not what PyTorch's are
    return f"(d is F32 or d is F64 or d is I64{' or d is B8' if op.fast_bool else ''})"


def _add_arrays(source: Source, strict: list[Any], allowed: str) -> list[str]:
    """Lines that take the arrays of the operands behind the first; returned is what must hold of all dtypes."""
    op, same = source.op, []
    for k, p in enumerate(strict):
        source.arrays[p.name] = f"b{k}"
        if p.kind == "optional":
            source.add(2, f"b{k} = None if {p.name} is None else {p.name}._array")
            same.append(f"(b{k} is None or b{k}.dtype is d)")
        else:
            source.add(2, f"b{k} = {p.name}._array")
            same.append(f"b{k}.dtype is d")
    return [] if op.promotion == KEEP else [*same, allowed]


def _add_fast_number(source: Source, n: str, gate: list[str], passed: list[str], fallback: str) -> None:
    """The two calls where operand ``n`` may be a tensor or a number; ``gate`` must hold of the other operands' dtypes."""
    op = source.op
    check = op.promotion in CHECKED
    source.add(2, f"if {is_plain(n)}:", f"    b = {n}._array")
    source.add(3, f"if {' and '.join(['b.dtype is d', *gate])}:" if gate else "if True:")
    add_call(source, 4, _arguments(source, passed, {n: "b"}), fallback, _checks_tensors(op))
    add_finish(source, 4)
    # an integer tensor and a float number are compared in the default float dtype
    is_float = f"({n}.__class__ is float and d is not I64)" if gate and not check else f"{n}.__class__ is float"
    source.add(2, f"elif ({is_float} or {n}.__class__ is int){' and (d is F32 or d is F64 or d is I64)' if gate else ''}:")
    as_array = op.fast is op.ufunc
    call = _arguments(source, passed, {n: "b" if as_array else n})
    add_call(source, 3, call, fallback, check, scalar_source(n) if as_array else None)
    add_finish(source, 3, frozenset((n,)))


def _arguments(source: Source, passed: list[str], extra: dict[str, str]) -> str:
    """The fast kernel's arguments: the operands' arrays, ``extra`` ones, and the attributes that are ``passed``."""
    op, names, order = source.op, {**source.arrays, **extra}, []
    for p in op.params:
        if p.name in names:
            order.append(names[p.name])
        elif p.name in passed:
            order.append(f"{p.name}={p.name}" if p.keyword_only and op.fast is op.kernel else p.name)
    return ", ".join(order)


def _checks_tensors(op: Op) -> bool:
    """Whether a result of tensors alone may have another dtype than PyTorch's."""
    return op.promotion in CHECKED and not _keeps_dtype(op, "fd")


def _keeps_dtype(op: Op, kinds: str) -> bool:
    """Whether the fast path is a ufunc whose results have the operands' dtype, for the dtypes that ``kinds`` names as NumPy does."""
    ufunc: Any = op.ufunc
    if not isinstance(ufunc, np.ufunc) or op.fast is not op.ufunc:
        return False
    return all(f"{kind * ufunc.nin}->{kind}" in ufunc.types for kind in kinds)


def _add_fast_list(source: Source, name: str, fallback: str, with_out: bool) -> None:
    """The fast path of an operation over one list of tensors, all of the same dtype, which the result has too."""
    op = source.op
    attrs = [p.name for p in op.params if p.kind == "attr"]
    source.first, source.arrays = "arrays[0]", {name: "arrays"}
    passed = ", ".join(["arrays", *[f"{p.name}={p.name}" if p.keyword_only else p.name for p in op.params if p.kind == "attr"]])
    out_test = " and out is None" if with_out else ""
    source.add(1, f"if ({name}.__class__ is list or {name}.__class__ is tuple) and {name} and {no_mode(op, source.env)}{out_test}:")
    source.add(
        2,
        "arrays = None",
        f"if len({name}) == 2:",  # the usual number, without a loop
        f"    e, f = {name}",
        f"    if {is_plain('e')} and {is_plain('f')}:",
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
    checked = op.promotion in CHECKED
    add_call(source, 3, passed, fallback, False)
    add_wrap(source, 3)
    source.add(3, "t._node = None", f"t._requires_grad = {UNRECORDED}")
    if op.rules is not None:
        source.env["Kind"] = op.node
        values = tuple_source([name, *attrs])
        source.add(
            3,
            "if needs and (not without_grad or thread.grad)" + ("" if checked else " and r.dtype.kind in 'fcV'") + ":",
            "    n = Kind()",
            f"    if len({name}) == 2: n.edges = ({edge_source('e')}, {edge_source('f')})",
            f"    else: n.edges = tuple([{edge_source('e')} for e in {name}])",
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
    return ["    n.saved = ()", f"    n.attrs = {tuple_source(attrs)}"]


def operator_slow(op: Op, values: tuple[Any, ...], form: Any = None) -> Any:
    """The slow path of an operator: operands that are neither tensors nor numbers get their chance with NotImplemented.

    An array is compared (``==``) as the tensor that it would be: to leave it to NumPy would end in Python's comparison of objects.
    """
    _check_self(f"__{op.operator}__", values[0])
    for i in op.positions:
        value = values[i]
        if not isinstance(value, Tensor) and not is_number(value):
            if hasattr(type(value), "__torch_function__"):
                continue
            if op.operator == "eq" and isinstance(value, np.ndarray) and value.dtype.num in BY_NUM and value.dtype.isnative:
                if any(step < 0 for step in value.strides):
                    raise ValueError(
                        "At least one stride in the given numpy array is negative, and tensors with negative strides are not supported."
                    )
                return dispatch(op, (values[0], wrap(np.asarray(value))))
            return NotImplemented
    return dispatch(op, values, None, form)


def _check_self(name: str, value: Any) -> None:
    """Complain about an operator that was called through the class, with something else than a tensor in front."""
    if not isinstance(value, Tensor) and not hasattr(type(value), "__torch_function__"):
        raise TypeError(f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a '{type(value).__name__}' object")


def make_reflected(op: Op, name: str) -> Any:
    """``__rsub__`` and the like: the operation with its operands exchanged, for a number on the left."""
    source = Source(op)
    first, second = (p.name for p in op.params if p.kind != "attr")
    rest = [p for p in op.params if p.kind == "attr"]
    source.env.update({p.name: p.default for p in rest}, kernel=op.ufunc, reflected_slow=reflected_slow)
    fallback = f"reflected_slow(op, {tuple_source([p.name for p in op.params])})"
    source.add(0, f"def {name}({second}, {first}):")
    if op.ufunc is not None:
        source.offer(1, "reflected", f"{first}, {second}")
        source.add(1, f"if ({first}.__class__ is float or {first}.__class__ is int) and {is_plain(second)} and {no_mode(op, source.env)}:")
        source.add(2, f"a = {second}._array", "d = a.dtype", "if d is F32 or d is F64 or d is I64:")
        add_call(source, 3, "b, a", fallback, op.promotion in ("default", "int_to_float"), scalar_source(first))
        add_wrap(source, 3)
        add_settle(source, 3, frozenset((first,)))
        add_record(source, 3, frozenset((first,)))
    source.add(1, f"return {fallback}")
    return source.compile(name)


def reflected_slow(op: Op, values: tuple[Any, ...]) -> Any:
    """The slow path of a reflected operator; the left operand is a number, or something else's turn."""
    _check_self(f"__r{op.operator}__", values[1])
    if not isinstance(values[0], Tensor) and not is_number(values[0]):
        return NotImplemented
    return dispatch(op, values)


def make_inplace(op: Op, name: str, *, operator: bool = False) -> Any:
    """``f_``: the operation with its result written into its first operand."""
    source = Source(op)
    params = op.params
    header = _operator_header(source) if operator else signature_of(op, source, False)
    values = tuple_source([p.name for p in params])
    fallback = f"dispatch(op, {values}, None, {'IN_PLACE_VIEW' if op.is_view else 'IN_PLACE'})"
    if operator:
        fallback = f"operator_slow(op, {values}, IN_PLACE)"
    source.add(0, f"def {name}({header}):")
    if not operator:
        add_other_keywords(op, source, f"None, {'IN_PLACE_VIEW' if op.is_view else 'IN_PLACE'}")
    is_ufunc = op.ufunc is not None and op.fast is op.ufunc
    if is_ufunc:
        _add_fast_inplace(source, fallback, operator)
    if not operator and not any(p.kind == "rest" for p in params) and (not is_ufunc or any(p.kind == "attr" for p in params)):
        source.offer(1, "inplace", ", ".join(op.names))
    written = op.fast if op.fast is not op.ufunc else None
    if op.ufunc is not None and not op.overloads and any(p.kind == "attr" for p in params):
        written = op.kernel  # the ufunc does not know these arguments
    if written is not None and op.broadcasts and not operator:
        _add_written_inplace(source, fallback, written)
    source.add(1, f"return {fallback}")
    function = source.compile(name)
    function.__doc__ = inplace_doc(op)
    return function


def _add_fast_inplace(source: Source, fallback: str, operator: bool) -> None:
    """The fast path of an in-place ufunc: nothing to record, memory that is surely not overlapping, equal dtypes."""
    op = source.op
    source.env["kernel"] = native.writing(op.ufunc)
    operands = [p for p in op.params if p.kind in ("tensor", "number")]
    attrs = [p.name for p in op.params if p.kind == "attr"]
    conditions = [is_plain("input"), NO_MODE]
    if not operator:
        conditions += [f"{n} is default_{n}" for n in attrs]
    source.offer(1, "written", ", ".join(p.name for p in operands), " and ".join(conditions[2:]))
    source.add(1, f"if {' and '.join(conditions)}:")
    source.add(2, "a = input._array", "d = a.dtype")
    if len(operands) == 1:
        source.add(2, "if (not input._requires_grad or not (not without_grad or thread.grad)) and (d is F32 or d is F64 or d is I64):")
        _add_inplace_call(source, 3, "a, a", fallback)
        return
    n = operands[1].name
    source.add(2, f"if {is_plain(n)}:", f"    b = {n}._array")
    source.add(
        3,
        f"if b.dtype is d and (d is F32 or d is F64 or d is I64) and (not (input._requires_grad or {n}._requires_grad) "
        "or not (not without_grad or thread.grad)):",
    )
    _add_inplace_call(source, 4, "a, b, a", fallback, other=n)
    if operands[1].kind != "number":
        return
    source.add(
        2,
        f"elif ({n}.__class__ is float or {n}.__class__ is int) and (d is F32 or d is F64 or d is I64) and "
        "(not input._requires_grad or not (not without_grad or thread.grad)):",
    )
    _add_inplace_call(source, 3, "a, b, a", fallback, scalar_source(n))


# Whether no two elements of array ``a`` share a place; an array that owns its memory is found soonest.
_DISJOINT = "a.base is None or a.flags.c_contiguous or not overlaps_itself(a)"


def _add_written_inplace(source: Source, fallback: str, kernel: Any) -> None:
    """The fast path of other element-wise in-place operations on floats, unless an operand may show part of the same memory: large
    operands are written to by the native kernel, over others the kernel's result is copied."""
    op = source.op
    source.env["written"] = op.kernel if isinstance(kernel, str) else kernel
    source.arrays = {p.name: "a" for p in op.params if p.name == "input"}
    source.add(1, f"if {is_plain('input')} and {NO_MODE}:")
    source.add(2, "a = input._array", "d = a.dtype", "fits = (d is F32 or d is F64) and a.__class__ is ndarray")
    source.add(2, "needs = input._requires_grad", "storage = input._storage")
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
            f"if {is_plain(p.name)}:",
            f"    b{k} = {p.name}._array",
            f"    fits = fits and b{k}.dtype is d and ({p.name}._storage is None or {p.name}._storage is not storage or {p.name} is input)",
            f"    needs = needs or {p.name}._requires_grad",
            "else:",
            f"    b{k} = {p.name}",
            "    fits = " + (f"fits and (b{k}.__class__ is float or b{k}.__class__ is int)" if p.kind == "number" else "False"),
        )
    source.add(2, "if fits and not (needs and (not without_grad or thread.grad)):")
    source.add(3, "if storage is None: storage = new_storage(input)")
    source.add(3, f"if ({_DISJOINT}) and (input._requires_grad is not INFERENCE or thread.inference):")
    _add_written_large(source, fallback, passed)
    source.add(4, "try:", f"    r = ignoring_fp(written, {', '.join(passed)})")
    add_fallback(source, 4, fallback)
    source.add(
        4,
        "if r is not None and r.dtype is d and r.shape == a.shape:",
        "    a[...] = r",
        "    storage._bump()",
        "    return input",
    )


def _add_written_large(source: Source, fallback: str, passed: list[str]) -> None:
    """Lines that let the native kernel write straight into a large operand.

    Where a ufunc is the fast path, the slow path has the kernel that takes the other arguments.
    """
    op = source.op
    choice = native.choice_for(op)
    if choice is None or not op.elementwise or choice.work is not None:
        return
    source.add(4, f"if a.size >= {choice.threshold}:")
    if op.fast is op.ufunc:
        source.add(5, f"return {fallback}")
        return
    choice.bind(source.env)
    values = [value.partition("=")[2] or value for value in passed]
    source.add(5, "try:", f"    r = ignoring_fp(large, {', '.join(values)}, a)")
    add_fallback(source, 5, fallback, "storage._bump()")
    source.add(5, f"if r is None: return {fallback}", "storage._bump()", "return input")


def _add_inplace_call(
    source: Source, indent: int, arguments: str, fallback: str, before: str | None = None, other: str | None = None
) -> None:
    """Lines that run the kernel (after line ``before``) over the operand, unless ``other`` may show part of the same memory."""
    source.add(
        indent,
        "storage = input._storage",
        "if storage is None: storage = new_storage(input)",
        *([] if other is None else [f"elif storage is {other}._storage and {other} is not input: return {fallback}"]),
        f"if ({_DISJOINT}) and (input._requires_grad is not INFERENCE or thread.inference):",
        "    try:",
        *([] if before is None else [f"        {before}"]),
        f"        ignoring_fp({sized_kernel(source)}, {arguments})",
        "        storage.version += 1",
        "        storage.changed = next(clock)",
    )
    add_fallback(source, indent + 1, fallback, "storage._bump()")  # something may have been written
    source.add(indent + 1, "return input")


__all__ = ["BOOL", "KEEP", "SAME", "make_wrapper", "make_inplace", "make_reflected", "operator_slow"]
