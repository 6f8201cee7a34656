"""Helpers of the families of models: functions that build a model by its name, and the initialization of layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ... import nn
from ._api import VISION, WeightsEnum, register_model, table, weights_enum
from ._utils import _ovewrite_named_param, handle_legacy_interface

M = TypeVar("M", bound=nn.Module)
Layer = Callable[..., nn.Module]
Draw = Callable[[Any], Any]
Built = tuple[Callable[..., M], Any]  # a function that builds a model, and the enum of its weights

NORMS = (nn.BatchNorm2d, nn.GroupNorm)

truncated: Draw = partial(nn.init.trunc_normal_, std=0.02)
kaiming_fan_out: Draw = partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")


def normal(std: float) -> Draw:
    """Draws from a normal distribution around zero."""
    return partial(nn.init.normal_, mean=0.0, std=std)


def initialize(model: nn.Module, draws: Mapping[type[nn.Module], Draw | None], norms: tuple[type[nn.Module], ...] = NORMS) -> None:
    """Draw the weights of a model's layers, in the order in which it has them; biases are zeros, normalizations do nothing at first.

    Args:
        draws: what fills the weight, by the class of the layer; None leaves it.
        norms: classes of normalizations.
    """
    for module in model.modules():
        cls = next((cls for cls in (*draws, *norms) if isinstance(module, cls)), None)
        if cls is None:
            continue
        if cls in draws:
            draw = draws[cls]
            if draw is not None:
                draw(module.weight)
        else:
            if module.weight is not None:
                nn.init.ones_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def enum_of(name: str, module: str) -> Any:
    """The enum of the weights of a function that builds a model, whose name has other capitals in the table."""
    return weights_enum(next(key for key in table("weights") if key.lower() == f"{name}_weights"), module)


def name_builder(builder: Callable[..., Any], name: str, module: str, enum: Any, **words: str) -> None:
    """Give a function its name and its place, and the words that its documentation and its signature lack."""
    builder.__name__ = builder.__qualname__ = name
    builder.__module__ = module
    builder.__annotations__["weights"] = enum | None
    package = module.rpartition(".")[0].removeprefix(VISION)
    builder.__doc__ = (builder.__doc__ or "").format(name=name, package=package, enum=enum.__name__, **words)


def builder_and_weights(
    name: str,
    module: str,
    build: Callable[..., M],
    *,
    pretrained: str = "IMAGENET1K_V1",
    prepare: Callable[[WeightsEnum, dict[str, Any]], Callable[[M], None] | None] | None = None,
    renamed: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    **enforced: Any,
) -> Built[M]:
    """The function ``name(*, weights=None, progress=True, **kwargs)``, registered under its name, and the enum of its weights.

    Args:
        name: of the function; the enum's is the same in the spelling of the table of weights, with ``_Weights`` behind.
        module: which has both.
        build: makes the model of ``kwargs``.
        pretrained: the weights that the old argument ``pretrained=True`` stands for; an error where there are none of this name.
        prepare: changes ``kwargs`` for weights before the model is built; may return what is to be done with the model afterwards.
        renamed: gives the entries of a file of weights the names that they have in the model.
        enforced: keyword arguments of ``build`` that may be given no other values.
    """
    enum = enum_of(name, module)

    def builder(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> M:
        """The model {name}. Source: torchvision{package}.{name}.

        Args:
            weights: a member of ``{enum}``, or its name; initial weights when None.
            progress: whether to show a bar while a file of weights is downloaded.
            kwargs: arguments of the model's class.
        Returns:
            The model.
        Raises:
            KeyError: no weights of that name.
            ValueError: ``kwargs`` that the weights do not fit.
        Example:
            >>> from flambeau.vision.models import get_model_builder
            >>> get_model_builder("{name}") is {name}
            True
        """
        chosen = enum.verify(weights)
        for parameter, value in enforced.items():
            _ovewrite_named_param(kwargs, parameter, value)
        if chosen is None:
            return build(**kwargs)
        finish = None if prepare is None else prepare(chosen, kwargs)
        if chosen.meta.get("categories") is not None:
            _ovewrite_named_param(kwargs, "num_classes", len(chosen.meta["categories"]))
        model = build(**kwargs)
        state = chosen.get_state_dict(progress=progress, check_hash=True)
        model.load_state_dict(state if renamed is None else renamed(state))
        if finish is not None:
            finish(model)
        return model

    name_builder(builder, name, module, enum)
    made: Any = build.func if isinstance(build, partial) else build
    builder.__annotations__["return"] = made.__name__ if isinstance(made, type) else made.__annotations__["return"]
    old = handle_legacy_interface(weights=("pretrained", enum.__members__.get(pretrained)))
    return register_model()(old(builder)), enum


def shown_as(
    build: Callable[..., Any], builder: Callable[..., Any], after: str = "", hidden: tuple[str, ...] = (), **weights: tuple[Any, Any]
) -> Any:
    """``builder``, registered under the name of ``build``, with its documentation and its keyword-only arguments beside the own ones.

    Args:
        build: makes the model of what ``builder`` has chosen.
        builder: what users call; all of its arguments are keyword-only.
        after: argument of ``builder`` behind which those of ``build`` stand.
        hidden: arguments of ``builder`` that are not shown.
        weights: for each argument that takes weights their enum, and the weights that the old argument (``pretrained`` in place of
            ``weights`` in its name) stands for where it is true.
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(builder, name, getattr(build, name))
    builder.__annotations__.update({name: enum | None for name, (enum, _) in weights.items()})
    own, shown = inspect.signature(build), []
    for parameter in inspect.signature(builder).parameters.values():
        if parameter.name not in hidden:
            shown.append(parameter)
        if parameter.name == after:
            shown += [extra for extra in own.parameters.values() if extra.kind is extra.KEYWORD_ONLY]
    builder.__signature__ = inspect.Signature(shown, return_annotation=own.return_annotation)  # type: ignore[attr-defined]
    old = {"weights": "pretrained", "weights_backbone": "pretrained_backbone"}
    return register_model()(handle_legacy_interface(**{name: (old[name], meant) for name, (_, meant) in weights.items()})(builder))
