"""``python -m benchmarks NAME [options]``: each benchmark is a module of this package with ``describe`` and ``main``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

NAMES = ("overhead", "startup", "leak")

# One thread everywhere: NumPy's BLAS and PyTorch read these when they are loaded.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benchmarks of flambeau beside real PyTorch.")
    commands = parser.add_subparsers(dest="name", required=True)
    modules = {name: importlib.import_module(f"{__package__}.{name}") for name in NAMES}
    for name, module in modules.items():
        module.add_arguments(commands.add_parser(name, help=module.__doc__.splitlines()[0]))
    options = parser.parse_args()
    return modules[options.name].main(options)


if __name__ == "__main__":
    sys.exit(main())
