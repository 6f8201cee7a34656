"""Code of wrappers with machine code, kept on disk: to compile it anew takes several times as long as to load the machine code itself.

    kept_codes: what an exchange is made of -> code that asks machine code first

It is Python's byte code, in a file beside the recipes and found as they are, so that it is this interpreter's, of the present sources.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from ...core.calls import machine_calls
from ..compiler import cache, image, target as targets
from . import recipes

MOST = 500  # codes of about a kilobyte each; programs exchange some hundred


@contextmanager
def kept_codes() -> Iterator[None]:
    """Within the block exchanges take the codes that are on disk, and at its end those that were made are there too."""
    key = recipes.key_of(f"codes, {sys.flags}", targets.current())
    before = _read(key) if key is not None else {}
    codes = dict(before)
    machine_calls.kept_codes.append(codes)
    try:
        yield
    finally:
        machine_calls.kept_codes.remove(codes)
    codes = dict(codes)  # a thread may be about to add one
    new = {made_of: code for made_of, code in codes.items() if made_of not in before}
    if key is not None and new:
        cache.write(key, image.sealed(0, marshal.dumps(new if len(codes) > MOST else codes)))


def _read(key: str) -> dict[Any, CodeType]:
    stored = cache.read(key)
    if stored is None:
        return {}
    try:
        codes: dict[Any, CodeType] = marshal.loads(image.unsealed(stored))
    except (EOFError, ValueError, TypeError):  # what another version has written
        return {}
    return codes
