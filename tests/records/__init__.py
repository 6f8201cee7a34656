"""All records, collected from the family modules of this folder: each has a tuple or list named ``RECORDS``."""

from __future__ import annotations

import importlib
import pkgutil

from .record import Record


def _collect() -> dict[str, Record]:
    found: dict[str, Record] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name == "record":
            continue
        for record in importlib.import_module(f"{__name__}.{module.name}").RECORDS:
            if record.name in found:
                raise ValueError(f"{record.name} has two records; the second is in {module.name}.py")
            found[record.name] = record
    return found


RECORDS = _collect()

__all__ = ["RECORDS", "Record"]
