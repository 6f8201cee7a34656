"""Element-wise kernels: any operation's expression over arrays of any strides, in one pass.

``expression`` turns an operation's reference kernel, or a derivative rule, into a program; here a program becomes two kernels.  ``flat``
runs over memory that all operands share in order, which is the usual case.  ``rows`` takes broadcast and strided operands: dimensions that
all operands step through alike are merged, and the innermost one that remains is the row.  Operands are cast in registers, so a sum of
bfloat16 and float32, or a comparison of integers with a number, needs no converted copy.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core import dtype as dtypes
from ...core.arrays.copies import contiguous
from ...core.arrays.native import NoKernel, NotNow, at_most, foreign, native, switch, writing
from ...core.calls.casting import number_array
from ...core.calls.interruption import GENERATED, pass_on, source_files
from ...core.calls.operation import BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT, DEFAULT, INT_TO_FLOAT, SAME
from ...core.layout import elementwise_strides, laid_out_elementwise
from ...core.state import active, run_ignoring_fp, thread
from ...core.tensor import Tensor, wrap
from ..compiler.build import Kernel, kernel
from ..compiler.expression import Program, Untraceable, lower, trace
from ..compiler.language import ELEMENTS, SIZES, Builder, Value, register_element
from ..compiler.memory import empty
from ..compiler.pool import pool

if TYPE_CHECKING:
    from ...core.calls.operation import Op

CHUNK, HEAVY_CHUNK = 32768, 8192  # elements, for memory-bound and for transcendental programs: some microseconds of work at least
SPECIALISATIONS = 32  # sets of values that programs of one operation are made for, before further ones are left to its reference
_KEPT = 1024  # ways to call one operation whose plan is found without a search
ACROSS = 32768  # elements: from here on operands that lie across the result are transposed first
SHORT_ROW = at_most(24)  # elements: rows below this are NumPy's, whose cost per row is smaller

_SHOW = bool(os.environ.get("FLAMBEAU_SHOW_TRACES"))  # print why an expression has no program

# An operand of a kernel: its element type in memory, the one that the program computes with, and how it steps through a row:
# "c" element by element, "0" not at all, "s" by a stride, "n" a number passed by value.
Operand = tuple[str, str, str]


# -- kernels ----------------------------------------------------------------------------------------------------------------------
def _lanes(k: Builder, operands: tuple[Operand, ...], results: tuple[Operand, ...]) -> int:
    """Lanes of a step: a full register of the narrowest operand, within 4 registers of the widest."""
    sizes = [SIZES[register] if register != "b1" else SIZES[memory] for memory, register, _ in (*operands, *results)]
    sizes += [SIZES[memory] for memory, _, _ in (*operands, *results)]
    return min(k.target.width // min(sizes), 4 * k.target.width // max(sizes))


def _registers(k: Builder, program: Program, operands: tuple[Operand, ...], lanes: int) -> int:
    """Number of steps that are done side by side: two where functions are computed in registers of one size that are wide.

    Each instruction of such a program waits for the one before. What waits fills the processor's window, so that it sees few of the
    elements behind, and asks memory for them late: chains over arrays of 16 MB take less than half the time with two registers.
    """
    is_plain = lanes == k.lanes("f32") and all(register == "f32" for _, register, _ in operands)
    return 2 if program.is_heavy and is_plain and k.target.name == "avx512" else 1


def steps(k: Builder, start: Value, stop: Value, lanes: int, step: Callable[[Value, Value | None, int], None], registers: int = 1) -> None:
    """``step`` over [start, stop); the remainder masked where the processor has masks for all sizes, else one by one.

    Args:
        registers: how many times as many elements are one step, but for the remainder.
    """
    if k.target.has_masks and registers == 1:
        k.vector_loop(start, stop, lanes, lambda i, mask: step(i, mask, lanes))
        return
    wide = lanes * registers
    end = start + ((stop - start) & -wide)
    k.loop(start, end, lambda i: step(i, None, wide), step=wide)
    if k.target.has_masks:
        k.loop(end, stop, lambda i: step(i, k.mask_below(i, stop, lanes), lanes), step=lanes)
    else:
        k.loop(end, stop, lambda i: step(i, None, 1))


def chunk_size(program: Program) -> int:
    return HEAVY_CHUNK if program.is_heavy else CHUNK


@lru_cache(maxsize=1024)
def stretch(n: int, least: int, threads: int) -> int:
    """Elements of a chunk of ``n``: as many chunks for each thread, of ``CHUNK`` at most and of ``least`` but for small ``n``."""
    rounds = -(-n // (CHUNK * threads)) or 1
    return max(least, -(-n // (rounds * threads)) + 1023 & -1024)


@kernel
def flat(k: Builder, program: Program, operands: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
    """Arguments: arrays and numbers in the operands' order, the results, the number of elements, and how many make a chunk."""
    sources = [k.number(register) if step == "n" else k.array() for _, register, step in operands]
    targets = [k.array() for _ in results]
    n, size = k.integer(), k.integer()

    def step(i: Value, mask: Value | None, lanes: int) -> None:
        inputs = [
            k.splat(source, lanes) if how == "n" else k.cast(k.load(source, i, memory, lanes, mask), register)
            for source, (memory, register, how) in zip(sources, operands, strict=True)
        ]
        for value, target, (memory, _, _) in zip(lower(k, program, inputs), targets, results, strict=True):
            k.store(k.cast(k.splat(value, lanes), register_element(memory)), target, i, memory, mask)

    def chunk(c: Value) -> None:
        lanes = _lanes(k, operands, results)
        steps(k, c * size, k.least((c + 1) * size, n), lanes, step, _registers(k, program, operands, lanes))

    k.for_chunks(chunk)


@kernel
def rows(k: Builder, program: Program, operands: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
    """Arguments as of ``flat``, but for the number of elements: geometry (an int64 array), outer dimensions, row, units, units a chunk.

    The geometry holds, for every array (operands, then results), its stride in a row; then for every outer dimension, the last first, its
    size and the arrays' strides, in elements.  A unit is a row, or a segment of ``chunk_size`` elements of a longer one.
    """
    sources = [k.number(register) if step == "n" else k.array() for _, register, step in operands]
    targets = [k.array() for _ in results]
    geometry, depth, length, units, per_chunk = k.array(), k.integer(), k.integer(), k.integer(), k.integer()
    moving = [i for i, operand in enumerate((*operands, *results)) if operand[2] != "n"]
    width = len(moving)
    size = chunk_size(program)
    segments = (length + (size - 1)) // size
    row_strides = [k.load(geometry, j, "i64") for j in range(width)]

    def unit(u: Value) -> None:
        row, segment = u // segments, u % segments

        def outer(d: Value, rest: Value, *offsets: Value) -> tuple[Value, ...]:
            at = d * (width + 1) + width
            count = k.load(geometry, at, "i64")
            place = rest % count
            strides = [k.load(geometry, at + (1 + j), "i64") for j in range(width)]
            return (rest // count, *[offset + place * stride for offset, stride in zip(offsets, strides, strict=True)])

        zero = k.const(0, "i64")
        _, *offsets = k.loop(zero, depth, outer, carried=(row, *[zero] * width))
        base = dict(zip(moving, offsets, strict=True))
        stride = dict(zip(moving, row_strides, strict=True))

        def read(j: int, i: Value, mask: Value | None, lanes: int) -> Value:
            memory, register, how = operands[j]
            if how == "n":
                return k.splat(sources[j], lanes)
            if how == "0":
                return k.splat(k.cast(k.load(sources[j], base[j], memory), register), lanes)
            if how == "c":
                return k.cast(k.load(sources[j], base[j] + i, memory, lanes, mask), register)
            return k.cast(k.load_strided(sources[j], base[j] + i * stride[j], stride[j], memory, lanes, mask), register)

        def step(i: Value, mask: Value | None, lanes: int) -> None:
            values = lower(k, program, [read(j, i, mask, lanes) for j in range(len(operands))])
            for j, (value, target, (memory, _, _)) in enumerate(zip(values, targets, results, strict=True)):
                k.store(k.cast(k.splat(value, lanes), register_element(memory)), target, base[len(operands) + j] + i, memory, mask)

        lanes = _lanes(k, operands, results)
        registers = _registers(k, program, operands, lanes)
        steps(k, segment * size, k.least((segment + 1) * size, length), lanes, step, registers)

    k.for_chunks(lambda c: k.loop(c * per_chunk, k.least((c + 1) * per_chunk, units), unit))


# -- geometry ---------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1024)
def merged_strides(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], sizes: tuple[int, ...], last: int) -> Any:
    """Row length, outer dimensions and geometry of operands with these strides in bytes; None where elements straddle.

    Dimensions are ordered by operand ``last`` (the result), and neighbours through which all operands step alike are merged.
    """
    if any(s % size for operand_strides, size in zip(strides, sizes, strict=True) for s in operand_strides):
        return None
    order = sorted(range(len(shape)), key=lambda i: (-abs(strides[last][i]), i))
    dims: list[int] = []
    steps: list[list[int]] = []  # per dimension, the strides in elements
    for i in order:
        if shape[i] == 1:
            continue
        step = [operand_strides[i] // size for operand_strides, size in zip(strides, sizes, strict=True)]
        if dims and all(before == here * shape[i] for before, here in zip(steps[-1], step, strict=True)):
            dims[-1], steps[-1] = dims[-1] * shape[i], step
        else:
            dims.append(shape[i])
            steps.append(step)
    if not dims:
        dims, steps = [1], [[0] * len(strides)]
    row = steps[-1]
    outer = [number for n, step in zip(dims[-2::-1], steps[-2::-1], strict=True) for number in (n, *step)]
    return dims[-1], len(dims) - 1, tuple(row), np.array([*row, *outer], np.int64)


def step_word(stride: int) -> str:
    return "c" if stride == 1 else "0" if stride == 0 else "s"


class Layout(NamedTuple):
    """Layout of a plan's operands, computed once per combination of shapes and strides.

    Attributes:
        shape, order: of the result's memory, and the transposition that makes the result of it (None: none).
        run: the kernel, None where there is nothing to run or NumPy is to do it; ``chunks``, ``arguments``: for its calls.
        copied: operands that lie across the result's rows: transposing them first, tile by tile, is quicker than gathering elements;
            ``axes``: the order of the result's dimensions in memory.
    """

    shape: tuple[int, ...]
    order: Any
    run: Kernel | None
    chunks: int
    arguments: tuple[int, ...]
    geometry: Any = None  # kept alive: its address is among the arguments
    copied: tuple[int, ...] = ()
    axes: Any = None


# -- plans --------------------------------------------------------------------------------------------------------------------------
class Plan:
    """A program with the element types of its operands: what to run for calls that look alike.

    ``plan.run(*operands, out=None)`` gives the result for arrays and numbers, or None where NumPy would be as fast, for a number that the
    kernel has no register for (0.5 beside integers), and for an ``out`` that must not be written to.
    """

    __slots__ = ("dtype", "elements", "flat", "layouts", "numbers", "program", "result", "run", "size")

    def __init__(self, program: Program, elements: tuple[tuple[str, str], ...], numbers: tuple[bool, ...], dtype: np.dtype):
        self.program, self.elements, self.numbers, self.dtype = program, elements, numbers, dtype
        self.result = ((ELEMENTS[dtype], register_element(ELEMENTS[dtype]), "c"),)
        self.size = chunk_size(program)
        self.layouts: dict[Any, Layout] = {}
        self.run = self._first_run
        self.flat = 0  # address of the kernel for flat memory

    def _first_run(self, *operands: Any, out: np.ndarray | None = None) -> np.ndarray | None:
        try:
            self.run = self._checked(self._generate()) if self.program.nonzero else self._generate()
        except NotNow:
            return None
        for key in [key for key, known in list(_plans.items()) if known is self] if told else ():
            _note(key, self)
        return self.run(*operands, out=out)

    def _checked(self, run: Any) -> Any:
        """``run`` for operands that the program is for; the reference has the error for others."""

        def checked(*operands: Any, out: np.ndarray | None = None) -> np.ndarray | None:
            return run(*operands, out=out) if all(self._has_no_zero(i, operands[i]) for i in self.program.nonzero) else None

        return checked

    def _has_no_zero(self, i: int, operand: Any) -> bool:
        """Whether no element of operand ``i`` is zero, as the kernel sees it: 2**31 beside int16 is."""
        memory = self.elements[i][0]
        if isinstance(operand, int) and memory[0] in "iu":
            return operand & ((1 << 8 * SIZES[memory]) - 1) != 0
        return bool(np.all(operand))

    def _generate(self) -> Any:
        """Source of ``run``: what depends on the number of operands only is written out, for calls that take microseconds."""
        how = tuple((*element, "n" if number else "c") for element, number in zip(self.elements, self.numbers, strict=True))
        kernel = flat(self.program, how, self.result)
        self.flat = kernel.address
        names = [f"x{i}" for i in range(len(how))]
        arrays = [name for name, number in zip(names, self.numbers, strict=True) if not number]
        first, *others = arrays
        alike = [f"{name}.shape == shape" for name in others] + [f"{name}.flags.c_contiguous" for name in arrays]
        writable = "(out is None or (out.flags.c_contiguous and out.flags.writeable and out.shape == shape))"
        passed = [name if number else f"id({name})" for name, number in zip(names, self.numbers, strict=True)]
        lines = [
            f"def run({', '.join(names)}, out=None):",
            *[f"    if {name}.__class__ is ndarray: {name} = {name}.item()" for name in names if name not in arrays],
            f"    shape = {first}.shape",
            f"    if {' and '.join(alike)} and {writable}:",
            "        if out is None: out = empty(shape, dtype)",
            f"        n = {first}.size",
            f"        size = stretch(n, {self.size}, pool.threads)",
            "        try:",
            f"            packed = pack({', '.join(passed)}, id(out), n, size)",
            "        except StructError as error:",
            "            pass_on(error)",
            "            return None",
            f"        pool.launch({kernel.address}, packed, -(-n // size))",
            "        return out",
            f"    return general(({', '.join(names)},), out)",
        ]
        scope = {"ndarray": np.ndarray, "empty": empty, "dtype": self.dtype, "pack": kernel.pack, "pool": pool, "general": self._run_rows}
        scope.update(StructError=struct.error, pass_on=pass_on, stretch=stretch)
        exec(compile("\n".join(lines), f"{GENERATED}plan>", "exec"), scope)
        return scope["run"]

    def _run_rows(self, operands: tuple[Any, ...], out: np.ndarray | None) -> np.ndarray | None:
        """The result for operands that lie differently, or are broadcast."""
        if out is not None and not out.flags.writeable:
            return None
        arrays = [operand for operand, number in zip(operands, self.numbers, strict=True) if not number]
        key = tuple([(array.shape, array.strides) for array in (arrays if out is None else (*arrays, out))])
        layout = self.layouts.get(key)
        if layout is None:
            if len(self.layouts) > 256:
                self.layouts.clear()
            try:
                layout = self.layouts[key] = self._lay_out(arrays, out)
            except NoKernel:
                return None
        if layout.order is not None and out is None:
            result = empty(layout.shape, self.dtype).transpose(layout.order)
        else:
            result = empty(layout.shape, self.dtype) if out is None else out
        if layout.copied:
            back = np.argsort(layout.axes)
            for i in layout.copied:
                arrays[i] = contiguous(arrays[i].transpose(layout.axes)).transpose(back)
            given = iter(arrays)
            return self.run(*[operand if number else next(given) for operand, number in zip(operands, self.numbers, strict=True)], out=out)
        if layout.run is None:
            return result if not result.size else None
        passed = [operand if number else id(operand) for operand, number in zip(operands, self.numbers, strict=True)]
        try:
            packed = layout.run.pack(*passed, id(result), *layout.arguments)
        except struct.error as error:
            pass_on(error)
            return None
        pool.launch(layout.run.address, packed, layout.chunks)
        return result

    def _lay_out(self, arrays: list[np.ndarray], out: np.ndarray | None) -> Layout:
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        order = None
        if out is None and not self.program.row_major and (1 in shape or not all(array.flags.c_contiguous for array in arrays)):
            strides = elementwise_strides(shape, arrays, any(self.numbers))
            axes = sorted(range(len(shape)), key=lambda i: (-strides[i], shape[i] == 1))
            if axes != sorted(axes):
                shape, order = tuple([shape[i] for i in axes]), np.argsort(axes)
        result = out
        if result is None:
            result = np.empty(shape, self.dtype) if order is None else np.empty(shape, self.dtype).transpose(order)
        if not result.size:
            return Layout(shape, order, None, 0, ())
        wide = [np.broadcast_to(array, result.shape) for array in (*arrays, result)]
        merged = merged_strides(result.shape, tuple([e.strides for e in wide]), tuple([e.itemsize for e in wide]), len(arrays))
        if merged is None:
            return Layout(shape, order, None, 0, ())
        length, depth, steps, geometry = merged
        words = [step_word(step) for step in steps]
        across = tuple(
            [i for i, (word, array) in enumerate(zip(words[:-1], arrays, strict=True)) if word == "s" and array.shape == result.shape]
        )
        if across and result.size >= ACROSS and words[-1] == "c":
            axes = sorted(range(result.ndim), key=lambda axis: -result.strides[axis])
            return Layout(shape, order, None, 0, (), copied=across, axes=axes)
        if words[-1] != "c" or (depth and length < SHORT_ROW):
            return Layout(shape, order, None, 0, ())
        moving = iter(words)
        how = tuple((*element, "n" if number else next(moving)) for element, number in zip(self.elements, self.numbers, strict=True))
        units = result.size // length * -(-length // self.size)
        per_chunk = max(1, self.size // length)
        run = rows(self.program, how, self.result)
        return Layout(shape, order, run, -(-units // per_chunk), (id(geometry), depth, length, units, per_chunk), geometry)


_plans: dict[Any, Plan | None] = {}
told: dict[Op, Callable[..., None]] = {}  # of kernels for flat memory; see ``tell``


def tell(op: Op, note: Callable[..., None]) -> None:
    """Have ``note(op, looks, address, size)`` called for kernels of whole calls of an operation, known ones and those to come.

    They are given arrays of one size alone, which lie in order; ``size``: elements of a chunk at least.
    """
    told[op] = note
    for key, plan in list(_plans.items()):
        _note(key, plan)


def _note(key: Any, plan: Plan | None) -> None:
    if plan is None or not plan.flat or key.__class__ is not tuple or key[0] not in told or key[1] != "wrapper":
        return
    if not plan.program.nonzero and not any(plan.numbers) and plan.dtype == np.float32:
        told[key[0]](key[0], key[2:], plan.flat, plan.size)


_specialised: dict[Any, set[tuple[Any, ...]]] = {}


def _planned(key: Any, name: Any, values: tuple[Any, ...], make: Callable[[], Plan]) -> Plan | None:
    """The plan under ``key``, made at its first use; None where there can be none.

    Args:
        name: the operation or rule.
        values: what the plan is made for besides dtypes, of which there are few: for the first ``SPECIALISATIONS`` of them there are plans.
    """
    try:
        return _plans[key]
    except KeyError:
        pass
    except TypeError as error:  # an attribute that cannot be hashed
        pass_on(error)
        return None
    known = _specialised.setdefault(name, set())
    if values and values not in known:
        if len(known) >= SPECIALISATIONS:
            return None
        known.add(values)
    try:
        plan = make()
    except Exception as error:  # a Symbol is no array: whatever goes wrong, the reference kernel is right
        pass_on(error, *source_files(name, getattr(name, "kernel", None)))
        if _SHOW:
            print(f"{name}: {error!r}")
        plan = None  # the reference kernel wants something of its arrays that a Symbol does not have
    _plans[key] = plan
    return plan


def _values(op: Op, looks: Any) -> tuple[Any, ...]:
    """The places and values that a plan for these looks is made for, where they are not the operation's defaults."""
    pairs = enumerate(zip(looks, op.params))
    return tuple([(i, look) for i, (look, p) in pairs if look.__class__ is tuple and look != fixed(p.default)])


def run(op: Op, values: Any, compute: Any = None, result: Any = None, out: np.ndarray | None = None) -> Any:
    """``op`` for arrays, numbers and attributes in signature order; None where the reference kernel has to do it.

    Args:
        compute: dtype that operands are cast to first; None for their own.
        result: dtype of the result; None for the expression's own.
        out: where to write the result, with the broadcast shape.
    Returns:
        The result, or a tuple of results, each by a kernel of its own.
    """
    if op.returns is None:
        return _run_part(op, values, compute, result, out, 0)
    if out is not None:
        return None
    outputs = tuple([_run_part(op, values, compute, result, None, i) for i in range(len(op.returns))])
    return None if any(output is None for output in outputs) else outputs


def _run_part(op: Op, values: Any, compute: Any, result: Any, out: np.ndarray | None, part: int) -> np.ndarray | None:
    """Result number ``part`` of ``run``."""
    looks = [_look(op, value) if i in op.positions else fixed(value) for i, value in enumerate(values)]

    def planned() -> tuple[Any, Plan | None]:
        key = (op, compute, result, out is not None and out.dtype, part, *looks)
        return key, _planned(key, op, _values(op, looks), lambda: _plan_of(op, values, looks, compute, result, out, part))

    key, plan = planned()
    if plan is None and "number" in looks:  # an expression that asks for the value of a number is made for that number
        looks = [fixed(value) if look == "number" else look for look, value in zip(looks, values, strict=True)]
        key, plan = planned()
    if plan is None:
        return None
    try:
        return plan.run(*_operands(values, looks, compute), out=out)
    except (Untraceable, NoKernel):
        _plans[key] = None
        return None


@cache
def kernel_of(op: Op) -> Callable[..., Any]:
    """Function that the fast path of ``op`` calls with large operands of one dtype: the kernel for such operands, or the reference."""
    reference: Any = writing(op.fast)
    is_ufunc = op.fast is op.ufunc
    defaults = tuple([p.default for p in op.params if p.kind == "attr"]) if is_ufunc else ()
    is_operand = tuple([p.kind != "attr" for p in op.params if not is_ufunc or p.kind != "attr"])
    count = len(is_operand)
    plans: dict[Any, Plan | None] = {}

    def planned(looks: tuple[Any, ...], arguments: tuple[Any, ...]) -> Plan | None:
        values = (*arguments, *defaults)
        labels = [*looks, *[fixed(value) for value in defaults]]
        if not is_ufunc and (op.canonicalize is not None or op.overloads):
            return _planned((op, "wrapper", *looks), op, _values(op, looks), lambda: _plan_prepared(op, values, labels))
        return _planned((op, "wrapper", *looks), op, _values(op, looks), lambda: _plan_of(op, values, labels, None, None, None))

    def run_any(*arguments: Any) -> Any:
        out = None
        if len(arguments) > count:  # a ufunc's place for its result
            out, arguments = arguments[count], arguments[:count]
        if foreign and any(argument.__class__ in foreign for argument in arguments):
            return reference(*arguments) if out is None else reference(*arguments, out) if is_ufunc else None
        looks = tuple([_look(op, value) if operand else fixed(value) for value, operand in zip(arguments, is_operand, strict=True)])
        try:
            plan = plans[looks]
        except KeyError:
            plan = planned(looks, arguments)
            if len(plans) < _KEPT:
                plans[looks] = plan
        except TypeError as error:  # an attribute that cannot be hashed
            pass_on(error)
            plan = None
        if plan is not None and switch.on and (out is None or out.dtype is plan.dtype):
            try:
                result = plan.run(*_operands(arguments, looks, None), out=out)
            except (Untraceable, NoKernel):
                result = plans[looks] = None
            if result is not None:
                return result
        if out is not None:
            return reference(*arguments, out) if is_ufunc else None
        result = reference(*arguments)
        if result.__class__ is np.ndarray and result.ndim > 1 and op.broadcasts and not op.row_major:
            arrays = [value for value, operand in zip(arguments, is_operand, strict=True) if operand and value.__class__ is np.ndarray]
            return laid_out_elementwise(result, arrays, len(arrays) < sum(is_operand))
        return result

    def run_of_two(a: Any, b: Any, out: np.ndarray | None = None) -> Any:
        if foreign and (a.__class__ in foreign or b.__class__ in foreign):
            return reference(a, b) if out is None else reference(a, b, out)
        looks = (a.dtype if a.__class__ is np.ndarray else None, b.dtype if b.__class__ is np.ndarray and b.ndim else None)
        plan = pairs.get(looks) if switch.on else None
        result = None if plan is None or (out is not None and out.dtype is not plan.dtype) else plan.run(a, b, out=out)
        if result is not None:
            return result
        result = run_any(a, b) if out is None else run_any(a, b, out)
        if plan is None and looks[0] is not None and a.ndim:
            pairs[looks] = plans.get((looks[0], looks[1] or "number"))
        return result

    if is_ufunc and count == 2:
        pairs: dict[Any, Plan | None] = {}
        return run_of_two
    if count != 1:
        return run_any

    def run_of_one(a: np.ndarray, out: np.ndarray | None = None) -> Any:
        plan = plans.get((a.dtype,)) if switch.on else None
        if plan is None or a.__class__ is not np.ndarray or (out is not None and out.dtype is not plan.dtype):
            result = None
        else:
            result = plan.run(a, out=out)
        return result if result is not None else run_any(a) if out is None else run_any(a, out)

    return run_of_one


def _plan_prepared(op: Op, values: tuple[Any, ...], looks: list[Any]) -> Plan:
    """The plan of a call whose attributes the slow path would change or check first: what it finds holds for all calls that look alike."""
    tensors = tuple([wrap(value) if value.__class__ is np.ndarray else value for value in values])
    if any(overload(op, *tensors) is not None for overload in op.overloads):
        raise Untraceable("another operation's call")
    if op.canonicalize is not None:
        tensors = op.canonicalize(*tensors)
    arrays = [tensor._array if isinstance(tensor, Tensor) else tensor for tensor in tensors]
    looks = [look if i in op.positions else fixed(value) for i, (look, value) in enumerate(zip(looks, arrays, strict=True))]
    model = next(array for array in arrays if _is_array(array))
    for i in op.positions:
        if isinstance(arrays[i], (int, float)):
            if isinstance(arrays[i], float) and model.dtype.kind != "f":
                raise Untraceable("a number that raises the dtype")
            arrays[i] = np.asarray(arrays[i]).astype(model.dtype)
    return _plan_of(op, arrays, looks, None, None, None)


def _look(op: Op, value: Any) -> Any:
    """Key of an operand in a plan: the dtype of an array; 'number' for one that takes the others' dtype; otherwise its value."""
    if value.__class__ is np.ndarray:
        if not value.ndim and op.constants and value.item() in op.constants:
            return (*fixed(value.item()), value.dtype)
        return value.dtype if value.ndim else "number" if op.promotion in _COMMON else (*fixed(value.item()), value.dtype)
    return "number" if value is not None and op.promotion in _COMMON and value not in op.constants else fixed(value)


def fixed(value: Any) -> tuple[Any, ...]:
    """Key of a value in a plan: 2 is not 2.0, 1 is not True, and 0.0 is not -0.0, although they are equal."""
    return value.__class__, value or repr(value)


_COMMON = (DEFAULT, INT_TO_FLOAT, BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT)  # promotions to one dtype for all operands


def _operands(values: Any, looks: Any, compute: Any) -> list[Any]:
    """Arguments of the kernel: arrays, and numbers as Python's own, rounded where they would become half precision."""
    passed = [value for value, look in zip(values, looks, strict=True) if not isinstance(look, tuple)]
    if compute in dtypes.REDUCED:
        passed = [operand if _is_array(operand) else np.array(operand).astype(compute.numpy) for operand in passed]
    return [operand if _is_array(operand) or not isinstance(operand, (np.ndarray, np.generic)) else operand.item() for operand in passed]


def _is_array(value: Any) -> bool:
    return value.__class__ is np.ndarray and value.ndim > 0


def _plan_of(op: Op, values: Any, looks: list[Any], compute: Any, result: Any, out: np.ndarray | None, part: int = 0) -> Plan:
    model = next((value for value in values if _is_array(value)), None)
    halves = [value.dtype for value in values if _is_array(value) and value.dtype in _HALVES]
    if model is None or (halves and (compute is None or op.opmath == "native")):
        raise Untraceable("only numbers, or an expression that computes in half precision itself")
    if op.promotion == SAME and any(_is_array(value) and value.dtype != model.dtype for value in values):
        raise Untraceable("operands of several dtypes, which are an error")
    if compute in dtypes.REDUCED and any(_is_array(value) and value.dtype != compute.numpy for value in values):
        raise Untraceable("operands that are rounded to half precision first")
    computed = None if compute is None else np.dtype(np.float32) if compute in dtypes.REDUCED else compute.numpy
    inputs: list[np.dtype | None] = []
    elements: list[tuple[str, str]] = []
    for look in looks:
        if isinstance(look, tuple):
            inputs.append(None)
            continue
        dtype = computed or (model.dtype if isinstance(look, str) else look)
        memory = ELEMENTS[dtype if isinstance(look, str) else look]
        inputs.append(dtype)
        elements.append((memory, register_element(ELEMENTS[dtype])))
    values = list(values)
    if compute is not None:
        for i in op.positions:
            if isinstance(values[i], (int, float)):
                values[i] = number_array(values[i], compute)
    program, natural = _traced(op, values, inputs, part)
    wanted = result.numpy if result is not None else natural
    if out is not None and out.dtype != wanted:
        raise Untraceable("a place for the result with another dtype")
    numbers = tuple([isinstance(look, str) for look in looks if isinstance(look, (str, np.dtype))])
    return Plan(program, tuple(elements), numbers, wanted)


def _traced(op: Op, values: list[Any], inputs: list[np.dtype | None], part: int) -> tuple[Program, np.dtype]:
    natural: list[np.dtype] = []
    split = len(values) - len(op.keyword_names)

    def call(*arguments: Any) -> Any:
        result = op.kernel(*arguments[:split], **dict(zip(op.keyword_names, arguments[split:], strict=True)))
        result = result[part] if isinstance(result, tuple) else result
        natural.append(result.dtype)
        return result

    return trace(call, values, inputs), natural[0]


@lru_cache(maxsize=256)
def _cast_plan(source: np.dtype, target: np.dtype) -> Plan | None:
    memory, element = ELEMENTS.get(source), ELEMENTS.get(target)
    if memory is None or element is None:
        return None
    if target in _HALVES and source.itemsize > 2 and source != np.float32:
        return None  # by way of float32 it would be rounded twice
    register = register_element(memory)
    return Plan(Program((("input", register, 0),), (0,)), ((memory, register),), (False,), target)


@native("_cast")
def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """``array`` as ``dtype``, by C's rules, laid out like ``array``; None for dtypes without instructions, and for symbols."""
    if array.__class__ is not np.ndarray:
        return None
    plan = None if array.dtype.kind == "f" and dtype.kind == "u" and dtype.itemsize == 8 else _cast_plan(array.dtype, dtype)
    try:
        return None if plan is None else plan.run(array)
    except NoKernel:
        return None


@lru_cache(maxsize=32)
def _sum_plan(dtype: np.dtype) -> Plan | None:
    if dtype not in ELEMENTS:
        return None
    register = register_element(ELEMENTS[dtype])
    computed = np.dtype(np.float32) if dtype in _HALVES else dtype
    return Plan(trace(np.add, [None, None], [computed, computed]), ((ELEMENTS[dtype], register),) * 2, (False, False), dtype)


@native("_sum_of_two")
def add(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> np.ndarray | None:
    """``a + b`` of one dtype; None where there is no kernel for it, or ``out`` shows parts of ``b``: an element is read before it is
    written, but not those around it."""
    if a.__class__ is not np.ndarray or b.__class__ is not np.ndarray or (out is not None and np.may_share_memory(out, b)):
        return None
    try:
        plan = _sum_plan(a.dtype)
        return None if plan is None else plan.run(a, b, out=out)
    except NoKernel:
        return None


# -- chains of derivative rules ---------------------------------------------------------------------------------------------------
def run_rule(rule: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A derivative rule on tensors as one kernel; None where it does not come down to element-wise operations on large tensors.

    A tensor may have anything for an array: those of transforms, of other devices and of dispatch modes have no ``ndarray``.
    """
    arrays = [argument._array for argument in arguments if isinstance(argument, Tensor)]
    if any(array.__class__ is not np.ndarray or array.ndim == 0 for array in arrays):
        return None
    looks = tuple([argument._array.dtype if isinstance(argument, Tensor) else fixed(argument) for argument in arguments])
    values = tuple([look for look in looks if look.__class__ is tuple])
    plan = _planned((rule, looks), rule, values, lambda: _plan_of_rule(rule, arguments))
    if plan is None:
        return None
    try:
        result = plan.run(*arrays)
    except (Untraceable, NoKernel):
        result = _plans[rule, looks] = None
    return None if result is None else wrap(result)


def _plan_of_rule(rule: Callable[..., Any], arguments: tuple[Any, ...]) -> Plan:
    dtypes_of = [argument._array.dtype if isinstance(argument, Tensor) else None for argument in arguments]
    if any(dtype is not None and dtype not in _EXACT for dtype in dtypes_of):
        raise Untraceable("a dtype that is computed in another one")
    natural: list[np.dtype] = []

    def call(*values: Any) -> Any:
        result = rule(*[wrap(v) if t is not None else v for v, t in zip(values, dtypes_of, strict=True)])
        if not isinstance(result, Tensor):
            raise Untraceable("a rule without a gradient")
        natural.append(result._array.dtype)
        return result._array

    try:
        thread.modes += 1  # the fast paths of operations are for arrays
        active[:0] = (None,)
        program = run_ignoring_fp(trace, call, list(arguments), dtypes_of)
    finally:
        thread.modes -= 1
        del active[-1]
    if program.length < 2:
        raise Untraceable("one operation, which has a kernel already")
    elements = tuple((ELEMENTS[dtype], register_element(ELEMENTS[dtype])) for dtype in dtypes_of if dtype is not None)
    return Plan(program, elements, (False,) * len(elements), natural[0])


_HALVES = frozenset(dtype for dtype in ELEMENTS if ELEMENTS[dtype] in ("f16", "bf16"))
_EXACT = frozenset(ELEMENTS) - _HALVES
