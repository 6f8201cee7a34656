"""Whether a thread is below autograd, where users' operations go to the kernels of their devices."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.state import thread


class below_autograd(no_grad):
    """Context in which nothing is recorded, and operations go to the kernels of their devices.

    Source: torch._C._AutoDispatchBelowAutograd.
    """

    def __enter__(self) -> None:
        super().__enter__()
        thread.depth += 1

    def __exit__(self, *exc_info: Any) -> None:
        thread.depth -= 1
        super().__exit__(*exc_info)
