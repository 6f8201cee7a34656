"""Names of ``torch.cuda`` and of the back ends that PyTorch documents, one test each; test_cuda.py runs them with devices, too."""

from __future__ import annotations

from typing import Any

import pytest
from devices.marks import several_devices, work_that_waits

import flambeau as torch

NEEDED = "Torch not compiled with CUDA enabled"


@pytest.fixture
def available() -> bool:
    return torch.cuda.is_available()


def refused(call: Any, *args: Any, **kwargs: Any) -> None:
    """The call says that there is no device."""
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
        call(*args, **kwargs)


def test_new_tensors_go_to_the_current_device_and_results_to_their_operands(available: bool) -> None:
    if not available:
        return refused(torch.ones, 2, device="cuda")
    with torch.cuda.device(1):
        x = torch.ones(2, device="cuda")
    y = torch.ones(2, device="cuda")
    assert (x.get_device(), y.get_device(), (x * 2).get_device()) == (1, 0, 1)
    with torch.cuda.device(2):
        assert (x + x).get_device() == 1
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:1 and cuda:0"):
        x + y
    assert y.copy_(x * 3).tolist() == [3, 3]
    return None


def test_the_module_may_be_imported_anywhere() -> None:
    import flambeau.cuda
    import flambeau.cuda.comm
    import flambeau.cuda.memory
    import flambeau.cuda.random
    import flambeau.cuda.streams  # noqa: F401


def test_is_available_never_raises(available: bool) -> None:
    assert torch.cuda.is_available() is available


def test_current_device(available: bool) -> None:
    if not available:
        return refused(torch.cuda.current_device)
    assert torch.cuda.current_device() == 0
    return None


def test_device_switches_for_a_while(available: bool) -> None:
    if not available:
        with torch.cuda.device(-1):
            return
    with torch.cuda.device(2):
        assert torch.cuda.current_device() == 2
        with torch.cuda.device("cuda:1"), torch.cuda.device(None):
            assert torch.cuda.current_device() == 1
        assert torch.cuda.current_device() == 2
    assert torch.cuda.current_device() == 0


@several_devices
def test_device_count(available: bool) -> None:
    assert torch.cuda.device_count() == (3 if available else 0)


def test_device_of(available: bool) -> None:
    with torch.cuda.device_of(torch.ones(1)):
        assert not available or torch.cuda.current_device() == 0
    if available:
        with torch.cuda.device_of(torch.ones(1, device="cuda:2")):
            assert torch.cuda.current_device() == 2


@pytest.mark.parametrize(("named", "index"), [(1, 1), ("cuda:2", 2), ("cuda:0", 0)])
def test_set_device(available: bool, named: Any, index: int) -> None:
    if not available:
        return refused(torch.cuda.set_device, named)
    torch.cuda.set_device(named)
    assert torch.cuda.current_device() == index
    torch.cuda.set_device(-1)
    assert torch.cuda.current_device() == index
    torch.cuda.set_device(0)
    return None


def test_get_device_name(available: bool) -> None:
    if not available:
        return refused(torch.cuda.get_device_name, 0)
    assert torch.cuda.get_device_name(1) == "Stand-in 1"
    return None


def test_current_blas_handle(available: bool) -> None:
    if not available:
        return refused(torch.cuda.current_blas_handle)
    assert isinstance(torch.cuda.current_blas_handle(), int)
    return None


def test_stream(available: bool) -> None:
    if not available:
        with torch.cuda.stream(None):
            return refused(torch.cuda.Stream)
    stream = torch.cuda.Stream(priority=-1)
    assert stream.priority == -1
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    return None


def test_event(available: bool) -> None:
    if not available:
        return refused(torch.cuda.Event)
    event = torch.cuda.Event()
    assert event.query()
    event.record()
    event.synchronize()
    assert event.query()
    return None


@work_that_waits
def test_synchronize(available: bool) -> None:
    if not available:
        return refused(torch.cuda.synchronize)
    event = torch.cuda.Event()
    event.record()
    assert not event.query()
    torch.cuda.synchronize()
    assert event.query()
    return None


def test_seeding(available: bool) -> None:
    torch.cuda.manual_seed(5)
    torch.cuda.manual_seed_all(6)
    if available:
        assert torch.cuda.initial_seed() == 6


def test_empty_cache(available: bool) -> None:
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == torch.cuda.memory_allocated()


def test_memory_and_generator_functions(available: bool) -> None:
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() >= 0
    states = torch.cuda.get_rng_state_all()
    assert len(states) == torch.cuda.device_count()
    torch.cuda.set_rng_state_all(states)
    if not available:
        return refused(torch.cuda.get_rng_state)
    assert torch.equal(torch.cuda.get_rng_state(0), states[0])
    return None


def test_broadcast(available: bool) -> None:
    if not available:
        return refused(torch.nn.parallel.comm.broadcast, torch.ones(2), [0, 1])
    copies = torch.cuda.comm.broadcast(torch.ones(2, device="cuda"), (0, 2))
    assert [each.get_device() for each in copies] == [0, 2]
    return None


def test_reduce_add(available: bool) -> None:
    if not available:
        return refused(torch.nn.parallel.comm.reduce_add, [torch.ones(2)])
    parts = [torch.full((2,), float(i), device=f"cuda:{i}") for i in range(3)]
    total = torch.cuda.comm.reduce_add(parts, destination=1)
    assert total.get_device() == 1
    assert total.tolist() == [3, 3]
    assert torch.cuda.comm.reduce_add(parts).get_device() == 0
    return None


def test_scatter(available: bool) -> None:
    if not available:
        return refused(torch.nn.parallel.comm.scatter, torch.ones(2), [0, 1])
    stream = torch.cuda.Stream(1)
    parts = torch.cuda.comm.scatter(torch.arange(6.0), [0, 1], chunk_sizes=[2, 4], dim=0, streams=[None, stream])
    assert [(each.get_device(), each.tolist()) for each in parts] == [(0, [0, 1]), (1, [2, 3, 4, 5])]
    return None


def test_gather(available: bool) -> None:
    if not available:
        return refused(torch.nn.parallel.comm.gather, [torch.ones(2)])
    parts = [torch.full((1, 2), float(i), device=f"cuda:{i}") for i in range(2)]
    for destination, where in ((None, "cuda:0"), (1, "cuda:1"), ("cuda:2", "cuda:2"), ("cpu", "cpu")):
        joined = torch.cuda.comm.gather(parts, dim=1, destination=destination)
        assert str(joined.device) == where
        assert joined.tolist() == [[0, 0, 1, 1]]
    return None


@pytest.mark.parametrize(("name", "default"), [("enabled", True), ("benchmark", False), ("deterministic", False)])
def test_cudnn_switches(name: str, default: bool) -> None:
    cudnn = torch.backends.cudnn
    assert getattr(cudnn, name) is default
    try:
        setattr(cudnn, name, not default)
        assert getattr(cudnn, name) is not default
    finally:
        setattr(cudnn, name, default)


def test_cudnn_version() -> None:
    version = torch.backends.cudnn.version()
    assert version is None or isinstance(version, int)
