"""An optimizer on other tensors for a while."""

from __future__ import annotations

import copy

import pytest

import flambeau


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request):
    return flambeau if request.param == "flambeau" else request.getfixturevalue("oracle")


def stepped(torch):
    """An optimizer of two groups after a step, its parameters, a copy of its state, and other tensors with gradients."""
    own = [torch.nn.Parameter(torch.ones(size)) for size in (2, 3)]
    optimizer = torch.optim.Adam([{"params": own[:1]}, {"params": own[1:], "lr": 0.5}], lr=0.1)
    other = {name: torch.zeros(size, requires_grad=True) for name, size in (("a", 2), ("b", 3))}
    for parameter in (*own, *other.values()):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer, own, copy.deepcopy(optimizer.state_dict()), other


def test_steps_inside_change_the_others_only(torch):
    optimizer, own, saved, other = stepped(torch)
    saved["param_groups"][0]["lr"] = 0.9
    before, groups, state = [p.detach().clone() for p in own], optimizer.param_groups, optimizer.state
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, other, saved):
        assert [group["lr"] for group in optimizer.param_groups] == [0.9, 0.5]
        assert all(a is b for a, b in zip(optimizer.state, other.values(), strict=True))
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 7.0
        optimizer.state[other["a"]]["more"] = 1
    torch.testing.assert_close(other["a"].detach(), torch.full((2,), -0.9))
    torch.testing.assert_close(saved["state"][0]["exp_avg"], torch.full((2,), 0.19))
    assert saved["state"][0]["step"] == 2 and "more" not in saved["state"][0] and saved["param_groups"][0]["lr"] == 0.9
    assert optimizer.param_groups is groups and optimizer.state is state and state[own[0]]["step"] == 1
    assert all(torch.equal(p, kept) for p, kept in zip(own, before))


def test_what_does_not_fit_is_refused(torch):
    optimizer, own, saved, other = stepped(torch)
    extra = {**saved, "state": {**saved["state"], 7: {}}}
    swapped = copy.deepcopy(saved)
    swapped["param_groups"][0]["params"] = [0, 1]
    for given, state, words in (
        ({"a": other["a"]}, saved, "to match optimizer.param_groups ordering"),
        (other, {"state": {}}, "to be a list of param-group dicts, got NoneType"),
        (other, {"state": {}, "param_groups": []}, "different number of parameter groups"),
        (other, extra, r"got extra keys \[7\]"),
        (other, swapped, "param group 0 has a different number of params"),
    ):
        with pytest.raises(RuntimeError, match=words), torch.optim.swap_in_optimizer_params_and_state(optimizer, given, state):
            pass
    fresh = torch.optim.Adam(own)
    with pytest.raises(RuntimeError, match="requires initialized optimizer state"):
        with torch.optim.swap_in_optimizer_params_and_state(fresh, other, saved):
            pass


def test_an_error_inside_is_passed_on_and_all_is_as_before(torch):
    optimizer, own, saved, other = stepped(torch)
    with pytest.raises(ValueError, match="inside"), torch.optim.swap_in_optimizer_params_and_state(optimizer, other, saved):
        raise ValueError("inside")
    assert optimizer.param_groups[0]["params"][0] is own[0]
