"""The kernel language: LLVM IR written through Python values.

A kernel is a Python function that receives a ``Builder`` and computes with ``Value``s; running it once writes the IR.  Python's own
loops, functions and tables unroll and specialise; ``k.loop`` makes loops of the machine.

    @kernel
    def scale(k, element):                       # y = a * x over chunks of 4096 elements
        x, y, n, a = k.array(), k.array(), k.integer(), k.number(element)
        lanes = k.lanes(element)
        def step(i, mask):
            k.store(k.load(x, i, element, lanes, mask) * a, y, i, element, mask)
        def chunk(c):
            k.vector_loop(c * 4096, k.least((c + 1) * 4096, n), lanes, step)
        k.for_chunks(chunk)

    scale("f32")(chunks, id(source), id(target), source.size, 3.0)

Every kernel is one machine function ``i64 (ptr arguments, i64 first, i64 last, ptr array_class)``: the pool hands out chunks
``first`` to ``last``, and ``arguments`` points to one 8-byte slot for each of ``k.array()``, ``k.integer()``, ``k.number()`` in the
order of these calls.  It returns 0, or 1 where an object that it was given as an array is none: whose class is another one than
``array_class``, ``numpy.ndarray``.  That is looked at wherever the header of an array is read (``data_of``), so that nobody can have a
kernel read something else as one.

Element types (``element`` in code).  In registers: ``f32 f64 i8 i16 i32 i64 u8 u16 u32 u64``, ``b1`` (truth values) and ``ptr``.  In
memory also ``b8`` (bools, b1 in registers), ``f16`` and ``bf16`` (f32 in registers).  A Value has one element type and a number of lanes.
Operators take equal element types, or a Python number, and spread one lane over many.  Arithmetic is IEEE's, without fast-math: what is
written is computed.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Collection, Sequence
from functools import partialmethod
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from . import target as targets
from .arguments import Record, fields_of

# Element types by NumPy dtype, their sizes in bytes, and LLVM's names of them.
ELEMENTS = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.bool_): "b8",
    **{np.dtype(f"{sign}{size}"): f"{sign}{8 * size}" for sign in "iu" for size in (1, 2, 4, 8)},
}
FLOATS = {dtype: element for dtype, element in ELEMENTS.items() if element in ("f32", "f64")}  # those that most kernels take
SIZES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "b8": 1, "ptr": 8}
SIZES.update({f"{sign}{8 * size}": size for sign in "iu" for size in (1, 2, 4, 8)})
REGISTER = {"b8": "b1", "f16": "f32", "bf16": "f32"}  # the element type in registers, where it differs from the one in memory
_NAMES = {"f32": "float", "f64": "double", "f16": "half", "b1": "i1", "ptr": "ptr", "b8": "i8"}
_BITS_OF = {"f32": "i32", "f64": "i64"}
_PAIRS_OF_PRODUCTS = {8: "llvm.x86.sse2.pmadd.wd", 16: "llvm.x86.avx2.pmadd.wd", 32: "llvm.x86.avx512.pmaddw.d.512"}  # by lanes of int16
R = TypeVar("R", bound=Record)


def register_element(element: str) -> str:
    return REGISTER.get(element, element)


def llvm_name(element: str, lanes: int = 1) -> str:
    llvm = _NAMES.get(element) or "i" + element[1:]
    return llvm if lanes == 1 else f"<{lanes} x {llvm}>"


def intrinsic_suffix(element: str, lanes: int) -> str:
    """Ending of the name of an intrinsic for vectors of an element type."""
    llvm = element if element[0] == "f" else "i" + element[1:]
    return llvm if lanes == 1 else f"v{lanes}{llvm}"


def literal(value: Any, element: str) -> str:
    """A number as LLVM writes it; floats as the hexadecimal of a double, which is exact."""
    if element in ("f32", "f64"):
        number = float(np.float32(value)) if element == "f32" else float(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if element == "b1":
        return "true" if value else "false"
    bits = int(element[1:])
    number = int(value) & ((1 << bits) - 1)
    return str(number - (1 << bits) if number >> (bits - 1) else number)


def _operator(instruction: str, of_floats: str = "") -> Callable[[Value, Any], Value]:
    """The operator of Values that is an instruction, or another one ``of_floats``."""

    def write(self: Value, other: Any) -> Value:
        return self.k.binary(of_floats if of_floats and self.is_float else instruction, self, other)

    return write


def _reflected(operate: Callable[[Value, Value], Value]) -> Callable[[Value, Any], Value]:
    """The operator with a number on the left."""
    return lambda self, other: operate(self.k.like(other, self), self)


def _comparison(relation: str) -> Callable[[Value, Any], Value]:
    return lambda self, other: self.k.compare(relation, self, other)


class Value:
    """A value in a register: ``lanes`` elements of one type."""

    __slots__ = ("element", "k", "lanes", "text")
    __array_ufunc__ = None  # NumPy's numbers leave operators to us

    def __init__(self, k: Builder, text: str, element: str, lanes: int = 1):
        self.k, self.text, self.element, self.lanes = k, text, element, lanes

    @property
    def type(self) -> str:
        return llvm_name(self.element, self.lanes)

    @property
    def is_float(self) -> bool:
        return self.element in ("f32", "f64")

    def __repr__(self) -> str:
        return f"Value({self.type} {self.text})"

    __add__ = _operator("add", "fadd")
    __sub__ = _operator("sub", "fsub")
    __mul__ = _operator("mul", "fmul")
    __truediv__ = _operator("fdiv")
    # of integers that are not negative, by one that is not zero
    __floordiv__ = _operator("udiv")
    __mod__ = _operator("urem")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __radd__ = _reflected(operator.add)
    __rsub__ = _reflected(operator.sub)
    __rmul__ = _reflected(operator.mul)
    __rtruediv__ = _reflected(operator.truediv)
    __lt__ = _comparison("lt")
    __le__ = _comparison("le")
    __gt__ = _comparison("gt")
    __ge__ = _comparison("ge")
    eq = _comparison("eq")
    ne = _comparison("ne")

    def __rshift__(self, other: Any) -> Value:
        return self.k.binary("lshr" if self.element[0] == "u" else "ashr", self, other)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        quotient = self // other
        return quotient, self - quotient * other

    def __neg__(self) -> Value:
        if self.is_float:
            return self.k.emit(f"fneg {self.type} {self.text}", self.element, self.lanes)
        return self.k.like(0, self) - self

    def __invert__(self) -> Value:
        return self.k.binary("xor", self, True if self.element == "b1" else -1)

    def is_nan(self) -> Value:
        return self.k.emit(f"fcmp uno {self.type} {self.text}, {self.text}", "b1", self.lanes)


class Builder:
    """Writes the IR of one kernel; see the module's docstring.

    Attributes:
        target: the processor that is written for.
        name: name of the machine function.
        slots: struct-module letter of each argument.
        arrays: places among them of arrays; reads_tables: whether the kernel finds further arrays in tables of their ``id``.
        record, without: what declares the arguments, if anything does, and which of its fields are left out.
        is_single: whether what is computed in float64 becomes float32 at the end.
        features: what it uses beyond the target's class, in LLVM's words; who asks for such a kernel has looked whether it is there.
    """

    is_single = False
    features = ""

    def __init__(self, name: str, target: targets.Target):
        self.name, self.target = name, target
        self.lines: list[str] = []
        self.scratches: list[str] = []  # of the entry block, where LLVM wants them
        self.declared: dict[str, str] = {}
        self._functions: dict[str, list[tuple[str, int]]] = {}  # element types and lanes of the results of those among the declared
        self.slots = ""
        self.arrays: list[int] = []
        self.reads_tables = False
        self.block = "entry"
        self.count = 0
        self.record: type[Record] | None = None
        self.without: frozenset[str] = frozenset()
        self.first, self.last = Value(self, "%first", "i64"), Value(self, "%last", "i64")

    # -- text ---------------------------------------------------------------------------------------------------------------
    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, instruction: str, element: str, lanes: int = 1) -> Value:
        """Append an instruction; its result as a Value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, name, element, lanes)

    def effect(self, instruction: str) -> None:
        self.lines.append("  " + instruction)

    def call(self, name: str, element: str, lanes: int, *operands: Value, more: str = "") -> Value:
        """Call an intrinsic, declared at its first use; ``more`` are further immediate operands with their types."""
        result = llvm_name(element, lanes)
        elements = [v.type for v in operands] + [part.split()[0] for part in filter(None, more.split(", "))]
        self.declared[name] = f"declare {result} @{name}({', '.join(elements)})"
        passed = ", ".join([f"{v.type} {v.text}" for v in operands] + ([more] if more else []))
        return self.emit(f"call {result} @{name}({passed})", element, lanes)

    def text(self) -> str:
        """The module: this kernel and what it declares."""
        body = "\n".join(self.scratches + self.lines)
        declarations = "\n".join(self.declared.values())
        features = f' "target-features"="{self.features}"' if self.features else ""
        return (
            f"{declarations}\ndefine i64 @{self.name}(ptr noalias readonly %arguments, i64 %first, i64 %last, ptr %array_class) "
            f'nounwind "no-builtins"{features} {{\nentry:\n{body}\n  ret i64 0\nrefuse:\n  ret i64 1\n}}\n'
        )

    # -- arguments ----------------------------------------------------------------------------------------------------------
    def arguments(self, record: type[R], without: Collection[str] = ()) -> R:
        """All arguments, as ``record`` declares them; None for those ``without`` which this specification is."""
        if self.slots:
            raise TypeError(f"{self.name}: arguments beside those of {record.__name__}")
        given = record(**{name: None if name in without else self._argument(word) for name, word in fields_of(record).items()})
        self.record, self.without = record, frozenset(without)
        return given

    def _argument(self, word: Any) -> Any:
        if isinstance(word, str):
            return getattr(self, word)()
        return word(**{name: self._argument(inner) for name, inner in fields_of(word).items()})

    def _slot(self, letter: str, element: str) -> Value:
        if self.record is not None:
            raise TypeError(f"{self.name}: arguments beside those of {self.record.__name__}")
        at = self.emit(f"getelementptr i64, ptr %arguments, i64 {len(self.slots)}", "ptr")
        self.slots += letter
        return self.emit(f"load {llvm_name(element)}, ptr {at.text}, align 8", element)

    def array(self) -> Value:
        """Pointer to the data of a NumPy array, which is passed as ``id(array)``: the kernel reads the array's own header."""
        self.arrays.append(len(self.slots))
        return self._data_of(self._slot("q", "ptr"))

    def data_of(self, header: Value) -> Value:
        """Pointer to the data of the NumPy array at an address, its ``id`` (a pointer, or an i64 read from a table).

        The kernel ends here where the object there is no array.
        """
        self.reads_tables = True
        if header.element != "ptr":
            header = self.emit(f"inttoptr i64 {header.text} to ptr", "ptr")
        return self._data_of(header)

    def _data_of(self, header: Value) -> Value:
        at = self.emit(f"getelementptr i8, ptr {header.text}, i64 {targets.CLASS}", "ptr")
        found = self.emit(f"load ptr, ptr {at.text}, align 8", "ptr")
        is_array = self.emit(f"icmp eq ptr {found.text}, %array_class", "b1")
        self.count += 1
        self.effect(f"br i1 {is_array.text}, label %array{self.count}, label %refuse")
        self.label(f"array{self.count}")
        at = self.emit(f"getelementptr i8, ptr {header.text}, i64 {targets.ARRAY_DATA}", "ptr")
        return self.emit(f"load ptr, ptr {at.text}, align 8", "ptr")

    def pointer(self) -> Value:
        """An address, passed as an integer."""
        return self._slot("q", "ptr")

    def integer(self) -> Value:
        return self._slot("q", "i64")

    def number(self, element: str = "f64") -> Value:
        """A Python number as a Value of ``element``: floats are passed as double, everything else as int64."""
        element = register_element(element)
        if element in ("f32", "f64"):
            return self.cast(self._slot("d", "f64"), element)
        return self.cast(self._slot("q", "i64"), element)

    # -- constants and spreading --------------------------------------------------------------------------------------------
    def const(self, value: Any, element: str, lanes: int = 1) -> Value:
        text = literal(value, element)
        return Value(self, text if lanes == 1 else f"splat ({llvm_name(element)} {text})", element, lanes)

    def like(self, value: Any, model: Value) -> Value:
        """``value`` with the element type and lanes of ``model``."""
        if not isinstance(value, Value):
            return self.const(value, model.element, model.lanes)
        if value.element != model.element:
            raise TypeError(f"{self.name}: expected elements of type {model.element}, got {value.element}; cast it first")
        return self.splat(value, model.lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        """One lane spread over ``lanes``."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise TypeError(f"{self.name}: cannot spread {value.lanes} lanes over {lanes}")
        if not value.text.startswith("%"):
            return Value(self, f"splat ({value.type} {value.text})", value.element, lanes)
        wide = llvm_name(value.element, lanes)
        one = self.emit(f"insertelement {wide} poison, {value.type} {value.text}, i32 0", value.element, lanes)
        return self.emit(f"shufflevector {wide} {one.text}, {wide} poison, <{lanes} x i32> zeroinitializer", value.element, lanes)

    def pair(self, a: Any, b: Any) -> tuple[Value, Value]:
        """Two operands with equal element types and lanes."""
        if not isinstance(a, Value):
            a = self.const(a, b.element)
        b = self.like(b, a) if not isinstance(b, Value) else b
        if a.element != b.element:
            raise TypeError(f"{self.name}: operands of element types {a.element} and {b.element}; cast one first")
        lanes = max(a.lanes, b.lanes)
        return self.splat(a, lanes), self.splat(b, lanes)

    def indices(self, lanes: int, element: str = "i64") -> Value:
        """0, 1, 2, ... in as many lanes."""
        if lanes == 1:
            return self.const(0, element)
        llvm = llvm_name(element)
        return Value(self, "<" + ", ".join(f"{llvm} {i}" for i in range(lanes)) + ">", element, lanes)

    # -- arithmetic -----------------------------------------------------------------------------------------------------------
    def binary(self, instruction: str, a: Any, b: Any) -> Value:
        a, b = self.pair(a, b)
        return self.emit(f"{instruction} {a.type} {a.text}, {b.text}", a.element, a.lanes)

    def compare(self, relation: str, a: Any, b: Any) -> Value:
        """Ordered comparison; ``ne`` alone is true of NaN."""
        a, b = self.pair(a, b)
        if a.is_float:
            word = "fcmp " + ("une" if relation == "ne" else "o" + relation)
        elif relation in ("eq", "ne"):
            word = "icmp " + relation
        else:
            word = "icmp " + ("u" if a.element[0] in "ub" or a.element == "ptr" else "s") + relation
        return self.emit(f"{word} {a.type} {a.text}, {b.text}", "b1", a.lanes)

    def select(self, mask: Value, a: Any, b: Any) -> Value:
        """``a`` where ``mask``, else ``b``."""
        a, b = self.pair(a, b)
        lanes = max(mask.lanes, a.lanes)
        a, b = self.splat(a, lanes), self.splat(b, lanes)
        return self.emit(f"select {mask.type} {mask.text}, {a.type} {a.text}, {b.type} {b.text}", a.element, lanes)

    def _intrinsic(self, name: str, *values: Any) -> Value:
        model = max((v for v in values if isinstance(v, Value)), key=lambda v: v.lanes)
        operands = [self.like(v, model) for v in values]
        return self.call(f"llvm.{name}.{intrinsic_suffix(model.element, model.lanes)}", model.element, model.lanes, *operands)

    def fma(self, a: Any, b: Any, c: Any) -> Value:
        """``a * b + c``: one rounding where the processor has the instruction, two elsewhere."""
        if self.target.has_fma:
            return self._intrinsic("fma", a, b, c)
        return a * b + c if isinstance(a, Value) else b * a + c

    def two_product(self, a: Value, b: Any) -> tuple[Value, Value]:
        """``a * b`` as a sum of two: the rounded product, and what rounding took from it."""
        b = self.like(b, a)
        product = a * b
        if self.target.has_fma:
            return product, self.fma(a, b, -product)
        splitter = 2.0**27 + 1.0 if a.element == "f64" else 2.0**12 + 1.0  # Dekker 1971: halves whose products are exact

        def halves(v: Value) -> tuple[Value, Value]:
            c = v * splitter
            high = c - (c - v)
            return high, v - high

        (ah, al), (bh, bl) = halves(a), halves(b)
        return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl

    def dot(self, total: Value, a: Value, b: Value) -> Value:
        """``total`` (i32) and in each lane four products of neighbouring elements of ``a`` (u8) and of ``b`` (i8), exactly.

        One instruction where ``features`` has it (``target.dot_features``). Elsewhere even and odd elements are widened and pairs of their
        products added in 32 bits: in 16, as the older instruction for bytes does it, they could saturate.

        Args:
            a, b: four times as many elements as ``total`` has lanes, or as many words of four.
        """
        lanes, words = total.lanes, [self.bits_as(value, "i32", total.lanes) for value in (a, b)]
        if "vnni" in self.features and self.target.width in (32, 64) and 4 * lanes in (16, 32, 64):
            return self.call(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", "i32", lanes, total, *words)
        if (name := _PAIRS_OF_PRODUCTS.get(2 * lanes)) and self.target.triple.startswith("x86"):
            halves = [self.bits_as(value, element, 2 * lanes) for value, element in zip(words, ("u16", "i16"), strict=True)]
            even = halves[0] & 255, (halves[1] << 8) >> 8
            for pair in (even, (halves[0] >> 8, halves[1] >> 8)):
                total = total + self.call(name, "i32", lanes, *pair)
            return total
        left = Value(self, words[0].text, "u32", lanes)
        for place in range(4):
            factor = self.cast((left >> (8 * place)) & 255, "i32")
            total = total + factor * ((words[1] << (24 - 8 * place)) >> 24)
        return total

    def sqrt(self, a: Value) -> Value:
        return self._intrinsic("sqrt", a)

    def abs(self, a: Value) -> Value:
        if a.is_float:
            return self._intrinsic("fabs", a)
        return a if a.element[0] == "u" else self.select(a < 0, -a, a)

    def copysign(self, magnitude: Any, sign: Value) -> Value:
        """``magnitude`` with the sign of ``sign``."""
        return self._intrinsic("copysign", magnitude, sign)

    def least(self, a: Any, b: Any) -> Value:
        """The smaller of two; of floats the second where either is NaN (one machine instruction)."""
        a, b = self.pair(a, b)
        return self.select(a < b, a, b)

    def most(self, a: Any, b: Any) -> Value:
        """The larger of two; of floats the second where either is NaN (one machine instruction)."""
        a, b = self.pair(a, b)
        return self.select(a > b, a, b)

    def minimum(self, a: Any, b: Any) -> Value:
        """The smaller of two; NaN where either is NaN."""
        a, b = self.pair(a, b)
        return self.select(a.is_nan(), a, self.least(a, b)) if a.is_float else self.least(a, b)

    def maximum(self, a: Any, b: Any) -> Value:
        """The larger of two; NaN where either is NaN."""
        a, b = self.pair(a, b)
        return self.select(a.is_nan(), a, self.most(a, b)) if a.is_float else self.most(a, b)

    def round_even(self, a: Value) -> Value:
        """To the nearest whole number, ties to even, for |a| below 2**22 (float32) or 2**51 (float64)."""
        magic = 1.5 * 2.0**23 if a.element == "f32" else 1.5 * 2.0**52
        return (a + magic) - magic

    def _whole(self, name: str, a: Value) -> Value:
        """Rounding functions; on processors without the instruction by the sum with a number from which on floats are whole."""
        if self.target.has_rounding:
            return self._intrinsic(name, a)
        whole = 2.0**23 if a.element == "f32" else 2.0**52
        size = self.abs(a)
        near = (size + whole) - whole  # the size rounded to even; right for all below ``whole``
        if name == "trunc":
            near = self.select(near > size, near - 1.0, near)
        near = self.copysign(near, a)
        if name == "floor":
            near = self.select(near > a, near - 1.0, near)
        elif name == "ceil":
            near = self.copysign(self.select(near < a, near + 1.0, near), a)
        return self.select(size < whole, near, a)

    floor = partialmethod(_whole, "floor")
    ceil = partialmethod(_whole, "ceil")
    trunc = partialmethod(_whole, "trunc")
    rint = partialmethod(_whole, "rint")  # ties to even

    # -- conversions ----------------------------------------------------------------------------------------------------------
    def bits(self, a: Value, element: str | None = None) -> Value:
        """The same bits as another element type of the same size: by default a float's as integer, an integer's as float."""
        if element is None:
            element = _BITS_OF[a.element] if a.is_float else "f" + a.element[1:]
        return self.emit(f"bitcast {a.type} {a.text} to {llvm_name(element, a.lanes)}", element, a.lanes)

    def bits_as(self, a: Value, element: str, lanes: int) -> Value:
        """The same bits as so many integers of another size."""
        if (a.element[1:], a.lanes) == (element[1:], lanes):
            return Value(self, a.text, element, lanes)
        return self.emit(f"bitcast {a.type} {a.text} to {llvm_name(element, lanes)}", element, lanes)

    def cast(self, a: Value, element: str) -> Value:
        """``a`` as another element type, by C's rules: floats are truncated, integers wrap."""
        if a.element == element:
            return a
        if element == "b1":
            return a.ne(0)
        if a.element == "b1":
            if element in ("f32", "f64"):
                return self.select(a, self.const(1, element, a.lanes), self.const(0, element, a.lanes))
            return self._convert("zext", a, element)
        if a.is_float and element in ("f32", "f64"):
            return self._convert("fpext" if element == "f64" else "fptrunc", a, element)
        if a.is_float:
            # to narrow integers through wider ones: out of range they wrap, as C's compilers make it on the usual processors
            through = "i64" if element in ("i64", "u64", "u8", "u16", "u32") else "i32"
            return self.cast(self._convert("fptosi", a, through), element)
        if element in ("f32", "f64"):
            return self._convert("uitofp" if a.element[0] == "u" else "sitofp", a, element)
        have, want = int(a.element[1:]), int(element[1:])
        if have == want:
            return Value(self, a.text, element, a.lanes)
        return self._convert("trunc" if want < have else "zext" if a.element[0] == "u" else "sext", a, element)

    def _convert(self, instruction: str, a: Value, element: str) -> Value:
        return self.emit(f"{instruction} {a.type} {a.text} to {llvm_name(element, a.lanes)}", element, a.lanes)

    # -- memory -----------------------------------------------------------------------------------------------------------------
    def at(self, pointer: Value, index: Any, element: str) -> Value:
        """Pointer to element ``index`` (counted in elements of ``element``)."""
        index = self.like(index, self.const(0, "i64")) if not isinstance(index, Value) else index
        if index.text == "0":
            return pointer
        return self.emit(f"getelementptr {_memory_name(element)}, ptr {pointer.text}, i64 {index.text}", "ptr")

    def load(self, pointer: Value, index: Any, element: str, lanes: int = 1, mask: Value | None = None, other: Any = 0) -> Value:
        """``lanes`` neighbouring elements from ``index`` on; where ``mask`` is false nothing is read and the lane is ``other``."""
        at = self.at(pointer, index, element)
        memory = "i16" if element == "bf16" else element
        size = SIZES[element]
        if mask is None or lanes == 1:
            got = self.emit(f"load {llvm_name(memory, lanes)}, ptr {at.text}, align {size}", memory, lanes)
        else:
            raw = self.const(0 if element in REGISTER else other, "i16" if element == "f16" else memory, lanes)
            if element == "f16":
                raw = Value(self, "zeroinitializer", "f16", lanes)
            name = f"llvm.masked.load.{intrinsic_suffix(memory, lanes)}.p0"
            result = llvm_name(memory, lanes)
            self.declared[name] = f"declare {result} @{name}(ptr, i32, <{lanes} x i1>, {result})"
            got = self.emit(
                f"call {result} @{name}(ptr {at.text}, i32 {size}, <{lanes} x i1> {mask.text}, {result} {raw.text})", memory, lanes
            )
        value = self._from_memory(got, element)
        if mask is not None and lanes > 1 and element in REGISTER and not (isinstance(other, (int, float)) and other == 0):
            value = self.select(mask, value, other)
        return value

    def store(self, value: Value, pointer: Value, index: Any, element: str, mask: Value | None = None) -> None:
        """Write ``value``'s lanes as neighbouring elements from ``index`` on, those where ``mask`` is false excepted."""
        at = self.at(pointer, index, element)
        raw = self._to_memory(value, element)
        memory = "i16" if element == "bf16" else element
        size = SIZES[element]
        if mask is None or value.lanes == 1:
            self.effect(f"store {raw.type} {raw.text}, ptr {at.text}, align {size}")
            return
        name = f"llvm.masked.store.{intrinsic_suffix(memory, value.lanes)}.p0"
        self.declared[name] = f"declare void @{name}({raw.type}, ptr, i32, <{value.lanes} x i1>)"
        self.effect(f"call void @{name}({raw.type} {raw.text}, ptr {at.text}, i32 {size}, <{value.lanes} x i1> {mask.text})")

    def blend(self, value: Value, pointer: Value, index: Any, element: str, mask: Value) -> None:
        """``store`` for memory that no other thread writes to: lanes where ``mask`` is false are read and written back.

        AMD's processors take some 18 cycles for AVX2's masked store. The load is volatile lest LLVM makes one of this, too.
        """
        if self.target.has_masks:
            self.store(value, pointer, index, element, mask)
            return
        at = self.at(pointer, index, element)
        old = self.emit(f"load volatile {value.type}, ptr {at.text}, align {SIZES[element]}", value.element, value.lanes)
        self.store(self.select(mask, value, old), at, 0, element)

    def gather(self, pointer: Value, index: Value, element: str, mask: Value | None = None, step: str | None = None) -> Value:
        """The elements at ``index`` (i64, one per lane); masked lanes are not read and are zero.

        ``index`` counts elements of ``step`` where that is another type: with ``u8``, elements begin at any byte.
        """
        if index.lanes == 1:
            return self.load(self.at(pointer, index, step), 0, element) if step else self.load(pointer, index, element)
        memory = "i16" if element == "bf16" else element
        n = index.lanes
        at = self.emit(f"getelementptr {_memory_name(step or element)}, ptr {pointer.text}, {index.type} {index.text}", "ptr", n)
        name = f"llvm.masked.gather.{intrinsic_suffix(memory, n)}.v{n}p0"
        result = llvm_name(memory, n)
        self.declared[name] = f"declare {result} @{name}(<{n} x ptr>, i32, <{n} x i1>, {result})"
        lanes = mask.text if mask is not None else "splat (i1 true)"
        got = self.emit(
            f"call {result} @{name}(<{n} x ptr> {at.text}, i32 {SIZES[step or element]}, <{n} x i1> {lanes}, {result} zeroinitializer)",
            memory,
            n,
        )
        return self._from_memory(got, element)

    def load_strided(self, pointer: Value, index: Value, stride: Value, element: str, lanes: int, mask: Value | None = None) -> Value:
        """Elements ``index``, ``index + stride``, ... of as many lanes."""
        if lanes == 1:
            return self.load(pointer, index, element)
        return self.gather(pointer, self.splat(index, lanes) + self.indices(lanes) * stride, element, mask)

    def _from_memory(self, raw: Value, element: str) -> Value:
        if element == "b8":
            zero = "0" if raw.lanes == 1 else "zeroinitializer"
            return self.emit(f"icmp ne {llvm_name('i8', raw.lanes)} {raw.text}, {zero}", "b1", raw.lanes)
        if element == "f16":
            return self._convert("fpext", raw, "f32")
        if element == "bf16":
            return self.bits(self._convert("zext", raw, "i32") << 16)
        return raw

    def _to_memory(self, value: Value, element: str) -> Value:
        if value.element != register_element(element):
            raise TypeError(f"{self.name}: cannot store elements of type {value.element} as {element}; cast it first")
        if element == "b8":
            return Value(self, self._convert("zext", value, "i8").text, "b8", value.lanes)
        if element == "f16":
            return self._convert("fptrunc", value, "f16")
        if element == "bf16":  # round to nearest even by adding just below half; a NaN keeps its upper bits, made quiet
            bits = Value(self, self.bits(value).text, "u32", value.lanes)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            quiet = (bits >> 16) | 0x40
            return self._convert("trunc", self.select(value.is_nan(), quiet, rounded), "i16")
        return value

    def prefetch(self, pointer: Value, index: Any, element: str) -> None:
        at = self.at(pointer, index, element)
        self.declared["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self.effect(f"call void @llvm.prefetch.p0(ptr {at.text}, i32 0, i32 3, i32 1)")

    def opaque(self, pointer: Value) -> Value:
        """The same pointer, of which the compiler knows no more than that: it stays in a register of its own, where it would else be
        computed anew from others in every step of a loop."""
        return self.emit(f'call ptr asm "", "=r,0"(ptr {pointer.text})', "ptr")

    def scratch(self, count: int, element: str) -> Value:
        """Memory of ``count`` elements on the thread's stack, for at most some 64 KB; 64-byte aligned. Call it before any loop."""
        name = self.fresh()
        self.scratches.append(f"  {name} = alloca [{count} x {_memory_name(element)}], align 64")
        return Value(self, name, "ptr")

    def table(self, values: Sequence[Any], element: str) -> Value:
        """Pointer to constants that the kernel carries with it; equal tables are stored once."""
        llvm = llvm_name(element)
        body = f"[{len(values)} x {llvm}] [{', '.join(f'{llvm} {literal(v, element)}' for v in values)}], align 64"
        name = next((n for n, text in self.declared.items() if text.endswith(body)), f"table{len(self.declared)}")
        self.declared[name] = f"@{name} = private unnamed_addr constant {body}"
        return Value(self, "@" + name, "ptr")

    # -- lanes ---------------------------------------------------------------------------------------------------------------------
    def lanes(self, element: str) -> int:
        """Number of elements of type ``element``, as it is in registers, that one vector register holds."""
        size = 4 if element in REGISTER and element != "b8" else SIZES.get(element, 1)
        return self.target.width // size

    def extract(self, a: Value, lane: int) -> Value:
        return a if a.lanes == 1 else self.emit(f"extractelement {a.type} {a.text}, i32 {lane}", a.element)

    def shuffle(self, a: Value, order: Sequence[int], b: Value | None = None) -> Value:
        """Lanes in another order, from ``a`` and (counted on) ``b``."""
        second = "poison" if b is None else b.text
        mask = ", ".join(f"i32 {i}" for i in order)
        return self.emit(f"shufflevector {a.type} {a.text}, {a.type} {second}, <{len(order)} x i32> <{mask}>", a.element, len(order))

    def sum(self, a: Value) -> Value:
        """The sum of all lanes."""
        return self.fold(a, lambda x, y: x + y)

    def fold(self, a: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All lanes combined pairwise to one by ``combine``; always in the same order."""
        while a.lanes > 1:
            a = combine(*self.halves(a))
        return a

    def halves(self, a: Value) -> tuple[Value, Value]:
        """The lower and the upper lanes.

        Folds take values of half the lanes, not whole ones whose upper lanes are never read: with those, LLVM 22 shuffles the wrong
        lanes at times (in the least of int16, as int32).
        """
        if a.lanes == 2:
            return self.extract(a, 0), self.extract(a, 1)
        half = a.lanes // 2
        return self.shuffle(a, range(half)), self.shuffle(a, range(half, a.lanes))

    def any(self, mask: Value) -> Value:
        """Whether any lane of ``mask`` is true."""
        if mask.lanes == 1:
            return mask
        whole = self.emit(f"bitcast {mask.type} {mask.text} to i{mask.lanes}", f"i{mask.lanes}")
        return self.emit(f"icmp ne i{mask.lanes} {whole.text}, 0", "b1")

    # -- control -----------------------------------------------------------------------------------------------------------------
    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def loop(self, start: Any, stop: Any, body: Callable[..., Any], *, step: Any = 1, carried: Sequence[Value] = ()) -> Any:
        """``for i in range(start, stop, step)``: ``body(i, *carried)`` returns the next values of ``carried`` (a tuple, or one Value).

        Returns the last ones: a tuple, or one Value where there is one.
        """
        model = next((v for v in (start, stop) if isinstance(v, Value)), self.const(0, "i64"))
        start, stop, step = (self.like(v, model) for v in (start, stop, step))

        def advance(index: Value, *values: Value) -> tuple[Any, ...]:
            results = as_tuple(body(index, *values))
            if len(results) != len(values):
                raise TypeError(f"{self.name}: a loop's body returned {len(results)} values for {len(values)} carried ones")
            return index + step, *results

        _, *last = as_tuple(self.repeat(lambda index, *_: index < stop, advance, (start, *carried)))
        return tuple(last) if len(last) != 1 else last[0]

    def repeat(self, more: Callable[..., Value], body: Callable[..., Any], carried: Sequence[Value]) -> Any:
        """``while more(*carried): carried = body(*carried)``, with one lane as the condition; the last values, as ``loop`` returns them."""
        self.count += 1
        n = self.count
        before, head = self.block, f"head{n}"
        self.effect(f"br label %{head}")
        self.label(head)
        slots = [Value(self, self.fresh(), v.element, v.lanes) for v in carried]
        place = len(self.lines)
        self.lines += [""] * len(slots)
        condition = more(*slots)
        self.effect(f"br i1 {condition.text}, label %body{n}, label %after{n}")
        self.label(f"body{n}")
        results = as_tuple(body(*slots))
        for k, (slot, first, result) in enumerate(zip(slots, carried, results, strict=True)):
            result = self.like(result, slot)
            self.lines[place + k] = f"  {slot.text} = phi {slot.type} [{first.text}, %{before}], [{result.text}, %{self.block}]"
        self.effect(f"br label %{head}")
        self.label(f"after{n}")
        return tuple(slots) if len(slots) != 1 else slots[0]

    def when(self, condition: Value, then: Callable[[], Any], otherwise: Callable[[], Any] | None = None) -> Any:
        """A branch; both sides return values of the same types (a tuple, one Value, or None), which are the result."""
        self.count += 1
        n = self.count
        self.effect(f"br i1 {condition.text}, label %then{n}, label %else{n}")
        self.label(f"then{n}")
        yes = as_tuple(then())
        self.effect(f"br label %join{n}")
        yes_block = self.block
        self.label(f"else{n}")
        no = as_tuple(otherwise() if otherwise is not None else None)
        self.effect(f"br label %join{n}")
        no_block = self.block
        self.label(f"join{n}")
        if len(yes) != len(no):
            raise TypeError(f"{self.name}: the sides of a branch return {len(yes)} and {len(no)} values")
        results = tuple(
            self.emit(f"phi {a.type} [{a.text}, %{yes_block}], [{b.text}, %{no_block}]", a.element, a.lanes)
            for a, b in zip(yes, no, strict=True)
        )
        return results if len(results) != 1 else results[0]

    def function(self, name: str, body: Callable[..., Sequence[Value]], *operands: Value) -> tuple[Value, ...]:
        """``body(builder, *operands)`` as a function of its own, written once a kernel and called: for long parts that rarely run.

        ``name`` and the operands' types must determine what ``body`` writes.
        """
        full = name + "".join(f".{v.element}.{v.lanes}" for v in operands)
        if full not in self.declared:
            self.declared[full] = ""  # keeps its place, so that names of tables stay different
            inner = Builder(full, self.target)
            inner.declared, inner._functions = self.declared, self._functions
            results = body(inner, *(Value(inner, f"%a{i}", v.element, v.lanes) for i, v in enumerate(operands)))
            together, aggregate = f"{{{', '.join(v.type for v in results)}}}", "poison"
            for i, v in enumerate(results):
                aggregate = inner.emit(f"insertvalue {together} {aggregate}, {v.type} {v.text}, {i}", "ptr").text
            lines = "\n".join(inner.scratches + inner.lines)
            passed = ", ".join(f"{v.type} %a{i}" for i, v in enumerate(operands))
            self._functions[full] = [(v.element, v.lanes) for v in results]
            self.declared[full] = (
                f'define internal {together} @{full}({passed}) noinline nounwind "no-builtins" {{\nentry:\n{lines}\n'
                f"  ret {together} {aggregate}\n}}"
            )
        elements = self._functions[full]
        together = f"{{{', '.join(llvm_name(element, lanes) for element, lanes in elements)}}}"
        all_results = self.emit(f"call {together} @{full}({', '.join(f'{v.type} {v.text}' for v in operands)})", "ptr")
        return tuple(
            self.emit(f"extractvalue {together} {all_results.text}, {i}", element, lanes) for i, (element, lanes) in enumerate(elements)
        )

    def for_chunks(self, body: Callable[[Value], Any]) -> None:
        """Run ``body(chunk)`` for every chunk that this call of the kernel was given."""
        self.loop(self.first, self.last, body)

    def mask_below(self, index: Value, stop: Value, lanes: int) -> Value:
        """Mask of the elements ``index``, ``index + 1``, ... lie below ``stop``."""
        left = self.cast(stop - index, "i32")
        return self.indices(lanes, "i32") < self.splat(left, lanes)

    def vector_loop(
        self, start: Any, stop: Any, lanes: int, body: Callable[..., Any], *, carried: Sequence[Value] = (), unroll: int = 1
    ) -> Any:
        """``body(i, mask, *carried)`` for every ``lanes`` elements from ``start`` to ``stop``.

        ``mask`` is None in the main loop and the remaining lanes in the last step, which runs only where elements remain.
        """
        start, stop = (self.like(v, self.const(0, "i64")) for v in (start, stop))
        wide = lanes * unroll

        def unrolled(i: Value, *values: Value) -> Any:
            for u in range(unroll):
                values = as_tuple(body(i + u * lanes, None, *values))
            return values

        values: Any = tuple(carried)
        done = start
        for width, run in [(wide, unrolled)] + ([(lanes, lambda i, *v: body(i, None, *v))] if unroll > 1 else []):
            end = stop - ((stop - done) % width) if width & (width - 1) else stop - ((stop - done) & (width - 1))
            values = as_tuple(self.loop(done, end, run, step=width, carried=values))
            done = end
        if lanes > 1:
            last = done
            values = as_tuple(
                self.when(last < stop, lambda: body(last, self.mask_below(last, stop, lanes), *values), lambda: values or None)
            )
        return values if len(values) != 1 else values[0]


def as_tuple(values: Any) -> tuple[Value, ...]:
    if values is None:
        return ()
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _memory_name(element: str) -> str:
    return "i16" if element == "bf16" else llvm_name(element)
