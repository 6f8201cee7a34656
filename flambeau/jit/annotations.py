"""``torch.jit.annotations``: the names of ``typing`` under which scripted code writes its types; nothing is read from them here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
