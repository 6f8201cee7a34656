"""What all tests share: the oracle (real PyTorch, where it is installed), seeds, and state that a test may change."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
import zlib
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from oracle import HAS_ORACLE, NAMES, RESTS, VERSION, asks_by_name, pytorch, rest
from recording import RECORDS, outcome

TURN = os.environ.setdefault("FLAMBEAU_TURN", str(date.today().toordinal()))  # processes that are started later have it from the first

# No deadline: a first call may compile. No random draws in CI: a red run is the change's own doing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.register_profile("fuzz", parent=settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a shell runs in the background ignores Ctrl-C, which tests send
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--asks-pytorch", action="store_true", help="only files of tests that compare with PyTorch")
    parser.addoption("--part", metavar="I/N", help="one of N parts of the tests, another each day; FLAMBEAU_EXHAUSTIVE=1: all")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--asks-pytorch``, whether nothing in a file says that it compares with PyTorch."""
    if not config.getoption("asks_pytorch") or not collection_path.match("test_*.py"):
        return None
    near = collection_path.with_name("conftest.py")
    texts = [path.read_text() for path in (collection_path, near) if path.exists() and path != Path(__file__)]
    return None if any(re.search(r"oracle|ORACLE|of_pytorch|\(same\b|\bmpmath\b", text) for text in texts) else True


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("FLAMBEAU_REQUIRE_ORACLE") == "1":
        if not HAS_ORACLE:
            raise pytest.UsageError(f"FLAMBEAU_REQUIRE_ORACLE=1, but PyTorch is not installed: pip install torch=={VERSION}")
        from importlib.metadata import version

        installed = version("torch").partition("+")[0]
        if installed != VERSION:
            raise pytest.UsageError(f"the oracle is PyTorch {VERSION}, found {installed}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests come first: one that comes last keeps one process busy while the others wait. For a recording, what is recorded alone.

    With ``--asks-pytorch``, only tests that have PyTorch by a fixture or a mark, or in whose code it or mpmath is, which comes with it;
    of those with recorded outcomes, which ran against these without it, a sixth, another each day (``FLAMBEAU_EXHAUSTIVE=1``: all).
    """
    if config.getoption("asks_pytorch"):
        asks: dict[Any, bool] = {}
        for item in items:
            function = getattr(item, "function", None)
            asks[item] = bool(
                hasattr(getattr(item, "module", None), "mpmath")
                or item.get_closest_marker("oracle")
                or NAMES & {*getattr(item, "fixturenames", ())}
            ) or (isinstance(function, FunctionType) and asks_by_name(function))
            if {"of_pytorch", "recorded_oracle"} & {*getattr(item, "fixturenames", ())} and os.environ.get("FLAMBEAU_EXHAUSTIVE") != "1":
                asks[item] = zlib.crc32(item.nodeid.encode()) % 6 == int(TURN) % 6
        config.hook.pytest_deselected(items=[item for item in items if not asks[item]])
        items[:] = [item for item in items if asks[item]]
    if (part := config.getoption("part")) and os.environ.get("FLAMBEAU_EXHAUSTIVE") != "1":
        index, _, parts = part.partition("/")
        turn = (int(TURN) + int(index)) % int(parts)
        mine = [zlib.crc32(item.nodeid.encode()) % int(parts) == turn for item in items]
        config.hook.pytest_deselected(items=[item for item, is_mine in zip(items, mine, strict=True) if not is_mine])
        items[:] = [item for item, is_mine in zip(items, mine, strict=True) if is_mine]
    if RECORDS:
        items[:] = [item for item in items if {"of_pytorch", "recorded_oracle"} & {*getattr(item, "fixturenames", ())}]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Tens of thousands of tests, and PyTorch, live as long as the process: full collections need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not HAS_ORACLE and item.get_closest_marker("oracle"):
        rest()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What rests for want of PyTorch is one line here, and a count of its own at the end."""
    stats = terminalreporter.stats
    skipped = [(report, isinstance(report.longrepr, tuple) and report.longrepr[2].endswith(RESTS)) for report in stats.get("skipped", [])]
    resting = [report for report, rests in skipped if rests]
    if not resting:
        return
    stats["skipped"] = [report for report, rests in skipped if not rests]
    stats["at rest"] = resting
    modules = sum(isinstance(report, pytest.CollectReport) for report in resting)
    whole = f" and {modules} whole files of tests" if modules else ""
    terminalreporter.section("at rest")
    terminalreporter.line(f"{len(resting) - modules} tests{whole} rest, because {RESTS}. To wake them: make test ORACLE=1")


def pytest_report_header() -> str:
    oracle = f"PyTorch {VERSION}" if HAS_ORACLE else "none, but what is recorded of it"
    return f"oracle: {oracle}; kernels: {os.environ.get('FLAMBEAU_KERNELS', 'default')}"


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    """Real PyTorch, on one thread; the test rests where it is not installed."""
    return pytorch()


@pytest.fixture
def of_pytorch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Asks what a program, a function of the library, gives with PyTorch: live, or as it is recorded (``recording.py``)."""
    numbers, file = itertools.count(), request.path.relative_to(Path(__file__).parent).with_suffix("")

    def ask(program: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return outcome(".".join(file.parts), f"{request.node.name} {next(numbers)}", lambda: program(pytorch(), *args, **kwargs))

    return ask


@pytest.fixture(scope="session")
def recorded_oracle() -> Any:
    """PyTorch as a library of the tests of records, or what is recorded of it."""
    from libraries import RecordedOracle

    return RecordedOracle()


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """Every test starts from seed 0 and leaves the default dtype and the grad mode as they were."""
    import flambeau

    dtype, grad = flambeau.get_default_dtype(), flambeau.is_grad_enabled()
    flambeau.manual_seed(0)
    yield
    flambeau.set_default_dtype(dtype)
    flambeau.set_grad_enabled(grad)
