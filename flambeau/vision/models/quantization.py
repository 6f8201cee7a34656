"""Quantized models: not supported."""

from __future__ import annotations

from typing import NoReturn

# What torchvision has here: a model's function, its class and its weights.
_MODELS = frozenset(
    "googlenet inception_v3 mobilenet_v2 mobilenet_v3_large resnet18 resnet50 resnext101_32x8d resnext101_64x4d shufflenet_v2_x0_5 "
    "shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0".split()
)


def __getattr__(name: str) -> NoReturn:
    if name in _MODELS or name.startswith("Quantizable") or name.endswith("_QuantizedWeights"):
        raise NotImplementedError(f"torchvision.models.quantization.{name} is not supported")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")  # which pickle, too, asks every module for its names
