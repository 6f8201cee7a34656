"""Scripting refuses what PyTorch cannot read in an archive, with PyTorch's words; PyTorch, where it is, refuses the same."""

# ruff: noqa: B006, UP032 - as programs are written that are refused
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import HAS_ORACLE, pytorch

import flambeau as torch


def formats_by_name(s: str):
    return "{a}".format(a=s)


def assigns_a_slice(xs: list[int]):
    xs[0:2] = [9]
    return xs


def reverses(xs: list[int]):
    total = 0
    for x in reversed(xs):
        total = total * 10 + x
    return total


def ends_in_a_loop(n: int) -> int:
    while True:
        n -= 1
        if n < 3:
            return n


def ends_without_a_result(n: int) -> int:
    if n > 1:
        return 1


def prints_without_an_end(n: int):
    print("a", end="")
    return n


def rounds_to_digits(a: float):
    return round(a, 1)


def has_tuples_as_keys(d: dict[tuple[int, int], int]):
    return 1


def adds_a_number_to_text(s: str, n: int):
    return s + n


def compares_text_with_a_number(s: str, n: int):
    return s == n


def changes_a_type_in_a_loop(n: int):
    j = None
    for i in range(n):
        j = i
    return j


def is_written_later(n: int): ...


def shares_a_default(n: int, ns: list[int] = [1, 2]):
    return n + ns[0]


REFUSED: dict[Callable[..., Any], str] = {
    formats_by_name: "Keyword argument a unknown",
    assigns_a_slice: "Sliced expression not yet supported for subscripted assignment",
    reverses: "reversed",
    ends_in_a_loop: "does not return along all paths",
    ends_without_a_result: "does not return along all paths",
    prints_without_an_end: "print doesn't accept any keyword arguments",
    rounds_to_digits: "Arguments for call are not valid",
    has_tuples_as_keys: r"Cannot create dict for key type '\(int, int\)'",
    adds_a_number_to_text: "Arguments for call are not valid",
    compares_text_with_a_number: "Arguments for call are not valid",
    changes_a_type_in_a_loop: "Variable 'j' previously had type NoneType but is now being assigned to a value of type int",
    is_written_later: "Cannot emit expr for",
    shares_a_default: "Mutable default parameters are not supported",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_what_archives_cannot_have_is_refused(function: Callable[..., Any]) -> None:
    for library in (torch, *[pytorch()] * HAS_ORACLE):
        with pytest.raises(RuntimeError, match=REFUSED[function]):
            library.jit.script(function)


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shifts = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))])

    def forward(self, x):
        for shift in self.shifts:
            x = x + shift
        return x * self.shifts[0]


def test_lists_of_parameters_are_gone_through() -> None:
    assert torch.jit.script(Shifted())(torch.ones(2)).tolist() == [2.0, 2.0]


def test_unknown_keywords_are_refused() -> None:
    def sums(x):
        return torch.sum(x, nope=1)

    with pytest.raises(RuntimeError, match="Keyword argument nope unknown"):
        torch.jit.script(sums)
