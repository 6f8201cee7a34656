"""CUDA, on machines without a GPU: through a stand-in for CuPy (``fake_cupy``), in processes of their own.

FLAMBEAU_CUDA_RECORDS=all   every operation's record, not a sample of each family
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from devices import fake_cupy, list_cupy

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    paths = [str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")]
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment}
    return subprocess.run(
        [sys.executable, *command],
        cwd=TESTS.parent,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def check_tests_pass(*arguments: str, **environment: str) -> None:
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "devices.with_fake_cupy", *arguments]
    done = run(command, **environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    "file", ["devices/cuda_cases.py", "devices/cuda_module_cases.py", "devices/test_cuda_names.py", "recipes/test_devices.py"]
)
def test_with_three_devices(file: str) -> None:
    check_tests_pass(str(TESTS / file), "-m", "not oracle")


@pytest.mark.parametrize("file", ["devices/cuda_cases.py", "devices/cuda_module_cases.py", "devices/test_cuda_names.py"])
def test_with_one_device(file: str) -> None:
    check_tests_pass(str(TESTS / file), "-p", "devices.fewer_devices", "-m", "not oracle", CUDA_VISIBLE_DEVICES="0")


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_records(device: str) -> None:
    every = "1" if os.environ.get("FLAMBEAU_CUDA_RECORDS") == "all" else "12" if device == "cuda:1" else "24"
    check_tests_pass(str(TESTS / "devices/test_records_on_probe.py"), FLAMBEAU_TEST_DEVICE=device, FLAMBEAU_TEST_EVERY=every)


def test_records_of_other_dtypes() -> None:
    every = "1" if os.environ.get("FLAMBEAU_CUDA_RECORDS") == "all" else "12"
    check_tests_pass(str(TESTS / "devices/cuda_dtype_cases.py"), FLAMBEAU_TEST_DEVICE="cuda:1", FLAMBEAU_TEST_EVERY=every)


def test_nothing_looks_for_cupy_until_a_device_is_asked_for() -> None:
    program = """
import sys
import flambeau as torch
import flambeau.cuda, flambeau.cuda.comm
torch.manual_seed(3); torch.rand(2); torch.ones(2).is_pinned(); torch.cuda.is_initialized()
with torch.cuda.stream(None): pass
assert "flambeau.core.arrays.cuda" not in sys.modules and "cupy" not in sys.modules
"""
    done = run(["-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "cupy",
    [
        "raise ImportError('libcuda.so.1: cannot open shared object file')",
        "raise RuntimeError('the driver is too old')",
        "class cuda:\n    class runtime:\n        def getDeviceCount():\n            raise RuntimeError('cudaErrorInsufficientDriver')",
        "class cuda:\n    class runtime:\n        def getDeviceCount():\n            return 0",
    ],
)
def test_a_cupy_that_finds_no_device_is_no_cuda(cupy: str, tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text(cupy)
    program = """
import flambeau as torch
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not torch.backends.cuda.is_built()
assert torch.accelerator.current_accelerator() is None
try:
    torch.ones(2, device="cuda")
except AssertionError as error:
    assert str(error) == "Torch not compiled with CUDA enabled"
else:
    raise SystemExit("made a tensor")
"""
    done = run(["-c", program], PYTHONPATH=os.pathsep.join((str(TESTS.parent), str(tmp_path))))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("visible", "count"), [("", 0), ("1", 1), ("0,2", 2)])
def test_visible_devices_are_chosen_by_the_environment(visible: str, count: int) -> None:
    program = f"""
import devices.with_fake_cupy
import flambeau as torch
assert torch.cuda.device_count() == {count} and torch.cuda.is_available() is {count > 0}
"""
    done = run(["-c", program], CUDA_VISIBLE_DEVICES=visible)
    assert done.returncode == 0, done.stderr


def test_the_stand_in_has_no_name_that_cupy_has_not() -> None:
    module = fake_cupy.make_module()
    names = fake_cupy.public_names(module)
    assert len(names) > 50
    assert set(names) <= set(fake_cupy.CUPY)


def test_the_stand_in_refuses_what_cupy_refuses() -> None:
    module = fake_cupy.make_module()
    x = module.arange(3, dtype="float32")
    for refused in (
        lambda: module.take(x, x.astype("int64"), mode="clip"),
        lambda: x.sum(0, where=x > 0),
        lambda: module.bitwise_and(x, x),
        lambda: x.get(copy=True),
        lambda: module.add(x, x, subok=False),
    ):
        with pytest.raises(TypeError):
            refused()
    with pytest.raises(AttributeError):
        module.vecdot  # noqa: B018
    with module.cuda.Device(1), pytest.raises(ValueError, match="Peer access is unavailable"):
        x + 1


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_the_list_of_names_is_cupys() -> None:
    done = run([str(Path(list_cupy.__file__))])
    assert done.returncode == 0, done.stderr
    assert done.stdout == fake_cupy.NAMES.read_text()
