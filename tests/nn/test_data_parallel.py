"""``nn.DataParallel`` and ``nn.parallel`` where there is no CUDA device; on several, tests/devices/cuda_module_cases.py."""

from __future__ import annotations

import warnings

import pytest

import flambeau


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request):
    return flambeau if request.param == "flambeau" else request.getfixturevalue("oracle")


@pytest.mark.parametrize("arguments", [{}, {"device_ids": [0]}, {"device_ids": [0, 1], "output_device": 1, "dim": 1}])
def test_without_a_device_it_calls_the_module(torch, arguments):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    wrapper = torch.nn.DataParallel(net, **arguments)
    assert isinstance(wrapper, torch.nn.Module) and wrapper.module is net and wrapper.device_ids == []
    assert list(wrapper.state_dict()) == [f"module.{name}" for name in net.state_dict()]
    assert repr(wrapper).startswith("DataParallel(\n  (module): Sequential(\n")
    x = torch.ones(4, 2)
    assert torch.equal(wrapper.eval()(x), net(x)) and torch.equal(wrapper(input=x), net(x))
    other = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)))
    other.load_state_dict(wrapper.state_dict())
    assert torch.equal(other.eval()(x), net(x))


def test_names(torch):
    parallel = torch.nn.parallel
    assert parallel.__all__ == [
        "replicate",
        "scatter",
        "parallel_apply",
        "gather",
        "data_parallel",
        "DataParallel",
        "DistributedDataParallel",
    ]
    assert torch.nn.DataParallel is parallel.DataParallel
    assert not isinstance(torch.nn.Linear(1, 1), parallel.DistributedDataParallel)
    assert issubclass(parallel.DistributedDataParallel, torch.nn.Module)


def test_what_needs_a_device_says_so(torch):
    net, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
    for devices in (None, [], [0]):
        with pytest.raises(RuntimeError, match="device type could not be determined"):
            torch.nn.parallel.data_parallel(net, x, devices)
    with pytest.raises(AssertionError, match="not implemented for CPU tensors"):
        torch.nn.parallel.gather([x], "cpu")
    with pytest.raises(AssertionError, match="number of modules 1 is not equal to the number of inputs 2"):
        torch.nn.parallel.parallel_apply([net], [x, x])
    assert torch.nn.parallel.scatter([1, "a"], [0, 1]) == [[1, "a"], [1, "a"]]


def test_a_copy_has_registries_of_its_own_and_no_parameters(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LSTM(3, 2))
    copy, lstm = net._replicate_for_data_parallel(), net[1]._replicate_for_data_parallel()
    assert type(copy) is type(net) and copy._modules == net._modules and copy._modules is not net._modules
    assert list(lstm.parameters()) == [] and len(lstm._flat_weights) == 4 and lstm._flat_weights is not net[1]._flat_weights
    with pytest.warns(UserWarning, match="has no effect"):
        lstm.zero_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.zero_grad()
    with pytest.raises(RuntimeError, match="uninitialized parameters"):
        torch.nn.LazyLinear(2)._replicate_for_data_parallel()


def test_modules_run_at_once_on_the_cpu_too():
    nets = [flambeau.nn.Linear(2, 1) for _ in range(2)]
    x = flambeau.ones(3, 2)
    with flambeau.no_grad():
        results = flambeau.nn.parallel.parallel_apply(nets, [x, (x[:1],)], [{}, {}])
    assert [result.shape for result in results] == [(3, 1), (1, 1)]
    assert not results[0].requires_grad
    with pytest.raises(RuntimeError, match=r"(?s)Caught RuntimeError in replica 1 on device cpu\.\nOriginal Traceback"):
        flambeau.nn.parallel.parallel_apply(nets, [x, flambeau.ones(3, 5)])
    with pytest.raises(RuntimeError, match="In replica 0, no device was provided and no tensor input was found"):
        flambeau.nn.parallel.parallel_apply(nets, [(), ()])
