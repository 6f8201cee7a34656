"""Run an ordinary PyTorch program on flambeau: ``python -m flambeau script.py args...``.

A finder at the head of ``sys.meta_path`` resolves ``torch`` and ``torchvision`` and everything below them to flambeau's own module
objects, so that ``import torch.nn as nn``, ``from torch.nn import functional`` and ``importlib.import_module("torch.utils.data")`` all give
the module that ``import flambeau`` gives: ``torch.nn is flambeau.nn``. Nothing outside the process is touched.

In a program of one's own::

    import flambeau.runner

    flambeau.runner.install()  # from here on `import torch` means flambeau
    with flambeau.runner.install():  # or: only inside the block
        import somebodys_model

``importlib.metadata`` finds both too. In processes that the program starts, the names mean flambeau as well. Those of ``multiprocessing``
get it by their command line, others by ``PYTHONPATH``, to which the folder ``shim`` is added. ``distribution`` writes the same into an
environment permanently.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn

from ..facades.modules import ELSEWHERE

__all__ = ["install", "main", "Installation"]

PACKAGE = __name__.partition(".")[0]
DISTRIBUTIONS = ("torch", "torchvision")
ALIASES = {"torch": PACKAGE, "torchvision": f"{PACKAGE}.vision", "functorch": f"{PACKAGE}.facades.functorch"}
RENAMED: dict[type, str] = {}  # types whose ``__module__`` is an aliased one, and their former ``__module__``

USAGE = """usage: python -m flambeau script.py [argument ...]
       python -m flambeau -m package.module [argument ...]
       python -m flambeau -c code [argument ...]
       python -m flambeau alias --install | --remove | --status
       python -m flambeau info

Runs an ordinary PyTorch program with flambeau in PyTorch's place; puts flambeau into the environment under PyTorch's name; says
what this installation has."""


def real_name(name: str) -> str | None:
    """The flambeau module that ``name`` stands for; None when it is not below an aliased package."""
    top, dot, rest = name.partition(".")
    target = ALIASES.get(top)
    if target == PACKAGE and rest in ELSEWHERE:
        return f"{PACKAGE}.{ELSEWHERE[rest]}"
    return None if target is None else target + dot + rest


def find_real(name: str) -> ModuleSpec | None:
    """The spec of flambeau's module ``name``; None when flambeau lacks it. A dependency that is missing still raises."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded.__spec__
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # A parent that is missing or no package means "lacks it"; any other name is an import inside flambeau that failed.
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise


class AliasLoader(Loader):
    """Hands out flambeau's module under its alias; source and code come from the module's own loader (``-m``, ``inspect``)."""

    def __init__(self, spec: ModuleSpec) -> None:
        self.real = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real.name)
        # The import system overwrites __spec__ of whatever is returned here; exec_module gives it back.
        self.kept = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__spec__.name  # type: ignore[union-attr]
        module.__spec__ = self.kept
        if alias == "torch":
            rename_tensors(module)
        # A submodule under the name of a function of its package: importing it under its alias must not put it in the function's place.
        for name, submodule in list(sys.modules.items()):
            parent, _, child = name.rpartition(".")
            if parent == self.real.name and vars(module).get(child, submodule) is not submodule:
                sys.modules[f"{alias}.{child}"] = submodule

    def is_package(self, name: str) -> bool:
        return self.real.submodule_search_locations is not None

    def get_code(self, name: str) -> CodeType | None:
        return self.real.loader.get_code(self.real.name)  # type: ignore[union-attr]

    def get_source(self, name: str) -> str | None:
        return self.real.loader.get_source(self.real.name)  # type: ignore[union-attr]


class AliasFinder(MetaPathFinder):
    """Finds ``torch`` and its submodules in flambeau."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        real = real_name(name)
        if real is None:
            return None
        spec = find_real(real)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}: flambeau stands in for PyTorch here and has no {real!r}", name=name)
        alias = ModuleSpec(name, AliasLoader(spec), origin=spec.origin)
        alias.submodule_search_locations = spec.submodule_search_locations
        alias.has_location = spec.has_location
        return alias

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Distributions of torch and torchvision for ``importlib.metadata``."""
        asked = getattr(context, "name", None)
        for name in DISTRIBUTIONS if asked is None else {asked.lower()} & set(DISTRIBUTIONS):
            from .distribution import AliasDistribution

            yield AliasDistribution(name)


class Installation:
    """Handle that :func:`install` returns: ends the aliasing with ``uninstall()`` or at the end of a ``with`` block."""

    def __init__(self) -> None:
        self._finder: AliasFinder | None = None
        self._displaced: dict[str, ModuleType] = {}

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.uninstall()

    def uninstall(self) -> None:
        """End the aliasing and put back the modules that were imported as ``torch`` before. A second call does nothing."""
        if self._finder is None:
            return
        sys.meta_path.remove(self._finder)
        self._finder = None
        take_aliases()
        sys.modules.update(self._displaced)
        self._displaced = {}
        unname_tensors()
        unhook_find_spec()
        unhook_children()
        hide_shim()


def rename_tensors(module: ModuleType) -> None:
    """Give the package and the types of tensors and parameters PyTorch's names.

    Packages compare ``torch.__name__`` with "torch", and look for "torch" in ``str(type(x))``.
    """
    for cls, name in ((module.Tensor, "torch"), (module.nn.Parameter, "torch.nn.parameter")):
        RENAMED.setdefault(cls, cls.__module__)
        cls.__module__ = name
    module.__name__ = "torch"  # last: submodules are imported by the package's own name


def unname_tensors() -> None:
    """Undo :func:`rename_tensors`."""
    sys.modules["flambeau"].__name__ = "flambeau"
    while RENAMED:
        kind, name = RENAMED.popitem()
        kind.__module__ = name


def take_aliases() -> dict[str, ModuleType]:
    """Remove and return what ``sys.modules`` holds under the aliased names."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in ALIASES}


def install() -> Installation:
    """Make ``import torch`` mean flambeau in this process, in every import form, and in the processes that ``multiprocessing`` starts.

    Modules of real PyTorch that were imported before are set aside until ``uninstall``; objects made from them stay what they are.

    Returns:
        The installation, usable as a context manager. Where the aliasing is already on, it is left as it is, and the
        returned installation ends nothing.
    """
    installation = Installation()
    if any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        return installation
    installation._displaced = take_aliases()
    installation._finder = AliasFinder()
    sys.meta_path.insert(0, installation._finder)
    hook_find_spec()
    hook_children()
    show_shim()
    return installation


# ``importlib.util.find_spec`` returns None for a module that does not exist. The finder cannot return None: the next finder would be tried,
# and might find PyTorch's module.
def hook_find_spec() -> None:
    """Have ``find_spec`` deny what flambeau does not have."""
    original = importlib.util.find_spec

    @functools.wraps(original)
    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        try:
            return original(name, package)
        except ModuleNotFoundError as error:
            if error.name is None or real_name(error.name) is None or importlib.util.resolve_name(name, package) != error.name:
                raise
            return None

    importlib.util.find_spec = find_spec


def unhook_find_spec() -> None:
    """Undo :func:`hook_find_spec`."""
    importlib.util.find_spec = getattr(importlib.util.find_spec, "__wrapped__", importlib.util.find_spec)


# multiprocessing's spawned children run the main script again, from a fresh interpreter without the aliasing. Their command
# line is the one place where it can be switched on before that script is read; the fork server imports a list of modules instead.
CHILD = "flambeau.runner.aliased"


def hook_children() -> None:
    """Switch the aliasing on in the children of ``multiprocessing``'s spawn and forkserver methods."""
    from multiprocessing import spawn

    original = spawn.get_command_line
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def get_command_line(**arguments: Any) -> list[str]:
        command = list(original(**arguments))
        if "-c" in command:
            program = command.index("-c") + 1
            # Behind what the child finds by itself: this is for a checkout that is not installed.
            command[program] = f"import sys; sys.path.append({root!r}); import {CHILD}; sys.path.remove({root!r}); {command[program]}"
        return command

    get_command_line.original = original  # type: ignore[attr-defined]
    spawn.get_command_line = get_command_line
    set_forkserver_preload([CHILD, "__main__"])


def unhook_children() -> None:
    """Undo :func:`hook_children`."""
    from multiprocessing import spawn

    spawn.get_command_line = getattr(spawn.get_command_line, "original", spawn.get_command_line)
    set_forkserver_preload(["__main__"])


SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")


def show_shim() -> None:
    """Have every Python that this process starts find the shim first."""
    given = os.environ.get("PYTHONPATH")
    folders = given.split(os.pathsep) if given else []
    if SHIM not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([SHIM, *folders])


def hide_shim() -> None:
    """Undo :func:`show_shim`; what the program itself added stays."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if SHIM in folders:
        folders.remove(SHIM)
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    else:
        os.environ.pop("PYTHONPATH", None)


def set_forkserver_preload(names: list[str]) -> None:
    """Tell the fork server, where the system has one, what to import first."""
    try:
        from multiprocessing.forkserver import set_forkserver_preload as preload
    except ImportError:  # Windows
        return
    preload(names)


def main(arguments: list[str] | None = None) -> None:
    """The command line of ``python -m flambeau``: run a program as ``python`` would, with ``torch`` meaning flambeau.

    Args:
        arguments: the command line without the program name; ``sys.argv[1:]`` when None.
    Raises:
        SystemExit: as the program does, or with status 1 or 2 when there is no program to run.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if words else sys.stderr)
        raise SystemExit(0 if words else 2)
    if words[0] in ("alias", "info"):  # a script of that name is ./alias
        run_tool(words[0], words[1:])
        return
    option = words[0][:2]
    if option not in ("-m", "-c"):
        if option.startswith("-") and words[0] != "-":
            fail(f"unknown option {words[0]}\n{USAGE}")
        install()
        run_script(words[0], words)
        return
    # As for python itself, the value may be glued to the option: -mpackage.module
    value, rest = (words[0][2:], words[1:]) if len(words[0]) > 2 else (words[1] if len(words) > 1 else None, words[2:])
    if value is None:
        fail(f"argument expected for the {option} option\n{USAGE}")
    install()
    if option == "-m":
        run_module(value, rest)
    else:
        run_command(value, rest)


def run_tool(name: str, rest: list[str]) -> None:
    """``alias`` and ``info``."""
    if name == "alias":
        from .distribution import main as alias

        alias(rest)
        return
    if rest:
        fail(f"info takes no arguments\n{USAGE}")
    from .info import main as info

    info()


def fail(message: str, status: int = 2) -> NoReturn:
    """Say why there is nothing to run, in the manner of ``python``, and exit."""
    print(f"{sys.executable} -m {PACKAGE}: {message}", file=sys.stderr)
    raise SystemExit(status)


def run_script(path: str, argv: list[str]) -> None:
    """``python path ...``; a folder or an archive with a ``__main__`` module works as well, and ``-`` reads standard input."""
    if path == "-":
        set_path("")
        run(compile_program(sys.stdin.read().encode(), "<stdin>"), new_main(), argv)
        return
    full = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    spec = PathFinder.find_spec("__main__", [full])  # None for an ordinary file
    if spec is not None:
        set_path(full)
        run_spec(spec, argv)
        return
    if os.path.isdir(full):
        fail(f"can't find '__main__' module in {full!r}", 1)
    try:
        with io.open_code(full) as stream:
            source = stream.read()
    except OSError as error:
        fail(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}")
    set_path(os.path.dirname(os.path.realpath(full)))
    module = new_main(__file__=full, __cached__=None, __loader__=SourceFileLoader("__main__", full))
    run(compile_program(source, full), module, argv)


def run_module(name: str, rest: list[str]) -> None:
    """``python -m name ...``."""
    set_path(os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not (name + ".").startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        fail(f"No module named {name}", 1)
    run_spec(spec, [spec.origin or name, *rest])


def run_spec(spec: ModuleSpec, argv: list[str]) -> None:
    """Execute the module that ``spec`` found as ``__main__``."""
    code = None if spec.loader is None else spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if code is None:
        fail(f"No code object available for {spec.name}", 1)
    module = new_main(__file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader, __package__=spec.parent, __spec__=spec)
    run(code, module, argv)


def run_command(source: str, rest: list[str]) -> None:
    """``python -c source ...``."""
    set_path("")
    run(compile_program(source.encode(), "<string>"), new_main(), ["-c", *rest])


def set_path(folder: str) -> None:
    """Put ``folder`` where ``python -m flambeau`` put the current one; with ``python -P`` there is no such entry."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def new_main(**attributes: Any) -> ModuleType:
    """A fresh ``__main__`` module that stays in ``sys.modules``: exit handlers, threads and pickles look there for it."""
    module = ModuleType("__main__")
    module.__dict__.update({"__builtins__": __builtins__, "__annotations__": {}, "__package__": None, **attributes})
    sys.modules["__main__"] = module
    if "__mp_main__" in sys.modules:  # what children of multiprocessing call it, noted there when that was imported
        sys.modules["__mp_main__"] = module
    return module


def compile_program(source: bytes, filename: str) -> CodeType:
    """Compiled source; a syntax error is shown without a traceback, as ``python`` does."""
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        show_from(error, None)
        raise


def run(code: CodeType, module: ModuleType, argv: list[str]) -> None:
    """Execute ``code`` as ``__main__``. Exceptions travel on to the interpreter, which prints them and sets the exit status."""
    sys.argv = list(argv)
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        trace = error.__traceback__
        show_from(error, trace.tb_next if trace is not None else None)
        raise


def show_from(error: BaseException, trace: TracebackType | None) -> None:
    """Let the interpreter's report of ``error`` start at ``trace``: the frames of the runner would only puzzle."""
    report = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, full: TracebackType | None) -> None:
        if value is error:
            full = value.__traceback__ = trace
        report(kind, value, full)

    sys.excepthook = excepthook
