"""flambeau in PyTorch's place, for processes that a program under ``python -m flambeau`` starts: this folder is on their PYTHONPATH."""

import os
import sys

try:
    import flambeau.runner
except ModuleNotFoundError as _error:
    if _error.name != "flambeau":
        raise
    # A checkout that is not installed: last, behind everything that this Python finds by itself.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
    import flambeau.runner

flambeau.runner.install()
sys.modules[__name__] = flambeau
flambeau.runner.rename_tensors(flambeau)
