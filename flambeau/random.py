"""Seeding and the state of the default generator, under the name of PyTorch's module. Source: torch.random."""

from __future__ import annotations

from .core.random.generator import Generator, default_generator
from .ops.random import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
