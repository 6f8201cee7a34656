"""Parameters that are gathered together and whose gradients are reduced together.

Gathering is an operation on the tape. The leaves are this process's shards, and the node's backward reduces and scatters:

    shards (leaves) --- Unshard ---> whole parameters ---> forward of the module
    shards' .grad  <-- reduce-scatter -- whole gradients <-- backward

The engine runs a node when all gradients of its results have arrived, so the reduction starts right after the module's own backward, and
no whole gradient outlives it. What the tape keeps of whole parameters is kept as ``Kept``: which parameter, which view of it. So the
memory is given back after forward, and the first of them that backward needs gathers the group again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import distributed as dist, ops
from ...autograd.function import Function
from ...autograd.grad_mode import no_grad
from ...autograd.graph import saved_tensors_hooks
from ...core.shape import Size
from ...core.tensor import Tensor, storage_of
from ...nn import Module
from ..tensor import DTensor, _collectives as collectives
from ._layout import Layout


@dataclass(eq=False)
class Entry:
    """One parameter of a group: where modules have it, and what it is as a whole."""

    places: list[tuple[Module, str]]
    fqn: str
    shape: tuple[int, ...]
    dtype: Any
    requires_grad: bool
    inner: Any = None  # the spec that it has as a whole, where tensor parallelism divides it already


class Absent:
    """Stands in a module where its parameter is, while there is no whole one: ``repr`` looks whether there is a bias."""

    __slots__ = ("dtype", "shape")

    def __init__(self, entry: Entry) -> None:
        self.shape, self.dtype = Size(entry.shape), entry.dtype


@dataclass
class Options:
    """Options of a group.

    Args:
        param_dtype, reduce_dtype: dtypes in which parameters are gathered and gradients are reduced; their own when None.
        reshard_after_forward: give the memory of whole parameters back after forward.
        divide_factor: gradients are divided by it; by the number of processes when None.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    reshard_after_forward: bool = True
    reshard_after_backward: bool = True
    divide_factor: float | None = None
    syncs: bool = True
    all_reduces: bool = True
    all_reduce_hook: Callable[[Tensor], None] | None = None


class Kept(NamedTuple):
    """The name of a whole parameter on the tape: which one, and the view's geometry in elements."""

    group: ParamGroup
    which: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class ParamGroup:
    """Parameters of one module that are gathered together.

    Args:
        entries: the parameters.
        layout: how a shard's memory is arranged.
        shard_group: processes that have one shard each.
        replicate_group: processes that have the same shard as this one; None without copies.
        options: see :class:`Options`; shared by whoever may change them.
        set_sharded: puts the shards back into the modules.
    """

    def __init__(
        self, entries: list[Entry], layout: Layout, shard_group: Any, replicate_group: Any, options: Options,
        set_sharded: Callable[[], None]
    ) -> None:  # fmt: skip
        self.entries, self.layout, self.options = entries, layout, options
        self.shard_group, self.replicate_group, self.set_sharded = shard_group, replicate_group, set_sharded
        self.whole: list[Tensor] | None = None  # whole parameters, without history
        self.storages: dict[int, int] = {}  # by id of a whole parameter's storage, its index
        self.pending: list[Tensor | None] = [None] * len(entries)  # whole gradients that were not reduced yet
        self.partial: Tensor | None = None  # gradients that were reduced over shards, not yet over copies
        self.is_installed = False

    @property
    def size(self) -> int:
        """Number of processes that have a shard each."""
        return dist.get_world_size(self.shard_group)

    # -- gathering -----------------------------------------------------------------------------------------------------------------
    def gather(self) -> list[Tensor]:
        """The whole parameters, without history; sent for where this process does not have them."""
        if self.whole is None:
            with no_grad():
                own = self.layout.pack_shards(self.options.param_dtype)
                self.whole = self.layout.unpack_whole(collectives.all_gather(own, self.shard_group))
            self.storages = {id(storage_of(tensor)): index for index, tensor in enumerate(self.whole)}
        return self.whole

    def free(self) -> None:
        """Forget the whole parameters."""
        self.whole, self.storages = None, {}

    def recorded(self) -> list[Tensor]:
        """The whole parameters, as results of gathering on the tape."""
        leaves = self.layout.leaves()
        results = Unshard.apply(self, *leaves)
        return list(results) if isinstance(results, tuple) else [results]

    def install(self) -> None:
        """Have modules show the whole parameters."""
        recorded = self.recorded()  # reads the shards, which the modules show until then
        for entry, tensor in zip(self.entries, recorded, strict=True):
            spec = entry.inner
            shown = tensor
            if spec is not None:
                shown = DTensor.from_local(tensor, spec.mesh, spec.placements, shape=spec.shape, stride=spec.stride)
            for module, name in entry.places:
                module.__dict__.pop(name, None)
                module._parameters[name] = shown  # type: ignore[assignment]
        self.is_installed = True

    def uninstall(self) -> None:
        """Have modules show the shards."""
        if self.is_installed:
            self.set_sharded()
            self.is_installed = False

    def reshard(self) -> None:
        """Have modules show the shards, and forget the whole parameters."""
        self.uninstall()
        self.free()

    # -- what the tape keeps -------------------------------------------------------------------------------------------------------
    def pack(self, tensor: Tensor) -> Any:
        """An object kept instead of a tensor: a whole parameter is named, as it can be gathered again."""
        storage = tensor._storage
        index = self.storages.get(id(storage)) if storage is not None else None
        if index is None:
            return tensor
        return Kept(self, index, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())

    @staticmethod
    def unpack(kept: Any) -> Any:
        if not isinstance(kept, Kept):
            return kept
        with no_grad():
            return kept.group.gather()[kept.which].as_strided(kept.size, kept.stride, kept.offset)

    @contextmanager
    def around_forward(self) -> Iterator[None]:
        """Context in which modules show the whole parameters, and the tape keeps their names only."""
        self.install()
        try:
            if self.options.reshard_after_forward:
                with saved_tensors_hooks(self.pack, self.unpack):
                    yield
            else:
                yield
        finally:
            if self.options.reshard_after_forward:
                self.reshard()

    # -- gradients -----------------------------------------------------------------------------------------------------------------
    def reduce(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of the leaves for gradients of the whole parameters; none where they are to be collected first."""
        with no_grad():
            collected = [_sum(have, grad) for have, grad in zip(self.pending, grads, strict=True)]
            if not self.options.syncs:
                wide = self.options.reduce_dtype  # sums of many passes lose little in the dtype of the reduction
                self.pending = [grad if grad is None or wide is None else grad.to(wide) for grad in collected]
                return [None] * self.layout.leaf_count
            self.pending = [None] * len(self.entries)
            present = self.layout.reduced_entries([grad is not None for grad in collected])
            if not any(present):
                return [None] * self.layout.leaf_count
            filled = [
                grad
                if grad is not None
                else ops.zeros(entry.shape, dtype=self.layout.whole_dtype(i, self.options.param_dtype))
                if there
                else None
                for i, (grad, entry, there) in enumerate(zip(collected, self.entries, present, strict=True))
            ]
            dtype = self.options.reduce_dtype or next(grad for grad in filled if grad is not None).dtype
            reduced = self._reduced(self.layout.pack_whole(filled, dtype))
            if reduced is None:
                return [None] * self.layout.leaf_count
            return self.layout.unpack_grads(reduced, present)

    def _reduced(self, packed: Tensor) -> Tensor | None:
        """This process's part of the mean gradients ``(processes, elements)``; None while copies are not to agree yet."""
        copies = 1 if self.replicate_group is None else dist.get_world_size(self.replicate_group)
        factor = self.options.divide_factor or float(self.size * copies)
        reduced = collectives.reduce_scatter(packed, "sum", self.shard_group)
        if self.partial is not None:
            reduced, self.partial = reduced + self.partial, None
        if copies > 1:
            if not self.options.all_reduces:
                self.partial = reduced
                return None
            reduced = collectives.all_reduce(reduced, "sum", self.replicate_group)
        reduced = reduced if factor == 1 else reduced.div_(factor)
        if self.options.all_reduce_hook is not None:
            self.options.all_reduce_hook(reduced)
        return reduced


def _sum(have: Tensor | None, grad: Tensor | None) -> Tensor | None:
    return grad if have is None else have if grad is None else have + grad


class Unshard(Function):
    """Whole parameters for shards; its backward reduces and scatters."""

    @staticmethod
    def forward(ctx: Any, group: ParamGroup, *leaves: Any) -> Any:
        ctx.group = group
        ctx.set_materialize_grads(False)
        whole = group.gather()
        results = tuple([tensor.view_as(tensor) for tensor in whole])
        needs = [leaf.requires_grad for leaf in leaves] * (len(results) // len(leaves))  # one leaf of each, or one of all
        frozen = [result for result, need in zip(results, needs, strict=True) if not need]
        if frozen:
            ctx.mark_non_differentiable(*frozen)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        group = ctx.group
        reduced = group.reduce(grads)
        if group.options.reshard_after_backward:
            group.reshard()
        return None, *reduced
