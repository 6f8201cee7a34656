"""Shapes, dtypes and strides on the meta device against PyTorch's, over its database of operations.

Each sample runs on meta tensors in both libraries. It agrees if all results have the shape, dtype and strides of PyTorch's, or are refused
by an exception of the same kind, which is whether it is a NotImplementedError. Two things are taken as agreeing and counted:

    as on the CPU     PyTorch's meta device differs from its CPU, whose shape, dtype and strides are those here
    computed          PyTorch's meta device has no kernel, and the shape, dtype and strides here are those of its CPU

    python -m tests.programs.meta_shapes             the percentages of samples and of entries, and the entries that differ
    python -m tests.programs.meta_shapes NAME...     every difference of these entries
    python -m tests.programs.meta_shapes --factories the same of factory functions, in every dtype and form
    python -m tests.programs.meta_shapes --fake      entries under ``FakeTensorMode`` in place of the meta device
    python -m tests.programs.meta_shapes --huge      the time of operations on shapes that no memory could hold
"""

from __future__ import annotations

import argparse
import collections
import importlib
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from libraries import flat, relevant_strides

import flambeau
from conformance.comparing import attempt, describe, first_line
from conformance.database import ENTRIES, FUNCTIONS, Converter, Unsupported
from flambeau.core.arrays.meta_array import MetaArray

Outcome = tuple[Any, Exception | None]


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
        if value.layout is not torch.strided:
            raise Unsupported(f"{value.layout} tensor")
        result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        return result.requires_grad_() if value.requires_grad else result
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(on_meta, value))
    if isinstance(value, dict):
        return {key: on_meta(item) for key, item in value.items()}
    return "meta" if value == "cpu" or isinstance(value, torch.device) else value


def facts(result: Any) -> list[Any]:
    """What is compared of results: dtype, shape and strides of each tensor."""
    tensors = [tensor for tensor in flat(result) if hasattr(tensor, "stride")]
    return [(str(tensor.dtype), tuple(tensor.shape), relevant_strides(tensor)) for tensor in tensors]


def verdict(mine: Outcome, theirs: Outcome, usual: Any) -> tuple[str, str]:
    """What the comparison of two outcomes says, in a word, and how they differ.

    Args:
        usual: makes the outcome of PyTorch's CPU, asked only where it is needed.
    """
    (got, error), (want, refusal) = mine, theirs
    if error is not None and refusal is not None:
        if kind_of(error) == kind_of(refusal):
            return "agrees", ""
        return "differs", f"{type(error).__name__}: {first_line(error)}, PyTorch raises {type(refusal).__name__}: {first_line(refusal)}"
    if error is not None:
        return "differs", f"{type(error).__name__}: {first_line(error)}, PyTorch has {facts(want)}"
    if refusal is None and facts(got) == facts(want):
        return "agrees", ""
    on_cpu, failure = usual()
    if failure is None and facts(got) == facts(on_cpu):
        return ("as on the CPU", "") if refusal is None else ("computed", "")
    return "differs", f"{facts(got)}, PyTorch has {facts(want) if refusal is None else f'{type(refusal).__name__}: {first_line(refusal)}'}"


def kind_of(error: Exception) -> Any:
    """The kind of an exception: under ``FakeTensorMode`` its class, where that says what is missing."""
    name = type(error).__name__
    return name if name.startswith(("Dynamic", "DataDependent")) else isinstance(error, NotImplementedError)


def compare_sample(name: str, sample: Any) -> tuple[str, str]:
    """The verdict on a sample on the meta device.

    Raises:
        Unsupported: there is nothing to compare.
    """
    there = on_meta(sample.input), on_meta(tuple(sample.args)), on_meta(sample.kwargs)
    convert = MetaConverter()
    here = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
    entry = ENTRIES[name]
    mine = attempt(FUNCTIONS[name], here[0], *here[1], **here[2])
    theirs = attempt(entry.op, there[0], *there[1], **there[2])
    word, message = verdict(mine, theirs, lambda: attempt(entry.op, sample.input, *sample.args, **sample.kwargs))
    if mine[1] is None and not has_no_tensor(sample):
        arrays = [tensor._array for tensor in flat(mine[0]) if isinstance(tensor, flambeau.Tensor)]
        if not all(array.__class__ is MetaArray for array in arrays):
            return "differs", "not on meta"
    return word, message


def compare_fake(name: str, sample: Any) -> tuple[str, str]:
    """The verdict on a sample under ``FakeTensorMode``."""
    convert = Converter()
    here = convert(sample.input), convert(tuple(sample.args)), convert(sample.kwargs)
    outcomes = []
    for library, function, values in (
        (flambeau, FUNCTIONS[name], here),
        (torch, ENTRIES[name].op, (sample.input, sample.args, sample.kwargs)),
    ):
        mode = importlib.import_module(f"{library.__name__}._subclasses").FakeTensorMode()
        fake = [faked(library, mode, value) for value in values]
        with mode:
            outcomes.append(attempt(function, fake[0], *fake[1], **fake[2]))
    entry = ENTRIES[name]
    return verdict(outcomes[0], outcomes[1], lambda: attempt(entry.op, sample.input, *sample.args, **sample.kwargs))


def faked(library: Any, mode: Any, value: Any) -> Any:
    """Arguments with fakes in place of tensors."""
    if isinstance(value, library.Tensor):
        if value.layout is not library.strided:
            raise Unsupported(f"{value.layout} tensor")
        return mode.from_tensor(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([faked(library, mode, item) for item in value])
    return {key: faked(library, mode, item) for key, item in value.items()} if isinstance(value, dict) else value


def has_no_tensor(sample: Any) -> bool:
    values = [*flat([sample.input, *sample.args]), *flat(list(sample.kwargs.values()))]
    return not any(isinstance(value, torch.Tensor) for value in values)


def samples(name: str, limit: int | None) -> Iterator[Any]:
    """Samples of an operation, of each dtype at most ``limit``."""
    entry = ENTRIES[name]
    for dtype in entry.supported_dtypes("cpu"):
        torch.manual_seed(zlib.crc32(name.encode()))
        np.random.seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = list(entry.sample_inputs("cpu", dtype))
        yield from inputs if limit is None else inputs[:: max(len(inputs) // limit, 1)][:limit]


def compare(name: str, limit: int | None = None, fake: bool = False) -> tuple[collections.Counter[str], list[str]]:
    """(how many samples have which verdict, the differences)."""
    words: collections.Counter[str] = collections.Counter()
    differences = []
    for sample in samples(name, limit):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                word, message = (compare_fake if fake else compare_sample)(name, sample)
        except Unsupported:
            continue
        except Exception as error:  # a result that is half a tensor
            word, message = "differs", f"{type(error).__name__}: {first_line(error)}"
        words[word] += 1
        if word == "differs":
            differences.append(f"{describe(name, (sample.input, *sample.args), sample.kwargs)}: {message}")
    return words, differences


# -- factories --------------------------------------------------------------------------------------------------------------------------
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 float8_e4m3fn float8_e5m2"
)
FACTORIES = """
t.empty((2, 3), **o) | t.zeros((2, 3), **o) | t.ones(2, 3, **o) | t.empty((), **o) | t.zeros(0, 3, **o) | t.full((2, 3), 1, **o)
t.full((2,), 2.5, **o) | t.arange(5, **o) | t.arange(1, 5, **o) | t.arange(1, 5, 2, **o) | t.arange(0, 1, 0.3, **o)
t.arange(5, 1, -1, **o) | t.linspace(0, 3, 4, **o) | t.logspace(0, 2, 3, **o) | t.eye(3, **o) | t.eye(2, 4, **o) | t.eye(0, **o)
t.tril_indices(3, 4, **o) | t.triu_indices(4, 3, 1, **o) | t.randperm(5, **o) | t.rand(2, 3, **o) | t.randn(2, 3, **o)
t.randint(5, (2, 3), **o) | t.randint(1, 5, (2,), **o) | t.empty_strided((2, 3), (1, 2), **o)
t.empty_permuted((2, 3, 4), (2, 0, 1), **o) | t.scalar_tensor(1, **o) | t.tensor([[1, 0], [0, 1]], **o) | t.tensor(1.5, **o)
t.as_tensor([1, 0], **o) | t.asarray([1, 0], **o) | t.hann_window(5, **o) | t.hamming_window(5, False, **o)
t.bartlett_window(4, **o) | t.blackman_window(4, **o) | t.kaiser_window(4, **o) | t.zeros_like(x, **o) | t.ones_like(x, **o)
t.empty_like(x, **o) | t.full_like(x, 1, **o) | t.rand_like(x, **o) | t.randn_like(x, **o) | t.randint_like(x, 4, **o)
t.randint_like(x, 1, 4, **o) | x.new_zeros((2, 2), **o) | x.new_ones(2, **o) | x.new_empty((3,), **o) | x.new_full((2, 2), 1, **o)
x.new_tensor([1, 0], **o) | x.new_empty_strided((2, 2), (1, 2), **o) | t.zeros_like(s, **o) | t.empty_like(s, **o)
t.ones_like(c, memory_format=t.preserve_format, **o) | t.zeros_like(c, memory_format=t.contiguous_format, **o)
t.empty_like(c, **o) | t.empty((2, 3, 4, 5), memory_format=t.channels_last, **o) | t.zeros((2, 3), requires_grad=True, **o)
t.rand(3, requires_grad=True, **o) | t.ones(2, layout=t.strided, **o) | t.zeros(2, out=t.empty(3, device="meta"), **o)
t.normal(0.0, 1.0, (2, 3), **o) | t.empty(-1, **o) | t.eye(-1, **o) | t.linspace(0, 1, -1, **o) | t.arange(1, 0, **o)
t.randint(0, 0, (2,), **o) | t.vander(v, **p) | t.complex(v, v) | t.polar(v, v) | t.randn(2, 3, 4, **o).t()
t.from_numpy(n).to("meta") | t.zeros(2, 3, **o).to(t.float64) | t.zeros(2, 3, **o).bool() | t.cartesian_prod(v, v)
t.meshgrid(v, v, indexing="ij") | t.block_diag(x, x) | t.diag_embed(v) | t.tril(x) | t.atleast_3d(v)
"""


def factory_calls(library: Any, dtype: str, where: str) -> Iterator[tuple[str, Any]]:
    """Calls of factories with a dtype (or without) on a device, as text, and functions that make them."""
    options = {"device": where} | ({} if not dtype else {"dtype": getattr(library, dtype)})
    meta = library.device(where)
    with meta:
        scope = {
            "t": library,
            "o": options,
            "p": {},
            "n": np.arange(6.0).reshape(2, 3),
            "x": library.empty(2, 3),
            "v": library.empty(4),
            "s": library.empty(4, 6)[::2].t(),
            "c": library.empty(2, 3, 4, 5).permute(0, 2, 3, 1),
        }
    for text in [part.strip() for part in FACTORIES.replace("\n", "|").split("|") if part.strip()]:
        yield text, lambda text=text: eval(text, dict(scope))
        if "**o" in text and "x" not in text.partition("(")[2][:2] and "device" not in text:
            yield (
                f"with meta: {text}",
                lambda text=text: within(meta, text, {**scope, "o": {k: v for k, v in options.items() if k == "dtype"}}),
            )


def within(context: Any, text: str, scope: dict[str, Any]) -> Any:
    with context:
        return eval(text, dict(scope))


def described(outcome: Outcome) -> Any:
    """What of a factory's outcome is compared."""
    result, error = outcome
    if error is not None:
        return type(error).__name__
    tensors = [tensor for tensor in flat(result) if hasattr(tensor, "stride")]
    return [(*fact, str(tensor.device), tensor.requires_grad) for fact, tensor in zip(facts(result), tensors, strict=True)]


def compare_factories() -> tuple[collections.Counter[str], list[str]]:
    """(how many calls have which verdict, the differences). Sparse tensors are made on the CPU only and not among them."""
    words: collections.Counter[str] = collections.Counter()
    differences = []
    for dtype in ("", *DTYPES.split()):
        places = (flambeau, "meta"), (torch, "meta"), (torch, "cpu")
        for calls in zip(*[factory_calls(library, dtype, where) for library, where in places], strict=True):
            text = calls[0][0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got, want, usual = [described(attempt(make)) for _, make in calls]
            on_cpu = str(got).replace("'meta'", "'cpu'") == str(usual)
            word = "agrees" if got == want else "as on the CPU" if on_cpu else "differs"
            words[word] += 1
            if word == "differs":
                differences.append(f"{text} ({dtype or 'no dtype'}): {got}, PyTorch has {want}")
    return words, differences


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
    parser = argparse.ArgumentParser(prog="python -m tests.programs.meta_shapes", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database")
    parser.add_argument("--few", action="store_true", help="two samples of each dtype")
    parser.add_argument("--fake", action="store_true", help="under FakeTensorMode in place of the meta device")
    parser.add_argument("--factories", action="store_true", help="factory functions")
    parser.add_argument("--huge", action="store_true", help="the time of operations on huge shapes, in microseconds")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.huge:
        show_huge()
        return 0
    if options.factories:
        words, differences = compare_factories()
        print(*differences, sep="\n")
        right = words.total() - words["differs"]
        share = f"{100 * right / words.total():.2f}%"
        print(f"factories: {right} of {words.total()} calls agree, {share}; {words['as on the CPU']} of them as on the CPU")
        return 0
    words: collections.Counter[str] = collections.Counter()
    names, bad = options.names or list(FUNCTIONS), 0
    for name in names:
        found, differences = compare(name, 2 if options.few else None, options.fake)
        words += found
        bad += bool(differences)
        if differences and options.names:
            print("\n".join(differences), flush=True)
        elif differences:
            print(f"{name}: {len(differences)} of {found.total()} differ, first {differences[0]}", flush=True)
    total, right = words.total(), words.total() - words["differs"]
    print(f"{right} of {total} samples agree, {100 * right / max(total, 1):.2f}%; of {len(names)} entries {len(names) - bad}, ", end="")
    print(f"{100 * (len(names) - bad) / len(names):.1f}%; {words['as on the CPU']} samples as on the CPU, {words['computed']} computed")
    return int(bool(options.names and bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
