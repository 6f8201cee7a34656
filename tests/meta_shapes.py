"""Shapes, dtypes and strides on the meta device against PyTorch's, over its database of operations.

Each sample runs on meta tensors here and on the CPU there.  It agrees if all results have PyTorch's shape, dtype and strides, or those
of PyTorch's own meta device where they differ from its CPU's.  An operation that cannot tell its result's shape without values has to
raise, as PyTorch's does on meta.

    python -m tests.meta_shapes             the percentage, and the operations that differ
    python -m tests.meta_shapes NAME...     every difference of these operations
    python -m tests.meta_shapes --huge      the time of operations on shapes that no memory could hold
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

import numpy as np
import torch
from libraries import flat, relevant_strides

import flambeau
from conformance.comparing import attempt, describe, first_line
from conformance.database import ENTRIES, FUNCTIONS, Converter, Unsupported
from flambeau.core.arrays.meta_array import MetaArray

DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16)


class MetaConverter(Converter):
    """PyTorch's arguments as flambeau's, tensors on the meta device."""

    def tensor(self, value: Any) -> Any:
        usual = super().tensor(value.detach())
        result = flambeau.empty_strided(usual.shape, usual.stride(), dtype=usual.dtype, device="meta")
        return result.requires_grad_() if value.requires_grad else result

    def __call__(self, value: Any) -> Any:
        return flambeau.device("meta") if isinstance(value, torch.device) or value == "cpu" else super().__call__(value)


def on_meta(value: Any) -> Any:
    """PyTorch's arguments on its own meta device."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(on_meta, value))
    if isinstance(value, dict):
        return {key: on_meta(item) for key, item in value.items()}
    return "meta" if value == "cpu" or isinstance(value, torch.device) else value


def facts(result: Any) -> list[Any]:
    """What is compared of results: dtype, shape and strides of each tensor."""
    tensors = [tensor for tensor in flat(result) if hasattr(tensor, "stride")]
    return [(str(tensor.dtype), tuple(tensor.shape), relevant_strides(tensor)) for tensor in tensors]


def difference(name: str, sample: Any) -> str | None:
    """How a sample's results differ; None where they agree.

    Raises:
        Unsupported: there is nothing to compare.
    """
    convert = MetaConverter()
    mine, args, kwargs = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
    entry = ENTRIES[name]
    want, refusal = attempt(entry.op, sample.input, *sample.args, **sample.kwargs)
    tensors = [tensor for tensor in flat(want) if isinstance(tensor, torch.Tensor)]
    if refusal is not None or not tensors or any(tensor.layout is not torch.strided for tensor in tensors):
        raise Unsupported("no result to compare with")
    got, error = attempt(FUNCTIONS[name], mine, *args, **kwargs)
    if error is None:
        arrays = [tensor._array for tensor in flat(got) if isinstance(tensor, flambeau.Tensor)]
        if facts(got) == facts(want):
            return None if all(array.__class__ is MetaArray for array in arrays) or has_no_tensor(sample) else "not on meta"
    theirs, their_error = attempt(entry.op, on_meta(sample.input), *on_meta(tuple(sample.args)), **on_meta(sample.kwargs))
    if error is not None:
        return None if their_error is not None else f"{type(error).__name__}: {first_line(error)}"
    if their_error is None and facts(got) == facts(theirs):
        return None
    return f"{facts(got)}, PyTorch has {facts(want)}"


def has_no_tensor(sample: Any) -> bool:
    values = [*flat([sample.input, *sample.args]), *flat(list(sample.kwargs.values()))]
    return not any(isinstance(value, torch.Tensor) for value in values)


def samples(name: str, limit: int | None) -> Iterator[Any]:
    """Samples of an operation, of each dtype at most ``limit``."""
    entry = ENTRIES[name]
    for dtype in DTYPES:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        torch.manual_seed(zlib.crc32(name.encode()))
        np.random.seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = list(entry.sample_inputs("cpu", dtype))
        yield from inputs if limit is None else inputs[:: max(len(inputs) // limit, 1)][:limit]


def compare(name: str, limit: int | None = None) -> tuple[int, list[str]]:
    """(number of samples compared, the differences)."""
    count, differences = 0, []
    for sample in samples(name, limit):
        try:
            message = difference(name, sample)
        except Unsupported:
            continue
        except Exception as error:  # a result that is half a tensor
            message = f"{type(error).__name__}: {first_line(error)}"
        count += 1
        if message is not None:
            differences.append(f"{describe(name, (sample.input, *sample.args), sample.kwargs)}: {message}")
    return count, differences


# -- huge shapes ------------------------------------------------------------------------------------------------------------------------
def huge_calls() -> dict[str, Any]:
    """Calls whose operands no memory could hold, by how they are written."""
    empty, functional = flambeau.empty, flambeau.nn.functional
    with flambeau.device("meta"):
        x, row, other = empty(200_000, 200_000), empty(200_000), empty(200_000, 100_000)
        images, filters = empty(64, 3, 65_536, 65_536), empty(64, 3, 7, 7)
        tokens, table = empty(1_000_000, 4096, dtype=flambeau.int64), empty(1_000_000, 8192)
        classes = empty(200_000, dtype=flambeau.int64)
    needs = empty(200_000, 200_000, device="meta", requires_grad=True)
    return {
        "x + row": lambda: x + row,
        "x.T * x": lambda: x.T * x,
        "x.exp()": lambda: x.exp(),
        "x.add_(row)": lambda: x.add_(row),
        "x.sum(1)": lambda: x.sum(1),
        "x.var(0)": lambda: x.var(0),
        "x.argmax(1)": lambda: x.argmax(1),
        "x.cumsum(1)": lambda: x.cumsum(1),
        "x.sort(1)": lambda: x.sort(1),
        "x.topk(5)": lambda: x.topk(5),
        "x @ other": lambda: x @ other,
        "x[:, ::2]": lambda: x[:, ::2],
        "x[classes]": lambda: x[classes],
        "cat([x, x])": lambda: flambeau.cat([x, x]),
        "where(x > 0, x, 0.0)": lambda: flambeau.where(x > 0, x, 0.0),
        "softmax(x, 1)": lambda: flambeau.softmax(x, 1),
        "softmax, forward and backward": lambda: flambeau.softmax(needs, 1).backward(x),
        "layer_norm(x, (200_000,))": lambda: functional.layer_norm(x, (200_000,)),
        "cross_entropy(x, classes)": lambda: functional.cross_entropy(x, classes),
        "conv2d(images, filters)": lambda: functional.conv2d(images, filters, padding=3),
        "max_pool2d(images, 2)": lambda: functional.max_pool2d(images, 2),
        "embedding(tokens, table)": lambda: functional.embedding(tokens, table),
    }


def show_huge() -> None:
    """The time of each, the least of ten."""
    for text, call in huge_calls().items():
        times = []
        for _ in range(10):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        print(f"| `{text}` | {1e6 * min(times):.0f} |")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.meta_shapes", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database")
    parser.add_argument("--few", action="store_true", help="two samples of each dtype")
    parser.add_argument("--huge", action="store_true", help="the time of operations on huge shapes, in microseconds")
    options = parser.parse_args(arguments)
    if options.huge:
        show_huge()
        return 0
    torch.set_num_threads(1)
    total = wrong = 0
    for name in options.names or FUNCTIONS:
        count, differences = compare(name, 2 if options.few else None)
        total, wrong = total + count, wrong + len(differences)
        if differences and options.names:
            print("\n".join(differences), flush=True)
        elif differences:
            print(f"{name}: {len(differences)} of {count} differ, first {differences[0]}", flush=True)
    print(f"{total - wrong} of {total} samples agree, {100 * (total - wrong) / max(total, 1):.2f}%")
    return int(bool(options.names and wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
