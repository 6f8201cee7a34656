"""Without a GPU: queries, seeding and switches work, and whatever needs a device says so; the same calls run with real PyTorch."""

from __future__ import annotations

import threading
from types import ModuleType

import pytest

import flambeau
from flambeau.core.state import active


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "flambeau":
        return flambeau
    real = request.getfixturevalue("oracle")
    if real.cuda.is_available() or real.version.cuda:
        pytest.skip("a build of PyTorch with CUDA answers differently")
    return real


def test_device_is_chosen_by_availability(torch):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert device.type == "cpu"
    assert torch.cuda.device_count() == 0
    assert not torch.cuda.is_initialized()
    assert torch.ones(1).get_device() == -1
    assert torch.version.cuda is None and torch.version.hip is None
    assert not torch.cuda.is_bf16_supported()
    assert torch.cuda.get_arch_list() == []
    assert not torch.backends.mps.is_available() and not torch.backends.mps.is_built()
    assert not torch.backends.cuda.is_built()
    assert not torch.mps.is_available()


def test_seeding_and_cache_calls_are_harmless(torch):
    torch.manual_seed(3)
    first = torch.rand(2).tolist()
    torch.manual_seed(3)
    torch.cuda.manual_seed(1)
    torch.cuda.manual_seed_all(1)
    torch.cuda.empty_cache()
    assert torch.rand(2).tolist() == first
    assert torch.cuda.get_rng_state_all() == []
    torch.cuda.set_rng_state_all([])


def test_nothing_is_allocated(torch):
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        assert getattr(torch.cuda, name)() == 0
    assert dict(torch.cuda.memory_stats()) == {}


@pytest.mark.parametrize(
    "name", ["current_device", "get_device_name", "get_device_properties", "get_device_capability", "synchronize", "current_stream", "init"]
)
def test_what_needs_a_device_raises(torch, name):
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        getattr(torch.cuda, name)()


def test_moving_to_cuda_raises(torch):
    for move in (lambda: torch.ones(1).cuda(), lambda: torch.ones(1).to("cuda"), lambda: torch.zeros(2, device="cuda:0")):
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            move()
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        torch.nn.Linear(1, 1).cuda()


def test_setting_a_device_raises():
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        flambeau.cuda.set_device(0)
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        flambeau.cuda.set_device("cuda:1")
    flambeau.cuda.set_device(-1)


def test_device_contexts(torch):
    with torch.cuda.device(-1), torch.cuda.device_of(torch.ones(1)), torch.cuda.stream(None):
        pass
    with pytest.raises(RuntimeError, match="without CUDA support"), torch.cuda.device(0):
        pass
    with pytest.raises(ValueError, match="Expected a cuda device"):
        torch.cuda.device("cpu")


@pytest.mark.parametrize("name", ["Stream", "Event", "CUDAGraph"])
def test_streams_cannot_be_made(torch, name):
    with pytest.raises(RuntimeError):
        getattr(torch.cuda, name)()


@pytest.mark.parametrize("name", ["FloatTensor", "DoubleTensor", "HalfTensor", "ByteTensor", "LongTensor", "BoolTensor"])
def test_cuda_tensor_types_exist_and_refuse(torch, name):
    kind = getattr(torch.cuda, name)
    assert not isinstance(torch.ones(1), kind)
    with pytest.raises(TypeError, match="not available"):
        kind(3)


def test_cuda_storages_refuse():
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        flambeau.cuda.FloatStorage(3)


def test_error_classes(torch):
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError


def test_nvtx_refuses(torch):
    with pytest.raises(RuntimeError, match="NVTX"):
        torch.cuda.nvtx.range_push("x")


@pytest.mark.parametrize("name", ["enabled", "benchmark", "deterministic", "allow_tf32"])
def test_cudnn_switches_keep_what_they_are_set_to(torch, name):
    cudnn = torch.backends.cudnn
    before = getattr(cudnn, name)
    if torch.__name__ == "torch" and torch.backends.flags_frozen():
        pytest.skip("PyTorch's own test databases, imported by another test, forbid setting the flags")
    try:
        setattr(cudnn, name, not before)
        assert getattr(cudnn, name) is (not before)
        with pytest.raises(RuntimeError, match="expects a bool, but got int"):
            setattr(cudnn, name, 3)
    finally:
        setattr(cudnn, name, before)


def test_cudnn_defaults_and_flags(torch):
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False, True)
    assert cudnn.version() is None
    assert not cudnn.is_available() and not cudnn.is_acceptable(torch.ones(1))
    with cudnn.flags(enabled=False, deterministic=True):
        assert (cudnn.enabled, cudnn.deterministic) == (False, True)
    assert (cudnn.enabled, cudnn.deterministic) == (True, False)


def test_unknown_flags_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword"), flambeau.backends.cudnn.flags(fast=True):
        pass
    assert flambeau.backends.cudnn.enabled is True


def test_matmul_precision_has_two_faces(torch):
    assert torch.get_float32_matmul_precision() == "highest"
    try:
        torch.set_float32_matmul_precision("high")
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cuda.matmul.allow_tf32 is True
        # PyTorch refuses to tell the precision after a mix of the two ways.
        if torch is flambeau:
            torch.backends.cuda.matmul.allow_tf32 = False
            assert torch.get_float32_matmul_precision() == "highest"
        with pytest.raises(AttributeError, match="Unknown attribute"):
            _ = torch.backends.cuda.matmul.foo
    finally:
        torch.set_float32_matmul_precision("highest")


def test_unknown_precision_warns_and_changes_nothing():
    with pytest.warns(UserWarning, match="is not one of 'highest', 'high', or 'medium'"):
        flambeau.set_float32_matmul_precision("low")
    assert flambeau.get_float32_matmul_precision() == "highest"


def test_deterministic_algorithms(torch):
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.get_deterministic_debug_mode() == 1
        torch.set_deterministic_debug_mode("error")
        assert torch.get_deterministic_debug_mode() == 2
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.set_deterministic_debug_mode(7)
        with pytest.raises(TypeError):
            torch.use_deterministic_algorithms("yes")
    finally:
        torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_deterministic_debug_mode() == 0


def test_default_device(torch):
    assert torch.get_default_device() == torch.device("cpu")
    try:
        torch.set_default_device("cuda")
        for make in (
            lambda: torch.ones(1),
            lambda: torch.tensor(1),
            lambda: torch.rand(2),
            lambda: torch.arange(3),
            lambda: torch.nn.Linear(1, 1),
        ):
            with pytest.raises(AssertionError, match="not compiled with CUDA"):
                make()
        assert torch.ones(2, device="cpu").tolist() == [1, 1]
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"
    torch.set_default_device("cpu")
    assert torch.ones(1).device.type == "cpu"
    torch.set_default_device(None)
    with pytest.raises(RuntimeError, match="device type at start of device string"):
        torch.set_default_device("gpu")


def test_device_as_context(torch):
    with torch.device("cpu"):
        assert torch.ones(1).device.type == "cpu"
    with torch.device("cuda"):
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            torch.ones(1)
        with torch.device("cpu"):
            assert torch.ones(1).tolist() == [1]
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            torch.ones(1)
    assert torch.ones(1).tolist() == [1]


def test_default_device_is_per_thread_and_quick_ways_return():
    before = len(active)
    seen = []
    with flambeau.device("cuda"):
        thread = threading.Thread(target=lambda: seen.append(flambeau.ones(1).tolist()))
        thread.start()
        thread.join()
    assert seen == [[1.0]]
    assert len(active) == before


def test_random_module(torch):
    torch.random.manual_seed(5)
    state = torch.random.get_rng_state()
    with torch.random.fork_rng():
        inside = torch.rand(2).tolist()
    assert torch.rand(2).tolist() == inside
    torch.random.set_rng_state(state)
    assert torch.rand(2).tolist() == inside
    assert torch.random.initial_seed() == 5


def test_device_modules(torch):
    assert torch.get_device_module("cuda") is torch.cuda
    assert torch.get_device_module() is torch.cpu
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1 and torch.cpu.current_device() == "cpu"
    torch.cpu.synchronize()


def test_named_modules(torch):
    assert torch.storage.UntypedStorage is torch.UntypedStorage
    assert isinstance(2, torch.types.Number) and not isinstance("2", torch.types.Number)
    assert type(torch.ones(2, 2).max(0)) is torch.return_types.max
    assert type(torch.ones(2, 2).sort()) is torch.return_types.sort
    handle = torch.ones(1, requires_grad=True).register_hook(lambda grad: grad)
    assert isinstance(handle, torch.utils.hooks.RemovableHandle)
    with pytest.raises(AttributeError):
        _ = torch.return_types.nothing


def test_flushing_denormals_is_not_possible():
    assert flambeau.set_flush_denormal(True) is False
    assert (flambeau.tensor(1e-40) * 1).item() > 0


def test_accelerator(torch):
    accelerator = torch.accelerator
    if torch is flambeau and accelerator.current_accelerator() is not None:
        pytest.skip("the probe, imported by another test, is an accelerator")
    assert accelerator.current_accelerator() is None and accelerator.current_accelerator(True) is None
    assert not accelerator.is_available() and accelerator.device_count() == 0
    for name in ("current_device_index", "current_stream", "synchronize", "memory_allocated", "memory_stats", "get_memory_info"):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            getattr(accelerator, name)()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        accelerator.set_device_index(0)
    accelerator.set_device_index(-1)
    with pytest.raises(RuntimeError, match="Accelerator expected"):
        accelerator.synchronize("cuda")
    with pytest.raises(ValueError, match="specified index"):
        accelerator.set_device_index(None)
    with accelerator.device_index(None):
        pass


def test_pinning_needs_an_accelerator(torch):
    assert not torch.ones(2).is_pinned() and not torch.ones(2).untyped_storage().is_pinned()
    for pin in (torch.ones(2).pin_memory, torch.ones(2).untyped_storage().pin_memory):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            pin()
    with pytest.raises(RuntimeError, match="pin_memory=True requires a CUDA or other accelerator backend"):
        torch.ones(2, pin_memory=True)


def test_generators_of_cuda_are_refused(torch):
    with pytest.raises(RuntimeError):
        torch.Generator(device="cuda")


def test_gradients_are_not_scaled_without_a_device(torch):
    assert torch.cuda.amp.amp_definitely_not_available()
