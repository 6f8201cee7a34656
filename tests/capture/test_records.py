"""Every operation's record, recorded on one sample and replayed on another, gives what eager calls give."""

from __future__ import annotations

import os

import pytest
from programs.capture_records import SKIPPED, outcomes
from records import RECORDS

NAMES = sorted(name for name in RECORDS if name not in SKIPPED)
TURN = int(os.environ.get("FLAMBEAU_TURN", "0"))
REFUSED = 60  # records of which no sample is replayed: other devices, memory of NumPy, states of generators


def wrong(names: list[str]) -> dict[str, list[str]]:
    return {name: bad for name in names if (bad := [each for each in outcomes([name])[name] if "different" in each])}


def test_a_sample_of_records_is_replayed_rightly() -> None:
    assert not wrong(NAMES[TURN % 40 :: 40])


@pytest.mark.slow
def test_all_records_are_replayed_rightly() -> None:
    found = outcomes(NAMES)
    assert not {name: counts for name, counts in found.items() if any("different" in each for each in counts)}
    assert sum(not any("equal" in each for each in counts) for counts in found.values()) <= REFUSED
