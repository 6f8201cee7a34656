"""The registry of models by name, and the official weights: their addresses, the transforms of their images, and their metadata."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args

from ... import nn

__all__ = ["Weights", "WeightsEnum", "get_model", "get_model_builder", "get_model_weights", "get_weight", "list_models", "register_model"]

M = TypeVar("M", bound=nn.Module)
Builder = Callable[..., nn.Module]

BUILTIN_MODELS: dict[str, Builder] = {}
VISION = __package__.rpartition(".")[0]
SUBPACKAGES = ("detection", "optical_flow", "segmentation", "video")  # of models, which register theirs when they are imported


# -- weights -------------------------------------------------------------------------------------------------------------------
@dataclass
class Weights:
    """A file of weights.

    Args:
        url, transforms, meta: the attributes below.
    Attributes:
        url: where the file lies; the end of its name is the beginning of its SHA-256.
        transforms: makes the transform that images need for a model with these weights.
        meta: ``categories`` (their names), ``num_params``, ``min_size`` (height and width of the smallest image), ``recipe`` (an
            address that describes how they were trained), and what was measured with them.
    Source: torchvision.models.Weights.
    Example:
        >>> weights = Weights("https://example.org/model-0123.pth", transforms=str, meta={"num_params": 3})
        >>> weights.meta["num_params"]
        3
    """

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        # Two partial objects are never equal, but copies and pickles of an enum look for their member by equality.
        if not isinstance(other, Weights):
            return NotImplemented
        return (self.url, self.meta, described(self.transforms)) == (other.url, other.meta, described(other.transforms))


def described(function: Callable[..., Any]) -> Any:
    """Key of a function, equal for two that are the same one."""
    return (function.func, function.args, function.keywords) if isinstance(function, partial) else function


class WeightsEnum(Enum):
    """The weights that there are for a model: an enum of :class:`Weights`, whose ``DEFAULT`` is the best of them.

    Source: torchvision.models.WeightsEnum.
    Example:
        >>> from flambeau.vision.models import AlexNet_Weights
        >>> AlexNet_Weights.verify("DEFAULT")
        AlexNet_Weights.IMAGENET1K_V1
    """

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """The member that ``obj`` is or names; None for None.

        Raises:
            KeyError: no member of that name.
            TypeError: anything else.
        """
        if isinstance(obj, str):
            return cls[obj.replace(f"{cls.__name__}.", "")]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(f"Invalid Weight class provided; expected {cls.__name__} but received {type(obj).__name__}.")
        return obj

    def get_state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Download the file, unless it is in the cache, and load it: ``torch.hub.load_state_dict_from_url`` of the address."""
        from ...hub import load_state_dict_from_url

        return load_state_dict_from_url(self.url, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    @property
    def url(self) -> str:
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        return self.value.meta


def _preset(kind: str, **options: Any) -> Any:
    """One of the transforms that official weights need."""
    presets = importlib.import_module("..transforms._presets", __package__)
    if "interpolation" in options:
        options["interpolation"] = presets.InterpolationMode(options["interpolation"])
    return getattr(presets, kind)(**options)


@cache
def table(name: str) -> Any:
    """The contents of a data file of this folder."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))


def _weights(url: str, transforms: tuple[str, dict[str, Any]], meta: dict[str, Any]) -> Weights:
    """An entry of the table: lists are tuples there, and the lists of names are named."""
    kind, options = transforms
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in meta.items()}
    for name in ("categories", "keypoint_names"):
        if values.get(name) is not None:
            values[name] = table("categories")[values[name]]
    return Weights(url, partial(_preset, kind, **options), values)


def weights_enum(name: str, module: str) -> Any:
    """The enum of a model's official weights, as the table has them.

    Args:
        name: of the enum.
        module: where it is kept, for pickles.
    """
    members: dict[str, Weights] = {}
    for key, entry in table("weights")[name].items():
        members[key] = members[entry] if isinstance(entry, str) else _weights(**entry)
    make: Any = WeightsEnum  # the type checker takes the call for a look-up
    enum = make(name, members, module=module)
    shown = module.removeprefix(VISION)
    enum.__doc__ = f"""The official weights of a model. Source: torchvision{shown}.{name}.

    Example:
        >>> {name}.DEFAULT
        {enum.DEFAULT!r}
        >>> {name}.DEFAULT.meta["num_params"]
        {enum.DEFAULT.meta["num_params"]}
    """
    return enum


def get_weight(name: str) -> WeightsEnum:
    """Official weights by their full name, such as ``"ResNet50_Weights.IMAGENET1K_V2"``.

    Args:
        name: of the enum and the member.
    Returns:
        A member of an enum.
    Raises:
        ValueError: not such a name, or no such enum.
        KeyError: no such member.
    Source: torchvision.models.get_weight.
    Example:
        >>> get_weight('ResNet50_Weights.IMAGENET1K_V2')
        ResNet50_Weights.IMAGENET1K_V2
    """
    enum_name, dot, member = name.partition(".")
    if not dot or "." in member:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    for module in (importlib.import_module(__package__), *subpackages()):
        enum = vars(module).get(enum_name)
        if isinstance(enum, type) and issubclass(enum, WeightsEnum):
            return enum[member]
    raise ValueError(f"The weight enum '{enum_name}' for the specific method couldn't be retrieved.")


def get_model_weights(name: Builder | str) -> type[WeightsEnum]:
    """The enum of the official weights of a model.

    Args:
        name: of a registered model, or its builder.
    Returns:
        The enum.
    Raises:
        ValueError: unknown name, or a builder whose ``weights`` argument is missing or not annotated with an enum.
    Source: torchvision.models.get_model_weights.
    Example:
        >>> get_model_weights('resnet18').__name__
        'ResNet18_Weights'
    """
    return _get_enum_from_fn(get_model_builder(name) if isinstance(name, str) else name)


def _get_enum_from_fn(fn: Builder) -> type[WeightsEnum]:
    parameters = inspect.signature(fn).parameters
    if "weights" not in parameters:
        raise ValueError("The method is missing the 'weights' argument.")
    annotation = parameters["weights"].annotation
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, WeightsEnum):
            return kind
    raise ValueError("The WeightsEnum class for the specific method couldn't be retrieved. Make sure the typing info is correct.")


def subpackages() -> list[ModuleType]:
    """The packages of models beside those for classification."""
    names = [f"{__package__}.{name}" for name in SUBPACKAGES]
    return [importlib.import_module(name) for name in names if importlib.util.find_spec(name) is not None]


# -- models by name -------------------------------------------------------------------------------------------------------------
def register_model(name: str | None = None) -> Callable[[Callable[..., M]], Callable[..., M]]:
    """Decorates a builder: :func:`get_model` finds it under ``name``, or its own name.

    Args:
        name: under which it is found; its own name when None.
    Raises:
        ValueError: another one has that name.
    Source: torchvision.models.register_model.
    """

    def register(fn: Callable[..., M]) -> Callable[..., M]:
        key = fn.__name__ if name is None else name
        if key in BUILTIN_MODELS:
            raise ValueError(f"An entry is already registered under the name '{key}'.")
        BUILTIN_MODELS[key] = fn
        return fn

    return register


def _patterns(filters: Iterable[str] | str | None) -> list[str]:
    return [filters] if isinstance(filters, str) else list(filters or ())


def list_models(
    module: ModuleType | None = None, include: Iterable[str] | str | None = None, exclude: Iterable[str] | str | None = None
) -> list[str]:
    """The names of the registered models, sorted.

    Args:
        module: the package to which they belong, such as ``models`` or ``models.detection``; all when None.
        include: shell patterns, of which one must fit; all names when empty.
        exclude: shell patterns, of which none may fit.
    Returns:
        A list of names.
    Source: torchvision.models.list_models.
    Example:
        >>> list_models(include='resnet*')[:2]
        ['resnet101', 'resnet152']
    """
    subpackages()
    names = {name for name, fn in BUILTIN_MODELS.items() if module is None or fn.__module__.rpartition(".")[0] == module.__name__}
    if wanted := _patterns(include):
        names = {name for pattern in wanted for name in fnmatch.filter(names, pattern)}
    for pattern in _patterns(exclude):
        names.difference_update(fnmatch.filter(names, pattern))
    return sorted(names)


def get_model_builder(name: str) -> Builder:
    """The function that builds a registered model.

    Args:
        name: of a registered model.
    Returns:
        The function.
    Raises:
        ValueError: unknown name.
    Source: torchvision.models.get_model_builder.
    Example:
        >>> get_model_builder('resnet18').__name__
        'resnet18'
    """
    name = name.lower()
    if name not in BUILTIN_MODELS:
        subpackages()
    if name not in BUILTIN_MODELS:
        raise ValueError(f"Unknown model {name}")
    return BUILTIN_MODELS[name]


def get_model(name: str, **config: Any) -> nn.Module:
    """A registered model, built with ``config``.

    Args:
        name: of a registered model.
        config: arguments of its builder.
    Returns:
        The model.
    Raises:
        ValueError: unknown name.
    Source: torchvision.models.get_model.
    Example:
        >>> type(get_model('squeezenet1_1', num_classes=10)).__name__
        'SqueezeNet'
    """
    return get_model_builder(name)(**config)
