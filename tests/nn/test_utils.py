"""nn.utils: clipping of gradients, parameters as a vector."""

from __future__ import annotations

import math

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import utils


def with_gradients(torch, *gradients):
    parameters = []
    for gradient in gradients:
        parameter = torch.nn.Parameter(torch.zeros(len(gradient)))
        parameter.grad = torch.tensor(gradient)
        parameters.append(parameter)
    return [*parameters, torch.nn.Parameter(torch.zeros(1))]


def test_clipping_by_norm(same):
    def program(torch):
        clip = torch.nn.utils.clip_grad_norm_

        def run(*args, **options):
            parameters = with_gradients(torch, [3.0, 0.0], [4.0])
            return [clip(parameters, *args, **options), [p.grad for p in parameters]]

        return [
            run(1.0),
            run(10.0),
            run(1.0, 1),
            run(1.0, norm_type=float("inf")),
            run(1.0, foreach=False),
            clip([], 1.0),
            clip(with_gradients(torch, [1.0, 2.0])[0], 0.5),
            clip(iter(with_gradients(torch, [1.0, 2.0])), 0.5),
        ]

    same(program)


def test_norm_that_is_not_finite(same):
    def program(torch):
        clip = torch.nn.utils.clip_grad_norm_
        return [
            lambda: clip(with_gradients(torch, [math.inf]), 1.0, error_if_nonfinite=True),
            lambda: clip(with_gradients(torch, [math.inf]), 1.0),
        ]

    same(program)


def test_clipping_in_two_steps(same):
    def program(torch):
        parameters = with_gradients(torch, [3.0], [4.0])
        total = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        torch.nn.utils.clip_grads_with_norm_(parameters, 2.5, total)
        return [total, [p.grad for p in parameters], torch.nn.utils.get_total_norm([])]

    same(program)


def test_clipping_by_value(same):
    def program(torch):
        parameters = with_gradients(torch, [3.0, -4.0, 0.5])
        torch.nn.utils.clip_grad_value_(parameters, 1)
        torch.nn.utils.clip_grad_value_(parameters[0], 0.75)
        return [p.grad for p in parameters]

    same(program)


def test_old_name_of_clipping_warns():
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        utils.clip_grad_norm(with_gradients(flambeau, [1.0]), 1.0)


def test_vector_and_back(same):
    def program(torch):
        layer = torch.nn.Linear(2, 2)
        vector = torch.nn.utils.parameters_to_vector(layer.parameters())
        torch.nn.utils.vector_to_parameters(torch.arange(6.0), layer.parameters())
        return [
            vector.detach(),
            layer.weight,
            layer.bias,
            lambda: torch.nn.utils.vector_to_parameters([1.0], layer.parameters()),
        ]

    same(program)


def test_vector_is_differentiable():
    layer = nn.Linear(2, 1)
    utils.parameters_to_vector(layer.parameters()).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]] and layer.bias.grad.tolist() == [1.0]
