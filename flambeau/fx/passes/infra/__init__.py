"""Passes as classes, and parts of graphs for what supports them. Source: torch.fx.passes.infra."""
