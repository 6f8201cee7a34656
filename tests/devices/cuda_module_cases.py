"""``torch.cuda`` and ``torch.accelerator`` over three devices of the stand-in for CuPy; run by ``test_cuda.py``."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections import namedtuple
from typing import Any

import pytest
from devices import fake_cupy
from devices.marks import several_devices, work_that_waits

import flambeau as torch
from flambeau.nn.parallel import comm

STEP = fake_cupy.ROUND


@pytest.fixture(autouse=True)
def _as_found() -> Any:
    yield
    gc.collect()
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


# -- devices --------------------------------------------------------------------------------------------------------------------------
def test_properties() -> None:
    said = torch.cuda.get_device_properties("cuda:1")
    assert (said.name, said.major, said.minor, said.total_memory, said.warp_size) == ("Stand-in 1", 8, 6, 1 << 30, 32)
    assert said.multi_processor_count == 4
    assert torch.cuda.get_device_capability() == (8, 6)
    assert torch.cuda.is_bf16_supported() and torch.cuda.is_bf16_supported(False) and torch.cuda.is_tf32_supported()
    assert torch.cuda.is_initialized() and torch.backends.cuda.is_built()
    torch.cuda.init()
    assert torch.cuda.can_device_access_peer(0, 1) and not torch.cuda.can_device_access_peer(1, 1)
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.can_device_access_peer(7, 1)
    with pytest.raises(AssertionError, match="Invalid peer device id"):
        torch.cuda.can_device_access_peer(1, 7)
    assert torch.get_device_module("cuda") is torch.get_device_module() is torch.cuda


def test_wrong_devices() -> None:
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.get_device_name("cpu")
    for call in (
        torch.cuda.set_device,
        torch.cuda.get_device_name,
        torch.cuda.synchronize,
        lambda index: torch.ones(1, device=f"cuda:{index}"),
    ):
        with pytest.raises(torch.AcceleratorError, match="CUDA error: invalid device ordinal"):
            call(9)
    with pytest.raises(torch.AcceleratorError), torch.cuda.device(3):
        pass


def test_what_is_not_supported_says_so() -> None:
    for call in (torch.cuda.utilization, torch.cuda.memory_snapshot, torch.cuda.CUDAGraph, torch.accelerator.Graph):
        with pytest.raises(NotImplementedError):
            call()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_may_not_use_cuda() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            torch.ones(1, device="cuda")
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        assert b"Cannot re-initialize CUDA in forked subprocess" in pipe.read()


# -- streams and events ---------------------------------------------------------------------------------------------------------------
@work_that_waits
def test_streams() -> None:
    stream = torch.cuda.Stream()
    assert stream.device == torch.device("cuda:0") and stream.device_index == 0 and stream.cuda_stream != 0
    assert repr(stream) == f"<torch.cuda.Stream device=cuda:0 cuda_stream={stream.cuda_stream:#x}>"
    assert stream != torch.cuda.Stream() and stream == stream and {stream: 1}[stream] == 1
    assert torch.cuda.default_stream().cuda_stream == 0
    with torch.cuda.stream(stream):
        x = torch.ones(3, device="cuda") * 2
        assert torch.cuda.current_stream() == stream
        assert not stream.query()
        stream.synchronize()
        assert stream.query()
    with stream:
        assert torch.cuda.current_stream() == stream
    other = torch.cuda.Stream()
    other.wait_stream(stream)
    other.wait_event(stream.record_event())
    assert not other.query()
    assert x.tolist() == [2, 2, 2]


def test_streams_of_other_devices() -> None:
    stream = torch.cuda.Stream(1)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_device() == 1
        assert torch.ones(1, device="cuda").get_device() == 1
        assert torch.cuda.current_stream() == stream
        assert torch.cuda.current_stream(0) == torch.cuda.default_stream(0)
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    torch.cuda.set_stream(stream)
    assert torch.cuda.current_device() == 1
    torch.cuda.set_stream(torch.cuda.default_stream(1))
    torch.cuda.set_device(0)
    torch.cuda.set_stream(None)


def test_external_streams() -> None:
    made_elsewhere = sys.modules["cupy"].cuda.Stream()
    stream = torch.cuda.ExternalStream(made_elsewhere.ptr, device=0)
    assert isinstance(stream, torch.cuda.Stream) and stream.cuda_stream == made_elsewhere.ptr
    assert stream.__cuda_stream__() == (0, made_elsewhere.ptr)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream


@work_that_waits
def test_events() -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True, blocking=True)
    assert repr(start) == "<torch.cuda.Event uninitialized>" and start.device is None
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    x = torch.ones(10, device="cuda") + 1
    end.record(torch.cuda.current_stream())
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.query() and end.query() and start.elapsed_time(end) > 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(torch.cuda.Event())
    stream = torch.cuda.Stream()
    end.wait(stream)
    assert not stream.query()
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        end.record(torch.cuda.Stream(1))
    for option in ("interprocess", "external"):
        with pytest.raises(NotImplementedError):
            torch.cuda.Event(**{option: True})
    assert x.tolist() == [2] * 10


def test_record_stream_keeps_memory_until_the_stream_is_done() -> None:
    stream, before = torch.cuda.Stream(), torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda")
    with torch.cuda.stream(stream):
        y = x * 2
    x.record_stream(stream)
    del x
    with torch.cuda.stream(stream):
        del y
    assert torch.cuda.memory_allocated() > before
    stream.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before
    with pytest.raises(RuntimeError, match="expected a CUDA tensor"):
        torch.ones(1).record_stream(stream)
    with pytest.raises(RuntimeError, match="unknown parameter type"):
        torch.ones(1, device="cuda").record_stream(3)


# -- memory ---------------------------------------------------------------------------------------------------------------------------
def test_statistics() -> None:
    cuda = torch.cuda
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    cuda.reset_accumulated_memory_stats()
    before = cuda.memory_allocated()
    x = torch.empty(4 * STEP, dtype=torch.uint8, device="cuda")
    assert cuda.memory_allocated() == cuda.max_memory_allocated() == before + 4 * STEP
    y = torch.empty(2 * STEP, dtype=torch.uint8, device="cuda")
    del y
    assert cuda.memory_allocated() == before + 4 * STEP
    assert cuda.max_memory_allocated() == cuda.memory_reserved() == before + 6 * STEP
    assert cuda.memory_allocated(1) == cuda.memory_reserved("cuda:1") == 0
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == before + 4 * STEP and stats["allocated_bytes.all.peak"] == before + 6 * STEP
    assert stats["allocation.all.allocated"] == 2 and stats["num_ooms"] == 0
    assert list(stats) == sorted(stats)
    assert cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"] == before + 6 * STEP
    cuda.reset_peak_memory_stats()
    cuda.empty_cache()
    assert cuda.max_memory_allocated() == before + 4 * STEP == cuda.memory_reserved()
    assert cuda.max_memory_reserved() == before + 6 * STEP
    assert cuda.mem_get_info() == ((1 << 30) - cuda.memory_reserved(), 1 << 30)
    for text in ("Allocated memory", "Out of memory"):
        assert text in cuda.memory_summary()
    assert "Out of memory" not in cuda.memory_summary(abbreviated=True)
    for old, new in (("memory_cached", cuda.memory_reserved), ("max_memory_cached", cuda.max_memory_reserved)):
        with pytest.warns(FutureWarning, match="has been renamed"):
            assert getattr(cuda, old)() == new()
    for old in ("reset_max_memory_allocated", "reset_max_memory_cached"):
        with pytest.warns(FutureWarning, match="resets /all/ peak memory stats"):
            getattr(cuda, old)()
    cuda.ipc_collect()
    assert cuda.get_allocator_backend() == "cupy"
    del x


@pytest.mark.parametrize(
    "make", [lambda n: torch.empty(n, dtype=torch.uint8, device="cuda:1"), lambda n: torch.ones(n // 8, device="cuda:1") + 1]
)
def test_out_of_memory_is_pytorchs_error(make: Any) -> None:
    torch.cuda.reset_accumulated_memory_stats(1)
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory. Tried to allocate .* GPU 1 has a total capacity of 1.00 GiB"):
        torch.cuda.set_per_process_memory_fraction(0.5, 1)
        try:
            make((1 << 29) + (1 << 28))
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, 1)
    gc.collect()
    assert torch.cuda.memory_stats(1)["num_ooms"] >= 1
    assert torch.ones(3, device="cuda:1").sum().item() == 3
    assert isinstance(torch.cuda.OutOfMemoryError("x"), RuntimeError)


def test_limits() -> None:
    torch.cuda.set_per_process_memory_fraction(0.25, "cuda:2")
    assert torch.cuda.get_per_process_memory_fraction(2) == 0.25 and torch.cuda.get_per_process_memory_fraction(1) == 1.0
    torch.cuda.set_per_process_memory_fraction(0.0, 2)
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(1, device="cuda:2")
    torch.cuda.set_per_process_memory_fraction(1.0, 2)
    with pytest.raises(TypeError, match="must be `float`"):
        torch.cuda.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="Invalid fraction value"):
        torch.cuda.set_per_process_memory_fraction(1.5)


def test_raw_memory() -> None:
    before = torch.cuda.memory_allocated()
    address = torch.cuda.caching_allocator_alloc(100)
    assert torch.cuda.memory_allocated() == before + STEP
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == before


# -- random numbers -------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "draw",
    [
        lambda **k: torch.rand(5, **k),
        lambda **k: torch.randn(20, **k),
        lambda **k: torch.randint(10, (5,), **k),
        lambda **k: torch.randperm(5, **k),
        lambda **k: torch.bernoulli(torch.full((5,), 0.5, **k)),
        lambda **k: torch.nn.functional.dropout(torch.ones(20, **k)),
        lambda **k: torch.empty(5, **k).exponential_(),
        lambda **k: torch.multinomial(torch.ones(5, **k), 3),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_each_device_draws_the_cpus_numbers_from_its_own_generator(draw: Any, device: str) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    there = draw(device=device)
    assert torch.equal(torch.get_rng_state(), state), "the CPU's generator moved"
    assert there.is_cuda
    assert there.tolist() == draw(device="cpu").tolist()
    assert draw(device=device).tolist() == draw(device="cpu").tolist()


@pytest.mark.parametrize("name", ["attention", "dropout", "native_dropout", "rrelu", "fractional pooling"])
def test_layers_draw_the_numbers_of_their_device(name: str) -> None:
    F = torch.nn.functional
    run = {
        "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
        "dropout": F.dropout,
        "native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
        "rrelu": lambda x: F.rrelu(-x.abs(), training=True),
        "fractional pooling": lambda x: F.fractional_max_pool2d(x, 2, 9),
    }[name]
    x = torch.randn(2, 3, 24, 24, dtype=torch.float64)

    def drawn(device: str, seed: int) -> torch.Tensor:
        torch.manual_seed(0)  # of all devices
        (torch.manual_seed if device == "cpu" else torch.cuda.manual_seed)(seed)
        given = x.to(device).requires_grad_()
        (slope,) = torch.autograd.grad(run(given).square().sum(), given, create_graph=True)
        return torch.cat([run(given), slope, *torch.autograd.grad(slope.square().sum(), given)] if name == "attention" else [slope]).cpu()

    assert torch.allclose(drawn("cuda", 5), drawn("cpu", 5), atol=1e-4)
    assert not torch.equal(drawn("cuda", 5), drawn("cuda", 6))
    torch.cuda.manual_seed(3)
    first, second = run(x.cuda()), run(x.cuda())
    assert not torch.equal(first, second)


@several_devices
def test_seeds_and_states() -> None:
    cuda = torch.cuda
    torch.manual_seed(7)
    assert [generator.initial_seed() for generator in cuda.default_generators] == [7, 7, 7]
    assert [str(generator.device) for generator in cuda.default_generators] == ["cuda:0", "cuda:1", "cuda:2"]
    cuda.manual_seed(8)
    with cuda.device(1):
        cuda.manual_seed(9)
        assert cuda.initial_seed() == 9
    assert cuda.initial_seed() == 8 and torch.initial_seed() == 7
    state = cuda.get_rng_state("cuda:1")
    first = torch.rand(3, device="cuda:1")
    cuda.set_rng_state(state, 1)
    assert torch.equal(torch.rand(3, device="cuda:1"), first)
    states = cuda.get_rng_state_all()
    cuda.manual_seed_all(1)
    cuda.set_rng_state_all(states)
    assert all(torch.equal(a, b) for a, b in zip(cuda.get_rng_state_all(), states, strict=True))
    cuda.seed()
    cuda.seed_all()
    assert len({generator.initial_seed() for generator in cuda.default_generators}) == 1


def test_generators() -> None:
    generator = torch.Generator("cuda:1").manual_seed(4)
    assert generator.device == torch.device("cuda:1") and torch.Generator(device="cuda").device == torch.device("cuda:0")
    expected = torch.rand(4, generator=torch.Generator().manual_seed(4))
    assert torch.rand(4, generator=generator, device="cuda:1").tolist() == expected.tolist()
    assert torch.empty(4, device="cuda:1").uniform_(generator=generator.manual_seed(4)).tolist() == expected.tolist()
    assert generator.clone_state().device == generator.device
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.rand(4, generator=torch.Generator(), device="cuda")
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.rand(4, generator=generator)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.empty(4).normal_(generator=generator)
    with pytest.raises(RuntimeError, match="does not use offset"):
        generator.get_offset()


def test_forked_generators() -> None:
    torch.manual_seed(2)
    with torch.random.fork_rng():
        inside = torch.rand(2).tolist(), torch.rand(2, device="cuda").tolist()
    assert (torch.rand(2).tolist(), torch.rand(2, device="cuda").tolist()) == inside
    torch.manual_seed(2)
    with torch.random.fork_rng(devices=[1]):
        torch.rand(2, device="cuda:1")
        torch.rand(2, device="cuda:0")
    assert torch.rand(2, device="cuda:1").tolist() == inside[1]
    assert torch.rand(2, device="cuda:0").tolist() != inside[1]


# -- comm -----------------------------------------------------------------------------------------------------------------------------
def test_broadcast() -> None:
    x = torch.arange(3.0, device="cuda:1", requires_grad=True)
    copies = comm.broadcast(x, [1, "cuda:0", torch.device("cuda:2")])
    assert copies[0] is x and [each.get_device() for each in copies] == [1, 0, 2]
    sum((each * (i + 1)).sum().cpu() for i, each in enumerate(copies)).backward()
    assert x.grad.tolist() == [6, 6, 6]
    out = [torch.zeros(3, device="cuda:0"), torch.zeros(3, device="cuda:2")]
    assert comm.broadcast(x.detach(), out=out) == tuple(out)
    assert out[1].tolist() == [0, 1, 2]
    for devices, given in ((None, None), ([0], out)):
        with pytest.raises(RuntimeError, match="Exactly one of 'devices' and 'out'"):
            comm.broadcast(x, devices, out=given)
    with pytest.raises(RuntimeError, match="same shape as the source tensor"):
        comm.broadcast(x, out=[torch.zeros(2, device="cuda")])
    with pytest.raises(RuntimeError, match="to be CUDA tensors"):
        comm.broadcast(x, out=[torch.zeros(3)])


def test_broadcast_coalesced() -> None:
    tensors = [torch.ones(2, device="cuda"), torch.arange(3, device="cuda")]
    copies = comm.broadcast_coalesced(tensors, [0, 1], buffer_size=10)
    assert [[each.get_device() for each in group] for group in copies] == [[0, 0], [1, 1]]
    assert copies[1][1].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"All tensors must be on devices\[0\]"):
        comm.broadcast_coalesced(tensors, [1, 0])
    with pytest.raises(RuntimeError, match="buffer size"):
        comm.broadcast_coalesced(tensors, [0, 1], buffer_size=0)


def test_reduce_add() -> None:
    parts = [torch.full((2,), float(i + 1), device=f"cuda:{i}", requires_grad=True) for i in range(3)]
    total = comm.reduce_add(parts, destination="cuda:2")
    assert total.get_device() == 2 and total.tolist() == [6, 6]
    total.sum().backward()
    assert all(each.grad.tolist() == [1, 1] and each.grad.device == each.device for each in parts)
    assert comm.reduce_add(parts[:1]) is parts[0]
    with pytest.raises(ValueError, match="input 1 has invalid size: got 3, but expected 2"):
        comm.reduce_add([parts[0], torch.ones(3, device="cuda:1")])
    with pytest.raises(RuntimeError, match="destination to be on the same GPU with one of the tensors"):
        comm.reduce_add(parts[1:], 0)
    with pytest.raises(RuntimeError, match="expected all tensors to be CUDA tensors"):
        comm.reduce_add([torch.ones(2)])
    sums = comm.reduce_add_coalesced([[torch.ones(2, device=f"cuda:{i}"), torch.ones(1, device=f"cuda:{i}")] for i in range(2)], 1)
    assert [(each.get_device(), each.tolist()) for each in sums] == [(1, [2, 2]), (1, [2])]


def test_scatter_and_gather() -> None:
    x = torch.arange(10.0, requires_grad=True)
    parts = comm.scatter(x, [0, 1, 2])
    assert [each.tolist() for each in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    joined = comm.gather(parts, destination=1)
    assert joined.get_device() == 1 and joined.tolist() == x.tolist()
    (joined * torch.arange(10.0, device="cuda:1")).sum().backward()
    assert x.grad.tolist() == list(range(10))
    sizes = comm.scatter(x.detach().reshape(2, 5), ["cuda:2", "cuda:0"], [1, 4], 1, streams=[torch.cuda.Stream(2), None])
    assert [(each.get_device(), tuple(each.shape)) for each in sizes] == [(2, (2, 1)), (0, (2, 4))]
    out = [torch.zeros(4, device="cuda:1"), torch.zeros(6, device="cuda:0")]
    assert comm.scatter(x.detach(), out=out)[1].tolist() == [4, 5, 6, 7, 8, 9]
    target = torch.zeros(10, device="cuda:2")
    assert comm.gather(out, out=target) is target and target.tolist() == x.tolist()
    with pytest.warns(FutureWarning, match="Using -1 to represent CPU tensor"):
        assert comm.gather(out, 0, -1).device.type == "cpu"
    with pytest.raises(RuntimeError, match="at least one device to scatter to"):
        comm.scatter(x, [])
    with pytest.raises(RuntimeError, match="don't sum up to the tensor's size"):
        comm.scatter(x, [0, 1], [1, 2])
    with pytest.raises(RuntimeError, match="'chunk_sizes' must not be specified"):
        comm.scatter(x, chunk_sizes=[10], out=out)
    with pytest.raises(RuntimeError, match="'destination' must not be specified"):
        comm.gather(out, destination=0, out=target)
    with pytest.raises(RuntimeError, match="at least one tensor to gather from"):
        comm.gather([])
    with pytest.raises(RuntimeError, match="tensor at index 1 is on device 'cpu'"):
        comm.gather([out[0], torch.ones(3)])


# -- accelerator ----------------------------------------------------------------------------------------------------------------------
@several_devices
def test_accelerator() -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.device_count() == 3
    assert accelerator.current_accelerator() == torch.device("cuda") == accelerator.current_accelerator(True)
    accelerator.set_device_index(1)
    assert accelerator.current_device_index() == torch.cuda.current_device() == 1
    accelerator.set_device_index("cuda:0")
    accelerator.set_device_index(-1)
    with accelerator.device_index(2):
        assert accelerator.current_device_index() == 2
    with accelerator.device_index(None):
        assert accelerator.current_device_index() == 0
    with pytest.warns(FutureWarning, match="current_device_index"):
        assert accelerator.current_device_idx() == 0
    stream = torch.cuda.Stream()
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == stream == accelerator.current_stream("cuda:0")
    accelerator.set_stream(torch.cuda.default_stream())
    accelerator.synchronize()
    accelerator.synchronize("cuda:1")
    accelerator.empty_cache()
    accelerator.empty_host_cache()
    assert accelerator.memory_allocated() == torch.cuda.memory_allocated()
    assert accelerator.max_memory_reserved(1) == torch.cuda.max_memory_reserved(1)
    assert accelerator.memory_stats("cuda:1").keys() == torch.cuda.memory_stats().keys()
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.get_memory_info(0) == torch.cuda.mem_get_info(0)
    supported = accelerator.get_device_capability()["supported_dtypes"]
    assert torch.bfloat16 in supported and torch.float8_e5m2 not in supported
    with pytest.raises(RuntimeError, match="doesn't match the current accelerator"):
        accelerator.synchronize("xpu")
    with pytest.raises(ValueError, match="specified index"):
        accelerator.set_device_index("cuda")
    with pytest.raises(TypeError):
        accelerator.set_stream(None)


# -- modules on several devices -----------------------------------------------------------------------------------------------------------
class Net(torch.nn.Module):
    """What a copy must get right: shared parameters, a buffer, an LSTM with its list of weights, a list of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.tied = torch.nn.Linear(4, 4, bias=False)
        self.tied.weight = self.first.weight
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
        self.scales = torch.nn.ParameterList([torch.nn.Parameter(torch.full((3,), 2.0))])
        self.seen: list[Any] = []

    def forward(self, x: Any, *, shift: float = 0.0) -> Any:
        self.seen.append((x.device.index, torch.cuda.current_device(), len(x), len(list(self.parameters()))))
        hidden = self.tied(self.norm(self.first(x)).relu())
        output, _ = self.lstm(hidden.unsqueeze(1))
        return {"output": output[:, 0] * self.scales[0] + shift, "total": (output.sum(), None)}


@several_devices
def test_data_parallel_is_the_module_on_the_whole_batch() -> None:
    torch.manual_seed(0)
    net = Net().to("cuda:0").eval()
    x = torch.randn(7, 4).requires_grad_()
    want = net(x.to("cuda:0"), shift=1.0)
    want["output"].square().sum().backward()
    gradients = [parameter.grad.clone() for parameter in net.parameters()]
    of_input = x.grad.clone()
    net.zero_grad()
    x.grad = None
    net.seen.clear()
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        got = torch.nn.DataParallel(net)(x, shift=1.0)
    assert sorted(net.seen) == [(0, 0, 3, 0), (1, 1, 3, 0), (2, 2, 1, 0)]
    assert got["output"].device == torch.device("cuda", 0)
    torch.testing.assert_close(got["output"], want["output"])
    assert got["total"][0].shape == (3,) and got["total"][1] is None
    got["output"].square().sum().backward()
    torch.testing.assert_close(x.grad, of_input)
    for parameter, gradient in zip(net.parameters(), gradients):
        torch.testing.assert_close(parameter.grad, gradient)


def test_data_parallel_keeps_the_first_devices_statistics() -> None:
    net = torch.nn.BatchNorm1d(2).to("cuda:1")
    x = torch.arange(12.0).reshape(6, 2)
    wrapper = torch.nn.DataParallel(net, device_ids=[1, 2], output_device="cuda:2")
    assert wrapper(x).device == torch.device("cuda", 2)
    alone = torch.nn.BatchNorm1d(2)
    alone(x[:3])
    torch.testing.assert_close(net.running_mean.cpu(), alone.running_mean)
    assert net.num_batches_tracked == 1
    with torch.no_grad():
        assert not wrapper(x).requires_grad
    assert list(wrapper.state_dict()) == [f"module.{name}" for name in net.state_dict()]


def test_data_parallel_on_one_device_moves_the_module_and_calls_it() -> None:
    net = torch.nn.Linear(2, 1)
    wrapper = torch.nn.DataParallel(net, [2])
    assert net.weight.device == wrapper(torch.ones(3, 2)).device == torch.device("cuda", 2)


@several_devices
def test_what_data_parallel_refuses() -> None:
    net = torch.nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one of them on device: cpu"):
        torch.nn.DataParallel(net)(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match=r"found one of them on device: cpu"):
        torch.nn.parallel.data_parallel(net, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="no available devices were found"):
        torch.nn.DataParallel(net, device_ids=[])
    with pytest.raises(RuntimeError, match=r"All tensors must be on devices\[0\]: 0"):
        torch.nn.parallel.replicate(net, [0, 1])
    with pytest.raises(RuntimeError, match="uninitialized parameters can't be used with `DataParallel`"):
        torch.nn.parallel.replicate(torch.nn.LazyLinear(2).to("cuda:0"), [0])
    with pytest.raises(AssertionError, match="not implemented for CPU tensors"):
        torch.nn.parallel.gather([torch.ones(1), torch.ones(1)], 0)
    with pytest.raises(ValueError, match="same number of keys"):
        torch.nn.parallel.gather([{"a": 1}, {}], 0)


@several_devices
def test_an_error_in_a_copy_comes_with_its_traceback() -> None:
    net = torch.nn.Linear(2, 1).to("cuda:0")
    with pytest.raises(RuntimeError, match=r"(?s)Caught RuntimeError in replica 0 on device 0\.\nOriginal Traceback.*in call"):
        torch.nn.parallel.data_parallel(net, torch.ones(3, 5))


def test_data_parallel_as_a_function() -> None:
    net = torch.nn.Linear(2, 1).to("cuda:0")
    x = torch.randn(5, 2)
    want = net(x.to("cuda:0"))
    torch.testing.assert_close(torch.nn.parallel.data_parallel(net, x), want)
    torch.testing.assert_close(torch.nn.parallel.data_parallel(net, x, [0, 2], "cpu"), want.cpu())
    torch.testing.assert_close(torch.nn.parallel.data_parallel(net, None, [0], module_kwargs={"input": x}), want)


def test_scatter_keeps_structures() -> None:
    Point = namedtuple("Point", "x y")
    parts = torch.nn.parallel.scatter((Point(torch.arange(4), "a"), [torch.ones(4, 1)], {"k": torch.zeros(4)}, ()), [0, 2])
    assert len(parts) == 2
    point, ones, zeros, empty = parts[1]
    assert isinstance(point, Point) and point.x.tolist() == [2, 3] and point.y == "a" and empty == ()
    assert ones[0].shape == (2, 1) and zeros["k"].device == torch.device("cuda", 2)
    back = torch.nn.parallel.gather([part[1:3] for part in parts], "cpu")
    assert isinstance(back, tuple) and isinstance(back[0], list) and back[1]["k"].tolist() == [0] * 4


# -- autocast -------------------------------------------------------------------------------------------------------------------------
def test_autocast_takes_the_devices_own_lists() -> None:
    x, w = torch.rand(3, 3, device="cuda:1") + 0.5, torch.nn.Parameter(torch.rand(3, 3, device="cuda:1"))
    here, narrow, functional = torch.ones(3, 3), torch.float16, torch.nn.functional
    h = x.half()
    with torch.autocast("cuda"):
        assert [t.dtype for t in (x @ w, torch.mv(x, x[0]), functional.linear(x, w), torch.einsum("ij,jk", x, x))] == [narrow] * 4
        assert [t.dtype for t in (h.exp(), h.sum(), h.softmax(0), h.pow(2), 2**h, functional.layer_norm(h, (3,)), h.norm())] == [
            torch.float32
        ] * 7
        assert h.sum(dtype=torch.float16).dtype is narrow and h.relu().dtype is narrow
        assert torch.dot(h[0], x[0]).dtype is torch.float32 and torch.atan2(h, h).dtype is narrow
        assert (here @ here).dtype is torch.float32 and here.half().exp().dtype is narrow  # the CPU's are not cast
        assert functional.binary_cross_entropy(here / 2, here).item() > 0
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            functional.binary_cross_entropy(x / 2, x / 2)
        with torch.autocast("cpu"):
            assert (here @ here).dtype is torch.bfloat16 and (x @ w).dtype is narrow
    (x @ w).sum().backward()
    assert w.grad.dtype is torch.float32 and h.exp().dtype is narrow
    with pytest.warns(UserWarning, match="In CUDA autocast"), torch.autocast("cuda", torch.float32):
        assert (x @ w).dtype is torch.float32


def test_a_scaler_of_a_device() -> None:
    layer = torch.nn.Linear(2, 1, device="cuda:1")
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.1), torch.amp.GradScaler("cuda", init_scale=1024.0)
    for factor, scale in ((1.0, 1024.0), (float("inf"), 512.0)):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = layer(torch.ones(4, 2, device="cuda:1")).float().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale and scaler._scale.device.type == "cuda"
    assert layer.weight.isfinite().all()


def test_exported_programs_keep_each_weight_in_a_file() -> None:
    layers = torch.nn.Sequential(*[torch.nn.PReLU(3, k) for k in range(1, 7)]).to("cuda")
    torch.export.save(torch.export.export(layers, (torch.ones(2, 3, device="cuda"),)), file := io.BytesIO())
    loaded = torch.export.load(file).state_dict
    assert [weight.tolist() for weight in loaded.values()] == [[float(k)] * 3 for k in range(1, 7)]
