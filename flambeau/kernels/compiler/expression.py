"""From an operation's NumPy expression to a program that any kernel can contain.

An operation's reference kernel says what it computes, in NumPy.  Called with ``Symbol``s instead of arrays, the same function writes down
what it does: a ``Program``, a tuple of instructions over numbered values.  So an element-wise operation gets its native kernel from its
definition, and a derivative rule, which is Tensor code, gets one kernel for its whole chain of operations: its tensors hold Symbols.

    reference:   np.maximum(x, y) * 2            with x, y float32
    program:     0 = input 0 (f32)   1 = input 1 (f32)   2 = maximum f32 0 1   3 = constant f32 2   4 = multiply f32 2 3

What a Symbol cannot do (reductions, indexing, asking for values) raises ``Untraceable``; the operation then stays with its reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.calls.interruption import pass_on
from .language import ELEMENTS, Builder, Value, register_element

# (name, element type, operand numbers...), ("input", element type, index) or ("constant", element type, value, its repr, since 0.0 equals
# -0.0); a repeated step's name is its Program
Instruction = tuple[Any, ...]


class Untraceable(Exception):
    """The function did something that has no counterpart in a program."""


class Program(NamedTuple):
    """Instructions of a function.

    Attributes:
        instructions: in order; ``results``: which of their values are the results.
        row_major: whether these are row-major whatever the operands are.
        nonzero: the inputs none of whose elements may be zero; where one is, the program is not for that call.
    """

    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]
    row_major: bool = False
    nonzero: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """Number of instructions that compute something."""
        return sum(instruction[0] not in ("input", "constant", "cast") for instruction in self.instructions)

    @property
    def is_heavy(self) -> bool:
        """Whether arithmetic rather than memory takes the time."""
        return any(isinstance(instruction[0], Program) or instruction[0] in _HEAVY for instruction in self.instructions)


class Gather(NamedTuple):
    """Name of an instruction: an element of one of the arrays that a program looks into; its operands are the indices, one per dimension.

    Attributes:
        number: the array's place among them.
        wraps: whether an index may be negative, which then counts from the end.
    """

    number: int
    wraps: bool


class Writer:
    """The program being written; equal instructions are written once."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.numbers: dict[Instruction, int] = {}
        self.row_major = False
        self.nonzero: list[int] = []

    def add(self, *instruction: Any) -> int:
        if instruction not in self.numbers:
            self.numbers[instruction] = len(self.instructions)
            self.instructions.append(instruction)
        return self.numbers[instruction]


def _element(dtype: np.dtype) -> str:
    element = ELEMENTS.get(dtype)
    if element is None or element in ("f16", "bf16"):
        raise Untraceable(f"no instructions for {dtype}")
    return register_element(element)


class Symbol:
    """Stands for an array, one element of which is looked at."""

    __slots__ = ("dtype", "number", "writer")
    shape, ndim, size, nbytes = (1,), 1, 1, 8
    strides = (8,)
    __array_priority__ = 1000.0

    def __init__(self, writer: Writer, number: int, dtype: Any):
        self.writer, self.number, self.dtype = writer, number, np.dtype(dtype)

    # -- NumPy's functions ------------------------------------------------------------------------------------------------
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable("the values of an array are needed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or (out is not None and len(out) != 1):
            raise Untraceable(f"{ufunc.__name__}.{method}")
        if ufunc is np.frexp and out is None:
            mantissa, exponent, *_ = ufunc.resolve_dtypes((self.dtype, None, None))[1:]
            number = self._operand(self, mantissa)
            return tuple(
                [
                    Symbol(self.writer, self.writer.add(f"frexp_{part}", _element(mantissa), number), dtype)
                    for part, dtype in (("mantissa", mantissa), ("exponent", exponent))
                ]
            )
        result = self._apply(ufunc, inputs)
        return result if out is None else out[0]._become(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = _FUNCTIONS.get(function)
        if known is None:
            raise Untraceable(function.__name__)
        try:
            return known(self, *args, **kwargs)
        except TypeError as error:  # an argument that the counterpart does not know
            pass_on(error)
            raise Untraceable(f"{function.__name__}: {error}") from error

    def _apply(self, ufunc: Any, inputs: Any) -> Symbol:
        if ufunc.nout != 1 or ufunc.__name__ not in _LOWERED:
            raise Untraceable(ufunc.__name__)
        asked = [operand.dtype if isinstance(operand, (Symbol, np.ndarray, np.generic)) else type(operand) for operand in inputs]
        try:
            *loop, result = ufunc.resolve_dtypes((*asked, None))
        except TypeError as error:
            pass_on(error)
            raise Untraceable(str(error)) from error
        numbers = [self._operand(operand, dtype) for operand, dtype in zip(inputs, loop, strict=True)]
        return Symbol(self.writer, self.writer.add(ufunc.__name__, _element(loop[0]), *numbers), result)

    def _operand(self, value: Any, dtype: np.dtype) -> int:
        """Number of ``value`` as an operand of ``dtype``."""
        element = _element(dtype)
        if isinstance(value, Symbol):
            have = _element(value.dtype)
            return value.number if have == element else self.writer.add("cast", element, value.number)
        array = np.asarray(value)
        if array.ndim:
            raise Untraceable("an array among the operands")
        value = array.astype(dtype).item()
        return self.writer.add("constant", element, value, repr(value))

    def _become(self, other: Symbol) -> Symbol:
        """Implement ``out=`` and in-place operators: from now on this array has other contents."""
        self.number = self._operand(other, self.dtype)
        return self

    # -- methods --------------------------------------------------------------------------------------------------------------
    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Symbol:
        return Symbol(self.writer, self._operand(self, np.dtype(dtype)), dtype)

    def copy(self, order: str = "C") -> Symbol:
        return Symbol(self.writer, self.number, self.dtype)

    def named(self, name: str, *values: Any) -> Symbol:
        """SciPy's function of that name, of floating-point operands, without SciPy."""
        dtype = np.result_type(*[value.dtype if isinstance(value, Symbol) else value for value in values])
        if name not in _LOWERED or dtype.kind != "f":
            raise Untraceable(name)
        return Symbol(self.writer, self.writer.add(name, _element(dtype), *[self._operand(value, dtype) for value in values]), dtype)

    def repeated(self, degree: Any, first: Any, step: Callable[..., Any]) -> Symbol:
        """Of 1, ``first``, ... the value number ``degree``; ``step(k, x, now, before)`` says which follows number k, x being this one."""
        program = trace(step, [None] * 4, [self.dtype] * 4)
        operands = [self._operand(operand, dtype) for operand, dtype in ((self, self.dtype), (degree, degree.dtype), (first, self.dtype))]
        return Symbol(self.writer, self.writer.add(program, _element(self.dtype), *operands), self.dtype)

    def row_major(self) -> Symbol:
        """This result has to be row-major."""
        self.writer.row_major = True
        return self

    @property
    def real(self) -> Symbol:
        return self

    def __bool__(self) -> bool:
        raise Untraceable("a decision that depends on values")

    def __len__(self) -> int:
        raise Untraceable("the length of an array")

    def __iter__(self) -> Any:
        raise Untraceable("the elements of an array")

    def __getitem__(self, key: Any) -> Any:
        raise Untraceable("an index")

    __hash__ = None  # type: ignore[assignment]


_COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}


def _operators() -> None:
    """Python's operators on Symbols, each NumPy's function."""
    table = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "truediv": np.true_divide,
        "pow": np.power,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }

    def install(word: str, ufunc: Any) -> None:
        setattr(Symbol, f"__{word}__", lambda self, other: ufunc(self, other))
        setattr(Symbol, f"__r{word}__", lambda self, other: ufunc(other, self))
        setattr(Symbol, f"__i{word}__", lambda self, other: ufunc(self, other, out=self))

    for word, ufunc in table.items():
        install(word, ufunc)
    for word, compared in _COMPARISONS.items():
        setattr(Symbol, f"__{word}__", lambda self, other, ufunc=compared: ufunc(self, other))
    for word, one in {"neg": np.negative, "abs": np.absolute, "invert": np.invert, "pos": np.positive}.items():
        setattr(Symbol, f"__{word}__", lambda self, ufunc=one: ufunc(self))


_operators()


def _where(symbol: Symbol, mask: Any, a: Any, b: Any) -> Symbol:
    dtype = np.result_type(*[operand.dtype if isinstance(operand, Symbol) else operand for operand in (a, b)])
    numbers = [symbol._operand(mask, np.dtype(bool)), symbol._operand(a, dtype), symbol._operand(b, dtype)]
    return Symbol(symbol.writer, symbol.writer.add("where", _element(dtype), *numbers), dtype)


def _constant(value: int) -> Callable[..., Symbol]:
    def like(symbol: Symbol, model: Any, dtype: Any = None) -> Symbol:
        dtype = np.dtype(dtype or model.dtype)
        return Symbol(symbol.writer, symbol._operand(value, dtype), dtype)

    return like


def _all(symbol: Symbol, array: Any) -> bool:
    """Taken to be true of an input, and looked at when the program is to run."""
    name, _, index, *_ = array.writer.instructions[array.number]
    if name != "input":
        raise Untraceable("a decision that depends on computed values")
    array.writer.nonzero.append(index)
    return True


def _clip(symbol: Symbol, array: Any, low: Any, high: Any) -> Any:
    return np.minimum(high, np.maximum(low, array))  # of equal values the second is taken: a zero keeps its sign


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.all: _all,
    np.zeros_like: _constant(0),
    np.ones_like: _constant(1),
}


def trace(function: Callable[..., Any], arguments: list[Any], dtypes: list[np.dtype | None]) -> Program:
    """The program of ``function(*arguments)``, in which ``dtypes`` says which arguments are inputs (by dtype; None is left as it is).

    Raises:
        Untraceable: it has none.
    """
    writer = Writer()
    values, count = list(arguments), 0
    for i, dtype in enumerate(dtypes):
        if dtype is not None:
            values[i] = Symbol(writer, writer.add("input", _element(dtype), count), dtype)
            count += 1
    output = function(*values)
    results = output if isinstance(output, tuple) else (output,)
    if not all(isinstance(result, Symbol) and result.writer is writer for result in results):
        raise Untraceable("the result does not depend on the operands")
    program = Program(tuple(writer.instructions), tuple([result.number for result in results]), writer.row_major, tuple(writer.nonzero))
    return needed(program)


def needed(program: Program) -> Program:
    """The program without instructions that no result depends on; all inputs stay."""
    wanted = set(program.results)
    for number in range(len(program.instructions) - 1, -1, -1):
        if number in wanted and program.instructions[number][0] not in ("input", "constant"):
            wanted.update(program.instructions[number][2:])
    kept = [i for i, instruction in enumerate(program.instructions) if i in wanted or instruction[0] == "input"]
    place = {old: new for new, old in enumerate(kept)}

    def moved(instruction: Instruction) -> Instruction:
        return instruction if instruction[0] in ("input", "constant") else (*instruction[:2], *[place[i] for i in instruction[2:]])

    instructions = tuple([moved(program.instructions[i]) for i in kept])
    return program._replace(instructions=instructions, results=tuple([place[i] for i in program.results]))


# -- lowering -----------------------------------------------------------------------------------------------------------------------
def lower(k: Builder, program: Program, inputs: list[Value], read: Callable[[Gather, list[Value]], Value] | None = None) -> list[Value]:
    """Write a program's instructions; the results' values. ``read`` writes those that look into arrays."""
    values: list[Value] = []
    for name, element, *rest in program.instructions:
        if name == "input":
            values.append(inputs[rest[0]])
        elif name == "constant":
            values.append(k.const(rest[0], element))
        elif name == "cast":
            values.append(k.cast(values[rest[0]], element))
        elif isinstance(name, Gather) and read is not None:
            values.append(read(name, [values[i] for i in rest]))
        elif isinstance(name, Program):
            values.append(_repeated(k, name, *[values[i] for i in rest]))
        else:
            values.append(_LOWERED[name](k, *[values[i] for i in rest]))
    return [values[i] for i in program.results]


def _repeated(k: Builder, step: Program, x: Value, degree: Value, first: Value) -> Value:
    """``Symbol.repeated``: all lanes take as many steps as the highest degree among them."""
    lanes = max(x.lanes, degree.lanes)
    x, degree, first = (k.splat(operand, lanes) for operand in (x, degree, first))
    one, none = k.like(1.0, x), k.like(0.0, x)
    start = k.select(degree.eq(0), one, k.select(degree.eq(1), first, none))

    def body(i: Value, before: Value, now: Value, result: Value) -> tuple[Value, ...]:
        (following,) = lower(k, step, [k.splat(k.cast(i, x.element), lanes), x, now, before])
        return now, following, k.select(degree.eq(i + 1), following, result)

    return k.loop(k.const(1, degree.element), k.fold(degree, k.most), body, carried=(one, first, start))[2]


def _floats(function: Callable[..., Value]) -> Callable[..., Value]:
    """``function`` for floating-point operands only."""

    def checked(k: Builder, x: Value, *rest: Value) -> Value:
        if not x.is_float:
            raise Untraceable("no instruction for integers")
        return function(k, x, *rest)

    return checked


def _truth(combine: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    return lambda k, a, b: combine(k.cast(a, "b1"), k.cast(b, "b1"))


def _sign(k: Builder, x: Value) -> Value:
    one, none = k.like(1, x), k.like(0, x)
    signed = k.select(x > 0, one, k.select(x < 0, -one, none)) if x.element[0] != "u" else k.select(x > 0, one, none)
    return k.select(x.is_nan(), x, signed) if x.is_float else signed


def _arithmetic(name: str) -> Callable[..., Value]:
    """Sum and product, of truth values 'or' and 'and' as in NumPy."""

    def lowered(k: Builder, a: Value, b: Value) -> Value:
        if a.element == "b1":
            return a | b if name == "add" else a & b
        return a + b if name == "add" else a * b

    return lowered


def _number_first(choose: Callable[[Builder, Value, Value], Value]) -> Callable[..., Value]:
    """The extremum of two, or the other one where one is NaN."""
    return lambda k, a, b: k.select(b.is_nan(), a, choose(k, a, b)) if a.is_float else choose(k, a, b)


def _log_of_sum(power: str, log_2: float, unit: float) -> Callable[..., Value]:
    """log(exp(a) + exp(b)) = max + log1p(exp(-|a - b|)), for any base: ``unit`` is its logarithm of e, ``log_2`` that of 2.

    Equal infinities have no difference.
    """

    def lowered(k: Builder, a: Value, b: Value) -> Value:
        from ..mathematics import vectors

        apart = vectors.log1p(k, getattr(vectors, power)(k, -k.abs(a - b)))
        return k.select(a.eq(b), a + log_2, k.maximum(a, b) + (apart if unit == 1 else apart * unit))

    return lowered


def _whole(name: str) -> Callable[..., Value]:
    """A rounding to whole numbers, which integers are already."""
    return lambda k, x: getattr(k, name)(x) if x.is_float else x


def _exact(name: str, of_floats: bool | None = False) -> Callable[..., Value]:
    """A function of exact.py: of integers, of floats, or (None) of both."""

    def lowered(k: Builder, *values: Value) -> Value:
        from ..mathematics import exact

        if values[0].element == "b1" or (of_floats is not None and values[0].is_float is not of_floats):
            raise Untraceable(f"no {name} of {values[0].element}")
        lanes = max(value.lanes for value in values)
        return getattr(exact, name)(k, *[k.splat(value, lanes) for value in values])

    return lowered


def _by_element(floats: Callable[..., Value], integers: Callable[..., Value]) -> Callable[..., Value]:
    return lambda k, *values: (floats if values[0].is_float else integers)(k, *values)


_LOWERED: dict[str, Callable[..., Value]] = {
    "add": _arithmetic("add"),
    "subtract": lambda k, a, b: a - b,
    "multiply": _arithmetic("multiply"),
    "divide": _floats(lambda k, a, b: a / b),
    "negative": lambda k, x: -x,
    "positive": lambda k, x: x,
    "absolute": lambda k, x: x if x.element == "b1" else k.abs(x),
    "fabs": _floats(lambda k, x: k.abs(x)),
    "square": lambda k, x: x * x,
    "sqrt": _floats(lambda k, x: k.sqrt(x)),
    "reciprocal": _floats(lambda k, x: 1.0 / x),
    "maximum": lambda k, a, b: a | b if a.element == "b1" else k.maximum(a, b),
    "minimum": lambda k, a, b: a & b if a.element == "b1" else k.minimum(a, b),
    "fmax": _number_first(Builder.most),
    "fmin": _number_first(Builder.least),
    "sign": _sign,
    **{name: _whole(name) for name in ("floor", "ceil", "trunc", "rint")},
    "copysign": _floats(lambda k, a, b: k.copysign(a, b)),
    "less": lambda k, a, b: a < b,
    "less_equal": lambda k, a, b: a <= b,
    "greater": lambda k, a, b: a > b,
    "greater_equal": lambda k, a, b: a >= b,
    "equal": lambda k, a, b: a.eq(b),
    "not_equal": lambda k, a, b: a.ne(b),
    "isnan": _floats(lambda k, x: x.is_nan()),
    "isinf": _floats(lambda k, x: k.abs(x).eq(float("inf"))),
    "isfinite": _floats(lambda k, x: k.abs(x) < float("inf")),
    "signbit": _floats(lambda k, x: k.bits(x) < 0),
    "logical_and": _truth(lambda a, b: a & b),
    "logical_or": _truth(lambda a, b: a | b),
    "logical_xor": _truth(lambda a, b: a ^ b),
    "logical_not": lambda k, x: ~k.cast(x, "b1"),
    "bitwise_and": lambda k, a, b: a & b,
    "bitwise_or": lambda k, a, b: a | b,
    "bitwise_xor": lambda k, a, b: a ^ b,
    "invert": lambda k, x: ~x,
    "logaddexp": _floats(_log_of_sum("exp", 0.6931471805599453, 1)),
    "logaddexp2": _floats(_log_of_sum("exp2", 1.0, 1.4426950408889634)),
    "fmod": _by_element(_exact("fmod", True), _exact("truncated_remainder")),
    "remainder": _exact("floor_remainder"),
    "floor_divide": _exact("floor_quotient"),
    **{name: _exact(name) for name in ("gcd", "lcm", "left_shift", "right_shift")},
    **{name: _exact(name, True) for name in ("nextafter", "frexp_mantissa", "frexp_exponent")},
    "where": lambda k, mask, a, b: k.select(mask, a, b),
}

# Functions of vectors.py by NumPy's and SciPy's names for them.
_VECTOR_MATHS = {
    **{name: name for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot erf erfc".split()},
    **{f"arc{name}": f"a{name}" for name in "sin cos tan sinh cosh tanh tan2".split()},
    "power": "pow",
    "float_power": "pow",
    "ndtr": "normal_area",
    "expit": "sigmoid",
}
# Functions of special.py, by SciPy's names.
_SPECIAL = ("erfcx erfinv ndtri log_ndtr gammaln psi zeta j0 j1 y0 y1 i0 i0e i1 i1e k0 k0e k1 k1e airy").split()
_HEAVY = frozenset((*_VECTOR_MATHS, *_SPECIAL, "logaddexp", "logaddexp2", "fmod", "remainder", "floor_divide", "gcd", "lcm"))


def _vector_maths(name: str) -> Callable[..., Value]:
    def lowered(k: Builder, *values: Value) -> Value:
        from ..mathematics import vectors

        lanes = max(value.lanes for value in values)
        return getattr(vectors, name)(k, *[k.splat(value, lanes) for value in values])

    return _floats(lowered)


def _special(name: str) -> Callable[..., Value]:
    def lowered(k: Builder, *values: Value) -> Value:
        from ..mathematics import special

        return special.FUNCTIONS[name](k, *values)

    return lowered


_LOWERED.update({ufunc: _vector_maths(name) for ufunc, name in _VECTOR_MATHS.items()})
_LOWERED.update({name: _floats(_special(name)) for name in _SPECIAL})
_LOWERED["power"] = _by_element(_LOWERED["power"], _exact("power"))
