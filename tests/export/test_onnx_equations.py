"""``torch.onnx``: equations and factorisations as loops over columns, and what is written by masks; see ``test_onnx_rows``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import linalg

from .test_onnx_rows import agree

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def systems(n: int) -> tuple[Any, ...]:
    """Batches of matrices whose first columns begin with 0, so that pivots are needed."""
    made = torch.randn(n, 4, 4)
    made[:, 0, 0] = 0
    return made + torch.diag(torch.tensor([0.0, 3.0, 3.0, 3.0])), torch.randn(n, 4, 2)


def positive(n: int) -> tuple[Any, ...]:
    made = torch.randn(n, 4, 4)
    return made @ made.mT + torch.eye(4), torch.randn(n, 4, 2)


def images(n: int) -> tuple[Any, ...]:
    return (torch.randn(n, 3, 4),)


EQUATIONS: dict[str, Any] = {
    "inv": (lambda a, b: (linalg.inv(a), torch.inverse(a)), systems),
    "inv_ex": (lambda a, b: linalg.inv_ex(a).inverse, systems),
    "solve": (lambda a, b: linalg.solve(a, b), systems),
    "solve_from_the_right": (lambda a, b: linalg.solve(a, b.mT, left=False), systems),
    "solve_vectors": (lambda a, b: linalg.solve(a, b[..., 0]), systems),
    "solve_one_matrix_for_all": (lambda a, b: linalg.solve(a[0], b), systems),
    "matrix_power": (lambda a, b: (linalg.matrix_power(a, 5), linalg.matrix_power(a, -2), linalg.matrix_power(a, 0)), systems),
    "slogdet": (lambda a, b: torch.slogdet(a), systems),
    "matrix_norm": (
        lambda a, b: [linalg.matrix_norm(b, ord, keepdim=keep) for ord in ("fro", 1, -1, torch.inf, -torch.inf) for keep in (False, True)],
        systems,
    ),
    "cholesky": (lambda a, b: (linalg.cholesky(a), linalg.cholesky(a, upper=True)), positive),
    "cholesky_solve": (lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a)), positive),
    "cholesky_inverse": (lambda a, b: torch.cholesky_inverse(linalg.cholesky(a)), positive),
    "solve_triangular": (
        lambda a, b: (linalg.solve_triangular(a.tril(), b, upper=False), linalg.solve_triangular(a, b, upper=True, unitriangular=True)),
        positive,
    ),
    "solve_triangular_from_the_right": (lambda a, b: linalg.solve_triangular(a, b.mT, upper=True, left=False), positive),
    "write_by_mask": (lambda x: x.clone().index_put((x > 0,), x.clamp(min=0).flatten()[:1]), images),
    "write_by_mask_of_rows": (lambda x: x.clone().index_put((x[:, :, 0] > 0,), torch.arange(4.0)), images),
    "write_behind_a_dimension": (lambda x: x.index_put((None, torch.tensor([2, 0])), torch.ones(4), accumulate=True), images),
    "read_by_mask_behind_a_dimension": (lambda x: x[:, torch.tensor([True, False, True])], images),
    "clamp_by_tensors": (lambda x: torch.clamp(x, x.mean(-1, keepdim=True), x.amax(-1, keepdim=True) * 0.5), images),
    "scatter_with_reduce": (lambda x: x.scatter(1, torch.zeros(1, 1, 4, dtype=torch.int64), 2.0, reduce="multiply"), images),
    "scatter_in_place": (lambda x: (x * 1).scatter_(1, torch.zeros(1, 1, 4, dtype=torch.int64), 2.0, reduce="add"), images),
    "cummax_of_integers": (lambda x: torch.cummax((x * 3).long(), 1), images),
    "upsample": (lambda x: F.upsample(x, scale_factor=2), images),
}


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("name", EQUATIONS)
def test_rows_give_what_operations_give(name: str) -> None:
    agree(*EQUATIONS[name])


FIXED: dict[str, Any] = {
    "block_diag": lambda x: torch.block_diag(x[0], x[1, 0], x[2] > 0),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, torch.ones(3, 3), 1, 1, 2),
    "as_strided_scatter": lambda x: torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (5, 3), 1),
    "pdist": lambda x: F.pdist(x[0]),
    "cosine_similarity_of_other_ranks": lambda x: F.cosine_similarity(x, x[0, :1], dim=1),
    "angle": lambda x: torch.angle(x),
    "tensordot_of_one": lambda x: torch.tensordot(x[:1, :1], x, ([0, 2], [0, 2])),
    "tensorsolve": lambda x: linalg.tensorsolve(torch.eye(12).reshape(3, 4, 3, 4) * 2 + x[0, 0, 0], x[1]),
    "tensorinv": lambda x: linalg.tensorinv(torch.eye(12).reshape(3, 4, 12) * 2 + x[0, 0, 0], ind=2),
    "histc_of_all": lambda x: torch.histc(x, 5),
    "conv_transpose_with_much_output_padding": lambda x: F.conv_transpose1d(x, x[:3, :2, :2], output_padding=1, dilation=2, padding=1),
    "conv_transpose_with_bias": lambda x: F.conv_transpose1d(x, x[:3, :2], x[0, 0, :2], output_padding=2, dilation=3),
    "avg_pool_by_a_divisor": lambda x: F.avg_pool2d(x, 2, padding=1, divisor_override=3),
    "replicate_fewer": lambda x: F.pad(x, (-4, 5), mode="replicate"),
    "interpolate_by_roundings": lambda x: F.interpolate(x[None].repeat(1, 1, 1, 5), scale_factor=(1.0, 0.9), mode="bilinear"),
    "scatter_reduce_of_truths": lambda x: (x > 0).scatter_reduce(0, torch.zeros(1, 3, 4, dtype=torch.int64), x[1:2] > 0, "amax"),
}


@pytest.mark.parametrize("name", FIXED)
def test_rows_of_known_sizes(name: str) -> None:
    agree(FIXED[name], images, dynamic=False)


def test_volumes_are_sampled_from_operator_set_20_on() -> None:
    volume, grid = torch.randn(1, 2, 3, 4, 5), torch.rand(1, 2, 2, 2, 3) * 2 - 1
    agree(lambda x: F.grid_sample(x, grid, align_corners=False), lambda n: (volume,), 20, False)
    with pytest.raises(torch.onnx.OnnxExporterError, match="added in version 20"):
        agree(lambda x: F.grid_sample(x, grid, align_corners=False), lambda n: (volume,), 18, False)


@pytest.mark.parametrize(
    ("function", "word"), [(linalg.svdvals, "singular values"), (linalg.eigvalsh, "eigenvalues"), (linalg.qr, "reflections")]
)
def test_what_has_no_nodes_says_why(function: Callable[..., Any], word: str) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=word):
        agree(function, lambda n: (torch.eye(3),), dynamic=False)


def test_models_of_bfloat16_run() -> None:
    agree(lambda x: (x.bfloat16(), x), images)
    agree(lambda x: x.float(), lambda n: (torch.randn(n, 3, dtype=torch.bfloat16),))
