"""Named tuples that operations with several results return: ``torch.return_types.max(values=..., indices=...)``."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

_made: dict[str, type] = {}


class NamedResult(tuple):
    """A tuple whose fields have names.  ``torch.return_types`` classes take one sequence, as PyTorch's do."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _from_file(cls, values: tuple[Any, ...], further: Any = None) -> Any:
        """The result that a file describes by its values and a dictionary, empty, of fields without an index."""
        return cls(values)

    def __repr__(self) -> str:
        shown = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"torch.return_types.{type(self).__name__}(\n{shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self).__name__, self._fields, tuple(self)))


def _rebuild(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return named_result(name, fields)(values)


def named_result(name: str, fields: tuple[str, ...]) -> Any:
    """The result class of operation ``name``."""
    cls = _made.get(name)
    if cls is None:
        body: dict[str, Any] = {"__slots__": (), "_fields": fields, "__module__": "torch.return_types", "n_fields": len(fields)}
        for index, field in enumerate(fields):
            body[field] = property(itemgetter(index))
        cls = _made[name] = type(name, (NamedResult,), body)
    return cls
