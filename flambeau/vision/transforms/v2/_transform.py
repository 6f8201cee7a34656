"""The base of all v2 transforms.

A call flattens its inputs, whatever containers they lie in, draws parameters once for all of them, transforms those it knows, and puts
everything together again. Of plain tensors only the first counts as an image, and none if there is an image, video or PIL image: the others
are labels and the like.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar

import PIL.Image

from .... import ops
from ....core.tensor import Tensor
from ....nn import Module
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .._kernels.registry import KERNELS, kernel_of
from ._utils import Check, check_type, fill_for, has_any, is_pure_tensor

__all__ = ["Transform"]


class Transform(Module):
    """The base of transforms; one's own define :meth:`transform`, and :meth:`make_params` if they draw anything.

    Shape:
        Any number of inputs, of which tensors are images ``(..., C, H, W)`` unless they say what they show, to as many of the same kinds.
    Source: torchvision.transforms.v2.Transform.
    Example:
        >>> from flambeau.vision.transforms import v2
        >>> class Halve(v2.Transform):
        ...     def transform(self, inpt, params):
        ...         return inpt / 2
        >>> Halve()({"image": torch.ones(1, 1, 1), "label": 3})
        {'image': tensor([[[0.5000]]]), 'label': 3}
    """

    get_params: ClassVar[Callable[..., Any]]  # of transforms whose classic form has it
    _transformed_types: tuple[Check, ...] = (Tensor, PIL.Image.Image)
    _functional: Any = None
    _passing: tuple[str, ...] = ()

    def __init_subclass__(cls, functional: Any = None, passing: tuple[str, ...] = (), types: tuple[Check, ...] = (), **kwargs: Any) -> None:
        """A class of this package may say which ``functional`` transforms inputs of which ``types``, and which attributes it is passed."""
        super().__init_subclass__(**kwargs)
        if functional is not None:
            cls._functional, cls._passing = staticmethod(functional), passing
        if types:
            cls._transformed_types = types

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raises where the inputs do not fit."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Parameters for :meth:`transform`, drawn once for all inputs."""
        return {}

    def _call_kernel(self, functional: Any, inpt: Any, *args: Any, **kwargs: Any) -> Any:
        return kernel_of(functional, type(inpt), allow_passthrough=True)(inpt, *args, **kwargs)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input, transformed."""
        if self._functional is None:
            raise NotImplementedError
        passed = {name: fill_for(self._fill, type(inpt)) if name == "fill" else getattr(self, name) for name in self._passing}
        if self._functional not in KERNELS:  # a function for all types of input
            return self._functional(inpt, **passed, **params)
        return self._call_kernel(self._functional, inpt, **passed, **params)

    def forward(self, *inputs: Any) -> Any:
        flat_inputs, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat_inputs)
        return tree_unflatten(self._transformed(flat_inputs), spec)

    def _transformed(self, flat_inputs: list[Any]) -> list[Any]:
        needed = self._needs_transform_list(flat_inputs)
        params = self.make_params([inpt for inpt, needs_transform in zip(flat_inputs, needed) if needs_transform])
        return [self.transform(inpt, params) if needs_transform else inpt for inpt, needs_transform in zip(flat_inputs, needed)]

    def _needs_transform_list(self, flat_inputs: list[Any]) -> list[bool]:
        needed = []
        plain_is_image = not has_any(flat_inputs, tv_tensors.Image, tv_tensors.Video, PIL.Image.Image)
        for inpt in flat_inputs:
            needs_transform = check_type(inpt, self._transformed_types)
            if needs_transform and is_pure_tensor(inpt):
                needs_transform, plain_is_image = plain_is_image, False
            needed.append(needs_transform)
        return needed

    def extra_repr(self) -> str:
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        simple = (bool, int, float, str, tuple, list, enum.Enum)
        return ", ".join(f"{name}={value}" for name, value in shown.items() if isinstance(value, simple))


class RandomApplyTransform(Transform):
    """The base of what is done with probability ``p``."""

    def __init__(self, p: float = 0.5):
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        super().__init__()
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        whole = inputs if len(inputs) > 1 else inputs[0]
        flat_inputs, spec = tree_flatten(whole)
        self.check_inputs(flat_inputs)
        if ops.rand(1) >= self.p:
            return whole
        return tree_unflatten(self._transformed(flat_inputs), spec)
