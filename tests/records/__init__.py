"""All records, collected from the family modules of this folder: each has a tuple or list named ``RECORDS``."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

from .record import Record
from .references import REFERENCES, UNREFERENCED
from .rejections import REJECTIONS

FAMILIES = tuple(sorted({module.name for module in pkgutil.iter_modules(__path__)} - {"record", "references", "rejections"}))


def _collect() -> dict[str, Record]:
    records: dict[str, Record] = {}
    for family in FAMILIES:
        for record in importlib.import_module(f"{__name__}.{family}").RECORDS:
            if record.name in records:
                raise ValueError(f"{record.name} has two records; the second is in {family}.py")
            records[record.name] = record
    for table in (REFERENCES, UNREFERENCED, REJECTIONS):
        if unknown := set(table) - set(records):
            raise ValueError(f"no record of {', '.join(sorted(unknown))}")
    return {name: _completed(record) for name, record in records.items()}


def _completed(record: Record) -> Record:
    """With what the tables say of it."""
    if record.reference is not None and record.name in REFERENCES:
        raise ValueError(f"{record.name} has two references")
    return replace(
        record,
        reference=record.reference or REFERENCES.get(record.name),
        unreferenced=record.unreferenced or UNREFERENCED.get(record.name, ""),
        rejects=record.rejects or REJECTIONS.get(record.name, {}),
    )


RECORDS = _collect()

__all__ = ["FAMILIES", "RECORDS", "Record"]
