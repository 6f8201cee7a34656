"""Storages and tensors whose memory is a file, storages as data of tensors, and the safetensors package on top of them."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import flambeau


def _written(library: Any, path: str, shared: bool) -> Any:
    storage = library.UntypedStorage.from_file(path, shared, 8)
    storage[0] = 77
    return pathlib.Path(path).read_bytes()[:3], storage.tolist(), storage.filename == path, storage.untyped().nbytes()


CALLS: dict[str, Callable[[Any, str], Any]] = {
    "private": lambda library, path: _written(library, path, False),
    "shared": lambda library, path: _written(library, path, True),
    "nothing": lambda library, path: library.UntypedStorage.from_file(path).nbytes(),
    "by name": lambda library, path: library.UntypedStorage.from_file(path, shared=False, nbytes=4).tolist(),
    "too short": lambda library, path: library.UntypedStorage.from_file(path, False, 100),
    "grown": lambda library, path: (library.UntypedStorage.from_file(path, True, 100).tolist(), pathlib.Path(path).stat().st_size),
    "made": lambda library, path: (library.from_file(path + "2", True, 3).tolist(), pathlib.Path(path + "2").stat().st_size),
    "missing": lambda library, path: library.UntypedStorage.from_file(path + "3", False, 4),
    "typed": lambda library, path: library.ShortStorage.from_file(path, False, 3).tolist(),
    "tensor": lambda library, path: library.from_file(path, size=3, dtype=library.int32).tolist(),
    "tensor of the default": lambda library, path: (library.from_file(path, size=2).dtype.itemsize, library.from_file(path).tolist()),
    "tensor with a gradient": lambda library, path: library.from_file(path, size=2, requires_grad=True).requires_grad,
    "written through a tensor": lambda library, path: (library.from_file(path, True, 4).fill_(1), pathlib.Path(path).read_bytes())[1],
    "tensor too long": lambda library, path: library.from_file(path, size=1000),
    "negative": lambda library, path: library.from_file(path, size=-1),
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning")
@pytest.mark.parametrize("name", CALLS)
def test_files_as_memory_are_as_in_pytorch(name: str, oracle: Any, tmp_path: pathlib.Path) -> None:
    results = []
    for library in (oracle, flambeau):
        for old in tmp_path.iterdir():
            old.unlink()
        (tmp_path / "file").write_bytes(bytes(range(16)))
        try:
            results.append(CALLS[name](library, str(tmp_path / "file")))
        except RuntimeError as error:
            results.append(str(error))
    assert results[0] == results[1]


STORAGES: dict[str, Callable[[Any, Any], Any]] = {
    "bytes": lambda library, x: library.asarray(x.untyped_storage(), dtype=library.uint8),
    "floats": lambda library, x: library.asarray(x.untyped_storage()[4:12], dtype=library.float32),
    "without a dtype": lambda library, x: library.asarray(x.untyped_storage()),
    "a rest is left": lambda library, x: library.asarray(x.untyped_storage()[:15], dtype=library.float64),
    "a copy": lambda library, x: library.asarray(x.untyped_storage(), dtype=library.float32, copy=True),
    "as_tensor": lambda library, x: library.as_tensor(x.untyped_storage(), dtype=library.float32),
}


@pytest.mark.parametrize("name", STORAGES)
def test_storages_are_data_of_tensors(name: str, oracle: Any) -> None:
    results = []
    for library in (oracle, flambeau):
        x = library.arange(4, dtype=library.float32)
        made = STORAGES[name](library, x)
        results.append((made.tolist(), str(made.dtype), made.data_ptr() - x.data_ptr() if name != "a copy" else 0))
    assert results[0] == results[1]


SAFETENSORS = """
import sys, torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
assert "flambeau" in torch.__version__
path = sys.argv[1]
kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn)
state = {str(kind): torch.tensor([[0, 1, 2], [3, 4, 5]]).to(kind) for kind in kinds}
state.update(empty=torch.empty(0, 3), scalar=torch.tensor(2.5))
save_file(state, path, metadata={"by": "test"})
for back in (load_file(path), load(save(state)), torch.load(path)):
    assert {key: (value.dtype, value.shape, value.double().tolist()) for key, value in back.items()} == {
        key: (value.dtype, value.shape, value.double().tolist()) for key, value in state.items()
    }
with safe_open(path, framework="pt", device="cpu") as file:
    assert file.metadata() == {"by": "test"}
    assert file.get_slice("torch.float32")[:, 1:2].tolist() == [[1], [4]]
back["scalar"].add_(1)
net, other = (torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)) for _ in range(2))
save_model(net, path)
assert load_model(other, path) == (set(), []) and torch.equal(net[0].weight, other[0].weight)
"""


def test_safetensors_runs_as_it_is(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("safetensors", reason="the safetensors package is not installed")
    program = tmp_path / "program.py"
    program.write_text(SAFETENSORS)
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", str(program), str(tmp_path / "x.safetensors")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
