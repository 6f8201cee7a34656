"""A pytest plugin: this process has three CUDA devices, of the stand-in for CuPy. Run as ``pytest -p devices.with_fake_cupy``."""

from devices import fake_cupy

fake_cupy.install()
