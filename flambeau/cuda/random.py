"""The default generators of CUDA devices. Source: torch.cuda.random.

Their numbers are those of the CPU's generator for the same seed: they are drawn on the host and copied. A state is the CPU's, too, and
cannot be exchanged with PyTorch's own CUDA generators.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ._runtime import index_of, required, usable, without_cuda

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state",
    "set_rng_state_all",
]  # fmt: skip


def _generator(where: Any) -> Any:
    kind = required()
    return kind.generators[kind.checked(index_of(where, optional=True))]


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; nothing happens without a device.

    Args:
        seed: a whole number; negative ones count from ``2**64`` down.
    Source: torch.cuda.manual_seed.
    Example:
        >>> torch.cuda.manual_seed(0)
    """
    seed = int(seed)  # what is no number is refused
    if usable() is not None:
        _generator(None).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices.

    Args:
        seed: a whole number; negative ones count from ``2**64`` down.
    Source: torch.cuda.manual_seed_all.
    Example:
        >>> torch.cuda.manual_seed_all(0)
    """
    seed = int(seed)
    kind = usable()
    for generator in () if kind is None else kind.generators:
        generator.manual_seed(seed)


@without_cuda(lambda: None)
def seed() -> None:
    """Seed the current device's generator from entropy.

    Source: torch.cuda.seed.
    Example:
        >>> torch.cuda.seed()
    """
    _generator(None).seed()


@without_cuda(lambda: None)
def seed_all() -> None:
    """Seed the generators of all devices from entropy, with one seed.

    Source: torch.cuda.seed_all.
    Example:
        >>> torch.cuda.seed_all()
    """
    kind = required()
    chosen = kind.generators[0].seed()
    for generator in kind.generators[1:]:
        generator.manual_seed(chosen)


def initial_seed() -> int:
    """Seed of the current device's generator.

    Returns:
        The seed, a number below ``2**64``.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.initial_seed.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.manual_seed(3)
        ...     assert torch.cuda.initial_seed() == 3
    """
    return _generator(None).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """State of a device's generator, a uint8 tensor of the CPU.

    Args:
        device: a device, its name or its index; ``'cuda'`` is the current one.
    Returns:
        A 1-d tensor of uint8 on the CPU.
    Raises:
        AssertionError: there is no device.
    Source: torch.cuda.get_rng_state.
    Example:
        >>> if torch.cuda.is_available():
        ...     state = torch.cuda.get_rng_state()
        ...     torch.cuda.set_rng_state(state)
    """
    return _generator(device).get_state()


@without_cuda(list)
def get_rng_state_all() -> list[Tensor]:
    """The states of all devices' generators; an empty list without a device.

    Returns:
        A 1-d tensor of uint8 for each device.
    Source: torch.cuda.get_rng_state_all.
    Example:
        >>> len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
        True
    """
    return [generator.get_state() for generator in required().generators]


@without_cuda(lambda: None)
def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of a device's generator; nothing happens without a device.

    Args:
        new_state: 1-d, uint8, as ``get_rng_state`` gives it.
        device: a device, its name or its index; ``'cuda'`` is the current one.
    Source: torch.cuda.set_rng_state.
    Example:
        >>> if torch.cuda.is_available():
        ...     torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    """
    _generator(device).set_state(new_state)


@without_cuda(lambda: None)
def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' generators.

    Args:
        new_states: 1-d tensors of uint8, one for each device in their order.
    Source: torch.cuda.set_rng_state_all.
    Example:
        >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for generator, state in zip(required().generators, new_states, strict=False):
        generator.set_state(state)
