"""Initialisation: the same seed gives PyTorch's numbers, and leaves the generator in the same state."""

from __future__ import annotations

import math

import pytest

import flambeau
from flambeau import nn

SHAPES = [(3, 4), (20, 5), (5, 20), (2, 3, 4, 5), (3,), (0, 3)]
RANDOM = [
    "uniform_",
    "normal_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
]
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def filled(torch, name, shape, *args, dtype="float32", own_generator=False, **options):
    """The outcome of an initialisation, with the next random number after it."""
    import warnings

    generator = torch.Generator().manual_seed(3) if own_generator else None
    if own_generator:
        options["generator"] = generator
    tensor = torch.full(shape, 7.0, dtype=getattr(torch, dtype))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = getattr(torch.nn.init, name)(tensor, *args, **options)
    after = torch.rand(2, generator=generator)
    return [result is tensor, result, after, [[w.category.__name__, str(w.message)] for w in caught]]


@pytest.mark.parametrize("own_generator", [False, True], ids=["default", "own"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RANDOM)
def test_random_fillings_follow_pytorchs_stream(same, name, dtype, own_generator):
    same(lambda torch: [lambda shape=shape: filled(torch, name, shape, dtype=dtype, own_generator=own_generator) for shape in SHAPES])


@pytest.mark.parametrize("dtype", DTYPES)
def test_truncated_normals_outside_the_bulk(same, dtype):
    cases = [((50,), 5.0, 0.1, -1, 1), ((50,), 0.5, 0.02), ((500,), 0.0, 2.0, -1, 3), ((300,), 0.0, 1.0, 1.0, 2.0)]
    same(lambda torch: [lambda case=case: filled(torch, "trunc_normal_", *case, dtype=dtype) for case in cases])


def test_arguments_of_scaled_fillings(same):
    calls = [
        ("xavier_uniform_", (4, 6), 2.0),
        ("xavier_normal_", (4, 6), 0.5),
        ("kaiming_uniform_", (4, 6), 0.2, "fan_out"),
        ("kaiming_normal_", (4, 6, 3), 0, "FAN_OUT", "relu"),
        ("kaiming_normal_", (4, 6), 0, "fan_in", "tanh"),
        ("kaiming_normal_", (4, 6), 0, "sideways"),
        ("kaiming_normal_", (4, 6), 0, "fan_in", "unknown"),
        ("uniform_", (5,), -2.0, 3.0),
        ("normal_", (5,), -2.0, 3.0),
        ("normal_", (40,), -2.0, 3.0),
        ("sparse_", (10, 4), 0.3),
        ("sparse_", (10, 4), 0.5, 2.0),
        ("sparse_", (3,), 0.3),
    ]
    same(lambda torch: [lambda call=call: filled(torch, *call) for call in calls])


def test_fixed_fillings(same):
    calls = [
        ("constant_", (3,), 2.5),
        ("ones_", (2, 2)),
        ("zeros_", (2, 2)),
        ("eye_", (3, 5)),
        ("eye_", (3,)),
        ("dirac_", (6, 2, 3, 3), 3),
        ("dirac_", (2, 3, 4)),
        ("dirac_", (2, 3, 3, 4, 5)),
        ("dirac_", (6, 2, 3), 4),
        ("dirac_", (6, 2)),
    ]
    same(lambda torch: [lambda call=call: filled(torch, *call) for call in calls])


def test_old_names_warn_and_do_the_same(same):
    old = ["uniform", "normal", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"]
    same(lambda torch: [lambda name=name: filled(torch, name, (3, 4)) for name in old] + [lambda: filled(torch, "constant", (3,), 2.0)])


def test_gains(same):
    names = ["linear", "conv1d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "unknown"]
    params = [None, 0.2, 1, True, "a"]
    same(lambda torch: [lambda n=n, p=p: torch.nn.init.calculate_gain(n, p) for n in names for p in params])


@pytest.mark.parametrize("shape", [(3, 4), (20, 5), (5, 20), (2, 3, 4)])
def test_orthogonal_rows_or_columns(shape):
    weight = nn.init.orthogonal_(flambeau.empty(shape, dtype=flambeau.float64), gain=2.0)
    matrix = weight.reshape(shape[0], -1)
    rows, columns = matrix.shape
    product = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    size = min(rows, columns)
    expected = [[4.0 if i == j else 0.0 for j in range(size)] for i in range(size)]
    assert all(math.isclose(product[i, j].item(), expected[i][j], abs_tol=1e-9) for i in range(size) for j in range(size))


def test_orthogonal_follows_pytorchs_stream(oracle):
    for shape in [(3, 4), (20, 5), (2, 3, 4, 5)]:
        flambeau.manual_seed(1)
        got = nn.init.orthogonal_(flambeau.empty(shape)).numpy()
        oracle.manual_seed(1)
        expected = oracle.nn.init.orthogonal_(oracle.empty(shape)).numpy()
        assert abs(got - expected).max() < 1e-5


def test_filling_a_parameter_is_not_recorded():
    weight = nn.Parameter(flambeau.zeros(2, 2))
    assert nn.init.normal_(weight) is weight
    assert weight.grad_fn is None and weight.requires_grad
