"""Code of a trace: a class for each module, with a method for each call of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..serialization.homes import spelling
from ._recorder import PAIR, Frame, Listed, Recorder, Step, Value
from ._unit import Unit


def values_of(part: Any) -> Iterator[Value]:
    """The values in an argument."""
    if isinstance(part, Value):
        yield part
    elif isinstance(part, Listed):
        for item in part.parts:
            yield from values_of(item)


def _used(step: Step) -> Iterator[Value]:
    for part in (*step.args, *step.kwargs.values()):
        yield from values_of(part)


def prune(frame: Frame, needed: set[int]) -> None:
    """Leave out steps whose results nobody needs, the last first."""
    kept = []
    for step in reversed(frame.steps):
        if isinstance(step, Frame):
            needed.update(id(value) for value in step.results)
            prune(step, needed)
            if step.steps:
                kept.append(step)
        elif not step.pure or any(id(value) in needed for value in step.outs):
            needed.update(id(value) for value in _used(step))
            kept.append(step)
    frame.steps = kept[::-1]


def local_path(value: Value, frame: Frame) -> str | None:
    """The path of an attribute below a frame's module; None where it is not there."""
    prefix = f"{frame.path}." if frame.path else ""
    return next((path.removeprefix(prefix) for path in value.paths if path.startswith(prefix)), None)


def connect(frame: Frame) -> None:
    """Find what each frame takes from outside and gives to it."""
    inner = [step for step in frame.steps if isinstance(step, Frame)]
    for step in inner:
        connect(step)

    def use(value: Value, where: Frame) -> None:
        outside = local_path(value, where) is None if value.frame is None else not value.frame.within(where)
        if outside and where.outer is not None and value not in where.uses:
            where.uses.append(value)
        if value.frame is not None:
            source = value.frame
            while source is not where and source.within(where) and source.outer is not None:
                if value not in source.gives:
                    source.gives.append(value)
                source = source.outer

    for step in frame.steps:
        for value in step.uses if isinstance(step, Frame) else _used(step):
            use(value, frame)
    for value in frame.results:
        if value.frame is not None and value.frame.within(frame):
            use(value, frame)
            if frame.outer is not None and value not in frame.gives:
                frame.gives.append(value)


def attribute(path: str) -> str:
    """``self.a.b``, with ``getattr`` for names that are numbers."""
    text = "self"
    for name in path.split(".") if path else ():
        text = f"{text}.{name}" if name.isidentifier() else f'getattr({text}, "{name}")'
    return text


class Writer:
    """Writes a frame as a function."""

    def __init__(self, frame: Frame, names: list[tuple[Value, str]]) -> None:
        self.frame = frame
        self.names: dict[int, str] = {id(value): name for value, name in names}
        self.lines: list[str] = []
        self._count = 0

    def name(self, value: Value) -> str:
        """The name of a value; an attribute is read where it is used."""
        known = self.names.get(id(value))
        if known is not None:
            return known
        path = local_path(value, self.frame) if value.frame is None else None
        if path is None:
            raise RuntimeError("torch.jit.trace: a value is used outside of the module that it was made in")
        return attribute(path)

    def fresh(self, value: Value) -> str:
        """A name for a new value."""
        name = self.names[id(value)] = f"_{self._count}"
        self._count += 1
        return name

    def text(self, part: Any) -> str:
        """An argument."""
        if isinstance(part, Value):
            return self.name(part)
        if isinstance(part, Listed):
            texts = [self.text(item) for item in part.parts]
            return part.form.format(*texts) if part.form is PAIR else part.form.format(", ".join(texts))
        return str(part)

    def step(self, step: Any) -> None:
        """One line."""
        if isinstance(step, Frame):
            target = f"({attribute(_below(step.path, self.frame.path))}).{step.method}"
            arguments = [self.name(value) for value in step.uses]
            outs, is_list = step.gives, len(step.gives) > 1
        else:
            target, outs, is_list = step.target, step.outs, step.is_list
            arguments = [self.text(part) for part in step.args]
            arguments += [f"{name}={self.text(part)}" for name, part in step.kwargs.items()]
        names = [self.fresh(value) for value in outs] or [f"_{self._count}"]
        self._count += not outs
        self.lines.append(f"{', '.join(names)}{',' if is_list else ''} = {target}({', '.join(arguments)})")


def _below(path: str, prefix: str) -> str:
    return path.removeprefix(f"{prefix}.") if prefix else path


def function(name: str, self_type: str, arguments: list[tuple[str, str]], lines: list[str], result: str, kind: str, indent: str) -> str:
    """Text of a function of a trace."""
    parts = [f"self: {self_type}"] if self_type else []
    parts += [f"{argument}: {of}" for argument, of in arguments]
    head = f"{indent}def {name}({f',{chr(10)}{indent}    '.join(parts)}) -> {kind}:\n"
    return head + "".join([f"{indent}  {line}\n" for line in [*lines, f"return {result}"]])


# -- classes of modules -----------------------------------------------------------------------------------------------------------------
def qualified(module: Any) -> str:
    """Name of a module's class in an archive: where PyTorch has it, for what PyTorch has."""
    cls = type(module)
    if hasattr(module, "_script_type"):
        return str(module._script_type.name)
    home, name = spelling(cls) or (cls.__module__, cls.__qualname__)
    parts = [] if home == "__main__" else [part for part in home.split(".") if part.isidentifier()]
    return ".".join(["__torch__", *parts, name.rpartition(".")[2].replace("<", "_").replace(">", "_")])


class Classes:
    """Writes the class of each module of a trace, and makes the module that stands for it."""

    def __init__(self, unit: Unit, recorders: list[tuple[str, Recorder]]) -> None:
        self.unit = unit
        self.frames: dict[str, list[Frame]] = {}
        for _, recorder in recorders:
            for frame in _all_frames(recorder.root):
                if frame.outer is not None:
                    self.frames.setdefault(frame.path, []).append(frame)
        for frames in self.frames.values():
            for count, frame in enumerate(frames):
                frame.method = f"forward{count or ''}"

    def write(self, module: Any, path: str, kinds: dict[str, str], methods: Any = None) -> str:
        """The class of a module, whose submodules' classes are given by name; what it is called."""

        def text(name: str) -> str:
            lines = [f"class {name.rpartition('.')[2]}(Module):\n", *members(module, kinds)]
            lines += methods(name) if methods else [self.method(frame, name) for frame in self.frames.get(path, ())]
            return "".join(lines)

        return self.unit.add_like(qualified(module), text)

    def method(self, frame: Frame, self_type: str) -> str:
        """A method for one call of a module."""
        names = [(value, f"argument_{k}") for k, value in enumerate(frame.uses, 1)]
        writer = Writer(frame, names)
        for step in frame.steps:
            writer.step(step)
        gives = [writer.name(value) for value in frame.gives]
        kinds = [value.kind for value in frame.gives]
        result = gives[0] if len(gives) == 1 else f"({', '.join(gives)})" if gives else "None"
        kind = kinds[0] if len(kinds) == 1 else f"Tuple[{', '.join(kinds)}]" if kinds else "NoneType"
        arguments = [(name, value.kind) for value, name in names]
        return function(frame.method, self_type, arguments, writer.lines, result, kind, "  ")


def _all_frames(frame: Frame) -> Iterator[Frame]:
    yield frame
    for step in frame.steps:
        if isinstance(step, Frame):
            yield from _all_frames(step)


def field_line(name: str, kind: str) -> str:
    """The line of a class that gives an attribute its type."""
    return f"  {name} : {kind}\n" if name.isidentifier() else f'  __annotations__["{name}"] = {kind}\n'


def members(module: Any, kinds: dict[str, str]) -> Iterator[str]:
    """The lines of a class that say what its instances have."""
    for word, registry in (("parameters", module._parameters), ("buffers", module._buffers)):
        listed = "".join([f'"{name}", ' for name in registry])
        yield f"  __{word}__ = [{listed}]\n"
    for registry in (module._parameters, module._buffers):
        for name, tensor in registry.items():
            yield field_line(name, "NoneType" if tensor is None else "Tensor")
    yield "  training : bool\n"
    for name, kind in kinds.items():
        yield field_line(name, kind)
