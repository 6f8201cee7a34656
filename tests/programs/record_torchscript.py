"""Archives that PyTorch writes of the programs in ``tests/helpers/jit_programs.py``, and what these give.

python -m tests.programs.record_torchscript
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "jit")]

from jit_programs import made, programs_of  # noqa: E402
from oracle import pytorch  # noqa: E402
from test_archives import RECORDED, plain  # noqa: E402


def stripped(archive: bytes) -> bytes:
    """An archive without the records that only debuggers read."""
    made_of = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(made_of, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            if not name.endswith("debug_pkl"):
                new.writestr(zipfile.ZipInfo(name), old.read(name))
    return made_of.getvalue()


def main() -> None:
    real: Any = pytorch()
    files: dict[str, bytes] = {}
    outcomes = {}
    for name, program in programs_of(real).items():
        for way in program.ways:
            plainly, compiled, inputs = made(real, name, way)
            buffer = io.BytesIO()
            real.jit.save(compiled, buffer)
            files[f"{name}.{way}.pt"] = stripped(buffer.getvalue())
            outcomes[f"{name}.{way}"] = plain(plainly(*inputs))
    files["outcomes.json"] = json.dumps(outcomes).encode()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for place, content in files.items():
            entry = tarfile.TarInfo(place)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    RECORDED.write_bytes(lzma.compress(whole.getvalue(), preset=9))
    print(f"{len(files) - 1} archives, {RECORDED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
