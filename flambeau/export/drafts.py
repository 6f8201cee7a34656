"""``torch.export.draft_export``: a program with a report of what was assumed about its sizes, where it assumes more than was declared."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Any

from .dynamic_shapes import Dim, DimHint, UserError

_log = logging.getLogger(__name__)


class FailureType(enum.IntEnum):
    """The kinds of what a draft reports. Source: torch.export._draft_export.FailureType."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self) -> str:
        return self.name


class FailureReport:
    """One thing that a draft reports. Source: torch.export._draft_export.FailureReport.

    Attributes:
        failure_type: its kind. data: what is known of it. xfail: whether it was to be expected.
    """

    def __init__(self, failure_type: FailureType, data: dict[str, Any], xfail: bool = False):
        self.failure_type, self.data, self.xfail = failure_type, data, xfail

    def __repr__(self) -> str:
        return f"FailureReport(failure_type={self.failure_type}, xfail={self.xfail}, data={self.data})"


class DraftExportReport:
    """All that a draft reports. Source: torch.export._draft_export.DraftExportReport.

    Attributes:
        failures: one by one.
    """

    def __init__(self, failures: list[FailureReport]):
        self.failures = failures

    def successful(self) -> bool:
        """Whether the program is what ``export`` would have made."""
        return all(failure.xfail for failure in self.failures)

    def __repr__(self) -> str:
        return f"DraftExportReport({self.failures})"

    def __str__(self) -> str:
        if self.successful():
            return "The program was exported as it was asked for: torch.export.export will give the same."
        lines = [f"{k}. {failure.failure_type}: {failure.data['reason']}" for k, failure in enumerate(self.failures, 1)]
        return "\n".join(["The program was exported, and assumes more than was declared:", *lines])


def hinted(shapes: Any) -> Any:
    """``dynamic_shapes`` with hints, which may turn out to be fixed, in place of dimensions that must be dynamic."""
    if isinstance(shapes, Mapping):
        return {key: hinted(part) for key, part in shapes.items()}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)([hinted(part) for part in shapes])
    if isinstance(shapes, DimHint):
        return shapes if shapes.type == "STATIC" else DimHint("AUTO", shapes.min, shapes.max)
    return DimHint("AUTO") if isinstance(shapes, Dim) else shapes


def drafted(export: Any, mod: Any, args: Any, kwargs: Any, dynamic_shapes: Any, **options: Any) -> Any:
    """A draft of a program; see ``torch.export.draft_export``."""
    failures = []
    try:
        program = export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, **options)
    except UserError as error:
        if dynamic_shapes is None or "onstraint" not in str(error):
            raise
        program = export(mod, args, kwargs, dynamic_shapes=hinted(dynamic_shapes), **options)
        failures.append(FailureReport(FailureType.GUARD_ADDED, {"reason": str(error).partition("\n\nThe error above")[0]}))
    program._report = DraftExportReport(failures)
    if failures:
        _log.warning(str(program._report))
    return program
