"""Gradients of low rank: matrices are sent as two thin factors. Source: torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.

Vogels, Karimireddy and Jaggi 2019, PowerSGD: for a gradient M (n x m) and the factor Q (m x r) of the step before

    P = mean of M Q over the ranks, made orthonormal;   Q = mean of M' P;   the gradient is P Q'

and what P Q' left out of this rank's M is added to its next M.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from .... import ops
from ....core.tensor import Tensor
from ....facades.futures import Future
from ....ops.linalg.decompositions import qr
from ...grad_bucket import GradBucket
from ._deferred import Deferred, group_of, mean_of, work_of

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

logger = logging.getLogger(__name__)


def _orthogonalize(matrices: Tensor, epsilon: float = 0) -> None:
    """Make the columns of ``(b, n, r)`` orthonormal, in place: by QR; with ``epsilon`` one after the other (Gram and Schmidt)."""
    if not epsilon:
        matrices.copy_(qr(matrices if matrices.element_size() > 2 else matrices.float())[0])
        return
    for column in range(matrices.shape[2]):
        this = matrices[:, :, column : column + 1]
        norm = this.norm(dim=1, keepdim=True)
        this /= norm + epsilon
        if column + 1 < matrices.shape[2]:
            rest = matrices[:, :, column + 1 :]
            rest -= (this * rest).sum(1, keepdim=True) * this


class PowerSGDState:
    """Things that :func:`powerSGD_hook` keeps between steps.

    Args:
        process_group: the processes; all when None.
        matrix_approximation_rank: columns of the factors, ``r``.
        start_powerSGD_iter: number of first iterations that send gradients whole; at least 2 with ``use_error_feedback`` or
            ``warm_start``, as DDP cuts its buckets anew after the first.
        min_compression_rate: a matrix is sent as factors if it has this many times their elements.
        use_error_feedback: whether what was left out is added to the next gradient.
        warm_start: whether the factor of the step before is the next one's start; else a random one.
        orthogonalization_epsilon: added to norms.
        random_seed: of random factors, the same on all ranks.
        compression_stats_logging_frequency: number of iterations between reports to the log.
        batch_tensors_with_same_shape: whether matrices of one shape are multiplied together.
    Raises:
        ValueError: ``start_powerSGD_iter`` is too small.
    Source: torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState.
    Example:
        >>> PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10).compression_stats()
        (0, 0, 0)
    """

    def __init__(
        self, process_group: Any, matrix_approximation_rank: int = 1, start_powerSGD_iter: int = 1_000, min_compression_rate: float = 2,
        use_error_feedback: bool = True, warm_start: bool = True, orthogonalization_epsilon: float = 0, random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000, batch_tensors_with_same_shape: bool = False,
    ) -> None:  # fmt: skip
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only be applied "
                "after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.p_memory_dict: dict[int, Any] = {}
        self.q_memory_dict: dict[int, Any] = {}
        self.iter = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def __getstate__(self) -> dict[str, Any]:
        logger.warning("NOTE: Process group is not serializable and excluded from a saved state.")
        return {name: value for name, value in self.__dict__.items() if name != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from .... import distributed

        self.process_group = distributed.group.WORLD
        logger.warning("NOTE: Process group will be set to a default group (i.e. the world size).")
        self.__dict__.update(state)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_powerSGD_iter:
                logger.info("Start to apply PowerSGD after %s iterations.", self.iter)

    def compression_stats(self) -> tuple[float, int, int]:
        """The ratio of elements before compression to those after it, and both."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after > 0 else 0), before, after

    def _report(self, bucket: GradBucket) -> None:
        if bucket.is_last() and self.iter >= self.next_stats_report:
            logger.info("Compression stats: iter %s, rate %s, elements before %s, after %s", self.iter, *self.compression_stats())
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency

    def _starts(self) -> Callable[[tuple[int, ...], Tensor], Tensor]:
        """A function that makes a bucket's random factors with orthonormal columns, the same on all ranks, all from one seed."""
        generator = cache(lambda: _generator(self.rng.randint(1_000_000_000)))

        def start(shape: tuple[int, ...], like: Tensor) -> Tensor:
            factor = ops.randn(shape, generator=generator(), dtype=like.dtype).to(like.device)
            _orthogonalize(factor, self.orthogonalization_epsilon)
            return factor

        return start

    def _error_feedback(self, bucket: GradBucket, buffer: Tensor) -> Tensor | None:
        """Add what the step before left out; a copy of the sum, of which the approximation will be subtracted."""
        if not self.use_error_feedback:
            return None
        left = self.error_dict.get(bucket.index())
        if left is not None and left.shape == buffer.shape:
            buffer.add_(left)
        return buffer.clone()


def _generator(seed: int) -> Any:
    """A generator of this seed."""
    from ....core.random.generator import Generator

    generator = Generator()
    generator.manual_seed(seed)
    return generator


class _Factors:
    """Matrices of one shape ``(b, n, m)`` with their factors ``(b, n, r)`` and ``(b, m, r)``."""

    def __init__(self, state: PowerSGDState, key: Any, tensors: list[Tensor], matrices: Tensor, start: Callable[..., Tensor]) -> None:
        self.state, self.key, self.tensors, self.matrices = state, key, tensors, matrices
        batch, n, m = matrices.shape
        rank = min(n, m, state.matrix_approximation_rank)
        kept = state.q_memory_dict.get(key) if state.warm_start else None
        if kept is not None and kept.shape == (batch, m, rank):
            self.right = kept
            _orthogonalize(self.right, state.orthogonalization_epsilon)
        else:
            self.right = start((batch, m, rank), matrices)
        self.left = matrices @ self.right

    @property
    def numel(self) -> int:
        return self.left.numel() + self.right.numel()

    def turn(self) -> None:
        """The second factor of the averaged first one."""
        _orthogonalize(self.left, self.state.orthogonalization_epsilon)
        self.right = self.matrices.transpose(1, 2) @ self.left

    def write(self) -> None:
        """Write the product of the averaged factors into the gradients."""
        if self.state.warm_start:
            self.state.q_memory_dict[self.key], self.state.p_memory_dict[self.key] = self.right, self.left
        product = self.left @ self.right.transpose(1, 2)
        for tensor, part in zip(self.tensors, product):
            tensor.copy_(part.reshape(-1)[: tensor.numel()].reshape(tensor.shape))


def _summed(group: Any, tensors: Iterable[Tensor]) -> tuple[Any, Tensor, list[Tensor]]:
    """The work of summing tensors, as one vector."""
    parts = list(tensors)
    flat = ops.cat([part.reshape(-1) for part in parts])
    return work_of(group, flat), flat, parts


def _take(flat: Tensor, parts: Iterable[Tensor], size: int) -> None:
    """Write the mean back."""
    flat /= size
    start = 0
    for part in parts:
        part.copy_(flat[start : start + part.numel()].reshape(part.shape))
        start += part.numel()


def _exchange(state: PowerSGDState, buffer: Tensor, plain: list[Tensor], factors: list[_Factors]) -> Future[Tensor]:
    """Start the exchange of uncompressed gradients and first factors; the rest follows when the result is waited for."""
    from .... import distributed as dist

    group = group_of(state.process_group)
    size = dist.get_world_size(group)
    state.total_numel_before_compression += buffer.numel()
    state.total_numel_after_compression += sum(tensor.numel() for tensor in plain) + sum(each.numel for each in factors)
    work, flat, parts = _summed(group, [*plain, *(each.left for each in factors)])

    def finish() -> Tensor:
        work.wait()
        _take(flat, parts, size)
        if factors:
            for each in factors:
                each.turn()
            second, flat_right, right = _summed(group, [each.right for each in factors])
            second.wait()
            _take(flat_right, right, size)
            for each in factors:
                each.write()
        return buffer

    return Deferred(finish)


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket, each matrix in it as two thin factors.

    Args:
        state: what is kept between steps.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages.
    Source: torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.powerSGD_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> powerSGD_hook(PowerSGDState(None), bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return mean_of(group_of(state.process_group), buffer)
    whole = state._error_feedback(bucket, buffer)
    plain: list[Tensor] = []
    by_shape: dict[tuple[int, int], list[Tensor]] = {}
    start = 0
    for gradient in bucket.gradients():
        tensor = buffer[start : start + gradient.numel()].view(gradient.shape)
        start += gradient.numel()
        n, m = (tensor.shape[0], tensor.numel() // tensor.shape[0]) if tensor.dim() > 1 else (tensor.numel(), 1)
        rank = min(n, m, state.matrix_approximation_rank)
        if tensor.dim() > 1 and (n + m) * rank * state.min_compression_rate < n * m:
            by_shape.setdefault((n, m), []).append(tensor)
        else:
            plain.append(tensor)
    factors, start_of = [], state._starts()
    for (n, m), tensors in by_shape.items():
        batches = [tensors] if state.batch_tensors_with_same_shape else [[tensor] for tensor in tensors]
        for number, batch in enumerate(batches):
            matrices = ops.stack([tensor.reshape(n, m) for tensor in batch])
            factors.append(_Factors(state, (bucket.index(), n, m, number), batch, matrices, start_of))
    return _with_feedback(state, bucket, whole, _exchange(state, buffer, plain, factors))


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket, all of it as two thin factors of one square matrix: quicker than :func:`powerSGD_hook`, and coarser.

    Args:
        state: what is kept between steps.
        bucket: the gradients, in a vector ``(n,)``.
    Returns: a future of the averages.
    Source: torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.batched_powerSGD_hook.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> bucket = dist.GradBucket(0, torch.ones(4), [torch.ones(4)], [torch.zeros(4)], True)
        >>> batched_powerSGD_hook(PowerSGDState(None), bucket).wait()
        tensor([1., 1., 1., 1.])
        >>> dist.destroy_process_group()
    """
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return mean_of(group_of(state.process_group), buffer)
    whole = state._error_feedback(bucket, buffer)
    side = math.ceil(math.sqrt(buffer.numel()))
    square = ops.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
    square[: buffer.numel()] = buffer
    factors = [_Factors(state, (bucket.index(), side), [buffer], square.view(1, side, side), state._starts())]
    return _with_feedback(state, bucket, whole, _exchange(state, buffer, [], factors))


def _with_feedback(state: PowerSGDState, bucket: GradBucket, whole: Tensor | None, result: Future[Tensor]) -> Future[Tensor]:
    """Keep what the approximation left out, and count the iteration."""
    index = bucket.index()

    def keep(done: Future[Tensor]) -> Tensor:
        value = done.value()
        if whole is not None:
            state.error_dict[index] = whole - value
        return value

    state._report(bucket)
    state.maybe_increase_iter(bucket)
    return result.then(keep)
