"""The named tuples that operations return, by the operation's name: ``torch.return_types.max``. Source: torch.return_types."""

from __future__ import annotations

from typing import Any

from ..core.calls.registry import TABLES, import_late
from ..core.calls.return_types import _made, named_result

_NAMESPACES = ("torch", "linalg")
# Results that composites return, whose classes are made by the first call.
_OF_COMPOSITES = {
    **dict.fromkeys(("median", "nanmedian", "kthvalue", "mode"), ("values", "indices")),
    **dict.fromkeys(("histogram", "histogramdd"), ("hist", "bin_edges")),
}
_WITHOUT_OUT = frozenset(("histogramdd", "solve", "lstsq", "symeig", "eig"))


def _classes() -> dict[str, Any]:
    """Every class by name: those of the registry's operations, and those that composites made."""
    classes = {name: named_result(name, fields) for name, fields in _OF_COMPOSITES.items()}
    import_late()
    classes.update((name, cls) for name, cls in _made.items() if not name.startswith("_"))
    for namespace in _NAMESPACES:
        for entry in list(TABLES[namespace].values()):
            fields = getattr(entry, "returns", None)
            if isinstance(fields, tuple) and not entry.result_name.startswith("_"):
                classes[entry.result_name] = named_result(entry.result_name, fields)
    for name in [name for name in classes if name not in _WITHOUT_OUT and not name.endswith("_out")]:
        classes[f"{name}_out"] = named_result(f"{name}_out", classes[name]._fields)
    return classes


def _flattened(result: Any) -> tuple[list[Any], Any]:
    return list(result), None


def pytree_register_structseq(cls: type) -> None:
    """Have ``torch.utils._pytree`` look into a class of named results. Source: torch.return_types.pytree_register_structseq."""
    from ..utils import _pytree

    if cls not in _pytree.SUPPORTED_NODES:
        _pytree.register_pytree_node(cls, _flattened, lambda values, context: cls(values))


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        globals()[name] = listed = [cls for _, cls in sorted(_classes().items())]
        return listed
    if not name.startswith("__"):
        cls = _classes().get(name)
        if cls is not None:
            globals()[name] = cls
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"all_return_types", "pytree_register_structseq", *_classes()})
