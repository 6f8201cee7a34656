"""Rules hang on operations under their keys, and a key that no operation has is an error, at once or when all families are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flambeau.core.calls.registry import TABLES, import_late
from flambeau.core.calls.tables import Rules, rules_of


def test_a_rule_hangs_on_its_operation() -> None:
    rules = Rules("a test")
    try:

        @rules("sum", "nn.functional.linear")
        def rule() -> None: ...

        assert rules.of(TABLES["torch"]["sum"]) is rule is rules["nn.functional.linear"]
        assert rules.of(TABLES["torch"]["mean"]) is None and "mean" not in rules
        assert sorted(rules) == ["nn.functional.linear", "sum"]
    finally:
        for key in list(rules):
            del rules_of(key)["a test"]


@pytest.mark.parametrize(
    ("key", "words"),
    [("summ", "no operation"), ("linear", "no operation"), ("nn.functional.sum", "no operation"), ("special.expm1", "an alias of expm1")],
)
def test_a_key_of_nobody_is_an_error(key: str, words: str) -> None:
    import_late()
    with pytest.raises(TypeError, match=words):
        Rules("a test")[key] = print
    assert key not in Rules("a test")


def test_a_key_is_looked_for_again_when_late_families_are_there() -> None:
    program = """
from flambeau.core.calls.registry import entries
from flambeau.core.calls.tables import Rules
rules = Rules("a test")
rules["fft.fft"] = rules["no_such"] = print  # nobody can say yet
for _ in range(2):
    try:
        list(entries())
    except TypeError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "a rule for no_such, which is no operation\n" * 2
