"""Calls in other processes: results, exceptions, references, strangers. The workers run one program, which checks itself."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.distributed import run
from flambeau.distributed.rpc import TensorPipeRpcBackendOptions, connection
from flambeau.distributed.stores import secret

PROGRAM = """
import os, pickle, sys, time
import flambeau as torch
import flambeau.distributed.autograd as passes
import flambeau.distributed.rpc as rpc


class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, n=1):
        self.value += n
        return self.value


class Told(Exception):
    pass


def fail(x):
    raise Told(f"bad {x}")


def where():
    return rpc.get_worker_info().name


def total(rref):
    return rref.to_here() + (rref.local_value() if rref.is_owner() else 0)


def alive():
    import gc
    gc.collect()
    return len(rpc.api.agent().owned)


@rpc.functions.async_execution
def chained(to, x):
    return rpc.rpc_async(to, torch.add, args=(x, 1)).then(lambda done: done.wait() * 2)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        raise Told("no gradient")


class NoGradient(Broken):
    @staticmethod
    def backward(ctx, grad):
        return None


def broken(x):
    return Broken.apply(x)


def broken_later(x, to):
    return Broken.apply(rpc.rpc_sync(to, torch.neg, args=(x * torch.ones(2, requires_grad=True),)))


def there_and_back(x, to):
    return rpc.rpc_sync(to, torch.mul, args=(x, x)) * x.sum()


def squared(context_id, x):
    y = rpc.rpc_sync("w0", torch.mul, args=(x, x)).sum()
    passes.backward(context_id, [y])
    return passes.get_gradients(context_id)


def contexts():
    return passes._get_debug_info()["num_autograd_contexts"]


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind}")


def check():
    assert repr(rpc.get_worker_info("w1")) == "WorkerInfo(id=1, name=w1)"
    assert torch.equal(rpc.rpc_sync("w1", torch.add, args=(torch.ones(2),), kwargs={"other": 3}), torch.full((2,), 4.0))
    assert [rpc.rpc_sync(to, where) for to in ("w1", 1, rpc.get_worker_info("w1"), "w0")] == ["w1", "w1", "w1", "w0"]
    large = torch.arange(1_000_000.0)
    assert torch.equal(rpc.rpc_async("w1", torch.neg, args=(large,)).wait(), -large)
    text = raised(Told, lambda: rpc.rpc_sync("w1", fail, args=(1,)))
    assert text.startswith("On WorkerInfo(id=1, name=w1):") and "bad 1" in text and "in fail" in text
    start = time.monotonic()
    assert "(200 ms)" in raised(RuntimeError, lambda: rpc.rpc_sync("w1", time.sleep, args=(1,), timeout=0.2))
    assert time.monotonic() - start < 0.9
    assert "could not find destination name w7" in raised(RuntimeError, lambda: rpc.rpc_sync("w7", where))
    counter = rpc.remote("w1", Counter, args=(5,))
    assert (counter.rpc_sync().add(), counter.rpc_async().add(n=3).wait(), counter.remote().add().to_here()) == (6, 9, 10)
    assert (counter.is_owner(), counter.owner_name(), counter._get_type()) == (False, "w1", Counter)
    raised(AttributeError, lambda: counter.rpc_sync().nothing())
    assert "can't call localValue() on user" in raised(RuntimeError, counter.local_value)
    assert raised(Told, lambda: rpc.remote("w1", fail, args=(2,)).to_here()).count("On WorkerInfo") == 1
    assert "only be pickled when using RPC" in raised(RuntimeError, lambda: pickle.dumps(counter))
    mine = rpc.RRef(torch.ones(1))
    assert rpc.rpc_sync("w1", total, args=(mine,)) == 1 and rpc.rpc_sync("w0", total, args=(mine,)) == 2
    theirs = rpc.remote("w1", torch.add, args=(torch.ones(1), 1))
    assert rpc.rpc_sync("w1", total, args=(theirs,)) == 4
    assert rpc.rpc_sync("w1", chained, args=("w0", torch.ones(1))) == 4
    gathering()
    backwards()
    del counter, theirs
    alive()  # exceptions that were raised hold frames, and these references
    end = time.monotonic() + 5
    while rpc.rpc_sync("w1", alive) and time.monotonic() < end:
        time.sleep(0.02)
    assert rpc.rpc_sync("w1", alive) == 0


def gathers(own):
    # in all workers at once
    for turn in range(3):
        assert rpc.api._all_gather((own, turn)) == {name: (name, turn) for name in ("w0", "w1", "w2")}
    rpc.api._barrier(["w0", "w1", "w2"])
    assert rpc.api._all_gather(turn, [own]) == {own: turn}
    return rpc.api._require_initialized(rpc._is_current_rpc_agent_set)()


def gathering():
    others = [rpc.rpc_async(name, gathers, args=(name,)) for name in ("w1", "w2")]
    assert gathers("w0") and all(other.wait() for other in others)
    assert "w0 is not contained" in raised(RuntimeError, lambda: rpc.api._all_gather(0, ["w1"]))
    assert "(100 ms)" in raised(RuntimeError, lambda: rpc.api._all_gather(0, timeout=0.1))


def backwards():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with passes.context() as context_id:
        y = rpc.rpc_sync("w1", there_and_back, args=(x, "w0"))
        loss = y.sum() + rpc.rpc_sync("w0", torch.mul, args=(y.detach(), x)).sum()
        loss = loss + NoGradient.apply(rpc.rpc_sync("w1", torch.neg, args=(x,))).sum()
        passes.backward(context_id, [loss], retain_graph=True)
        expected = torch.autograd.functional.jacobian(lambda x: (x * x * x.sum()).sum(), x.detach()) + y.detach()
        assert torch.equal(passes.get_gradients(context_id)[x], expected) and x.grad is None
        passes.backward(context_id, [loss])
        assert torch.equal(passes.get_gradients(context_id)[x], 2 * expected)
        assert "second time" in raised(RuntimeError, lambda: passes.backward(context_id, [loss]))
        assert y.grad_fn.name() == "torch::distributed::autograd::RecvRpcBackward" and contexts() == 1
        kept = rpc.remote("w1", torch.mul, args=(torch.nn.Parameter(x.detach()), x))
        raised(RuntimeError, lambda: kept.backward(context_id))  # more than one element
        kept.remote().sum().backward(context_id)
        assert torch.equal(passes.get_gradients(context_id)[x], 2 * expected + x)
        assert "context" in raised(RuntimeError, lambda: passes.context().__enter__())
    assert "Could not find autograd context" in raised(RuntimeError, lambda: passes.get_gradients(context_id))
    with passes.context() as context_id:
        bad = rpc.rpc_sync("w1", broken, args=(x,)).sum()
        assert "no gradient" in raised(RuntimeError, lambda: passes.backward(context_id, [bad]))
        waiting = rpc.rpc_sync("w2", broken_later, args=(x.detach(), "w1")).sum()  # w1 waits for gradients of w2, and nobody else does
        assert "no gradient" in raised(RuntimeError, lambda: passes.backward(context_id, [waiting]))
        raised(RuntimeError, lambda: passes.backward(context_id, []))
        for wrong in (x.sum(), torch.ones(1), [3]):
            assert "roots must be" in raised(TypeError, lambda roots=wrong: passes.backward(context_id, roots))
        raised(RuntimeError, lambda: passes.backward(context_id, [x.detach()]))
    with passes.context() as context_id:
        assert len(rpc.rpc_sync("w1", squared, args=(context_id, x))) == 0  # its leaves are here
        assert torch.equal(passes.get_gradients(context_id)[x], 2 * x)
    with passes.context() as context_id:
        x.grad = torch.ones(2)
        optimizer = torch.distributed.optim.DistributedOptimizer(torch.optim.SGD, [rpc.RRef(x)], lr=1.0)
        passes.backward(context_id, [rpc.rpc_sync("w1", torch.mul, args=(x, x)).sum()])
        optimizer.step(context_id)
        assert x.tolist() == [-1.0, -2.0] and x.grad.tolist() == [1.0, 1.0]
    wrong = torch.distributed.nn.RemoteModule("w1/cpu", dict)
    assert "returns an instance of <class nn.Module>" in raised(ValueError, wrong.get_module_rref().to_here)
    end = time.monotonic() + 5
    while (contexts(), rpc.rpc_sync("w1", contexts)) != (0, 0) and time.monotonic() < end:
        time.sleep(0.02)
    assert (contexts(), rpc.rpc_sync("w1", contexts)) == (0, 0)


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    if rank == 0:
        check()
    elif os.environ.get("DIES"):
        time.sleep(0.3)
        os._exit(0)
    rpc.shutdown()
    raised(RuntimeError, lambda: rpc.rpc_sync("w1", where))
"""


def test_three_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run.main(["--standalone", "--nproc-per-node", "3", str(program)])


def test_strangers_are_not_unpickled(tmp_path, monkeypatch):
    rpc = torch.distributed.rpc
    monkeypatch.setenv(secret.VARIABLE, "of these tests")
    options = TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path}/meeting")
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    host, port = rpc.api.agent()._listener.getsockname()
    try:
        monkeypatch.setattr("flambeau.distributed.rpc.packing.pickle.loads", None)  # nothing may come to it
        for words in (b"\x80\x05" * 100, connection._HELLO + b"0" * 64):
            with socket.create_connection((host, port), 5) as stranger:
                stranger.sendall(words)
                told = b""
                try:
                    while piece := stranger.recv(1000):
                        told += piece
                except ConnectionResetError:
                    pass
                assert told == b"" or told.endswith(secret.NO)
        with pytest.raises(torch.distributed.DistNetworkError, match="another secret"):
            connection.connect(host, port, b"another", 5)
    finally:
        monkeypatch.undo()
        rpc.shutdown()


def test_of_too_many_strangers_the_oldest_goes(tmp_path, monkeypatch):
    rpc = torch.distributed.rpc
    monkeypatch.setattr("flambeau.distributed.rpc.agent._STRANGERS", 2)
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path}/meeting"))
    address = rpc.api.agent()._listener.getsockname()
    try:
        with contextlib.ExitStack() as stack:
            oldest, *others = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(3)]
            assert oldest.recv(1) == b""  # well before the patience with it is over
            for other in others:
                other.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    other.recv(1)
    finally:
        rpc.shutdown()


def test_what_is_refused():
    rpc = torch.distributed.rpc
    with pytest.raises(NotImplementedError, match="device_maps"):
        TensorPipeRpcBackendOptions(device_maps={"w1": {0: 1}})
    with pytest.raises(TypeError, match="BackendType"):
        rpc.init_rpc("x", backend="tensorpipe", rank=0, world_size=1)
    with pytest.raises(RuntimeError, match="must match"):
        rpc.init_rpc("not a name!", rank=0, world_size=1)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        rpc.shutdown()
