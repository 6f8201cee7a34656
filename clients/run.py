"""Run public packages that are built on PyTorch, each by a short program, and compare with what real PyTorch gave.

    python clients/run.py [NAME ...]             run the programs, print a table; status 1 when one fails or differs
    python clients/run.py --record [NAME ...]    write records/NAME.json: under real PyTorch only

A program is a module of this folder with ``PACKAGES``, the names of the distributions that it uses, and ``results()``, which returns named
numbers: tensors, arrays, lists, numbers, words. Each runs in a process of its own, under whatever ``import torch`` means there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
RECORDS = FOLDER / "records"
RTOL, ATOL = 1e-4, 1e-5  # as the first losses of a whole training agree
SECONDS = 300  # for one program


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it."""
    if hasattr(value, "detach"):
        value = value.detach()
        value = value.double() if value.is_floating_point() else value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value


def differences(path: str, ours: Any, recorded: Any, rtol: float, atol: float) -> list[str]:
    """Where two results differ: one line for each place."""
    if isinstance(recorded, (list, dict)) and type(ours) is type(recorded):
        if len(ours) != len(recorded) or (isinstance(recorded, dict) and ours.keys() != recorded.keys()):
            return [f"{path}: has {len(ours)} parts, PyTorch's {len(recorded)}"]
        keys = recorded if isinstance(recorded, dict) else range(len(recorded))
        return [line for key in keys for line in differences(f"{path}[{key!r}]", ours[key], recorded[key], rtol, atol)]
    if isinstance(recorded, float) and isinstance(ours, (int, float)):
        close = ours == recorded or abs(ours - recorded) <= atol + rtol * abs(recorded) or (ours != ours and recorded != recorded)
    else:
        close = ours == recorded
    return [] if close else [f"{path}: {ours!r}, PyTorch gave {recorded!r}"]


def results_of(name: str) -> dict[str, Any]:
    """What a program gives in this process, with the versions it ran with."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(FOLDER))
    import torch

    torch.set_num_threads(1)
    program = import_module(name)
    versions = {package: metadata.version(package) for package in program.PACKAGES}
    return {"versions": {"torch": torch.__version__, **versions}, "results": plain(program.results())}


def check(name: str) -> list[str]:
    """The differences between what a program gives here and its record."""
    record = json.loads((RECORDS / f"{name}.json").read_text())
    given = results_of(name)
    older = [
        f"{package} {version} is recorded, {given['versions'].get(package)} is installed"
        for package, version in record["versions"].items()
        if package != "torch" and given["versions"].get(package) != version
    ]
    program = sys.modules[name]
    rtol, atol = getattr(program, "TOLERANCE", (RTOL, ATOL))
    return older + differences("", json.loads(json.dumps(given["results"])), record["results"], rtol, atol)


def record(name: str) -> None:
    """Write what a program gives under real PyTorch."""
    import torch

    if "flambeau" in torch.__version__ or torch.__name__ != "torch":
        raise SystemExit("records are made under real PyTorch")
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / f"{name}.json").write_text(json.dumps(results_of(name), indent=1) + "\n")
    print(f"{name}: recorded")


def run(name: str) -> tuple[bool, float, str]:
    """Whether a program in a process of its own agrees, its seconds, and what it said."""
    start = time.perf_counter()
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    try:
        process = subprocess.run(
            [sys.executable, __file__, "--check", name], capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
        passed, said = process.returncode == 0, process.stdout + process.stderr
    except subprocess.TimeoutExpired:
        passed, said = False, f"still running after {SECONDS} seconds"
    return passed, time.perf_counter() - start, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="programs; all when none is named")
    parser.add_argument("--record", action="store_true", help="write records, under real PyTorch")
    parser.add_argument("--check", metavar="NAME", help="one program in this process")
    options = parser.parse_args()
    if options.check:
        found = check(options.check)
        print("\n".join(found[:10] + [f"... and {len(found) - 10} more"] * (len(found) > 10)))
        raise SystemExit(bool(found))
    every = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "run")
    names = options.names or every
    if unknown := set(names) - set(every):
        parser.error(f"no program called {', '.join(sorted(unknown))}")
    if options.record:
        for name in names:
            if len(names) == 1:
                record(name)
            else:  # each from a fresh start, as it is checked
                subprocess.run([sys.executable, __file__, "--record", name], check=True)
        return
    import torch

    print(f"torch {torch.__version__}\n\n{'program':28}{'packages':46}{'result':9}seconds")
    failed = 0
    for name in names:
        versions = json.loads((RECORDS / f"{name}.json").read_text())["versions"]
        first = ", ".join(f"{package} {version}" for package, version in list(versions.items())[1:3])
        passed, seconds, said = run(name)
        failed += not passed
        print(f"{name:28}{first[:44]:46}{'agrees' if passed else 'FAILS':9}{seconds:7.1f}", flush=True)
        if not passed:
            print("    " + "\n    ".join(said.strip().splitlines()[-12:]))
    print(f"\n{len(names) - failed} of {len(names)} agree with PyTorch")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
