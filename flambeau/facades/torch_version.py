"""``torch.__version__``: a string that compares as versions do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["InvalidVersion", "TorchVersion"]

_PATTERN = (
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)(?:[-_.]?(?P<phase>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<number>\d*))?"
    r"(?:(?:-(?P<bare>\d+))|(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*)))?(?:[-_.]?(?P<is_dev>dev)[-_.]?(?P<dev>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
_PHASES = {"alpha": 0, "a": 0, "beta": 1, "b": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_FINAL = (3, 0)


class InvalidVersion(ValueError):
    """Text that is no version by PEP 440."""


def version_key(version: str) -> tuple[Any, ...]:
    """Key that orders versions as PEP 440 does.

    Raises:
        InvalidVersion: no version.
    """
    match = re.fullmatch(_PATTERN, version.strip(), re.IGNORECASE)
    if match is None:
        raise InvalidVersion(f"Invalid version: '{version}'")
    release = tuple(map(int, match["release"].split(".")))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    post = match["bare"] or match["post"]
    is_post = post is not None
    phase = (_PHASES[match["phase"].lower()], int(match["number"] or 0)) if match["phase"] else _FINAL
    if phase == _FINAL and not is_post and match["is_dev"]:
        phase = (-1, 0)  # 1.0.dev1 comes before 1.0a1
    local = match["local"]
    # Numbers come after words, and any label after none.
    labels = (
        [(1, int(part), "") if part.isdigit() else (0, 0, part.lower()) for part in re.split(r"[-_.]", local)] if local else [(-1, 0, "")]
    )
    development = int(match["dev"] or 0) if match["is_dev"] else float("inf")
    return int(match["epoch"] or 0), release, phase, int(post or 0) if is_post else -1, development, tuple(labels)


def _key_of(version: Any) -> tuple[Any, ...]:
    if isinstance(version, str):
        return version_key(version)
    if isinstance(version, Iterable):
        return version_key(".".join(str(part) for part in version))
    raise InvalidVersion(f"expected a string or numbers for a version, got {type(version).__name__}")


class TorchVersion(str):
    """A version that compares with other versions, with strings and with tuples of numbers, in the order of PEP 440.

    What is no version is compared as strings are.

    Example:
        >>> TorchVersion("2.13.0+flambeau") >= (2, 9), TorchVersion("2.13.0") < "2.100"
        (True, True)

    Source: torch.torch_version.TorchVersion.
    """

    __slots__ = ()

    def _ordered(self, other: Any, name: str) -> Any:
        try:
            return getattr(version_key(self), name)(_key_of(other))
        except InvalidVersion:
            return getattr(str, name)(self, other)

    def __lt__(self, other: Any) -> Any:
        return self._ordered(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._ordered(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._ordered(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._ordered(other, "__ge__")

    def __eq__(self, other: Any) -> Any:
        return self._ordered(other, "__eq__")

    __hash__ = str.__hash__
