"""Calls of modules while a program is exported: which modules a node is within, and what went in and came out of some of them.

    self.layers[0](x)       meta["nn_module_stack"] of every node meanwhile: {key: (path, class)} for the outermost module, ..., this one
    the second time         its key ends in "@1", the third time in "@2"

A module that has several paths is called by the one that the program took to it: reads of its owners' modules are noted.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from ..core.symbolic import SymbolicFloat, SymbolicInt
from ..core.tensor import Tensor
from ..fx.node import Node
from ..fx.proxy import _is_ours
from ..nn import Module
from ..nn._seen_calls import calls_seen
from ..serialization.homes import spelling
from ..utils._pytree import tree_flatten
from .exported_program import ModuleCallEntry, ModuleCallSignature
from .graph_signature import ConstantArgument, SymFloatArgument, SymIntArgument, TensorArgument

_CALL_LAYERS = f"{__name__.partition('.')[0]}.nn", f"{__name__.partition('.')[0]}.vision"
# What symbolic sizes of inputs are within, which nobody called for.
NO_MODULE = {"_empty_nn_module_stack_from_metadata_hook": ("_empty_nn_module_stack_from_metadata_hook",) * 2}


def class_name(module: Module) -> str:
    """A module's class, with PyTorch's name for the file where it is one of the library's."""
    kind = type(module)
    return ".".join(spelling(kind) or (kind.__module__, kind.__qualname__))


def argument_of(node: Any, value: Any) -> Any:
    """An argument or a result, as signatures have it."""
    if isinstance(value, Tensor):
        return TensorArgument(node.name)
    if isinstance(value, SymbolicInt):
        return SymIntArgument(node.name)
    if isinstance(value, SymbolicFloat):
        return SymFloatArgument(node.name)
    return ConstantArgument(node.name if isinstance(node, Node) else "", value)


class ModuleCalls:
    """The modules that are being called.

    Args:
        root: the module that is exported. preserved: paths of modules whose calls' signatures are kept.
        argument: gives the node of a value.
    Attributes:
        stack: the modules around what runs now. signatures: of the calls of preserved modules, by path and number of the call.
    """

    def __init__(self, root: Module, preserved: tuple[str, ...], argument: Callable[[Any], Any]):
        self.root, self.argument = root, argument
        self.preserved = frozenset(preserved)
        self.paths = _paths(root)
        self.counts: dict[str, int] = {}
        self.stack: dict[str, tuple[str, str]] = {}
        self.signatures: dict[str, ModuleCallSignature] = {}
        self.outermost: FrameType | None = None
        self.functions: dict[str, int] = {}
        self.function: tuple[str, str] | None = None

    # ---- calls
    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Context in which calls of the module and what is in it are noted."""

        def see(module: Module, call: Any, args: Any, kwargs: Any) -> Any:
            paths = self.paths.get(id(module))
            return call(module, *args, **kwargs) if paths is None else self.call(module, paths[-1], call, args, kwargs)

        with calls_seen(see), _reads_noted(self.root, self.paths):
            yield

    def call(self, module: Module, path: str, call: Any, args: Any, kwargs: Any) -> Any:
        number = self.counts.get(path, 0)
        self.counts[path] = number + 1
        suffix = f"@{number}" if number else ""
        before = self.stack
        if not before:
            self.outermost = sys._getframe()
        self.stack = {**before, f"L__self__{path}{suffix}": (path, class_name(module))}
        try:
            if path not in self.preserved:
                return call(module, *args, **kwargs)
            inputs = tree_flatten((args, kwargs))
            given = [argument_of(self.argument(each), each) for each in inputs[0]]
            result = call(module, *args, **kwargs)
            self.keep(path, suffix, given, inputs[1], result)
            return result
        finally:
            self.stack = before

    def keep(self, path: str, suffix: str, given: list[Any], in_spec: Any, result: Any) -> None:
        """Keep the signature of a call.

        Raises:
            AssertionError: a call with another structure than those before.
        """
        results, out_spec = tree_flatten(result)
        first = self.signatures.get(path)
        for word, old, new in (("in", first and first.in_spec, in_spec), ("out", first and first.out_spec, out_spec)):
            if first is not None and old != new:
                raise AssertionError(f"{word}_spec mismatch for {path}: {old} != {new}")
        outputs = [argument_of(self.argument(each), each) for each in results]
        self.signatures[path + suffix] = ModuleCallSignature(given, outputs, in_spec, out_spec)

    # ---- notes
    def note(self, node: Node) -> None:
        """Note which modules a node is within, and the lines of the program that called it."""
        if self.stack:
            node.meta["nn_module_stack"] = dict(self.stack)
        lines = self.lines()
        if lines:
            node.meta["stack_trace"] = lines
        if self.function is not None:
            node.meta["torch_fn"] = self.function

    def function_called(self, op: Any, writes: bool) -> None:
        """Take note of the function that the next nodes are of, and of which call of it.

        Args:
            op: the operation. writes: whether it is its form in place.
        """
        name = op.name.lstrip("_") + ("_" if writes else "")
        self.functions[name] = self.functions.get(name, 0) + 1
        in_python = getattr(op, "namespace", "") == "nn.functional" and not op.compiled
        kind = "function" if in_python else "builtin_function_or_method" if op.compiled else "method_descriptor"
        self.function = f"{name}_{self.functions[name]}", f"{kind}.{name}"

    def lines(self) -> str:
        """The lines that are running, from ``forward`` of the module on: the program's, and those of layers."""
        frames: list[tuple[FrameType, int]] = []
        for frame, line in traceback.walk_stack(sys._getframe(1)):
            if frame is self.outermost:
                break
            if not _is_ours(frame) or _is_forward(frame):
                frames.append((frame, line))
        return "".join(reversed(traceback.StackSummary.extract(iter(frames), lookup_lines=True).format())).strip()

    # ---- what is kept of them
    def entries(self, signature: ModuleCallSignature) -> list[ModuleCallEntry]:
        """An entry for the program and for each module in it."""
        rest = dict(self.signatures)
        paths = [path for path, _ in self.root.named_modules(remove_duplicate=False) if path]
        found = [ModuleCallEntry("", signature), *[ModuleCallEntry(path, rest.pop(path, None)) for path in paths]]
        return [*found, *[ModuleCallEntry(path, each) for path, each in rest.items()]]


def _is_forward(frame: FrameType) -> bool:
    return frame.f_code.co_name == "forward" and str(frame.f_globals.get("__name__", "")).startswith(_CALL_LAYERS)


def _paths(root: Module) -> dict[int, list[str]]:
    """The paths of each module, by identity; the last one counts."""
    found: dict[int, list[str]] = {}
    for path, module in root.named_modules(remove_duplicate=False):
        found.setdefault(id(module), []).insert(0, path)
    return found


class _Noted(dict[str, Any]):
    """The modules of a module, which notes the path of each that is read."""

    def __init__(self, modules: Any, path: Callable[[], str], paths: dict[int, list[str]]):
        super().__init__(modules)
        self.path, self.paths = path, paths

    def note(self, name: str, module: Any) -> Any:
        if id(module) in self.paths:
            outer = self.path()
            self.paths[id(module)].append(f"{outer}.{name}" if outer else name)
        return module

    def __getitem__(self, name: str) -> Any:
        return self.note(name, super().__getitem__(name))

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return (self[name] for name in self)  # one by one, as they are called


@contextlib.contextmanager
def _reads_noted(root: Module, paths: dict[int, list[str]]) -> Iterator[None]:
    """Note the paths by which modules are reached, where some have several."""
    if all(len(each) == 1 for each in paths.values()):
        yield
        return
    changed = []
    for module in root.modules():
        if module._modules:
            changed.append((module, module._modules))
            module.__dict__["_modules"] = _Noted(module._modules, functools.partial(lambda known: known[-1], paths[id(module)]), paths)
    try:
        yield
    finally:
        for module, modules in changed:
            noted = module.__dict__["_modules"]
            modules.clear()  # the program may have set others
            modules.update(noted)
            module.__dict__["_modules"] = modules
