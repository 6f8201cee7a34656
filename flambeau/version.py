"""Versions: PyTorch's that is implemented, this package's own, and what ``torch.version`` tells about a build: there is none to compile."""

from __future__ import annotations

from .facades.torch_version import TorchVersion

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "release", "rocm", "xpu"]

release = "0.1.0"  # of this package
implemented = "2.13.0"  # of PyTorch, whose documentation is the specification

# Programs compare it with releases of PyTorch; the label behind the plus sign says whose it is.
__version__ = TorchVersion(f"{implemented}+flambeau.{release}")
vision = f"0.28.0+flambeau.{release}"  # likewise, of torchvision
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None
debug: bool = False
