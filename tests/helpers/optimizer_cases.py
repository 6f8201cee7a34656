"""Optimizers with options, for tests that run one rule in several ways; every element-wise optimizer is among them."""

from __future__ import annotations

from typing import Any

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.01, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.02}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.02, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 3e-2, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"amsgrad": True, "betas": (0.3, 0.6), "eps": 1e-3}),
    ("AdamW", {"lr": 1e-2}),
    ("AdamW", {"amsgrad": True, "maximize": True, "weight_decay": 0.3}),
    ("AdamW", {"weight_decay": 0.0}),
    ("Adamax", {"lr": 0.1}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True, "betas": (0.4, 0.9)}),
    ("NAdam", {"lr": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "maximize": True, "momentum_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"betas": (0.9, 0.5), "weight_decay": 0.1}),
    ("RAdam", {"betas": (0.9, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"centered": True, "alpha": 0.4}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "maximize": True, "initial_accumulator_value": 0.2}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.7, "weight_decay": 0.1, "maximize": True}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 2, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2), "maximize": True}),
]
IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]
