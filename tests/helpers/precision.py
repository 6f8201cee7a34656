"""How far apart two results of the same computation may be: the usual bounds, the measure, and the exceptions with their reasons.

The error of an element is measured against what it should be. Of element-wise operations that is the element itself; of all others (sums,
products, transforms, decompositions) it is the largest element of the result, since each element is a sum that may cancel. An exception
gives another bound or another measure, for results or for gradients, against PyTorch, against the NumPy reference, or between two ways of
ours (kernels and references, the fast path and the slow one, in place and not).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
LEAST |= {"complex64": LEAST["float32"], "complex128": LEAST["float64"]}
RESULTS = {"float64": 1e-13, "complex128": 1e-13, "float32": 8 * EPS["float32"], "complex64": 8 * EPS["complex64"]}
RESULTS |= {half: EPS[half] for half in ("float16", "bfloat16")}  # one unit in the last place of the correctly rounded result
GRADIENTS = {"float64": 1e-12, "complex128": 1e-12, "float32": 32 * EPS["float32"], "complex64": 32 * EPS["complex64"]}
GRADIENTS |= {half: 2 * EPS[half] for half in ("float16", "bfloat16")}

PYTORCH, NUMPY, OURS, GPU = "pytorch", "numpy", "ours", "gpu"
ANYTHING = (PYTORCH, NUMPY, OURS, GPU)


@dataclass(frozen=True, slots=True)
class Bound:
    """An exception.

    Attributes:
        why: the reason.
        results: bounds of the results by dtype, relative; those left out are the usual ones.
        gradients: bounds of the gradients.
        against: what the comparison is with.
        whole: the measure is the largest element of the result, not each element.
        least: magnitude from which errors are measured where the elements are smaller.
    """

    why: str
    results: Mapping[str, float] = field(default_factory=dict)
    gradients: Mapping[str, float] = field(default_factory=dict)
    against: tuple[str, ...] = ANYTHING
    whole: bool = False
    least: float = 0


def error(got: np.ndarray, want: np.ndarray, dtype: str, whole: bool, least: float = 0) -> tuple[float, tuple[int, ...]]:
    """The largest relative error, and the place of it; infinite where one is NaN or infinite and the other is not.

    Args:
        least: magnitude from which errors are measured where all elements are smaller.
    """
    kind = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    got, want = np.asarray(got).astype(kind), np.asarray(want).astype(kind)
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        if same.all():
            return 0.0, ()
        sizes = np.where(np.isfinite(want), np.abs(want), 0)
        # what lies below the least normal number has fewer digits
        scale = np.maximum(sizes.max(initial=0) if whole else sizes, max(least, LEAST[dtype] / EPS[dtype]))
        errors = np.where(same, 0.0, np.where(np.isfinite(got) & np.isfinite(want), np.abs(got - want) / scale, np.inf))
    place = np.unravel_index(int(errors.argmax()), errors.shape)
    return float(errors[place]), tuple(map(int, place))


def allowed(name: str, dtype: str, against: str, *, gradient: bool = False, elementwise: bool = False) -> tuple[float, bool, float]:
    """What an operation may differ by: the relative error, whether it is that of the largest element, and the least magnitude."""
    bound, whole, least = (GRADIENTS if gradient else RESULTS)[dtype], not elementwise, 0.0
    for exception in EXCEPTIONS.get(name, ()):
        if against in exception.against:
            bound = max(bound, (exception.gradients if gradient else exception.results).get(dtype, 0))
            whole, least = whole or exception.whole, max(least, exception.least)
    return bound, whole, least


def _units(number: float) -> dict[str, float]:
    """Bounds in float32's and complex64's units in the last place."""
    return {"float32": number * EPS["float32"], "complex64": number * EPS["complex64"]}


def _halves(number: float) -> dict[str, float]:
    return {half: number * EPS[half] for half in ("float16", "bfloat16")}


F = "nn.functional."
_CANCELS = Bound("the result is a difference of larger numbers", whole=True)
_STEPS = Bound("steps whose results are rounded one by one, by PyTorch too", _halves(4), against=(NUMPY, PYTORCH))
_PLACES = Bound("places between samples are rounded before samples are weighed by their distance", _units(16))
_ITERATED = Bound("the condition of the sample", _units(16))
_SERIES = {"float64": 1e-9, "complex128": 1e-9}
_TRIGAMMA = Bound("PyTorch's digamma and trigamma have 9 digits", {**_SERIES, **_units(64)}, _SERIES, against=(PYTORCH,))
_BESSEL = Bound("PyTorch's rational functions have 7 digits near the zeros", {"float64": 1e-7, **_units(256)}, against=(PYTORCH,))
_EQUAL_ROWS = Bound("of equal rows, rounding divided by the root of eps", least=50, against=(PYTORCH,))

EXCEPTIONS: dict[str, tuple[Bound, ...]] = {
    **dict.fromkeys(["linalg.svd", "qr", "pinverse"], (Bound("a GPU's library has other algorithms", _units(16), against=(GPU,)),)),
    **dict.fromkeys(["addcmul", "addcdiv", "lerp", "logit", F + "tanhshrink", F + "gelu", F + "mish"], (_CANCELS,)),
    **dict.fromkeys([F + "kl_div", "kl_div", "cosine_embedding_loss", "special.ndtr", F + "triplet_margin_loss"], (_STEPS,)),
    **dict.fromkeys(["triplet_margin_loss", "lstm", "gru", "rnn_relu", "rnn_tanh", "lstm_cell", "gru_cell"], (_STEPS,)),
    **dict.fromkeys([F + "interpolate", F + "grid_sample"], (_PLACES,)),
    **dict.fromkeys(["digamma", "polygamma"], (_TRIGAMMA,)),
    **dict.fromkeys([f"special.bessel_{name}" for name in ("j0", "j1", "y0", "y1")], (_BESSEL,)),
    "sinc": (Bound("pi times the operand is rounded before its sine is taken, which is 0 at whole numbers", whole=True, least=1),),
    "special.chebyshev_polynomial_t": (Bound("the cosine of n times an angle that is rounded, near its zeros", least=1),),
    "special.airy_ai": (Bound("PyTorch's float32 has five digits", _units(64), against=(PYTORCH,)),),
    "special.i1e": (Bound("the gradient is a difference of nearly equal numbers", whole=True),),
    "ldexp": (Bound("the gradient of the exponent is a sum over what it was expanded to", whole=True),),
    F + "hardsigmoid": (Bound("PyTorch's slope of 1/6 is rounded to float32", {}, {"float64": 1e-7}, against=(PYTORCH,)),),
    F + "logsigmoid": (Bound("slopes near the least normal number are 0", least=1e-33),),
    **dict.fromkeys(["batch_norm", F + "batch_norm"], (_EQUAL_ROWS,)),
    "linalg.lstsq": (_ITERATED,),
    "logaddexp2": (Bound("PyTorch's logarithm of 1 / 2 + 1 / 2 is not 0", least=1, against=(PYTORCH,)),),
}
