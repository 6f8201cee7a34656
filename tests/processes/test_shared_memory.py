"""Storages in memory that processes share: what moves along, what is sent, what is an error, and what is left."""

from __future__ import annotations

import copy
import gc
import importlib
import multiprocessing
import os
import resource
import sys
import warnings
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import flambeau
import flambeau.multiprocessing
from flambeau.core.arrays import shared_memory
from flambeau.core.arrays.shared_memory import SharedMemory, shared_bytes
from flambeau.core.tensor import wrap

from .children import descriptors, write_and_answer


def sent(value):
    """What a receiver in this process gets."""
    return ForkingPickler.loads(ForkingPickler.dumps(value))


# -- against PyTorch -----------------------------------------------------------------------------------------------------------
def views(torch):
    base = torch.arange(6.0)
    view, detached, data = base[2:4], base.detach(), base.data[1:]
    base.share_memory_()
    view[0], detached[0], data[1] = -1, -2, -3
    shared = [tensor.is_shared() for tensor in (base, view, detached, data, base.untyped_storage(), base.storage())]
    return shared, base.tolist(), view.data_ptr() - base.data_ptr(), base.storage_offset(), view.storage_offset()


def from_a_view(torch):
    base = torch.arange(6.0)
    base[3:].t().share_memory_()
    return base.is_shared(), base.tolist()


def from_data(torch):
    base = torch.arange(6.0)
    base.data.share_memory_()
    return base.is_shared()


def other_data_since(torch):
    base, other = torch.arange(6.0), torch.zeros(2)
    view = base[1:]
    base.data = other
    view.share_memory_()
    return base.is_shared(), view.is_shared(), base.tolist(), view.tolist()


def returns_itself(torch):
    leaf = torch.ones(2, requires_grad=True)
    result = leaf * 2
    storage = leaf.untyped_storage()
    same = leaf.share_memory_() is leaf, result.share_memory_() is result, storage.share_memory_() is storage
    result.sum().backward()
    return same, leaf.grad.tolist(), leaf._version


def strided(torch):
    tensor = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)[1:, :, ::2]
    tensor.share_memory_()
    return tensor.tolist(), tensor.stride(), tensor.storage_offset()


def small(torch):
    scalar, empty, expanded = torch.tensor(3.0), torch.zeros(0, 3), torch.ones(3).expand(4, 3)
    return [(t.share_memory_().is_shared(), tuple(t.shape), t.stride(), t.tolist()) for t in (scalar, empty, expanded)]


def copies_are_private(torch):
    tensor = torch.ones(2).share_memory_()
    return tensor.clone().is_shared(), copy.deepcopy(tensor).is_shared(), (tensor + 1).is_shared(), tensor.share_memory_().is_shared()


def made_shared(torch):
    return torch.UntypedStorage._new_shared(16).is_shared(), torch.UntypedStorage._new_shared(16).nbytes()


def of_a_module(torch):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    return module.share_memory() is module, [tensor.is_shared() for tensor in module.state_dict().values()]


def on_meta(torch):
    return torch.empty(3, device="meta").share_memory_()


def uninitialized(torch):
    return torch.nn.LazyLinear(3).share_memory()


def sent_with_history(torch):
    return ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)


def sent_with_hook(torch):
    tensor = torch.ones(2, requires_grad=True)
    tensor.register_hook(len)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        back = sent(tensor)
    return [str(warning.message).split(" for ")[0].split("<")[0] for warning in caught], back.requires_grad


def sent_tensors(torch):
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.note = 3
    tensor = torch.arange(24.0).reshape(4, 6).t()[1:]
    leaf = torch.ones(2, dtype=torch.float64, requires_grad=True)
    meta = torch.empty(2, 3, device="meta", dtype=torch.float16).t()
    values = tensor, leaf, parameter, meta, torch.zeros(0, 2), torch.tensor(True), torch.ones(1, dtype=torch.complex64)
    shown = []
    for back in sent(values):
        kind = type(back).__name__, str(back.dtype), str(back.device), tuple(back.shape), back.stride(), back.storage_offset()
        shown.append((*kind, back.requires_grad, back.is_leaf, hasattr(back, "note"), None if back.is_meta else back.tolist()))
    return shown


def sent_aliases(torch):
    base = torch.arange(6.0)
    storage, view, again = sent((base.untyped_storage(), base[2:], base))
    view[0] = 9
    alone = sent(base[1:])
    return again.tolist(), view.data_ptr() - storage.data_ptr(), base.tolist(), alone.data_ptr() == base.data_ptr() + 4, base.is_shared()


def sent_subclass(torch):
    class Marked(torch.Tensor):
        pass

    globals()["Marked"], Marked.__qualname__ = Marked, "Marked"
    tensor = torch.ones(2).as_subclass(Marked)
    tensor.note = 3
    back = sent(tensor)
    back.fill_(5)
    return type(back) is Marked, back.note, tensor.tolist()


def by_parts(torch):
    reductions = importlib.import_module(f"{torch.__name__}.multiprocessing.reductions")
    tensor = torch.arange(6.0)[2:]
    rebuild, (cls, storage, metadata) = reductions.reduce_tensor(tensor)
    again = rebuild(cls, storage, metadata)
    meta = reductions.rebuild_meta_tensor(torch.nn.Parameter, (2, 3), (1, 2), 1, torch.float64, 64, True)
    shown = type(meta).__name__, str(meta.dtype), meta.stride(), meta.storage_offset(), meta.untyped_storage().nbytes(), meta.requires_grad
    return (
        rebuild.__name__,
        cls is torch.Tensor,
        storage.size(),
        tuple(metadata),
        again.tolist(),
        again.data_ptr() == tensor.data_ptr(),
        shown,
    )


def weak_references(torch):
    reductions = importlib.import_module(f"{torch.__name__}.multiprocessing.reductions")
    tensor, other = torch.ones(2), torch.ones(2)
    first, second = reductions.StorageWeakRef(tensor.untyped_storage()), reductions.StorageWeakRef(tensor[1:].untyped_storage())
    third = reductions.StorageWeakRef(other.untyped_storage())
    same = first == second, first == third, first.cdata == second.cdata, len({first, second, third}), first.expired()
    del tensor
    return same, first.expired(), third.expired()


SNIPPETS = [
    *(
        views,
        from_a_view,
        from_data,
        other_data_since,
        returns_itself,
        strided,
        small,
        copies_are_private,
        made_shared,
        of_a_module,
        on_meta,
    ),
    *(uninitialized, sent_with_history, sent_with_hook, sent_tensors, sent_aliases, sent_subclass, by_parts, weak_references),
]


def outcome(snippet, torch):
    try:
        return snippet(torch)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.__name__)
def test_shared_tensors_are_as_pytorchs(oracle, snippet):
    assert outcome(snippet, flambeau) == outcome(snippet, oracle)


# -- what moves ----------------------------------------------------------------------------------------------------------------
def test_arrays_given_out_before_keep_their_memory():
    array = np.zeros(3, np.float32)
    tensor = flambeau.from_numpy(array)
    lent = tensor.numpy()
    tensor.share_memory_().add_(1)
    assert array.tolist() == lent.tolist() == [0, 0, 0]
    later = tensor.numpy()
    tensor.add_(1)
    assert later.tolist() == [2, 2, 2]


def test_shared_memory_outlives_the_tensor_as_long_as_an_array_shows_it():
    array = flambeau.arange(3.0).share_memory_().numpy()[1:]
    assert array.tolist() == [1, 2]


def test_a_storage_that_others_may_have_does_not_grow():
    tensor = flambeau.arange(3.0).share_memory_()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        tensor.resize_(5000)
    assert tensor.is_shared()
    assert tensor.resize_(2).tolist() == [0, 1]


def test_views_of_data_follow_a_storage_that_grows():
    tensor = flambeau.arange(3.0)
    data = tensor.data
    tensor.resize_(5000)
    data[0] = 7
    assert tensor[0] == 7


def test_optimizers_step_on_after_a_module_is_shared():
    def train(shares):
        flambeau.manual_seed(0)
        module = flambeau.nn.Sequential(flambeau.nn.Linear(3, 4), flambeau.nn.Tanh(), flambeau.nn.Linear(4, 1))
        optimizer = flambeau.optim.Adam(module.parameters(), lr=0.1)
        for step in range(4):
            if shares and step == 2:
                module.share_memory()
                assert all(parameter.grad.is_shared() for parameter in module.parameters())  # as PyTorch's ``_apply`` does
            optimizer.zero_grad()
            module(flambeau.arange(6.0).reshape(2, 3)).pow(2).sum().backward()
            optimizer.step()
        return [parameter.tolist() for parameter in module.parameters()]

    assert train(True) == train(False)


def test_a_gradient_in_shared_memory_is_copied():
    leaf = flambeau.zeros(4, requires_grad=True)
    memory = shared_bytes(16)
    flambeau.autograd.backward([leaf.view_as(leaf)], [wrap(np.ndarray(4, "f4", memory))])
    memory[:] = 255
    assert leaf.grad.tolist() == [0, 0, 0, 0]
    assert not leaf.grad.is_shared()


# -- what is sent --------------------------------------------------------------------------------------------------------------
def test_a_tensor_that_comes_back_is_the_same_storage():
    tensor = flambeau.arange(3.0)
    back = sent(tensor)
    assert back.untyped_storage() is tensor.untyped_storage()
    back.add_(1)
    assert tensor._version == 1


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="torch.multiprocessing.reductions.rebuild_cuda_tensor is not supported yet"):
        flambeau.multiprocessing.reductions.rebuild_cuda_tensor()


def test_views_in_one_pickle_need_one_descriptor():
    base = flambeau.zeros(300)
    gc.collect()
    before = descriptors()
    tensors = sent([base[i:] for i in range(300)])
    assert descriptors() <= before + 4  # its own, and the sharer's: its copy, its socket, its pipe
    tensors[7][0] = 5
    assert base[7] == 5


def test_tensors_of_a_device_are_not_sent():
    importlib.import_module("flambeau.testing.probe")
    with pytest.raises(NotImplementedError, match="torch.multiprocessing: expected a tensor of the CPU"):
        ForkingPickler.dumps(flambeau.ones(2, device="privateuseone"))


def test_arguments_of_a_forked_process_are_the_same_memory():
    context = multiprocessing.get_context("fork")
    tensor, module = flambeau.arange(6.0), flambeau.nn.Linear(2, 2)
    tensor.share_memory_()
    module.share_memory()
    ours, theirs = context.Pipe()
    process = context.Process(target=write_and_answer, args=(theirs, tensor, tensor[1:3], module, flambeau.float16))
    process.start()
    theirs.close()
    assert ours.recv() == (True, True, flambeau.float16)
    assert ours.recv().untyped_storage() is tensor.untyped_storage()
    ours.send(None)
    process.join(60)
    assert process.exitcode == 0
    assert tensor.tolist() == [1, 20, 30, 4, 5, 6]
    assert (module.weight == 3).all()


# -- what is an error, and what is left ----------------------------------------------------------------------------------------
@contextmanager
def limited(which, soft):
    before = resource.getrlimit(which)
    resource.setrlimit(which, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def test_no_room_is_an_error_that_leaves_the_tensor_as_it_is():
    gc.collect()
    tensor, before = flambeau.ones(300_000), descriptors()
    with limited(resource.RLIMIT_FSIZE, 1 << 20):
        with pytest.raises(RuntimeError, match=r"unable to allocate shared memory\(shm\) of 1200000 bytes: File too large \(27\)"):
            tensor.share_memory_()
    assert descriptors() == before
    assert not tensor.is_shared()
    assert tensor.sum() == 300_000


def test_no_descriptor_is_an_error_with_a_way_out():
    with limited(resource.RLIMIT_NOFILE, 0):
        with pytest.raises(RuntimeError, match=r"Too many open files \(24\) \(raise the limit with `ulimit -n`, or set the sharing str"):
            flambeau.ones(3).share_memory_()


def test_descriptors_and_memory_go_with_the_last_tensor():
    gc.collect()
    before = descriptors()
    tensors = [flambeau.ones(3).share_memory_() for _ in range(20)]
    assert descriptors() == before + 20
    views = [tensor[1:] for tensor in tensors[:2]]
    del tensors
    assert descriptors() == before + 2
    del views
    assert descriptors() == before


def names_of_this_process():
    return [name for name in os.listdir("/dev/shm") if str(os.getpid()) in name]


def test_nothing_has_a_name():
    tensor = flambeau.ones(3).share_memory_()
    assert tensor.is_shared()
    assert names_of_this_process() == []


def test_without_memfd_a_name_lives_for_a_moment(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(os, "posix_fallocate")
    tensor = sent(flambeau.arange(3.0).share_memory_())
    assert tensor.tolist() == [0, 1, 2]
    assert names_of_this_process() == []


def test_a_system_without_such_memory_says_so(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setitem(sys.modules, "_posixshmem", None)
    with pytest.raises(NotImplementedError, match="share_memory_: expected a system with unnamed shared memory"):
        flambeau.ones(3).share_memory_()


def test_a_part_outside_of_the_memory_is_refused():
    memory = SharedMemory.make(100)
    with pytest.raises(RuntimeError, match="expected a part of 4096 bytes, got bytes 4000 to 4100"):
        memory.bytes_at(4000, 100)


def test_no_other_thread_gets_a_memory_that_is_being_unmapped(monkeypatch):
    memory = shared_memory.SharedMemory.make(8)
    identity, pages = memory.identity, type(memory._pages)
    unmap, seen = pages._munmap, []

    def unmapping(*args):  # as another thread would, to which the system call leaves the interpreter
        seen.append(shared_memory.process.memories.get(identity))
        return unmap(*args)

    monkeypatch.setattr(pages, "_munmap", staticmethod(unmapping))
    del memory
    assert seen == [None]


@pytest.fixture
def sparing():
    """The strategy "file_system", from a new segment on."""
    flambeau.multiprocessing.set_sharing_strategy("file_system")
    shared_memory.process.segment = None
    yield
    flambeau.multiprocessing.set_sharing_strategy("file_descriptor")
    shared_memory.process.segment = None


def test_many_small_tensors_need_one_descriptor_where_they_are_spared(sparing):
    gc.collect()
    before = descriptors()
    tensors = [flambeau.full((n,), float(n)).share_memory_() for n in range(300)]
    large = flambeau.ones(600_000).share_memory_()
    assert descriptors() == before + 2
    assert all(tensor.tolist() == [float(n)] * n for n, tensor in enumerate(tensors))
    assert all(tensor.data_ptr() % 64 == 0 for tensor in [large, *tensors])
    back = sent(tensors[3])
    back.add_(1)
    assert tensors[3].tolist() == [4, 4, 4]
    assert tensors[4].tolist() == [4, 4, 4, 4]


def test_a_forked_child_takes_pieces_of_its_own(sparing):
    first = flambeau.ones(3).share_memory_()
    pid = os.fork()
    if not pid:
        flambeau.full((3,), 9.0).share_memory_()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    second = flambeau.zeros(3).share_memory_()
    assert (first.tolist(), second.tolist()) == ([1, 1, 1], [0, 0, 0])


def test_sharing_strategies(oracle):
    def snippet(torch):
        mp = torch.multiprocessing
        chosen = [mp.get_sharing_strategy()]
        for strategy in sorted(mp.get_all_sharing_strategies()):
            mp.set_sharing_strategy(strategy)
            chosen.append(mp.get_sharing_strategy())
        mp.set_sharing_strategy("file_descriptor")
        with pytest.raises(AssertionError) as error:
            mp.set_sharing_strategy("shm")
        return chosen, str(error.value).partition("{")[0]

    assert snippet(flambeau) == snippet(oracle)
