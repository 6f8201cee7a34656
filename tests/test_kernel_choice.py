"""Which kernel runs is decided in ``core/arrays/native.py``, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import parsed

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.arrays.kinds import BY_DEVICE, host, kind_at
from flambeau.core.calls.registry import TABLES, Entry, entries

PACKAGE = Path(__file__).resolve().parent.parent / "flambeau"
CHOOSER = PACKAGE / "core" / "arrays" / "native.py"
PRIVATE = {"LARGE", "native_threshold", "native_kernel_for", "find", "_found", "_registered"}
SIZES = {"size", "numel", "nbytes", "work"}

# Comparisons of sizes with large numbers that choose no native kernel: between ways of a reference kernel, or how something is shown.
OTHERS = {
    "core/arrays/shared_memory.py": {"nbytes > SEGMENT // 4", "process.used + nbytes > SEGMENT"},  # which descriptor memory comes from
    "utils/data/_utils/collate.py": {"nbytes < shared_memory.SMALLEST"},  # what goes through a pipe
    "utils/data/_utils/messages.py": {"buffer.raw().nbytes < SMALLEST"},
    "utils/data/_utils/shared_memory.py": {"self._spare + size > self._in_use + _SPARE_BYTES"},
    "core/arrays/lapack.py": {"info.size >= MANY", "X[..., 0, 0].size >= MANY"},  # all matrices at once, not one call for each
    "aten/fake_tensor.py": {  # how large a tensor is whose values are kept
        "result.numel() <= CONSTANT_NUMEL_LIMIT",
        "tensor.numel() <= CONSTANT_NUMEL_LIMIT",
    },
    "core/arrays/meta_numpy.py": {"value.size > FEW"},  # how many values of an argument a shape may depend on
    "core/protocols/printing.py": {"array.size > OPTIONS.threshold"},
    "ops/exponential.py": {"input.size < _SMALL"},
    "ops/extrema.py": {"a.size <= LIMIT"},
    "ops/fourier.py": {"array.size >= _IN_PARALLEL"},  # SciPy's threads
    "ops/joining.py": {"arrays[0].size <= LIMIT"},
    "ops/limits.py": {"array.size < BRANCHLESS", "input.size >= BRANCHLESS"},
    "ops/indexing.py": {"array.size < 4096"},  # row by row, or element by element
    "ops/linalg/matrices.py": {"a.size > 4096"},
    "ops/reduction.py": {"array.size > 1 << 14", "a.size > 16384"},
    "ops/small.py": {"a.size > LIMIT", "0 < a.size <= LIMIT"},
    "utils/tensorboard/summary.py": {"tensor.numel() * tensor.itemsize >= LARGEST_MESSAGE"},
    "vision/ops/boxes.py": {"boxes.numel() > _SEPARATE_FROM"},  # classes one by one instead of all together
    "ops/softmaxes.py": {"input.size > LIMIT"},
    "serialization/archive.py": {"size >= LIMIT"},  # of a file's classic form
    "optim/_arrays.py": {"array.size <= BLOCK", "grad.size < BLOCK", "size + grad.size > BLOCK"},  # blocks of passes by NumPy
}


def is_large_number(node: ast.expr) -> bool:
    """A number from 1,000 on, or a constant by its name."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and node.value >= 1000
    if isinstance(node, ast.BinOp):
        is_shift = isinstance(node.op, ast.LShift) and isinstance(node.right, ast.Constant) and node.right.value >= 10
        return is_shift or is_large_number(node.left) or is_large_number(node.right)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.isupper() or name == "threshold"


def is_size(node: ast.expr) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in SIZES)
        or (isinstance(part, ast.Name) and part.id in SIZES)
        or (isinstance(part, ast.Call) and isinstance(part.func, ast.Name | ast.Attribute) and ast.unparse(part.func).endswith("prod"))
        for part in ast.walk(node)
    )


def comparisons(tree: ast.AST) -> Iterator[str]:
    """The comparisons of a size with a large number, those in expressions of fast paths included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            operands = [node.left, *node.comparators]
            if any(map(is_size, operands)) and any(is_large_number(operand) and not is_size(operand) for operand in operands):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ".size" in node.value:
            try:
                expression = ast.parse(f"({node.value})", mode="eval")
            except SyntaxError:
                continue
            yield from (text for text in comparisons(expression) if not text.endswith(("THRESHOLD", "LIMIT")))


def files() -> list[Path]:
    """All of the package but the chooser and the kernels, which cut their work by size."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != CHOOSER and PACKAGE / "kernels" not in path.parents]


@pytest.mark.slow
def test_sizes_are_compared_in_one_place() -> None:
    got = {str(path.relative_to(PACKAGE)): set(comparisons(parsed(path))) for path in files()}
    assert {name: texts for name, texts in got.items() if texts} == OTHERS


@pytest.mark.parametrize(
    "text",
    [
        "if a.size < 8192: pass",
        "x = kernel if array.size >= LARGE else None",
        "if work >= _LARGE: pass",
        "if math.prod(shape) >= native.LARGE: pass",
        "if a.size * n >= 1 << 18: pass",
        'fast = "a.copy() if a.size < 8192 else None"',
    ],
)
def test_a_comparison_is_found(text: str) -> None:
    assert list(comparisons(ast.parse(text)))


@pytest.mark.slow
def test_thresholds_are_used_in_one_place() -> None:
    """By whatever name: ``native.LARGE``, ``from .native import LARGE``."""
    users: dict[str, set[str]] = {}
    for path in (*files(), *(PACKAGE / "kernels").glob("*.py")):
        for node in ast.walk(parsed(path)):
            names: set[str] = set()
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("native"):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "native":
                names = {node.attr}
            if names & PRIVATE:
                users.setdefault(str(path.relative_to(PACKAGE)), set()).update(names & PRIVATE)
    assert users == {}


# -- what is decided ------------------------------------------------------------------------------------------------------------------
def entry_of(name: str) -> Any:
    namespace, _, rest = name.rpartition(".")
    return TABLES[namespace or "torch"][rest]


@pytest.mark.skipif(bool(native._CHOSEN), reason="FLAMBEAU_KERNELS_FROM chooses all thresholds")
@pytest.mark.parametrize(
    ("name", "threshold"),
    [("exp", 8192), ("sum", 8192), ("add", 32768), ("sqrt", 32768), ("matmul", 1024), ("mm", 1024), ("nn.functional.linear", 1024)],
)
def test_threshold(name: str, threshold: int) -> None:
    choice = host.choice_for(entry_of(name))
    assert choice is not None and choice.threshold == threshold and choice.work is None


def test_operations_without_native_kernel() -> None:
    assert all(host.choice_for(entry_of(name)) is None for name in ("permute", "roll", "rot90"))
    assert kind_at(torch.device("meta")) is BY_DEVICE["meta"] and BY_DEVICE["meta"].choice_for(entry_of("add")) is None


def arrays_of(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.zeros(shape, np.float32) for shape in shapes]


INDEX = np.zeros((3, 4), np.int64)
_LAYER, _STATE = arrays_of((3, 2, 5), (8, 5), (8, 2)), arrays_of((2, 2))
WORK: dict[str, tuple[tuple[Any, ...], int]] = {
    "embedding": ((*arrays_of((50, 6)), INDEX, -1, False, False), 72),
    "cdist": ((*arrays_of((20, 3), (30, 3)), 2.0, None), 1800),
    "gather": ((*arrays_of((3, 9)), 1, INDEX, False), 12),
    "scatter_add": ((*arrays_of((3, 9)), 1, INDEX, INDEX), 12),
    "_scatter_reduce": ((*arrays_of((3, 9)), 1, INDEX, INDEX, "sum", True), 12),
    "index_select": ((*arrays_of((5, 7, 2)), 1, INDEX[0]), 40),
    "_index": ((*arrays_of((5, 7, 2)), [None, INDEX]), 120),
    "_pdist": ((*arrays_of((20, 3)), 2.0), 1200),
    "outer": (tuple(arrays_of((50,), (6,))), 300),
    "_index_add": ((*arrays_of((50, 6)), 0, INDEX[0], *arrays_of((4, 6)), 1), 24),
    "_index_reduce": ((*arrays_of((50, 6)), 0, INDEX[0], *arrays_of((4, 6)), "amax", True), 24),
    "_scattered_sums": ((*arrays_of((3, 9)), 1, INDEX, (3, 9)), 27),
    "_grid_sample2d": ((*arrays_of((1, 2, 4, 4), (1, 3, 5, 2)), 0, 0, False), 30),
    "_grid_sample3d": ((*arrays_of((1, 2, 4, 4, 4), (1, 2, 3, 5, 3)), 0, 0, False), 90),
    "_repeat": ((*arrays_of((5, 6)), (2, 3)), 180),
    "_put_parts": ((arrays_of((2,), (3,)), (5,), None), 5),
    "nn.functional._nll_loss_backward": ((*arrays_of(()), INDEX[0], None, (4, 9), "mean", -100), 36),
    "nn.functional._cross_entropy_backward": ((*arrays_of((), (4, 9)), INDEX[0], None, "mean", -100), 36),
    "nn.functional._smoothed_cross_entropy_backward": ((*arrays_of((), (4, 9)), INDEX[0], None, "mean", -100, 0.1), 36),
    "nn.functional._scatter_planes": ((*arrays_of((2, 3, 4)), None, (8,)), 48),
    "nn.functional._avg_pool_backward": ((*arrays_of((2, 3, 4)), (2, 3, 8), None, None, None, None, None, None), 48),
    "nn.functional._adaptive_avg_pool_backward": ((*arrays_of((2, 3, 4)), (8,)), 48),
    "_lstm_layer": ((*_LAYER[:1], *_STATE, *_STATE, *_LAYER[1:], None, None, None, None, None, False), 96),
    "_gru_layer": ((*_LAYER[:1], *_STATE, *_LAYER[1:], None, None, None, None, False), 96),
    "_rnn_layer": ((*_LAYER[:1], *_STATE, *_LAYER[1:], None, None, None, None, False), 96),
    "_lstm_layer_backward": ((None, None, None, *_LAYER[:1], *_STATE, *_STATE, *_LAYER[1:], *[None] * 6, False, True), 96),
    "_gru_layer_backward": ((None, None, *_LAYER[:1], *_STATE, *_LAYER[1:], *[None] * 5, False, True), 96),
    "_rnn_layer_backward": ((None, None, *_LAYER[:1], *_STATE, *_LAYER[1:], *[None] * 3, False, True), 96),
    "nn.functional._attention": ((*arrays_of((2, 3, 4), (2, 5, 4), (2, 5, 6)), None, False, 1.0, None, True), 120),
    "nn.functional._attention_backward": (
        (*arrays_of((2, 3, 6), (2, 3, 4), (2, 5, 4), (2, 5, 6)), None, *arrays_of((2, 3, 6), (2, 3)), False, 1.0, None, False, True),
        180,
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_work(name: str) -> None:
    arguments, work = WORK[name]
    choice = host.choice_for(entry_of(name))
    assert choice is not None and choice.work_of is not None and choice.work_of(*arguments) == work


def test_all_stated_works_are_tested() -> None:
    stated = {native.key_of(e) for e in entries() if isinstance(e, Entry) and e.work is not None}
    assert stated == {*WORK, "matmul", "mm", "bmm", "nn.functional.linear"}


def test_the_slow_path_decides_as_the_wrapper_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the operation says its work is, not by its first operand: a long table at few places, and a short one at many."""
    launched: list[int] = []
    monkeypatch.setattr(native.switch, "on", True)
    monkeypatch.setitem(native._found, "embedding", lambda weight, indices, *rest: launched.append(indices.size))
    few, many = torch.zeros(native.LARGE - 1, dtype=torch.long), torch.zeros(native.LARGE, dtype=torch.long)
    table = torch.zeros(native.LARGE + 1, 1)
    for weight in (table, table.as_subclass(type("Sub", (torch.Tensor,), {}))):
        for indices in (few, many):
            torch.embedding(weight, indices)
    assert launched == [native.LARGE] * 2
