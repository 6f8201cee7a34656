"""Which kernel runs is decided in ``core/arrays/native.py``, and nowhere else."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import parsed

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.arrays.kinds import BY_DEVICE, host, kind_at
from flambeau.core.arrays.panels import PackedLinear
from flambeau.core.calls import machine_calls
from flambeau.core.calls.registry import TABLES, Entry, entries
from flambeau.kernels import FAMILIES

PACKAGE = Path(__file__).resolve().parent.parent / "flambeau"
CHOOSER = PACKAGE / "core" / "arrays" / "native.py"
ENTRY_POINTS = {"part", "runs", "switch"}  # what files outside of core and kernels may use of the chooser
SIZES = {"size", "numel", "nbytes", "work"}


# -- comparisons of sizes -------------------------------------------------------------------------------------------------------------
def is_number(node: ast.expr) -> bool:
    """A number from 1,000 on."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and node.value >= 1000
    if isinstance(node, ast.BinOp):
        is_shift = isinstance(node.op, ast.LShift) and isinstance(node.right, ast.Constant) and node.right.value >= 10
        return is_shift or is_number(node.left) or is_number(node.right)
    return False


def is_limit(node: ast.expr) -> bool:
    """A number from 1,000 on, or a constant by its name."""
    if isinstance(node, ast.BinOp):
        return is_number(node) or is_limit(node.left) or is_limit(node.right)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.isupper() or is_number(node)


def is_size(node: ast.expr) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in SIZES)
        or (isinstance(part, ast.Name) and part.id in SIZES)
        or (isinstance(part, ast.Call) and isinstance(part.func, ast.Name | ast.Attribute) and ast.unparse(part.func).endswith("prod"))
        for part in ast.walk(node)
    )


def comparisons(tree: ast.AST, is_bound: Any) -> Iterator[str]:
    """The comparisons of a size with what ``is_bound`` recognises, those in expressions of fast paths included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(sign, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for sign in node.ops):
            operands = [node.left, *node.comparators]
            if any(map(is_size, operands)) and any(is_bound(operand) and not is_size(operand) for operand in operands):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ".size" in node.value:
            try:
                expression = ast.parse(f"({node.value})", mode="eval")
            except SyntaxError:
                continue
            yield from comparisons(expression, is_bound)


def parts_of(tree: ast.Module) -> set[str]:
    """The names of a file's functions that are declared as parts."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(mark).startswith("native.part(") for mark in node.decorator_list)
    }


def reaches_kernels(function: ast.FunctionDef, parts: set[str]) -> bool:
    """Whether a function calls a part, or asks the chooser itself."""
    called = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call) and node not in function.decorator_list}
    return any(name.removeprefix("copies.") in parts or name.startswith("native.") for name in called)


def second_choices(tree: ast.Module, shared: set[str]) -> Iterator[str]:
    """Functions that compare a size before they call a part: they choose between kernels once more."""
    parts = parts_of(tree) | shared
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and reaches_kernels(node, parts):
            yield from (f"{node.name}: {text}" for text in comparisons(ast.Module(node.body, []), is_limit))


def files() -> list[Path]:
    """All of the package but the chooser and the kernels, which cut their work by size."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != CHOOSER and PACKAGE / "kernels" not in path.parents]


@pytest.mark.slow
def test_sizes_are_compared_with_limits_that_have_a_name() -> None:
    """What chooses between two ways of a reference kernel, or how something is shown, says so by a constant's name."""
    got = {str(path.relative_to(PACKAGE)): set(comparisons(parsed(path), is_number)) for path in files()}
    assert not {name: texts for name, texts in got.items() if texts}


@pytest.mark.slow
def test_nobody_chooses_before_a_part_does() -> None:
    copies = PACKAGE / "core" / "arrays" / "copies.py"  # where some write their part's choice out
    shared = {node.name for node in parsed(copies).body if isinstance(node, ast.FunctionDef)}
    got = {str(path.relative_to(PACKAGE)): set(second_choices(parsed(path), shared)) for path in files()}
    assert not {name: texts for name, texts in got.items() if texts}


@pytest.mark.parametrize(
    "text",
    [
        "if a.size < 8192: pass",
        "if math.prod(shape) >= 1 << 13: pass",
        "if a.size * n >= 1 << 18: pass",
        "if 0 < a.size <= 1000: pass",
        'fast = "a.copy() if a.size < 8192 else None"',
    ],
)
def test_a_comparison_with_a_number_is_found(text: str) -> None:
    assert list(comparisons(ast.parse(text), is_number))


@pytest.mark.parametrize(
    "text",
    [
        "x = kernel(array) if array.size >= LARGE else None",
        "if work >= _LARGE: return kernel(array)",
        "if math.prod(shape) >= native.LARGE: return kernel(array)",
        "if a.size < BRANCHLESS: return a.min()\n    return kernel(a)",
        "return native.runs(kernel, a) and a.nbytes > FEW",
    ],
)
def test_a_second_choice_is_found(text: str) -> None:
    declared = f"@native.part('_kernel')\ndef kernel(array): pass\ndef body(array):\n    {text}"
    assert list(second_choices(ast.parse(declared), set()))


# -- who may ask the chooser ----------------------------------------------------------------------------------------------------------
def used_of_chooser(path: Path) -> set[str]:
    """By whatever name: ``native.LARGE``, ``from .native import LARGE``."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("arrays.native"):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "native":
            names.add(node.attr)
    return names


@pytest.mark.slow
def test_the_chooser_has_three_entry_points() -> None:
    outside = [path for path in files() if PACKAGE / "core" not in path.parents]
    users = {str(path.relative_to(PACKAGE)): used_of_chooser(path) for path in outside}
    assert set().union(*users.values()) == ENTRY_POINTS, {name: used - ENTRY_POINTS for name, used in users.items() if used - ENTRY_POINTS}


@pytest.mark.slow
def test_thresholds_are_used_in_one_place() -> None:
    private = {"LARGE", "find", "_found", "_registered", "work_and_threshold"}
    everywhere = [*files(), *(PACKAGE / "kernels").rglob("*.py")]
    users = {str(path.relative_to(PACKAGE)): used_of_chooser(path) & private for path in everywhere}
    assert not {name: used for name, used in users.items() if used}


# -- parts ----------------------------------------------------------------------------------------------------------------------------
def all_parts() -> list[native.Part]:
    list(entries())  # families that are imported late, too
    import flambeau.nn.utils.clip_grad
    import flambeau.optim._arrays  # noqa: F401

    return native.parts


def test_each_part_has_a_kernel_with_its_arguments() -> None:
    for part in all_parts():
        if part.name is not None:
            assert part.name in FAMILIES, f"{part.reference.__module__}.{part.reference.__name__}: nobody registers {part.name!r}"
            kernel: Any = native.find(part.name)
            if hasattr(kernel, "__code__"):
                wanted = part.reference.__code__.co_argcount
                least = kernel.__code__.co_argcount - len(kernel.__defaults__ or ())
                assert least <= wanted <= kernel.__code__.co_argcount, (part.name, wanted)


def test_each_kernel_is_an_operation_s_or_a_part_s_or_the_generator_s() -> None:
    parts = {part.name for part in all_parts()}
    operations = {entry.key for entry in entries()}
    operations |= {f"bfloat16:{entry.key}" for entry in entries() if getattr(entry, "in_bfloat16", False)}
    operations |= {f"gradients:{entry.key}" for entry in entries() if getattr(entry, "together", False)}
    assert {*FAMILIES} - parts - operations == {"random.draw", "random.draw_each"}


@pytest.mark.parametrize(
    ("work", "size", "threshold"),
    [
        (None, None, 8192),
        ("a.size", None, 8192),
        ("b.size", "b.size", 8192),
        ("16 * a.size", None, 512),
        ("16 * b.size", "b.size", 512),
        ("a.size // 4", None, 32768),
        ("a.size * b.shape[1] // 16", "a.size * b.shape[1]", 131072),
        ("8 * max(a.size, b.size)", "max(a.size, b.size)", 1024),
        ("a.size // groups // 12", "a.size // groups", 98304),
    ],
)
@pytest.mark.skipif(bool(native._CHOSEN), reason="FLAMBEAU_KERNELS_FROM chooses all thresholds")
def test_a_rate_is_in_the_threshold(work: str | None, size: str | None, threshold: int) -> None:
    assert native.work_and_threshold(work, "a") == (size, threshold)


@pytest.fixture
def doubling(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A part whose kernel is there, and what was called."""
    called: list[Any] = []
    monkeypatch.setattr(native, "parts", [])
    monkeypatch.setattr(native.switch, "on", True)
    monkeypatch.setitem(native._found, "_doubled", lambda a, by: called.append("kernel") or (a * by if a.dtype == np.float32 else None))
    return called


def declared(called: list[Any], **options: Any) -> Any:
    @native.part("_doubled", **options)
    def doubled(a: np.ndarray, by: float = 2.0) -> np.ndarray:
        """Twice as much."""
        called.append("reference")
        return a * by

    return doubled


def test_a_part_asks_its_kernel_from_the_threshold_on(doubling: list[Any]) -> None:
    doubled = declared(doubling, work="2 * a.size")
    many = -(-native.LARGE // 2)
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Twice as much." and doubled.part.threshold <= many
    for size, dtype, called in ((many, "f4", ["kernel"]), (many, "f8", ["kernel", "reference"])):
        doubling.clear()
        assert (doubled(np.ones(size, dtype)) == 2).all() and doubling == called
    if not native._CHOSEN:
        doubling.clear()
        assert doubled(np.ones(many - 1, np.float32), 3.0).max() == 3 and doubling == ["reference"]
    assert native.runs(doubled, np.ones(many)) and (bool(native._CHOSEN) or not native.runs(doubled, np.ones(many - 1)))
    with native.disabled():
        doubling.clear()
        doubled(np.ones(many, np.float32))
        assert doubling == ["reference"] and not native.runs(doubled, np.ones(many))


def test_arrays_that_lie_elsewhere_go_to_the_reference(doubling: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(np.ndarray):
        pass

    monkeypatch.setattr(native, "foreign", {Elsewhere})
    array = np.ones(native.LARGE, np.float32).view(Elsewhere)
    declared(doubling)(array)
    assert doubling == ["reference"] and not native.runs(declared(doubling), array)


def test_a_kernel_that_returns_true_has_done_it(doubling: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(native._found, "_doubled", lambda a, by: True)
    assert declared(doubling)(np.ones(native.LARGE, np.float32)) is None and not doubling


def test_small_calls_come_to_a_large_one_together(doubling: list[Any]) -> None:
    doubled, few = declared(doubling, budget=True), np.ones(max(native.LARGE // 2, 1), np.float32)
    for _ in range(40):
        doubled(few)
    assert doubling[-1] == "kernel" and (bool(native._CHOSEN) or doubling.count("reference") == 32)


def test_other_kinds_of_arrays_run_the_reference_of_a_part() -> None:
    meta: Any = kind_at(torch.device("meta"))
    part = next(part for part in all_parts() if part.name == "_triangle_places")
    assert meta.bound(part.function).__code__ is part.reference.__code__


# -- what is decided ------------------------------------------------------------------------------------------------------------------
def entry_of(name: str) -> Any:
    namespace, _, rest = name.rpartition(".")
    return TABLES[namespace or "torch"][rest]


# Those whose work has a rate only.
EIGHTFOLD = "matmul mm bmm _softmax_backward_data _log_softmax_backward_data".split()
BY_RATE = {
    4: ("nn.functional._batch_norm_fixed",),
    32: ("softmax", "log_softmax", "topk"),
    64: ("nn.functional._rms_norm",),
    512: ("nn.functional._layer_norm",),
}
SIXTEENFOLD = "linalg.det linalg.slogdet linalg.qr geqrf".split()


@pytest.mark.skipif(bool(native._CHOSEN), reason="FLAMBEAU_KERNELS_FROM chooses all thresholds")
@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        ("exp", 8192),
        ("sum", 8192),
        ("add", 32768),
        ("sqrt", 32768),
        *((name, 1024) for name in EIGHTFOLD),
        *((name, 512) for name in SIXTEENFOLD),
        *((name, 8192 // rate) for rate, names in BY_RATE.items() for name in names),
        ("cat", 65536),
    ],
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
_PACKED = PackedLinear(np.zeros((6, 5), np.int8), np.ones(1), np.zeros(1, np.int64), None)
WORK: dict[str, tuple[tuple[Any, ...], int]] = {
    "embedding": ((*arrays_of((50, 6)), INDEX, -1, False, False), 72),
    "cdist": ((*arrays_of((20, 3), (30, 3)), 2.0, None), 1800),
    "gather": ((*arrays_of((3, 9)), 1, INDEX, False), 12),
    "scatter_add": ((*arrays_of((3, 9)), 1, INDEX, INDEX), 12),
    "_scatter_reduce": ((*arrays_of((3, 9)), 1, INDEX, INDEX, "sum", True), 12),
    "index_select": ((*arrays_of((5, 7, 2)), 1, INDEX[0]), 40),
    "_index": ((*arrays_of((5, 7, 2)), [None, INDEX]), 120),
    "take": ((*arrays_of((5, 7)), INDEX), 12),
    "_pdist": ((*arrays_of((20, 3)), 2.0), 1200),
    "outer": (tuple(arrays_of((50,), (6,))), 300),
    "_index_add": ((*arrays_of((50, 6)), 0, INDEX[0], *arrays_of((4, 6)), 1), 24),
    "_index_reduce": ((*arrays_of((50, 6)), 0, INDEX[0], *arrays_of((4, 6)), "amax", True), 24),
    "_scattered_sums": ((*arrays_of((3, 9)), 1, INDEX, (3, 9)), 27),
    "_grid_sample2d": ((*arrays_of((1, 2, 4, 4), (1, 3, 5, 2)), 0, 0, False), 30),
    "_grid_sample3d": ((*arrays_of((1, 2, 4, 4, 4), (1, 2, 3, 5, 3)), 0, 0, False), 90),
    "_repeat": ((*arrays_of((5, 6)), (2, 3)), 180),
    "_int_mm": (tuple(arrays_of((4, 5), (5, 6))), 120),
    "_weight_int8pack_mm": (tuple(arrays_of((4, 5), (6, 5), (6,))), 120),
    "_weight_int4pack_mm_for_cpu": ((*arrays_of((4, 32), (16, 16)), 32, *arrays_of((1, 16, 2))), 1024),
    "_quantized_linear_dynamic": ((*arrays_of((3, 4, 5)), _PACKED, False, False), 360),
    "_quantized_linear": ((*arrays_of((3, 4, 5)), _PACKED, 1.0, 0, 1.0, 0, False), 360),
    "_put_parts": ((arrays_of((2,), (3,)), (5,), None), 5),
    "nn.functional._nll_loss_backward": ((*arrays_of(()), INDEX[0], None, (4, 9), "mean", -100), 36),
    "nn.functional._cross_entropy_backward": ((*arrays_of((), (4, 9)), INDEX[0], None, "mean", -100), 36),
    "nn.functional._smoothed_cross_entropy_backward": ((*arrays_of((), (4, 9)), INDEX[0], None, "mean", -100, 0.1), 36),
    "nn.functional._scatter_planes": ((*arrays_of((2, 3, 4)), None, (8,)), 48),
    "nn.functional._avg_pool_backward": ((*arrays_of((2, 3, 4)), (2, 3, 8), None, None, None, None, None, None), 48),
    "nn.functional._adaptive_avg_pool_backward": ((*arrays_of((2, 3, 4)), (8,)), 48),
    "_lstm_layer": ((*_LAYER[:1], *_STATE, *_STATE, *_LAYER[1:], None, None, None, None, None, False), 12384),
    "_gru_layer": ((*_LAYER[:1], *_STATE, *_LAYER[1:], None, None, None, None, False), 12384),
    "_rnn_layer": ((*_LAYER[:1], *_STATE, *_LAYER[1:], None, None, None, None, False), 12384),
    "_lstm_layer_backward": ((None, None, None, *_LAYER[:1], *_STATE, *_STATE, *_LAYER[1:], *[None] * 6, False, True), 12384),
    "_gru_layer_backward": ((None, None, *_LAYER[:1], *_STATE, *_LAYER[1:], *[None] * 5, False, True), 12384),
    "_rnn_layer_backward": ((None, None, *_LAYER[:1], *_STATE, *_LAYER[1:], *[None] * 3, False, True), 12384),
    "_recurrent_steps": ((*arrays_of((6, 8)), *_STATE, *_STATE, _LAYER[2], None, None, (2, 2, 2), False, True), 96),
    "_recurrent_steps_backward": ((*[None] * 5, *_STATE, *_STATE, _LAYER[2], None, None, (2, 2, 2), False), 96),
    "_bag_sums": ((*arrays_of((50, 6)), INDEX, None, None, False), 72),
    "nn.functional.linear": ((*arrays_of((3, 4, 5), (6, 5)), None), 360),
    "addmm": ((*arrays_of((6,), (4, 5), (5, 6)), 1, 1), 20),
    "addbmm": ((*arrays_of((6,), (3, 4, 5), (3, 5, 6)), 1, 1), 60),
    "baddbmm": ((*arrays_of((6,), (3, 4, 5), (3, 5, 6)), 1, 1), 60),
    "addr": ((*arrays_of((4, 6), (4,), (6,)), 1, 1), 24),
    "_convolution_weight": ((*arrays_of((2, 4, 9), (2, 6, 7)), (3,), (1,), (0,), (1,), 2), 504),
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
    stated = {e.key for e in entries() if isinstance(e, Entry) and e.work is not None}
    assert stated == {*WORK, *EIGHTFOLD, *SIXTEENFOLD, "cat", *itertools.chain(*BY_RATE.values())}


def test_the_slow_path_decides_as_the_wrapper_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the operation says its work is, not by its first operand: a long table at few places, and a short one at many."""
    launched: list[int] = []
    monkeypatch.setattr(native.switch, "on", True)
    monkeypatch.setitem(native._found, "embedding", lambda weight, indices, *rest: launched.append(indices.size))
    few, many = torch.zeros(native.LARGE - 1, dtype=torch.long), torch.zeros(native.LARGE, dtype=torch.long)
    table = torch.zeros(native.LARGE + 1, 1)
    with machine_calls.python_only():
        for weight in (table, table.as_subclass(type("Sub", (torch.Tensor,), {}))):
            for indices in (few, many):
                torch.embedding(weight, indices)
    assert launched == [native.LARGE] * 2
