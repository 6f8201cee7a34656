"""Passes over graphs. Source: torch.fx.passes."""
