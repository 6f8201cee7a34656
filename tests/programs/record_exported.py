"""Files that PyTorch writes of the programs in ``tests/helpers/exported_programs.py``, and what these give.

python -m tests.programs.record_exported
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "export")]

from exported_programs import exported, programs_of  # noqa: E402
from oracle import pytorch  # noqa: E402
from test_exported_files import RECORDED, SIZE, plain  # noqa: E402


def main() -> None:
    real: Any = pytorch()
    files: dict[str, bytes] = {}
    outcomes = {}
    for name, case in programs_of(real).items():
        program = exported(real, case)
        for way, each in (("whole", program), ("kernels", program.run_decompositions())):
            buffer = io.BytesIO()
            real.export.save(each, buffer)
            files[f"{name}.{way}.pt2"] = buffer.getvalue()
        inputs = case.inputs(SIZE if case.dims else 3)
        given = real.utils._pytree.tree_leaves((inputs, case.kwargs))
        outcomes[name] = {
            "inputs": plain(given),
            "outputs": plain(real.utils._pytree.tree_leaves(program.module()(*inputs, **case.kwargs))),
        }
    files["outcomes.json"] = json.dumps(outcomes).encode()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for place, content in files.items():
            entry = tarfile.TarInfo(place)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    RECORDED.write_bytes(lzma.compress(whole.getvalue(), preset=9))
    print(f"{len(files) - 1} files, {RECORDED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
