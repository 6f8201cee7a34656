"""Dtypes: promotion of every pair, casts with wrap-around, limits, the default dtype, and the narrow types' arithmetic."""

from __future__ import annotations

import itertools
import operator
import pickle
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flambeau

INTS = ("uint8", "int8", "int16", "int32", "int64")
WIDE = ("uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
EIGHTS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
COMPLEX = ("complex64", "complex128")
USUAL = ("bool", *INTS, *FLOATS, *COMPLEX)
EVERY = (*USUAL, *WIDE, *EIGHTS)
NUMBERS = (True, 3, 1.5, 2j)

# Rows and columns in the order of USUAL; one letter a dtype.
LETTERS = dict(zip(USUAL, "?BbhilefdFD", strict=False)) | dict(
    zip(USUAL, ("?", "u", "a", "b", "c", "l", "h", "g", "f", "d", "F", "D"), strict=True)
)
PROMOTED = """
? u a b c l h g f d F D
u u b b c l h g f d F D
a b a b c l h g f d F D
b b b b c l h g f d F D
c c c c c l h g f d F D
l l l l l l h g f d F D
h h h h h h h f f d F D
g g g g g g f g f d F D
f f f f f f f f f d F D
d d d d d d d d d d D D
F F F F F F F F F D F D
D D D D D D D D D D D D
"""


def dtype(name: str, torch: Any = flambeau) -> Any:
    return getattr(torch, name)


def outcome(function: Any) -> Any:
    """The result as comparable text, or the exception's type."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function()
    except Exception as error:
        return RuntimeError if isinstance(error, NotImplementedError) else type(error)
    return str(result.dtype) if hasattr(result, "dtype") else str(result)


# -- promotion ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", range(len(USUAL)), ids=USUAL)
def test_the_table_of_promotions(row: int) -> None:
    cells = PROMOTED.split("\n")[1 + row].split()
    names = {letter: name for name, letter in LETTERS.items()}
    for column, cell in enumerate(cells):
        a, b, want = dtype(USUAL[row]), dtype(USUAL[column]), dtype(names[cell])
        assert flambeau.promote_types(a, b) is want, (a, b)
        x, y = flambeau.ones(2, dtype=a), flambeau.ones(2, dtype=b)
        assert flambeau.result_type(x, y) is want and (x * y).dtype is want and (x.reshape(2, 1) + y).dtype in (want, flambeau.bool)
        assert flambeau.cat([x, y]).dtype is want and flambeau.where(x == x, x, y).dtype is want


def test_a_0d_tensor_and_a_number_change_the_kind_only() -> None:
    for name in USUAL:
        x = flambeau.ones(2, dtype=dtype(name))
        for kind, kinds_of, other in ((0, ("bool",), True), (1, INTS, 3), (2, FLOATS, 1.5), (3, COMPLEX, 2j)):
            mine = 0 if name == "bool" else 1 if name in INTS else 2 if name in FLOATS else 3
            for operand in (other, *(flambeau.tensor(1, dtype=dtype(kind)) for kind in kinds_of)):
                got = flambeau.result_type(x, operand)
                if kind <= mine:
                    assert got is x.dtype
                elif not isinstance(operand, flambeau.Tensor):
                    default = {1: "int64", 2: "float32"}.get(kind) or {"float16": "complex32", "float64": "complex128"}.get(
                        name, "complex64"
                    )
                    assert got is dtype(default), (x.dtype, operand)


@pytest.mark.parametrize("first", EVERY)
def test_promotion_of_every_pair_is_pytorchs(first: str, of_pytorch: Callable[..., Any]) -> None:
    shapes = ((2,), ())

    def outcomes(torch: Any) -> list[Any]:
        listed = []
        for second in EVERY:
            a, b = dtype(first, torch), dtype(second, torch)
            tensors = [(torch.ones(s, dtype=a), torch.ones(t, dtype=b)) for s in shapes for t in shapes]
            results = [
                outcome(lambda a=a, b=b, torch=torch: torch.promote_types(a, b)),
                outcome(lambda a=a, b=b, torch=torch: torch.can_cast(a, b)),
            ]
            results += [outcome(lambda x=x, y=y, torch=torch: torch.result_type(x, y)) for x, y in tensors]
            listed.append((second, results))
        return listed

    assert outcomes(flambeau) == of_pytorch(outcomes)


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("operation", ["add", "mul", "div", "pow", "eq", "bitwise_and", "floor_divide", "maximum", "atan2", "sub"])
def test_dtypes_of_results_are_pytorchs(name: str, operation: str, of_pytorch: Callable[..., Any]) -> None:
    def outcomes(torch: Any) -> list[Any]:
        listed = []
        for other in (*NUMBERS, *USUAL):
            for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
                x = torch.ones(shapes[0], dtype=dtype(name, torch))
                y = torch.ones(shapes[1], dtype=dtype(other, torch)) if isinstance(other, str) else other
                function = outcome(lambda x=x, y=y, torch=torch: getattr(torch, operation)(x, y))
                in_place = outcome(lambda x=x, y=y: getattr(x.clone(), operation + "_")(y))
                kind = outcome(lambda x=x, y=y: torch.result_type(x, y))
                listed.append((other, shapes, kind, function, in_place))
        return listed

    for ours, theirs in zip(outcomes(flambeau), of_pytorch(outcomes), strict=True):
        # flambeau computes nothing in complex32, which float16 and complex numbers give
        if "torch.complex32" not in (theirs[3], ours[2]):
            assert ours == theirs or (operation, name, ours[0]) == ("pow", "bool", True)


@pytest.mark.parametrize("name", USUAL)
def test_numbers_on_either_side_of_operators(name: str, of_pytorch: Callable[..., Any]) -> None:
    operators = ("+", "-", "*", "/", "//", "%", "**", "<", "==", "&", "|", "^", "<<")
    known = {("float16", operator, 2j) for operator in operators} | {("bool", "**", True)}
    texts = [
        text
        for operator, number in itertools.product(operators, NUMBERS)
        if (name, operator, number) not in known
        for text in (f"x {operator} {number!r}", f"{number!r} {operator} x")
    ]

    def outcomes(torch: Any) -> list[Any]:
        return [(text, outcome(lambda text=text: eval(text, {"x": torch.ones(2, dtype=dtype(name, torch))}))) for text in texts]

    assert outcomes(flambeau) == of_pytorch(outcomes)


@pytest.mark.parametrize("name", [*USUAL, *WIDE])
@pytest.mark.oracle
def test_dtypes_of_reductions_and_unary_operations(name: str, oracle: ModuleType) -> None:
    for operation in (
        "sum",
        "prod",
        "mean",
        "cumsum",
        "amax",
        "argmax",
        "any",
        "exp",
        "sqrt",
        "neg",
        "abs",
        "floor",
        "sigmoid",
        "sign",
        "std",
    ):
        arguments = (0,) if operation == "cumsum" else ()
        outcomes = [
            outcome(lambda x=x, operation=operation, arguments=arguments: getattr(x, operation)(*arguments))
            for x in (torch.ones(3, dtype=dtype(name, torch)) for torch in (oracle, flambeau))
        ]
        if name in WIDE and isinstance(outcomes[0], type):
            continue  # PyTorch has few kernels for these; more is no harm
        assert outcomes[0] == outcomes[1], operation


def test_can_cast_forbids_a_lower_kind() -> None:
    order = [("bool",), INTS, FLOATS, COMPLEX]
    for (i, given), (j, wanted) in itertools.product(enumerate(order), repeat=2):
        for a, b in itertools.product(given, wanted):
            assert flambeau.can_cast(dtype(a), dtype(b)) is (i <= j)
    x = flambeau.ones(2, dtype=flambeau.int64)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        x += 1.5
    with pytest.raises(RuntimeError, match="can't be cast"):
        flambeau.add(flambeau.ones(2), 1, out=x)


# -- casts ------------------------------------------------------------------------------------------------------------------------
def test_integers_wrap_around() -> None:
    x = flambeau.tensor([-1, 0, 127, 128, 255, 256, 300, -129, 2**31, 2**40 + 5])
    assert x.to(flambeau.uint8).tolist() == [255, 0, 127, 128, 255, 0, 44, 127, 0, 5]
    assert x.to(flambeau.int8).tolist() == [-1, 0, 127, -128, -1, 0, 44, 127, 0, 5]
    assert x.to(flambeau.int32).tolist() == [-1, 0, 127, 128, 255, 256, 300, -129, -(2**31), 5]
    assert x.to(flambeau.uint16).tolist() == [65535, 0, 127, 128, 255, 256, 300, 65407, 0, 5]
    assert x.to(flambeau.bool).tolist() == [True, False] + [True] * 8


def test_floats_are_cut_towards_zero_and_wrap_in_unsigned_bytes() -> None:
    x = flambeau.tensor([1.9, -1.9, 0.5, -0.5, 100.7])
    assert x.int().tolist() == [1, -1, 0, 0, 100]
    assert flambeau.tensor([-1.5, 255.9, 256.0, 300.7, -129.0]).to(flambeau.uint8).tolist() == [255, 255, 0, 44, 127]
    assert flambeau.tensor([0.0, -0.0, 1e-30, float("nan")]).bool().tolist() == [False, False, True, True]


def test_narrow_floats_round_to_even_and_overflow() -> None:
    x = flambeau.tensor([1 + 2**-9, 1 + 3 * 2**-9, 65519.0, 65520.0, 1e-8, float("nan")])
    half = x.half()
    assert half[:5].tolist() == [1 + 2**-9, 1 + 3 * 2**-9, 65504, float("inf"), 0] and half[5].isnan()
    brain = x.bfloat16()
    assert brain[:4].tolist() == [1.0, 1 + 2**-7, 65536, 65536]
    assert flambeau.tensor([464.0, 480.0, 1e9]).to(flambeau.float8_e4m3fn)[:1].float().tolist() == [448]


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("source", EVERY)
def test_casts_are_pytorchs(source: str, of_pytorch: Callable[..., Any]) -> None:
    values = [0, 1, 2, 3, 5, 7, 100, 127] + ([-1, -2, -100, -128] if not source.startswith("u") and source != "bool" else [128, 200, 255])
    if source in (*FLOATS, *COMPLEX):
        values += [0.5, 1.5, 2.5, -0.5, -1.5, 3.14159, 1e-5, 254.7]
    if source in ("int16", "int32", "int64", "uint16", "uint32", "uint64"):
        values += [300, 1000, 32767]

    def outcomes(torch: Any) -> list[Any]:
        listed = []
        for target in EVERY:
            x = torch.tensor(values, dtype=torch.float64 if source not in COMPLEX else torch.complex128).to(dtype(source, torch))
            result = x.to(dtype(target, torch))
            assert result.dtype is dtype(target, torch)
            listed.append((target, [repr(value) for value in result.to(torch.complex128).tolist()]))
        return listed

    assert outcomes(flambeau) == of_pytorch(outcomes)


def test_casting_complex_to_real_warns() -> None:
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert flambeau.tensor([1 + 2j]).float().tolist() == [1]
    with pytest.raises(RuntimeError):
        float(flambeau.tensor(1 + 2j))


# -- arithmetic of the narrow and wide types ----------------------------------------------------------------------------------------
def test_integer_arithmetic_wraps() -> None:
    assert (flambeau.tensor([200], dtype=flambeau.uint8) + 100).tolist() == [44]
    assert (flambeau.tensor([100], dtype=flambeau.int8) * 2).tolist() == [-56]
    assert (-flambeau.tensor([1], dtype=flambeau.uint8)).tolist() == [255]
    assert (flambeau.tensor([2**63 - 1]) + 1).tolist() == [-(2**63)]
    assert flambeau.tensor([200, 100], dtype=flambeau.uint8).sum().item() == 300  # sums are int64
    assert (flambeau.tensor([-7, 7]) // 2).tolist() == [-4, 3] and (flambeau.tensor([-7, 7]) % 3).tolist() == [2, 1]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_round_after_each_operation(name: str) -> None:
    kind = np.float16 if name == "float16" else ml_dtypes.bfloat16
    a, b = (np.random.default_rng(i).uniform(-3, 3, 50).astype(kind) for i in (0, 1))
    x, y = (flambeau.tensor(array.astype(np.float32)).to(dtype(name)) for array in (a, b))
    wide = [array.astype(np.float32) for array in (a, b)]
    for got, want in ((x + y, wide[0] + wide[1]), (x * y, wide[0] * wide[1]), (x / y, wide[0] / wide[1]), (x.exp(), np.exp(wide[0]))):
        assert got.dtype is dtype(name)
        np.testing.assert_allclose(got.float().numpy(), want.astype(kind).astype(np.float32), rtol=0, atol=0)
    assert (x @ y).dtype is dtype(name) and x.sum().dtype is dtype(name)


@pytest.mark.parametrize("name", [*WIDE, *EIGHTS])
def test_what_pytorch_computes_in_rare_dtypes(name: str, of_pytorch: Callable[..., Any]) -> None:
    def tries(torch: Any) -> dict[str, Any]:
        x = torch.tensor([1, 2, 3]).to(dtype(name, torch))
        acts = {
            "==": lambda: x == x,
            "+": lambda: x + x,
            "*": lambda: x * x,
            "clone": x.clone,
            "copy": lambda: torch.zeros(3).copy_(x),
            "cat": lambda: torch.cat([x, x]),
            "index": lambda: x[torch.tensor([0, 2])],
            "fill": lambda: x.clone().fill_(2),
            "item": lambda: x[1].item(),
            "list": x.tolist,
            "zeros": lambda: torch.zeros(2, dtype=x.dtype),
            "stack": lambda: torch.stack([x, x]),
            "float": x.float,
            "view": lambda: x.reshape(3, 1).t(),
            "gt": lambda: x > 1,
            "sum": x.sum,
            "sub": lambda: x - x,
            "repr": lambda: repr(x),
            "half": x.half,
            "bfloat16": x.bfloat16,
        }
        outcomes = {}
        for label, act in acts.items():
            try:
                result = act()
            except Exception as error:
                outcomes[label] = type(error)
                continue
            outcomes[label] = (str(result.dtype), result.double().tolist()) if hasattr(result, "dtype") else result
        return outcomes

    ours, theirs = tries(flambeau), of_pytorch(tries)
    for label, want in theirs.items():
        if not isinstance(want, type):
            assert ours[label] == want, label


# -- the default dtype, limits, the objects themselves ----------------------------------------------------------------------------------
def test_the_default_dtype() -> None:
    assert flambeau.get_default_dtype() is flambeau.float32
    flambeau.set_default_dtype(flambeau.float64)
    assert flambeau.tensor(1.0).dtype is flambeau.zeros(1).dtype is (flambeau.ones(1, dtype=flambeau.int64) / 2).dtype is flambeau.float64
    assert flambeau.tensor(1j).dtype is flambeau.complex128 and flambeau.tensor(1).dtype is flambeau.int64
    assert flambeau.result_type(flambeau.ones(1, dtype=flambeau.int32), 1.5) is flambeau.float64
    assert flambeau.arange(0, 1, 0.5).dtype is flambeau.float64 and flambeau.Tensor([1]).dtype is flambeau.float64
    flambeau.set_default_dtype(flambeau.float16)
    assert flambeau.tensor(1.0).dtype is flambeau.float16
    for wrong in (flambeau.int64, flambeau.complex64):
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            flambeau.set_default_dtype(wrong)


@pytest.mark.parametrize(
    ("name", "bits", "eps", "largest", "tiny"),
    [
        ("float16", 16, 2**-10, 65504.0, 2**-14),
        ("bfloat16", 16, 2**-7, 3.3895313892515355e38, 2**-126),
        ("float32", 32, 2**-23, 3.4028234663852886e38, 2**-126),
        ("float64", 64, 2**-52, 1.7976931348623157e308, 2**-1022),
        ("complex64", 32, 2**-23, 3.4028234663852886e38, 2**-126),
        ("float8_e4m3fn", 8, 2**-3, 448.0, 2**-6),
        ("float8_e5m2", 8, 2**-2, 57344.0, 2**-14),
    ],
)
def test_limits_of_floats(name: str, bits: int, eps: float, largest: float, tiny: float) -> None:
    info = flambeau.finfo(dtype(name))
    assert (info.bits, info.eps, info.max, info.min, info.tiny, info.smallest_normal) == (bits, eps, largest, -largest, tiny, tiny)


def test_limits_of_integers() -> None:
    for name in (*INTS, *WIDE):
        info, want = flambeau.iinfo(dtype(name)), np.iinfo(name)
        assert (info.bits, info.max, info.min, info.dtype) == (want.bits, want.max, want.min, name)
    with pytest.raises(TypeError, match="Use torch.finfo"):
        flambeau.iinfo(flambeau.float32)
    with pytest.raises(TypeError, match="Use torch.iinfo"):
        flambeau.finfo(flambeau.int32)
    with pytest.raises(TypeError):
        flambeau.iinfo(flambeau.bool)
    assert flambeau.finfo().dtype == "float32" and flambeau.finfo(flambeau.float32) == flambeau.finfo()


@pytest.mark.parametrize("name", EVERY)
def test_limits_and_attributes_are_pytorchs(name: str, of_pytorch: Callable[..., Any]) -> None:
    def facts(torch: Any) -> dict[str, Any]:
        kind = dtype(name, torch)
        attributes = {attribute: getattr(kind, attribute) for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed")}
        attributes |= {"repr": repr(kind), "real": str(kind.to_real()), "element": torch.empty(0, dtype=kind).element_size()}
        attributes["complex"] = outcome(lambda: kind.to_complex())
        for limits in ("finfo", "iinfo"):
            try:
                info = getattr(torch, limits)(kind)
            except TypeError:
                attributes[limits] = TypeError
                continue
            names = ("bits", "max", "min", "dtype", "eps", "tiny", "smallest_normal", "resolution")
            attributes[limits] = [repr(info), *(getattr(info, attribute, None) for attribute in names)]
        if name == "float8_e5m2fnuz":
            del attributes["finfo"]  # with 2 bits of mantissa its eps is 0.25; PyTorch says 0.125
        return attributes

    assert facts(flambeau) == of_pytorch(facts)


def test_aliases_and_identity() -> None:
    for names in (
        ("float32", "float"),
        ("float64", "double"),
        ("float16", "half"),
        ("int64", "long"),
        ("int32", "int"),
        ("int16", "short"),
    ):
        assert dtype(names[0]) is dtype(names[1])
    assert flambeau.cfloat is flambeau.complex64 and flambeau.cdouble is flambeau.complex128
    for name in EVERY:
        kind = dtype(name)
        assert isinstance(kind, flambeau.dtype) and pickle.loads(pickle.dumps(kind)) is kind and {kind: 1}[kind] == 1
        assert kind != name and str(kind) == f"torch.{name}"


@pytest.mark.parametrize("index", ["1", True, 1.0, (1,)])
def test_a_devices_index_is_an_int(index: object) -> None:
    with pytest.raises(TypeError, match=r"argument 'index' \(position 2\) must be int"):
        flambeau.device("cuda", index)
    with pytest.raises(RuntimeError, match="must not be negative"):
        flambeau.device("cuda", -1)


@pytest.mark.parametrize("name", (*EVERY, "float8_e8m0fnu", "complex32"))
def test_results_of_no_dimensions_are_tensors_like_others(name: str) -> None:
    """NumPy makes numbers of some, which could neither be written to nor printed."""
    dtype = getattr(flambeau, name)
    x = flambeau.tensor(1.0).to(dtype)
    for operation in (operator.neg, abs, lambda x: x + x, lambda x: x * x, flambeau.sin, flambeau.relu, lambda x: x.clone().to(dtype)):
        try:
            result = operation(x)
        except (RuntimeError, NotImplementedError):  # not of this dtype
            continue
        assert result._array.__class__ is np.ndarray and repr(result.fill_(2)) == repr(flambeau.full((), 2, dtype=result.dtype))
