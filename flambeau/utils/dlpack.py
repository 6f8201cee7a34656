"""Exchange of memory with other libraries by the DLPack protocol."""

from __future__ import annotations

import enum

from .. import ops

from_dlpack, to_dlpack = ops.resolve("torch", "from_dlpack"), ops.resolve("torch", "to_dlpack")


class DLDeviceType(enum.IntEnum):
    """Kinds of devices by DLPack's numbers; tensors in host memory are ``kDLCPU``.

    Source: dlpack.h.
    Example:
        >>> torch.ones(1).__dlpack_device__()[0] == DLDeviceType.kDLCPU
        True
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
