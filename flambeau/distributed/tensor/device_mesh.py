"""Meshes under the name that ``torch.distributed.tensor`` has for them. Source: torch.distributed.device_mesh."""

from __future__ import annotations

from ..device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
