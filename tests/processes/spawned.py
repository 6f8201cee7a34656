"""A program for ``python -m flambeau``: fresh interpreters mean flambeau by torch, and get tensors, queues and generators as arguments."""

import os
import sys

import torch
import torch.multiprocessing as mp
from torch.multiprocessing.spawn import ProcessException


def work(tensor, view, module, others, queue, answers):
    tensor.add_(1)
    view.mul_(10)
    with torch.no_grad():
        module.weight.fill_(3)
    queue.get().fill_(7)
    same = view.untyped_storage() is tensor.untyped_storage()
    folder = os.path.basename(os.path.dirname(torch.__file__))
    answers.put((folder, same, tensor.is_shared(), others, torch.initial_seed(), tensor))


def fail(rank, message):
    if rank == 1:
        raise ValueError(message)
    while True:
        mp.parent_process().join(1)


def arguments(method):
    context = mp.get_context(method)
    tensor, module, queue, answers = torch.arange(6.0), torch.nn.Linear(2, 2), context.Queue(), context.SimpleQueue()
    others = torch.float16, torch.Size([2, 3]), torch.device("cpu"), torch.strided, torch.nn.Parameter(torch.ones(2)).requires_grad
    process = context.Process(target=work, args=(tensor, tensor[1:3], module, others, queue, answers))
    process.start()
    sent = torch.zeros(2)
    queue.put(sent)
    folder, same, shared, received, seed, back = answers.get()
    process.join()
    assert (folder, same, shared, received, process.exitcode) == ("flambeau", True, True, others, 0)
    assert back.untyped_storage() is tensor.untyped_storage()
    assert tensor.tolist() == [1, 20, 30, 4, 5, 6]
    assert (module.weight == 3).all()
    assert sent.tolist() == [7, 7]
    assert seed != torch.initial_seed()  # a fresh interpreter seeds itself, as PyTorch's does
    print(method)


if __name__ == "__main__":
    for method in sys.argv[1:]:
        arguments(method)
    try:
        mp.spawn(fail, args=("told",), nprocs=2)
    except ProcessException as error:
        print(type(error).__name__, error.error_index, str(error).splitlines()[-1])
    print(sorted(name for name in os.listdir("/dev/shm") if "tensor" in name or "torch" in name))
