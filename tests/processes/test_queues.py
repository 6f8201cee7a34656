"""Queues, pipes, pools and managers pass tensors on by handle; the sender may end, and what nobody takes is released."""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing as standard
import os
import pickle
import queue as queues
import resource
import socket
import time

import pytest

import flambeau
import flambeau.multiprocessing as mp
from flambeau.core.arrays import shared_memory
from flambeau.multiprocessing.pool import Pool

from . import children
from .children import descriptors, open_files


@pytest.fixture
def fork():
    return mp.get_context("fork")


def soon(condition, seconds=20.0):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def ended(process):
    process.join(60)
    return process.exitcode == 0


@pytest.mark.parametrize("name", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_both_sides_of_a_queue_have_the_same_memory(fork, name):
    queue, answers = getattr(fork, name)(), fork.SimpleQueue()
    process = fork.Process(target=children.fill_and_answer, args=(queue, answers))
    process.start()
    tensor = flambeau.zeros(4)
    queue.put(tensor[1:3])
    back, other = answers.get()
    assert tensor.tolist() == [0, 7, 7, 0]
    assert tensor.is_shared()
    assert back.untyped_storage() is tensor.untyped_storage()
    assert other.tolist() == [5, 5]
    queue.put(None)
    assert ended(process)


def test_a_sender_may_end_before_anything_is_received(fork):
    queue = fork.Queue()
    process = fork.Process(target=children.put_and_end, args=(queue, 5))
    process.start()
    assert ended(process)
    assert [queue.get().tolist() for _ in range(5)] == [[float(index)] * 3 for index in range(5)]


def test_what_is_put_is_what_it_is_then(fork):
    queue = fork.Queue()
    values = [flambeau.ones(2), 1]
    queue.put(values)
    values.append(2)
    assert values[0].is_shared()
    values[0].add_(1)
    received = queue.get()
    assert len(received) == 2
    assert received[0].tolist() == [2, 2]


def test_an_error_of_pickling_is_the_callers(fork):
    queue, simple = fork.Queue(), fork.SimpleQueue()
    ours, theirs = mp.Pipe()
    tensor = flambeau.ones(2, requires_grad=True) * 2
    for send in (queue.put, simple.put, ours.send):
        with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
            send(tensor)
        send(3)
    assert (queue.get(), simple.get(), theirs.recv()) == (3, 3, 3)


def test_queues_are_as_the_standard_ones(fork):
    queue = fork.Queue(maxsize=2)
    queue.put(1)
    queue.put(2, timeout=1)
    with pytest.raises(queues.Full):
        queue.put(3, block=False)
    assert (queue.get(), queue.get(timeout=5)) == (1, 2)
    with pytest.raises(queues.Empty):
        queue.get(timeout=0.01)
    queue.close()
    with pytest.raises(ValueError, match="is closed"):
        queue.put(1)
    queue.join_thread()
    assert isinstance(queue, standard.queues.Queue)
    joinable = fork.JoinableQueue()
    joinable.put(1)
    joinable.get()
    joinable.task_done()
    joinable.join()


# -- pipes ---------------------------------------------------------------------------------------------------------------------
def test_pipes_carry_bytes_and_objects_of_any_size():
    ours, theirs = mp.Pipe()
    message = os.urandom(1 << 16)
    for sent in (b"", b"x", message):
        ours.send_bytes(sent)
        assert theirs.recv_bytes() == sent
    ours.send_bytes(message, 3, 5)
    buffer = bytearray(8)
    assert theirs.recv_bytes_into(buffer, 1) == 5
    assert buffer == b"\0" + message[3:8] + b"\0\0"
    theirs.send({"tensor": flambeau.ones(2), "text": "x" * 1000})
    assert ours.recv()["tensor"].tolist() == [1, 1]
    theirs.send_bytes(b"long")
    with pytest.raises(OSError, match="bad message length"):
        ours.recv_bytes(3)
    ours, theirs = mp.Pipe()
    assert not ours.poll()
    theirs.close()
    with pytest.raises(EOFError):
        ours.recv()


def test_one_way_pipes():
    reader, writer = mp.Pipe(duplex=False)
    writer.send(flambeau.ones(1))
    assert reader.poll(5)
    assert reader.recv().is_shared()
    with pytest.raises(OSError, match="connection is read-only"):
        reader.send(1)
    with pytest.raises(OSError, match="connection is write-only"):
        writer.recv()


def test_more_descriptors_than_one_call_takes():
    reader, writer = mp.Pipe(duplex=False)
    tensors = [flambeau.full((1,), float(n)) for n in range(300)]
    writer.send(tensors)
    assert [tensor.item() for tensor in reader.recv()] == list(range(300))
    assert all(tensor.is_shared() for tensor in tensors)


def test_a_default_timeout_of_sockets_is_not_for_pipes():
    reader, writer = mp.Pipe(duplex=False)
    try:
        socket.setdefaulttimeout(0.001)
        pid = os.fork()
        if not pid:
            time.sleep(0.1)
            writer.send(flambeau.ones(1))
            os._exit(0)
        assert reader.recv().tolist() == [1]
    finally:
        socket.setdefaulttimeout(None)
        os.waitpid(pid, 0)


def test_a_receiver_without_descriptors_says_what_to_do():
    reader, writer = mp.Pipe(duplex=False)
    writer.send([flambeau.ones(1) for _ in range(3)])
    writer.send("next")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()
    highest = max(map(int, os.listdir("/proc/self/fd")))
    held = [os.dup(0) for _ in range(highest + 1 - descriptors())]  # no hole below the limit
    shared_memory.process.memories.clear()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held, default=highest) + 1, before[1]))
    try:
        with pytest.raises(RuntimeError, match="received [01] items of ancillary data, expected 3: too many open files; raise the limit"):
            reader.recv()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)
    assert reader.recv() == "next"


# -- pools and managers --------------------------------------------------------------------------------------------------------
def test_pools_pass_arguments_and_results_by_handle(fork):
    with fork.Pool(2) as pool:
        assert pool._ctx is fork
        tensors = [flambeau.full((2,), float(n)) for n in range(4)]
        results = pool.map(children.doubled, tensors)
        assert [tensor.tolist() for tensor in tensors] == [[2.0 * n] * 2 for n in range(4)]
        for tensor, (same, part, other) in zip(tensors, results, strict=True):
            assert same.untyped_storage() is part.untyped_storage() is tensor.untyped_storage()
            assert other.tolist() == [tensor[0] + 1] * 2
        with pytest.raises(ValueError, match=r"got \[1.0\]"):
            pool.apply(children.fail, (flambeau.ones(1),))
        with pytest.raises(standard.pool.MaybeEncodingError, match="Cowardly refusing"):
            pool.apply(children.non_leaf, (flambeau.ones(1),))
        assert pool.apply_async(children.doubled, (flambeau.ones(1),)).get(60)[2].tolist() == [3]


def test_executors_of_the_standard_library_take_our_contexts(fork):
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as executor:
        tensor = flambeau.ones(2).share_memory_()
        same, _, other = executor.submit(children.doubled, tensor).result(60)
        assert same.untyped_storage() is tensor.untyped_storage()
    assert other.tolist() == [3, 3]


def test_managers_keep_tensors_by_handle(fork):
    with fork.Manager() as manager:
        kept = manager.dict()
        tensor = flambeau.ones(2)
        kept["tensor"] = tensor
        process = fork.Process(target=children.add_one, args=(kept, "tensor"))
        process.start()
        assert ended(process)
        assert tensor.tolist() == [2, 2]
        assert kept["tensor"].untyped_storage() is tensor.untyped_storage()
        assert kept["new"].tolist() == [1, 1]


def test_queues_of_the_standard_library_carry_handles_too(fork):
    queue = standard.get_context("fork").SimpleQueue()
    tensor = flambeau.ones(2)
    queue.put(tensor)
    assert queue.get().untyped_storage() is tensor.untyped_storage()


def test_pools_by_their_own_class():
    with Pool(1, context=mp.get_context("fork")) as pool:
        tensor = flambeau.ones(2)
        assert pool.apply(children.doubled, (tensor,))[0].untyped_storage() is tensor.untyped_storage()
    with mp.Pool(1) as pool:
        assert isinstance(pool, standard.pool.Pool)
        assert type(pool._ctx) is type(mp.get_context())


# -- contexts ------------------------------------------------------------------------------------------------------------------
def test_contexts_are_those_of_the_standard_library():
    for method in standard.get_all_start_methods():
        context = mp.get_context(method)
        assert isinstance(context, type(standard.get_context(method)))
        assert context.Process is standard.get_context(method).Process
        assert context.get_start_method() == method
        assert context.get_context() is context is pickle.loads(pickle.dumps(context))
        assert context.get_context("fork") is mp.get_context("fork")
    assert mp.get_context().get_start_method() == standard.get_start_method() == mp.get_start_method()
    with pytest.raises(ValueError, match="cannot find context for 'threads'"):
        mp.get_context("threads")


@pytest.mark.oracle
def test_every_public_name_is_there(oracle):
    missing = set(oracle.multiprocessing.__all__) - set(mp.__all__)
    assert not missing
    assert not [name for name in dir(oracle.multiprocessing) if not name.startswith("_") and not hasattr(mp, name) and name != "torch"]
    names = "get_context set_start_method Process Queue spawn SpawnContext ProcessContext start_processes".split()
    assert all(callable(getattr(mp, name)) for name in names)


# -- what is left --------------------------------------------------------------------------------------------------------------
def test_what_nobody_takes_goes_with_the_queue(fork):
    gc.collect()
    before, memories = open_files(), len(shared_memory.process.memories)
    queue = fork.Queue()
    for _ in range(10):
        queue.put(flambeau.ones(3))
    first = queue.get()
    queue.close()
    queue.join_thread()
    del queue
    gc.collect()
    assert len(open_files() - before) == 1  # what an earlier test left may close meanwhile
    assert len(shared_memory.process.memories) == memories + 1
    assert first.tolist() == [1, 1, 1]
    del first
    assert (open_files() - before, len(shared_memory.process.memories)) == (set(), memories)
