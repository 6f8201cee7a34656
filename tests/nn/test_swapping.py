"""``torch.__future__``: whether conversions and loading exchange tensors or make new parameters."""

from __future__ import annotations

import pytest

import flambeau


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request):
    library = flambeau if request.param == "flambeau" else request.getfixturevalue("oracle")
    yield library
    library.__future__.set_swap_module_params_on_conversion(False)
    library.__future__.set_overwrite_module_params_on_conversion(False)


def net_with_gradient(torch):
    net = torch.nn.Linear(2, 2)
    net.bias.requires_grad_(False)
    net.weight.grad = torch.ones(2, 2)
    return net


@pytest.mark.parametrize("which", ["swap", "overwrite"])
def test_switches_read_back_what_was_set(torch, which):
    future = torch.__future__
    get, put = (getattr(future, f"{verb}_{which}_module_params_on_conversion") for verb in ("get", "set"))
    assert get() is False
    put(True)
    assert get() is True


def test_conversion_keeps_parameter_objects_when_they_are_swapped(torch):
    torch.__future__.set_swap_module_params_on_conversion(True)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    net = net_with_gradient(torch)
    weight, bias, grad = net.weight, net.bias, net.weight.grad
    for convert, dtype in ((net.double, torch.float64), (net.double, torch.float64), (net.half, torch.float16)):
        convert()
        assert net.weight is weight and net.bias is bias and weight.grad is grad
        assert weight.dtype == bias.dtype == grad.dtype == dtype
        assert weight.requires_grad and not bias.requires_grad and not grad.requires_grad
        assert type(weight) is torch.nn.Parameter and weight.is_leaf
    net.to("meta")
    assert net.weight is weight and weight.is_meta and grad.is_meta
    net.to_empty(device="cpu")
    assert net.weight is weight and not weight.is_meta


def test_conversion_makes_new_parameters_when_they_are_overwritten(torch):
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    net = net_with_gradient(torch)
    weight, grad = net.weight, net.weight.grad
    net.double()
    assert net.weight is not weight and weight.dtype == torch.float32 and weight.grad is grad
    assert net.weight.dtype == net.weight.grad.dtype == torch.float64
    assert net.weight.requires_grad and not net.bias.requires_grad


def test_an_optimizer_goes_on_with_swapped_parameters(torch):
    torch.__future__.set_swap_module_params_on_conversion(True)
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net.double()
    before = net.weight.detach().clone()
    net(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    optimizer.step()
    assert torch.equal(net.weight, before - 1)


@pytest.mark.parametrize("assign", [False, True])
def test_loading_swaps_what_module_load_gives(torch, assign):
    torch.__future__.set_swap_module_params_on_conversion(True)
    net = torch.nn.BatchNorm1d(2)
    objects = dict(net.state_dict(keep_vars=True))
    net.bias.requires_grad_(False)
    saved = {name: torch.full_like(tensor, 3) for name, tensor in objects.items()}
    net.load_state_dict(saved, assign=assign)
    for name, tensor in net.state_dict(keep_vars=True).items():
        assert tensor is objects[name] and (tensor == 3).all()
        assert (tensor.data_ptr() == saved[name].data_ptr()) is assign
    assert type(net.weight) is torch.nn.Parameter and net.weight.requires_grad and not net.bias.requires_grad


def test_a_parameter_may_say_how_it_is_loaded(torch):
    calls = []

    class Doubled(torch.nn.Parameter):
        def module_load(self, other, assign=False):
            calls.append(assign)
            return 2 * other

    torch.__future__.set_swap_module_params_on_conversion(True)
    net = torch.nn.Linear(2, 1, bias=False)
    net.weight = Doubled(torch.zeros(1, 2))
    net.load_state_dict({"weight": torch.ones(1, 2)})
    assert calls == [False] and net.weight.tolist() == [[2, 2]] and type(net.weight) is torch.nn.Parameter
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        net.load_state_dict({"weight": torch.ones(3, 2)})


def test_module_load_returns_a_new_tensor(torch):
    tensor, other = torch.zeros(2), torch.ones(2, dtype=torch.float64)
    copied = tensor.module_load(other)
    assert copied is not tensor and copied.data_ptr() == tensor.data_ptr() and tensor.tolist() == [1, 1]
    assigned = tensor.module_load(other, assign=True)
    assert assigned is not other and assigned.data_ptr() == other.data_ptr() and assigned.dtype == torch.float64
