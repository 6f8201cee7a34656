"""Everyday programs of several processes: shared tensors, queues, random numbers."""

from __future__ import annotations


def process(torch, function, *args):
    """A forked child that runs a function; its exit status once it has ended."""
    child = torch.multiprocessing.get_context("fork").Process(target=function, args=args)
    child.start()
    child.join(60)
    return child.exitcode


def add(number, tensor):
    tensor += number


def test_writes_of_children_are_seen(torch):
    tensor = torch.ones(3).share_memory_()
    view = tensor[1:]
    assert [process(torch, add, number, tensor) for number in (1, 2, 3)] == [0, 0, 0]
    assert tensor.is_shared()
    assert view.tolist() == [7, 7]
    private = torch.ones(3)
    assert process(torch, add, 1, private) == 0
    assert private.tolist() == [1, 1, 1]


def fill_what_comes(tasks, done):
    tasks.get().fill_(3)
    done.put(1)


def test_what_comes_through_a_queue_is_the_senders_memory(torch):
    context = torch.multiprocessing.get_context("fork")
    tasks, done, tensor = context.Queue(), context.Queue(), torch.zeros(2)
    child = context.Process(target=fill_what_comes, args=(tasks, done))
    child.start()
    tasks.put(tensor)
    done.get()
    child.join()
    assert tensor.tolist() == [3, 3]


def draw(torch, queue):
    queue.put((torch.initial_seed(), torch.rand(2).tolist(), torch.get_num_threads()))


def test_a_forked_child_draws_what_its_parent_would(torch):
    queue = torch.multiprocessing.get_context("fork").SimpleQueue()
    torch.manual_seed(3)
    torch.rand(5)
    for _ in range(2):
        assert process(torch, draw, torch, queue) == 0
    first, second = queue.get(), queue.get()
    assert first == second == (3, torch.rand(2).tolist(), torch.get_num_threads())
