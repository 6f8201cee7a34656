"""Derivatives that records leave out: of one operand alone, along each dimension, of parts of complex numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch


def numbers(*shape: int, low: float = -1.0, high: float = 1.0, dtype: Any = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    values = low + (high - low) * torch.rand(*shape, generator=generator, dtype=torch.float64)
    if dtype.is_complex:
        values = torch.complex(values, values.flip(-1) / 2)
    return values.to(dtype).requires_grad_()


@pytest.mark.parametrize("name", ["igamma", "igammac", "special.gammainc", "special.gammaincc", "special.zeta"])
def test_of_the_second_operand_alone(name: str) -> None:
    function = torch.special if name.startswith("special.") else torch
    function = getattr(function, name.removeprefix("special."))
    first, second = numbers(6, low=1.5, high=4).detach(), numbers(6, low=0.5, high=3)
    assert torch.autograd.gradcheck(lambda x: function(first, x), second)
    assert torch.autograd.gradgradcheck(lambda x: function(first, x), second)
    with pytest.raises((RuntimeError, NotImplementedError)):
        function(first.clone().requires_grad_(), second).sum().backward()


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["rfft", "irfft", "hfft", "ihfft", "fft", "ifft"])
def test_of_transforms_along_each_dimension(name: str, dim: int, n: int | None, norm: str) -> None:
    dtype = torch.float64 if name in ("rfft", "ihfft") else torch.complex128
    x = numbers(3, 4, 3, dtype=dtype)
    assert torch.autograd.gradcheck(lambda x: getattr(torch.fft, name)(x, n, dim, norm), x)


@pytest.mark.parametrize("dims", [(0, 1), (1, 2), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize("name", ["rfftn", "irfftn", "hfftn", "ihfftn", "fftn"])
def test_of_transforms_over_several_dimensions(name: str, dims: tuple[int, ...]) -> None:
    x = numbers(3, 2, 3, dtype=torch.float64 if name in ("rfftn", "ihfftn") else torch.complex128)
    assert torch.autograd.gradcheck(lambda x: getattr(torch.fft, name)(x, dim=dims), x)


def test_of_the_finite_parts_of_complex_numbers() -> None:
    x = torch.tensor([complex(1, math.inf), complex(math.nan, 2), complex(3, 4)], requires_grad=True)
    (slope,) = torch.autograd.grad(x.nan_to_num(), x, torch.tensor([1 + 2j, 3 + 4j, 5 + 6j]))
    assert slope.tolist() == [1, 4j, 5 + 6j]


@pytest.mark.parametrize("function", [torch.special.gammainc, torch.special.gammaincc])
def test_incomplete_gamma_functions_add_up_in_their_derivatives(function: Any) -> None:
    """The slope in x is the density of the distribution, whose integral over all x is 1."""
    order = torch.tensor(2.5, dtype=torch.float64)
    x = torch.linspace(1e-9, 60, 200_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(function(order, x).sum(), x)
    assert torch.trapezoid(slope, x).abs().item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("p", [0.5, 0.9, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("distance", [torch.cdist, lambda x, y, p: torch.pdist(x, p)], ids=["cdist", "pdist"])
def test_of_distances_of_points_that_agree_in_some_coordinates(distance: Any, p: float) -> None:
    points = torch.tensor([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0], [1.0, 2.0, 3.0]], requires_grad=True)
    distance(points, points.detach(), p).sum().backward()
    torch.testing.assert_close(points.grad, torch.tensor([[0.0, -1.0, 0.0], [0.0, 2.0, 0.0], [0.0, -1.0, 0.0]]))


def test_missing_ones_are_named() -> None:
    x = torch.rand(5, requires_grad=True)
    for name, made in (("_unique2", x.unique()), ("unique_dim", x.unique(dim=0)), ("unique_consecutive", x.unique_consecutive())):
        with pytest.raises(NotImplementedError, match=f"the derivative for '{name}' is not implemented"):
            made.sum().backward()
    for name, made in (("bincount", torch.bincount(torch.arange(5), x)), ("histogram", torch.histogram(x, 3, weight=x)[0])):
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
            made.sum().backward()
