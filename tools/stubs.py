"""Writes ``flambeau-stubs``, which tells type checkers of modules that are only names, as ``flambeau.mps`` is: ``python -m tools.stubs``.

``flambeau.facades.modules`` makes these modules when the package is imported, so that no file has their names. The stubs are partial
(PEP 561): of all other modules type checkers read the sources.
"""

from __future__ import annotations

from pathlib import Path

from flambeau.facades.modules import ELSEWHERE, NAMES

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "flambeau-stubs"


def files() -> dict[Path, str]:
    """The contents of each stub."""
    lines = {name: [f"from flambeau.{place} import *"] for name, place in ELSEWHERE.items()}
    for name, places in NAMES.items():
        lines[name] = [
            f"from {f'flambeau.{place}'.rstrip('.')} import {each} as {each}" for place, listed in places.items() for each in listed.split()
        ]
    packages = {name.rpartition(".")[0] for name in lines} - {""}
    found = {FOLDER / "py.typed": "partial\n"}
    for name in sorted({*lines, *packages}):
        path = (
            FOLDER.joinpath(*name.split("."), "__init__.pyi") if name in packages else FOLDER.joinpath(*name.split(".")).with_suffix(".pyi")
        )
        found[path] = "".join(f"{line}\n" for line in lines.get(name, []))
    return found


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
