"""Every name and old spelling of ``inventory.txt`` exists and does what stands beside it."""

from __future__ import annotations

import functools
import inspect
import io
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.core import once

TEXT = (Path(__file__).parent / "inventory.txt").read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", TEXT, re.MULTILINE))
LINE = re.compile(r"([\w., ]+)([:!~]) (.+)")


def same(found: Any, expected: Any, tolerance: float = 1e-5) -> bool:
    return np.shape(found) == np.shape(expected) and np.allclose(found, expected, tolerance, tolerance)


def restored(check: Callable[[], bool]) -> bool:
    """``check`` with the default dtype put back."""
    before = flambeau.get_default_dtype()
    try:
        return check()
    finally:
        flambeau.set_default_dtype(before)


def printed(check: Callable[[], bool]) -> bool:
    try:
        return check()
    finally:
        flambeau.set_printoptions(profile="default")


def kept_threads(check: Callable[[], bool]) -> bool:
    before = flambeau.get_num_threads()
    try:
        return check()
    finally:
        flambeau.set_num_threads(before)


def saved(value: Any, **options: Any) -> Any:
    """What comes back from a file."""
    file = io.BytesIO()
    flambeau.save(value, file)
    file.seek(0)
    return flambeau.load(file, **options)


def typed(name: str, dtype: Any) -> bool:
    """Whether an old constructor takes values and sizes and is the type's name."""
    constructor = getattr(flambeau, name)
    made = constructor([1, 0])
    return made.dtype is dtype and made.type() == f"torch.{name}" and constructor(2, 3).shape == (2, 3) and isinstance(made, constructor)


class Part:
    """A part of the package under a short name, imported when it is asked for something."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(functools.reduce(getattr, self._path.split("."), flambeau), name)


def pictured(channels: int = 3) -> Any:
    """A picture of Pillow's, 10 wide and 8 high."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(80 * channels, dtype=np.uint8).reshape(8, 10, channels)
    return image.fromarray(pixels if channels > 1 else pixels[:, :, 0])


def in_folder(check: Callable[[str], bool]) -> bool:
    """``check`` of a folder with two classes of pictures, ``b/0.png`` among them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("b", "a"):
            (Path(folder) / name).mkdir()
            pictured().save(Path(folder) / name / "0.png")
        return check(folder)


def tags(program: Callable[[Any], Any]) -> list[str]:
    """What a program that is given a ``SummaryWriter`` has written, file by file."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    with tempfile.TemporaryDirectory() as folder:
        with flambeau.utils.tensorboard.SummaryWriter(folder) as writer:
            program(writer)
        events = [event for path in sorted(Path(folder).rglob("*tfevents*")) for event in EventFileLoader(str(path)).Load()]
        return [value.tag for event in events for value in event.summary.value]


def planned(make: Callable[[], Any]) -> Any:
    """A network that is made without memory or initial weights."""
    with flambeau.device("meta"):
        return make()


def arguments(function: Any) -> str:
    """Names of a function's arguments."""
    return " ".join(inspect.signature(function).parameters)


def alone(check: Callable[[], bool]) -> bool:
    """``check`` in a group of one process, that ``env://`` finds."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
            patch.setenv(name, value)
        flambeau.distributed.init_process_group("gloo", init_method="env://")
        try:
            return check()
        finally:
            flambeau.distributed.destroy_process_group()


def scope() -> dict[str, Any]:
    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    return {
        "torch": flambeau,
        "np": np,
        "pytest": pytest,
        "x": x,
        "v": flambeau.tensor([1.0, 2.0, 3.0]),
        "s": flambeau.tensor([[3.0, 1.0], [1.0, 2.0]]),
        "b": flambeau.tensor([[2.0], [8.0]]),
        "i": flambeau.tensor([0, 2]),
        "D": Part("distributions"),
        "T": Part("vision.transforms"),
        "models": Part("vision.models"),
        "datasets": Part("vision.datasets"),
        **{
            helper.__name__: helper
            for helper in (alone, same, restored, printed, kept_threads, saved, typed, pictured, in_folder, tags, planned, arguments)
        },
    }


def exists(name: str) -> bool:
    try:
        functools.reduce(getattr, name.split("."), flambeau)
    except AttributeError:
        return False
    return True


def failures(lines: str) -> Iterator[str]:
    """What does not hold of a section's lines."""
    for line in lines.strip().split("\n"):
        once._said.clear()
        names, kind, rest = LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        expected, expression = rest.split(" ", 1) if kind == "~" else ("", rest)
        if kind != "~" and names != "operators":
            yield from (f"{name}: does not exist" for name in names.split(", ") if not exists(name))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                problem = "" if eval(expression, scope()) else "does not hold"
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                if expected and isinstance(error, eval(expected, {"UnpicklingError": UnpicklingError})):
                    continue
        if problem or expected:
            yield f"{line}\n    {problem or f'does not raise {expected}'}"
        if kind == "!" and not caught:
            yield f"{line}\n    gives no warning"


@pytest.mark.parametrize("section", SECTIONS)
def test_names_and_spellings(section: str) -> None:
    wrong = list(failures(SECTIONS[section]))
    assert not wrong, "\n".join(wrong)


def test_the_list_is_read_whole() -> None:
    assert len(SECTIONS) == 18 and all(LINE.fullmatch(line) for lines in SECTIONS.values() for line in lines.strip().split("\n"))
