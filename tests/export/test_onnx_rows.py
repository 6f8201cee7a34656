"""``torch.onnx``: rows of rarer operations, at two batch sizes: the checker accepts them, and onnxruntime gives the modules' results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.utils._pytree import tree_leaves, tree_map

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
NAN, INF = float("nan"), float("inf")


class Called(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def real(value: Any) -> Any:
    return torch.view_as_real(value) if isinstance(value, torch.Tensor) and value.is_complex() else value


def agree(function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]], opset: int = 18, dynamic: bool = True) -> Any:
    """Export at one size, and run at another, too."""
    first, second = make(3), make(5)
    shapes = (tree_map(lambda x: {0: torch.export.Dim.DYNAMIC}, first),) if dynamic else None
    program = torch.onnx.export(Called(function), first, dynamic_shapes=shapes, opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for inputs in (first, second) if dynamic else (first,):
        wanted = [real(leaf) for leaf in tree_leaves(function(*inputs))]
        found = program(*inputs)
        assert len(wanted) == len(found)
        for a, b in zip(wanted, found, strict=True):
            torch.testing.assert_close(b, a.detach(), rtol=1e-4, atol=1e-4, check_stride=False, equal_nan=True)
    return program


def x(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 4),)


def xy(n: int) -> tuple[Any, ...]:
    return torch.randn(n, 4), torch.rand(n, 4) + 0.5


def special(n: int) -> tuple[Any, ...]:
    made = torch.randn(n, 6)
    made[0] = torch.tensor([0.0, -0.0, NAN, INF, -INF, 1.0])
    return made, made.flip(1)


def whole(n: int) -> tuple[Any, ...]:
    return torch.randint(-9, 9, (n, 4)), torch.randint(0, 4, (n, 4))


def images(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 2, 6, 5),)


def bags(n: int) -> tuple[Any, ...]:
    return torch.randint(0, 7, (n, 3)), torch.rand(n, 3)


TABLE = torch.randn(7, 2)
MATRICES = torch.randn(2, 4, 4)
ROWS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "tests": (
        lambda x, y: (
            x.isfinite(),
            x.isposinf(),
            x.isneginf(),
            torch.signbit(x),
            torch.isclose(x, y),
            torch.isclose(x, x, equal_nan=True),
        ),
        special,
    ),
    "tests of integers": (
        lambda i, j: (
            i.isfinite(),
            torch.signbit(i),
            torch.isin(i, j),
            torch.isin(i, j, invert=True),
            torch.isin(i, j.reshape(-1)[:0]),
            torch.isclose(i, j),
        ),
        whole,
    ),
    "shifts": (
        lambda i, j: (
            i << j,
            i >> j,
            i << 2,
            i >> 1,
            torch.bitwise_left_shift(3, j),
        ),
        whole,
    ),
    "sums of exponentials": (
        lambda x, y: (
            torch.logaddexp(x, y),
            torch.logaddexp2(x, y),
            x.logcumsumexp(1),
        ),
        special,
    ),
    "functions": (
        lambda x, y: (
            x.deg2rad(),
            x.rad2deg(),
            torch.hypot(x, y),
            torch.heaviside(x, y),
            x.sinc(),
            x.copysign(y),
        ),
        special,
    ),
    "special functions": (
        lambda x, y: (
            torch.special.entr(y),
            torch.special.ndtr(x),
            x.ldexp(torch.tensor(3)),
            y.float_power(1.5),
        ),
        xy,
    ),
    "without NaN": (
        lambda x, y: (
            x.nansum(1),
            x.nanmean(1),
            x.nansum(),
        ),
        lambda n: (torch.tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN]]).repeat(n, 1), *x(1)),
    ),
    "distances": (
        lambda x, y: (
            torch.dist(x, y),
            torch.dist(x, y, 3),
            torch.cdist(x, y),
            torch.cdist(x, y, 1.0),
            F.pairwise_distance(x, y),
        ),
        xy,
    ),
    "angles": (
        lambda x, y: (
            F.cosine_similarity(x, y),
            F.cosine_similarity(x, y, 0),
            torch.linalg.cross(x[:, :3], y[:, 1:]),
            torch.cross(x[:, :3], y[:, :3], 1),
        ),
        xy,
    ),
    "quantized": (
        lambda x: (
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15),
            torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.zeros(4, dtype=torch.int32), 1, -8, 7),
        ),
        x,
    ),
    "sums of products": (
        lambda x, y: (
            torch.addr(x, x[:, 0], y[0], beta=2, alpha=3),
            torch.addbmm(torch.ones(4, 4), x[:, :, None], y[:, None], alpha=2),
            F.bilinear(x, y, MATRICES, torch.ones(2)),
            torch.inner(x, y),
            torch.tensordot(x, y, ([0], [0])),
            torch.kron(x, y),
        ),
        xy,
    ),
    "determinants": (
        lambda m: (
            torch.logdet(m @ m.mT + torch.eye(3)),
            torch.det(m),
        ),
        lambda n: (torch.randn(n, 3, 3),),
    ),
    "diagonals": (
        lambda x: (
            torch.diag_embed(x),
            torch.diag_embed(x, 1),
            torch.diag_embed(x, -2, 0, 2),
            x.rot90(),
            x.rot90(-1),
            x.rot90(2),
            torch.vander(x[0], 3),
            torch.vander(x[0], increasing=True),
        ),
        x,
    ),
    "medians": (
        lambda x, y: (
            x.median(),
            *x.median(1),
            *x.median(0, keepdim=True),
            x.nanmedian(),
            x.nanmedian(1).values,
            *x.kthvalue(2),
        ),
        lambda n: (torch.randperm(n * 4).reshape(n, 4).float(), *x(1)),
    ),
    "medians with NaN": (
        lambda x, y: (
            x.median(1).values,
            x.median(),
            x.nanmedian(1).values,
            x.nanmedian(),
        ),
        special,
    ),
    "searched": (
        lambda x, y: (
            torch.bucketize(x, y[0].sort().values),
            torch.bucketize(x, torch.tensor([-1.0, 0.5]), right=True, out_int32=True),
            torch.searchsorted(x.sort(1).values, y),
            torch.searchsorted(x.sort(1).values, y, side="right"),
            torch.searchsorted(torch.tensor([0.5, 1.0]), 0.7),
        ),
        xy,
    ),
    "searched by sorter": (
        lambda x, y: torch.searchsorted(x, y, sorter=x.argsort(1)),
        xy,
    ),
    "so far": (
        lambda x, y: (
            x.cumprod(1),
            x.cumprod(0),
            *x.cummax(1),
            *y.cummin(0),
        ),
        special,
    ),
    "so far of integers": (
        lambda i, j: (
            i.cumprod(1),
            j.cumprod(0),
        ),
        whole,
    ),
    "counted": (
        lambda x: (
            torch.histc(x, 5, -1, 2),
            torch.aminmax(x),
            *torch.aminmax(x, dim=1),
        ),
        x,
    ),
    "repeated": (
        lambda x: (
            x.repeat_interleave(2, 1),
            x.repeat_interleave(3, 0),
            x.repeat_interleave(2),
        ),
        x,
    ),
    "columns": (
        lambda z: (
            F.unfold(z, 2),
            F.unfold(z, (3, 2), 2, 1, (2, 1)),
            F.fold(F.unfold(z, 2, padding=1), (6, 5), 2, padding=1),
            F.unfold(z[0], 2),
        ),
        images,
    ),
    "unpooled": (
        lambda z: (
            F.max_unpool2d(*F.max_pool2d(z, 2, return_indices=True), 2, output_size=(6, 5)),
            *F.adaptive_max_pool2d(z, (3, 1), return_indices=True),
            F.adaptive_max_pool2d(z, 4),
        ),
        images,
    ),
    "padded in circles": (
        lambda z: (
            F.pad(z, (1, 2, 3, 0), "circular"),
            F.pad(z[0], (0, 1), "circular"),
            F.pad(z[:, :, None], (1, 1, 1, 1, 0, 0), "replicate"),
        ),
        images,
    ),
    "grids": (
        lambda t: (
            F.affine_grid(t, (t.shape[0], 2, 3, 4), align_corners=False),
            F.affine_grid(t, (t.shape[0], 2, 2, 4), align_corners=True),
        ),
        lambda n: (torch.randn(n, 2, 3),),
    ),
    "bags": (
        lambda i, w: [
            F.embedding_bag(i, TABLE, mode=mode, **({"per_sample_weights": w} if mode == "sum" else {}), padding_idx=k)
            for mode in ("sum", "mean", "max")
            for k in (None, 2)
        ],
        bags,
    ),
    "bags by offsets": (
        lambda i, w: (
            F.embedding_bag(i.flatten(), TABLE, torch.tensor([0, 2, 2])),
            F.embedding_bag(i.flatten(), TABLE, torch.tensor([0, 2, 2]), mode="max"),
            F.embedding_bag(i[0], TABLE, torch.tensor([0, 2, 3]), include_last_offset=True),
        ),
        bags,
    ),
    "masked": (
        lambda x, y: (
            x.masked_scatter(x > 0, y),
            x.put(torch.tensor([1, 2]), y[0, :2]),
            x.put(torch.tensor([1, 1]), y[0, :2], accumulate=True),
        ),
        xy,
    ),
    "margins": (
        lambda x, y: (
            F.multi_margin_loss(x, torch.arange(3).repeat(9)[: x.size(0)]),
            F.triplet_margin_loss(x, y, y.flip(1)),
            F.triplet_margin_loss(x, y, y.flip(1), swap=True, p=1, reduction="none"),
        ),
        xy,
    ),
    "margins of many": (
        lambda x, i: [F.multilabel_margin_loss(x, i, reduction=word) for word in ("none", "mean", "sum")],
        lambda n: (*x(n), torch.tensor([[1, 2, -1, 0], [-1, 0, 1, 2], [3, 0, 2, 1]]).repeat(2, 1)[:n]),
    ),
    "trapezoids": (
        lambda x: (
            torch.trapezoid(x),
            torch.trapezoid(x, dx=0.5, dim=0),
        ),
        x,
    ),
}
for word in ("sum", "prod", "mean", "amax", "amin"):
    for itself in (True, False):
        ROWS[f"{word} of scattered elements{'' if itself else ' alone'}"] = (
            lambda x, word=word, itself=itself: (
                x.scatter_reduce(1, (x * 7).long().abs() % 3, x * 2 + 1, word, include_self=itself),
                *([] if word == "sum" else [x.index_reduce(1, torch.tensor([0, 2, 0]), x[:, 1:] - 1, word, include_self=itself)]),
            ),
            x,
        )


@pytest.mark.parametrize("name", ROWS)
def test_rows_give_what_operations_give(name: str) -> None:
    torch.manual_seed(0)
    agree(*ROWS[name])


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "one dimension": lambda x: (
        torch.fft.fft(x),
        torch.fft.rfft(x, norm="ortho"),
        torch.fft.ifft(x, norm="forward"),
        torch.fft.fft(x, dim=0),
    ),
    "back": lambda x: (
        torch.fft.irfft(torch.fft.rfft(x)),
        torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), 3, norm="ortho"),
        torch.fft.hfft(x),
    ),
    "padded": lambda x: (
        torch.fft.fft(x, 6),
        torch.fft.rfft(x, 3),
    ),
    "shifted": lambda x: (
        torch.fft.fftshift(x, 1),
        torch.fft.fftfreq(4) * x,
    ),
    "arithmetic": lambda x: (
        torch.fft.fft(x) * torch.fft.ifft(x) + 1j,
        torch.fft.fft(x) / (torch.fft.ifft(x) + 3),
        torch.fft.fft(x) * 2 - 1,
    ),
    "taken apart": lambda x: (
        torch.fft.fft(x).abs(),
        torch.fft.rfft(x)[:, 1].angle(),
        torch.fft.fft(x).real,
        torch.fft.fft(x).imag.sum(1),
    ),
    "numbers": lambda x: (
        torch.complex(x, x + 1).conj(),
        torch.polar(x.abs(), x),
        torch.view_as_complex(x.reshape(-1, 2, 2)).exp(),
    ),
    "moved": lambda x: (
        torch.fft.fft(x).t(),
        torch.fft.fft(x)[:, 1:],
        torch.cat([torch.fft.fft(x)] * 2),
        torch.fft.fft(x) @ torch.fft.fft(x).t(),
    ),
    "convolved": lambda x: torch.fft.irfft(torch.fft.rfft(x, 8) * torch.fft.rfft(torch.arange(4.0), 8), 8),
}


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_fourier_transforms_and_complex_numbers_are_pairs(name: str, opset: int) -> None:
    torch.manual_seed(0)
    agree(TRANSFORMS[name], x, opset)


def test_transforms_of_images_and_sounds() -> None:
    agree(lambda z: (torch.fft.fft2(z), torch.fft.irfft2(torch.fft.rfft2(z), (6, 5)), torch.fft.rfftn(z, dim=(1, 2, 3))), images)
    agree(lambda s: torch.stft(s, 4, 2, window=torch.ones(4), return_complex=True), lambda n: (torch.randn(n, 16),))


def test_complex_inputs_and_parameters_are_pairs() -> None:
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = nn.Parameter(torch.tensor([1 + 2j, -1j]))

        def forward(self, z):
            return z * self.by

    z = torch.complex(torch.randn(3, 2), torch.randn(3, 2))
    program = torch.onnx.export(Turned(), (z,))
    onnx.checker.check_model(program.model_proto, full_check=True)
    torch.testing.assert_close(program(z)[0], torch.view_as_real(Turned()(z)).detach())


def test_random_numbers_are_in_their_bounds() -> None:
    model = Called(lambda x: (torch.randint(2, 5, (400,)), torch.normal(x, 0.5), torch.multinomial(x.abs().softmax(1), 9, True)))
    program = torch.onnx.export(model, (torch.full((2, 300), 4.0),))
    onnx.checker.check_model(program.model_proto, full_check=True)
    whole, normal, drawn = program(torch.full((2, 300), 4.0))
    assert set(whole.tolist()) == {2, 3, 4} and whole.dtype is torch.int64
    assert abs(normal.mean() - 4) < 0.1 and 0.4 < normal.std() < 0.6
    assert drawn.shape == (2, 9) and 0 <= drawn.min() and drawn.max() < 300


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.qr,
        torch.linalg.eigvalsh,
        torch.linalg.svdvals,
        torch.lgamma,
    ],
)
def test_what_onnx_has_no_operator_for_says_so(function: Callable[..., Any]) -> None:
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match=r"Exporting the operator 'aten::\w+' to ONNX opset version 20"):
        torch.onnx.export(Called(function), (torch.eye(2),))


def truths(n: int) -> tuple[Any, ...]:
    return torch.randn(n, 4) > 0, torch.randn(n, 4) > 0


def holed(n: int) -> tuple[Any, ...]:
    made = torch.randn(n, 3)
    made[0], made[1, 1] = -INF, NAN
    return made, made.roll(1, 1)


CORNERS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "extremes of truth values": (
        lambda x, y: (
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.fmax(x, y),
            x.amax(1),
            x.amin(),
            x.max(1)[0],
            x.clamp(False, True),
        ),
        truths,
    ),
    "arithmetic of truth values": (
        lambda x, y: (
            torch.add(x, y, alpha=False),
            torch.outer(x[:, 0], y[:, 0]),
            torch.where(x, y, ~x),
            x.masked_fill(y, True),
            torch.sort(x, 1)[0],
            torch.diag_embed(x),
            x.isnan(),
            x.square(),
        ),
        truths,
    ),
    "NaN beside numbers": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y), torch.maximum(x, y)), special),
    "angles": (lambda x, y: torch.atan2(x, y), special),
    "rows of minus infinity": (lambda x, y: torch.ops.aten._safe_softmax(x, 1), holed),
    "spread of one element": (
        lambda x, y: (
            torch.std_mean(x[:1], 0),
            torch.var(x[:2], 0, correction=2),
            torch.var_mean(x, 1),
        ),
        xy,
    ),
    "broadcast elements": (
        lambda x, y: (
            torch.take_along_dim(x, y[:1].argsort(1), 1),
            torch.take_along_dim(x, y.argmax().reshape(1)),
            torch.einsum("...A,...A->...", x[:, None], y),
            torch.einsum("A...,...->A", x, torch.arange(4.0)),
        ),
        xy,
    ),
    "grids of images": (lambda x, y: torch.meshgrid(x[:, 0], y[0, :3], x[0, 0], indexing="xy"), xy),
    "rounded to decimals": (lambda x, y: (x.round(decimals=2), (x * 100).round(decimals=-1)), xy),
    "rolled flat": (lambda x, y: x.roll(3), xy),
    "lines between tensors": (lambda x, y: torch.linspace(x.sum(), y.sum(), 5), xy),
    "one example": (lambda x, y: (F.cross_entropy(x[0], torch.tensor(2)), F.nll_loss(x[0], torch.tensor(1), reduction="none")), xy),
    "statistics of layers": (lambda x, y: torch.ops.aten.native_layer_norm(x, [4], None, None, 1e-5), xy),
    "distinct elements": (
        lambda i, j: (
            i.unique(return_inverse=True, return_counts=True),
            i.sort(1)[0].unique_consecutive(return_inverse=True, return_counts=True),
            torch.nonzero_static(j, size=5),
            torch.argwhere(j),
        ),
        whole,
    ),
    "counted elements": (
        lambda i, j: (
            torch.bincount(j.flatten(), minlength=2),
            torch.bincount(j.flatten(), minlength=7),
            F.one_hot(j),
            i.repeat_interleave(j[0], 1),
            i.repeat_interleave(torch.tensor(2), 0),
            torch.repeat_interleave(j.flatten()),
        ),
        whole,
    ),
    "comparisons of sizes": (
        lambda x, y: torch.cond(x.shape[0] > 3, lambda x: x + 1, lambda x: x - 1, (x,)),
        xy,
    ),
    "all choices of elements": (lambda x, y: torch.combinations(x[0], 2), xy),
    "masks of more dimensions": (lambda x, y: torch.masked_scatter(x[0], y > 1, x.flatten()), xy),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", CORNERS)
def test_corners_give_what_operations_give(name: str) -> None:
    torch.manual_seed(0)
    agree(*CORNERS[name])


def test_sounds_of_any_length() -> None:
    window = torch.hann_window(8)

    def spectra(s: Any) -> Any:
        return (
            torch.stft(s, 16, 4, 8, window=window, normalized=True, return_complex=True).abs(),
            torch.stft(s[0], 16, window=torch.ones(16), center=False, onesided=False, return_complex=True),
            torch.stft(s, 8, window=window, pad_mode="constant", return_complex=True),
        )

    first, second = torch.randn(2, 40), torch.randn(3, 56)
    program = torch.onnx.export(Called(spectra), (first,), dynamic_shapes=(({0: "batch", 1: "length"},),))
    for sound in (first, second):
        for a, b in zip(spectra(sound), program(sound), strict=True):
            torch.testing.assert_close(b, real(a), rtol=1e-4, atol=1e-4, check_stride=False)


def test_what_onnxruntime_does_otherwise_says_so() -> None:
    images = torch.randn(1, 1, 4, 4)
    for function, given in (
        (lambda x: F.interpolate(x, (3, 3), mode="bilinear", align_corners=True, antialias=True), images),
        (lambda x: F.conv2d(x, x), torch.ones(1, 1, 2, 2, dtype=torch.int64)),
    ):
        with pytest.raises(torch.onnx.errors.SymbolicValueError):
            torch.onnx.export(Called(function), (given,))


NOTHING = torch.randn(0, 4)
EDGES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mean of nothing": (lambda x: (x.mean(), x.mean(0)), (NOTHING,)),
    "mse_loss of nothing": (F.mse_loss, (NOTHING, NOTHING)),
    "multi_margin_loss of nothing": (F.multi_margin_loss, (NOTHING, torch.zeros(0, dtype=torch.int64))),
    "multilabel_margin_loss of nothing": (F.multilabel_margin_loss, (NOTHING, torch.zeros(0, 4, dtype=torch.int64))),
    "triplet_margin_loss of nothing": (F.triplet_margin_loss, (NOTHING, NOTHING, NOTHING)),
    "triplet_margin_loss of numbers": (F.triplet_margin_loss, (torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.5))),
    "distances without columns": (lambda x, y: torch.cdist(x, y, p=INF), (torch.randn(3, 0), torch.randn(2, 0))),
    "cosine_similarity of numbers": (lambda x, y: F.cosine_similarity(x, y, dim=0), (torch.tensor(-1.0), torch.tensor(2.0))),
    "kthvalue of a number": (lambda x: tuple(x.kthvalue(1)), (torch.tensor(3.0),)),
    "median of a number": (lambda x: (*x.median(0, keepdim=True), *x.nanmedian(0)), (torch.tensor(3.0),)),
    "kthvalue of truth values": (lambda x: x.kthvalue(2)[0], (torch.tensor([True, False, True]),)),
    "trunc, fix and erfc of integers": (lambda x: (x.trunc(), torch.fix(x), torch.erfc(x)), (torch.tensor([-2, 0, 1]),)),
    "signbit of truth values": (torch.signbit, (torch.tensor([True, False]),)),
}


@pytest.mark.parametrize("name", EDGES)
def test_rows_at_the_edges(name: str) -> None:
    function, inputs = EDGES[name]
    agree(function, lambda n: inputs, dynamic=False)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_shifts_of_any_count(dtype: Any) -> None:
    counts = (0, 1, 30, 31, 32, 62, 63, 64, 100, -1)
    values = torch.tensor([-5, 5, 0, 1 << 30, -(1 << 31) if dtype is torch.int32 else -(1 << 62)], dtype=dtype)

    def shifted(x: Any, y: Any) -> Any:
        return [x >> count for count in counts], [x << count for count in counts], x[:, None] >> y, x[:, None] << y

    agree(shifted, lambda n: (values, torch.tensor(counts, dtype=dtype)), dynamic=False)
