"""Which gradients are there, and which are None, against PyTorch: of each sample of its database, for every subset of inputs.

First gradients are taken with a graph of their own; then the gradients of those, for the same inputs. A sample agrees if in both libraries
the same gradients are None, and the same are refused.

    python -m tests.programs.gradient_presence           how many samples agree, and the entries that differ
    python -m tests.programs.gradient_presence NAME...   every difference of these entries
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
import zlib
from typing import Any

import numpy as np
import torch

import flambeau
from conformance.comparing import describe
from conformance.database import ENTRIES, FUNCTIONS, Converter, Unsupported

MOST = 3  # inputs whose subsets are all tried; of more, each alone and all

# Differences that are meant.
_REFUSED = "PyTorch has no second derivative, here it is right"
_NOT_INPUTS = "what is no input (weights of classes, running statistics, tolerances) may not require grad in PyTorch"
EXPLAINED = {
    "nn.functional.scaled_dot_product_attention": _REFUSED,
    "cdist": _REFUSED,
    "nn.functional.pdist": _REFUSED,
    "nn.functional.hardsigmoid": _REFUSED,
    "nn.functional.multi_margin_loss": _REFUSED,
    "nn.functional.multilabel_margin_loss": _REFUSED,
    "nn.functional.embedding_bag": _REFUSED,
    "_segment_reduce.lengths": _REFUSED,
    "_segment_reduce.offsets": _REFUSED,
    "nn.functional.linear_cross_entropy.chunked": "PyTorch's pieces are not differentiated again",
    "nn.functional.linear_cross_entropy.chunked_none": "PyTorch's pieces are not differentiated again",
    "var.unbiased": "the variance of nothing",
    "var_mean.unbiased": "the variance of nothing",
    "linalg.det": "the determinant of matrices without elements",
    "linalg.householder_product": "of matrices without elements",
    "nn.functional.normalize": "a norm of order 0 has zeros for gradients",
    "nn.functional.cross_entropy": _NOT_INPUTS,
    "nn.functional.nll_loss": _NOT_INPUTS,
    "nn.functional.binary_cross_entropy_with_logits": _NOT_INPUTS,
    "nn.functional.instance_norm": _NOT_INPUTS,
    "nn.functional.batch_norm": _NOT_INPUTS,
    "linalg.pinv": _NOT_INPUTS,
    "max_pool2d_with_indices_backward": "the input counts for its shape only",
    "nn.functional.rrelu": "the slopes are a factor, not a kernel",
}


def differentiable(library: Any, value: Any) -> list[Any]:
    """Tensors among arguments that may require grad."""
    if isinstance(value, library.Tensor):
        return [value] if value.dtype.is_floating_point or value.dtype.is_complex else []
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in differentiable(library, item)]
    return differentiable(library, list(value.values())) if isinstance(value, dict) else []


def subsets(count: int) -> list[tuple[int, ...]]:
    if count > MOST:
        return [*[(k,) for k in range(count)], tuple(range(count))]
    return [chosen for size in range(1, count + 1) for chosen in itertools.combinations(range(count), size)]


def presence(library: Any, function: Any, arguments: Any, chosen: tuple[int, ...]) -> Any:
    """What is there of first and second gradients for some of the inputs, in words."""
    inputs = differentiable(library, arguments)
    for k, tensor in enumerate(inputs):
        tensor.requires_grad_(k in chosen)
    wanted = [inputs[k] for k in chosen]
    args, kwargs = arguments
    library.manual_seed(0)
    try:
        results = function(*args, **kwargs)
    except Exception:
        return ["refused"]
    outputs = [tensor for tensor in differentiable(library, results) if tensor.requires_grad]
    if not outputs:
        return ["None"] * len(wanted)
    try:
        first = library.autograd.grad(outputs, wanted, [library.ones_like(t) for t in outputs], create_graph=True, allow_unused=True)
    except Exception:
        return ["refused"]
    words = ["None" if grad is None else "there" for grad in first]
    recorded = [grad for grad in first if grad is not None and grad.requires_grad]
    if not recorded:
        return words
    try:
        second = library.autograd.grad(recorded, wanted, [library.ones_like(t) for t in recorded], allow_unused=True)
    except Exception:
        return [*words, "refused"]
    if not any(grad is not None for grad in second):
        return words
    return words + ["None" if grad is None else "there" for grad in second]


def plain(value: Any) -> Any:
    """PyTorch's arguments with leaves of their own."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise Unsupported(str(value.layout))
        return value.detach().clone()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(plain, value))
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def compare(name: str, limit: int | None = None) -> tuple[int, list[str]]:
    """(number of comparisons, the differences)."""
    entry = ENTRIES[name]
    dtype = torch.float64 if torch.float64 in entry.supported_dtypes("cpu") else torch.float32
    if not entry.supports_autograd or dtype not in entry.supported_dtypes("cpu"):
        return 0, []
    torch.manual_seed(zlib.crc32(name.encode()))
    np.random.seed(0)
    count, differences = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(entry.sample_inputs("cpu", dtype))
        for sample in samples if limit is None else samples[:: max(len(samples) // limit, 1)][:limit]:
            given = (sample.input, *sample.args), sample.kwargs
            try:
                total = len(differentiable(torch, [list(given[0]), given[1]]))
                for chosen in subsets(total):
                    theirs = [list(plain(given[0])), plain(given[1])]
                    convert = Converter()
                    mine = [list(convert(tuple(theirs[0]))), convert(theirs[1])]
                    if len(differentiable(flambeau, mine)) != total:
                        raise Unsupported("arguments that share tensors")
                    want = presence(torch, entry.op, theirs, chosen)
                    got = presence(flambeau, FUNCTIONS[name], mine, chosen)
                    count += 1
                    if got != want:
                        differences.append(f"{describe(name, given[0], given[1])} for {chosen}: {got}, PyTorch has {want}")
            except Unsupported:
                continue
            except Exception as error:
                differences.append(f"{describe(name, given[0], given[1])}: {type(error).__name__}: {str(error)[:100]}")
    return count, differences


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.gradient_presence", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database")
    parser.add_argument("--count", type=int, default=3, help="samples of an entry")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    total = wrong = entries = unexplained = 0
    names = options.names or list(FUNCTIONS)
    for name in names:
        count, differences = compare(name, options.count)
        total, wrong, entries = total + count, wrong + len(differences), entries + bool(differences)
        if differences and name in EXPLAINED and not options.names:
            print(f"{len(differences)} of {count}: {name}: {EXPLAINED[name]}", flush=True)
            continue
        unexplained += len(differences)
        for line in differences if options.names else differences[:1]:
            print(f"{len(differences)} of {count}: {line}", flush=True)
    print(f"{total - wrong} of {total} agree, {unexplained} differ unexplained; entries {len(names) - entries} of {len(names)}")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
