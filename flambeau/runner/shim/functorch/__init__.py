"""flambeau in PyTorch's place, for processes that a program under ``python -m flambeau`` starts: this folder is on their PYTHONPATH."""

import importlib
import sys
from pathlib import Path

try:
    import flambeau.runner
except ModuleNotFoundError as _error:
    if _error.name != "flambeau":
        raise
    # A checkout that is not installed: last, behind everything that this Python finds by itself.
    sys.path.append(str(Path(__file__).absolute().parents[4]))
    import flambeau.runner

flambeau.runner.install()
sys.modules[__name__] = importlib.import_module("flambeau.facades.functorch")
