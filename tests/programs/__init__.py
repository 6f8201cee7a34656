"""Programs beside the tests: ``python -m tests.programs.NAME``. They compare at length what the tests compare in short.

They and the tests import each other's files, and those of ``helpers``, by their bare names; pytest has these folders on its path by itself.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path += [folder for folder in map(str, (_TESTS, _TESTS / "helpers", _TESTS / "programs")) if folder not in sys.path]
