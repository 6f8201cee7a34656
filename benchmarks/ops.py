"""Every operation at about a million elements: matrices 200 x 200 and batches of a thousand 8 x 8 for linear algebra, images, signals.

A row is an expression over operands, whose makers have their names in ``OPERANDS``; it stands for the operation that it begins with.
Element-wise operations have no rows: their calls are those of the tests' records, with larger operands in the same range of values.
``EXCLUDED`` says which operations are not measured and why, and a test holds that every operation is in one of these places.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Outcome, Source, described, mean_ratio, problems, run_cases
from .measuring import Timed
from .report import table, write_section

__all__ = ["THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
SLOWER, SLOWEST = 1.4, 3.0  # ratios from which on operations are named
SIDE = 1000  # of a square of a million elements; everything else follows from it


def _spread(source: Source, *shape: int) -> Any:
    """Well-conditioned square matrices."""
    return source.normal(*shape) + shape[-1] ** 0.5 * 2 * source.torch.eye(shape[-1])


def _positive_definite(source: Source, *shape: int) -> Any:
    matrix = source.normal(*shape)
    return matrix @ matrix.mT / shape[-1] + source.torch.eye(shape[-1])


def _symmetric(source: Source, *shape: int) -> Any:
    matrix = source.normal(*shape)
    return matrix + matrix.mT


def _complex(source: Source, *shape: int) -> Any:
    return source.torch.complex(source.normal(*shape), source.normal(*shape))


def _grid(source: Source, *shape: int) -> Any:
    return source.uniform(*shape, low=-1.1, high=1.1)


def _graph(source: Source, nodes: int, density: float) -> Any:
    """The adjacency of a random graph, as COO."""
    count = int(nodes * nodes * density)
    return source.torch.sparse_coo_tensor(source.integers(nodes, 2, count), source.normal(count), (nodes, nodes)).coalesce()


def _labels(source: Source, high: int, *shape: int) -> Any:
    return source.integers(high, *shape)


CONSTANT = ("coo_graph", "csr_graph")  # operands that no gradient is asked for
# How operands are made; SIDE is looked up when they are.
OPERANDS: dict[str, Callable[[Source], Any]] = {
    "x": lambda s: s.normal(SIDE, SIDE),
    "y": lambda s: s.normal(SIDE, SIDE),
    "positive": lambda s: s.uniform(SIDE, SIDE, low=0.5, high=1.5),
    "near_one": lambda s: s.uniform(SIDE, SIDE, low=0.99, high=1.01),
    "share": lambda s: s.uniform(SIDE, SIDE, low=0.01, high=0.99),
    "mask": lambda s: s.coins(SIDE, SIDE),
    "long": lambda s: s.integers(SIDE, SIDE, SIDE),
    "few": lambda s: s.integers(SIDE, 50),
    "z": lambda s: _complex(s, SIDE, SIDE // 2),
    "row": lambda s: s.normal(SIDE),
    "column": lambda s: s.normal(SIDE),
    "rows": lambda s: s.integers(SIDE, SIDE),
    "order": lambda s: s.integers(SIDE, SIDE, SIDE),
    "vector": lambda s: s.normal(SIDE * SIDE),
    "other_vector": lambda s: s.normal(SIDE * SIDE),
    "long_vector": lambda s: s.integers(SIDE, SIDE * SIDE),
    "wide_vector": lambda s: s.integers(1 << 40, SIDE * SIDE),
    "ranked": lambda s: s.normal(SIDE * SIDE // 10).sort()[0],
    "ranked_rows": lambda s: s.normal(SIDE, SIDE).sort(1)[0],
    "edges": lambda s: s.normal(100).sort()[0],
    "ranked_long": lambda s: s.integers(SIDE, SIDE * SIDE).sort()[0],
    "places": lambda s: s.integers(SIDE * SIDE, SIDE * SIDE),
    "lengths": lambda s: s.torch.full((SIDE,), SIDE),
    "points": lambda s: s.normal(SIDE, 16),
    "other_points": lambda s: s.normal(SIDE, 16),
    "matrix": lambda s: _spread(s, SIDE // 5, SIDE // 5),
    "right": lambda s: s.normal(SIDE // 5, SIDE // 5),
    "tall": lambda s: s.normal(SIDE // 5, SIDE // 10),
    "definite": lambda s: _positive_definite(s, SIDE // 5, SIDE // 5),
    "even": lambda s: _symmetric(s, SIDE // 5, SIDE // 5),
    "small": lambda s: _spread(s, SIDE, 8, 8),
    "other_small": lambda s: s.normal(SIDE, 8, 8),
    "small_definite": lambda s: _positive_definite(s, SIDE, 8, 8),
    "small_even": lambda s: _symmetric(s, SIDE, 8, 8),
    "vectors": lambda s: s.normal(SIDE, 8),
    "triples": lambda s: s.normal(SIDE * SIDE // 3, 3),
    "other_triples": lambda s: s.normal(SIDE * SIDE // 3, 3),
    "batch": lambda s: s.normal(16, SIDE // 4, SIDE // 4),
    "other_batch": lambda s: s.normal(16, SIDE // 4, SIDE // 4),
    "flat_images": lambda s: s.normal(16, 16, SIDE * 4),
    "images": lambda s: s.normal(8, 16, SIDE * 8 // 100 + 8, SIDE * 8 // 100 + 8),
    "volumes": lambda s: s.normal(2, 4, SIDE // 20 + 4, SIDE // 20 + 4, SIDE // 20 + 4),
    "grid": lambda s: _grid(s, 8, SIDE * 8 // 100 + 8, SIDE * 8 // 100 + 8, 2),
    "volume_grid": lambda s: _grid(s, 2, SIDE // 20 + 4, SIDE // 20 + 4, SIDE // 20 + 4, 3),
    "theta": lambda s: s.normal(8, 2, 3),
    "filters": lambda s: s.normal(16, 16, 3, 3),
    "flat_filters": lambda s: s.normal(16, 16, 3),
    "deep_filters": lambda s: s.normal(4, 4, 3, 3, 3),
    "scales": lambda s: s.uniform(16, low=0.5, high=1.5),
    "patches": lambda s: s.normal(8, 16 * 9, (SIDE // 20 + 4) ** 2),
    "labels": lambda s: s.integers(SIDE, SIDE),
    "signs": lambda s: s.coins(SIDE, SIDE) * 2.0 - 1.0,
    "row_signs": lambda s: s.coins(SIDE) * 2.0 - 1.0,
    "targets": lambda s: s.integers(SIDE, SIDE, 4),
    "words": lambda s: s.normal(SIDE * 10, 64),
    "tokens": lambda s: s.integers(SIDE * 10, 64, SIDE // 4),
    "log_shares": lambda s: s.normal(100, SIDE // 40 + 1, 40).log_softmax(2),
    "spoken": lambda s: s.integers(39, SIDE // 40 + 1, 20) + 1,
    "signal": lambda s: s.normal(16, SIDE * 64),
    "window": lambda s: s.torch.hann_window(400),
    "long_rows": lambda s: _complex(s, SIDE // 2, 1024),
    "double_rows": lambda s: _complex(s, SIDE // 4, 1024).to(s.torch.complex128),
    "prime_rows": lambda s: _complex(s, SIDE // 2, 1009),
    "odd_rows": lambda s: s.normal(SIDE, 729),
    "wave": lambda s: _complex(s, 1 << 18),
    "spectra": lambda s: _complex(s, SIDE, SIDE // 2 + 1),
    "coo_graph": lambda s: _graph(s, SIDE * 10, 1e-3),
    "csr_graph": lambda s: _graph(s, SIDE * 10, 1e-3).to_sparse_csr(),
    "coo_weights": lambda s: _graph(s, SIDE * 10, 1e-3),
    "csr_weights": lambda s: _graph(s, SIDE * 10, 1e-3).to_sparse_csr(),
    "csr_filled": lambda s: _graph(s, SIDE, 0.05).to_sparse_csr(),
    "features": lambda s: s.normal(SIDE * 10, 64),
    "experts": lambda s: s.normal(4, SIDE, SIDE),
    "ends": lambda s: s.torch.arange(1, 5, dtype=s.torch.int32) * (SIDE // 4),
    "heads": lambda s: s.normal(4, 8, SIDE // 4, 64),
    "other_heads": lambda s: s.normal(4, 8, SIDE // 4, 64),
    "third_heads": lambda s: s.normal(4, 8, SIDE // 4, 64),
}

REDUCTION = """
sum(x)  sum(x, 0)  sum(x, 1)  sum(long)  nansum(x, 1)  mean(x)  mean(x, 0)  nanmean(x, 1)  prod(near_one, 1)  all(mask)  all(mask, 1)
any(x, 1)  count_nonzero(x)  logsumexp(x, 1)  logsumexp(x, 0)  amax(x, 0)  amin(x, 1)  aminmax(x)  argmax(x)  argmax(x, 0)  argmin(x, 1)
max(x)  max(x, 1)  min(x, 0)  var(x)  var(x, 0)  std(x, 1)  var_mean(x, 1)  std_mean(x, 0)  norm(x)  norm(x, 1, 0)
linalg.vector_norm(x)  linalg.vector_norm(x, 3, 1)  linalg.norm(x)  linalg.matrix_norm(x)  linalg.matrix_norm(x, 1)  dist(x, y)
norm_except_dim(x)  renorm(x, 2, 0, 1.0)  trace(x)  hash_tensor(x)  cov(right)  corrcoef(right)
linalg.vecdot(x, y)  linalg.cross(triples, other_triples)  cross(triples, other_triples, dim=1)
"""
SORTING = """
sort(vector)[0]  sort(vector, descending=True)[0]  sort(wide_vector)[0]  sort(long_vector)[0]  sort(long_vector, stable=True)
sort(x, 1)[0]  sort(x, 0)[0]  sort(x, 1, True)[0]  sort(x, dim=1, stable=True)  argsort(vector, stable=True)  argsort(x, dim=1, stable=True)
msort(x)  topk(vector, 10)  topk(vector, n)[0]  topk(x, 10)  topk(x, 10, largest=False)  topk(x, n // 10)  topk(x, 10, 0)
kthvalue(vector, n)  kthvalue(x, n // 10)  kthvalue(x, n // 10, 0)  median(x)  median(x, 1)  median(x, 0)  nanmedian(x)  nanmedian(x, 1)
quantile(x, 0.3)  quantile(x, 0.3, 1)  nanquantile(x, 0.3, 1)  mode(long, 1)[0]  unique(vector)  unique(long_vector)
unique(long_vector, return_inverse=True, return_counts=True)  unique(few, dim=0)  unique_consecutive(ranked_long)
unique_consecutive(ranked_long, return_inverse=True, return_counts=True)  searchsorted(ranked, vector)  searchsorted(ranked_rows, x)
bucketize(x, edges)  bucketize(x, edges, right=True)  isin(long, rows)  histc(x)  histc(x, 50, -1, 1)  histogram(vector, 100)
histogramdd(triples, 10)[0]  bincount(long_vector)  bincount(long_vector, vector)
"""
CUMULATIVE = """
cumsum(vector, 0)  cumsum(x, 1)  cumsum(x, 0)  cumsum(long, 1)  cumprod(near_one, 1)  cumprod(near_one, 0)  cummax(vector, 0)  cummax(x, 1)
cummax(x, 0)  cummin(x, 1)  cummin(long, 0)  logcumsumexp(vector, 0)  logcumsumexp(x, 1)  logcumsumexp(x, 0)  diff(x)  diff(x, dim=0)
gradient(x)  trapezoid(x)  cumulative_trapezoid(x)
"""
PRODUCTS = """
matmul(x, y)  mm(x, y)  bmm(batch, other_batch)  nn.functional.grouped_mm(x, experts, offs=ends)
mv(x, row)  dot(vector, other_vector)  vdot(vector, other_vector)  inner(x, row)  outer(row, column)  addmm(x, x, y)
addmv(row, x, column)  addbmm(right, batch[:, :n // 5, :n // 5], other_batch[:, :n // 5, :n // 5])
baddbmm(batch, batch, other_batch)  addr(x, row, column)  chain_matmul(matrix, right, tall)  linalg.multi_dot([matrix, right, tall])
F.linear(x, y, row)  F.bilinear(points, other_points, other_small[:, :1].expand(-1, 16, -1).reshape(-1, 16, 16)[:8])
tensordot(x, y, 1)  einsum('ij,jk->ik', x, y)  einsum('bij,bjk->bik', batch, other_batch)  kron(right, tall[:5, :5])
cdist(points, other_points)  cdist(points, other_points, 1.0)  pdist(points)  F.pairwise_distance(x, y)  F.cosine_similarity(x, y)
bmm(batch[:, :32, :32], other_batch[:, :32, :32])  bmm(batch[:, :64, :64], other_batch[:, :64, :64])
bmm(batch[:, :128, :128], other_batch[:, :128, :128])  mm(x[:256, :256], y[:256, :256])  mm(x[:512, :512], y[:512, :512])
mm(x[:512, :512].t(), y[:512, :512])  F.linear(x[:128, :768], y[:768, :768], row[:768])  F.linear(x[:32], y, row)
F.linear(x[:64, :128], y[:512, :128], row[:512])  F.linear(x[:16, :128], y[:384, :128])
F.scaled_dot_product_attention(heads, other_heads, third_heads)  matmul(small, other_small)  linalg.matmul(small, vectors[:, :, None])
"""
LINEAR = """
linalg.inv({m})  linalg.inv_ex({m})  inverse({m})  linalg.det({m})  linalg.slogdet({m})  det({m})  logdet({p})  slogdet({m})
linalg.cholesky({p})  linalg.cholesky_ex({p})  cholesky({p})  cholesky_inverse({p})  cholesky_solve({r}, {p})
linalg.lu_factor({m})  linalg.lu_factor_ex({m})  linalg.lu({m})  lu({m})  lu_unpack(*linalg.lu_factor({m}))
linalg.lu_solve(*linalg.lu_factor({m}), {r})  lu_solve({r}, *linalg.lu_factor({m}))  linalg.ldl_factor({e})  linalg.ldl_factor_ex({e})
linalg.ldl_solve(*linalg.ldl_factor({e}), {r})  linalg.solve({m}, {r})  linalg.solve_ex({m}, {r})
linalg.solve_triangular({m}, {r}, upper=True)  triangular_solve({r}, {m})  linalg.qr({m})  qr({m})  geqrf({m})
linalg.householder_product(*geqrf({m}))  orgqr(*geqrf({m}))  ormqr(*geqrf({m}), {r})  linalg.eigh({e})[0]  linalg.eigvalsh({e})
linalg.eig({m})[0].abs().sort()[0]  linalg.eigvals({m}).abs().sort()[0]  linalg.svd({m})[1]  linalg.svdvals({m})  svd({m})[1]
linalg.pinv({m})  pinverse({m})  linalg.matrix_rank({m})  linalg.cond({m})  linalg.lstsq({m}, {r})[0]  linalg.matrix_power({m}, 3)
matrix_power({m}, -2)  linalg.matrix_exp({e} * 0.1)  matrix_exp({e} * 0.1)  linalg.matrix_norm({m}, 'nuc')  linalg.matrix_norm({m}, 2)
"""
OTHER_LINEAR = """
linalg.tensorinv(matrix.reshape(10, n // 50, n // 5))
linalg.tensorsolve(matrix.reshape(10, n // 50, n // 5), right[0].reshape(10, n // 50))
linalg.vander(row, N=n // 5)  vander(row, n // 5)  svd_lowrank(right)[1]  pca_lowrank(right)[1]  linalg.diagonal(x).clone()
"""
FOURIER = """
fft.fft(long_rows)  fft.ifft(long_rows)  fft.fft(double_rows)  fft.ifft(double_rows)  fft.fft(prime_rows)  fft.rfft(odd_rows)
fft.fft(odd_rows)  fft.irfft(long_rows, 1025)  fft.irfft(double_rows, 2046)  fft.fft(wave)  fft.ifft(wave)  fft.rfft(vector)
fft.rfft(x[:, :512])  fft.fft(z[:, :256])  fft.fft(z[:, :400])  fft.fft(x[:64, :64])  fft.fft(x, dim=0)
fft.fft(x)  fft.fft(vector)  fft.ifft(z)  fft.rfft(x)  fft.irfft(spectra)  fft.hfft(spectra)  fft.ihfft(x)  fft.fft2(x)  fft.ifft2(z)
fft.rfft2(x)  fft.irfft2(spectra)  fft.hfft2(spectra)  fft.ihfft2(x)  fft.fftn(x)  fft.ifftn(z)  fft.rfftn(x)  fft.irfftn(spectra)
fft.hfftn(spectra)  fft.ihfftn(x)  fft.fftshift(x)  fft.ifftshift(x)  stft(signal, 400, window=window, return_complex=True)
istft(stft(signal, 400, window=window, return_complex=True), 400, window=window)
"""
PLACES = """
gather(x, 1, order)  gather(x, 0, order)  scatter(x, 1, order.sort(1)[0] * 0 + rows, y)  scatter_add(x, 1, order, y)
scatter_reduce(x, 1, order, y, 'amax')  scatter_reduce(x, 0, order, y, 'mean')  index_select(x, 0, rows)  index_select(x, 1, rows)
index_copy(x, 0, rows.sort()[0] * 0 + torch.arange(len(rows)), y)  index_fill(x, 0, rows, 1.0)  index_add(x, 0, rows, y)
index_add(x, 1, rows, y)  index_reduce(x, 0, rows, y, 'amax')  take(x, places)  take_along_dim(x, order, 1)  put(x, places, vector, True)
index_put(x, (rows, rows), row, True)  masked_fill(x, mask, 0.0)  masked_select(x, mask)  masked_scatter(x, mask, y)  where(mask, x, y)
nonzero(mask)  argwhere(mask)  nonzero_static(mask, size=n)  select_scatter(x, row, 0, 1)  slice_scatter(x, y[:10], 0, 0, 10)
diagonal_scatter(x, row)  as_strided_scatter(x, row, (len(row),), (1,))  roll(x, 3, 1)  roll(x, 3, 0)  rot90(x)  flip(x, (0,))
flip(x, (0, 1))  fliplr(x)  flipud(x)  tile(x, (2, 2))  repeat_interleave(x, 2, 1)  repeat_interleave(row, lengths)  tril(x)  triu(x)
tril_indices(n, n)  triu_indices(n, n)  diag_embed(row)  diag(row)  diagflat(row)  diag(x)  unravel_index(places, (n, n))
segment_reduce(vector, 'sum', lengths=lengths)  embedding(words, tokens)  F.embedding(tokens, words)  F.embedding_bag(tokens, words)
F.one_hot(labels, n)  x[order[0]]  x[:, rows]  x[mask]  x[rows, rows]
"""
JOINING = """
cat([x, y])  cat([x, y], 1)  stack([x, y])  stack([x, y], 2)  hstack([x, y])  vstack([x, y])  dstack([x, y])  column_stack([x, y])
block_diag(right, tall)  meshgrid(row, column, indexing='ij')[0].contiguous()  cartesian_prod(row, column)  combinations(row)  clone(x)
F.pad(x, (1, 1))  F.pad(images, (2, 2, 2, 2), 'reflect')  F.pad(images, (2, 2, 2, 2), 'replicate')  F.pad(images, (2, 2, 2, 2), 'circular')
constant_pad_nd(x, (1, 1), 2.0)  x.t().contiguous()  x.to(torch.float64)  x.to(torch.int64)  long.to(torch.float32)  x.to(torch.bfloat16)
pixel_shuffle(images, 4)  pixel_unshuffle(images, 4)  channel_shuffle(images, 4)  F.pixel_shuffle(images, 2)  F.pixel_unshuffle(images, 2)
F.channel_shuffle(images, 2)  conj(z).clone()  conj_physical(z)  real(z).clone()  imag(z).clone()  narrow_copy(x, 1, 10, n // 2)
transpose_copy(x, 0, 1)  unfold_copy(x, 1, 4, 2)  expand_copy(row, (n, n))  permute_copy(images, (0, 2, 3, 1))
view_as_real_copy(z)  diagonal_copy(x)  slice_copy(x, 1, 0, n, 2)
"""
CREATION = """
zeros(n, n)  ones(n, n)  full((n, n), 2.0)  zeros_like(x)  ones_like(x)  full_like(x, 2.0)  eye(n)
arange(n * n)  arange(0.0, n * 1.0, 1.0 / n)  linspace(0, 1, n * n)  logspace(0, 1, n * n)  rand(n, n)  randn(n, n)
rand_like(x)  randn_like(x)  randint(n, (n, n))  randint_like(x, n)  randperm(n * n)  normal(x, positive)  bernoulli(share)
poisson(positive)  multinomial(share, 10, True)  hann_window(n * n)  hamming_window(n * n)  blackman_window(n * n)
bartlett_window(n * n)  kaiser_window(n * n)  fft.fftfreq(n * n)  fft.rfftfreq(n * n)  fill(x, 2.0)
"""
LAYERS = """
softmax(x, 1)  softmax(x, 0)  log_softmax(x, 1)  F.softmax(x, 1)  F.softmin(x, 1)  F.log_softmax(x, 1)  F.glu(x)  F.prelu(x, row)
F.threshold(x, 0.1, 1.0)  F.normalize(x)  F.layer_norm(x, row.shape, row, column)  layer_norm(x, row.shape)  F.rms_norm(x, row.shape)
rms_norm(x, row.shape)  F.group_norm(images, 4)  group_norm(images, 4)  F.batch_norm(images, None, None, scales, scales, True)
batch_norm(images, scales, scales, scales, scales, False, 0.1, 1e-5, False)  F.instance_norm(images)  F.local_response_norm(images, 5)
conv1d(flat_images, flat_filters)  conv2d(images, filters)  conv3d(volumes, deep_filters)  conv_transpose1d(flat_images, flat_filters)
conv_transpose2d(images, filters)  conv_transpose3d(volumes, deep_filters)  F.unfold(images, 3)
F.fold(patches, (n // 20 + 6, n // 20 + 6), 3)
F.max_pool1d(flat_images, 2)  F.max_pool2d(images, 2)  F.max_pool3d(volumes, 2)  F.max_pool2d(images, 3, 1)
F.max_pool2d_with_indices(images, 2)  F.avg_pool1d(flat_images, 2)  F.avg_pool2d(images, 2)  F.avg_pool3d(volumes, 2)
F.adaptive_avg_pool1d(flat_images, 7)  F.adaptive_avg_pool2d(images, 7)  F.adaptive_avg_pool3d(volumes, 7)
F.adaptive_max_pool1d(flat_images, 7)  F.adaptive_max_pool2d(images, 7)  F.adaptive_max_pool3d(volumes, 7)  F.lp_pool1d(flat_images, 2, 2)
F.lp_pool2d(images, 2, 2)  F.lp_pool3d(volumes, 2, 2)  F.max_unpool2d(*F.max_pool2d_with_indices(images, 2), 2)
F.fractional_max_pool2d(images, 2, output_ratio=(0.5, 0.5))  F.dropout(x, 0.1)  F.alpha_dropout(x, 0.1)  F.dropout2d(images, 0.1)
dropout(x, 0.1, True)
"""
LOSSES = """
F.mse_loss(x, y)  F.l1_loss(x, y)  F.smooth_l1_loss(x, y)  F.huber_loss(x, y)  F.binary_cross_entropy(share, share)
F.binary_cross_entropy_with_logits(x, share)  F.kl_div(x, share, reduction='batchmean')  F.poisson_nll_loss(x, positive)
F.gaussian_nll_loss(x, y, positive)  F.soft_margin_loss(x, signs)  F.nll_loss(x, labels)  F.cross_entropy(x, labels)
F.multi_margin_loss(x, labels)  F.multilabel_margin_loss(tall, order[:n // 5, :n // 10] % (n // 10))
F.multilabel_soft_margin_loss(x, share)
F.margin_ranking_loss(x, y, signs)  F.hinge_embedding_loss(x, signs)  F.cosine_embedding_loss(x, y, row_signs)
F.triplet_margin_loss(x, y, positive)
F.ctc_loss(log_shares, spoken, [100] * len(spoken), [20] * len(spoken))
"""
RESAMPLING = """
F.interpolate({i}, scale_factor=2)  F.interpolate({i}, scale_factor=0.5)  F.interpolate({i}, scale_factor=2, mode='nearest-exact')
F.interpolate({i}, scale_factor=2, mode='bilinear')  F.interpolate({i}, scale_factor=1.7, mode='bilinear', align_corners=True)
F.interpolate({i}, scale_factor=0.5, mode='bilinear')  F.interpolate({i}, scale_factor=0.5, mode='bilinear', antialias=True)
F.interpolate({i}, scale_factor=2, mode='bicubic')  F.interpolate({i}, scale_factor=0.5, mode='bicubic', antialias=True)
F.interpolate({i}, scale_factor=0.5, mode='area')  F.interpolate({f}, scale_factor=2)  F.interpolate({f}, scale_factor=2, mode='linear')
F.interpolate({v}, scale_factor=2)  F.interpolate({v}, scale_factor=2, mode='trilinear')  F.grid_sample({i}, {g}, align_corners=False)
F.grid_sample({i}, {g}, 'nearest', align_corners=False)  F.grid_sample({i}, {g}, 'bicubic', align_corners=False)
F.grid_sample({i}, {g}, padding_mode='border', align_corners=True)
F.grid_sample({i}, {g}, padding_mode='reflection', align_corners=False)  F.grid_sample({v}, {w}, align_corners=False)
F.affine_grid({t}, (8, 3, 2 * n // 5, 2 * n // 5), align_corners=False)
""".format(i="images", f="flat_images", v="volumes", g="grid", w="volume_grid", t="theta")

_SINGLE = {"m": "matrix", "p": "definite", "e": "even", "r": "right", "unit": "0.035"}  # matrix * unit: a determinant that float32 has
_BATCH = {"m": "small", "p": "small_definite", "e": "small_even", "r": "other_small", "unit": "1.0"}
BACKWARD_CUMULATIVE = """
cumsum(x, 1)  cumprod(near_one, 1)  cummax(x, 1)[0]  logcumsumexp(x, 1)  sort(x, dim=1, stable=True)[0]  topk(x, 10)[0]
kthvalue(x, n // 10)[0]  median(x, 1)[0]  gather(x, 1, order)  scatter_add(x, 1, order, y)  index_select(x, 1, rows)
index_add(x, 0, rows, y)  masked_select(x, mask)  cdist(points, other_points)  F.unfold(images, 3)  F.pad(images, (2, 2, 2, 2), 'reflect')
F.max_pool2d(images, 3, 1)  roll(x, 3, 1)  cat([x, y])  flip(x, (0,))  var(x, 1)  prod(near_one, 1)  amax(x, 1)  logsumexp(x, 1)
F.softmax(x, 1)  F.nll_loss(x, labels)
"""
BACKWARD_LINEAR = """
linalg.inv({m})  linalg.det({m} * {unit})  linalg.slogdet({m})[1]  linalg.cholesky({p})  linalg.solve({m}, {r})  linalg.qr({m})[0]
linalg.eigh({e})[0]  linalg.svd({m})[1]  linalg.svdvals({m})  linalg.pinv({m})  linalg.matrix_exp({e} * 0.1)
linalg.solve_triangular({m}, {r}, upper=True)
"""

SPARSE = """
sparse.mm(coo_graph, features)  coo_graph @ features  sparse.mm(csr_graph, features)  csr_graph @ features
sparse.mm(csr_filled, x)  csr_filled @ x
"""
BACKWARD_SPARSE = SPARSE + "sparse.mm(coo_weights, features)  sparse.mm(csr_weights, features)"

ELEMENTWISE = "element by element"
MORE_ELEMENTWISE = """
clamp(x, -0.5, 0.5)  frexp(x)  isclose(x, y)  polygamma(2, positive)  mvlgamma(positive + 2, 2)  threshold(x, 0.1, 1.0)
x + row  x.t() + y  x * 2.5  x > y  x.add(long)  x.pow(2)  x.pow(2.5)
"""
POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
)

GROUPS: dict[str, str] = {
    "element by element, more": MORE_ELEMENTWISE + "\n".join(f"special.{name}(share, 5)" for name in POLYNOMIALS.split()),
    "reduction": REDUCTION,
    "sorting and searching": SORTING,
    "cumulative": CUMULATIVE,
    "products": PRODUCTS,
    "linear algebra": LINEAR.format(**_SINGLE) + OTHER_LINEAR,
    "linear algebra of batches": LINEAR.format(**_BATCH),
    "fourier": FOURIER,
    "places": PLACES,
    "joining and copies": JOINING,
    "creation and random numbers": CREATION,
    "layers": LAYERS,
    "losses": LOSSES,
    "resampling": RESAMPLING,
    "sparse products": SPARSE,
    "backward": BACKWARD_CUMULATIVE,
    "backward of resampling": RESAMPLING,
    "backward of linear algebra": BACKWARD_LINEAR.format(**_SINGLE) + BACKWARD_LINEAR.format(**_BATCH),
    "backward of sparse products": BACKWARD_SPARSE,
}
# Operations without rows, by the reason, as a regular expression of their names.
EXCLUDED: dict[str, str] = {
    "views, and questions about a tensor": r"""positive|resolve_\w+|broadcast_\w+|reshape|flatten|ravel|unflatten|movedim|adjoint|
        atleast_\dd|
        select|narrow|([hvd]|tensor_|unsafe_)?(split|chunk)(_with_sizes)?(_copy)?|unbind|as_strided|detach_?|numel|is_\w+|get_device|
        result_type|equal|allclose|alias_copy|detach_copy|as_strided_copy|select_copy|squeeze_copy|t_copy|unbind_copy|unsqueeze_copy|
        view_as_complex_copy|view_copy|Tensor\.(view|reshape|permute|expand|narrow|split|as_strided_|is_set_to|set_|record_stream)\w*""",
    "conversions, measured as x.to(...)": r"""(as_)?tensor|asarray|from_\w+|frombuffer|to_dlpack|scalar_tensor|
        Tensor\.(to|cpu|cuda|type|type_as|new|new_\w+|pin_memory|contiguous)""",
    "memory that nobody writes": r"empty\w*|resize_as_|Tensor\.resize_?",
    "settings and states": r"[gs]et_\w+|manual_seed|seed|initial_seed",
    "another spelling of what has a row": r"""range|bilinear|pairwise_distance|cosine_similarity|convolution|prelu|
        special\.(logsumexp|round)|
        (nn\.functional\.)?conv(_transpose)?\dd|(adaptive_)?(max|avg)_pool\dd|instance_norm|ctc_loss|native_channel_shuffle|
        grid_sampler\w*|affine_grid_generator|nn\.functional\.(\w+_with_indices|upsample\w*|triplet_margin_with_distance_loss)|
        Tensor\.(where|repeat|tile|flip|sum_to_size)|(native_)?dropout|(feature_|alpha_|feature_alpha_)?dropout_?|
        nn\.functional\.(feature_alpha_dropout|dropout[13]d|max_unpool[13]d|fractional_max_pool3d)""",
    "old names of what has a row": r"solve|gesv|trtrs|lstsq|gels|po(tr[fis]|strf)|pstrf|btri\w+|symeig|eig",
    "in place, of what has a row": r"copy|zero|index_put_|embedding_renorm_|Tensor\.(scatter_\w*|index_\w+_|fill_diagonal_|\w+(?<!_copy)_)",
    "a Python function for each element": r"Tensor\.(apply_|map_)",
    "other random numbers for each element than PyTorch's": r"rrelu_?|nn\.functional\.(rrelu|gumbel_softmax)|binomial",
    "an iteration of what has rows, from random numbers": "lobpcg",
    "sparse tensors beside products with dense matrices": r"""sparse_\w+|resize_as_sparse_|smm|spmm|hspmm|sspaddmm|saddmm|
        (indices|values|c?(row|col)_indices|crow_indices|ccol_indices)_copy|
        sparse\.(?!mm$)\w+""",
    "quantised tensors": r"fake_quantize_\w+|dequantize|int_repr|q_\w+",
    "methods: views, conversions, questions, and what has a row as a function": r"Tensor\.\w+",
    "PyTorch's internal names of what has a row": r"""ops\..*|native_(layer|group|batch)_norm|batch_norm_update_stats|frobenius_norm|
        nuclear_norm|matrix_rank|embedding_bag|binary_cross_entropy_with_logits|kl_div|poisson_nll_loss|(hinge|cosine)_embedding_loss|
        margin_ranking_loss|triplet_margin_loss|max_pool1d_with_indices|slice_inverse|as_strided_|(nn\.functional\.)?conv_tbc""",
    "measured by another benchmark": r"""lstm|gru|rnn_\w+|lstm_cell|gru_cell|nn\.functional\.(multi_head_attention_forward|
        linear_cross_entropy)""",
}


# Singular values that lie close together: PyTorch's float32 derivatives are off by 2.6e-4 of the largest one, flambeau's by 1.2e-4.
ATOL = {("backward of linear algebra", f"linalg.{row}"): 5e-4 for row in ("svd(matrix)[1]", "svdvals(matrix)")}

# Why operations take longer than PyTorch's: regular expressions of the rows by what is said about them. Others have not been looked into.
REASONS: dict[str, str] = {
    "Python's part of a call, beside microseconds of work": r"""
        linalg\.diagonal\(.*|block_diag\(.*|diagonal_copy.*|x\[rows,\ rows\]|F\.nll_loss.*|trace.*|(svd|pca)_lowrank.*""",
    "NumPy's LAPACK, OpenBLAS, matrix by matrix, where PyTorch has MKL's": r"""(linalg\.)?(
        eigh?|eigvalsh?|svd|svdvals|cond|matrix_rank|matrix_norm|pinv|pinverse|ldl_\w+)\(.*""",
    "one thread factors a matrix of 200 rows": r"""(linalg\.)?(
        geqrf|qr|cholesky\w*|lu_factor\w*|logdet|s?l?o?g?det|inv|inv_ex|inverse|solve|solve_ex|lstsq|matrix_power)\((matrix|definite).*|
        linalg\.tensor(inv|solve)\(.*|(linalg\.)?(lu_solve|orgqr|ormqr|householder_product)\(.*""",
    "computed in float64 and rounded once, where PyTorch computes in float32": r"""(linalg\.)?matrix_exp\(.*|(special\.)?(
        i[01]e?|erfinv|ndtri|lgamma|digamma|bessel_[jy][01]|airy_ai|log_ndtr|erfcx|(scaled_)?modified_bessel_\w+)(\(.*)?""",
    "passes over a few megabytes, hundredths of a millisecond, as quick as memory": r"""
        addcmul|clamp_max|special\.round|nan_to_num|angle|rad2deg|(ones|zeros|full)(_like)?\(.*|fill\(.*|outer\(.*|addr\(.*|
        F\.prelu\(.*|relu|addcdiv|(nn\.functional\.)?hardswish|
        bitwise_and|clamp_min|complex|flip(lr|ud)\(.*|roll\(.*|eye\(.*|
        flip\(.*|rot90\(.*|slice_scatter\(.*|constant_pad_nd\(.*|diag(flat|_embed)?\(row\)|v?dot\(.*|
        index_select\(x,\ 0,\ rows\)|var\(x,\ 1\)|
        (topk\(x,\ 10|kthvalue\(x,\ n\ //\ 10|median\(x,\ 1)\)\[0\]""",
    "conjugated by a copy, where PyTorch notes it down": r"conj\(z\)\.clone\(\)",
    "one thread of NumPy's": r"""isreal|arange\(.*|unique\(long_vector.*|linalg\.matmul\(small,\ vectors.*|
        kthvalue\(vector.*|topk\(vector.*|index_put\(.*""",
    "several passes, where PyTorch has one loop": r"""lu_unpack\(.*|linalg\.lu\(.*|
        (linalg\.)?(solve_triangular|triangular_solve)\(.*|vander\(.*|cov\(.*|corrcoef\(.*|x\.t\(\)\ \+\ y|
        gradient\(.*|scatter_reduce\(x,\ 0,.*mean.*|F\.cosine_embedding_loss\(.*|F\.grid_sample\(.*reflection.*|
        repeat_interleave\(.*""",
    "longer polynomials, for smaller errors": "erfc|tan",
    "as quick in another run, PyTorch's own time varying by two": r"sort\((long|wide)_vector\)\[0\]",
    "element by element, each index checked": r"gather\(.*|scatter_add\(.*|index_(select|add)\(x,\ 1,.*",
    "whole rows are sorted": r"topk\(x,\ n\ //\ 10\)",
    "tables of the transposed resampling are made in each call, and the dimensions are done one after the other": r"F\.interpolate\(.*",
}


def _expressions(text: str) -> list[str]:
    """The rows of a table: two spaces, or the end of a line, lie between them."""
    return [row for line in text.split("\n") for row in re.split(r"  +", line.strip()) if row]


def operation_of(expression: str) -> str:
    """The name of the operation that an expression begins with; empty where that is a method or an index of an operand."""
    name = re.match(r"[\w.]+", expression)[0]  # type: ignore[index]
    return "" if name.split(".")[0] in OPERANDS else re.sub(r"^F\.", "nn.functional.", name)


def builder(expression: str, is_backward: bool) -> Callable[[ModuleType], Timed]:
    names = [name for name in dict.fromkeys(re.findall(r"\b[a-z_]+\b", expression)) if name in OPERANDS]
    code = re.sub(r"(?<![\w.])F\.", "torch.nn.functional.", expression)
    called = [word for word in re.findall(r"(?<![\w.])([a-z]\w*)(?=[.(])", code) if word not in {*OPERANDS, "torch", "len"}]
    for word in dict.fromkeys(called):
        code = re.sub(rf"(?<![\w.]){word}(?=[.(])", f"torch.{word}", code)
    row = eval(f"lambda torch, n, {', '.join(names)}: {code}")

    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        values = [OPERANDS[name](source) for name in names]
        if not is_backward:
            return partial(row, torch, SIDE, *values)
        inputs = [value for name, value in zip(names, values) if value.dtype.is_floating_point and name not in CONSTANT]
        return comparison.backward(lambda torch, *values: row(torch, SIDE, *values), torch, values, inputs, source)

    return build


class _LargeMaker:
    """Operands of a record's sample at their full size, whatever shape the record asks for."""

    def __init__(self, dtype: str, name: str) -> None:
        from tests.records.record import Maker

        self._maker = Maker(dtype, name)

    def __call__(self, *shape: int, **options: Any) -> Any:
        return self._maker(SIDE, SIDE, **options)


def _attribute(torch: ModuleType, dotted: str) -> Any:
    value: Any = torch
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


def _elementwise_builder(name: str, dtype: str) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        from tests.records import RECORDS

        sample = RECORDS[name].samples(_LargeMaker(dtype, name))[0]  # type: ignore[arg-type, index]
        return partial(_attribute(torch, name), *(torch.from_numpy(array).clone() for array in sample.args), **sample.kwargs)

    return build


def _elementwise_cases() -> Iterator[Case]:
    """The first sample of every element-wise record, in float32 where that is accepted."""
    from tests.records import RECORDS

    for name, record in RECORDS.items():
        if record.elementwise and hasattr(record.samples, "count"):
            dtypes = [dtype for dtype in ("float32", "int64", "complex64") if dtype in record.dtypes and record.rejection(dtype, 0) is None]
            if dtypes:
                yield Case(name, ELEMENTWISE, _elementwise_builder(name, dtypes[0]))


def make_cases() -> list[Case]:
    rows = [
        Case(expression, group, builder(expression, group.startswith("backward")), atol=ATOL.get((group, expression), 1e-4))
        for group, text in GROUPS.items()
        for expression in _expressions(text)
    ]
    return [*_elementwise_cases(), *rows]


def __getattr__(name: str) -> Any:
    """``CASES``, made when asked for: records import NumPy, which reads its number of threads then."""
    if name != "CASES":
        raise AttributeError(name)
    cases = globals()["CASES"] = make_cases()
    return cases


def _named(outcomes: list[Outcome], least: float, most: float) -> str:
    chosen = sorted((o for o in outcomes if o.seconds and least < o.ratio <= most), key=lambda o: -o.ratio)
    return ", ".join(f"{o.ratio:.1f} `{o.case.name}`{' *' if o.disturbance else ''} ({o.case.group})" for o in chosen) or "none"


def reasons(outcomes: list[Outcome]) -> str:
    """Why the operations above the lower bound are slower, one paragraph."""
    rows = dict.fromkeys(o.case.name for o in outcomes if o.seconds and o.ratio > SLOWER)
    said: dict[str, list[str]] = {}
    for row in rows:
        reason = next((reason for reason, names in REASONS.items() if re.fullmatch(names, row, re.VERBOSE)), "not looked into")
        said.setdefault(reason, []).append(f"`{row}`")
    return "Why: " + ("; ".join(f"{reason}: {', '.join(names)}" for reason, names in said.items()) or "none") + "."


def summary(outcomes: list[Outcome]) -> str:
    """Geometric means by group and over all, the operations above the two bounds, and why they are."""
    groups = dict.fromkeys(outcome.case.group for outcome in outcomes)
    rows = []
    for group in groups:
        chosen = [o for o in outcomes if o.case.group == group and o.seconds]
        if chosen:
            rows.append([group, str(len(chosen)), mean_ratio(chosen), f"{max(o.ratio for o in chosen):.2f}"])
    rows.append(["all", str(sum(bool(o.seconds) for o in outcomes)), mean_ratio(outcomes), ""])
    return "\n\n".join(
        [
            table(["group", "cases", "geometric mean", "largest"], rows),
            f"Above {SLOWEST:g}: {_named(outcomes, SLOWEST, float('inf'))}.",
            f"Above {SLOWER:g}: {_named(outcomes, SLOWER, SLOWEST)}.",
            reasons(outcomes),
            *problems(outcomes),
        ]
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    comparison.add_arguments(parser)
    parser.set_defaults(rounds=3, milliseconds=10.0)
    parser.add_argument("--all", action="store_true", help="print each case's times, too")


def main(options: argparse.Namespace) -> int:
    import benchmarks.ops as this

    outcomes = run_cases(__name__, this.CASES, options)
    if options.all:
        print(comparison.summary(outcomes), end="\n\n")
    text = summary(outcomes)
    print(text)
    if options.write:
        write_section(options.name, f"{described(options)}\n\n{text}")
    return int(any(outcome.problem for outcome in outcomes))
