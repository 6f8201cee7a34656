"""Passes, graphs of kernels and symbolic sizes, which PyTorch calls experimental. Source: torch.fx.experimental."""
