"""Passes that PyTorch calls experimental. Source: torch.fx.experimental."""
