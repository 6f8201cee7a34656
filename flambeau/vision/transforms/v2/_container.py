"""Transforms made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import ops
from ....nn import ModuleList
from ._transform import Transform

__all__ = ["Compose", "RandomApply", "RandomChoice", "RandomOrder"]


class _Container(Transform):
    _kinds: tuple[type, ...] = (Sequence,)  # of what holds the transforms

    def __init__(self, transforms: Sequence[Callable[..., Any]]):
        super().__init__()
        if not isinstance(transforms, self._kinds):
            raise TypeError("Argument transforms should be a sequence of callables")
        if not transforms:
            raise ValueError("Pass at least one transform")
        self.transforms = transforms

    def _applied(self, transforms: Any, inputs: tuple[Any, ...]) -> Any:
        """``inputs`` after each of ``transforms``; one input goes in and comes out by itself."""
        single = len(inputs) == 1
        for transform in transforms:
            outputs = transform(*inputs)
            inputs = (outputs,) if single else outputs
        return inputs[0] if single else inputs

    def extra_repr(self) -> str:
        return "\n".join(f"    {transform}" for transform in self.transforms)


class Compose(_Container):
    """``transforms`` one after another.

    Args:
        transforms: a sequence of transforms.
    Raises:
        TypeError: no sequence.
        ValueError: no transforms.
    Source: torchvision.transforms.v2.Compose.
    Example:
        >>> from flambeau.vision.transforms import v2
        >>> Compose([v2.CenterCrop(4), v2.Grayscale()])(torch.ones(3, 8, 6)).shape
        torch.Size([1, 4, 4])
    """

    def forward(self, *inputs: Any) -> Any:
        return self._applied(self.transforms, inputs)


class RandomApply(_Container):
    """All of ``transforms`` with probability ``p``, otherwise none.

    Args:
        transforms: a sequence of transforms.
        p: the probability.
    Raises:
        ValueError: another probability, or no transforms.
    Source: torchvision.transforms.v2.RandomApply.
    Example:
        >>> from flambeau.vision.transforms import v2
        >>> RandomApply([v2.CenterCrop(4)], p=1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    _kinds = (Sequence, ModuleList)

    def __init__(self, transforms: Any, p: float = 0.5):
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        return self._applied(() if ops.rand(1) >= self.p else self.transforms, inputs)


class RandomChoice(_Container):
    """One of ``transforms``, drawn with weights ``p``.

    Args:
        transforms: a sequence of transforms.
        p: weights.
    Raises:
        ValueError: as many weights as transforms are needed.
    Source: torchvision.transforms.v2.RandomChoice.
    Example:
        >>> from flambeau.vision.transforms import v2
        >>> RandomChoice([v2.CenterCrop(4), v2.Resize((4, 4))])(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None):
        super().__init__(transforms)
        weights = [1] * len(transforms) if p is None else p
        if len(weights) != len(transforms):
            raise ValueError(f"Length of p doesn't match the number of transforms: {len(weights)} != {len(transforms)}")
        self.p = [weight / sum(weights) for weight in weights]

    def forward(self, *inputs: Any) -> Any:
        return self.transforms[int(ops.multinomial(ops.tensor(self.p), 1))](*inputs)

    extra_repr = Transform.extra_repr


class RandomOrder(_Container):
    """All of ``transforms`` in random order.

    Args:
        transforms: a sequence of transforms.
    Raises:
        TypeError: no sequence.
        ValueError: no transforms.
    Source: torchvision.transforms.v2.RandomOrder.
    Example:
        >>> from flambeau.vision.transforms import v2
        >>> RandomOrder([v2.CenterCrop(4), v2.Grayscale()])(torch.ones(3, 8, 6)).shape
        torch.Size([1, 4, 4])
    """

    def forward(self, *inputs: Any) -> Any:
        return self._applied([self.transforms[index] for index in ops.randperm(len(self.transforms)).tolist()], inputs)

    extra_repr = Transform.extra_repr
