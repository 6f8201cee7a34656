"""An optimizer that averages gradients. Source: horovod.torch.optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.tape.node import AccumulateGrad
from ...core.tensor import Tensor
from ...distributed._buckets import Bucket, cut
from . import world
from .compression import Compression
from .operations import Adasum, Average, Sum, started_reduction
from .stepwise import Stepwise

__all__ = ["DistributedOptimizer"]

_FUSED = 25 * 2**20  # bytes that are sent at once
_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). This is prohibited as "
    "it can cause a race condition."
)


class _Averages:
    """Reductions of an optimizer's gradients, begun during backward passes; mixed into the optimizer's class."""

    param_groups: list[dict[str, Any]]

    def _begin(self, compression: Any, passes: int, op: int, predivide: float) -> None:
        self._compression, self._op, self._predivide = compression, op, predivide
        self._parameters = [param for group in self.param_groups for param in group["params"] if param.requires_grad]
        self._passes = {id(param): passes for param in self._parameters}
        self._buckets = cut(self._parameters, reversed(range(len(self._parameters))), [_FUSED], set())
        self._left = dict.fromkeys(self._passes, passes)
        self._under_way: list[tuple[Bucket, Any, Callable[[], None], Tensor, Any]] = []
        self._synchronizes, self._was_synchronized = True, False
        if world.size() > 1:
            for param in self._parameters:
                AccumulateGrad(param).register_hook(self._hook_of(param))

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Set the number of backward passes that add to gradients before they are averaged."""
        self._passes = dict.fromkeys(self._passes, passes)
        self._left = dict(self._passes)

    def _hook_of(self, param: Tensor) -> Callable[..., None]:
        def hook(ins: Any, outs: Any) -> None:
            if self._left[id(param)] <= 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
                    "backward_passes_per_step to accumulate gradients locally."
                )
            self._left[id(param)] -= 1
            self._start(False)

        return hook

    def _start(self, everything: bool) -> None:
        """Begin with the next buckets: those that are whole, or all."""
        while len(self._under_way) < len(self._buckets):
            bucket = self._buckets[len(self._under_way)]
            members = [self._parameters[i] for i in bucket.members]
            if not everything and any(self._left[id(param)] for param in members):
                return
            with no_grad():
                for param, place in zip(members, bucket.places):
                    if param.grad is None:
                        param.grad = place.new_zeros(place.shape)
                    place.copy_(param.grad)
                narrow, known = self._compression.compress(bucket.flat)
                work, finish = started_reduction(narrow, self._op, 1 / self._predivide, self._predivide)
            self._under_way.append((bucket, work, finish, narrow, known))

    def synchronize(self) -> None:
        """Wait until all gradients are averaged. Source: horovod.torch.DistributedOptimizer."""
        if world.size() > 1:
            self._start(True)
            with no_grad():
                for bucket, work, finish, narrow, known in self._under_way:
                    if work is not None:
                        work.wait()
                    finish()
                    if known is not None:
                        bucket.flat.copy_(self._compression.decompress(narrow, known))
                    for i, place in zip(bucket.members, bucket.places):
                        self._parameters[i].grad.copy_(place)
        self._under_way, self._left = [], dict(self._passes)
        self._was_synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A block whose steps do not average, as ``synchronize`` was called before: to clip averaged gradients."""
        self._synchronizes = False
        try:
            yield
        finally:
            self._synchronizes = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Average what is not yet averaged, and step."""
        if self._synchronizes:
            if self._was_synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). This can cause "
                    "training slowdown. You may want to consider using optimizer.skip_synchronize() context if you use "
                    "optimizer.synchronize() in your code.",
                    stacklevel=2,
                )
                self._was_synchronized = False
            self.synchronize()
        self._was_synchronized = False
        return super().step(closure)  # type: ignore[misc]

    def zero_grad(self, *args: Any, **kwargs: Any) -> Any:
        if self._under_way:
            raise AssertionError(_EARLY)
        return super().zero_grad(*args, **kwargs)  # type: ignore[misc]


def DistributedOptimizer(
    optimizer: Any, named_parameters: Iterable[tuple[str, Tensor]] | None = None, compression: Any = Compression.none,
    backward_passes_per_step: int = 1, op: int = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Any = None,
    sparse_as_dense: bool = False, process_set: Any = None,
) -> Any:  # fmt: skip
    """An optimizer that averages gradients over all processes, during backward passes, before it steps.

    Args:
        optimizer: the optimizer; the new one shares its groups and its state.
        named_parameters: names of all its parameters, which are looked at for doubles.
        compression: of what is sent.
        backward_passes_per_step: number of backward passes whose gradients are added before they are averaged.
        op: ``Average`` or ``Sum`` of gradients, or ``Adasum`` of the steps that each process makes by its own.
        gradient_predivide_factor: what of the number of processes to divide by before the sum; with ``Average`` only.
        num_groups, groups, sparse_as_dense: not supported: gradients are sent in messages of 25 MiB, and are dense.
        process_set: not supported.
    Returns: an optimizer of a class that inherits from ``optimizer``'s.
    Raises:
        ValueError: names twice, or parameters without, or factors that do not fit ``op``.
        NotImplementedError: an option that is not supported.
    Source: horovod.torch.DistributedOptimizer.
    Example:
        >>> import flambeau.horovod as hvd
        >>> hvd.init()
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> optimizer.step()
    """
    if num_groups or groups is not None or sparse_as_dense or process_set is not None:
        raise NotImplementedError("DistributedOptimizer: groups, sparse_as_dense and process_set are not supported")
    if op not in (Average, Sum, Adasum):
        raise NotImplementedError("DistributedOptimizer: op must be Average, Sum or Adasum")
    if op == Adasum and backward_passes_per_step != 1:
        raise NotImplementedError("DistributedOptimizer: backward_passes_per_step is not supported with op=Adasum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if named_parameters is not None:
        _check_names(optimizer, list(named_parameters))
    kind = type(optimizer)
    made = type(kind.__name__, (Stepwise if op == Adasum else _Averages, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})
    distributed: Any = object.__new__(made)
    distributed.__dict__.update(optimizer.__dict__)
    if op == Adasum:
        distributed._begin(compression)
    else:
        distributed._begin(compression, backward_passes_per_step, op, gradient_predivide_factor)
    return distributed


def _check_names(optimizer: Any, named: list[Any]) -> None:
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by model.named_parameters().")
    names = [name for name, _ in named]
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(sorted(doubles))}")
    known = {id(parameter) for _, parameter in named}
    if any(id(param) not in known for group in optimizer.param_groups for param in group["params"]):
        raise ValueError("named_parameters was specified, but one or more model parameters were not named. ")
