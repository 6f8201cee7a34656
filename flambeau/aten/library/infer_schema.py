"""A schema from a function's annotations. Source: torch.library.infer_schema."""

from __future__ import annotations

import collections.abc
import inspect
import itertools
import typing
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ...core.device import device
from ...core.dtype import dtype
from ...core.tensor import Tensor

Number = int | float | bool
# Types of arguments, what schemas call them, and whether they may be in a list, be left out, and both.
_ARGUMENTS: tuple[tuple[Any, str, bool, bool, bool], ...] = (
    (Tensor, "Tensor", True, True, False),
    (int, "SymInt", True, True, True),
    (float, "float", True, True, True),
    (bool, "bool", True, True, True),
    (str, "str", False, True, False),
    (Number, "Scalar", True, True, False),
    (dtype, "ScalarType", False, True, False),
    (device, "Device", False, True, False),
)
_RESULTS: dict[Any, str] = {
    Tensor: "Tensor",
    typing.List[Tensor]: "Tensor[]",  # noqa: UP006  # the annotation itself
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    Number: "Scalar",
}


def _lists_of(kind: Any) -> list[Any]:
    return [typing.Sequence[kind], typing.List[kind], collections.abc.Sequence[kind], list[kind]]  # noqa: UP006


def _known_arguments() -> dict[Any, str]:
    known: dict[Any, str] = {}
    for kind, name, in_list, left_out, list_left_out in _ARGUMENTS:
        known[kind] = name
        if left_out:
            known[typing.Optional[kind]] = f"{name}?"  # noqa: UP045
        if in_list:
            known.update(dict.fromkeys(_lists_of(kind), f"{name}[]"))
        if kind is Tensor:
            known.update(dict.fromkeys(_lists_of(typing.Optional[kind]), f"{name}?[]"))  # noqa: UP045
        if list_left_out:
            known.update({typing.Optional[listed]: f"{name}[]?" for listed in _lists_of(kind)})  # noqa: UP045
    return known


_KNOWN = _known_arguments()


def _default(value: Any, complain: Callable[[str], NoReturn], name: str) -> str:
    """A parameter's default as a schema writes it."""
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, (str, device)):
        return f'"{value}"'
    if isinstance(value, dtype):
        return str(value).removeprefix("torch.")
    complain(f"Parameter {name} has an unsupported default value type {type(value)}.")


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None) -> str:
    """The schema of a function with annotations: ``'(Tensor x, float y=1.0) -> Tensor'``.

    Args:
        prototype_function: every parameter and the result are annotated.
        mutates_args: names of the arguments that it writes to, or 'unknown'.
        op_name: put in front.
    Returns: a string.
    Raises:
        ValueError: a missing or unknown annotation, ``*args``, or a name in ``mutates_args`` that is no argument.
    Example:
        >>> def f(x: torch.Tensor, times: int = 2) -> torch.Tensor: ...
        >>> torch.library.infer_schema(f, mutates_args=())
        '(Tensor x, SymInt times=2) -> Tensor'

    Source: torch.library.infer_schema.
    """
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError("mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. ")
    signature = inspect.signature(prototype_function, eval_str=False)

    def complain(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    parts, seen, starred = [], set(), False
    counter = itertools.count()
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            complain("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.annotation is parameter.empty:
            complain(f"Parameter {name} must have a type annotation.")
        annotation = _evaluated(parameter.annotation, prototype_function, complain)
        kind = _kind_of(annotation, name, complain)
        mutated = "Tensor" in kind if isinstance(mutates_args, str) else name in mutates_args
        if mutated and not kind.startswith("Tensor"):
            complain(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
        seen.add(name)
        if mutated:
            kind = f"Tensor(a{next(counter)}!){kind.removeprefix('Tensor')}"
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default, complain, name)}"
        parts.append(f"{kind} {name}{default}")
    unknown = set() if isinstance(mutates_args, str) else set(mutates_args) - seen
    if unknown:
        complain(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all args "
            "that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        complain("No return type annotation was provided. Please add one.")
    result = _result_kind(_evaluated(signature.return_annotation, prototype_function, complain), complain)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _evaluated(annotation: Any, function: Callable[..., Any], complain: Callable[[str], NoReturn]) -> Any:
    """An annotation that may be a string."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, inspect.unwrap(function).__globals__)
    except Exception:
        complain(
            f"Unsupported type annotation {annotation}. It is not a type, or not a name of the module that the function was defined in."
        )


def _kind_of(annotation: Any, name: str, complain: Callable[[str], NoReturn]) -> str:
    if isinstance(annotation, typing.TypeVar) or annotation not in _KNOWN:
        if getattr(annotation, "__origin__", None) is tuple:
            instead = list.__class_getitem__(annotation.__args__[0]) if annotation.__args__ else list
            complain(
                f"Parameter {name} has unsupported type {annotation}. We do not support Tuple inputs in schema. As a workaround, please "
                f"try to use List instead. For example, {instead}.\n\nThe valid types are: {_KNOWN.keys()}."
            )
        complain(f"Parameter {name} has unsupported type {annotation}. The valid types are: {_KNOWN.keys()}.")
    return _KNOWN[annotation]


def _result_kind(annotation: Any, complain: Callable[[str], NoReturn]) -> str:
    if annotation is None:
        return "()"
    if annotation in _RESULTS:
        return _RESULTS[annotation]
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is not tuple or not parts or any(part not in _RESULTS for part in parts):
        complain(f"Return has unsupported type {annotation}. The valid types are: {_RESULTS}.")
    listed = f"({', '.join(_RESULTS[part] for part in parts)})"
    return f"({listed})" if len(parts) == 1 else listed
