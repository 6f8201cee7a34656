"""Benchmarks of flambeau beside real PyTorch: ``python -m benchmarks --help``. See docs/benchmarks.md."""
