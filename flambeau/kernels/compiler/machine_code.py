"""From LLVM IR to an address: taken from disk, or compiled."""

from __future__ import annotations

import os

from ...core.arrays.native import NoKernel
from ...core.calls.interruption import pass_on
from . import cache, image, target as targets

_SHOW = os.environ.get("FLAMBEAU_SHOW_KERNELS", "")  # names of kernels to print, IR and assembly, as they are built; "all" for all


def compiled(ir: str, name: str, target: targets.Target) -> int:
    """Address of the machine function ``name`` of a module: from disk, or compiled now.

    Raises:
        NoKernel: llvmlite is not installed, the code needs something outside itself, or the system forbids executable memory.
    """
    key = cache.key_of(ir, target)
    code = cache.read(key)
    if code is None:
        try:
            code = image.link(image.compile_object(ir, target), name)
        except ImportError as error:
            raise NoKernel("llvmlite is not installed") from error
        except image.LinkError as error:
            raise NoKernel(f"{name}: {error}") from error
        cache.write(key, code)
    if _SHOW and (_SHOW == "all" or name in _SHOW.split(",")):
        print(ir, image.assembly(ir, target), sep="\n")
    try:
        return image.load(code)
    except OSError as error:
        pass_on(error)
        raise NoKernel(f"{name}: {error}") from error
