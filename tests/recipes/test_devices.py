"""Everyday programs: choosing a device, streams and events, switches of the back ends; run with CUDA too (tests/devices/test_cuda.py)."""

from __future__ import annotations

import pytest


def test_cuda_is_asked_for_on_any_machine(torch):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert torch.ones(2).to(device).device.type == device.type
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    if not torch.cuda.is_available():
        assert torch.cuda.device_count() == 0
        assert torch.ones(1).get_device() == -1
        with pytest.raises((RuntimeError, AssertionError), match="CUDA"):
            torch.ones(1).cuda()


def test_events_time_the_work_of_a_stream_and_only_copy_crosses_devices(torch):
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError):
            torch.cuda.Stream()
        with pytest.raises(RuntimeError):
            torch.cuda.Event(enable_timing=True)
        return
    stream = torch.cuda.Stream()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        start.record()
        product = torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
        end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) >= 0
    with pytest.raises(RuntimeError, match="same device"):
        product + torch.ones(64, 64)
    assert torch.zeros(64, 64).copy_(product)[0, 0] == 64


def test_switches_of_back_ends_read_back_what_was_written(torch):
    assert isinstance(torch.__version__, str)
    assert hasattr(torch.version, "cuda")
    cudnn = torch.backends.cudnn
    if torch.__name__ == "torch" and torch.backends.flags_frozen():
        pytest.skip("PyTorch's own test databases, imported by another test, forbid setting the flags")
    before = {name: getattr(cudnn, name) for name in ("benchmark", "deterministic", "enabled")}
    try:
        cudnn.benchmark = True
        cudnn.deterministic = True
        assert cudnn.benchmark
        assert cudnn.deterministic
        cudnn.enabled = False
        assert cudnn.enabled is False
    finally:
        for name, value in before.items():
            setattr(cudnn, name, value)
