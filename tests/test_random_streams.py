"""Random numbers are PyTorch's: the same seed and the same calls give the same bits and leave the same state.

The golden values were recorded from PyTorch 2.13.0 on an x86 CPU that is not Intel's (there two kernels use MKL's own streams), so
these tests need no PyTorch; the ones that take ``oracle`` compare with the installed one.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
import subprocess
import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

from flambeau.core import dtype as dtypes
from flambeau.core.random import box_muller, generator as generators, rejection, samplers
from flambeau.core.random.generator import Generator
from flambeau.core.tensor import Tensor, wrap
from flambeau.ops import conversion, creation, inplace, random  # noqa: F401 (families whose methods are used)

dropout = import_module("flambeau.ops.dropout")  # the family; the package's attribute is the operation
SIZES = (0, 1, 15, 16, 17, 31, 1000, 100003)
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "bool")

# name/dtype: (first digits of the SHA-256 of 1003 numbers after seed 5, position in the state's block afterwards)
GOLDEN = {
    "uniform/float16": ("79ec77846d15280b", 379),
    "uniform_between/float16": ("e584315516dedc6c", 379),
    "normal/float16": ("cdc2ae437d59a999", 384),
    "normal_scaled/float16": ("c6efc287e22d1004", 384),
    "uniform/bfloat16": ("d1fea453ef985b71", 379),
    "uniform_between/bfloat16": ("ecab5e61f5278389", 379),
    "normal/bfloat16": ("19b844a41919722e", 384),
    "normal_scaled/bfloat16": ("7d1d18826046b2bb", 384),
    "uniform/float32": ("1101481b8de7e49f", 379),
    "uniform_between/float32": ("0b438f233889abe3", 379),
    "normal/float32": ("b19682e2c562b541", 395),
    "normal_scaled/float32": ("7bbc86fa67a73fe3", 395),
    "uniform/float64": ("d859ecc73653f4f2", 134),
    "uniform_between/float64": ("2b26e345de8d9a17", 134),
    "random/uint8": ("ea98c5e5cc7a4796", 379),
    "random/int16": ("445ad5f094e0f63d", 379),
    "random/int32": ("97238f5c5ae3806c", 379),
    "random/int64": ("6bbe7f605e4a63d8", 134),
    "random/float32": ("19e78139c907dd8e", 379),
    "random/float64": ("348cd2d22cf7dcb3", 134),
    "random/bool": ("d51edf8e004bade2", 379),
    "random/bfloat16": ("976b6b325f2cc4c5", 379),
    "below_100/int64": ("05f94b0abacbe3e6", 379),
    "below_100/uint8": ("f6ce28d8088df538", 379),
    "below_100/float16": ("3ac0cfd769047748", 379),
    "wide_range/int64": ("dd82d8e908de9bed", 134),
    "transposed/float32": ("d69fc4fe4d4614a2", 379),
    "permutation/int64": ("4f15b666a7fbbf13", 378),
    "bernoulli/float32": ("b0fe9b327142f751", 134),
    "bernoulli_each/float32": ("cf1511bb6915f209", 379),
    "categories/int64": ("26e502eb0aa23979", 134),
}

# first numbers after seed 5, of distributions that use the C library's logarithms and so may differ in the last bit elsewhere
GOLDEN_NUMBERS = {
    "normal_float64": [0.8235713931461853, 0.009228908309274562, 0.7631504315434021, 0.8166228687367919],
    "few_normal": [-0.4867807626724243, -0.6038215756416321, -0.5580962300300598, 0.6675242781639099, -0.19741509854793549],
    "normal_with_steps": [-0.4867807626724243, -0.6038215756416321, -0.5580962300300598, 0.6675242781639099],
    "exponential": [0.5136321187019348, 0.15038900077342987, 0.22379054129123688, 0.18926502764225006],
    "geometric": [2.0, 7.0, 5.0, 6.0],
    "log_normal": [1.0267910957336426, 0.8124969005584717, 0.8903038501739502, 10.329961776733398],
    "cauchy": [1.956639051437378, -0.8809894323348999, 0.06521523743867874, -0.3125620484352112],
    "poisson": [1.0, 2.0, 25.0, 1021.0],
    "binomial": [3.0, 27.0, 89.0, 0.0],
    "gamma": [0.14163032174110413, 1.7731961011886597, 4.160566329956055, 42.57977294921875],
    "without_replacement": [4, 3, 6, 2],
}


def filled(fill: Any, generator: Generator, shape: Any, name: str, *args: Any) -> np.ndarray:
    array = np.zeros(shape, dtypes.ALL[name].numpy)
    fill(generator, array, *args)
    return array


def golden_array(case: str, g: Generator) -> np.ndarray:
    what, _, name = case.partition("/")
    n = 1003
    table = {
        "uniform": lambda: filled(samplers.fill_uniform, g, n, name),
        "uniform_between": lambda: filled(samplers.fill_uniform, g, n, name, -0.3, 1.7),
        "normal": lambda: filled(samplers.fill_normal, g, n, name),
        "normal_scaled": lambda: filled(samplers.fill_normal, g, n, name, 0.3, 1.7),
        "random": lambda: filled(samplers.fill_random, g, n, name),
        "below_100": lambda: filled(samplers.fill_random_range, g, n, name, 0, 100),
        "wide_range": lambda: filled(samplers.fill_random_range, g, n, name, -(2**40), 2**50),
        "permutation": lambda: samplers.randperm(g, n),
        "bernoulli": lambda: filled(samplers.fill_bernoulli, g, n, name, 0.3),
        "categories": lambda: samplers.multinomial(g, np.arange(1, 51, dtype=np.float32), n, True),
    }
    if what == "transposed":
        array = np.empty((17, 59), np.float32)
        samplers.fill_uniform(g, array.T)
        return np.ascontiguousarray(array.T)
    if what == "bernoulli_each":
        array = np.empty(n, np.float32)
        samplers.fill_bernoulli_each(g, array, np.linspace(0, 1, n).astype(np.float32))
        return array
    return table[what]()


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_bits_and_position(case: str) -> None:
    g = Generator().manual_seed(5)
    array = golden_array(case, g)
    digest, position = GOLDEN[case]
    assert int(g.state_bytes()[16:24].view("<u8")[0]) == position
    assert hashlib.sha256(array.tobytes()).hexdigest()[:16] == digest


def golden_numbers(case: str, g: Generator) -> np.ndarray:
    float32 = np.float32
    table = {
        "normal_float64": lambda: filled(samplers.fill_normal, g, 17, "float64")[:4],
        "few_normal": lambda: filled(samplers.fill_normal, g, 5, "float32"),
        "exponential": lambda: filled(samplers.fill_exponential, g, 4, "float32", 2.0),
        "geometric": lambda: filled(samplers.fill_geometric, g, 4, "float32", 0.2),
        "log_normal": lambda: filled(samplers.fill_log_normal, g, 4, "float32"),
        "cauchy": lambda: filled(samplers.fill_cauchy, g, 4, "float32", 1, 2),
        "poisson": lambda: rejection.poisson(g, np.array([0.5, 3, 20, 1000], float32)),
        "binomial": lambda: rejection.binomial(g, np.array([5, 100, 100, 9], float32), np.array([0.5, 0.3, 0.9, 0.01], float32)),
        "gamma": lambda: rejection.standard_gamma(g, np.array([0.5, 1, 3, 50], float32)),
        "without_replacement": lambda: samplers.multinomial(g, np.arange(1, 9, dtype=float32), 4),
    }
    if case == "normal_with_steps":
        array = np.zeros(40, float32)
        samplers.fill_normal(g, array[::2])
        return array[:8:2]
    return table[case]()


@pytest.mark.parametrize("case", GOLDEN_NUMBERS)
def test_golden_numbers(case: str) -> None:
    drawn = golden_numbers(case, Generator().manual_seed(5))
    np.testing.assert_allclose(drawn, GOLDEN_NUMBERS[case], rtol=3e-7 if drawn.dtype == np.float32 else 1e-15)


def test_documented_first_row() -> None:
    generators.manual_seed(5)
    assert np.round(random.rand(3, 4)._array[0], 4).tolist() == pytest.approx([0.8303, 0.1261, 0.9075, 0.8199], abs=1e-6)


# ---- the generator


def test_default_seed_and_signs() -> None:
    g = Generator()
    assert g.initial_seed() == 67280421310721
    assert g.manual_seed(-1) is g and g.initial_seed() == 2**64 - 1
    assert str(g.device) == "cpu"


@pytest.mark.parametrize("seed", (2**64, -(2**63) - 1))
def test_seed_out_of_range_is_value_error(seed: int) -> None:
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        generators.manual_seed(seed)


@pytest.mark.parametrize("seed", (3.7, "a", True, None))
def test_generator_takes_only_integers(seed: Any) -> None:
    with pytest.raises(RuntimeError, match="manual_seed expected a long"):
        Generator().manual_seed(seed)


def test_module_manual_seed_converts() -> None:
    assert generators.manual_seed(3.7) is generators.default_generator
    assert generators.initial_seed() == 3
    with pytest.raises(ValueError, match="invalid literal"):
        generators.manual_seed("a")


def test_seed_is_not_deterministic() -> None:
    g = Generator()
    assert g.seed() != g.seed()
    assert generators.seed() == generators.initial_seed()


@pytest.mark.parametrize("draw", (0, 1, 623, 624, 625, 2000))
def test_state_round_trip(draw: int) -> None:
    g = Generator().manual_seed(9)
    g.words(draw)
    samplers.scalar_normals(g, 3)
    other = Generator()
    other.load_state_bytes(g.state_bytes())
    assert (other.state_bytes() == g.state_bytes()).all()
    assert (other.floats(1000) == g.floats(1000)).all()
    assert (samplers.scalar_normals(other, 3) == samplers.scalar_normals(g, 3)).all()


@pytest.mark.parametrize("duplicate", (copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), Generator.clone_state))
def test_copies_continue_on_their_own(duplicate: Any) -> None:
    g = Generator().manual_seed(9)
    g.floats(10)
    twin = duplicate(g)
    ahead = g.floats(1000)
    assert twin.initial_seed() == 9
    assert (twin.floats(1000) == ahead).all()


def test_wrong_states_are_refused() -> None:
    g = Generator()
    with pytest.raises(RuntimeError, match="size 5056"):
        g.load_state_bytes(np.zeros(10, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        g.load_state_bytes(np.zeros(5056, np.uint8))
    with pytest.raises(TypeError, match=r"expected a torch\.ByteTensor"):
        g.set_state(np.zeros(5056, np.uint8))
    with pytest.raises(TypeError, match=r"must be a torch\.ByteTensor"):
        g.set_state(wrap(np.zeros(5056, np.float32)))


def test_pieces_equal_one_draw() -> None:
    whole = Generator().manual_seed(1).floats(5000)
    g = Generator().manual_seed(1)
    pieces = [g.floats(n) for n in (0, 1, 600, 23, 624, 1, 1248, 2000, 503)]
    assert (np.concatenate(pieces) == whole).all()
    assert all(piece.dtype == np.float32 for piece in pieces)


def test_returned_numbers_are_not_shared() -> None:
    g = Generator().manual_seed(1)
    g.floats(5)[...] = 7
    ahead = g.floats(5)
    expected = Generator().manual_seed(1).floats(10)
    assert (ahead == expected[5:]).all()


def test_each_double_keeps_the_position() -> None:
    g, other = Generator().manual_seed(2), Generator().manual_seed(2)
    g.words(1), other.words(1)  # an odd position: pairs straddle blocks
    uniforms = g.each_double()
    drawn = [next(uniforms) for _ in range(700)]
    assert drawn == other.doubles(700).tolist()
    assert (g.state_bytes() == other.state_bytes()).all()


def test_threads_do_not_break_the_state() -> None:
    g = Generator().manual_seed(3)
    workers = [threading.Thread(target=lambda: [g.floats(700) for _ in range(50)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    other = Generator()
    other.load_state_bytes(g.state_bytes())
    assert (other.floats(2000) == g.floats(2000)).all()


def test_import_is_cheap_and_leaves_numpy_alone() -> None:
    code = (
        "import sys, flambeau.core.random.generator, flambeau.core.random.samplers as s\n"
        "assert 'numpy.random' not in sys.modules\n"
        "import numpy as np\n"
        "np.random.seed(4); before = np.random.get_state()[1].tolist()\n"
        "s.randn(flambeau.core.random.generator.default_generator, (100,))\n"
        "assert np.random.get_state()[1].tolist() == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- exactness of the arithmetic


def fused_exactly(a: np.ndarray, b: float, c: float, to: type) -> np.ndarray:
    from fractions import Fraction

    if to is np.float64:
        return np.array([float(Fraction(x) * Fraction(b) + Fraction(c)) for x in a.tolist()])
    return np.array([round_to_float32(Fraction(x) * Fraction(b) + Fraction(c)) for x in a.tolist()], np.float32)


def round_to_float32(value: Any) -> float:
    """Correct rounding from an exact value: the nearest of three neighbours, ties to even."""
    from fractions import Fraction

    near = np.float32(float(value))
    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return float(min(candidates, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.int32)) & 1)))


def test_fused_float32_rounds_once() -> None:
    a = Generator().manual_seed(1).floats(2000)
    assert (
        box_muller.fused_float32(a, np.float32(1.7), np.float32(0.3))
        == fused_exactly(a, float(np.float32(1.7)), float(np.float32(0.3)), np.float32)
    ).all()


def test_fused_float32_looks_behind_a_middle() -> None:
    # 1 + 2**-24 is a middle; the lost 2**-60 decides the direction
    a = np.array([2.0**-30, -(2.0**-30)], np.float32)
    total = np.float64(1 + 2.0**-24)
    result = box_muller.fused_float32(a, 2.0**-30, total)
    assert result.tolist() == [1 + 2.0**-23, 1.0]


@pytest.mark.parametrize(("b", "c"), ((1.7, 0.3), (-3e-9, 1.0), (0.02, 0.0), (1.0, 5.0), (1e10, 1e-10)))
def test_fused_float64_rounds_once(b: float, c: float) -> None:
    a = Generator().manual_seed(1).doubles(2000) - 0.5
    assert (box_muller.fused_float64(a, b, c) == fused_exactly(a, b, c, np.float64)).all()


def test_normals_are_normal() -> None:
    values = samplers.randn(Generator().manual_seed(0), (200_000,))
    assert abs(values.mean()) < 0.01 and abs(values.std() - 1) < 0.01
    assert abs((values**3).mean()) < 0.03 and abs((values**4).mean() - 3) < 0.1


def test_no_negative_zero_among_normals() -> None:
    groups = np.zeros((1, 16), np.float32)
    groups[:, 8:] = 0.3  # radius 0: the logarithm of 1
    box_muller.standard_normal_float32(groups)
    assert (groups == 0).all()


# ---- order of filling


def test_filling_follows_memory() -> None:
    plain = samplers.rand(Generator().manual_seed(4), (6, 5, 4))
    base = np.zeros((6, 5, 4), np.float32)
    samplers.fill_uniform(Generator().manual_seed(4), base.transpose(2, 0, 1))
    assert (base == plain).all()
    sliced = np.zeros((6, 10, 4), np.float32)
    samplers.fill_uniform(Generator().manual_seed(4), sliced[:, ::2])
    assert (sliced[:, ::2] == plain).all() and not sliced[:, 1::2].any()


def test_memory_order_breaks_ties_by_the_next_array() -> None:
    first = np.broadcast_to(np.zeros(1), (3, 4))
    assert samplers.memory_order([first, np.zeros((4, 3)).T]) == [1, 0]
    assert samplers.memory_order([first]) == [0, 1]


# ---- comparison with PyTorch


def same_bits(array: np.ndarray, expected: Any) -> bool:
    torch = pytorch()

    if expected.dtype == torch.bfloat16:
        expected, array = expected.view(torch.int16), array.view(np.int16)
    expected = expected.detach().numpy()
    return array.shape == expected.shape and array.dtype == expected.dtype and array.tobytes() == expected.tobytes()


def layouts(n: int) -> dict[str, tuple[tuple[int, ...], Any, Any]]:
    """Shape of a buffer, and the view of it to fill, for arrays and for PyTorch's tensors."""
    same = lambda x: x  # noqa: E731
    return {
        "contiguous": ((n,), same, same),
        "steps": ((2 * n,), lambda a: a[::2], lambda t: t[::2]),
        "transposed": ((n, 3), lambda a: a.T, lambda t: t.t()),
        "permuted": ((2, n, 3), lambda a: a.transpose(2, 0, 1), lambda t: t.permute(2, 0, 1)),
    }


def is_mkl_machine(oracle: ModuleType) -> bool:
    """Whether PyTorch draws Bernoulli numbers from MKL here: then one word serves any number of them."""
    oracle.manual_seed(0)
    oracle.empty(100).bernoulli_(0.5)
    return int(oracle.get_rng_state()[16]) == 1


FILLS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "uniform": (lambda g, a: samplers.fill_uniform(g, a), lambda t: t.uniform_(), (*FLOATS, "complex64", "complex128")),
    "uniform_between": (lambda g, a: samplers.fill_uniform(g, a, -0.3, 1.7), lambda t: t.uniform_(-0.3, 1.7), FLOATS),
    "uniform_narrow": (lambda g, a: samplers.fill_uniform(g, a, 1, 1.0001), lambda t: t.uniform_(1, 1.0001), FLOATS),
    "normal": (lambda g, a: samplers.fill_normal(g, a), lambda t: t.normal_(), (*FLOATS, "complex64", "complex128")),
    "normal_scaled": (lambda g, a: samplers.fill_normal(g, a, 0.3, 1.7), lambda t: t.normal_(0.3, 1.7), (*FLOATS, "complex64")),
    "log_normal": (lambda g, a: samplers.fill_log_normal(g, a), lambda t: t.log_normal_(), FLOATS),
    "cauchy": (lambda g, a: samplers.fill_cauchy(g, a, 0.3, 1.7), lambda t: t.cauchy_(0.3, 1.7), FLOATS),
    "geometric": (lambda g, a: samplers.fill_geometric(g, a, 0.3), lambda t: t.geometric_(0.3), (*FLOATS, *INTEGERS[:-1])),
    "random": (lambda g, a: samplers.fill_random(g, a), lambda t: t.random_(), (*FLOATS, *INTEGERS)),
    "range": (lambda g, a: samplers.fill_random_range(g, a, 0, 100), lambda t: t.random_(0, 100), (*FLOATS, *INTEGERS[:-1], "uint16")),
    "wide_range": (
        lambda g, a: samplers.fill_random_range(g, a, -9, 2**40),
        lambda t: t.random_(-9, 2**40),
        ("int64", "float64"),
    ),
    "full_range": (
        lambda g, a: samplers.fill_random_range(g, a, -(2**63), None),
        lambda t: t.random_(-(2**63), None),
        ("int64", "float32"),
    ),
    "exponential": (lambda g, a: samplers.fill_exponential(g, a, 0.7), lambda t: t.exponential_(0.7), FLOATS),
    "bernoulli": (lambda g, a: samplers.fill_bernoulli(g, a, 0.3), lambda t: t.bernoulli_(0.3), (*FLOATS, *INTEGERS)),
}


@pytest.mark.parametrize("name", FILLS)
def test_fill_equals_pytorch(oracle: ModuleType, name: str) -> None:
    if name in ("exponential", "bernoulli") and is_mkl_machine(oracle):
        pytest.skip("PyTorch uses MKL's streams on this CPU")
    fill, expected_fill, names = FILLS[name]
    for dtype in names:
        for seed in (0, 2**40 + 3):
            g = Generator().manual_seed(seed)
            oracle.manual_seed(seed)
            for n in SIZES[:-1]:  # one stream through all sizes and layouts: interleaved calls
                for layout, (shape, view, expected_view) in layouts(n).items():
                    array = np.zeros(shape, dtypes.ALL[dtype].numpy)
                    expected = oracle.zeros(shape, dtype=getattr(oracle, dtype))
                    fill(g, view(array))
                    expected_fill(expected_view(expected))
                    assert same_bits(array, expected), (dtype, seed, n, layout)
                    assert (g.state_bytes() == oracle.get_rng_state().numpy()).all(), (dtype, seed, n, layout)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_tensors_equal_pytorch(oracle: ModuleType, dtype: str) -> None:
    for name in ("uniform_between", "normal_scaled"):
        fill, expected_fill, _ = FILLS[name]
        g = Generator().manual_seed(8)
        oracle.manual_seed(8)
        array, expected = np.zeros(SIZES[-1], dtypes.ALL[dtype].numpy), oracle.zeros(SIZES[-1], dtype=getattr(oracle, dtype))
        fill(g, array)
        expected_fill(expected)
        assert same_bits(array, expected)
        assert (g.state_bytes() == oracle.get_rng_state().numpy()).all()


def test_states_are_exchanged_with_pytorch(oracle: ModuleType) -> None:
    oracle.manual_seed(11)
    oracle.rand(1000), oracle.randn(3)
    g = Generator()
    g.load_state_bytes(oracle.get_rng_state().numpy())
    assert same_bits(samplers.randn(g, (5,)), oracle.randn(5))
    g.floats(777)
    oracle.set_rng_state(oracle.from_numpy(g.state_bytes().copy()))
    assert same_bits(samplers.rand(g, (2000,)), oracle.rand(2000))


@pytest.mark.parametrize("seed", (0, 1, -1, 2**32, 2**63, 2**64 - 1))
def test_seeds_equal_pytorch(oracle: ModuleType, seed: int) -> None:
    g = Generator().manual_seed(seed)
    oracle.manual_seed(seed)
    assert g.initial_seed() == oracle.initial_seed() % 2**64
    assert same_bits(g.floats(700), oracle.rand(700))


@pytest.mark.parametrize("n", (0, 1, 2, 3, 10, 1000, 60000))
def test_permutation_equals_pytorch(oracle: ModuleType, n: int) -> None:
    g = Generator().manual_seed(n)
    oracle.manual_seed(n)
    assert same_bits(samplers.randperm(g, n), oracle.randperm(n))
    assert (g.state_bytes() == oracle.get_rng_state().numpy()).all()


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("replacement", (False, True))
def test_multinomial_equals_pytorch(oracle: ModuleType, dtype: str, replacement: bool) -> None:
    if is_mkl_machine(oracle):
        pytest.skip("PyTorch uses MKL's streams on this CPU")
    weights = Generator().manual_seed(1).doubles(4 * 100).reshape(4, 100).astype(dtype)
    g = Generator().manual_seed(3)
    oracle.manual_seed(3)
    for rows in (weights, weights[0], weights.T.copy().T, weights[:, :1]):
        for count in (1, 5) if rows.shape[-1] > 1 or replacement else (1,):
            expected = oracle.multinomial(oracle.from_numpy(rows), count, replacement)
            assert same_bits(samplers.multinomial(g, rows, count, replacement), expected)
    assert (g.state_bytes() == oracle.get_rng_state().numpy()).all()


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_rejection_samplers_equal_pytorch(oracle: ModuleType, dtype: str) -> None:
    of = getattr(oracle, dtype)
    g = Generator().manual_seed(3)
    oracle.manual_seed(3)
    for rate in (0.0, 0.1, 3.0, 9.99, 10.0, 50.0, 1e6):
        rates = oracle.full((500,), rate, dtype=of)
        assert same_bits(rejection.poisson(g, rates.numpy()), oracle.poisson(rates))
    for trials, chance in ((5, 0.3), (100, 0.5), (100, 0.9), (1000, 0.01), (0, 0.5), (5, 0), (5, 1)):
        count, prob = oracle.full((500,), float(trials), dtype=of), oracle.full((500,), float(chance), dtype=of)
        assert same_bits(rejection.binomial(g, count.numpy(), prob.numpy()), oracle.binomial(count, prob))
    for alpha in (0.0, 0.01, 0.5, 1.0, 2.5, 1e4):
        shapes = oracle.full((501,), alpha, dtype=of)
        assert same_bits(rejection.standard_gamma(g, shapes.numpy()), oracle._standard_gamma(shapes))
    concentration = oracle.full((50, 5), 0.7, dtype=of)
    drawn, expected = rejection.dirichlet(g, concentration.numpy()), oracle._sample_dirichlet(concentration).numpy()
    np.testing.assert_allclose(drawn, expected, rtol=4 * np.finfo(drawn.dtype).eps)  # the sum's order differs
    assert (g.state_bytes() == oracle.get_rng_state().numpy()).all()


# ---- functions and methods


def tensor(array: Any) -> Tensor:
    return wrap(np.array(array, np.float32))


def test_kept_normal_is_dropped_by_seeding() -> None:
    random.manual_seed(5)
    first = random.randn(3)._array
    random.manual_seed(5)
    assert (random.randn(3)._array == first).all()
    assert (random.randn(2)._array == np.float32(GOLDEN_NUMBERS["few_normal"][3:])).all()


def test_rng_state_functions_and_fork() -> None:
    random.manual_seed(1)
    state = random.get_rng_state()
    assert state.dtype is dtypes.uint8 and state._array.shape == (5056,)
    first = random.rand(10)._array
    random.set_rng_state(state)
    with random.fork_rng():
        assert (random.rand(10)._array == first).all()
    assert (random.rand(10)._array == first).all()


def test_own_generator_leaves_the_default_alone() -> None:
    random.manual_seed(1)
    before = generators.default_generator.state_bytes()
    g = Generator().manual_seed(5)
    random.rand(3, generator=g), random.randperm(5, generator=g), tensor([0.5]).bernoulli_(generator=g)
    assert (generators.default_generator.state_bytes() == before).all()


@pytest.mark.parametrize(
    ("call", "error"),
    (
        (lambda: random.rand(2, -1), RuntimeError),
        (lambda: random.rand(2.5), TypeError),
        (lambda: random.rand(), TypeError),
        (lambda: random.rand(2, dtype=dtypes.int64), NotImplementedError),
        (lambda: random.rand(2, generator=3), TypeError),
        (lambda: random.randint(5, 5, (2,)), RuntimeError),
        (lambda: random.randint(0, 300, (2,), dtype=dtypes.uint8), RuntimeError),
        (lambda: random.randint(0, 2**63, (2,)), ValueError),
        (lambda: random.randint(5), TypeError),
        (lambda: random.randint(0, 5, (2,), requires_grad=True), RuntimeError),
        (lambda: random.randperm(-1), RuntimeError),
        (lambda: random.randperm(5, dtype=dtypes.bool_), NotImplementedError),
        (lambda: random.randperm(3000, dtype=dtypes.float16), RuntimeError),
        (lambda: random.normal(0, 1), TypeError),
        (lambda: random.normal(tensor([0.0]), -1.0), RuntimeError),
        (lambda: random.bernoulli(tensor([2.0])), RuntimeError),
        (lambda: random.multinomial(tensor([0.0, 0.0]), 1), RuntimeError),
        (lambda: random.multinomial(tensor([1.0, 1.0]), 3), RuntimeError),
        (lambda: random.poisson(tensor([-1.0])), RuntimeError),
        (lambda: tensor([1.0]).uniform_(1, 0), RuntimeError),
        (lambda: tensor([1.0]).requires_grad_().uniform_(), RuntimeError),
        (lambda: tensor([1.0]).exponential_(0), RuntimeError),
        (lambda: tensor([1.0]).geometric_(1), RuntimeError),
        (lambda: tensor([1.0]).random_(2.5), TypeError),
        (lambda: dropout.dropout(tensor([1.0]), 1.5, True), RuntimeError),
        (lambda: dropout.feature_dropout(tensor([1.0]), 0.5, True), RuntimeError),
    ),
)
def test_mistakes_are_errors(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_out_is_filled_in_place() -> None:
    out = wrap(np.zeros((2, 3), np.float32))
    random.manual_seed(5)
    assert random.rand(2, 3, out=out) is out
    random.manual_seed(5)
    assert (out._array == random.rand(2, 3)._array).all()
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        random.rand(2, 3, out=out, dtype=dtypes.float64)


def test_like_keeps_memory_order() -> None:
    base = wrap(np.zeros((4, 6), np.float32).T)
    random.manual_seed(2)
    made_like = random.rand_like(base)._array
    random.manual_seed(2)
    assert made_like.T.flags.c_contiguous
    assert (made_like.T == random.rand(4, 6)._array).all()


def test_random_inputs_get_zero_gradients() -> None:
    leaf = tensor([0.5, 0.5, 0.5]).requires_grad_()
    for call, name in (
        (lambda x: random.bernoulli(x), "BernoulliBackward0"),
        (lambda x: random.poisson(x), "PoissonBackward0"),
        (lambda x: conversion.clone(x).uniform_(), "UniformBackward0"),
        (lambda x: conversion.clone(x).normal_(), "NormalBackward0"),
    ):
        result = call(leaf)
        assert result.requires_grad and type(result.grad_fn).__name__ == name
        (gradient,) = result.grad_fn.apply(tensor([1.0, 2.0, 3.0]))
        assert not gradient._array.any() and gradient._array.shape == (3,)


def test_dropout_keeps_or_scales() -> None:
    x = wrap(np.full(10000, 3, np.float32))
    random.manual_seed(0)
    result = dropout.dropout(x, 0.25, True)._array
    assert set(np.unique(result).tolist()) == {0.0, 4.0}
    assert abs((result == 0).mean() - 0.25) < 0.02
    assert dropout.dropout(x, 0.25, False) is x and dropout.dropout(x, 0.0, True) is x
    assert not dropout.dropout(x, 1.0, True)._array.any()


def test_feature_dropout_zeroes_whole_channels() -> None:
    random.manual_seed(0)
    result = dropout.feature_dropout(wrap(np.ones((4, 50, 3, 3), np.float32)), 0.5, True)._array
    channels = result.reshape(200, 9)
    assert ((channels == 0).all(1) | (channels == 2).all(1)).all()
    assert 60 < (channels == 0).all(1).sum() < 140


@pytest.mark.parametrize("name", ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_equals_pytorch(oracle: ModuleType, name: str, dtype: str) -> None:
    if is_mkl_machine(oracle):
        pytest.skip("PyTorch uses MKL's streams on this CPU")
    array = np.linspace(-1, 1, 4 * 5 * 6).reshape(4, 5, 6).astype(np.float32).astype(dtypes.ALL[dtype].numpy)
    values = oracle.from_numpy(array.astype(np.float32)).to(getattr(oracle, dtype)) if dtype == "bfloat16" else oracle.from_numpy(array)
    for p in (0.1, 0.5, 0.9):
        oracle.manual_seed(7)
        random.manual_seed(7)
        expected = getattr(oracle, name)(values, p, True)
        result = getattr(dropout, name)(wrap(array.copy()), p, True)
        assert same_bits(result._array, expected)
        assert (random.get_rng_state()._array == oracle.get_rng_state().numpy()).all()


@pytest.mark.parametrize("mean", (0.5, [0.1, 0.2, 0.3]))
@pytest.mark.parametrize("std", (2.0, [1.0, 2.0, 3.0], [[1.0], [2.0]]))
def test_normal_of_tensors_equals_pytorch(oracle: ModuleType, mean: Any, std: Any) -> None:
    if isinstance(mean, float) and isinstance(std, float):
        oracle.manual_seed(7)
        random.manual_seed(7)
        assert same_bits(random.normal(mean, std, (20,))._array, oracle.normal(mean, std, (20,)))
        return
    oracle.manual_seed(7)
    random.manual_seed(7)
    expected = oracle.normal(*(x if isinstance(x, float) else oracle.tensor(x) for x in (mean, std)))
    drawn = random.normal(*(x if isinstance(x, float) else tensor(x) for x in (mean, std)))
    assert same_bits(drawn._array, expected)
