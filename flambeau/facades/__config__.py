"""``torch.__config__``: what the package is made of, in words."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The libraries that compute, and their versions, as text for people. Source: torch.__config__.show."""
    import platform
    from importlib import metadata

    from ..core.arrays import native
    from ..version import release

    rows = [f"flambeau {release}, in Python", f"{platform.python_implementation()} {platform.python_version()}"]
    for library in ("numpy", "scipy", "ml_dtypes", "llvmlite"):
        try:
            rows.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            rows.append(f"no {library}")
    rows.append(f"kernels: {'native' if native.switch.on else 'NumPy'}")
    return "PyTorch's interface in Python with:\n" + "".join(f"  - {row}\n" for row in rows)


def parallel_info() -> str:
    """Number of threads that compute, and the variables that set it, as text for people. Source: torch.__config__.parallel_info."""
    import os

    from ..core.arrays.threads import Threads

    rows = [f"torch.get_num_threads() : {Threads.count}", f"hardware threads : {os.cpu_count()}", "Environment variables:"]
    rows += [f"\t{name} : {os.environ.get(name, '[not set]')}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")]
    return "\n".join(rows) + "\n"


def _cxx_flags() -> str:
    """Flags of the C++ compiler, of which there is none."""
    return ""
