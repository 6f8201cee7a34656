"""A pytest plugin: a test that asks for a device beyond the machine's is skipped, by the error that says so."""

from __future__ import annotations

from collections.abc import Generator

import pytest

import flambeau


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    try:
        yield
    except Exception as error:
        count = flambeau.cuda.device_count()
        seen: BaseException | None = error
        while seen is not None and not (isinstance(seen, flambeau.AcceleratorError) and "invalid device ordinal" in str(seen)):
            seen = seen.__context__  # pytest.raises expected another message
        if seen is None or not 1 <= count < 3:
            raise
        pytest.skip(f"needs more than the {count} of this machine")
