"""``torch._VF``: the functions of ``torch``, under the name by which modules of PyTorch call the recurrent ones."""

from __future__ import annotations

from typing import Any

from ..ops import names, resolve


def __getattr__(name: str) -> Any:
    function = globals()[name] = resolve("torch", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("torch")})
