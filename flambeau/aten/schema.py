"""Schemas of operations as text: ``'ns::name.overload(Tensor(a!) x, int[2] size=1, *, float? scale=None) -> (Tensor, Tensor)'``.

    parse_schema   text to a ``FunctionSchema``, whose text is PyTorch's
    bind           a call's arguments in the schema's order, converted as PyTorch's dispatcher does

Source: torch._C.parse_schema, torch._C.FunctionSchema, torch._C.Argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.device import device
from ..core.dtype import dtype
from ..core.late import made_once
from ..core.layout import layout, memory_format
from ..core.random.generator import Generator
from ..core.tensor import Tensor

# What a schema calls a type -> what an argument's ``type`` is shown as.
_SHOWN = {
    "Scalar": "number",
    "number": "number",
    "SymInt": "int",
    "SymBool": "bool",
    "ScalarType": "int",
    "Layout": "int",
    "MemoryFormat": "int",
    "DeviceIndex": "int",
    "Dimname": "str",
    **{name: name for name in "Tensor int float bool complex str Device Generator Stream Storage QScheme Any NoneType t".split()},
}
_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16 quint4x2 "
    "quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"
).split()  # by PyTorch's numbers
_NAMED_DEFAULTS = {
    "long": 4,
    "half": 5,
    "float": 6,
    "double": 7,
    "complex_float": 9,
    "complex_double": 10,
    "bool": 11,
    "strided": 0,
    "Mean": 1,
}
_NAMED_DEFAULTS |= {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2}


class AliasInfo(NamedTuple):
    """Memory that an argument shares: ``(a!)`` names a set of tensors, and says that it is written to. Source: torch._C._AliasInfo."""

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str]

    def __str__(self) -> str:
        before = "|".join(sorted(self.before_set)) + "!" * self.is_write
        return f"({before} -> {'|'.join(sorted(self.after_set))})" if self.after_set != self.before_set else f"({before})"


class Type:
    """A type in a schema.

    Attributes:
        name: its name; ``List``, ``Optional``, ``Tuple`` or ``Dict`` for one made of others.
        parts: the types that it is made of. size: how long a list of fixed length is. alias: which memory it shares.
    """

    __slots__ = ("alias", "name", "parts", "size")

    def __init__(self, name: str, parts: Sequence[Type] = (), size: int | None = None, alias: AliasInfo | None = None):
        self.name, self.parts, self.size, self.alias = name, tuple(parts), size, alias

    def __str__(self) -> str:
        return self.shown(_SHOWN)

    __repr__ = __str__

    def shown(self, names: dict[str, str]) -> str:
        """As Python's annotations write it: ``Optional[List[int]]``."""
        if self.name in ("Optional", "List", "Dict", "Tuple"):
            return f"{self.name}[{', '.join(part.shown(names) for part in self.parts)}]"
        return names.get(self.name, self.name)

    def text(self) -> str:
        """As schemas write it: ``int[2]?``."""
        if self.name == "List":
            return f"{self.parts[0].text()}[{'' if self.size is None else self.size}]"
        if self.name == "Optional":
            return f"{self.parts[0].text()}?"
        if self.name == "Tuple":
            return f"({', '.join(part.text() for part in self.parts)})"
        if self.name == "Dict":
            return f"Dict({', '.join(part.text() for part in self.parts)})"
        return f"{self.name}{self.alias or ''}"

    def aliases(self) -> Iterator[AliasInfo]:
        """Memory that this type and the types in it share, as the schema writes it."""
        if self.alias is not None:
            yield self.alias
        for part in self.parts:
            yield from part.aliases()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.text())

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether this is the other type."""
        return self == other

    def kind(self) -> str:
        """PyTorch's name of the class of such types."""
        return f"{self.name if self.name in ('List', 'Optional', 'Tuple', 'Dict') else _SHOWN.get(self.name, self.name).capitalize()}Type"

    annotation_str = property(__str__)


_NONE = object()


class Argument:
    """One argument or result of a schema. Source: torch._C.Argument."""

    def __init__(self, name: str, real_type: Type, kwarg_only: bool = False, default: Any = _NONE):
        self.name, self.real_type, self.kwarg_only, self._default = name, real_type, kwarg_only, default

    @property
    def type(self) -> Type:
        """Its type, whose text has PyTorch's names of types (``number``, ``List[int]``)."""
        return self.real_type

    @property
    def N(self) -> int | None:
        """Length of a list of fixed length."""
        return self.real_type.size

    @property
    def default_value(self) -> Any:
        """Default of the argument; None if it may not be left out."""
        return None if self._default is _NONE else self._default

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self._default is not _NONE

    @property
    def alias_info(self) -> AliasInfo | None:
        """Memory that it shares, None if the schema says nothing; that of a list's elements has no names."""
        inner = self.real_type.parts[0] if self.real_type.name == "Optional" else self.real_type
        if inner.alias is not None:
            return inner.alias
        found = list(inner.aliases())
        return AliasInfo(any(alias.is_write for alias in found), frozenset(), frozenset()) if found else None

    @made_once
    def is_write(self) -> bool:
        """Whether the operation writes to it."""
        return any(alias.is_write for alias in self.real_type.aliases())

    @made_once
    def is_out(self) -> bool:
        """Whether it is what ``out=`` takes."""
        return self.kwarg_only and self.is_write

    @made_once
    def convert(self) -> Callable[[Any], Any]:
        """A value of this type from one that stands for it; ``WRONG`` where it does not."""
        return _converter(self.real_type)

    def text(self) -> str:
        """As the schema writes it."""
        return f"{self.real_type.text()}{' ' if self.name else ''}{self.name}{self._default_text()}"

    def _default_text(self) -> str:
        if self._default is _NONE:
            return ""
        value, kind = self._default, self.real_type
        if kind.name == "List" and (kind.size or 0) > 1 and kind.parts[0].name == "int" and value and len(set(value)) == 1:
            value = value[0]
        return f"={_constant(value)}"


def _constant(value: Any) -> str:
    """A default as a schema writes it."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text + "." if text.lstrip("-").isdigit() else text
    if isinstance(value, complex):
        return f"{_constant(value.real)}{'+' if value.imag >= 0 else ''}{_constant(value.imag)}j"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_constant, value))}]"
    return str(value)


class FunctionSchema:
    """Arguments and results of an operation. Source: torch._C.FunctionSchema.

    Attributes:
        name: ``'ns::name'``. overload_name: of this overload, empty for the default one.
        arguments: the arguments. returns: the results.
    """

    def __init__(self, name: str, overload_name: str, arguments: list[Argument], returns: list[Argument], more: tuple[bool, bool]):
        self.name, self.overload_name, self.arguments, self.returns = name, overload_name, arguments, returns
        self._more = more  # whether any further arguments and results may follow
        self.positional = [argument for argument in arguments if not argument.kwarg_only]
        self.by_name = {argument.name: place for place, argument in enumerate(arguments)}
        self.converters = [argument.convert for argument in arguments]
        self._defaults = [argument._default for argument in arguments]

    @property
    def is_mutable(self) -> bool:
        """Whether the operation writes to an argument."""
        return any(argument.is_write for argument in self.arguments)

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload_name}" if self.overload_name else self.name

    def __str__(self) -> str:
        parts, starred = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                parts.append("*")
                starred = True
            parts.append(argument.text())
        results = [argument.text() for argument in self.returns]
        more_arguments, more_results = self._more
        parts += ["..."] * more_arguments
        shown = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"{self.full_name}({', '.join(parts)}) -> {'...' if more_results else shown}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    # -- calls ------------------------------------------------------------------------------------------------------------------
    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call in the schema's order, defaults filled in.

        Raises:
            RuntimeError: the call is not one of this schema.
        """
        arguments, count = self.arguments, len(args)
        if count > len(self.positional) or (kwargs and count + len(kwargs) > len(arguments)):
            self._complain_of_many(count, kwargs)
        values: list[Any] = []
        for convert, given in zip(self.converters, args, strict=False):
            value = convert(given)
            if value is WRONG:
                self._complain(len(values), given)
            values.append(value)
        if not kwargs and count == len(arguments):
            return values
        used = 0
        for place in range(count, len(arguments)):
            argument = arguments[place]
            if argument.name in kwargs:
                value = self.converters[place](kwargs[argument.name])
                if value is WRONG:
                    self._complain(place, kwargs[argument.name])
                used += 1
            elif argument._default is _NONE:
                raise RuntimeError(f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}")
            else:
                value = argument._default
                value = list(value) if value.__class__ is list else value
            values.append(value)
        if used != len(kwargs):
            for name in kwargs:
                if name not in self.by_name:
                    raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}")
                if self.by_name[name] < len(args):
                    raise RuntimeError(f"{self.name}() got multiple values for argument '{name}'. Declaration: {self}")
        return values

    def _complain_of_many(self, count: int, kwargs: dict[str, Any]) -> None:
        given, known = count + len(kwargs), all(name in self.by_name for name in kwargs)
        if count > len(self.arguments) or (count <= len(self.positional) and known):
            most = len(self.arguments)
            raise RuntimeError(f"{self.name}() expected at most {most} argument(s) but received {given} argument(s). Declaration: {self}")
        if count > len(self.positional):
            most = len(self.positional)
            raise RuntimeError(f"{self.name}() takes {most} positional argument(s) but {count} was/were given.  Declaration: {self}")

    def _complain(self, place: int, value: Any) -> None:
        argument = self.arguments[place]
        position = "" if argument.kwarg_only else f"Position: {place}\n"
        raise RuntimeError(
            f"{self.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but instead found type "
            f"'{type(value).__name__}'.\n{position}Value: {value!r}\nDeclaration: {self}\n{_details(argument.real_type, value)}"
        )

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Bound values as a call: arguments by position without trailing defaults, and keywords that are not at their defaults."""
        defaults, count = self._defaults, len(self.positional)
        all_of_them = count
        while count and defaults[count - 1] is not _NONE and _equal(values[count - 1], defaults[count - 1]):
            count -= 1
        named = {}
        for place in range(all_of_them, len(defaults)):
            if defaults[place] is _NONE or not _equal(values[place], defaults[place]):
                named[self.arguments[place].name] = values[place]
        return tuple(values[:count]), named


def _equal(value: Any, default: Any) -> bool:
    """Whether an argument is its default."""
    return value is default or (value.__class__ is default.__class__ and not isinstance(value, Tensor) and value == default)


# -- conversion -------------------------------------------------------------------------------------------------------------------
WRONG = object()


def _details(kind: Type, value: Any) -> str:
    """Text of PyTorch's error for a value of another type."""
    if kind.name == "Optional":
        kind = kind.parts[0]
    if kind.name == "Tensor":
        return f"Cast error details: Unable to cast {value!s} to Tensor"
    if kind.name in ("Scalar", "number"):
        return f"Cast error details: Cannot cast {value!s} to number"
    return (
        f"Cast error details: Unable to cast Python instance of type {type(value)} to C++ type '?' "
        "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
    )


def _number(value: Any) -> Any:
    if isinstance(value, (int, float, complex)) or (isinstance(value, Tensor) and not value.dim()):
        return value
    return value.item() if isinstance(value, (np.generic, Number)) and hasattr(value, "item") else WRONG


def _int(value: Any) -> Any:
    if value.__class__ is int:
        return value
    if isinstance(value, (bool, np.integer)):
        return int(value)
    if isinstance(value, Tensor) and not value.dim() and not value.is_floating_point() and not value.is_complex():
        return int(value.item())
    return value if isinstance(value, int) or hasattr(value, "__sym_int__") else WRONG


def _float(value: Any) -> Any:
    if value.__class__ is float:
        return value
    if isinstance(value, (int, float, np.floating, np.integer)):
        return float(value)
    return float(value.item()) if isinstance(value, Tensor) and not value.dim() and not value.is_complex() else WRONG


def _bool(value: Any) -> Any:
    if value.__class__ is bool:
        return value
    return bool(value) if isinstance(value, (int, np.bool_)) or (isinstance(value, Tensor) and not value.dim()) else WRONG


def _complex(value: Any) -> Any:
    return complex(value) if isinstance(value, (int, float, complex, np.number)) else WRONG


def _device(value: Any) -> Any:
    return value if isinstance(value, device) else device(value) if isinstance(value, (str, int)) else WRONG


def _instance(*kinds: Any) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else WRONG


def _tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) else WRONG


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _tensor,
    "int": _int,
    "SymInt": _int,
    "DeviceIndex": _int,
    "float": _float,
    "bool": _bool,
    "SymBool": _bool,
    "complex": _complex,
    "Scalar": _number,
    "number": _number,
    "str": _instance(str),
    "Dimname": _instance(str),
    "ScalarType": _instance(dtype, int),
    "Layout": _instance(layout, int),
    "MemoryFormat": _instance(memory_format, int),
    "Device": _device,
    "Generator": _instance(Generator),
}


def _as_is(value: Any) -> Any:
    return value


def _converter(kind: Type) -> Callable[[Any], Any]:
    """The function that gives a value of a type, or ``WRONG``."""
    if kind.name == "Optional":
        inner = _converter(kind.parts[0])
        return lambda value: None if value is None else inner(value)
    if kind.name == "List":
        return _list_converter(_converter(kind.parts[0]), kind.size)
    if kind.name == "Dict":
        return _instance(dict)
    if kind.name == "Tuple":
        return _instance(tuple, list)
    return _SCALARS.get(kind.name, _as_is)


def _list_converter(inner: Callable[[Any], Any], size: int | None) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            items = [inner(item) for item in value]
            return WRONG if any(item is WRONG for item in items) else items
        if size and isinstance(value, (int, float)):
            item = inner(value)
            return WRONG if item is WRONG else [item] * size
        return WRONG

    return convert


# -- parsing ----------------------------------------------------------------------------------------------------------------------
_TOKEN = re.compile(
    r"""\s*(?:(?P<arrow>->)|(?P<more>\.\.\.)|(?P<ident>__torch__[\w.]*|[A-Za-z_]\w*)|(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?)"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<colons>::)|(?P<mark>[()\[\],=*?!|.:-])|(?P<eof>$))"""
)
_KINDS = "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func"


class _Parser:
    def __init__(self, text: str):
        self.text, self.place = text, 0
        self._next()

    def _next(self) -> str:
        """Go to the next token; the one that was there."""
        was = getattr(self, "token", "")
        found = _TOKEN.match(self.text, self.place)
        if found is None:
            self.start, self.end = self.place, self.place + 1
            self._fail(f"unexpected character '{self.text[self.place]}'")
        self.kind = found.lastgroup or "eof"
        self.token = found[self.kind]
        self.start, self.end = found.span(self.kind)
        self.place = found.end()
        return was

    def _fail(self, what: str) -> NoReturn:
        raise RuntimeError(f"{what}:\n{self.text}\n{' ' * self.start}{'~' * max(self.end - self.start, 1)} <--- HERE\n")

    def _fail_behind(self, what: str) -> None:
        """Fail at the token after this one, as PyTorch shows it."""
        self._next()
        self.end = self.start + 1
        self._fail(what)

    def _expect(self, wanted: str, kind: str | None = None) -> str:
        if (self.kind == kind) if kind is not None else (self.token == wanted):
            return self._next()
        found = self.kind if self.kind in ("arrow", "ident", "number", "string", "eof") else f"'{self.token}'"
        if self.kind == "eof":
            raise RuntimeError(f"expected {wanted} but found 'eof' here:\n{self.text}")
        self._fail(f"expected {wanted} but found {found if found.startswith(chr(39)) else chr(39) + found + chr(39)} here")

    def _skip(self, token: str) -> bool:
        if self.token == token and self.kind != "string":
            self._next()
            return True
        return False

    def name(self) -> tuple[str, str]:
        name = self._expect("ident", "ident")
        while self._skip("::"):
            name += "::" + self._expect("ident", "ident")
        overload = self._expect("ident", "ident") if self._skip(".") else ""
        return name, overload

    def schema(self) -> FunctionSchema:
        name, overload = self.name()
        if self.kind == "eof":
            raise RuntimeError("Tried to parse a function schema but only the operator name was given")
        self._expect("(")
        arguments, more_arguments, only = [], False, False
        while not self._skip(")"):
            if self._skip("*"):
                only = True
            elif self.kind == "more":
                self._next()
                more_arguments = True
            else:
                arguments.append(self._argument(only))
            if self.token != ")":
                if self.token != ",":
                    self._expect(")")
                self._next()
                if self.token == ")":
                    self._expect("ident", "ident")
        self._expect("arrow", "arrow")
        returns, more_results = self._returns()
        self._expect("eof", "eof")
        seen = False
        for argument in arguments:
            if seen and not argument.has_default_value() and not argument.kwarg_only:
                raise RuntimeError(f"Non-default positional argument follows default argument. Parameter {argument.name} in {self.text}")
            seen = seen or argument.has_default_value()
        return FunctionSchema(name, overload, arguments, returns, (more_arguments, more_results))

    def _returns(self) -> tuple[list[Argument], bool]:
        if self.kind == "more":
            self._next()
            return [], True
        if not self._skip("("):
            return [self._result()], False
        returns = []
        while not self._skip(")"):
            returns.append(self._result())
            if self.token != ")":
                self._expect(",")
        return returns, False

    def _result(self) -> Argument:
        kind = self._type()
        return Argument(self._next() if self.kind == "ident" else "", kind)

    def _argument(self, only: bool) -> Argument:
        kind = self._type()
        name = self._expect("ident", "ident")
        return Argument(name, kind, only, self._default(kind) if self._skip("=") else _NONE)

    def _type(self) -> Type:
        if self._skip("("):
            parts = [self._type()]
            while self._skip(","):
                parts.append(self._type())
            self._expect(")")
            return Type("Tuple", parts)
        if self.kind == "ident" and self.token == "Dict":
            self._next()
            self._expect("(")
            key = self._type()
            self._expect(",")
            kind = Type("Dict", (key, self._type()))
            self._expect(")")
        else:
            if self.kind == "ident" and self.token not in _SHOWN and not self.token.startswith("__torch__"):
                self._fail(
                    "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; "
                    f"for a full list, please see {_KINDS} "
                )
            kind = Type(self._expect("ident", "ident"))
            if self.token == "(":
                kind.alias = self._alias()
        while self.token in ("[", "?"):
            if self._next() == "?":
                kind = Type("Optional", (kind,))
            else:
                size = int(self._next()) if self.kind == "number" else None
                self._expect("]")
                kind = Type("List", (kind,), size)
        return kind

    def _alias(self) -> AliasInfo:
        self._expect("(")
        before = self._alias_set()
        write = self._skip("!")
        after = before
        if self.kind == "arrow":
            self._next()
            after = self._alias_set()
        self._expect(")")
        return AliasInfo(write, before, after)

    def _alias_set(self) -> frozenset[str]:
        names = {self._next()}
        while self._skip("|"):
            names.add(self._next())
        return frozenset(names)

    def _default(self, kind: Type) -> Any:
        if self.kind == "ident" and self.token == "None":
            self._next()
            return None
        if kind.name == "Optional":
            return self._default(kind.parts[0])
        if kind.name == "Tensor":
            self._expect("None", "None")
        if kind.name == "List":
            return self._default_list(kind)
        if self.kind == "string":
            return _unquoted(self._next())
        if self.kind == "ident":
            if self.token in ("True", "False"):
                return self._next() == "True"
            if self.token in _NAMED_DEFAULTS or self.token in _DTYPES:
                word = self._next()
                return _NAMED_DEFAULTS[word] if word in _NAMED_DEFAULTS else _DTYPES.index(word)
            self._fail_behind("\ninvalid numeric default value")
        return self._number(kind)

    def _number(self, kind: Type) -> Any:
        text = self._expect("number", "number")
        if text.endswith("j"):
            return complex(text)
        number = float(text) if any(letter in text for letter in ".eE") or kind.name == "float" else int(text)
        return complex(number) if kind.name == "complex" else number

    def _default_list(self, kind: Type) -> list[Any]:
        inner = kind.parts[0]
        if self.token != "[":
            return [self._default(inner)] * (kind.size or 1)
        if inner.name not in ("int", "SymInt", "float", "bool", "complex", "Scalar"):
            self._fail("\nlists are only supported for float, int and complex types")
        self._next()
        items = []
        while not self._skip("]"):
            items.append(self._default(inner))
            if self.token != "]":
                self._expect(",")
        return items


def _unquoted(text: str) -> str:
    inside = text[1:-1]
    return json.loads('"' + inside.replace("\\'", "'").replace('"', '\\"').replace('\\\\"', '\\"') + '"')


def parse_schema(text: str) -> FunctionSchema:
    """A schema from its text.

    Raises:
        RuntimeError: it is none; the message shows where.
    Source: torch._C.parse_schema.
    """
    return _Parser(text).schema()
