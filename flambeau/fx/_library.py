"""The package as a whole, which generated code names ``torch``: its public functions are looked up there, not imported one by one."""

from __future__ import annotations

import sys
from typing import Any

NAME = __name__.partition(".")[0]
library: Any = sys.modules[NAME]
