"""Changes that no test can notice, or need not: path, function, what stood there, what it became; and why."""

from __future__ import annotations

EXPLAINED: dict[tuple[str, str, str, str], str] = {}
