"""A part of ``python -m tests.programs.decompositions``: each case once, in one of its dtypes, alone or in a batch."""

from __future__ import annotations

import warnings

import pytest
from decompositions import CASES, REFUSALS, check, check_refusal

import flambeau as torch


@pytest.mark.parametrize("place", range(len(CASES)), ids=[case.name for case in CASES])
def test_derivatives_are_those_of_small_steps(place):
    case = CASES[place]
    assert not check(torch, case, case.dtypes[place % len(case.dtypes)], [(), (2,)][place // 2 % 2], fast=True)


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.name for refusal in REFUSALS])
def test_derivatives_that_do_not_exist_are_refused_or_not_finite(refusal):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not check_refusal(torch, refusal, refusal.dtypes[-1])


def test_of_zero_singular_values_one_is_no_obstacle():
    """The determinant's derivatives to third order, at a complex matrix of rank 2."""
    torch.manual_seed(0)
    A = torch.randn(3, 2, dtype=torch.complex128) @ torch.randn(2, 3, dtype=torch.complex128)
    A.requires_grad_()

    def twice(A):
        (first,) = torch.autograd.grad(torch.linalg.det(A).real, A, create_graph=True)
        return torch.autograd.grad((first * first.conj()).real.sum(), A, create_graph=True)[0]

    assert torch.autograd.gradcheck(twice, (A,), fast_mode=True, atol=1e-4)
