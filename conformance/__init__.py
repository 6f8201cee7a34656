"""``python -m conformance``: flambeau beside PyTorch, over every public entry of PyTorch's own database of operations.

database.py     the entries; PyTorch's arguments and functions as flambeau's
comparing.py    when results, errors and warnings are the same
columns.py      what is asked of an entry: forward, forms, gradients, out=, aliases, errors, dtypes
report.py       shares, the JSON report and the page docs/conformance.md
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent.parent / "tests"
sys.path += map(str, (_TESTS, _TESTS / "helpers"))  # both libraries side by side: tests/helpers/libraries.py
