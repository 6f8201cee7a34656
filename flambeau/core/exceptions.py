"""Errors that happen in one thread or process and are raised in another."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


class KeyErrorMessage(str):
    """A text that ``KeyError`` shows as it is: it shows the ``repr`` of its argument, line breaks escaped."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An error as text, with its type, that can be pickled and raised elsewhere.

    Args:
        exc_info: of the error, as ``sys.exc_info()`` gives it; that being handled when None.
        where: it happened, as the message says it.
    Source: torch._utils.ExceptionWrapper.
    """

    def __init__(self, exc_info: tuple[Any, Any, Any] | None = None, where: str = "in background") -> None:
        kind, error, trace = exc_info or sys.exc_info()
        # The traceback itself refers to every frame, with the data in them; the text does not.
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an error of the same type whose message has the original traceback.

        Raises:
            RuntimeError: instead, when that type cannot be made from one message.
        """
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(message))
        if getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:  # a constructor with other arguments
            raise RuntimeError(message) from None
        raise error
