"""``torch.distributed.tensor``: tensors spread over a mesh of processes.

A ``DTensor`` has the shape of the whole, and each process a part of its values: a slice, a copy or a term of a sum.

    _api            the class, what makes one
    _dispatch       one call of a kernel: where operands must lie for it, running it on parts
    _rules, _view_rules    what each kernel allows
    _redistribute   from one placement to another
"""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from ..device_mesh import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh
from ._api import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard

_late.adopt(__name__)

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand",
    "randn", "zeros",
]  # fmt: skip

for _class in (DTensor, Partial, Placement, Replicate, Shard):
    _class.__module__ = __name__ if _class is DTensor else f"{__name__}.placement_types"


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, ("experimental", "parallel"))
