"""Element-wise kernels against the reference: values, dtypes, strides; in place, ``out=`` and gradients."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native
from flambeau.core.calls.registry import TABLES, entries
from flambeau.core.layout import elementwise_strides
from flambeau.kernels.compiler import target as targets
from flambeau.kernels.compiler.expression import Program
from flambeau.kernels.compiler.language import ELEMENTS, register_element
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import pointwise as kernels

from .guard import guarded

pytestmark = pytest.mark.filterwarnings("ignore")
REAL = [torch.float32, torch.float64]
HALVES = [torch.float16, torch.bfloat16]
WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
EVERY = [*REAL, *HALVES, *WHOLE, torch.bool]
CLOSE = {torch.float32: 3e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.fixture(autouse=True, scope="module")
def any_number_of_programs():
    """Random calls are more different from each other than a program's."""
    before, kernels.SPECIALISATIONS = kernels.SPECIALISATIONS, 1 << 30
    yield
    kernels.SPECIALISATIONS = before


# Shapes from the size on from which kernels are used, with rows of odd lengths, short rows, and ones.
SHAPES = [(32771,), (3, 10931), (181, 183), (2, 3, 77, 75), (1, 331, 1, 101), (17, 29, 71), (1500, 25), (12000, 3), (8, 1, 4099)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, math.nan, math.inf, -math.inf, 1e30, -1e30, 1e-30, 88.0, -104.0]


def tensor(rng, shape, dtype, special=False):
    """Random numbers: small whole ones for integers, with special values among the others where asked for."""
    if dtype is torch.bool:
        array = rng.random(shape) < 0.5
    elif not dtype.is_floating_point:
        array = rng.integers(0 if dtype is torch.uint8 else -9, 10, shape)
    else:
        array = rng.standard_normal(shape) * 3
        if special:
            array = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), array)
    return torch.from_numpy(np.asarray(array).astype(dtype.numpy))


LAYOUTS = ["plain", "transposed", "permuted", "steps", "rows apart", "offset", "expanded", "row", "column", "few dimensions", "0-d"]


def laid_out(rng, shape, dtype, how, special=False):
    """A tensor that broadcasts to ``shape``, lying in memory in one of several ways."""
    n = len(shape)
    if how == "transposed" and n > 1:
        return tensor(rng, (*shape[:-2], shape[-1], shape[-2]), dtype, special).transpose(-1, -2)
    if how == "permuted":
        order = rng.permutation(n)
        return tensor(rng, [shape[i] for i in order], dtype, special).permute(*np.argsort(order).tolist())
    if how == "steps":
        return tensor(rng, [2 * size for size in shape], dtype, special)[(slice(1, None, 2),) * n]
    if how == "rows apart":
        return tensor(rng, (*shape[:-1], shape[-1] + 3), dtype, special)[..., 1:-2]
    if how == "offset":
        return tensor(rng, (math.prod(shape) + 1,), dtype, special)[1:].view(shape)
    if how == "expanded":
        return tensor(rng, [1 if rng.random() < 0.5 else size for size in shape], dtype, special).expand(shape)
    if how == "row":
        return tensor(rng, shape[-1:], dtype, special)
    if how == "column":
        return tensor(rng, (*shape[:-1], 1), dtype, special)
    if how == "few dimensions":
        return tensor(rng, shape[1:], dtype, special)
    if how == "0-d":
        return tensor(rng, (), dtype, special)
    return tensor(rng, shape, dtype, special)


def steps(strides, shape):
    """Strides, of those dimensions where they matter."""
    return [stride for stride, size in zip(strides, shape, strict=True) if size != 1]


def strides_of_results(operands):
    """Strides of one operation's result on all operands, as they lie."""
    arrays = [operand._array for operand in operands]
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    return elementwise_strides(shape, arrays, any(not array.ndim for array in arrays))


def equal(actual, wanted, wide=1.0, operands=()):
    """Dtype, strides and values agree; floats to a few roundings."""
    assert actual.dtype is wanted.dtype and actual.shape == wanted.shape
    if steps(actual.stride(), actual.shape) != steps(wanted.stride(), actual.shape):
        # the reference leaves operands that lie in different orders to NumPy, and may cast them first
        assert steps(actual.stride(), actual.shape) == steps(strides_of_results(operands), actual.shape)
    a, b = actual.detach(), wanted.detach()
    if not actual.dtype.is_floating_point:
        assert torch.equal(a, b)
        return
    close = CLOSE[actual.dtype] * wide
    a, b = a.to(torch.float64).numpy(), b.to(torch.float64).numpy()
    np.testing.assert_allclose(a, b, rtol=close, atol=close * 1e-2 if actual.dtype is not torch.float16 else 1e-7 * max(1, wide / 10))


def outcome(operation, *operands):
    """What a call returns, or its error."""
    try:
        return operation(*operands)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return type(error), str(error)


def agree(operation, *operands, wide=1.0):
    result = outcome(operation, *operands)
    with native.disabled():
        wanted = outcome(operation, *operands)
    if isinstance(wanted, tuple):
        assert result == wanted
    else:
        assert isinstance(result, torch.Tensor), result
        equal(result, wanted, wide, operands)


UNARY = {
    name: getattr(torch, name)
    for name in (
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf erfc sigmoid abs "
        "neg floor ceil trunc round frac sign reciprocal square relu isnan isinf isfinite logical_not bitwise_not signbit positive"
    ).split()
} | {
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "softplus": lambda x: F.softplus(x, 2.0, 3.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 1.5),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "softshrink": lambda x: F.softshrink(x, 0.6),
    "threshold": lambda x: F.threshold(x, 0.3, 7.0),
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp below": lambda x: x.clamp(min=1),
    "clamp with nan": lambda x: x.clamp(max=math.nan),
    "nan_to_num": torch.nan_to_num,
    "power 2": lambda x: x**2,
    "power 3": lambda x: x**3,
    "power 0.5": lambda x: x**0.5,
    "power -1": lambda x: x**-1.0,
    "power 2.7": lambda x: x**2.7,
    "2 to the power": lambda x: 2**x,
    "minus from": lambda x: 1 - x,
    "divided by": lambda x: x / 3,
    "of": lambda x: 3 / x,
    "add a number": lambda x: torch.add(x, 3, alpha=2),
    "floor divide": lambda x: x // 3,
    "remainder": lambda x: x % 3,
    "equal to": lambda x: x == 1,
    "less than a fraction": lambda x: x < 0.5,
    "to float": lambda x: x.to(torch.float32),
    "to double": lambda x: x.to(torch.float64),
    "to bfloat16": lambda x: x.to(torch.bfloat16),
    "to bool": lambda x: x.to(torch.bool),
    "masked_fill": lambda x: x.masked_fill(x > 1, 5),
    "where": lambda x: torch.where(x > 0, x, 0),
}
WIDE = {
    "acosh": 30,
    "atanh": 30,
    "log1p": 4,
    "power 2.7": 10,
    "sinh": 4,
    "tan": 30,
    "acos": 8,
    "erfc": 60,
    "mish": 4,
    "gelu": 40,
    "gelu by tanh": 40,
}
BINARY = {
    name: getattr(torch, name)
    for name in (
        "add sub mul div maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
        "atan2 hypot copysign remainder fmod logaddexp true_divide floor_divide xlogy nextafter heaviside bitwise_left_shift"
    ).split()
} | {
    "sub with a factor": lambda a, b: torch.sub(a, b, alpha=2),
    "pow": lambda a, b: a.abs() ** b.clamp(-3, 3),
    "div to floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div to zero": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "where": lambda a, b: torch.where(a > b, a, b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, 2),
    "clamp by tensors": lambda a, b: a.clamp(min=b),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.5),
    "chain": lambda a, b: (a * b + a - b) * 0.5,
}
INTEGERS_ONLY = {"bitwise_left_shift", "bitwise_and", "bitwise_or", "bitwise_xor"}


def draw_layouts(count):
    return st.tuples(*[st.sampled_from(LAYOUTS)] * count)


@pytest.mark.parametrize("name", list(UNARY))
@given(
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from(EVERY),
    how=st.sampled_from(LAYOUTS[:7]),
    special=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=4)
def test_functions_of_one_tensor(name, shape, dtype, how, special, seed):
    x = laid_out(np.random.default_rng(seed), shape, dtype, how, special)
    agree(UNARY[name], x, wide=WIDE.get(name, 1))


@pytest.mark.parametrize("name", list(BINARY))
@given(
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(st.sampled_from(EVERY), st.sampled_from(EVERY)),
    alike=st.booleans(),
    how=draw_layouts(2),
    special=st.booleans(),
    swapped=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=4)
def test_functions_of_two_tensors(name, shape, dtypes, alike, how, special, swapped, seed):
    rng = np.random.default_rng(seed)
    a = laid_out(rng, shape, dtypes[0], how[0], special)
    b = laid_out(rng, shape, dtypes[0] if alike else dtypes[1], how[1], special)
    if name in ("remainder", "fmod", "floor_divide", "div to floor", "div to zero") and not b.dtype.is_floating_point:
        b = b.to(torch.int32) * 2 + 1  # division by zero is an error of integers
    if name == "bitwise_left_shift":
        b = b & 7 if b.dtype not in (*REAL, *HALVES) else b
    if swapped and name != "masked_fill" and not name.startswith(("remainder", "fmod", "floor", "div", "bitwise_left")):
        a, b = b, a
    agree(BINARY[name], a, b, wide=30 if name in ("pow", "hypot", "logaddexp", "chain", "lerp", "addcmul", "addcdiv") else 4)


def test_operands_of_several_dtypes_are_an_error_at_any_size():
    for count in (3, 40000):
        for one, other in itertools.permutations((torch.float64, torch.float32, torch.float16), 2):
            with pytest.raises(RuntimeError, match="one dtype"):
                torch.lerp(torch.ones(count, dtype=one), torch.ones(count, dtype=other), 0.3)


@given(
    shape=st.sampled_from(SHAPES),
    mask=st.sampled_from(LAYOUTS),
    how=draw_layouts(2),
    dtypes=st.tuples(st.sampled_from(EVERY), st.sampled_from(EVERY)),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_where(shape, mask, how, dtypes, seed):
    rng = np.random.default_rng(seed)
    condition = laid_out(rng, shape, torch.bool, mask)
    agree(torch.where, condition, laid_out(rng, shape, dtypes[0], how[0], True), laid_out(rng, shape, dtypes[1], how[1], True))


NUMBERS = [0, 1, 2, -1, 3, 0.5, -2.5, 1e30, math.nan, math.inf, True, 2**31, 300, -129]


@given(
    name=st.sampled_from("add sub mul div pow maximum eq lt ge remainder floor_divide atan2 bitwise_and where".split()),
    number=st.sampled_from(NUMBERS),
    wrapped=st.booleans(),
    first=st.booleans(),
    shape=st.sampled_from(SHAPES[:4]),
    dtype=st.sampled_from(EVERY),
    how=st.sampled_from(LAYOUTS[:7]),
    seed=st.integers(0, 99),
)
@settings(max_examples=120)
def test_numbers_among_the_operands(name, number, wrapped, first, shape, dtype, how, seed):
    x = laid_out(np.random.default_rng(seed), shape, dtype, how)
    other = torch.tensor(number) if wrapped else number
    if name == "where":
        agree(lambda a, b: torch.where(x > 0, a, b), *((other, x) if first else (x, other)))
    elif name in ("remainder", "floor_divide") and (first or number in (0, False)):
        return
    else:
        agree(getattr(torch, name), *((other, x) if first else (x, other)), wide=30)


# -- in place and out= --------------------------------------------------------------------------------------------------------------
CHANGES = {
    "add_": lambda x, y: x.add_(y, alpha=2) if x.dtype is not torch.bool else x.logical_or_(y),
    "mul_": lambda x, y: x.mul_(y),
    "sub number": lambda x, y: x.sub_(1),
    "div_": lambda x, y: x.div_(y),
    "pow_": lambda x, y: x.pow_(2),
    "exp_": lambda x, y: x.exp_(),
    "relu_": lambda x, y: x.relu_(),
    "clamp_": lambda x, y: x.clamp_(-1, 1),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 3),
    "lt_": lambda x, y: x.lt_(y),
    "addcmul_": lambda x, y: x.addcmul_(x, y, value=2),
    "lerp_": lambda x, y: x.lerp_(y, 0.25),
    "copy_": lambda x, y: x.copy_(y),
    "mul by itself": lambda x, y: x.mul_(x),
    "zero_": lambda x, y: x.zero_(),
    "iadd": lambda x, y: x.__iadd__(y),
}


@pytest.mark.parametrize("name", list(CHANGES))
@given(
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(st.sampled_from(EVERY), st.sampled_from(EVERY)),
    alike=st.booleans(),
    how=st.tuples(st.sampled_from(LAYOUTS[:6]), st.sampled_from(LAYOUTS)),
    seed=st.integers(0, 99),
)
@settings(max_examples=8)
def test_in_place(name, shape, dtypes, alike, how, seed):
    def run():
        rng = np.random.default_rng(seed)
        x = laid_out(rng, shape, dtypes[0], how[0])
        y = laid_out(rng, shape, dtypes[0] if alike else dtypes[1], how[1])
        place, strides = x.data_ptr(), x.stride()
        result = outcome(CHANGES[name], x, y)
        if not isinstance(result, tuple):
            assert result is x and x.data_ptr() == place and x.stride() == strides
        whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage(), 0, (x.untyped_storage().nbytes() // x.element_size(),))
        return result, whole

    actual, memory = run()
    with native.disabled():
        wanted, wanted_memory = run()
    if isinstance(wanted, tuple):
        assert actual == wanted
    else:
        equal(actual, wanted, 4)
    equal(memory, wanted_memory, 4)  # what lies between the elements is left alone


@given(
    name=st.sampled_from("add mul maximum div lt sqrt exp".split()),
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from([*REAL, *HALVES, torch.int32, torch.bool])] * 3),
    how=st.tuples(st.sampled_from(LAYOUTS[:6]), *[st.sampled_from(LAYOUTS)] * 2),
    seed=st.integers(0, 99),
)
@settings(max_examples=50)
def test_out(name, shape, dtypes, how, seed):
    rng = np.random.default_rng(seed)
    out = laid_out(rng, shape, dtypes[0], how[0])
    operands = [laid_out(rng, shape, dtype, layout) for dtype, layout in zip(dtypes[1:], how[1:], strict=True)]
    if name in ("sqrt", "exp"):
        operands = [operands[0].expand(shape)]

    def run():
        mine = torch.empty_strided(out.shape, out.stride(), dtype=out.dtype).fill_(3)
        result = outcome(lambda *values: getattr(torch, name)(*values, out=mine), *operands)
        assert isinstance(result, tuple) or result is mine
        return result

    actual = run()
    with native.disabled():
        wanted = run()
    if isinstance(wanted, tuple):
        assert actual == wanted
    else:  # a result that was computed in a coarser dtype has its roundings
        wide = max(CLOSE.get(operand.dtype, 3e-6) for operand in operands) / CLOSE.get(out.dtype, 1.0)
        equal(actual, wanted, 4 * max(1, wide))


OVERLAPS = {
    "transposed": lambda x: (x, x.t()),
    "shifted down": lambda x: (x[1:], x[:-1]),
    "shifted up": lambda x: (x[:-1], x[1:]),
    "by one element": lambda x: (x.view(-1)[1:], x.view(-1)[:-1]),
    "one row for all": lambda x: (x, x[7]),
    "one column for all": lambda x: (x, x[:, 9:10]),
    "one element for all": lambda x: (x, x[3, 3]),
    "itself": lambda x: (x, x),
}


@pytest.mark.parametrize("how", list(OVERLAPS))
@pytest.mark.parametrize("operation", ["add_", "mul_", "copy_", "out"])
def test_operands_that_share_memory_with_the_result(how, operation):
    def run():
        torch.manual_seed(0)
        x = torch.rand(250, 250)
        target, source = OVERLAPS[how](x)
        if operation == "out":
            return outcome(lambda: torch.maximum(target.expand_as(target), source, out=target)), x
        return outcome(getattr(target, operation), source), x

    pool.set_threads(before := pool.threads)
    actual, memory = run()
    with native.disabled():
        wanted, wanted_memory = run()
    assert before == pool.threads
    if isinstance(wanted, tuple):
        assert actual == wanted
    else:
        equal(actual, wanted)
    equal(memory, wanted_memory)


# -- shapes -------------------------------------------------------------------------------------------------------------------------
def test_empty_and_single_elements():
    big, none = torch.randn(300, 200), torch.randn(300, 0)
    agree(torch.add, none, torch.randn(300, 1))
    agree(torch.add, torch.randn(40000, 1), torch.randn(40000, 0))
    agree(torch.exp, torch.randn(0, 40000))
    agree(torch.mul, big, torch.tensor(2.0))
    agree(torch.mul, big[None], torch.randn(1, 1, 1))
    agree(torch.mul, torch.randn(1), big)


def test_mismatching_shapes_are_the_same_error():
    agree(torch.add, torch.randn(300, 200), torch.randn(300, 201))
    agree(lambda a, b: a.add_(b), torch.randn(300, 1), torch.randn(300, 200))


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    count=st.integers(1, 3),
    last=st.integers(1, 80),
    program=st.sampled_from(["sum", "exp"]),
    memory=st.sampled_from([np.dtype(d) for d in (np.float32, np.float64, np.uint8, np.bool_, np.int16)]),
    end=st.booleans(),
    seed=st.integers(0, 999),
)
@settings(max_examples=150)
def test_nothing_outside_the_arrays_is_touched(shape, count, last, program, memory, end, seed):
    """Plans themselves, on small arrays between forbidden pages, with random strides."""
    rng = np.random.default_rng(seed)
    shape = (*shape, last)
    arrays = []
    for _ in range(count):
        order = rng.permutation(len(shape))
        sizes = [1 if rng.random() < 0.2 else shape[i] for i in order]
        step = int(rng.integers(1, 3))
        base = guarded(rng.integers(0, 2, [*sizes[:-1], (sizes[-1] - 1) * step + 1]).astype(memory), end)
        arrays.append(base[..., ::step].transpose(np.argsort(order)))
    made_of = [("input", register_element(ELEMENTS[memory]), i) for i in range(count)]
    instructions, number = [*made_of], 0
    for i in range(count):
        instructions.append(("cast", "f32", i))
        instructions.append(
            ("add", "f32", number, len(instructions) - 1) if i else ("exp" if program == "exp" else "negative", "f32", count)
        )
        number = len(instructions) - 1
    elements = tuple((ELEMENTS[memory], register_element(ELEMENTS[memory])) for _ in range(count))
    key = program, count, memory
    if key not in _plans:
        _plans[key] = kernels.Plan(Program(tuple(instructions), (number,)), elements, (False,) * count, np.dtype(np.float32))
    result = _plans[key].run(*arrays)
    values = [array.astype(np.float32) for array in arrays]
    wanted = np.exp(values[0]) if program == "exp" else -values[0]
    for value in values[1:]:
        wanted = wanted + value
    if result is not None:
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        out = guarded(np.zeros(wanted.shape, np.float32), end)
        if _plans[key].run(*arrays, out=out) is not None:
            np.testing.assert_allclose(out, wanted, rtol=1e-6)


_plans: dict = {}


# -- derivatives --------------------------------------------------------------------------------------------------------------------
RULES = {
    "tanh": lambda x, y: torch.tanh(x),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "exp": lambda x, y: torch.exp(x),
    "log": lambda x, y: torch.log(x.abs() + 1),
    "sqrt": lambda x, y: torch.sqrt(x * x + 1),
    "relu": lambda x, y: F.relu(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu by tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y: F.silu(x),
    "mish": lambda x, y: F.mish(x),
    "elu": lambda x, y: F.elu(x, 0.7),
    "softplus": lambda x, y: F.softplus(x, 2.0, 3.0),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.1),
    "hardswish": lambda x, y: F.hardswish(x),
    "logsigmoid": lambda x, y: F.logsigmoid(x),
    "clamp": lambda x, y: x.clamp(-0.5, 1.5),
    "clamp by tensors": lambda x, y: x.clamp(min=y),
    "where": lambda x, y: torch.where(x > 0, x * 2, y),
    "masked_fill": lambda x, y: x.masked_fill(x > 1, 3.0),
    "power": lambda x, y: x**3,
    "power of": lambda x, y: (x.abs() + 0.1) ** y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 0.5),
    "maximum": lambda x, y: torch.maximum(x, y),
    "atan2": lambda x, y: torch.atan2(x, y),
    "hypot": lambda x, y: torch.hypot(x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "erf": lambda x, y: torch.erf(x),
    "sin": lambda x, y: torch.sin(x) * torch.cos(y),
    "rsqrt": lambda x, y: torch.rsqrt(x * x + 1),
    "abs": lambda x, y: x.abs() * y,
    "sub and square": lambda x, y: (x - y).square(),
}


@pytest.mark.parametrize("name", list(RULES))
@given(
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from([torch.float32, torch.float32, torch.float64, torch.bfloat16]),
    how=draw_layouts(2),
    graph=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=4)
def test_gradients(name, shape, dtype, how, graph, seed):
    """Fused rules, and with ``create_graph`` the unfused ones on kernels, against the reference."""
    rng = np.random.default_rng(seed)
    values = [laid_out(rng, shape, dtype, layout) for layout in how]
    cotangent = None

    def run():
        nonlocal cotangent
        x, y = (value.detach().clone(memory_format=torch.preserve_format).requires_grad_() for value in values)
        result = RULES[name](x, y)
        if cotangent is None:
            cotangent = tensor(rng, result.shape, dtype)
        slopes = torch.autograd.grad(result, (x, y), cotangent, create_graph=graph, allow_unused=True)
        if graph and slopes[0].requires_grad:
            # weighted, since the squares of some slopes (of hypot's) have a sum that does not depend on x
            total = sum(i * (slope * slope).sum() for i, slope in enumerate(slopes, 1) if slope is not None)
            slopes += torch.autograd.grad(total, x, allow_unused=True)
        return [result, *slopes]

    actual = run()
    with native.disabled():
        wanted = run()
    for a, b in zip(actual, wanted, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.dtype is b.dtype and a.shape == b.shape
            assert how[0] != how[1] or steps(a.stride(), a.shape) == steps(b.stride(), b.shape)
            scale = b.detach().double().abs().max().item()
            close = CLOSE[dtype] * (20 if graph else 4)  # second derivatives cancel
            np.testing.assert_allclose(a.detach().double().numpy(), b.detach().double().numpy(), rtol=20 * close, atol=close * scale)


def test_gradients_where_a_rule_meets_infinities_and_nan():
    x = torch.tensor(SPECIAL).repeat(3000)
    g = torch.tensor([1.0, math.nan, 0.0, math.inf]).repeat(12000)[: x.numel()]
    for name in ("tanh", "sigmoid", "gelu", "silu", "elu", "softplus", "clamp", "where", "mul", "power", "relu", "erf", "leaky_relu"):

        def run(name=name):
            leaf = x.clone().requires_grad_()
            return torch.autograd.grad(RULES[name](leaf, x), leaf, g)[0]

        actual = run()
        with native.disabled():
            wanted = run()
        assert torch.equal(actual.isnan(), wanted.isnan()), name
        np.testing.assert_allclose(
            actual.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-30 if name not in ("gelu", "silu") else 1e-6, err_msg=name
        )


# -- threads --------------------------------------------------------------------------------------------------------------------------
def test_the_number_of_threads_does_not_change_a_bit():
    x, y = torch.randn(700, 301), torch.randn(301, 700).t()
    row, before, runs = torch.randn(301), pool.threads, []
    try:
        for count in (1, 2, 3):
            pool.set_threads(count)
            leaf = x.clone().requires_grad_()
            result = F.gelu(leaf * y + row)
            runs.append((result.detach(), torch.autograd.grad(result, leaf, x)[0], x.clone().add_(row), y.to(torch.bfloat16), x > y))
    finally:
        pool.set_threads(before)
    assert all(torch.equal(a, b) for other in runs[1:] for a, b in zip(runs[0], other, strict=True))


def test_too_many_values_of_one_operation_are_left_to_the_reference(monkeypatch):
    """Values of attributes have no end, dtypes have: those get their kernel however many values came before."""
    monkeypatch.setattr(kernels, "SPECIALISATIONS", 3)
    monkeypatch.setattr(kernels, "_specialised", {})
    monkeypatch.setattr(kernels, "_plans", {})
    leaky_relu, sub = [next(e for e in entries() if e.key == name) for name in ("nn.functional.leaky_relu", "sub")]
    x = np.linspace(-1, 1, 60000, dtype=np.float32)
    made = [kernels.run(leaky_relu, (x, slope, False)) is not None for slope in (0.1, 0.2, 0.3, 0.4, 0.5, 0.2)]
    assert made == [True, True, True, False, False, True]
    assert len(kernels._plans) == 3  # what is refused takes no memory
    assert kernels.run(leaky_relu, (x, 0.01, False)) is not None  # the defaults are no value among others
    assert kernels.run(leaky_relu, (x.astype(np.float64), 0.1, False)) is not None
    for alpha in range(2, 9):
        kernels.run(sub, (x, x, alpha))
    assert len(kernels._specialised[sub]) == 3
    for dtype in (np.int16, np.int32, np.float64, np.int8, np.uint8):
        y = x.astype(dtype)
        np.testing.assert_array_equal(kernels.run(sub, (y, y, 1)), y - y)


def test_a_comparison_into_another_dtype_keeps_its_values():
    """The plan for a result of its own must not be used for a given one of another dtype, nor the other way round."""
    x, y = torch.randn(40000), torch.randn(40000)
    for call in ("lt", "ge", "eq", "logical_and", "logical_not", "isfinite"):
        for _ in range(2):
            operands = (x, y) if call not in ("logical_not", "isfinite") else (x,)
            plain = getattr(torch, call)(*operands)
            assert plain.dtype is torch.bool
            if call != "isfinite":
                assert torch.equal(getattr(x.clone(), call + "_")(*operands[1:]), plain.float())
                for dtype in (torch.int64, torch.float64, torch.bool):
                    assert torch.equal(getattr(torch, call)(*operands, out=torch.empty(40000, dtype=dtype)), plain.to(dtype))


def test_kernels_are_really_used():
    """So that these tests do not compare the reference with itself."""
    launched = []
    torch.ones(300, 200).exp()  # the first launch starts the pool
    x, leaf = torch.randn(300, 200), torch.randn(300, 200, requires_grad=True)
    calls = [
        lambda: x.exp(),
        lambda: x + x,
        lambda: x + 1,
        lambda: x * x[0],
        lambda: x.t() * x.t(),
        lambda: x.to(torch.bfloat16),
        lambda: x.bfloat16() * 2,
        *[lambda: x.half().exp()] * targets.current().has_halves,
        lambda: x.clamp(0, 1),
        lambda: torch.where(x > 0, x, 0),
        lambda: x.mul_(1.5),
        lambda: torch.add(x, x, out=torch.empty(300, 200)),
        lambda: (x > 0) & (x < 1),
        lambda: x.int() + x,
        lambda: F.gelu(leaf),
        lambda: torch.autograd.grad(F.gelu(leaf), leaf, x),
    ]
    for number, call in enumerate(calls):
        launched.clear()
        with pool.watched(lambda *launch: launched.append(launch)):
            call()
        assert launched, number


def test_numbers_that_a_kernel_of_integers_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference does it, and the kernel stays for the numbers that it can take."""
    x = torch.arange(10_000)
    for layout in (x, x.reshape(100, 100).t()):
        for _ in range(2):
            assert int((layout == 1).sum()) == 1
            assert int((layout == 0.5).sum()) == 0
            assert int((layout < 0.5).sum()) == 1
            assert int((0.5 >= layout).sum()) == 1
            assert int(layout.ge(9998.5).sum()) == 1
    launches = []
    real = pool.launch
    monkeypatch.setattr(pool, "launch", lambda *given: launches.append(given) or real(*given))
    mask = x == 2
    assert len(launches) == 1
    assert int(mask.sum()) == 1


def test_numbers_that_are_equal_and_not_the_same() -> None:
    """A kernel that was made for 2 is not for 2.0, nor one for 0.0 for -0.0, whichever came first."""
    x, i = torch.zeros(10_000), torch.arange(10_000)
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        for number in (first, second):
            minus = 10_000 if math.copysign(1, number) < 0 else 0
            assert int(torch.where(x > 1, x, number).signbit().sum()) == minus
            assert int(x.masked_fill(x == 0, number).signbit().sum()) == minus
            assert int(x.copysign(number).signbit().sum()) == minus
    for exponent, dtype in ((2, torch.int64), (2.0, torch.float32), (True, torch.int64), (1, torch.int64), (1.0, torch.float32)):
        assert (i**exponent).dtype is dtype, exponent
    for limit, dtype in ((1, torch.int64), (1.0, torch.float32)):
        assert i.clamp(limit, 5).dtype is dtype
    i.add(i, alpha=1)
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        i.add(i, alpha=1.0)


def drawn_layouts(rng, sizes=(1, 2, 3, 40)):
    """Arrays of one shape of some thousand elements in different orders, some expanded."""
    shape = (*rng.choice(sizes, rng.integers(1, 4)), 120)
    arrays = []
    for _ in range(rng.integers(2, 4)):
        order = rng.permutation(len(shape))
        held = [1 if rng.random() < 0.3 else shape[i] for i in order]
        arrays.append(np.zeros(held, np.float32).transpose(np.argsort(order)))
    return arrays


@pytest.mark.oracle
@pytest.mark.parametrize("large", [True, False])
def test_results_lie_in_memory_as_pytorchs(oracle, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """Where operands lie in different orders, by native kernels (large ones), and on the slow path (all)."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(native.switch, "on", large)
    for trial in range(200):
        arrays = drawn_layouts(rng)
        ours = [torch.from_numpy(array) for array in arrays]
        theirs = [oracle.from_numpy(array) for array in arrays]
        if not large:
            ours[0], theirs[0] = ours[0].double(), theirs[0].double()
        results = [(a[0] + a[1]) if trial % 2 else t.addcmul(*(a * 2)[:3]) for a, t in ((ours, torch), (theirs, oracle))]
        if not large or ours[0].numel() >= native.choice_for(TABLES["torch"]["add"]).threshold:
            where = [(tuple(tensor.shape), tensor.stride()) for tensor in theirs]
            got, want = (steps(result.stride(), result.shape) for result in results)
            assert got == want, where


@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
@pytest.mark.parametrize("count", [10, 10_000])
def test_numbers_that_are_zero_as_the_operands_dtype(name: str, count: int) -> None:
    x = torch.arange(count).to(torch.int16)
    assert getattr(torch, name)(x, 2**31 + 5)[-1] == getattr(torch, name)(x, 5)[-1]
    for number in (0, 2**16, 2**31):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(torch, name)(x, number)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_sum_of_gradients(dtype: str) -> None:
    x = torch.randn(40_000, dtype=getattr(torch, dtype), requires_grad=True)
    gradients = [torch.randn(40_000, dtype=getattr(torch, dtype)) for _ in range(3)]
    for gradient in gradients:
        x.backward(gradient)
    with native.disabled():
        want = gradients[0] + gradients[1] + gradients[2]
    assert torch.equal(x.grad, want)


def test_a_gradient_that_shares_memory_with_what_it_is_added_to() -> None:
    memory = torch.arange(40_001.0)
    x = torch.zeros(40_000, requires_grad=True)
    x.grad = memory[1:]
    want = memory[1:] + memory[:-1]
    x.backward(memory[:-1])
    assert torch.equal(x.grad, want)


def test_a_matrix_and_the_product_of_vectors_are_added_at_once():
    x, a, b = torch.randn(130, 140), torch.randn(130), torch.randn(280)[::2]
    wanted = x.numpy() + np.multiply.outer(a.numpy(), b.numpy())
    for matrix in (x, x.t().contiguous().t(), x[:1].expand(130, 140), x[0]):
        wanted = matrix.numpy() + np.multiply.outer(a.numpy(), b.numpy())
        np.testing.assert_array_equal(torch.addr(matrix, a, b).numpy(), wanted)
    np.testing.assert_allclose(torch.addr(x, a, b, beta=2).numpy(), 2 * x.numpy() + np.multiply.outer(a.numpy(), b.numpy()), rtol=1e-5)
