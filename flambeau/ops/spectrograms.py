"""Spectra of short pieces of a signal: ``stft`` and its inverse."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.arrays.kinds import perhaps
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite
from .creation import ones
from .fourier import BY_COUNT, BY_ROOT, UNSCALED, fft_c2c, fft_c2r, fft_r2c
from .padding import constant_pad_nd, pad
from .parts import unfold_gradient

_WINDOWLESS = "A window was not provided. A rectangular window will be applied"
_LEAKS = (
    ",which is known to cause spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce "
    "spectral leakage.To suppress this warning and use a rectangular window"
)
_INVERTS_NOT = (
    ".Please provide the same window used by stft to make the inversion lossless.To suppress this warning and use a rectangular window"
)
_REAL_PARTS = (
    "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors for all inputs, "
    "and return_complex=False will raise an error.\n"
    "Note: you can still call torch.view_as_real on the complex output to recover the old return format."
)
_ADVICE = "explicitly set `window=torch.ones(n_fft, device=<device>)`."
_HALVED_COMPLEX = "Cannot have onesided output if window or input is complex"


def _shown(value: Any) -> str:
    """An argument as the messages show it."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, int) else f"{value.type()}{{{list(value.shape)}}}"


def _require(name: str, input: Any, arguments: dict[str, Any], *checks: tuple[bool, str]) -> None:
    """Raise for the first of the pairs (whether all is well, what was expected) that does not hold, naming all arguments."""
    for holds, expected in checks:
        if not holds:
            given = ", ".join(f"{key}={_shown(value)}" for key, value in arguments.items())
            raise RuntimeError(f"{name}({input.type()}{list(input.shape)}, {given}) : {expected}")


def _sizes(n_fft: int, hop_length: int | None, win_length: int | None, window: Any, advice: str) -> tuple[int, int]:
    """Distance of pieces and length of the window; a warning where there is no window."""
    if window is None:
        warnings.warn(f"{_WINDOWLESS}{advice}, {_ADVICE}", stacklevel=3)
    return n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length


def _continued(input: Any, by: int, pad_mode: str) -> Any:
    """A signal with ``by`` more elements at both ends."""
    widened = input.reshape([1] * (3 - input.ndim) + list(input.shape))
    widened = pad(widened, [by, by], pad_mode)
    return widened.reshape(widened.shape[-input.ndim :])


def _window_of(window: Any, like: Any, win_length: int, n_fft: int) -> Any:
    """The window, ones where there is none, in the middle of ``n_fft`` points."""
    if window is None:
        if win_length == n_fft:
            return None
        window = ones(win_length, dtype=like.real.dtype if like.dtype.is_complex else like.dtype, device=like.device)
    left = (n_fft - win_length) // 2
    return constant_pad_nd(window, [left, n_fft - win_length - left]) if win_length < n_fft else window


def _transformed(pieces: Any, scale: int, onesided: bool) -> Any:
    return fft_c2c(pieces, (2,), scale, True) if pieces.dtype.is_complex else fft_r2c(pieces, (2,), scale, onesided)


def _transformed_back(spectra: Any, scale: int, n_fft: int, halved: bool, is_complex: bool, window: Any) -> Any:
    """The pieces of a signal, complex or real, whose spectra these are.

    Raises:
        RuntimeError: complex pieces of halved spectra, real ones of a complex window.
    """
    if is_complex:
        if halved:
            raise RuntimeError(_HALVED_COMPLEX)
        return fft_c2c(spectra, (2,), scale, False)
    if window is not None and window.dtype.is_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return fft_c2r(spectra if halved else spectra.narrow(2, 0, n_fft // 2 + 1), (2,), scale, n_fft)


@composite(autocast={"cpu": "float32"})
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of the pieces of a signal that a sliding window shows.

    Args:
        input: ``(T,)`` or ``(B, T)``, floating point or complex.
        n_fft: number of points of each transform.
        hop_length: elements between the beginnings of two pieces; ``n_fft // 4`` when None.
        win_length: elements of the window; ``n_fft`` when None. A shorter one stands in the middle.
        window: ``(win_length,)``; ones when None, with a warning.
        center: continue the signal by ``n_fft // 2`` at both ends, so that piece t has its middle at ``t * hop_length``.
        pad_mode: how it is continued; see ``nn.functional.pad``.
        normalized: divide by the root of ``n_fft``.
        onesided: leave out the half that mirrors the other; by default where signal and window are real.
        return_complex: must be given for real signals: complex numbers, or (deprecated) a last dimension of real and imaginary part.
        align_to_window: where ``center`` is False, whether the first window, not the first piece of ``n_fft``, begins at 0.
    Returns:
        ``(B?, n_fft // 2 + 1 or n_fft, number of pieces)``, complex; with a last dimension of 2 if ``return_complex`` is False.
    Raises:
        RuntimeError: sizes that do not fit together, a halved complex signal, ``return_complex`` missing, or another dtype.
    Source: torch.stft.
    Example:
        >>> signal = torch.cos(torch.arange(32) * torch.pi / 2)  # a quarter of the sampling rate
        >>> spectrum = torch.stft(signal, 8, window=torch.hann_window(8), center=False, return_complex=True)
        >>> spectrum.shape, spectrum.abs().argmax(0).unique()
        (torch.Size([5, 13]), tensor([2]))
    """
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        input = _continued(input, n_fft // 2, pad_mode)
    hop_length, win_length = _sizes(n_fft, hop_length, win_length, window, _LEAKS)
    is_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True "
                "in a future PyTorch release."
            )
        return_complex = True
    arguments = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window, "normalized": normalized}
    arguments |= {"onesided": onesided, "return_complex": return_complex, "align_to_window": align_to_window}
    length, extent = (input.shape[-1] if input.ndim else 0), None if window is None else list(window.shape)
    _require(
        "stft",
        input,
        arguments,
        (input.dtype.is_floating_point or input.dtype.is_complex, "expected a tensor of floating point or complex values"),
        (input.ndim in (1, 2), "expected a 1D or 2D tensor"),
        (0 < n_fft <= length, f"expected 0 < n_fft < {length}, but got n_fft={n_fft}"),
        (hop_length > 0, f"expected hop_length > 0, but got hop_length={hop_length}"),
        (0 < win_length <= n_fft, f"expected 0 < win_length <= n_fft, but got win_length={win_length}"),
        (
            extent in (None, [win_length]),
            f"expected a 1D window tensor of size equal to win_length={win_length}, but got window with size {extent}",
        ),
    )
    batch = input if input.ndim == 2 else input.unsqueeze(0)
    if onesided and is_complex:
        raise RuntimeError(_HALVED_COMPLEX)
    if not return_complex and not is_complex:
        warnings.warn(_REAL_PARTS, stacklevel=2)
    if align_to_window and win_length < n_fft:
        left = (n_fft - win_length) // 2
        batch = constant_pad_nd(batch, [left, n_fft - win_length - left])
    pieces = batch.unfold(1, n_fft, hop_length)
    weights = _window_of(window, input, win_length, n_fft)
    if weights is not None:
        pieces = pieces * weights
    spectra = _transformed(pieces, BY_ROOT if normalized else UNSCALED, onesided is None or onesided).transpose(1, 2)
    if input.ndim == 1:
        spectra = spectra.squeeze(0)
    return spectra if return_complex else spectra.view_as_real()


@composite()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose ``stft`` is nearest to ``input``: windowed inverse transforms, added where they overlap, over the windows' squares.

    Args:
        input: ``(B?, n_fft // 2 + 1 or n_fft, number of pieces)``, complex, as ``stft`` returns it.
        n_fft, hop_length, win_length, window, center, normalized: as they were for ``stft``.
        onesided: whether one half of each transform is there; by default seen by its size.
        length: to how many elements the signal is cut or, with a warning, continued by zeros.
        return_complex: return a complex signal, from whole transforms.
    Returns:
        ``(B?, length)``, real unless ``return_complex``.
    Raises:
        RuntimeError: a real ``input``, sizes that do not fit together, or elements that no window shows.
    Source: torch.istft; Griffin and Lim 1984.
    Example:
        >>> signal, window = torch.randn(32), torch.hann_window(8)
        >>> spectrum = torch.stft(signal, 8, window=window, return_complex=True)
        >>> torch.allclose(torch.istft(spectrum, 8, window=window), signal, atol=1e-6)
        True
    """
    hop_length, win_length = _sizes(n_fft, hop_length, win_length, window, _INVERTS_NOT)
    if not input.dtype.is_complex:
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    arguments = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window, "center": center}
    arguments |= {"normalized": normalized, "onesided": onesided, "length": length, "return_complex": return_complex}
    points, count = input.shape[-2:] if input.ndim > 1 else (0, 0)
    halved = points != n_fft if onesided is None else onesided
    frequencies = "expected the frequency dimension (3rd to the last) of the input tensor to match"
    _require(
        "istft",
        input,
        arguments,
        (input.numel() > 0, "input tensor cannot be empty."),
        (input.ndim in (2, 3), f"expected a tensor with 2 or 3 dimensions, but got {input.ndim}"),
        (not halved or points == n_fft // 2 + 1, f"{frequencies} n_fft / 2 + 1 when onesided=True, but got {points}"),
        (halved or points == n_fft, f"{frequencies} n_fft when onesided=False, but got {points}"),
        (0 < hop_length <= win_length, "expected 0 < hop_length <= win_length"),
        (0 < win_length <= n_fft, "expected 0 < win_length <= n_fft"),
        (window is None or tuple(window.shape) == (win_length,), "Invalid window shape. window has to be 1D and length of `win_length`"),
    )
    batch = input if input.ndim == 3 else input.unsqueeze(0)
    spectra = batch.transpose(1, 2)
    pieces = _transformed_back(spectra, BY_ROOT if normalized else BY_COUNT, n_fft, halved, return_complex, window)
    weights = _window_of(window, input, win_length, n_fft)
    if weights is None:
        weights = ones(n_fft, dtype=input.real.dtype, device=input.device)
    total = n_fft + hop_length * (count - 1)
    signal = unfold_gradient(pieces * weights, (batch.shape[0], total), 1, n_fft, hop_length)
    envelope = unfold_gradient((weights * weights).expand(1, count, n_fft), (1, total), 1, n_fft, hop_length)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    least = envelope.detach().abs().min()
    if perhaps(least < 1e-11):
        _require("istft", input, arguments, (False, f"window overlap add min: {least.item()}"))
    signal = signal / envelope
    if end > total:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your "
            "center and hop_length settings.",
            stacklevel=2,
        )
        signal = constant_pad_nd(signal, [0, end - total])
    return signal.squeeze(0) if input.ndim == 2 else signal
