"""``torch._int_mm``, products with weights of few bits, and quantized linear layers, beside PyTorch: values, errors, shapes, files."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau
from flambeau.core.arrays import native

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*quantized tensor creation functions", "ignore:TypedStorage is deprecated", "ignore:int_mm_out_cpu failed"
)
RANDOM = np.random.default_rng(7)
BYTES = {name: RANDOM.integers(-128, 128, (70, 70)).astype(np.int8) for name in ("a", "b")}
NUMBERS = RANDOM.standard_normal((70, 256)).astype(np.float32)
SCALES = RANDOM.random((8, 128, 2)).astype(np.float32)
HALVES = RANDOM.integers(0, 16, (128, 256)).astype(np.int32)


@pytest.fixture(scope="module")
def oracle() -> Any:
    torch = pytorch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)
    return torch


def outcome(call: Any, torch: Any) -> Any:
    """What a call gives: dtype, shape, strides and values; or the exception's type."""
    try:
        result = call(torch)
    except Exception as error:
        return type(error)
    shown = (str(result.dtype), tuple(result.shape), result.stride(), str(result.device))
    return (*shown, None if result.device.type == "meta" else result.float().tolist() if result.is_floating_point() else result.tolist())


# -- products of integers, and weights of few bits -----------------------------------------------------------------------------------------
def a(torch: Any, m: int, k: int, dtype: str = "int8") -> Any:
    return torch.tensor(BYTES["a"][:m, :k]).to(getattr(torch, dtype))


def b(torch: Any, k: int, n: int) -> Any:
    return torch.tensor(BYTES["b"][:k, :n])


INT_MM = [
    *[
        lambda torch, s=s: torch._int_mm(a(torch, s[0], s[1]), b(torch, *s[1:]))
        for s in ((1, 1, 1), (3, 70, 5), (0, 4, 5), (3, 0, 5), (3, 4, 0))
    ],
    *[lambda torch, m=m: torch._int_mm(a(torch, m, 61), b(torch, 61, 47)) for m in (1, 7, 33, 70)],
    lambda torch: torch._int_mm(a(torch, 9, 40, "uint8"), b(torch, 40, 21)),
    lambda torch: torch._int_mm(a(torch, 9, 40), b(torch, 21, 40).t()),
    lambda torch: torch._int_mm(a(torch, 40, 9).t(), b(torch, 40, 21)[:, ::2]),
    lambda torch: torch.ops.aten._int_mm.default(a(torch, 3, 4), b(torch, 4, 5)),
    lambda torch: torch._int_mm(a(torch, 3, 4), b(torch, 4, 5), out=torch.empty(3, 5, dtype=torch.int32)),
    lambda torch: torch._int_mm(a(torch, 3, 4), b(torch, 4, 5), out=torch.empty(3, 5, dtype=torch.int64)),
    lambda torch: torch._int_mm(a(torch, 3, 4).to("meta"), b(torch, 4, 5).to("meta")),
    lambda torch: torch._int_mm(a(torch, 3, 4).to("meta"), b(torch, 5, 5).to("meta")),
    lambda torch: torch._int_mm(a(torch, 3, 4), b(torch, 5, 5)),
    lambda torch: torch._int_mm(a(torch, 3, 4)[0], b(torch, 4, 5)),
    lambda torch: torch._int_mm(a(torch, 3, 4), b(torch, 4, 5)[0]),
    lambda torch: torch._int_mm(a(torch, 3, 4, "int32"), b(torch, 4, 5)),
    lambda torch: torch._int_mm(a(torch, 3, 4), b(torch, 4, 5).to(torch.uint8)),
    lambda torch: torch._int_mm(3, b(torch, 4, 5)),
    *[
        lambda torch, shape=shape: torch._int_mm(a(torch, 3, 4), b(torch, 4, 5), out=torch.empty(shape, dtype=torch.int32))
        for shape in ((2, 5), (3, 6), (0,), (3,), (1, 3, 5), ())
    ],
    lambda torch: torch._int_mm(a(torch, 3, 4), b(torch, 4, 5), out=torch.empty(5, 3, dtype=torch.int32).t()),
    lambda torch: torch._int_mm(a(torch, 1, 1)[0, 0], b(torch, 1, 5)),
    lambda torch: torch._int_mm(a(torch, 1, 1), b(torch, 1, 5)[0, 0]),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(INT_MM)))
def test_int_mm_as_pytorch(number: int, oracle: Any) -> None:
    assert outcome(INT_MM[number], flambeau) == outcome(INT_MM[number], oracle)


@pytest.mark.oracle
def test_weights_are_packed_as_by_pytorch_with_avx512(oracle: Any) -> None:
    if "AVX512" not in oracle.backends.cpu.get_cpu_capability():
        pytest.skip("PyTorch packs otherwise on this processor")
    for n, k in ((16, 2), (64, 4), (112, 30), (128, 256), (0, 4), (16, 0)):
        for more in (0, 16, -16):
            packed = [torch._convert_weight_to_int4pack_for_cpu(torch.tensor(HALVES[:n, :k] + more), 2) for torch in (flambeau, oracle)]
            assert packed[0].tolist() == packed[1].tolist() and packed[0].dtype is flambeau.uint8


def floats(torch: Any, m: int, k: int, dtype: str = "float32") -> Any:
    return torch.tensor(NUMBERS[:m, :k]).to(getattr(torch, dtype))


def by_bytes(torch: Any, m: int, k: int, n: int, dtype: str = "float32") -> Any:
    return torch._weight_int8pack_mm(floats(torch, m, k, dtype), b(torch, n, k), torch.tensor(SCALES[0, :n, 0]).to(getattr(torch, dtype)))


def by_halves(torch: Any, m: int, k: int, n: int, group: int, dtype: str = "float32") -> Any:
    packed = torch._convert_weight_to_int4pack_for_cpu(torch.tensor(HALVES[:n, :k].copy()), 1)
    scales = torch.tensor(SCALES[: k // group, :n].copy()).to(getattr(torch, dtype))
    return torch._weight_int4pack_mm_for_cpu(floats(torch, m, k, dtype), packed, group, scales)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_products_with_weights_of_few_bits_as_pytorch(dtype: str, oracle: Any) -> None:
    tolerance = {"float32": 2e-6, "bfloat16": 2**-7, "float16": 2**-9}[dtype]
    calls = [
        lambda torch, m=m, k=k, n=n: by_bytes(torch, m, k, n, dtype) for m, k, n in ((1, 64, 48), (3, 32, 16), (70, 64, 64), (0, 32, 16))
    ]
    sizes = ((1, 256, 128, 64), (3, 64, 80, 32), (40, 128, 64, 128))
    calls += [lambda torch, size=size: by_halves(torch, *size, dtype) for size in sizes]
    for call in calls:
        ours, theirs = call(flambeau), call(oracle)
        assert str(ours.dtype) == str(theirs.dtype) and ours.stride() == theirs.stride()
        wanted = np.asarray(theirs.float())
        np.testing.assert_allclose(np.asarray(ours.float()), wanted, rtol=tolerance, atol=tolerance * 256)


WRONG = [
    lambda torch: by_bytes(torch, 3, 64, 64, "float64"),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 33), b(torch, 16, 32), torch.ones(16)),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 32), b(torch, 16, 32), torch.ones(15)),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 32), b(torch, 16, 32), torch.ones(16).bfloat16()),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 32)[0], b(torch, 16, 32), torch.ones(16)),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 64)[:, ::2], b(torch, 16, 32), torch.ones(16)),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 32), b(torch, 32, 16).t(), torch.ones(16)),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 32), b(torch, 16, 32).float(), torch.ones(16)),
    lambda torch: torch._weight_int8pack_mm(torch.tensor(1.0), b(torch, 16, 32), torch.ones(16)),
    lambda torch: torch._weight_int8pack_mm(floats(torch, 3, 32), b(torch, 1, 32)[0], torch.ones(32)),
    lambda torch: torch._weight_int4pack_mm_for_cpu(floats(torch, 3, 32), torch.ones(16).to(torch.uint8), 32, torch.ones(1, 16, 2)),
    lambda torch: torch._convert_weight_to_int4pack_for_cpu(torch.ones(15, 32, dtype=torch.int32), 1),
    lambda torch: torch._convert_weight_to_int4pack_for_cpu(torch.ones(16, 33, dtype=torch.int32), 1),
    lambda torch: torch._convert_weight_to_int4pack_for_cpu(torch.ones(16, 32, dtype=torch.uint8), 1),
    lambda torch: torch._convert_weight_to_int4pack_for_cpu(torch.ones(16, dtype=torch.int32), 1),
    lambda torch: by_halves(torch, 3, 64, 16, 16),
    lambda torch: by_halves(torch, 3, 64, 16, 128),
    lambda torch: torch._weight_int4pack_mm_for_cpu(floats(torch, 3, 62), torch.ones(16, 32).to(torch.uint8), 32, torch.ones(2, 16, 2)),
    lambda torch: torch._weight_int4pack_mm_for_cpu(floats(torch, 3, 64), torch.ones(16, 32).to(torch.uint8), 32, torch.ones(2, 15, 2)),
    lambda torch: torch._weight_int4pack_mm_for_cpu(floats(torch, 3, 64), torch.ones(16, 32).int(), 32, torch.ones(2, 16, 2)),
    lambda torch: torch._weight_int4pack_mm_for_cpu(
        floats(torch, 6, 64)[::2], torch.ones(16, 32).to(torch.uint8), 32, torch.ones(2, 16, 2)
    ),
    lambda torch: by_bytes(torch, 3, 64, 64).requires_grad_().sum().backward(torch.ones(2)),
    *[
        lambda torch, call=call: call(torch, floats(torch, 3, 64).requires_grad_()).sum().backward()
        for call in (
            lambda torch, x: torch._weight_int8pack_mm(x, b(torch, 16, 64), torch.ones(16)),
            lambda torch, x: torch._weight_int8pack_mm(x.detach(), b(torch, 16, 64), torch.ones(16).requires_grad_()),
            lambda torch, x: torch._weight_int4pack_mm_for_cpu(x, torch.ones(16, 32).to(torch.uint8), 32, torch.ones(2, 16, 2)),
            lambda torch, x: torch._weight_int4pack_mm_for_cpu(
                x.detach(), torch.ones(16, 32).to(torch.uint8), 32, torch.ones(2, 16, 2).requires_grad_()
            ),
        )
    ],
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_refuses_what_pytorch_refuses(number: int, oracle: Any) -> None:
    with pytest.raises(Exception) as theirs:
        WRONG[number](oracle)
    with pytest.raises(theirs.type):
        WRONG[number](flambeau)


def test_shapes_on_the_meta_device() -> None:
    x, weight = flambeau.empty(3, 64, device="meta"), flambeau.empty(16, 64, dtype=flambeau.int32, device="meta")
    packed = flambeau._convert_weight_to_int4pack_for_cpu(weight, 1)
    assert packed.shape == (16, 32) and packed.dtype is flambeau.uint8 and packed.is_meta
    assert flambeau._weight_int4pack_mm_for_cpu(x, packed, 32, flambeau.empty(2, 16, 2, device="meta")).shape == (3, 16)
    assert flambeau._weight_int8pack_mm(x, weight.to(flambeau.int8), flambeau.empty(16, device="meta")).shape == (3, 16)


def test_too_few_groups_of_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 groups"):
        by_halves(flambeau, 1, 64, 16, 32) if len(SCALES) < 2 else flambeau._weight_int4pack_mm_for_cpu(
            flambeau.ones(1, 64), flambeau.ones(16, 32).to(flambeau.uint8), 32, flambeau.ones(1, 16, 2)
        )


# -- quantized layers --------------------------------------------------------------------------------------------------------------------
def weight(torch: Any, n: int, k: int, by_channel: bool, shifted: bool) -> Any:
    numbers = torch.tensor(NUMBERS[:n, :k].copy())
    points = torch.tensor((np.arange(n) % 5 - 2) * shifted)
    if by_channel:
        return torch.quantize_per_channel(numbers, torch.tensor(SCALES[0, :n, 0] * 0.05 + 0.001), points, 0, torch.qint8)
    return torch.quantize_per_tensor(numbers, 0.03, int(points[0]), torch.qint8)


def packed(torch: Any, n: int = 6, k: int = 5, by_channel: bool = False, shifted: bool = False, bias: bool = True) -> Any:
    added = torch.tensor(NUMBERS[50, :n] * 3) if bias else None
    return torch.ops.quantized.linear_prepack(weight(torch, n, k, by_channel, shifted), added)


def layers(torch: Any, size: tuple[int, int, int], factor: float, kind: tuple[bool, bool, bool], special: Any = None) -> list[Any]:
    """Results of all linear layers for one input."""
    (m, k, n), (by_channel, shifted, bias) = size, kind
    numbers = (NUMBERS[:m, -k:] * np.float32(factor)).copy()
    if special is not None:
        numbers[-1, 0] = special
    x, layer, quantized = torch.tensor(numbers), packed(torch, n, k, by_channel, shifted, bias), torch.ops.quantized
    q = torch.quantize_per_tensor(x, 0.02 * factor, 93, torch.quint8)
    results = [run(x, layer, small) for run in (quantized.linear_dynamic, quantized.linear_relu_dynamic) for small in (False, True)]
    integers = [run(q, layer, 0.4, 11) for run in (quantized.linear, quantized.linear_relu)]
    assert all(made.q_scale() == 0.4 and made.q_zero_point() == 11 and made.dtype is torch.quint8 for made in integers)
    return [np.asarray(result) for result in results] + [np.asarray(made.int_repr()) for made in integers]


@pytest.mark.oracle
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e-7, 100.0])
@pytest.mark.parametrize("small", [False, True], ids=["", "kernels"])
def test_layers_have_pytorchs_bits(factor: float, small: bool, oracle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(native.Choice, "pays", lambda self, arrays: True)
    for size in ((1, 7, 3), (3, 64, 50), (17, 33, 20), (50, 197, 70)):
        for kind in ((False, False, True), (True, False, True), (True, True, False), (False, True, True)):
            for ours, theirs in zip(layers(flambeau, size, factor, kind), layers(oracle, size, factor, kind), strict=True):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("small", [False, True], ids=["", "kernels"])
def test_biases_are_added_to_bytes_as_in_pytorch(small: bool, oracle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps, where the last bit of a bias counts."""
    if small:
        monkeypatch.setattr(native.Choice, "pays", lambda self, arrays: True)
    for seed in range(12):
        random, found = np.random.default_rng(seed), []
        x, numbers = random.integers(0, 256, (300, 3)).astype(np.uint8), random.integers(-128, 128, (64, 3)).astype(np.int8)
        scale, step, out = (float(each) for each in random.choice([0.01, 0.03, 0.05, 0.1, 0.3, 0.7, 0.9, 1.0], 3))
        bias = (random.integers(-500, 500, 64) * 0.25).astype(np.float32)
        for torch in (flambeau, oracle):
            rows = torch.full((64,), scale, dtype=torch.float64), torch.zeros(64, dtype=torch.int64)
            whole = torch._make_per_tensor_quantized_tensor(torch.tensor(numbers), scale, 0)
            q = torch._make_per_tensor_quantized_tensor(torch.tensor(x), step, 100)
            for weights in (whole, torch._make_per_channel_quantized_tensor(torch.tensor(numbers), *rows, 0)):
                layer = torch.ops.quantized.linear_prepack(weights, torch.tensor(bias))
                found.append(np.asarray(torch.ops.quantized.linear(q, layer, out * 10, 99).int_repr()))
        np.testing.assert_array_equal(found[:2], found[2:])


@pytest.mark.oracle
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("small", [False, True], ids=["", "kernels"])
def test_numbers_that_are_not_finite_as_in_pytorch(special: float, small: bool, oracle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(native.Choice, "pays", lambda self, arrays: True)
    sides = [layers(torch, (5, 20, 8), 1.0, (True, False, True), special) for torch in (flambeau, oracle)]
    for ours, theirs in zip(*(side[:4] for side in sides), strict=True):
        np.testing.assert_array_equal(ours, theirs)


LAYER_ERRORS = [
    lambda torch: torch.ops.quantized.linear_prepack(torch.ones(2, 3)),
    lambda torch: torch.ops.quantized.linear_prepack(weight(torch, 6, 5, False, False)[0]),
    lambda torch: torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8)),
    lambda torch: torch.ops.quantized.linear_prepack(weight(torch, 6, 5, False, False), torch.ones(5)),
    lambda torch: torch.ops.quantized.linear_prepack(weight(torch, 6, 5, False, False), torch.ones(1, 6)),
    lambda torch: torch.ops.quantized.linear_prepack(weight(torch, 6, 5, False, False), torch.ones(6, device="meta")),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(5), packed(torch)),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(2, 4), packed(torch)),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(2, 5).double(), packed(torch)),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.full((2, 5), float("nan")), packed(torch)),
    lambda torch: torch.ops.quantized.linear_dynamic(weight(torch, 6, 5, False, False), packed(torch)),
    lambda torch: torch.ops.quantized.linear(torch.ones(2, 5), packed(torch), 0.1, 0),
    lambda torch: torch.ops.quantized.linear(weight(torch, 6, 5, False, False), packed(torch), 0.1, 0),
    lambda torch: torch.ops.quantized.linear(torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.quint8), 3, 0.1, 0),
    lambda torch: torch.ops.quantized.linear_unpack(3),
    lambda torch: torch.ops.quantized.linear_dynamic(),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(2, 5)),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(2, 5), packed(torch), False, 3),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(2, 5), packed(torch), no_such=3),
    lambda torch: torch.ops.quantized.linear(torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.quint8), packed(torch), 0.1),
    lambda torch: torch.ops.quantized.linear(torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.quint8), packed(torch), 0.1, 1.5),
    lambda torch: torch.ops.quantized.linear(torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.quint8), packed(torch), "a", 1),
    lambda torch: torch.ops.quantized.linear_dynamic(torch.ones(2, 5), packed(torch), "yes"),
    lambda torch: torch.ops.quantized.linear_dynamic(
        torch.ones(2, 5), torch.ops.quantized.linear_prepack(weight(torch, 6, 5, False, False), torch.ones(6).double())
    ),
]


@pytest.mark.oracle
@pytest.mark.parametrize("number", range(len(LAYER_ERRORS)))
def test_layers_refuse_what_pytorch_refuses(number: int, oracle: Any) -> None:
    with pytest.raises(Exception) as theirs:
        LAYER_ERRORS[number](oracle)
    with pytest.raises(theirs.type):
        LAYER_ERRORS[number](flambeau)


@pytest.mark.oracle
@pytest.mark.parametrize("by_channel", [False, True])
def test_packed_weights_unpack_and_files_go_both_ways(by_channel: bool, oracle: Any) -> None:
    ours, theirs = (packed(torch, by_channel=by_channel) for torch in (flambeau, oracle))
    assert repr(ours.unpack()) == repr(theirs.unpack()) and str(ours) == str(theirs) and repr(ours.bias()) == repr(theirs.bias())
    assert repr(flambeau.ops.quantized.linear_unpack(ours)) == repr(ours.unpack())
    for saver, loader, value in ((flambeau, oracle, ours), (oracle, flambeau, theirs), (flambeau, flambeau, ours)):
        file = io.BytesIO()
        saver.save({"packed": value}, file)
        file.seek(0)
        back = loader.load(file, weights_only=False)["packed"]
        assert isinstance(back, loader.ScriptObject) and repr(back.unpack()) == repr(theirs.unpack())
    for made in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), copy.copy(ours)):
        assert repr(made.unpack()) == repr(ours.unpack())


def test_operations_are_found_as_others_are() -> None:
    quantized = flambeau.ops.quantized
    assert str(quantized.linear_dynamic.default) == "quantized.linear_dynamic.default" and quantized.linear.overloads() == ["default"]
    schema = str(quantized.linear_dynamic.default._schema)
    assert schema.startswith("quantized::linear_dynamic(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack")
    x = flambeau.ones(2, 3, 5)
    assert quantized.linear_dynamic(X=x, W_prepack=packed(flambeau)).shape == (2, 3, 6)
    assert quantized.linear_dynamic(x[:0], packed(flambeau)).shape == (0, 3, 6)
    with pytest.raises(AttributeError):
        quantized.no_such_operation  # noqa: B018


@pytest.mark.oracle
def test_layers_leave_gradients_of_inputs_none_and_warn(oracle: Any) -> None:
    for torch in (flambeau, oracle):
        x, factor = torch.ones(2, 5, requires_grad=True), torch.ones(6, requires_grad=True)
        with pytest.warns(UserWarning, match="linear_dynamic" if torch is oracle else "no derivative"):
            (torch.ops.quantized.linear_dynamic(x, packed(torch)) * factor).sum().backward()
        assert x.grad is None and factor.grad.shape == (6,)


@pytest.mark.oracle
@pytest.mark.parametrize("n", [6, 32])
def test_what_is_written_to_a_bias_holds(n: int, oracle: Any) -> None:
    found = []
    for torch in (flambeau, oracle):
        bias = torch.arange(float(n))
        layer = torch.ops.quantized.linear_prepack(weight(torch, n, 5, False, False), bias)
        bias.mul_(3)
        q = torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.quint8)
        results = [torch.ops.quantized.linear_dynamic(torch.ones(2, 5), layer), torch.ops.quantized.linear(q, layer, 0.9, 1).int_repr()]
        found.append([layer.bias().tolist(), *[result.tolist() for result in results]])
    assert found[0] == found[1]


@pytest.mark.oracle
def test_arguments_by_name_as_pytorchs(oracle: Any) -> None:
    found = []
    for torch in (flambeau, oracle):
        quantized, q = torch.ops.quantized, torch.quantize_per_tensor(torch.ones(2, 5), 0.1, 0, torch.quint8)
        layer = quantized.linear_prepack(W=weight(torch, 6, 5, False, False), B=torch.nn.Parameter(torch.ones(6)))
        result = quantized.linear(X=q, W_prepack=layer, Y_scale_i=torch.tensor(0.5), Y_zero_point_i=3)
        found.append((result.int_repr().tolist(), result.q_scale(), torch.flatten(input=q).int_repr().tolist()))
    assert found[0] == found[1]


def test_layers_without_inputs_add_the_bias() -> None:
    quantized, bias = flambeau.ops.quantized, flambeau.arange(6.0)
    layer = quantized.linear_prepack(flambeau.quantize_per_tensor(flambeau.ones(6, 0), 0.1, 0, flambeau.qint8), bias)
    assert flambeau.equal(quantized.linear_dynamic(flambeau.ones(2, 0), layer), bias.expand(2, 6))
    q = flambeau.quantize_per_tensor(flambeau.ones(3, 2, 0), 0.1, 0, flambeau.quint8)
    assert flambeau.equal(quantized.linear(q, layer, 1.0, 2).int_repr()[2, 1], (bias + 2).to(flambeau.uint8))


@pytest.mark.parametrize("small", [False, True], ids=["", "kernels"])
def test_zero_points_beyond_all_bytes(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(native.Choice, "pays", lambda self, arrays: True)
    layer, q = packed(flambeau), flambeau.quantize_per_tensor(flambeau.ones(2, 5), 0.1, 0, flambeau.quint8)
    for point, wanted in ((300, 255), (1 << 31, 255), (1 << 40, 255), (-300, 0), (-(1 << 40), 0)):
        assert (flambeau.ops.quantized.linear(q, layer, 0.9, point).int_repr() == wanted).all()


@pytest.mark.oracle
def test_dynamic_scales_are_pytorchs(oracle: Any) -> None:
    for factor in (1.0, 1e-3, 1e-5, 1e-12, 0.0, 1e30):
        for ends in ((1.0, 2.0, 3.0, -1.0), (-4.0, -3.0, -2.0, -6.0), (2.0, 7.0)):
            for dtype in ("quint8", "qint8"):
                for small in (False, True):
                    found = [
                        torch.quantize_per_tensor_dynamic(torch.tensor(ends) * factor, getattr(torch, dtype), small)
                        for torch in (flambeau, oracle)
                    ]
                    ours, theirs = ((q.q_scale(), q.q_zero_point(), q.int_repr().tolist()) for q in found)
                    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32"])
def test_integers_between_two_steps_are_rounded_as_in_pytorch(dtype: str, oracle: Any) -> None:
    for number in range(60):
        scale, point = (number * 7 % 399 + 1) / 255, number % 120
        numbers = (np.arange(-90, 90) * np.float32(scale) * np.float32(0.5)).astype(np.float32)
        for torch in (flambeau, oracle):
            x = torch.tensor(numbers)
            whole = torch.quantize_per_tensor(x, scale, point, getattr(torch, dtype))
            rows = torch.quantize_per_channel(x[None], torch.tensor([scale]), torch.tensor([point]), 0, getattr(torch, dtype))
            found = whole.int_repr().tolist(), rows.int_repr().tolist()
            wanted = found if torch is flambeau else wanted  # noqa: F821
            assert found == wanted


def test_packed_weights_are_constants_of_traced_programs() -> None:
    layer, quantized, x = packed(flambeau), flambeau.ops.quantized, flambeau.ones(2, 5)
    traced = flambeau.fx.symbolic_trace(lambda x: quantized.linear_relu_dynamic(x, layer) + quantized.linear_dynamic(x, layer))
    assert [node.target for node in traced.graph.nodes if node.op == "get_attr"] == ["_torchbind_obj0"] * 2
    assert flambeau.equal(traced(x), quantized.linear_relu_dynamic(x, layer) + quantized.linear_dynamic(x, layer))
    compiled = flambeau.compile(lambda x: quantized.linear_dynamic(x, layer) * 2)
    assert flambeau.equal(compiled(x), quantized.linear_dynamic(x, layer) * 2) and flambeau.equal(compiled(x), compiled(x))
