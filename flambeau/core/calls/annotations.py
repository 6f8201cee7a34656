"""Names for the signatures of operations.

A kernel's signature is the operation's public signature, so it says ``Tensor`` where callers pass tensors; inside the kernel the
same names are arrays.  The registry reads these words: ``Tensor`` (an operand), ``Tensor | Number`` (an operand that may be a
Python number), ``Tensor | None`` (an operand that may be missing), ``Sequence[Tensor]`` (a list of operands).
"""

from __future__ import annotations

from typing import Any

Tensor = Any
Number = Any
Dim = Any
DType = Any
