"""What child processes of the tests run; a module of its own, so that spawned ones import no test framework."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import flambeau


def descriptors() -> int:
    """How many descriptors this process has open, the one that looks left out."""
    return len(os.listdir("/proc/self/fd")) - 1


def open_files() -> set[tuple[str, str]]:
    """Each descriptor of this process with what it stands for."""
    files = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that looks
            files.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return files


def write_and_answer(pipe: Any, tensor: Any, view: Any, module: Any, others: Any) -> None:
    """Write to what came, tell what it is, send the tensor back, and wait for the answer to that."""
    tensor.add_(1)
    view.mul_(10)
    with flambeau.no_grad():
        module.weight.fill_(3)
    pipe.send((tensor.is_shared(), view.untyped_storage() is tensor.untyped_storage(), others))
    pipe.send(tensor)
    pipe.recv()


def fill_and_answer(queue: Any, answers: Any) -> None:
    """Fill what comes, and answer with the same tensor and with another, until None comes."""
    while (value := queue.get()) is not None:
        value.fill_(7)
        answers.put((value, flambeau.full((2,), 5.0)))


def put_and_end(queue: Any, count: int, size: int = 3) -> None:
    """Put tensors and end at once."""
    for index in range(count):
        queue.put(flambeau.full((size,), float(index)))


def doubled(tensor: Any) -> Any:
    """The tensor, multiplied in place, a part of it, and another one."""
    tensor.mul_(2)
    return tensor, tensor[1:], tensor + 1


def fail(tensor: Any) -> None:
    raise ValueError(f"got {tensor.tolist()}")


def non_leaf(tensor: Any) -> Any:
    """What cannot be sent."""
    return tensor.requires_grad_() * 2


def add_one(namespace: Any, key: Any) -> None:
    """Write to a tensor that a manager keeps."""
    namespace[key].add_(1)
    namespace["new"] = flambeau.ones(2)
