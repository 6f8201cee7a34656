"""Writes the tables of the documentation that can be derived: ``python -m tools.tables``.

    docs/operations.md       every operation, from the registry
    docs/kernels.md          (its tables only) parts of operations with their work, and the modules of kernels
    docs/compatibility.md    PyTorch's public names beside flambeau's, and what raises NotImplementedError

and, by ``tools.kernel_index`` and ``tools.stubs``, the index of native kernels and the stubs for type checkers.

PyTorch's names are kept in ``tools/pytorch_names.json``, so that the tables can be made where PyTorch is not installed; where it
is, the file is made anew first.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flambeau
from flambeau.aten import below, calls  # noqa: F401  # ``below`` hangs the rules about PyTorch's terms
from flambeau.core.arrays import meta, native  # noqa: F401
from flambeau.core.calls.registry import Composite, Factory, entries
from flambeau.func import _batch_index, _batch_layers  # noqa: F401
from flambeau.kernels.index import FAMILIES
from tools import kernel_index, left_out, stubs

ROOT = Path(__file__).resolve().parent.parent
NAMES = Path(__file__).with_name("pytorch_names.json")
COMMAND = "python -m tools.tables"
HEADER = f"<!-- Written by `{COMMAND}`; do not edit. -->\n\n"

NAMESPACES = (
    "torch Tensor nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrizations nn.utils.parametrize nn.utils.prune "
    "nn.parallel optim optim.lr_scheduler optim.swa_utils autograd autograd.functional autograd.forward_ad autograd.graph "
    "autograd.profiler autograd.profiler_legacy utils.data utils.data.distributed utils.checkpoint utils.dlpack utils.model_zoo linalg "
    "special fft signal.windows sparse random distributions distributions.constraints distributions.transforms serialization overrides "
    "testing return_types masked nested func amp jit fx export compiler onnx profiler profiler._pattern_matcher profiler._utils hub "
    "library futures multiprocessing distributed distributed._composable distributed._tools distributed.algorithms.ddp_comm_hooks "
    "distributed.algorithms.ddp_comm_hooks.ddp_zero_hook distributed.algorithms.join distributed.autograd distributed.checkpoint "
    "distributed.device_mesh distributed.elastic.agent.server distributed.elastic.events distributed.elastic.metrics "
    "distributed.elastic.multiprocessing distributed.elastic.rendezvous distributed.elastic.timer distributed.flight_recorder.fr_trace "
    "distributed.fsdp distributed.nn distributed.optim distributed.pipelining distributed.rpc distributed.rpc.backend_registry "
    "distributed.tensor distributed.tensor.debug distributed.tensor.experimental distributed.tensor.parallel "
    "distributed.tensor.parallel.input_reshard cpu cpu.amp accelerator cuda cuda.amp cuda.profiler nn.attention "
    "nn.attention.flex_attention nn.attention.bias utils._pytree utils.flop_counter utils.tensorboard utils.benchmark "
    "utils.benchmark.op_fuzzers.binary utils.benchmark.op_fuzzers.sparse_binary utils.benchmark.op_fuzzers.sparse_unary "
    "utils.benchmark.op_fuzzers.spectral utils.benchmark.op_fuzzers.unary"
).split()
LIBRARY_INTERNALS = {"classproperty", "PRIVATE_OPS", "TYPE_CHECKING", "USE_GLOBAL_DEPS", "USE_RTLD_GLOBAL_WITH_LIBTORCH", "LoggerBase"}


# -- PyTorch's names ----------------------------------------------------------------------------------------------------------
def is_public(torch: Any, name: str, value: Any) -> bool:
    """Whether a module's attribute is part of its interface: no module, no import of its own, no binding of the TorchScript compiler."""
    if name.startswith("_") or isinstance(value, types.ModuleType) or name in LIBRARY_INTERNALS:
        return False
    if type(type(value)).__name__ == "pybind11_type" or type(value).__name__ == "pybind11_type":
        return False
    if isinstance(value, types.BuiltinFunctionType):
        return type(value.__self__).__name__ != "PyCapsule"
    if isinstance(value, (type, types.FunctionType)):
        return value.__module__.startswith("torch")
    return isinstance(value, (torch.dtype, torch.layout, torch.memory_format, float, type(None)))


def names_of(torch: Any, namespace: str) -> list[str]:
    """Public names of one of PyTorch's namespaces."""
    if namespace == "Tensor":
        return [name for name in dir(torch.Tensor) if not name.startswith("_")]
    module = torch if namespace == "torch" else importlib.import_module(f"torch.{namespace}")
    listed = getattr(module, "__all__", None)
    if listed is not None and namespace != "torch":
        listed = [name for name in set(listed) if not name.startswith("_")]
        return sorted(name for name in listed if not isinstance(getattr(module, name, None), types.ModuleType))
    names = [name for name in dir(module) if is_public(torch, name, getattr(module, name))]
    if namespace == "nn.functional":
        own = ("torch", "torch.nn.functional", "torch._C._nn")
        names = [name for name in names if name != "Tensor" and getattr(getattr(module, name), "__module__", None) in own]
    return names


def read_oracle() -> dict[str, Any]:
    """PyTorch's version, its public names by namespace, and the names in its database of operations."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        facts: dict[str, Any] = {"version": torch.__version__.partition("+")[0]}
        facts["names"] = {namespace: names_of(torch, namespace) for namespace in NAMESPACES}
        if importlib.util.find_spec("expecttest"):
            from torch.testing._internal.common_methods_invocations import op_db

            facts["database"] = sorted({entry.name for entry in op_db})
    return facts


def oracle_names() -> dict[str, Any]:
    return json.loads(NAMES.read_text())


# -- operations.md ------------------------------------------------------------------------------------------------------------
def summary(doc: str | None) -> str:
    """First sentence of a docstring, on one line."""
    text = " ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split())
    return text.replace("|", "\\|")


def derivative(entry: Any) -> str:
    if isinstance(entry, Composite):
        return "by its parts"
    if entry.rules is None:
        return "no"
    return ", ".join(part.strip() for key in entry.rules for part in key.split(","))


def row(entry: Any) -> tuple[str, ...]:
    primitive = not isinstance(entry, (Composite, Factory))
    prefix = "" if entry.namespace == "torch" else f"{entry.namespace}."
    names = ", ".join(f"`{prefix}{name}`" for name in (entry.name, *entry.aliases))
    is_view = primitive and (entry.is_view or entry.is_multi_view)
    kind = "composite" if isinstance(entry, Composite) else "factory" if isinstance(entry, Factory) else "view" if is_view else "primitive"
    forms = ["method"] * bool(entry.namespace == "Tensor" or (entry.method and entry.namespace == "torch"))
    forms += ["in-place"] * bool(entry.inplace) + ["out="] * bool(entry.out)
    promotion = "" if is_view or not primitive else entry.promotion
    return names, kind, promotion, ", ".join(forms), derivative(entry), sheet(entry), summary(entry.doc)


def sheet(entry: Any) -> str:
    """What else the declaration says, and which rules hang on it."""
    if isinstance(entry, Factory):
        return ", ".join(sorted(entry.hanging))
    words = [f"{kind} {word}" for kind, word in entry.autocast.items()]
    if len(entry.autocast) == 2 and len(set(entry.autocast.values())) == 1:
        words = [next(iter(entry.autocast.values()))]
    told = [f"autocast {', '.join(words)}"] * bool(words)
    if isinstance(entry, Composite):
        told += ["composed in PyTorch's library"] * entry.in_library
    else:
        kernels = calls.kernels().get(entry.key, ())
        told += [f"`aten::{'`, `'.join(kernels)}`"] * bool(kernels)
        told += [f"forward {'by a formula' if callable(entry.forward) else entry.forward}"] * bool(entry.forward)
        told += ["0 at 0"] * entry.keeps_zero
        told += [f"batch {entry.batch}"] * (entry.batch is not None)
        told += ["native kernel"] * (entry.elementwise or entry.key in FAMILIES)
        told += [f"work `{entry.work}`"] * bool(entry.work)
    told += [f"rules: {', '.join(sorted(entry.hanging))}"] * bool(entry.hanging)
    return "; ".join(told).replace("|", "\\|")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def operations() -> str:
    """The text of docs/operations.md."""
    families: dict[str, list[Any]] = {}
    for entry in entries():
        families.setdefault(entry.kernel.__module__, []).append(entry)
    parts = [
        HEADER + "# Operations\n",
        f"{sum(map(len, families.values()))} operations, each declared once in `flambeau/ops`. A *primitive* has a kernel and a\n"
        "derivative of its own, a *view* shares memory with its first operand, a *composite* is a function over other operations,\n"
        "a *factory* makes a tensor from sizes, numbers or data.\n"
        "*Promotion* says how operands of different dtypes meet (`core/calls/operation.py` explains the words). Under *derivative* stand\n"
        "the differentiable inputs. The *sheet* has what else is declared: which of PyTorch's kernels it is, the words for autocast,\n"
        "forward mode and batches, work in elements where it is not the first operand's size, and the rules that hang on it\n"
        "(`core/calls/tables.py`).\n",
    ]
    head = ("operation", "kind", "promotion", "also", "derivative", "sheet", "what it gives")
    for module in sorted(families):
        path = "/".join(module.split(".")) + ".py"
        parts.append(f"## {path}\n\n{summary(sys.modules[module].__doc__)}\n")
        parts.append(table(head, sorted(map(row, families[module]))))
    return "\n".join(parts)


# -- compatibility.md ---------------------------------------------------------------------------------------------------------
def here(namespace: str, names: list[str]) -> set[str]:
    """Those of PyTorch's names that flambeau has."""
    if namespace in ("torch", "Tensor"):
        root: Any = flambeau if namespace == "torch" else flambeau.Tensor
    else:
        try:
            root = importlib.import_module(f"flambeau.{namespace}")
        except ModuleNotFoundError:
            return set()
    return {name for name in names if hasattr(root, name) and not getattr(getattr(root, name), "is_unsupported", False)}


def has_operation(name: str) -> bool:
    parts = name.removeprefix("torch.").split(".")
    for root in (flambeau, flambeau.Tensor, flambeau.ops.aten):
        member = root
        for part in parts:
            member = getattr(member, part, None)
        if member is not None:
            return True
    return hasattr(flambeau.Tensor, name + "_") or name == "_segment_reduce"  # whose function is segment_reduce


def condition_of(stack: list[ast.AST]) -> str:
    """The innermost condition or ``except`` clause under which a statement stands, as source."""
    for parent, child in zip(stack[-2::-1], stack[:0:-1], strict=False):
        if isinstance(parent, ast.If):
            test = ast.unparse(parent.test)
            return test if child in parent.body else f"not ({test})"
        if isinstance(parent, ast.ExceptHandler) and parent.type is not None:
            return f"{ast.unparse(parent.type)} was raised"
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return ""
    return ""


def message_of(node: ast.expr) -> str:
    """The text of a message, its variable parts in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return message_of(node.left) + message_of(node.right)
    return f"{{{ast.unparse(node)}}}"


def unsupported(path: Path) -> Iterator[tuple[str, str, str]]:
    """(function, condition, message) of every NotImplementedError with a message that a file raises."""

    def visit(node: ast.AST, stack: list[ast.AST], scope: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = (*scope, node.name)
        stack = [*stack, node]
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            if isinstance(node.exc.func, ast.Name) and node.exc.func.id == "NotImplementedError":
                yield ".".join(scope), condition_of(stack), message_of(node.exc.args[0])
        for child in ast.iter_child_nodes(node):
            yield from visit(child, stack, scope)

    text = path.read_text()
    if "NotImplementedError" in text:
        yield from visit(ast.parse(text), [], ())


def code(text: str) -> str:
    """Markdown for a piece of source in a table."""
    return f"`` {' '.join(text.split())} ``".replace("|", "\\|") if text else ""


def limits() -> list[tuple[str, ...]]:
    rows = []
    for path in sorted((ROOT / "flambeau").rglob("*.py")):
        for function, condition, message in unsupported(path):
            if "not implemented for" not in message:  # PyTorch's own words for dtypes that it does not compute either
                rows.append((f"{path.relative_to(ROOT / 'flambeau').as_posix()}: `{function}`", code(condition), code(message)))
    return rows


def listed(names: list[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def compatibility() -> str:
    """The text of docs/compatibility.md."""
    known = oracle_names()
    rows, missing = [], []
    for namespace, names in known["names"].items():
        present = here(namespace, names)
        title = namespace if namespace in ("torch", "Tensor") else f"torch.{namespace}"
        rows.append((f"`{title}`", str(len(names)), str(len(present)), f"{100 * len(present) // max(len(names), 1)} %"))
        lacking = [name for name in names if name not in present]
        if not present:
            missing.append(f"- `{title}`: all of it")
        elif lacking:
            missing.append(f"- `{title}`: {listed(lacking)}")
    database = known.get("database", [])
    lacking = [name for name in database if not has_operation(name)]
    parts = [
        HEADER + "# Compatibility\n",
        f"PyTorch {known['version']}'s public names, and how many of them flambeau has. A name counts when it exists and does not\n"
        "merely raise NotImplementedError; how far operations do what PyTorch's do stands in [conformance.md](conformance.md), a row for\n"
        "each entry of PyTorch's own database of operations.\n",
        table(("namespace", "PyTorch", "flambeau", "share"), rows),
        f"PyTorch's database of operations names {len(database)}; {len(database) - len(lacking)} of them exist here.\n",
        "## Devices\n",
        "The CPU and `meta` are tested against PyTorch. CUDA, through CuPy, is tested on a probe and on a stand-in for CuPy\n"
        "(`tests/devices`), and has run on one GPU; [design.md](design.md#cuda) says what it does and what it does not.\n",
        "## Names that are missing\n",
        "\n".join(missing) + "\n",
        "## Why they are missing\n",
        "Of the operations, their methods and results; a test holds that no other name is missing.\n",
        table(("names", "reason"), [(listed(patterns.split()), reason) for reason, patterns in left_out.REASONS]),
        "## Operations of PyTorch's database that are missing\n",
        listed(lacking) + "\n",
        "## What raises NotImplementedError\n",
        "What exists in part says so when the rest is asked for. Left out are dtypes that PyTorch does not compute either, and methods\n"
        "that a subclass has to define.\n",
        table(("where", "when", "message"), limits()),
    ]
    return "\n".join(parts)


# -- modules of kernels -----------------------------------------------------------------------------------------------------------
def subject(path: Path) -> str:
    """First sentence of a module's docstring."""
    return summary(ast.get_docstring(ast.parse(path.read_text())))


def kernels() -> str:
    """docs/kernels.md with its tables made anew."""
    backend = ROOT / "flambeau" / "kernels"
    page = (ROOT / "docs" / "kernels.md").read_text()
    count = {family: len(names) for family, names in kernel_index.registered().items()}
    elementwise = sum(not isinstance(entry, (Composite, Factory)) and entry.elementwise for entry in entries())
    rows = [("none: made of their expressions", str(elementwise), "Element-wise operations, with the four that have none.")]
    files = {path: path.relative_to(backend).as_posix() for path in sorted(backend.glob("*/*.py")) if path.name != "__init__.py"}
    operations = {path: count.get(name.removesuffix(".py").replace("/", ".")) for path, name in files.items()}
    rows += [(f"`{files[path]}`", str(number), subject(path)) for path, number in operations.items() if number]
    rows += [(f"`{files[path]}`", "", subject(path)) for path, number in operations.items() if not number]
    page = with_table(page, "parts", table(("part", "native kernel", "work", "from"), parts()))
    return with_table(page, "modules", table(("module", "operations", "what it has"), rows))


def with_table(page: str, name: str, text: str) -> str:
    """``page`` with what stands between the marks of a table exchanged."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    return page[: page.index(start) + len(start)] + text + page[page.index(end) :]


def parts() -> list[tuple[str, ...]]:
    """Parts of operations that may run natively: where they are declared, their kernels, their work, and from how much of it on."""
    for late in ("nn.utils.clip_grad", "optim._arrays"):
        importlib.import_module(f"flambeau.{late}")
    list(entries())  # families that are imported late declare some
    rows = []
    for part in native.parts:
        reference = part.reference
        where = f"`{reference.__module__.removeprefix('flambeau.')}.{reference.__name__}`"
        first = reference.__code__.co_varnames[0]
        kernel = "made of its expression" if part.name is None else f"`{part.name}`"
        work = f"`{part.work or f'{first}.size'}`" + (", all calls together" if part.budget else "")
        rows.append((where, kernel, work, f"{part.threshold:,}"))
    return sorted(rows)


TABLES = {"kernels.md": kernels, "operations.md": operations, "compatibility.md": compatibility}


def main() -> None:
    if importlib.util.find_spec("torch"):
        NAMES.write_text(json.dumps(read_oracle(), indent=1) + "\n")
    kernel_index.main()
    stubs.main()
    for name, make in TABLES.items():
        path = ROOT / "docs" / name
        text = make()
        changed = not path.exists() or path.read_text() != text
        path.write_text(text)
        print(f"docs/{name}: {'written' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
