"""Special functions against mpmath and SciPy, for every class of processor that this machine can run."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.special

from flambeau.kernels.compiler import build
from flambeau.kernels.mathematics import special

from .test_vectors import TARGETS

pytest.importorskip("llvmlite")
mpmath = pytest.importorskip("mpmath")
mp, mpf = mpmath.mp, mpmath.mpf
pytestmark = pytest.mark.filterwarnings("ignore")
COUNT = 50  # arguments of each range


def log_ndtr(x):
    return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def ndtri(p):
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def zeta(s, q):
    if q > 0:
        with mp.workdps(160):  # mpmath's zeta has an absolute precision
            return mp.zeta(s, q)
    return mp.polygamma(int(s) - 1, q) * (-1) ** int(s) / mp.factorial(int(s) - 1)


REFERENCES = {
    "erfcx": lambda x: mp.erfc(x) * mp.exp(x * x),
    "log_ndtr": log_ndtr,
    "erfinv": mp.erfinv,
    "ndtri": ndtri,
    "gammaln": lambda x: mp.log(abs(mp.gamma(x))) if x < 0 else mp.loggamma(x),
    "psi": mp.digamma,
    "zeta": zeta,
    "airy": mp.airyai,
}
for order in (0, 1):
    REFERENCES[f"j{order}"] = lambda x, n=order: mp.besselj(n, x)
    REFERENCES[f"y{order}"] = lambda x, n=order: mp.bessely(n, x)
    REFERENCES[f"i{order}"] = lambda x, n=order: mp.besseli(n, x)
    REFERENCES[f"i{order}e"] = lambda x, n=order: mp.besseli(n, x) * mp.exp(-abs(x))
    REFERENCES[f"k{order}"] = lambda x, n=order: mp.besselk(n, x)
    REFERENCES[f"k{order}e"] = lambda x, n=order: mp.besselk(n, x) * mp.exp(x)

GAMMA = [(1e-3, 0.5), (0.5, 3), (3, 20), (20, 1e4), (-0.5, 0), (-10, -0.5), (-300, -10)]
WAVES, GROWING, DECAYING = (
    [(1e-3, 1), (1, 8), (8, 30), (30, 1000)],
    [(1e-3, 1), (1, 8), (8, 100), (690, 713)],
    [(1e-3, 0.25), (0.25, 2), (2, 8), (8, 100), (600, 700)],
)
RANGES = {
    "erfcx": [(-26, 20), (0, 0.5), (20, 100)],
    "log_ndtr": [(-40, 10), (-2, 2), (-300, -40)],
    "erfinv": [(-1, 1), (-0.01, 0.01)],
    "ndtri": [(0, 1), (0, 0.01), (0, 1e-9)],
    "gammaln": GAMMA,
    "psi": GAMMA,
    "zeta": [(0.01, 1), (1, 30), (30, 1000), (-30, 0)],
    "airy": [(0, 1), (1, 8), (8, 100), (-8, 0), (-100, -8), (-3000, -1000)],
    **dict.fromkeys(("j0", "j1", "y0", "y1"), WAVES),
    **dict.fromkeys(("i0", "i1", "i0e", "i1e"), GROWING),
    **dict.fromkeys(("k0", "k1", "k0e", "k1e"), DECAYING),
}


def amplitude(name, *arguments):
    """Of what oscillates; below zero, where poles and zeros alternate, of the nearest pole, or 1."""
    x = arguments[-1]
    if name in ("j0", "j1", "y0", "y1"):
        return min(1 / np.sqrt(np.pi * x / 2), 0.6)
    if name == "airy" and x < -1:
        return 1 / np.sqrt(np.pi) / (-x) ** 0.25
    if name == "zeta" and x < 0:
        return abs(x - np.rint(x)) ** -arguments[0]
    return float(name in ("gammaln", "psi") and x < 0)


@cache
def samples(name, element, count=COUNT):
    """Arguments and exact values."""
    rng, dtype = np.random.default_rng(0), np.float32 if element == "f32" else np.float64
    x = [np.concatenate([rng.uniform(low, high, count) for low, high in RANGES[name]]).astype(dtype)]
    if name == "zeta":
        x.insert(0, rng.choice([2, 3, 4, 11, 40], x[0].size).astype(dtype))
    with mp.workdps(30):
        return x, [REFERENCES[name](*[mpf(float(v)) for v in values]) for values in zip(*x, strict=True)]


def mapped(k, name, count, element, lanes):
    """y = function(x, ...) over arrays."""
    sources = [k.array() for _ in range(count)]
    y, n = k.array(), k.integer()

    def step(i, mask):
        k.store(special.FUNCTIONS[name](k, *(k.load(x, i, element, lanes, mask) for x in sources)), y, i, element, mask)

    k.vector_loop(0, n, lanes, step)


def computed(processor, name, *x):
    element = "f32" if x[0].dtype == np.float32 else "f64"
    k = build.source_of(mapped, (name, len(x), element, processor.width // x[0].itemsize), processor)
    y = np.empty_like(x[0])
    build.Kernel(build.compiled(k.text(), k.name, processor), k)(1, *map(id, x), id(y), y.size)
    return y


def errors(name, x, got, exact):
    """In units of the last place."""
    digits = np.finfo(got.dtype).nmant
    sizes = [max(abs(e), mpf(amplitude(name, *[float(v) for v in values]))) for *values, e in zip(*x, exact, strict=True)]
    return [
        float(abs(mpf(float(a)) - e) / mpf(2) ** (mp.floor(mp.log(size, 2)) - digits)) for a, e, size in zip(got, exact, sizes, strict=True)
    ]


def test_every_function_has_a_bound():
    assert set(special.MAX_ULP) == set(special.FUNCTIONS) == set(REFERENCES)


@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", REFERENCES)
def test_float64_is_within_its_bound(name, processor):
    x, exact = samples(name, "f64")
    far = errors(name, x, computed(processor, name, *x), exact)
    assert max(far) <= special.MAX_ULP[name], f"at {x[-1][int(np.argmax(far))]!r}"


@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", REFERENCES)
def test_float32_is_rounded_once(name, processor):
    x, exact = samples(name, "f32")
    got = computed(processor, name, *x)
    normal = [i for i, e in enumerate(exact) if 2.0**-126 <= abs(e) <= np.finfo(np.float32).max]
    assert len(normal) > 0.6 * len(exact)
    far = errors(name, [operand[normal] for operand in x], got[normal], [exact[i] for i in normal])
    assert max(far) <= special.MAX_ULP_SINGLE.get(name, 0.51)


EDGES = [0, 1, 2, 0.5, 1.5, 8, 64, 171, 700, 1e5, 1e300, np.inf, 1e-300, 0.25]


@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", [name for name in REFERENCES if name != "zeta"])
def test_edges_are_scipys(name, processor):
    """Poles, infinities, NaN, signs of zeros, and where forms of computation meet."""
    edges = [e for e in EDGES if e < 1e5 or np.isinf(e)] if name[0] in "jya" else EDGES  # SciPy's waves lose their phase far out
    x = np.array([*edges, *(-e for e in edges), np.nan])
    got = computed(processor, name, x)
    wanted = getattr(scipy.special, name)(x)
    wanted = wanted[0] if name == "airy" else wanted
    if name in ("j0", "j1"):
        wanted = np.where(np.isinf(x), 0, wanted)
    rough = 1e-12 if name == "airy" else 1e-13
    scale = np.array([amplitude(name, abs(v)) if name[0] in "jy" else 0 for v in x])
    close = abs(got - wanted) <= rough * np.maximum(abs(wanted), scale) + 1e-16
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted))
    assert (close | same).all(), list(zip(x[~(close | same)], got[~(close | same)], wanted[~(close | same)], strict=True))


@pytest.mark.parametrize("processor", TARGETS, ids=lambda t: t.name)
def test_edges_of_zeta(processor):
    s, q = (
        grid.ravel() for grid in np.meshgrid([1, 2, 3, 2.5, 0.5, -1, 0, 100, np.inf, np.nan], [*EDGES[:10], 1e-300, -1, -0.5, -2.5, np.nan])
    )
    got, wanted = computed(processor, "zeta", s, q), scipy.special.zeta(s, q)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (abs(got - wanted) <= 1e-13 * abs(wanted))
    assert same.all(), list(zip(s[~same], q[~same], got[~same], wanted[~same], strict=True))
