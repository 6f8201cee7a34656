"""Records of Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .record import Error, Maker, Record, Sample, call

DTYPES = ("float32", "float64", "complex64", "int64", "bfloat16")
REAL = ("float32", "float64", "int64", "complex64", "bfloat16")
REFUSED = {"bfloat16": (RuntimeError, None)}
REAL_ONLY = {**REFUSED, "complex64": (RuntimeError, None)}


def one_dim(m: Maker) -> Iterable[Sample]:
    x = m(3, 4, 5)
    yield call(m(7))
    yield from (call(x, dim=dim) for dim in (0, 1, -1))
    yield from (call(x, n, 1, norm) for n, norm in ((3, "ortho"), (6, "forward"), (4, "backward"), (2, None)))


def several_dims(m: Maker) -> Iterable[Sample]:
    x = m(3, 4, 6)
    yield from (call(m(8)), call(x), call(x, (3, 8)), call(x, norm="ortho"))
    yield from (call(x, dim=dim) for dim in ((0,), (1, 0), (0, 2), (2, 0, 1)))
    yield from (call(x, (2, -1), (0, 2), "forward"), call(x, s=(5, 3), dim=(-1, -3), norm="backward"))


def two_dims(m: Maker) -> Iterable[Sample]:
    x = m(3, 4, 6)
    yield from (call(x), call(x, (2, 8)), call(x, (5, 3), (0, 1), "ortho"), call(x, dim=(2, 0)))


def _wide(a: np.ndarray) -> np.ndarray:
    return a if a.dtype.kind in "fc" else a.astype(np.float32)


def _one(name: str) -> Callable[..., Any]:
    return lambda a, n=None, dim=-1, norm=None: getattr(np.fft, name)(_wide(a), n, dim, norm)


def _sizes(a: np.ndarray, s: Any, dim: Any) -> tuple[Any, Any]:
    """Sizes and dimensions as NumPy wants them: all or none given."""
    if s is None:
        return None, tuple(range(a.ndim)) if dim is None else dim
    dim = tuple(range(a.ndim - len(s), a.ndim)) if dim is None else dim
    return [a.shape[place] if size == -1 else size for size, place in zip(s, dim, strict=True)], dim


def _several(name: str, default: Any = None) -> Callable[..., Any]:
    """NumPy's function; a last size of -1 leaves it to NumPy how many points a half stands for."""

    def reference(a: np.ndarray, s: Any = None, dim: Any = default, norm: Any = None) -> np.ndarray:
        sizes, dims = _sizes(a, s, dim)
        if name == "irfftn" and s is not None and s[-1] == -1:
            sizes[-1] = 2 * (a.shape[dims[-1]] - 1)
        return getattr(np.fft, name)(_wide(a), sizes, dims, norm)

    return reference


_OTHER = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _hermitian(default: Any = None) -> Callable[..., Any]:
    """``hfftn`` as ``irfftn`` of the conjugate, scaled the other way."""
    return lambda a, s=None, dim=default, norm=None: _several("irfftn")(np.conj(a), s, default if dim is None else dim, _OTHER[norm])


def _half_hermitian(default: Any = None) -> Callable[..., Any]:
    return lambda a, s=None, dim=default, norm=None: np.conj(_several("rfftn")(a, s, default if dim is None else dim, _OTHER[norm]))


ERRORS = (
    Error(lambda m: call(m(3), norm="none"), RuntimeError, "Invalid normalization mode"),
    Error(lambda m: call(m(3), dim=2), IndexError, "out of range"),
    Error(lambda m: call(m(3), 0), RuntimeError, "number of data points"),
    Error(lambda m: call(m()), IndexError, "no dimensions"),
    Error(lambda m: call(m(3), 2.5), TypeError, "'n' must be int"),
)
MANY_ERRORS = (
    Error(lambda m: call(m(3, 3), dim=(0, 0)), RuntimeError, "must be unique"),
    Error(lambda m: call(m(3, 3), (3,), (0, 1)), RuntimeError, "same length"),
    Error(lambda m: call(m(3, 3), (0, 3), (0, 1)), RuntimeError, "number of data points"),
    Error(lambda m: call(m(3, 3), dim=(0, 2)), IndexError, "out of range"),
)
HALVES = ("rfft", "rfftn", "rfft2", "ihfft", "ihfftn", "ihfft2")


def _transform(name: str, samples: Any, reference: Callable[..., Any], errors: tuple[Error, ...]) -> Record:
    dtypes, rejects = (REAL, REAL_ONLY) if name in HALVES else (DTYPES, REFUSED)
    kinds = {"dtypes": dtypes, "rejects": rejects, "errors": errors}
    return Record(f"fft.{name}", samples, reference, **kinds)


def _signals(m: Maker) -> Iterable[Sample]:
    x, window = m(2, 40), m(8, low=0.5, high=2)
    for options in ({}, {"center": False}, {"normalized": True, "onesided": False}, {"hop_length": 3, "pad_mode": "constant"}):
        yield call(x, 8, window=window, return_complex=True, **{"onesided": not m.dtype.startswith("complex") or None, **options})
    yield call(x[0], 10, win_length=8, window=window, center=False, align_to_window=True, return_complex=True)
    yield call(x[0], 11, win_length=8, window=window, return_complex=True)


def _stft(
    x: np.ndarray,
    n_fft: int,
    *,
    window: np.ndarray,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    align_to_window: bool = False,
    return_complex: bool = True,
) -> np.ndarray:
    hop, left = hop_length or n_fft // 4, (n_fft - len(window)) // 2
    width = ((0, 0),) * (x.ndim - 1) + ((n_fft // 2,) * 2 if center else (left, n_fft - len(window) - left) if align_to_window else (0, 0),)
    x = np.pad(x, width, pad_mode)
    window = np.pad(window, (left, n_fft - len(window) - left))
    pieces = np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[..., ::hop, :] * window
    spectra = (np.fft.fft if onesided is False or pieces.dtype.kind == "c" else np.fft.rfft)(pieces)
    return np.swapaxes(spectra / np.sqrt(n_fft) if normalized else spectra, -1, -2)


def _spectra(m: Maker) -> Iterable[Sample]:
    dtype = "complex128" if m.dtype == "float64" else "complex64"
    window = m(8, low=0.5, high=2, dtype=m.dtype if m.dtype.startswith("float") else "float32")
    yield call(m(2, 5, 9, dtype=dtype), 8, window=window)
    yield call(m(5, 9, dtype=dtype), 8, 3, window=window, length=20, normalized=True)
    yield call(m(2, 5, 9, dtype=dtype), 8, window=window, center=False)


def _istft(
    spectra: np.ndarray,
    n_fft: int,
    hop_length: int | None = None,
    *,
    window: np.ndarray,
    center: bool = True,
    normalized: bool = False,
    length: int | None = None,
) -> np.ndarray:
    hop = hop_length or n_fft // 4
    pieces = np.fft.irfft(np.swapaxes(spectra, -1, -2), n_fft, norm="ortho" if normalized else None) * window
    count = pieces.shape[-2]
    signal, envelope = np.zeros((*pieces.shape[:-2], n_fft + hop * (count - 1))), np.zeros(n_fft + hop * (count - 1))
    for k in range(count):
        signal[..., k * hop : k * hop + n_fft] += pieces[..., k, :]
        envelope[k * hop : k * hop + n_fft] += window**2
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else signal.shape[-1] - start
    return (signal / envelope)[..., start:end].astype(window.dtype)


RECORDS = [
    *(_transform(name, one_dim, _one(name), ERRORS) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
    *(_transform(name, several_dims, _several(name), MANY_ERRORS) for name in ("fftn", "ifftn", "rfftn", "irfftn")),
    _transform("hfftn", several_dims, _hermitian(), MANY_ERRORS),
    _transform("ihfftn", several_dims, _half_hermitian(), MANY_ERRORS),
    *(_transform(name, two_dims, _several(f"{name[:-1]}n", (-2, -1)), MANY_ERRORS) for name in ("fft2", "ifft2", "rfft2", "irfft2")),
    _transform("hfft2", two_dims, _hermitian((-2, -1)), MANY_ERRORS),
    _transform("ihfft2", two_dims, _half_hermitian((-2, -1)), MANY_ERRORS),
    *(
        Record(
            f"fft.{name}",
            lambda m: [call(m(5)), call(m(3, 4)), call(m(3, 4), 1), call(m(3, 4, 5), (0, -1)), call(m(0, 3))],
            reference=lambda a, dim=None, name=name: getattr(np.fft, name)(a, dim),
            dtypes=("float32", "int64", "bool", "complex64", "bfloat16"),
        )
        for name in ("fftshift", "ifftshift")
    ),
    *(
        Record(
            f"fft.{name}",
            lambda m: [call(5), call(6, 0.5), call(7, d=2.0, dtype=np.dtype(np.float64)), call(1)],
            reference=lambda n, d=1.0, dtype=np.float32, name=name: getattr(np.fft, name)(n, d).astype(dtype),
            dtypes=("float32",),
            gradient=False,
            errors=(
                Error(lambda m: call(4.0), TypeError, "must be int"),
                Error(lambda m: call(4, dtype=np.dtype(np.int64)), RuntimeError, "floating point or complex"),
            ),
        )
        for name in ("fftfreq", "rfftfreq")
    ),
    Record(
        "stft",
        _signals,
        _stft,
        dtypes=("float32", "float64", "complex64"),
        errors=(
            Error(lambda m: call(m(20), 30, window=m(30), center=False, return_complex=True), RuntimeError, "expected 0 < n_fft < 20"),
            Error(lambda m: call(m(20), 8, window=m(6), return_complex=True), RuntimeError, "1D window tensor of size"),
            Error(lambda m: call(m(20), 8, window=m(8)), RuntimeError, "return_complex parameter"),
            Error(lambda m: call(m(20), 8, 0, window=m(8), return_complex=True), RuntimeError, "hop_length > 0"),
        ),
    ),
    Record(
        "istft",
        _spectra,
        _istft,
        dtypes=("float32", "float64"),
        gradient=False,
        notes="finite differences step through real numbers only; the gradients are compared with PyTorch's, and stft's are checked",
        errors=(
            Error(lambda m: call(m(5, 9), 8, window=m(8)), RuntimeError, "complex-valued input"),
            Error(lambda m: call(m(4, 9, dtype="complex64"), 8, window=m(8)), RuntimeError, "to match n_fft / 2 . 1"),
            Error(lambda m: call(m(5, 9, dtype="complex64"), 8, window=np.zeros(8, np.float32)), RuntimeError, "window overlap add min"),
        ),
    ),
]
