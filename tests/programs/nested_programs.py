"""Nested tensors of the jagged layout beside PyTorch's: values, shapes and gradients of one operation after another.

``python -m tests.programs.nested_programs``. PyTorch runs in a process of its own, for some of its backward passes end
it; what it does not do is counted and named. The gradient of ``softmax`` over the sequences differs: PyTorch's adds over the whole
batch instead of each sequence (``test_a_batch_is_its_sequences`` has the right one).
"""

from __future__ import annotations

import importlib
import multiprocessing
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

PROGRAMS = (
    "b.exp()|b.sigmoid()|b * 2 - b|2 - b|b / (b * b + 1)|b * row|b * lib.ones(3, 1, 4)|b + lib.ones(3, 5, 4)|b.sum()|b.sum(1)|b.sum(2)|"
    "b.sum(-1, keepdim=True)|b.sum((0, 1))|b.mean(1)|b.mean(2)|b.mean()|b.amax(1)|b.amin(2)|b.max(1).values|b.prod(1)|b.softmax(1)|"
    "b.softmax(-1)|b.log_softmax(-1)|F.linear(b, weight)|b @ weight.T|b @ lib.ones(3, 4, 2)|b.transpose(1, 2) @ b|F.layer_norm(b, (4,))|"
    "F.layer_norm(b, (b.shape[1], 4))|F.rms_norm(b, (4,))|F.gelu(b)|b.unflatten(-1, (2, 2))|b.unflatten(-1, (2, 2)).transpose(1, 2)|"
    "b.view(3, -1, 2, 2)|b.chunk(2, -1)[1]|b.split(2, -1)[0]|b.chunk(2, 0)[0]|lib.cat([b, b * 2], -1)|lib.stack([b, b], -1)|"
    "b.unsqueeze(-1)|b.unsqueeze(1)|b[1]|b[..., 1]|b[..., 1:3]|b.select(2, 1)|b.narrow(2, 1, 2)|b.to_padded_tensor(7.0)|"
    "b.to_padded_tensor(0.0, (3, 2, 4))|b.permute(0, 2, 1)|lib.where(b > 0, b, b * 2)|b.masked_fill(b > 0, 1.0)|b.clamp(min=0)|b.clone()|"
    "b.values()|b.unbind()[2]|F.scaled_dot_product_attention(h, h, h)"
).split("|")


def outcome(library: str, program: str) -> tuple[Any, Any]:
    """(sizes and values, values of the gradient or the name of the error) of one program; an error's name for both if it fails at once."""
    warnings.simplefilter("ignore")
    lib = importlib.import_module(library)
    generator = np.random.default_rng(0)
    parts = [lib.tensor(generator.standard_normal((n, 4))).float() for n in (3, 1, 5)]
    weight, row = lib.tensor(generator.standard_normal((6, 4))).float(), lib.tensor(generator.standard_normal(4)).float()
    batch = lib.nested.nested_tensor(parts, layout=lib.jagged, requires_grad=True)
    scope = {"lib": lib, "F": lib.nn.functional, "b": batch, "weight": weight, "row": row}
    try:
        if "(h" in program:
            scope["h"] = batch.unflatten(-1, (2, 2)).transpose(1, 2)
        result = eval(program, scope)
        found = result.unbind() if result.is_nested else (result,)
        sizes = ["ragged" if not isinstance(size, int) else size for size in result.shape]
        forward = sizes, [part.detach().numpy() for part in found]
    except Exception as error:
        return (type(error).__name__,) * 2
    try:
        values = result.values() if result.is_nested else result
        (values * lib.arange(1.0, values.numel() + 1).reshape(values.shape)).sum().backward()
        return forward, [part.detach().numpy() for part in batch.grad.unbind()]
    except Exception as error:
        return forward, type(error).__name__


def _in_process(programs: tuple[str, ...], connection: Any) -> None:
    for program in programs:
        connection.send_bytes(pickle.dumps(outcome("torch", program)))


def of_pytorch(programs: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """``outcome`` of PyTorch of each program, in another process; the words "process ended" where it does, and a fresh one goes on."""
    context = multiprocessing.get_context("spawn")
    while programs:
        ours, theirs = context.Pipe()
        process = context.Process(target=_in_process, args=(programs, theirs))
        process.start()
        theirs.close()
        try:
            while programs:
                yield pickle.loads(ours.recv_bytes())
                programs = programs[1:]
        except EOFError:
            yield ("process ended",) * 2
            programs = programs[1:]
        process.join()


def agree(ours: Any, theirs: Any) -> bool:
    """Whether two outcomes have the same structure and nearly the same numbers."""
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        return ours.shape == theirs.shape and np.allclose(ours, theirs, 1e-4, 1e-5)
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    return bool(ours == theirs)


def main() -> None:
    counts = {"equal": 0, "different": 0, "PyTorch has none": 0}
    for program, known in zip(PROGRAMS, of_pytorch(tuple(PROGRAMS)), strict=True):
        for what, ours, theirs in zip(("forward", "backward"), outcome("flambeau", program), known, strict=True):
            verdict = "PyTorch has none" if isinstance(theirs, str) else "equal" if agree(ours, theirs) else "different"
            counts[verdict] += 1
            if verdict != "equal":
                print(f"{program}, {what}: {verdict}{f' ({theirs})' if isinstance(theirs, str) else ''}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


if __name__ == "__main__":
    main()
