"""Functions that passes share. Source: torch.fx.passes.utils."""
