"""``torch.distributed.device_mesh``: processes laid out as an array, which are not implemented yet."""

from __future__ import annotations

from . import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
