"""Several processes by Apex's calls; today's are ``nn.parallel.DistributedDataParallel`` and ``nn.SyncBatchNorm``.

Source: apex.parallel, https://nvidia.github.io/apex/parallel.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import ref

from ... import distributed as dist, ops
from ...autograd.grad_mode import no_grad
from ...core.dtype import float32
from ...core.state import thread
from ...core.tape.node import AccumulateGrad
from ...core.tensor import Tensor
from ...nn import Module, SyncBatchNorm as _SyncBatchNorm

__all__ = ["DistributedDataParallel", "LARC", "Reducer", "SyncBatchNorm", "convert_syncbn_model", "create_syncbn_process_group"]

SyncBatchNorm = _SyncBatchNorm


class _Average:
    """A way to average gradients."""

    def __init__(self, average: bool, predivide: float, always_fp32: bool) -> None:
        self.average, self.predivide, self.always_fp32 = average, predivide, always_fp32

    def __call__(self, grads: Sequence[Tensor]) -> list[tuple[Any, Tensor, Sequence[Tensor]]]:
        """Begin; returns works with their vectors and what they are written to."""
        by_dtype: dict[Any, list[Tensor]] = {}
        for grad in grads:
            by_dtype.setdefault((grad.dtype, grad.device), []).append(grad)
        started: list[tuple[Any, Tensor, Sequence[Tensor]]] = []
        for group in by_dtype.values():
            flat = ops.cat([grad.reshape(-1) for grad in group])
            flat = flat.to(float32) if self.always_fp32 else flat
            if self.average and self.predivide != 1.0:
                flat /= self.predivide
            started.append((dist.all_reduce(flat, async_op=True), flat, group))
        return started

    def finish(self, started: Iterable[tuple[Any, Tensor, Sequence[Tensor]]]) -> None:
        """Wait, and write the averages."""
        for work, flat, group in started:
            work.wait()
            if self.average:
                flat *= self.predivide / dist.get_world_size()
            for grad, part in zip(group, flat.split([grad.numel() for grad in group])):
                grad.copy_(part.reshape(grad.shape))


class DistributedDataParallel(Module):
    """Averages gradients over all processes during backward passes, in messages of about ``message_size`` elements.

    Args:
        module: the module; its parameters become those of rank 0.
        message_size: elements of a message at least.
        delay_allreduce: average all gradients at the end of the pass, in one message.
        shared_param: not supported, as in Apex today.
        allreduce_trigger_params: parameters whose gradients start a message, in place of ``message_size``.
        retain_allreduce_buffers: not supported.
        allreduce_always_fp32: average in float32.
        num_allreduce_streams, allreduce_communicators: 1 and None: there are no streams.
        gradient_average: divide by the number of processes.
        gradient_predivide_factor: what of it to divide by before the sum.
        gradient_average_split_factor: not supported, as in Apex today.
        prof: has no effect: marks for NVIDIA's profiler.
    Attributes:
        module: the module, whose parameters have the prefix ``module.`` in ``state_dict``.
    Raises:
        ValueError: an option that Apex took away. NotImplementedError: one that is not supported.
    Source: apex.parallel.DistributedDataParallel.
    """

    module: Module

    def __init__(
        self, module: Module, message_size: int = 10_000_000, delay_allreduce: bool = False, shared_param: Any = None,
        allreduce_trigger_params: Sequence[Tensor] | None = None, retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1, allreduce_communicators: Any = None, gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0, gradient_average_split_factor: Any = None, prof: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if shared_param is not None:
            raise ValueError(
                "shared_param is no longer supported as an option.  It was misleadingly named from the start.  Use delay_allreduce=True."
            )
        if gradient_average_split_factor is not None:
            raise ValueError("gradient_average_split_factor has been renamed to gradient_predivide_factor.")
        if retain_allreduce_buffers or num_allreduce_streams != 1 or allreduce_communicators is not None:
            raise NotImplementedError(
                "apex.parallel.DistributedDataParallel: retained buffers, streams and communicators are not supported"
            )
        self.module, self.message_size, self.delay_allreduce = module, message_size, delay_allreduce
        self._triggers = None if allreduce_trigger_params is None else {id(param) for param in allreduce_trigger_params}
        self._average = _Average(gradient_average, gradient_predivide_factor, allreduce_always_fp32)
        self._started: list[Any] = []
        self._waiting: list[Tensor] = []
        self._pass: ref[Any] | None = None
        self.needs_reduction = True
        _take_from_rank_0([*module.parameters(), *module.buffers()])
        for param in module.parameters():
            if param.requires_grad:
                AccumulateGrad(param).register_hook(self._hook_of(param))

    def _hook_of(self, param: Tensor) -> Callable[..., None]:
        def hook(ins: Any, outs: Any) -> None:
            if not self.needs_reduction:
                return
            running = thread.running
            while running.outer is not None:
                running = running.outer
            if self._pass is None or self._pass() is not running:  # what a pass that failed left is dropped
                self._pass, self._started, self._waiting = ref(running), [], []
                running.at_end.append(self._finish)
            self._waiting.append(param)
            full = (
                sum(each.numel() for each in self._waiting) >= self.message_size if self._triggers is None else id(param) in self._triggers
            )
            if full and not self.delay_allreduce:
                self._start()

        return hook

    def _start(self) -> None:
        with no_grad():
            self._started += self._average([param.grad.detach() for param in self._waiting if param.grad is not None])
        self._waiting = []

    def _finish(self) -> None:
        with no_grad():
            if self._waiting:
                self._start()
            self._average.finish(self._started)
        self._started = []

    def enable_allreduce(self) -> None:
        """Average gradients from the next pass on. Source: apex.parallel.DistributedDataParallel."""
        self.needs_reduction = True

    def disable_allreduce(self) -> None:
        """Leave gradients on their ranks. Source: apex.parallel.DistributedDataParallel."""
        self.needs_reduction = False

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class Reducer:
    """Averages gradients when it is told to.

    Args:
        module_or_grads_list: a module, whose parameters become those of rank 0, or gradients.
    Source: apex.parallel.Reducer.
    """

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list if isinstance(module_or_grads_list, Module) else None
        self.grads = [] if self.module is not None else list(module_or_grads_list)
        if self.module is not None:
            _take_from_rank_0(list(self.module.parameters()))

    def reduce(self) -> None:
        """Average the gradients over all processes. Source: apex.parallel.Reducer.reduce."""
        grads = self.grads if self.module is None else [param.grad for param in self.module.parameters() if param.grad is not None]
        average = _Average(True, 1.0, False)
        with no_grad():
            average.finish(average([grad.detach() for grad in grads]))


class LARC:
    """Layer-wise rates around an optimizer: each parameter's is bounded by its norm over its gradient's.

    Args:
        optimizer: steps after its gradients were scaled.
        trust_coefficient: of the ratio of norms.
        clip: whether the rate is at most the optimizer's; else it is that times the ratio.
        eps: added to the denominator.
    Source: apex.parallel.LARC; You, Gitman and Ginsburg 2017.
    """

    def __init__(self, optimizer: Any, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8) -> None:
        self.optim, self.trust_coefficient, self.clip, self.eps = optimizer, trust_coefficient, clip, eps

    def __getattr__(self, name: str) -> Any:
        if name == "optim":
            raise AttributeError(name)
        return getattr(self.optim, name)

    def step(self) -> None:
        """Scale the gradients, decay included, and step."""
        decays = []
        with no_grad():
            for group in self.optim.param_groups:
                decay = group.get("weight_decay", 0)
                decays.append(decay)
                group["weight_decay"] = 0
                for param in group["params"]:
                    if param.grad is not None:
                        self._scale(param, decay, group["lr"])
        self.optim.step()
        for group, decay in zip(self.optim.param_groups, decays):
            group["weight_decay"] = decay

    def _scale(self, param: Any, decay: float, lr: float) -> None:
        norm, grad_norm = float(param.detach().norm()), float(param.grad.norm())
        if norm == 0 or grad_norm == 0:
            return
        rate = self.trust_coefficient * norm / (grad_norm + norm * decay + self.eps)
        param.grad.add_(param.detach(), alpha=decay).mul_(min(rate / lr, 1) if self.clip else rate)


def _take_from_rank_0(tensors: Iterable[Tensor]) -> None:
    for tensor in tensors:
        dist.broadcast(tensor.detach(), 0)


def convert_syncbn_model(module: Module, process_group: Any = None, channel_last: bool = False) -> Module:
    """A module with synchronized batch normalization in place of each other one. Source: apex.parallel.convert_syncbn_model.

    Args:
        module: changed in place, and returned.
        process_group: the processes that share statistics.
        channel_last: not supported.
    """
    if channel_last:
        raise NotImplementedError("convert_syncbn_model: channel_last=True is not supported")
    return SyncBatchNorm.convert_sync_batchnorm(module, process_group)


def create_syncbn_process_group(group_size: int) -> Any:
    """The group of this process, of ``group_size`` neighbours; None for 0: all. Source: apex.parallel.create_syncbn_process_group.

    Raises:
        ValueError: all processes cannot be divided into such groups.
    """
    if group_size == 0:
        return None
    size = dist.get_world_size()
    if size < group_size or size % group_size:
        raise ValueError(f"create_syncbn_process_group: expected a size that divides {size}, got {group_size}")
    return dist.new_subgroups(group_size)[0]
