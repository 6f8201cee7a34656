"""Report of the machine for a report of a problem: ``python -m torch.utils.collect_env``."""

from __future__ import annotations

import platform
import sys
from typing import NamedTuple

from ..runner import info
from ..version import __version__, debug

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]


class SystemEnv(NamedTuple):
    """Fields of the report; those of a GPU's tools or a compiler say that there is none.

    Attributes:
        torch_version, is_debug_build, cuda_compiled_version: of this package.
        os, libc_version, cpu_info: of the machine.
        python_version, python_platform, pip_version, pip_packages: of Python and what is installed.
        is_cuda_available: whether tensors can lie on a CUDA device.
    Source: torch.utils.collect_env.SystemEnv, whose fields these are as far as they say something here.
    Example:
        >>> SystemEnv._fields[0]
        'torch_version'
    """

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    pip_version: str
    pip_packages: str
    cpu_info: str


def get_env_info() -> SystemEnv:
    """Collect what the report says.

    Returns: a ``SystemEnv``.
    Source: torch.utils.collect_env.get_env_info.
    Example:
        >>> get_env_info().torch_version == torch.__version__
        True
    """
    from importlib import metadata

    from .. import cuda

    known = "torch numpy mypy flake8 optree onnx triton flambeau scipy llvmlite ml_dtypes ml-dtypes cupy".split()
    packages: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if _is_named(name, known):
            packages.setdefault(name, f"{name}=={distribution.version}")  # the first on the path is what an import finds
    bits = sys.maxsize.bit_length() + 1
    return SystemEnv(
        torch_version=str(__version__),
        is_debug_build=str(debug),
        cuda_compiled_version="None",
        os=f"{platform.system()} {platform.release()} ({platform.machine()})",
        libc_version="-".join(platform.libc_ver()) or "N/A",
        python_version=f"{sys.version} ({bits}-bit runtime)".replace("\n", " "),
        python_platform=platform.platform(),
        is_cuda_available=str(cuda.is_available()),
        pip_version="pip3",
        pip_packages="\n".join(sorted(packages.values())),
        cpu_info="\n".join(f"{name}: {value}" for name, value in info.rows()),
    )


def _is_named(name: str | None, known: list[str]) -> bool:
    return name is not None and any(name.lower() == word or name.lower().startswith(("torch", "cupy-")) for word in known)


def get_pretty_env_info() -> str:
    """The report as text for people.

    Returns: a string of several lines.
    Source: torch.utils.collect_env.get_pretty_env_info.
    Example:
        >>> get_pretty_env_info().startswith("PyTorch version: 2.")
        True
    """
    info = get_env_info()
    packages = "\n".join(f"[{info.pip_version}] {package}" for package in info.pip_packages.splitlines())
    return f"""PyTorch version: {info.torch_version}
Is debug build: {info.is_debug_build}
CUDA used to build PyTorch: {info.cuda_compiled_version}

OS: {info.os}
Libc version: {info.libc_version}

Python version: {info.python_version}
Python platform: {info.python_platform}
Is CUDA available: {info.is_cuda_available}

CPU:
{info.cpu_info}

Versions of relevant libraries:
{packages}"""


def main() -> None:
    """Print the report.

    Source: torch.utils.collect_env.main.
    Example:
        >>> main()  # doctest: +ELLIPSIS
        Collecting environment information...
        PyTorch version: ...
    """
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
