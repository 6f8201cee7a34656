"""Optimizer states in parts over processes. Source: torch.distributed.optim.zero_redundancy_optimizer.

Every rank steps on its own part of the parameters and sends them to the others; so it keeps the state of that part alone, 1/n of all.
Rajbhandari et al. 2020, ZeRO, stage 1.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from ... import distributed as dist, ops
from ...autograd.grad_mode import enable_grad, no_grad
from ...core.tensor import Tensor
from ...optim.optimizer import Optimizer
from ..algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class _JoinedRank(JoinHook):
    """A rank without inputs steps on, as the others need its part."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer._step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state lies in parts on the ranks of a group.

    Args:
        params: parameters, or groups of them, in one order on all ranks.
        optimizer_class: class of the optimizer that each rank has for its part.
        process_group: the processes; all when None.
        parameters_as_bucket_view: whether parameters become views of one vector for each rank and dtype, which is sent as it is.
        overlap_with_ddp: not supported.
        defaults: further arguments of ``optimizer_class``.
    Attributes:
        optim: the optimizer of this rank's part.
    Raises:
        TypeError: what is given is no parameter. ValueError: no parameters, or several dtypes with ``parameters_as_bucket_view``.
        NotImplementedError: ``overlap_with_ddp``.
    Source: torch.distributed.optim.ZeroRedundancyOptimizer; Rajbhandari et al. 2020.
    Example:
        >>> dist = torch.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> _ = optimizer.step()
        >>> dist.destroy_process_group()
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None, parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp=True is not supported")
        groups = _checked(params)
        self.initialized = False
        Optimizer.__init__(self, groups, defaults)
        Joinable.__init__(self)
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.world_size, self.rank = dist.get_world_size(self.process_group), dist.get_rank(self.process_group)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._default_device = self._all_params[0].device
        self._all_state_dicts: list[dict[str, Any]] = []
        self._partition_cache: list[list[dict[str, Any]]] = []
        self._made_views: list[Any] = []
        self.optim: Any = optimizer_class(self.partition_parameters()[self.rank], **defaults)
        self._share_settings()
        self._make_views()
        self.initialized = True

    # -- parts ---------------------------------------------------------------------------------------------------------------------------
    @property
    def _all_params(self) -> list[Tensor]:
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    def partition_parameters(self, params_per_rank: Any = None) -> list[list[dict[str, Any]]]:
        """Groups of parameters of each rank: the largest parameter first, to the rank that has the fewest elements.

        Args:
            params_per_rank: a partition of the caller's: for each rank its parameters. It replaces the one there is.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.
        """
        if params_per_rank is not None:
            if len(params_per_rank) != self.world_size:
                raise ValueError("params_per_rank must have length equal to the world size")
            rank_of = {id(param): rank for rank, params in enumerate(params_per_rank) for param in params}
            self._partition_cache = self._groups_by(rank_of)
        elif not self._partition_cache:
            sizes, rank_of = [0] * self.world_size, {}
            for group in self.param_groups:
                for param in sorted(group["params"], key=lambda param: -param.numel()):
                    rank = sizes.index(min(sizes))
                    rank_of[id(param)] = rank
                    sizes[rank] += param.numel() if param.requires_grad else 0
            self._partition_cache = self._groups_by(rank_of)
        return self._partition_cache

    def _groups_by(self, rank_of: Mapping[int, int]) -> list[list[dict[str, Any]]]:
        """The groups, each with those of its parameters that belong to a rank."""
        return [
            [{**group, "params": [param for param in group["params"] if rank_of[id(param)] == rank]} for group in self.param_groups]
            for rank in range(self.world_size)
        ]

    def _share_settings(self) -> None:
        """Groups of this rank's optimizer have the settings that users and schedules read and write here, and what the optimizer added."""
        for mine, whole in zip(self.optim.param_groups, self.param_groups):
            for name, value in mine.items():
                if name != "params":
                    whole.setdefault(name, value)

    def _push_settings(self) -> None:
        for mine, whole in zip(self.optim.param_groups, self.param_groups):
            mine.update({name: value for name, value in whole.items() if name != "params"})

    def _make_views(self) -> None:
        """Move the parameters of each rank and dtype into one vector."""
        self._made_views = []
        if not self.parameters_as_bucket_view:
            return
        for rank in range(self.world_size):
            for tensors in self._by_kind(rank):
                flat = ops.cat([tensor.detach().reshape(-1) for tensor in tensors])
                for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                    tensor.data = part.view(tensor.shape)
                self._made_views.append((rank, flat, tensors))

    def _by_kind(self, rank: int) -> list[list[Tensor]]:
        """The parameters of a rank, by dtype and device."""
        kinds: dict[Any, list[Tensor]] = {}
        for group in self.partition_parameters()[rank]:
            for param in group["params"]:
                kinds.setdefault((param.dtype, param.device), []).append(param)
        return list(kinds.values())

    def _send_parameters(self) -> None:
        """Every rank's part goes to the others."""
        root = [dist.get_global_rank(self.process_group, rank) for rank in range(self.world_size)]
        if self._made_views:
            works = [dist.broadcast(flat, root[rank], group=self.process_group, async_op=True) for rank, flat, _ in self._made_views]
            for work in works:
                work.wait()
            return
        under_way = []
        for rank in range(self.world_size):
            for tensors in self._by_kind(rank):
                flat = ops.cat([tensor.detach().reshape(-1) for tensor in tensors])
                under_way.append((dist.broadcast(flat, root[rank], group=self.process_group, async_op=True), rank, flat, tensors))
        for work, rank, flat, tensors in under_way:
            work.wait()
            if rank != self.rank:
                for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                    tensor.copy_(part.view(tensor.shape))

    # -- steps ---------------------------------------------------------------------------------------------------------------------------
    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step on this rank's part, and exchange the parts.

        Args:
            closure: computes the loss anew.
            kwargs: for the step of this rank's optimizer.
        Returns: the closure's loss, or None.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.step.
        """
        Join.notify_join_context(self)
        return self._step(closure, **kwargs)

    def _step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """A step that ranks without inputs take too, who have nothing to tell the others."""
        self._push_settings()
        loss = None
        if any(group["params"] for group in self.optim.param_groups):
            loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        elif closure is not None:
            with enable_grad():
                loss = closure()
        self._share_settings()
        with no_grad():
            self._send_parameters()
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, whose parameters are distributed over the ranks with all others.

        Args:
            param_group: ``params`` and settings.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.add_param_group.
        """
        super().add_param_group(param_group)
        if not self.initialized:
            return
        rank_of = {id(param): rank for rank, groups in enumerate(self._partition_cache) for group in groups for param in group["params"]}
        sizes = [sum(param.numel() for group in groups for param in group["params"]) for groups in self._partition_cache]
        for param in sorted(self.param_groups[-1]["params"], key=lambda param: -param.numel()):
            rank = sizes.index(min(sizes))
            rank_of[id(param)] = rank
            sizes[rank] += param.numel()
        self._partition_cache = self._groups_by(rank_of)
        self.optim.add_param_group(self._partition_cache[self.rank][-1])
        self._share_settings()
        self._make_views()

    # -- states --------------------------------------------------------------------------------------------------------------------------
    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all parts to one rank, which may call ``state_dict`` then. Every rank calls it.

        Args:
            to: the rank, in the group.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict.
        """
        self._push_settings()
        parts: list[Any] | None = [None] * self.world_size if self.rank == to else None
        dist.gather_object(self.optim.state_dict(), parts, dst=dist.get_global_rank(self.process_group, to), group=self.process_group)
        self._all_state_dicts = copy.deepcopy(parts or [])

    def state_dict(self) -> dict[str, Any]:
        """The state of all parts, as one process would have it.

        Raises:
            RuntimeError: ``consolidate_state_dict`` did not bring it to this rank.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.state_dict.
        """
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        whole = super().state_dict()
        number_of = {id(param): number for number, param in enumerate(self._all_params)}
        state: dict[int, Any] = {}
        for rank, part in enumerate(self._all_state_dicts):
            params = [param for group in self.partition_parameters()[rank] for param in group["params"]]
            for local, values in part["state"].items():
                state[number_of[id(params[local])]] = values
        whole["state"] = dict(sorted(state.items()))
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of one process, of which each rank keeps its part.

        Args:
            state_dict: what ``state_dict`` gave.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.load_state_dict.
        """
        whole = copy.copy(state_dict)
        number_of = {id(param): number for number, param in enumerate(self._all_params)}
        mine = [param for group in self.partition_parameters()[self.rank] for param in group["params"]]
        own = self.optim.state_dict()
        for group, given in zip(own["param_groups"], whole["param_groups"], strict=True):
            group.update({name: value for name, value in given.items() if name != "params"})
        own["state"] = {
            local: whole["state"][number_of[id(param)]] for local, param in enumerate(mine) if number_of[id(param)] in whole["state"]
        }
        self.optim.load_state_dict(own)
        for group, given in zip(self.param_groups, whole["param_groups"], strict=True):
            group.update({name: value for name, value in given.items() if name != "params"})

    # -- uneven inputs -------------------------------------------------------------------------------------------------------------------
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Work of this rank when it has no inputs left. Source: torch.distributed.optim.ZeroRedundancyOptimizer.join_hook."""
        return _JoinedRank(self)

    @property
    def join_device(self) -> Any:
        return self._default_device

    @property
    def join_process_group(self) -> Any:
        return self.process_group


def _checked(params: Any) -> list[Any]:
    """Parameters or groups as a list."""
    if isinstance(params, Tensor):
        raise TypeError(f"`params` argument should be an iterable of Tensors, but got {params.type()}")
    try:
        given = list(params)
    except TypeError:
        raise TypeError(f"`params` argument should be an iterable of Tensors or dicts, but got {type(params)}") from None
    if not given:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    for each in given:
        if not isinstance(each, (Tensor, dict)):
            raise TypeError(f"`params` argument should be an iterable of Tensors or dicts, but got an iterable containing {type(each)}")
    return given
