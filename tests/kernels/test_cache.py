"""Compiled kernels on disk: used by the next process, never trusted blindly, and never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.kernels.compiler import cache, image
from flambeau.kernels.compiler.target import AVX2, AVX512, host

# Two kernels (exp and a sum) on 20000 elements against the reference; prints whether LLVM was needed.
PROGRAM = """
import sys
import numpy as np
import flambeau as torch
from flambeau.core.arrays import native
torch.set_num_threads(2)
x = torch.arange(20000.) / 10000
made = x.exp() + x.sum()
with native.disabled():
    wanted = x.exp() + x.sum()
assert torch.allclose(made, wanted)
assert native.switch.on
print("llvmlite" in sys.modules)
"""


def run(place, program=PROGRAM, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "FLAMBEAU_CACHE": str(place), "OPENBLAS_NUM_THREADS": "1", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() == "True"


def images(place):
    return sorted(place.glob("*.image"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A directory with the kernels of ``PROGRAM``, as bytes by name."""
    place = tmp_path_factory.mktemp("cache") / "new" / "folder"
    assert run(place)
    return {path.name: path.read_bytes() for path in images(place)}


@pytest.fixture
def copy(filled, tmp_path):
    """A directory of its own with these kernels."""
    place = tmp_path / "copy"
    place.mkdir(mode=0o700)
    for name, content in filled.items():
        (place / name).write_bytes(content)
    return place


@pytest.fixture
def here(monkeypatch, tmp_path):
    """This process's cache, in an empty directory."""
    place = tmp_path / "here"
    monkeypatch.setenv("FLAMBEAU_CACHE", str(place))
    cache.directory.cache_clear()
    yield place
    cache.directory.cache_clear()


def test_a_second_process_compiles_nothing(filled, copy):
    assert len(filled) >= 4  # two kernels and the pool's two functions
    before = {path: path.stat().st_mtime_ns for path in images(copy)}
    assert not run(copy)
    assert {path.name: path.read_bytes() for path in images(copy)} == filled
    assert all(path.stat().st_mtime_ns > before[path] for path in images(copy))  # they were used just now


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "header", "entry"])
def test_damaged_files_are_ignored_and_replaced(damage, filled, copy):
    for path in images(copy):
        content = bytearray(path.read_bytes())
        if damage == "flipped":
            content[-1] ^= 1
        elif damage == "header":
            content[0] ^= 1
        elif damage == "entry":
            content[16] ^= 0x40
        path.write_bytes(b"" if damage == "empty" else content[: len(content) // 2] if damage == "truncated" else bytes(content))
    assert run(copy)
    assert {path.name: path.read_bytes() for path in images(copy)} == filled


def test_several_processes_at_once(filled, tmp_path):
    place = tmp_path / "shared"
    environment = {**os.environ, "FLAMBEAU_CACHE": str(place), "OPENBLAS_NUM_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert {path.name: path.read_bytes() for path in images(place)} == filled
    assert not [name for name in os.listdir(place) if not name.endswith(".image")]


def test_an_empty_name_switches_the_cache_off(here, monkeypatch, tmp_path):
    monkeypatch.setenv("FLAMBEAU_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.directory.cache_clear()
    assert cache.directory() is None
    cache.write("a" * 40, b"content")
    assert cache.read("a" * 40) is None and not os.listdir(tmp_path)
    cache.clear()


def test_default_directory(here, monkeypatch, tmp_path):
    monkeypatch.delenv("FLAMBEAU_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache.directory.cache_clear()
    assert cache.directory() == str(tmp_path / "xdg" / "flambeau")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cache.directory.cache_clear()
    assert cache.directory() == str(tmp_path / "home" / ".cache" / "flambeau")


def test_without_a_home_there_is_no_cache_and_it_says_so_once(tmp_path):
    """A folder named ``~`` would take its machine code from whatever directory the program happens to run in."""
    no_home = "import os, pwd\nos.environ.pop('HOME')\npwd.getpwuid = lambda _: {}[0]\n"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", no_home + PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if name not in ("FLAMBEAU_CACHE", "XDG_CACHE_HOME")},
            "HOME": "x",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
        },
    )
    assert done.returncode == 0 and done.stdout.strip() == "True", done.stderr
    assert not os.listdir(tmp_path)
    assert done.stderr.count("compiled kernels are not kept on disk: set FLAMBEAU_CACHE") == 1


@pytest.mark.parametrize("name", ["cache", "./cache", "~/cache", "../cache"])
def test_relative_directories_are_not_used(here, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLAMBEAU_CACHE", name)
    cache.directory.cache_clear()
    with pytest.warns(UserWarning, match="absolute path"):
        assert cache.directory() is None
    assert not os.listdir(tmp_path)
    monkeypatch.delenv("FLAMBEAU_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cache.directory.cache_clear()
    assert cache.directory() == str(tmp_path / "home" / ".cache" / "flambeau")
    monkeypatch.setenv("HOME", "home")
    cache.directory.cache_clear()
    with pytest.warns(UserWarning, match="absolute path"):
        assert cache.directory() is None


def test_a_new_directory_is_ours_alone(here):
    assert stat.S_IMODE(os.stat(cache.directory()).st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_that_others_can_write_to_is_not_used(here, mode):
    here.mkdir()
    here.chmod(mode)
    assert cache.directory() is None


def test_a_directory_of_another_user_is_not_used(here, monkeypatch):
    here.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: here.stat().st_uid + 1)
    assert cache.directory() is None


def test_a_file_in_place_of_the_directory_does_no_harm(here):
    here.write_text("")
    assert cache.directory() is None


def test_a_read_only_directory_does_no_harm(here, monkeypatch):
    here.mkdir(mode=0o700)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # a superuser may write anywhere
    assert cache.directory() is None
    cache.write("a" * 40, b"content")
    assert not os.listdir(here)


def test_a_file_that_cannot_be_put_in_place_does_no_harm(here):
    cache.write("a" * 40, whole(b"first"))
    occupied = here / ("b" * 40 + ".image")
    (occupied / "inside").mkdir(parents=True)
    cache.write("b" * 40, whole(b"second"))
    assert sorted(path.name for path in here.iterdir()) == ["a" * 40 + ".image", occupied.name]


def test_an_unwritable_directory_still_runs(tmp_path):
    """Where no directory can be made, each process compiles."""
    assert run("/proc/none/flambeau")


FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # Python ignores SIGXFSZ: writing more raises OSError
"""


def test_a_full_disk_does_no_harm(tmp_path):
    """Each image is longer than what can be written: kernels run, nothing half-written stays, and the next process compiles again."""
    place = tmp_path / "full"
    for _ in range(2):
        assert run(place, FULL + PROGRAM)
        assert place.is_dir() and not os.listdir(place)
    assert run(place) and images(place)


def whole(content):
    """An image that passes for one."""
    return image.sealed(0, content)


def test_what_was_unused_longest_goes_first(here, monkeypatch):
    content = whole(bytes(1000))
    monkeypatch.setattr(cache, "LIMIT", 5 * len(content))
    monkeypatch.setattr(cache, "TRIM_EVERY", 1)
    for i in range(5):
        cache.write(f"{i:040}", content)
        os.utime(here / f"{i:040}.image", (1000 + i, 1000 + i))
    (here / "notes.txt").write_bytes(bytes(10000))  # not ours
    assert cache.read(f"{0:040}") == content  # its turn comes last now
    cache.write("new", content)
    assert {path.name for path in here.iterdir()} == {"notes.txt", "new.image", *[f"{i:040}.image" for i in (0, 2, 3, 4)]}


def test_trimming_goes_on_where_another_process_removed_a_file(here, monkeypatch):
    content = whole(b"c" * 100)
    for i in range(3):
        cache.write(f"{i:040}", content)
    (here / f"{0:040}.image").unlink()
    (here / f"{0:040}.image").symlink_to(here / "removed")  # whose status cannot be had
    monkeypatch.setattr(cache, "LIMIT", len(content))
    cache._trim(os.fspath(here))
    assert sorted(path.name[-7:] for path in here.iterdir())[0] == "0.image" and len(list(here.iterdir())) == 2


def test_clear(here):
    for i in range(3):
        cache.write(f"{i:040}", whole(b"code"))
    (here / "notes.txt").write_text("")
    cache.clear()
    assert os.listdir(here) == ["notes.txt"] and cache.read(f"{0:040}") is None


def test_keys_differ_by_everything_that_changes_the_code(monkeypatch):
    keys = {
        cache.key_of("ir", AVX2),
        cache.key_of("ir ", AVX2),
        cache.key_of("ir", AVX512),
        cache.key_of("ir", AVX2._replace(cpu="x86-64-v2")),
        cache.key_of("ir", AVX2._replace(features="+fma4")),
    }
    monkeypatch.setattr(cache, "_compiler", lambda: "llvmlite-9.9.9.dist-info")
    keys.add(cache.key_of("ir", AVX2))
    assert len(keys) == 6
    assert cache.key_of("ir", AVX2) in keys


def test_the_compilers_version_is_known_without_importing_it():
    from importlib.metadata import version

    assert cache._compiler() == f"llvmlite-{version('llvmlite')}.dist-info"


def test_images_of_incomplete_objects_are_errors():
    with pytest.raises(image.LinkError, match="ELF"):
        image.link(b"MZ" + bytes(100), "f")
    ir = "declare void @outside()\ndefine void @f() {\n  call void @outside()\n  ret void\n}\n"
    with pytest.raises(image.LinkError, match="'outside'"):
        image.link(image.compile_object(ir, host()), "f")
    with pytest.raises(image.LinkError, match="no symbol 'g'"):
        image.link(image.compile_object("define void @f() {\n  ret void\n}\n", host()), "g")
    with pytest.raises(RuntimeError):
        image.compile_object("define void @f() { nonsense }", host())
