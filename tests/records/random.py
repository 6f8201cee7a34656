"""Records of random numbers: with the same seed the same numbers as PyTorch; ``test_random_streams`` has the golden bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

FLOATS = ("float32", "float64", "bfloat16")
ANY = ("float32", "float64", "int64", "uint8", "bool")


def _made(name: str, samples: Any, errors: tuple[Error, ...] = (), dtypes: tuple[str, ...] = ("float32",), **options: Any) -> Record:
    return Record(name, samples, None, dtypes, errors, gradient=False, random=True, **options)


def _filled(name: str, *parameters: dict[str, Any], dtypes: tuple[str, ...] = FLOATS, errors: tuple[Error, ...] = ()) -> Record:
    """A method that fills its tensor."""

    def samples(make: Any) -> list:
        return [call(make(*shape), **options) for options in ({}, *parameters) for shape in ((3, 4), (), (40,))]

    return _made(name, samples, errors, dtypes, is_view=True, notes="works on the tensor itself")


def _chances(make: Any, *shape: int) -> np.ndarray:
    return make(*shape, low=0.05, high=0.95)


RECORDS = [
    _made("manual_seed", lambda make: [call("one")], (Error(lambda make: call("one"), (TypeError, ValueError)),), is_view=True),  # type: ignore[arg-type]
    _made("seed", lambda make: [call(1)], (Error(lambda make: call(1), TypeError),), notes="its result is different each time"),
    _made("initial_seed", lambda make: [call()]),
    _made("get_rng_state", lambda make: [call()]),
    _made("set_rng_state", lambda make: [call(np.zeros(3, np.uint8))], (Error(lambda make: call(np.zeros(3, np.uint8)), RuntimeError),)),
    _made(
        "rand",
        lambda make: [call(3, 4), call((2, 3)), call(()), call(40), call(5, dtype=np.dtype("float64")), call(0, 3)],
        (Error(lambda make: call(-1), RuntimeError), Error(lambda make: call(2, dtype=np.dtype("int64")), RuntimeError)),
    ),
    _made(
        "randn",
        lambda make: [
            call(3, 4),
            call((2, 3)),
            call(()),
            call(40),
            call(5, dtype=np.dtype("float64")),
            call(4, dtype=np.dtype("complex64")),
        ],
        (Error(lambda make: call(-1), RuntimeError), Error(lambda make: call(2, dtype=np.dtype("int64")), RuntimeError)),
    ),
    _made("rand_like", lambda make: [call(make(3, 4)), call(make(40)), call(make(2), dtype=np.dtype("float64"))], dtypes=FLOATS),
    _made("randn_like", lambda make: [call(make(3, 4)), call(make(40)), call(make(2), dtype=np.dtype("float64"))], dtypes=FLOATS),
    _made(
        "normal",
        lambda make: [
            call(make(3, 4), make(3, 4, low=0.1)),
            call(make(3, 4), 2.0),
            call(1.0, make(3, low=0.1)),
            call(0.5, 2.0, (3, 4)),
            call(make(3, 4), make(4, low=0.1)),
        ],
        (Error(lambda make: call(0.0, -1.0, (2,)), RuntimeError, "std >= 0"),),
        ("float32", "float64"),
    ),
    _made(
        "randint",
        lambda make: [call(10, (3, 4)), call(-3, 5, (40,)), call(2**40, (3,)), call(3, (2,), dtype=np.dtype("float32")), call(2, ())],
        (Error(lambda make: call(0, (2,)), RuntimeError), Error(lambda make: call(5, 3, (2,)), RuntimeError)),
    ),
    _made("randint_like", lambda make: [call(make(3, 4), 10), call(make(3, 4), -3, 5)], dtypes=("int64", "float32", "uint8")),
    _made(
        "randperm",
        lambda make: [call(10), call(0), call(1), call(50, dtype=np.dtype("int32"))],
        (Error(lambda make: call(-1), RuntimeError),),
    ),
    _made(
        "bernoulli",
        lambda make: [call(_chances(make, 3, 4)), call(make(40), 0.3), call(_chances(make))],
        (Error(lambda make: call(make(3) * 0 + 2), RuntimeError, "p_in <= 1"),),
        FLOATS,
    ),
    _made(
        "multinomial",
        lambda make: [call(_chances(make, 5), 3), call(_chances(make, 2, 5), 4), call(_chances(make, 2, 5), 7, True)],
        (
            Error(lambda make: call(make(3) * 0 + 1, 4), RuntimeError, "cannot sample"),
            Error(lambda make: call(make(3) * 0 - 1, 1), RuntimeError, "probability tensor contains"),
            Error(lambda make: call(make(2, 2, 2), 1), RuntimeError, "1 or 2 dim"),
        ),
        ("float32", "float64"),
    ),
    _made(
        "poisson",
        lambda make: [call(make(3, 4, low=0, high=30)), call(make(40, low=0, high=2))],
        (Error(lambda make: call(make(2) * 0 - 1), RuntimeError, "non-negative|negative"),),
        ("float32", "float64"),
    ),
    _made(
        "binomial",
        lambda make: [call(np.floor(make(3, 4, low=0, high=50)), _chances(make, 3, 4)), call(make(3) * 0 + 9, _chances(make, 3))],
        dtypes=("float32", "float64"),
    ),
    _filled("Tensor.uniform_", {"from": -2, "to": 3}, errors=(Error(lambda make: call(make(2), 3, 1), RuntimeError, "uniform_ expects"),)),
    _filled("Tensor.normal_", {"mean": 2, "std": 0.5}, errors=(Error(lambda make: call(make(2), 0, -1), RuntimeError, "std >= 0"),)),
    _filled(
        "Tensor.random_",
        {"to": 7},
        {"from": 2, "to": 9},
        dtypes=("int64", "float32", "float64"),
        errors=(Error(lambda make: call(make(2), 0), RuntimeError),),
    ),
    _filled(
        "Tensor.bernoulli_",
        {"p": 0.2},
        dtypes=ANY,
        errors=(Error(lambda make: call(make(2), 1.5), RuntimeError, "in \\[0, 1\\]|between 0 and 1"),),
    ),
    _filled("Tensor.exponential_", {"lambd": 2.5}, errors=(Error(lambda make: call(make(2), -1.0), RuntimeError, "lambda > 0"),)),
    _filled(
        "Tensor.geometric_",
        {"p": 0.5},
        dtypes=("float32", "float64", "int64"),
        errors=(Error(lambda make: call(make(2), 1.5), RuntimeError, "p to be in"),),
    ),
    _filled("Tensor.log_normal_", {"mean": 0.5, "std": 0.25}, errors=(Error(lambda make: call(make(2), 0, -1), RuntimeError, "std > 0"),)),
    _filled("Tensor.cauchy_", {"median": 1, "sigma": 2}, errors=(Error(lambda make: call(make(2), 0, -1), RuntimeError, "sigma > 0"),)),
]
