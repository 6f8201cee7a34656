"""Modules whose ``forward`` is a graph's code. Source: torch.fx.graph_module."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..core.tensor import Parameter, Tensor
from ..nn import Module
from ..serialization import save
from ._library import NAME, library
from .graph import ALWAYS, CodeGen, Graph, PythonCode, PyTreeCodeGen
from .node import qualified_name

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()


def _made(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names that generated code defines; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_numbers)}"
    scope = {**names, "__name__": __name__}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec", dont_inherit=True), scope)  # annotations are values, as in a file of its own
    return scope


def _import_lines(names: dict[str, Any]) -> str:
    """Statements that import what generated code names."""
    lines = []
    for name, value in names.items():
        if name == "torch" or value is library:
            lines.append("import flambeau as torch")
        elif name in ALWAYS and ALWAYS[name] is value:
            lines.append(_ALWAYS_IMPORTED[name])
        elif isinstance(value, str):  # an annotation
            lines.append(f"{name} = {value!r}")
        elif isinstance(value, types.ModuleType):
            lines.append(f"import {value.__name__} as {name}")
        else:
            module, _, attribute = qualified_name(value).rpartition(".")
            outer, dot, inner = module.partition(".")
            module = {"torch": "flambeau", "torchvision": "flambeau.vision", "": "builtins"}.get(outer, outer) + dot + inner
            lines.append(f"from {module} import {attribute} as {name}")
    return "\n".join(dict.fromkeys(lines))


_ALWAYS_IMPORTED = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "torch": "import flambeau as torch",
    "device": "from flambeau import device",
    "fx_pytree": "import flambeau.fx._pytree as fx_pytree",
    "pytree": "import flambeau.utils._pytree as pytree",
}


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> Module:
    """The module that a pickle describes: its code runs on proxies, which makes the graph again.

    Args:
        body: the attributes, ``_code`` among them. import_block: statements that import what the code names; PyTorch's names are ours.
    Returns:
        The ``GraphModule``.
    Source: torch.fx.graph_module.reduce_graph_module.
    Example:
        >>> body = {**vars(torch.nn.Module()), "_code": "def forward(self, x): return x + 1"}
        >>> torch.fx.graph_module.reduce_graph_module(body, "")(torch.ones(1))
        tensor([2.])
    """
    source = body.get("_code") or body["code"]
    imports = re.sub(r"(?m)^import torch$", f"import {NAME} as torch", import_block)
    imports = re.sub(r"(?m)^(import|from) torch(?=[. ])", rf"\1 {NAME}", imports)
    scope = _made(f"{imports}\n{source}", {"torch": library})
    return _traced_again(scope["forward"], body)


def _traced_again(forward: Callable[..., Any], body: dict[Any, Any]) -> GraphModule:
    class Again(Module):
        def __init__(self, members: dict[Any, Any]) -> None:
            super().__init__()
            self.__dict__ = members

    Again.forward = forward  # type: ignore[method-assign]
    root = Again({key: value for key, value in body.items() if key not in ("_graphmodule_cls_name", "_pytree_info")})
    cls = body.get("_tracer_cls") or library.fx.Tracer

    class KeepModules(cls):  # type: ignore[valid-type,misc]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True  # what was one node is one again

    graph = KeepModules(**(body.get("_tracer_extras") or {})).trace(root)
    graph._tracer_cls = body.get("_tracer_cls")
    if "_pytree_info" in body:
        graph.set_codegen(PyTreeCodeGen(body["_pytree_info"]))
    module = GraphModule(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in root.__dict__.items():
        if not hasattr(module, name):
            module.__dict__[name] = value
    return module


def _copy_path(source: Module, target: Module, path: str) -> None:
    """Give ``target`` what ``source`` has at a path, in modules without more."""
    *outer, name = path.split(".")
    for part in outer:
        inner = getattr(source, part)
        if not hasattr(target, part):
            setattr(target, part, Module())
        source, target = inner, getattr(target, part)
    value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


def _assign_path(value: Any, target: Module, path: str) -> None:
    *outer, name = path.split(".")
    for part in outer:
        if not hasattr(target, part):
            setattr(target, part, Module())
        target = getattr(target, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


class GraphModule(Module):
    """A module whose ``forward`` is made of a graph; assigning ``graph``, or ``recompile()`` after a change of it, makes it anew.

    Args:
        root: a module that has what the graph's targets name, which are taken from it; or a dict of them by path.
        graph: the graph.
        class_name: of the class that it is an instance of.
    Attributes:
        graph: the graph. code: the text of ``forward``. meta: what passes note about the whole.
    Raises:
        RuntimeError: another ``root``, or a dict without something that the graph names.
        AttributeError: a module without something that the graph names.
    Source: torch.fx.GraphModule.
    Example:
        >>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> module(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        for each in cls.__mro__:  # the class of each is its own, since it has a forward of its own
            if each.__qualname__.rpartition(".")[2] != "GraphModuleImpl":
                cls = each
                break

        class GraphModuleImpl(cls):  # type: ignore[valid-type,misc]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        named = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for path in dict.fromkeys(named):
                _copy_path(root, self, path)
        elif isinstance(root, dict):
            for path in dict.fromkeys(named):
                if path not in root:
                    node = next(each for each in graph.nodes if each.target == path)
                    raise RuntimeError(f"Node {node} referenced target {path} but that target was not provided in ``root``!")
            for path in sorted(dict.fromkeys(named), key=lambda path: path.count(".")):
                _assign_path(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        for kind in ("replace", "create_node", "erase_node", "deepcopy"):
            self.__dict__[f"_{kind}_hooks"] = []

    __jit_unused_properties__ = ("graph",)

    @property
    def graph(self) -> Graph:
        """The graph; assigning one makes a copy of it if another module owns it, and makes ``forward`` anew."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of ``forward``.

        Raises:
            RuntimeError: there is none yet.
        """
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Make ``forward`` anew of the graph; to be called after changes of it. Source: torch.fx.GraphModule.recompile."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        cls = type(self)
        cls.forward = _made(self._code, made.globals)[codegen._func_name]  # type: ignore[method-assign]
        plain = vars(cls).get("__call__")

        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return super(cls, module).__call__(*args, **kwargs) if plain is None else plain(module, *args, **kwargs)
            except Exception as error:
                _note_place(error)
                raise

        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = True  # type: ignore[attr-defined]
            cls.__call__ = called  # type: ignore[assignment,method-assign]
        return made

    # ---- copies
    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        members = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        holder = Module()
        holder.__dict__ = copy.deepcopy(members, memo)
        copied = GraphModule.__new__(type(self))
        memo[id(self)] = copied
        Module.__init__(copied)
        GraphModule.__init__(copied, holder, copy.deepcopy(self._graph))
        for name, value in holder.__dict__.items():
            if name in ("_parameters", "_buffers", "_modules"):
                for key, member in value.items():
                    copied.__dict__[name].setdefault(key, member)
            elif name not in ("_code",):
                copied.__dict__[name] = value
        copied.meta = copy.copy(self.meta)
        for hook in self.__dict__.get("_deepcopy_hooks", ()):
            hook(copied)
        return copied

    def __copy__(self) -> GraphModule:
        copied = GraphModule(self, self.graph)
        copied.meta = self.meta
        return copied

    def __reduce__(self) -> Any:
        left = {"_graph", "_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks"}
        members = {key: value for key, value in self.__dict__.items() if key not in left}
        members["_graphmodule_cls_name"] = self.__class__.__name__
        graph = self._graph
        if isinstance(graph._codegen, PyTreeCodeGen):  # the code is to run on proxies of leaves
            members["_pytree_info"] = graph._codegen.pytree_info
            graph = copy.deepcopy(graph)
            graph.set_codegen(CodeGen())
        made = graph.python_code(root_module="self")
        return _from_pickle, (members, made.src, {name: value for name, value in made.globals.items() if name not in ALWAYS})

    # ---- parts
    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, in modules without more; whether nothing else stands on the way.

        Source: torch.fx.GraphModule.add_submodule.
        """
        *outer, name = target.split(".")
        module: Module = self
        for part in outer:
            if not hasattr(module, part):
                setattr(module, part, Module())
            module = getattr(module, part)
            if not isinstance(module, Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module at a path; whether there is one. Source: torch.fx.GraphModule.delete_submodule."""
        *outer, name = target.split(".")
        module: Any = self
        for part in outer:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that no node calls or reads of. Source: torch.fx.GraphModule.delete_all_unused_submodules."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                path = str(node.target).split(".")
                used |= {".".join(path[:i]) for i in range(1, len(path) + 1)}
                if node.op == "call_module":  # with all that is in it
                    used |= {name for name, _ in self.named_modules() if name.startswith(f"{node.target}.")}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package: its code as a class, its parts and tensors beside it.

        Args:
            folder: where; made if need be. module_name: of the class.
        Source: torch.fx.GraphModule.to_folder.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save(self.state_dict(), folder / "state_dict.pt")
        lines = ["super().__init__()"]
        for name, child in self.named_children():
            save(child, folder / f"{name}.pt")
            lines.append(f"self.add_module({name!r}, torch.load(r'{folder / name}.pt', weights_only=False))  # {type(child).__name__}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                lines.append(f"self.register_buffer('{name}', torch.empty({list(buffer.shape)}, dtype={buffer.dtype}))")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                lines.append(f"self.{name} = torch.nn.Parameter(torch.empty({list(parameter.shape)}, dtype={parameter.dtype}))")
        lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
        made = self.graph.python_code("self")
        body = "\n".join(f"        {line}" for line in lines)
        code = "\n".join(f"    {line}" if line.strip() else "" for line in made.src.splitlines())
        text = f"import flambeau as torch\n{_import_lines(made.globals)}\n\n\nclass {module_name}(torch.nn.Module):\n"
        (folder / "module.py").write_text(f"{text}    def __init__(self):\n{body}\n{code}\n")
        (folder / "__init__.py").write_text("from .module import *\n")

    # ---- as text
    def __str__(self) -> str:
        return f"{super().__str__()}\n{self._code}\n# To see more debug info, please use `graph_module.print_readable()`"

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False, **options: Any) -> str:
        """The module and the graph modules in it as the text of classes.

        Args:
            print_output: whether it is printed, too.
            include_stride, include_device, options: of ``Graph.python_code``.
        Source: torch.fx.GraphModule.print_readable.
        """
        text = _readable(self, self._get_name(), include_stride=include_stride, include_device=include_device, **options)
        if print_output:
            print(text)
        return text

    def _replicate_for_data_parallel(self) -> GraphModule:
        copied = copy.copy(self)
        copied.__dict__["_is_replica"] = True
        return copied

    # ---- hooks
    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


def _hook_methods(kind: str, attribute: str) -> tuple[Callable[..., None], Callable[..., None]]:
    def register(self: GraphModule, f: Callable[..., Any]) -> None:
        if not callable(f):
            raise AssertionError(f"{kind} hook must be a callable.")
        self.__dict__[attribute].append(f)

    def unregister(self: GraphModule, f: Callable[..., Any]) -> None:
        if f not in self.__dict__[attribute]:
            raise AssertionError(f"the {kind} hook was not registered")
        self.__dict__[attribute].remove(f)

    return register, unregister


for _kind, _attribute in (
    ("replace_node", "_replace_hooks"),
    ("create_node", "_create_node_hooks"),
    ("erase_node", "_erase_node_hooks"),
    ("deepcopy", "_deepcopy_hooks"),
):
    _register, _unregister = _hook_methods(_kind, _attribute)
    setattr(GraphModule, f"_register_{_kind}_hook", _register)
    setattr(GraphModule, f"_unregister_{_kind}_hook", _unregister)


def _from_pickle(members: dict[str, Any], source: str, names: dict[str, Any]) -> GraphModule:
    """The module that a pickle describes: its code runs on proxies, which makes the graph again."""
    return _traced_again(_made(source, {**ALWAYS, **names})["forward"], members)


def _readable(module: Module, name: str, **options: Any) -> str:
    graph = getattr(module, "graph", None)
    if not isinstance(graph, Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = graph.python_code(root_module="self", verbose=True, **options).src.lstrip("\n")
    text = f"class {name}(torch.nn.Module):\n" + _indented(code)
    inner = [_readable(child, key, **options) for key, child in module.named_children() if isinstance(getattr(child, "graph", None), Graph)]
    return "\n".join([text, *(_indented(each) for each in inner)]) if inner else text


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line.strip() else "" for line in text.split("\n"))


def _note_place(error: Exception) -> None:
    """Print the lines of generated code in which a call failed, marked, as programs know it from PyTorch."""
    found = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("<eval_with_key>")]
    if not found:
        return
    frame = found[-1]
    lines = linecache.getlines(frame.filename)
    at = frame.lineno or 0
    before = "".join(lines[max(at - 5, 0) : at])
    after = "".join(lines[at : at + 2])
    place = f"line {at} of the traced Module's generated forward function"
    print(f"Call using an FX-traced Module, {place}:\n{before}\n    ~~~~ <--- HERE\n{after}", file=sys.stderr)
