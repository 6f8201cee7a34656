"""Helpers for builders of models: old spellings of their arguments, and parts of a model by name."""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ... import nn
from ...core.tensor import Tensor
from ._api import WeightsEnum

__all__ = ["IntermediateLayerGetter"]

D = TypeVar("D")
V = TypeVar("V")

_SINCE = "deprecated since 0.13 and may be removed in the future"


class IntermediateLayerGetter(nn.ModuleDict):
    """A model's direct children, up to the last one in ``return_layers``; a call returns the results of those that are named there.

    Each child is called once, in the order in which the model registered them, with the result of the one before. Only direct
    children can be named.

    Args:
        model: the model.
        return_layers: maps the name of a child to the name of its result.
    Raises:
        ValueError: the model has no such child.
    Source: torchvision.models._utils.IntermediateLayerGetter.
    Example:
        >>> from flambeau.vision.models import resnet18
        >>> from flambeau.vision.models._utils import IntermediateLayerGetter
        >>> parts = IntermediateLayerGetter(resnet18(), {"layer1": "low", "layer3": "high"})
        >>> {name: tuple(features.shape) for name, features in parts(torch.rand(1, 3, 64, 64)).items()}
        {'low': (1, 64, 16, 16), 'high': (1, 256, 4, 4)}
    """

    _version = 2

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        wanted = {str(name) for name in return_layers}
        if not set(return_layers) <= set(children):
            raise ValueError("return_layers are not present in model")
        last = max((place for place, name in enumerate(children) if name in wanted), default=0)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = return_layers

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        results: OrderedDict[str, Tensor] = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                results[self.return_layers[name]] = x
        return results


class Classifier(nn.Module):
    """Base of classifiers: features, a pooling and a classifier; models that compute otherwise have another ``_forward_impl``."""

    def _forward_impl(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


class RenamedLayers(nn.Module):
    """Base of modules some of whose layers had other names in files of version 1."""

    _version = 2

    def _old_names(self) -> dict[str, str]:
        """For the old name of each of these layers the new one."""
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *arguments: Any) -> None:
        if local_metadata.get("version", None) in (None, 1):
            for (old, new), kind in itertools.product(self._old_names().items(), ("weight", "bias")):
                if f"{prefix}{old}.{kind}" in state_dict:
                    state_dict[f"{prefix}{new}.{kind}"] = state_dict.pop(f"{prefix}{old}.{kind}")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *arguments)


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of ``divisor`` nearest to ``v``, at least ``min_value`` (``divisor`` when None) and nine tenths of ``v``."""
    least = divisor if min_value is None else min_value
    rounded = max(least, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded


def check_stages(name: str, stages: Any, cls: type, shown: str) -> None:
    """Check that an argument is a sequence of a model's stages.

    Args:
        name: of the argument.
        stages: what it is.
        cls: class of the stages.
        shown: name of the class in the error.
    Raises:
        ValueError: no stages.
        TypeError: stages of another class, or no sequence.
    """
    if not stages:
        raise ValueError(f"The {name} should not be empty")
    if not (isinstance(stages, Sequence) and all(isinstance(stage, cls) for stage in stages)):
        raise TypeError(f"The {name} should be List[{shown}]")


def stages_of_mobilenet(features: Any) -> list[int]:
    """Positions at which stages begin: the first block, those that halve the map, and the last one."""
    return [0, *(place for place, block in enumerate(features) if getattr(block, "_is_cn", False)), len(features) - 1]


# -- old spellings of arguments ---------------------------------------------------------------------------------------------------
def listed(names: Sequence[str]) -> str:
    """Names in quotes, the last one after "and"."""
    *others, last = [f"'{name}'" for name in names]
    return f"{', '.join(others)}{',' if len(others) > 1 else ''} and {last}" if others else last


def kwonly_to_pos_or_kw(fn: Callable[..., D]) -> Callable[..., D]:
    """Decorates a function: its keyword-only arguments may be given by position, with a warning.

    Raises:
        TypeError: it has none.
    """
    parameters = inspect.signature(fn).parameters.values()
    keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if not keywords:
        raise TypeError(f"Found no keyword-only parameter on function '{fn.__name__}'")
    positional = [parameter.kind for parameter in parameters].index(inspect.Parameter.KEYWORD_ONLY)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> D:
        if late := dict(zip(keywords, args[positional:])):
            warnings.warn(f"Using {listed(list(late))} as positional parameter(s) is {_SINCE}. Please use keyword parameter(s) instead.")
        return fn(*args[:positional], **{**kwargs, **late})

    return wrapper


def handle_legacy_interface(**weights: tuple[str, Any]) -> Callable[[Callable[..., D]], Callable[..., D]]:
    """Decorates a builder of models: ``pretrained=True`` and arguments by position are taken as they once were, with a warning.

    Args:
        weights: for the name of an argument that takes weights the name of the old argument, which was true or false, and the weights
            that ``True`` stands for. Instead of these a function of the keyword arguments that gives them, or None where there are none.
    """

    def decorate(builder: Callable[..., D]) -> Callable[..., D]:
        @kwonly_to_pos_or_kw
        @functools.wraps(builder)
        def inner(*args: Any, **kwargs: Any) -> D:
            for name, (old_name, default) in weights.items():
                _translate(builder.__name__, kwargs, name, old_name, default)
            return builder(*args, **kwargs)

        return inner

    return decorate


def _is_new_style(value: Any) -> bool:
    return value is None or isinstance(value, WeightsEnum) or (isinstance(value, str) and value != "legacy")


def _translate(builder: str, kwargs: dict[str, Any], name: str, old_name: str, default: Any) -> None:
    """Put into ``kwargs`` the value that an old argument stands for, where there is one."""
    by_position = name in kwargs  # where once the old argument stood
    if _is_new_style(kwargs[name]) if by_position else old_name not in kwargs:
        return
    if by_position:
        kwargs[old_name] = kwargs.pop(name)
    message, chosen = "", None
    if kwargs[old_name]:
        chosen = default(kwargs) if callable(default) else default
        if not isinstance(chosen, WeightsEnum):
            raise ValueError(f"No weights available for model {builder}")
        message = f" You can also use `{name}={type(chosen).__name__}.DEFAULT` to get the most up-to-date weights."
    if not by_position:
        warnings.warn(f"The parameter '{old_name}' is {_SINCE}, please use '{name}' instead.")
    warnings.warn(
        f"Arguments other than a weight enum or `None` for '{name}' are {_SINCE}. "
        f"The current behavior is equivalent to passing `{name}={chosen}`.{message}"
    )
    del kwargs[old_name]
    kwargs[name] = chosen


def _ovewrite_named_param(kwargs: dict[str, Any], param: str, new_value: Any) -> None:
    """Set a keyword argument that may be given already, but not with another value.

    Raises:
        ValueError: it is.
    """
    if kwargs.setdefault(param, new_value) != new_value:
        raise ValueError(f"The parameter '{param}' expected value {new_value} but got {kwargs[param]} instead.")


def _ovewrite_value_param(param: str, actual: V | None, expected: V) -> V:
    """``expected``, unless ``actual`` is given and differs.

    Raises:
        ValueError: it does.
    """
    if actual is not None and actual != expected:
        raise ValueError(f"The parameter '{param}' expected value {expected} but got {actual} instead.")
    return expected
