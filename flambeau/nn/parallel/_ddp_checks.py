"""Checks of ``DistributedDataParallel`` before it begins, and what it tells about itself."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ._reducer import PARTS

__all__ = ["check_hook", "check_same_parameters", "checked_devices", "limits_of", "logging_data"]

_MB = 1024 * 1024
DEFAULT_CAP_MB = 25
FIRST_BUCKET = 1024 * 1024  # bytes; a small first bucket is full early, so that communication begins early


def limits_of(cap: float | None, caps: Sequence[int] | None) -> tuple[int, list[int]]:
    """The limit of a bucket, in bytes, and the limits of the first buckets with all others' at the end."""
    if caps is not None:
        limits = [int(each * _MB) for each in caps]
        return limits[-1], limits
    limit = int((DEFAULT_CAP_MB if cap is None else cap) * _MB)
    return limit, [min(FIRST_BUCKET, limit), limit]


def checked_devices(parameters: Sequence[Tensor], device_ids: Sequence[Any] | None, output_device: Any) -> list[Any] | None:
    """The one device in ``device_ids``, checked against the parameters' devices; None where there is none.

    Raises:
        ValueError: several devices' kinds, or devices for a module that does not lie on one GPU.
    """
    devices = {parameter.device for parameter in parameters}
    kinds = {device.type for device in devices}
    if len(kinds) != 1:
        raise ValueError(
            "DistributedDataParallel's input module must be on the same type of devices, but input module parameters are located in "
            f"{sorted(kinds)}."
        )
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if device_ids or output_device is not None:
        if kinds == {"cpu"} or len(devices) > 1:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules "
                f"or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module parameters {devices}."
            )
    return list(device_ids) if device_ids else None


def check_same_parameters(distributed: Any, group: Any, parameters: Sequence[Tensor]) -> None:
    """Compare the parameters' number, shapes and dtypes over all ranks.

    Raises:
        RuntimeError: they differ, on every rank.
    """
    mine = [(list(parameter.shape), str(parameter.dtype)) for parameter in parameters]
    theirs: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(theirs, mine, group=group)
    for rank, other in enumerate(theirs):
        if len(other) != len(theirs[0]):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank 0 has {len(theirs[0])} params, while rank {rank} has inconsistent "
                f"{len(other)} params."
            )
        for index, (have, expected) in enumerate(zip(other, theirs[0])):
            if have == expected:
                continue
            sizes = have[0] != expected[0]
            which = ("sizes", have[0], expected[0]) if sizes else ("dtype", have[1], expected[1])
            raise RuntimeError(
                f"[{rank}]: params[{index}] in this process with {which[0]} {which[1]} appears not to match {which[0]} of the same "
                f"param in process 0, which are {which[2]}."
            )


def check_hook(hook: Callable[..., Any], bucket_type: type, future_type: Any) -> None:
    """Look at a communication hook's annotations.

    Raises:
        TypeError: it cannot be called.
        ValueError: annotations of something else than a bucket and a future.
    """
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    try:
        signature = inspect.signature(hook, eval_str=True)
    except (NameError, TypeError, ValueError):  # names that only a type checker knows, or a builtin
        return
    bucket = signature.parameters.get("bucket")
    if bucket is not None and bucket.annotation not in (inspect.Parameter.empty, bucket_type):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    given = signature.return_annotation
    if given is not inspect.Signature.empty and getattr(given, "__origin__", given) is not future_type:
        raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")


def logging_data(ddp: Any) -> dict[str, Any]:
    """Facts about a wrapped module, and how long the parts of its last iteration took (nanoseconds), by PyTorch's names."""
    reducer, parameters = ddp.reducer, ddp._module_parameters
    device = parameters[0].device
    sizes = ", ".join(str(bucket.nbytes) for bucket in reducer.buckets)
    made: dict[str, Any] = {
        "backend_name": ddp._dist.get_backend(ddp.process_group),
        "bucket_sizes": sizes,
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES", "N/A"),
        "device_ids": "" if ddp.device_ids is None else ", ".join(map(str, ddp.device_ids)),
        "dtypes": ", ".join(sorted({str(parameter.dtype).removeprefix("torch.").replace("32", "") for parameter in parameters})),
        "gloo_socket_ifname": os.environ.get("GLOO_SOCKET_IFNAME", "N/A"),
        "master_addr": os.environ.get("MASTER_ADDR", "N/A"),
        "master_port": os.environ.get("MASTER_PORT", "N/A"),
        "module_name": type(ddp.module).__name__,
        "torch_distributed_debug": os.environ.get("TORCH_DISTRIBUTED_DEBUG", "N/A"),
        "broadcast_buffers": int(ddp.forward_sync_buffers),
        "bucket_cap_bytes": ddp.bucket_bytes_cap,
        "find_unused_parameters": int(ddp.find_unused_parameters),
        "gradient_as_bucket_view": int(ddp.gradient_as_bucket_view),
        "has_sync_bn": int(any(type(module).__name__ == "SyncBatchNorm" for module in ddp.module.modules())),
        "is_multi_device_module": int(ddp.is_multi_device_module),
        "iteration": max(reducer.passes - 1, 0),
        "num_parameter_tensors": len(parameters),
        "output_device": -1 if ddp.output_device is None else ddp.output_device,
        "rank": ddp._dist.get_rank(),
        "total_parameter_size_bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        "world_size": reducer.world_size,
    }
    if ddp.static_graph:
        made["static_graph"] = 1
    if reducer.hook is not None:
        made["comm_hook"] = ddp._comm_hook_name
    if device.type != "cpu":
        made["device"] = str(device)
    return {**made, **_last_iteration(reducer)} if reducer.passes else made


def _last_iteration(reducer: Any) -> dict[str, Any]:
    """Times of the last reduced pass, and what became of the buckets."""
    times = reducer.times
    made = {
        "prev_iteration_grad_ready_order_indices": ", ".join(map(str, reducer.order)),
        "num_buckets_reduced": len(reducer.buckets),
        "unused_parameter_size": sum(reducer.parameters[i].numel() * reducer.parameters[i].element_size() for i in reducer.not_used),
        "has_rebuilt_buckets": int(reducer.rebuilt),
        **times,
    }
    for name in PARTS:
        made[name], made[f"avg_{name}"] = reducer.duration(name), reducer.totals[name] // reducer.passes
    if reducer.rebuilt:
        made["rebuilt_bucket_sizes"] = ", ".join(str(bucket.nbytes) for bucket in reducer.buckets)
        made["rebuilt_per_bucket_param_indices"] = ", ".join(" ".join(map(str, bucket.members)) for bucket in reducer.buckets)
    return made
