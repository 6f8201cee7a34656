"""Arguments of kernels, declared once and by name.

A kernel with more than a few arguments has a *record* of them.  Its order is the order in memory, and stands nowhere else:

    class TableArguments(Record):
        x: Array
        y: Array
        rows: Integer
        columns: Integer  # of each row

    a = k.arguments(TableArguments)                                       # in the kernel: values a.x, a.y, a.rows, a.columns
    fill = table(dtype).bind(chunks, rows=3, columns=4)                   # the caller: numbers once ...
    fill(x=source, y=target)                                              # ... and arrays at each launch

A record may be a field of another one: what belongs together, like the strides of an image, is declared once for all kernels.  The caller
then gives an instance, ``Strides(n=60, c=20, y=5, x=1)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self, dataclass_transform, get_type_hints

Array = Annotated[Any, "array"]  # a pointer to its data in the kernel; the caller gives the NumPy array
Integer = Annotated[Any, "integer"]
Number = Annotated[Any, "number"]  # float64
Address = Annotated[Any, "pointer"]  # an integer for the caller
_fields: dict[type, dict[str, Any]] = {}


@dataclass_transform(kw_only_default=True)
class Record:
    """Base of records: annotations declare the fields, and an instance has a value for each, given by name.

    Raises:
        TypeError: when made with other names than those declared.
    """

    def __init__(self, **values: Any):
        fields = fields_of(type(self))
        if values.keys() != fields.keys():
            missing, unknown = [name for name in fields if name not in values], [name for name in values if name not in fields]
            raise TypeError(f"{type(self).__name__}: missing: {missing}, unknown: {unknown}")
        self.__dict__.update(values)

    def replace(self, **changes: Any) -> Self:
        """A record with other values for some fields."""
        return type(self)(**{**self.__dict__, **changes})


def fields_of(record: type[Record]) -> dict[str, Any]:
    """By name, in their order: the word for a field of the kernel language (``"array"``, ...), or the record that the field is."""
    fields = _fields.get(record)
    if fields is None:
        hints = get_type_hints(record, include_extras=True)
        fields = _fields[record] = {name: getattr(hint, "__metadata__", (hint,))[0] for name, hint in hints.items()}
    return fields


def slots_of(word: Any, value: Any) -> Iterator[Any]:
    """Values passed for a field: one object, or those of the record's fields."""
    if isinstance(word, str):
        yield value
    else:
        if not isinstance(value, word):
            raise TypeError(f"expected {word.__name__}, got {type(value).__name__}")
        for name, inner in fields_of(word).items():
            yield from slots_of(inner, getattr(value, name))


def expressions_of(word: Any, name: str) -> Iterator[str]:
    """The same as expressions in a function that has the field as its argument ``name``."""
    if word == "array":
        yield f"id({name})"
    elif isinstance(word, str):
        yield name
    else:
        for inner_name, inner in fields_of(word).items():
            yield from expressions_of(inner, f"{name}.{inner_name}")
