"""``torch.distributed.device_mesh``: processes laid out as an array, which are not implemented yet."""

from __future__ import annotations

from ..facades import unsupported

globals().update(unsupported.names("distributed.device_mesh", "init_device_mesh", "DeviceMesh"))
