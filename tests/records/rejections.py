"""Calls of the records that must fail: dtypes that an operation refuses, and single samples. Any other exception fails a test.

RuntimeError stands for NotImplementedError too, which is what PyTorch raises for most dtypes without a kernel.
"""

from __future__ import annotations

# (exception, dtypes whose samples must all raise it): operations
_WHOLLY: tuple[tuple[type[Exception], str, str], ...] = (
    (
        RuntimeError,
        "complex64",
        "floor_divide fmod remainder lt le gt ge isposinf isneginf isin xlogy special.xlog1py logit clamp clamp_min "
        "clamp_max maximum minimum fmax fmin nansum signbit erf erfc erfinv special.erfcx special.ndtr special.ndtri "
        "special.log_ndtr special.entr lgamma digamma polygamma special.zeta i0 special.i0e special.i1 special.i1e "
        "special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.modified_bessel_i0 "
        "special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1 "
        "special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0 "
        "special.airy_ai atan2",
    ),
    (
        RuntimeError,
        "int64",
        "nn.functional.leaky_relu prelu nn.functional.elu selu nn.functional.selu celu nn.functional.celu "
        "nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.softplus nn.functional.logsigmoid "
        "nn.functional.glu nn.functional.hardsigmoid nn.functional.hardswish hardshrink nn.functional.softshrink "
        "addcdiv lerp nn.functional.unfold logaddexp logaddexp2 complex polar igamma igammac",
    ),
    (
        RuntimeError,
        "float32",
        "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift Tensor.pin_memory Tensor.record_stream "
        "set_num_threads set_num_interop_threads set_rng_state imag view_as_real",
    ),
    (
        RuntimeError,
        "bool complex64",
        "relu nn.functional.relu nn.functional.hardtanh floor ceil trunc round",
    ),
    (
        RuntimeError,
        "bool",
        "sub rsub addcmul neg positive abs",
    ),
    (
        RuntimeError,
        "complex64 complex128",
        "sign copysign heaviside deg2rad rad2deg",
    ),
    (
        TypeError,
        "float32",
        "from_numpy to_dlpack get_num_threads get_num_interop_threads seed",
    ),
    (
        RuntimeError,
        "int64 bool",
        "var std var_mean std_mean",
    ),
    (
        RuntimeError,
        "int64 complex64",
        "hypot frexp nextafter",
    ),
    (
        RuntimeError,
        "float32 bool",
        "gcd lcm",
    ),
    (
        RuntimeError,
        "float64",
        "nn.functional.grouped_mm",
    ),
    (
        AssertionError,
        "float32",
        "Tensor.cuda",
    ),
    (
        RuntimeError,
        "int64 bool complex64",
        "nanmean",
    ),
    (
        RuntimeError,
        "int64 uint8 bool complex64",
        "frac",
    ),
    (
        ValueError,
        "float32",
        "manual_seed",
    ),
)

# (operations, dtype, exception, numbers of the samples that must raise it)
_PARTLY: tuple[tuple[str, str, type[Exception], tuple[int, ...]], ...] = (
    (
        (
            "special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v "
            "special.chebyshev_polynomial_w special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u "
            "special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.hermite_polynomial_h "
            "special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p"
        ),
        "complex64",
        RuntimeError,
        (0, 1),
    ),
    ("floor_divide fmod remainder bitwise_left_shift bitwise_right_shift pow", "bool", RuntimeError, (0, 1)),
    ("softmax nn.functional.softmax nn.functional.softmin", "int64", RuntimeError, (0, 1, 2, 3)),
    ("div", "bool", RuntimeError, (1, 2)),
    ("div", "complex64", RuntimeError, (1, 2)),
    ("nn.functional.interpolate", "bfloat16", RuntimeError, (7, 8, 9)),
    ("arange", "float32", RuntimeError, (10, 11)),
    ("frombuffer", "float32", ValueError, (2,)),
    ("randint_like", "uint8", RuntimeError, (1,)),
    ("Tensor.geometric_", "float32", TypeError, (0, 1, 2)),
    ("Tensor.geometric_", "float64", TypeError, (0, 1, 2)),
    ("Tensor.geometric_", "int64", TypeError, (0, 1, 2)),
    ("mean", "bool", RuntimeError, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
    ("mean", "int64", RuntimeError, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
)


def _table() -> dict[str, dict[str, tuple[type[Exception], tuple[int, ...] | None]]]:
    rejections: dict[str, dict[str, tuple[type[Exception], tuple[int, ...] | None]]] = {}
    for error, dtypes, names in _WHOLLY:
        for name in names.split():
            rejections.setdefault(name, {}).update(dict.fromkeys(dtypes.split(), (error, None)))
    for names, dtype, error, samples in _PARTLY:
        for name in names.split():
            rejections.setdefault(name, {})[dtype] = (error, samples)
    return rejections


# By operation and dtype: the exception, and the numbers of the samples that raise it (None for all).
REJECTIONS = _table()
