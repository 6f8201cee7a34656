"""Writing files so that whoever looks, at whatever moment, finds the old one whole or the new one whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from typing import IO, Any

from .calls.interruption import pass_on


def replace_file(path: Any, write: Callable[[IO[bytes]], Any], *, prefix: str = ".", permissions: int | None = None) -> None:
    """Write a file under a temporary name beside ``path``, and rename it when all went well. On an error the old file stays.

    Interrupts may come at any place: what writes is a function, because a ``with`` block of ours could be left before it is entered.

    Args:
        path: links are followed.
        write: writes the file that it is given.
        prefix: how the temporary name begins.
        permissions: of the file, less the umask; when None those that ``open(path, "wb")`` would leave: an existing file's own, or all.
    Raises:
        OSError: the file cannot be written.
    """
    target = os.path.realpath(path) if os.path.islink(path) else os.fspath(path)  # links among the folders may stay
    existing = os.stat(target) if os.path.exists(target) else None
    if existing is None or (stat.S_ISREG(existing.st_mode) and os.access(target, os.W_OK)):
        temporary = os.path.join(os.path.dirname(target), f"{prefix}{os.urandom(8).hex()}.tmp")
        is_open = False
        try:
            with open(temporary, "xb", opener=None if permissions is None else partial(os.open, mode=permissions)) as file:
                is_open = True
                if existing is not None and permissions is None:
                    os.chmod(temporary, stat.S_IMODE(existing.st_mode))
                write(file)
            os.replace(temporary, target)
            return
        except BaseException as error:
            # Nothing can come between: signals are looked for after a call, not before the first one.
            try:
                os.unlink(temporary)
            except OSError as other:  # it has been renamed, or was never made
                pass_on(other)
            if is_open or not isinstance(error, PermissionError):
                raise
    # A device, a pipe, or a folder that takes no new file: the name itself has to be written, or fail with its own error.
    with open(target, "wb") as file:
        write(file)
