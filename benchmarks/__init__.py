"""Benchmarks of flambeau beside real PyTorch: ``python -m benchmarks overhead | startup | leak``. See docs/benchmarks.md."""
