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
_ADVICE = "explicitly set `window=torch.ones(n_fft, device=<device>)`."
_HALVED_COMPLEX = "Cannot have onesided output if window or input is complex"


def _shown(value: Any) -> str:
    """An argument as the messages show it."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, int) else f"{value.type()}{{{list(value.shape)}}}"


def _complain(name: str, input: Any, arguments: dict[str, Any], expected: str) -> None:
    given = ", ".join(f"{key}={_shown(value)}" for key, value in arguments.items())
    raise RuntimeError(f"{name}({input.type()}{list(input.shape)}, {given}) : {expected}")


def _window_of(window: Any, like: Any, win_length: int, n_fft: int) -> Any:
    """The window, ones where there is none, in the middle of ``n_fft`` points."""
    if window is None:
        if win_length == n_fft:
            return None
        window = ones(win_length, dtype=like.real.dtype if like.dtype.is_complex else like.dtype, device=like.device)
    left = (n_fft - win_length) // 2
    return constant_pad_nd(window, [left, n_fft - win_length - left]) if win_length < n_fft else window


@composite()
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
        input: ``(T)`` or ``(B, T)``, floating point or complex.
        n_fft: number of points of each transform.
        hop_length: distance between the beginnings of two pieces, by default ``n_fft // 4``.
        win_length: length of the window, by default ``n_fft``; a shorter one stands in the middle.
        window: ``(win_length)``, by default ones, with a warning.
        center: continue the signal by ``n_fft // 2`` at both ends, so that piece t has its middle at ``t * hop_length``.
        pad_mode: how it is continued; see ``nn.functional.pad``.
        normalized: divide by the root of ``n_fft``.
        onesided: leave out the half that mirrors the other; by default where signal and window are real.
        return_complex: must be given for real signals: complex numbers, or (deprecated) a last dimension of real and imaginary part.
        align_to_window: where ``center`` is False, whether the first window, not the first piece of ``n_fft``, begins at 0.
    Returns:
        ``(B?, n_fft // 2 + 1 or n_fft, number of pieces)``, with a last dimension of 2 if ``return_complex`` is False.
    Raises:
        RuntimeError: sizes that do not fit together, a halved complex signal, ``return_complex`` missing, or another dtype.
    Source: torch.stft.
    """
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        widened = input.reshape([1] * (3 - input.ndim) + list(input.shape))
        widened = pad(widened, [n_fft // 2, n_fft // 2], pad_mode)
        input = widened.reshape(widened.shape[-input.ndim :])
    if window is None:
        warnings.warn(
            f"{_WINDOWLESS},which is known to cause spectral leakage. Other windows such as torch.hann_window or torch.hamming_window are "
            f"recommended to reduce spectral leakage.To suppress this warning and use a rectangular window, {_ADVICE}",
            stacklevel=2,
        )
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
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

    def complain(expected: str) -> None:
        _complain("stft", input, arguments, expected)

    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        complain("expected a tensor of floating point or complex values")
    if input.ndim not in (1, 2):
        complain("expected a 1D or 2D tensor")
    batch = input if input.ndim == 2 else input.unsqueeze(0)
    length = batch.shape[1]
    if not 0 < n_fft <= length:
        complain(f"expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop_length <= 0:
        complain(f"expected hop_length > 0, but got hop_length={hop_length}")
    if not 0 < win_length <= n_fft:
        complain(f"expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is not None and tuple(window.shape) != (win_length,):
        complain(f"expected a 1D window tensor of size equal to win_length={win_length}, but got window with size {list(window.shape)}")
    if onesided and is_complex:
        raise RuntimeError(_HALVED_COMPLEX)
    if not return_complex and not is_complex:
        warnings.warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors for all inputs, "
            "and return_complex=False will raise an error.\n"
            "Note: you can still call torch.view_as_real on the complex output to recover the old return format.",
            stacklevel=2,
        )
    if align_to_window and win_length < n_fft:
        left = (n_fft - win_length) // 2
        batch = constant_pad_nd(batch, [left, n_fft - win_length - left])
    pieces = batch.unfold(1, n_fft, hop_length)
    weights = _window_of(window, input, win_length, n_fft)
    if weights is not None:
        pieces = pieces * weights
    scale = BY_ROOT if normalized else UNSCALED
    if pieces.dtype.is_complex:
        spectra = fft_c2c(pieces, (2,), scale, True)
    else:
        spectra = fft_r2c(pieces, (2,), scale, onesided is None or onesided)
    spectra = spectra.transpose(1, 2)
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
        ``(B?, length)``.
    Raises:
        RuntimeError: a real ``input``, sizes that do not fit together, or elements that no window shows.
    Source: torch.istft; Griffin and Lim 1984.
    """
    if window is None:
        warnings.warn(
            f"{_WINDOWLESS}.Please provide the same window used by stft to make the inversion lossless.To suppress this warning and use a "
            f"rectangular window, {_ADVICE}",
            stacklevel=2,
        )
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not input.dtype.is_complex:
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    arguments = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window, "center": center}
    arguments |= {"normalized": normalized, "onesided": onesided, "length": length, "return_complex": return_complex}

    def complain(expected: str) -> None:
        _complain("istft", input, arguments, expected)

    if not input.numel():
        complain("input tensor cannot be empty.")
    if input.ndim not in (2, 3):
        complain(f"expected a tensor with 2 or 3 dimensions, but got {input.ndim}")
    batch = input if input.ndim == 3 else input.unsqueeze(0)
    points, count = batch.shape[1:]
    halved = points != n_fft if onesided is None else onesided
    if halved and points != n_fft // 2 + 1:
        complain(
            "expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when onesided=True, but got "
            f"{points}"
        )
    if not halved and points != n_fft:
        complain(
            f"expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when onesided=False, but got {points}"
        )
    if not 0 < hop_length <= win_length:
        complain("expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        complain("expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (win_length,):
        complain("Invalid window shape. window has to be 1D and length of `win_length`")
    spectra = batch.transpose(1, 2)
    scale = BY_ROOT if normalized else BY_COUNT
    if return_complex:
        if halved:
            raise RuntimeError(_HALVED_COMPLEX)
        pieces = fft_c2c(spectra, (2,), scale, False)
    else:
        if window is not None and window.dtype.is_complex:
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        pieces = fft_c2r(spectra if halved else spectra.narrow(2, 0, n_fft // 2 + 1), (2,), scale, n_fft)
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
        complain(f"window overlap add min: {least.item()}")
    signal = signal / envelope
    if end > total:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your "
            "center and hop_length settings.",
            stacklevel=2,
        )
        signal = constant_pad_nd(signal, [0, end - total])
    return signal.squeeze(0) if input.ndim == 2 else signal
