"""``python -m benchmarks NAME [options]``: each benchmark is a module of this package with ``add_arguments``, ``main`` and ``THREADS``.

``THREADS`` is the number of threads that both frameworks and NumPy's BLAS get. ``all`` runs every benchmark in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys

from .measuring import set_threads

NAMES = (
    *("overhead", "kernels", "convolution", "training", "inference", "attention", "recurrent", "optimizers", "ops"),
    *("vision", "coldstart", "scaling", "startup", "loader", "leak", "transforms", "func", "autocast", "compile", "distributed"),
    *("sharding", "families", "takeover", "quantization"),
)


def run_all(options: argparse.Namespace) -> int:
    """Every benchmark, even when one before it failed; 1 when any did."""
    passed_on = [f"--{name}" for name in ("quick", "write") if getattr(options, name)]
    failed = [name for name in NAMES if subprocess.run([sys.executable, "-m", __package__, name, *passed_on], check=False).returncode]
    if failed:
        print(f"not in order: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benchmarks of flambeau beside real PyTorch.")
    commands = parser.add_subparsers(dest="name", required=True)
    modules = {name: importlib.import_module(f"{__package__}.{name}") for name in NAMES}
    for name, module in modules.items():
        command = commands.add_parser(name, help=str(module.__doc__).splitlines()[0])
        module.add_arguments(command)
        command.add_argument("--threads", type=int, default=module.THREADS, help=f"threads for both, {module.THREADS} unless told")
    every = commands.add_parser("all", help="Every benchmark, each in a process of its own.")
    every.add_argument("--quick", action="store_true", help="rough figures")
    every.add_argument("--write", action="store_true", help="write all sections")
    options = parser.parse_args()
    if options.name == "all":
        return run_all(options)
    if options.write and getattr(options, "only", ""):
        parser.error("--write with --only would replace a whole section by a part of it")
    set_threads(options.threads)
    return modules[options.name].main(options)


if __name__ == "__main__":
    sys.exit(main())
