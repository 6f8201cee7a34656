"""Records of convolutions, padding, folding and resampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .record import Error, Record, call

F = "nn.functional."
FLOATS = ("float32", "float64", "bfloat16", "complex64", "int64")
REAL = ("float32", "float64", "bfloat16")


def _correlation(x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> np.ndarray:
    """Convolution by its definition: a loop over output positions."""
    rank = w.ndim - 2
    lone = x.ndim == rank + 1
    x = x[None] if lone else x
    steps, holes = np.broadcast_to(stride, rank), np.broadcast_to(dilation, rank)
    amounts = [(d * (k - 1) // 2, (d * (k - 1) + 1) // 2) for d, k in zip(holes, w.shape[2:])]
    if padding != "same":
        amounts = [(p, p) for p in np.broadcast_to(0 if padding == "valid" else padding, rank)]
    x = np.pad(x, [(0, 0), (0, 0), *amounts])
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], steps, holes)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    for at in np.ndindex(*sizes):
        seen = x[(..., *[slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, d, k in zip(at, steps, holes, w.shape[2:])])]
        for g in range(groups):
            part = seen[:, g * inputs : (g + 1) * inputs].reshape(x.shape[0], inputs * int(np.prod(w.shape[2:])))
            result[(slice(None), slice(g * outputs, (g + 1) * outputs), *at)] = (
                part @ w[g * outputs : (g + 1) * outputs].reshape(outputs, -1).T
            )
    if b is not None:
        result = result + b.reshape(-1, *(1,) * rank)
    return result[0] if lone else result


def _transposed(
    x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1
) -> np.ndarray:
    """Transposed convolution by its definition: each input element adds its kernel to the output."""
    rank = w.ndim - 2
    s, p, o, d = (np.broadcast_to(v, rank) for v in (stride, padding, output_padding, dilation))
    full = [(n - 1) * s[k] + d[k] * (w.shape[2 + k] - 1) + 1 + o[k] for k, n in enumerate(x.shape[2:])]
    outputs, inputs = w.shape[1], x.shape[1] // groups
    sums = np.zeros((x.shape[0], outputs * groups, *full), x.dtype)
    for at in np.ndindex(*x.shape[2:]):
        place = tuple(slice(i * s[k], i * s[k] + d[k] * (w.shape[2 + k] - 1) + 1, d[k]) for k, i in enumerate(at))
        for g in range(groups):
            values = x[(slice(None), slice(g * inputs, (g + 1) * inputs), *at)]
            sums[(slice(None), slice(g * outputs, (g + 1) * outputs), *place)] += np.tensordot(values, w[g * inputs : (g + 1) * inputs], 1)
    sums = sums[(..., *[slice(p[k], full[k] - p[k]) for k in range(rank)])]
    return sums if b is None else sums + b.reshape(-1, *(1,) * rank)


def _conv(rank: int) -> Callable[[Any], list]:
    size, kernel = (5, 6, 4)[:rank], (3, 2, 2)[:rank]

    def samples(make: Any) -> list:
        return [
            call(make(2, 4, *size), make(6, 4, *kernel), make(6)),
            call(make(2, 4, *size), make(6, 2, *kernel), None, 2, 1, 1, 2),
            call(make(4, *size), make(4, 1, *kernel), make(4), stride=1, padding=1, dilation=2, groups=4),
            call(make(2, 4, *size), make(3, 4, *kernel), padding="same"),
            call(make(2, 4, *size), make(3, 4, *(1,) * rank), padding="valid"),
            call(make(0, 4, *size), make(3, 4, *kernel)),
        ]

    return samples


def _conv_transpose(rank: int) -> Callable[[Any], list]:
    size, kernel = (4, 3, 2)[:rank], (3, 2, 2)[:rank]

    def samples(make: Any) -> list:
        return [
            call(make(2, 4, *size), make(4, 3, *kernel), make(3)),
            call(make(2, 4, *size), make(4, 3, *kernel), None, 2, 1, 1, 2),
            call(make(2, 4, *size), make(4, 1, *kernel), make(4), stride=1, padding=1, groups=4, dilation=2),
            call(make(2, 4, *size), make(4, 3, *kernel), None, 3, output_padding=2),
        ]

    return samples


def _errors(rank: int) -> tuple[Error, ...]:
    size = (5,) * rank
    kernel = (3,) * rank

    def wrong(**given: Any) -> Callable[[Any], Any]:
        return lambda make: call(make(2, 3, *size), make(4, 3, *kernel), **given)

    return (
        Error(lambda make: call(make(2, 2, *size), make(4, 3, *kernel)), RuntimeError, "to have 3 channels, but got 2 channels"),
        Error(lambda make: call(make(3), make(4, 3, *kernel)), RuntimeError, "input to conv"),
        Error(lambda make: call(make(2, 3, *size), make(4, 3, *kernel), make(5)), RuntimeError, "expected bias to be 1-dimensional"),
        Error(lambda make: call(make(2, 3, *size), make(4, 3, *kernel, dtype="float64")), RuntimeError, "should be the same"),
        Error(wrong(stride=0), RuntimeError, "non-positive stride"),
        Error(wrong(padding=-1), RuntimeError, "negative padding"),
        Error(wrong(groups=0), RuntimeError, "non-positive groups"),
        Error(wrong(dilation=9), RuntimeError, "Kernel size can't be greater"),
        Error(wrong(padding="same", stride=2), RuntimeError, "not supported for strided"),
        Error(wrong(stride=1.5), TypeError),
    )


def _pad_samples(make: Any) -> list:
    return [
        call(make(2, 3, 4), (1, 2)),
        call(make(2, 3, 4), (1, -1, 0, 2), value=1.5),
        call(make(2, 3, 4, 5), (1, 2, 2, 1), "reflect"),
        call(make(2, 3, 4), (3, 1), "replicate"),
        call(make(2, 3, 4), (4, 3), "circular"),
        call(make(2, 3, 4, 5), (-1, 1, 1, -2), "replicate"),
        call(make(1, 2, 3, 4, 3), (1, 1, 0, 2, 1, 0), "reflect"),
    ]


def _pad(x: Any, pad: Any, mode: str = "constant", value: float = 0) -> np.ndarray:
    amounts = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2]))[::-1]
    cut = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(x.shape, amounts))
    words = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    more = [(max(low, 0), max(high, 0)) for low, high in amounts]
    if mode == "constant":
        return np.pad(x[cut], more, constant_values=value)
    return np.pad(x[cut], more, words[mode])


def _shuffled(x: Any, r: int) -> np.ndarray:
    *lead, c, h, w = x.shape
    y = x.reshape(*lead, c // r**2, r, r, h, w)
    return np.moveaxis(y, (-4, -3), (-3, -1)).reshape(*lead, c // r**2, h * r, w * r)


def _unshuffled(x: Any, r: int) -> np.ndarray:
    *lead, c, h, w = x.shape
    y = x.reshape(*lead, c, h // r, r, w // r, r)
    return np.moveaxis(y, (-3, -1), (-4, -3)).reshape(*lead, c * r * r, h // r, w // r)


def _channels(x: Any, groups: int) -> np.ndarray:
    return x.reshape(x.shape[0], groups, -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)


def _interpolations(make: Any) -> list:
    image = make(2, 3, 5, 4)
    modes = [call(image, (7, 3), mode=mode) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")]
    aligned = [call(image, (7, 3), mode=mode, align_corners=True) for mode in ("bilinear", "bicubic")]
    smooth = [call(image, (3, 6), mode=mode, antialias=True) for mode in ("bilinear", "bicubic", "lanczos")]
    return [
        *modes,
        *aligned,
        *smooth,
        call(image, scale_factor=1.7, mode="bilinear"),
        call(image, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        call(make(2, 3, 5), 8, mode="linear"),
        call(make(1, 2, 3, 4, 3), (4, 4, 4), mode="trilinear"),
        call(make(1, 2, 3, 4, 3), scale_factor=(2.0, 1.0, 0.5)),
    ]


def _both(name: str, *rest: Any, **options: Any) -> list[Record]:
    """Records of a function that exists in both namespaces."""
    return [Record(name, *rest, **options), Record(F + name, *rest, **options)]


RECORDS = [
    *[record for rank in (1, 2, 3) for record in _both(f"conv{rank}d", _conv(rank), _correlation, FLOATS, _errors(rank))],
    *[record for rank in (1, 2, 3) for record in _both(f"conv_transpose{rank}d", _conv_transpose(rank), _transposed, FLOATS, ())],
    Record(
        "convolution",
        lambda make: [
            call(make(2, 4, 5, 5), make(3, 4, 3, 3), make(3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
            call(make(2, 4, 3, 3), make(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
        ],
        None,
        ("float32", "float64", "bfloat16", "int64"),
        (),
    ),
    Record(
        "constant_pad_nd",
        lambda make: [call(make(2, 3), (1, 2)), call(make(2, 3), (1, -1, 2, 0), 3)],
        lambda x, pad, value=0: _pad(x, pad, "constant", value),
        (*FLOATS, "bool"),
        (
            Error(lambda make: call(make(2, 3), (1,)), RuntimeError, "even"),
            Error(lambda make: call(make(2), (-3, 0)), RuntimeError, "negative"),
        ),
    ),
    Record(
        F + "pad",
        _pad_samples,
        _pad,
        FLOATS,
        (
            Error(lambda make: call(make(2, 3), (1,)), RuntimeError, "divisible by 2"),
            Error(lambda make: call(make(2, 3, 4), (4, 0), "reflect"), RuntimeError, "less than the corresponding"),
            Error(lambda make: call(make(2, 3, 4), (5, 0), "circular"), RuntimeError, "wrapping around"),
            Error(lambda make: call(make(2, 3, 4), (1, 0), "mirror"), NotImplementedError, "Unrecognised"),
            Error(lambda make: call(make(3), (1, 0), "reflect"), NotImplementedError, "Only 2D"),
        ),
    ),
    Record(
        F + "unfold",
        lambda make: [call(make(2, 3, 5, 4), 2), call(make(3, 5, 4), (2, 3), 1, 1, (2, 1)), call(make(2, 1, 5, 5), 2, 2)],
        None,
        FLOATS,
        (Error(lambda make: call(make(2, 3, 2, 2), 3), RuntimeError, "sliding blocks"),),
    ),
    Record(
        F + "fold",
        lambda make: [call(make(2, 12, 12), (5, 4), 2), call(make(12, 12), (4, 5), (2, 2), 1, 0, 1)],
        None,
        ("float32", "float64", "bfloat16", "complex64"),
        (
            Error(lambda make: call(make(2, 12, 11), (5, 4), 2), RuntimeError, "sliding blocks"),
            Error(lambda make: call(make(2, 11, 12), (5, 4), 2), RuntimeError, "divisible by the product"),
        ),
    ),
    *_both(
        "pixel_shuffle",
        lambda make: [call(make(2, 8, 3, 2), 2), call(make(9, 1, 2), 3)],
        _shuffled,
        FLOATS,
        (Error(lambda make: call(make(2, 6, 3, 2), 2), RuntimeError, "divisible by the square"),),
    ),
    *_both(
        "pixel_unshuffle",
        lambda make: [call(make(2, 2, 4, 6), 2), call(make(1, 3, 6), 3)],
        _unshuffled,
        FLOATS,
        (Error(lambda make: call(make(2, 6, 3, 2), 2), RuntimeError, "height to be divisible"),),
    ),
    *_both(
        "channel_shuffle",
        lambda make: [call(make(2, 6, 3), 2), call(make(1, 6, 2, 2), 3)],
        _channels,
        FLOATS,
        (Error(lambda make: call(make(2, 6, 3, 2), 4), RuntimeError, "divisible by groups"),),
    ),
    Record(
        "native_channel_shuffle",
        lambda make: [call(make(2, 6, 3), 2), call(make(1, 6, 2, 2), 3)],
        _channels,
        FLOATS,
        (Error(lambda make: call(make(2, 6, 3, 2), 4), RuntimeError, "divisible by groups"),),
        gradient=False,
        notes="PyTorch has no derivative of it",
    ),
    Record(
        F + "interpolate",
        _interpolations,
        None,
        REAL,
        (
            Error(lambda make: call(make(1, 2, 3, 3)), ValueError, "either size or scale_factor"),
            Error(lambda make: call(make(1, 2, 3, 3), 4, 2), ValueError, "only one of"),
            Error(lambda make: call(make(1, 2, 3, 3), 4, align_corners=True), ValueError, "align_corners"),
            Error(lambda make: call(make(1, 2, 3, 3), 4, mode="linear"), NotImplementedError, "needs 3D input"),
            Error(lambda make: call(make(1, 2, 3, 3), 4, mode="round"), NotImplementedError, "Only 3D, 4D and 5D"),
            Error(lambda make: call(make(1, 2, 3, 3), 4, mode="lanczos"), ValueError, "antialias=True"),
        ),
    ),
    *[
        Record(
            F + name,
            lambda make: [call(make(1, 2, 3, 3), 5), call(make(1, 2, 3, 3), scale_factor=2)],
            None,
            REAL,
            (),
            gradient=False,
            notes="warns at each call; interpolate has the derivative",
        )
        for name in ("upsample", "upsample_nearest", "upsample_bilinear")
    ],
]
