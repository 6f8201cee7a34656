"""``python -m flambeau info``: what this installation has and can do."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib import metadata

__all__ = ["main", "rows"]

_EXTRAS = {"cuda": "cupy", "examples": "sklearn", "vision": "PIL"}


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _kernels() -> str:
    from ..core.arrays import native

    if not native.switch.on:
        return "off (FLAMBEAU_KERNELS=numpy)"
    try:
        from ..kernels.compiler import target

        return f"native, for {target.current().name}"
    except Exception as error:
        return f"none: {error}"


def rows() -> list[tuple[str, str]]:
    """Names and values."""
    from ..core.arrays.threads import Threads
    from ..version import __version__, release

    result = [
        ("flambeau", f"{release} (PyTorch's interface: {__version__.partition('+')[0]})"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("system", platform.platform()),
        ("processor", f"{_processor()}, {os.cpu_count()} hardware threads"),
        ("threads", f"{Threads.count} (OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'not set')})"),
        ("kernels", _kernels()),
    ]
    result += [(library, _version(library)) for library in ("numpy", "scipy", "ml_dtypes", "llvmlite")]
    result += [(f"extra {name}", "yes" if importlib.util.find_spec(module) else "no") for name, module in _EXTRAS.items()]
    return result


def main() -> None:
    table = rows()
    width = max(len(name) for name, _ in table)
    for name, value in table:
        print(f"{name:{width}}  {value}")
