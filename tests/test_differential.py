"""A hundred new programs of each area of ``differential``, and that what differs, ends its process or hangs is found."""

from __future__ import annotations

import random
import secrets
import signal

import pytest
from differential.area import Area, Difference, Known, area_names, attempt, draw_program, find_area, find_difference, reason_of
from differential.running import Report, examine, run_programs
from differential.shrinking import shrink, simpler_statements

SLACK = {
    "low_precision": 1,
    "sparse": 1,
    "func": 1,
}  # programs in a hundred that may differ; none where nothing is said


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", area_names())
def test_new_programs_agree(name: str, oracle: object) -> None:
    seed = secrets.randbelow(1 << 40)
    print(f"python -m tests.differential --area {name} --seed {seed} --count 100")
    texts: list[str] = []
    report = run_programs(Report(name, seed), 100, None, complain=texts.append)
    assert report.count == 100
    assert len(texts) <= SLACK.get(name, 0), "\n\n".join(texts)


@pytest.mark.oracle
@pytest.mark.parametrize("name", area_names())
def test_a_seed_determines_its_program(name: str, oracle: object) -> None:
    area = find_area(name)
    drawn = [draw_program(area, name, seed) for seed in range(20)]
    assert drawn == [draw_program(area, name, seed) for seed in range(20)]
    assert len({tuple(lines) for lines in drawn}) > 10


def test_areas_are_found_by_the_name_of_their_module() -> None:
    assert "views" in area_names()
    assert "running" not in area_names()


# -- the tool itself ---------------------------------------------------------------------------------------------------------------
class Sums(Area):
    """Programs with one wrong statement among right ones; ``wrong`` is another text in each library."""

    def __init__(self, wrong: str, right: str = "3.0", known: tuple[Known, ...] = ()):
        self.wrong, self.right, self.known = wrong, right, known

    def generate(self, draw: random.Random) -> list[str]:
        return ["a = torch.ones(4)", "b = a + 1", f"c = a.add(b).mul(wrong()) if {draw.random()} < 2 else a", "d = a - b"]

    def space(self, torch: object) -> dict[str, object]:
        own = self.wrong if torch.__name__ == "flambeau" else self.right
        return {"torch": torch, "wrong": lambda: eval(own, {"torch": torch})}


@pytest.mark.oracle
@pytest.mark.parametrize(
    "wrong, right, kind",
    [
        ("2.0", "3.0", "values"),
        ("1 / 3 + 1e-4", "1 / 3", "values"),
        ("torch.ones(4, dtype=torch.float64)", "1.0", "dtype"),
        ("torch.ones(2, 4)", "1.0", "shape"),
        ("'text'", "1.0", "exception"),
        ("torch.ones(4, requires_grad=True)", "1.0", "requires_grad"),
    ],
)
def test_differences_are_found_and_shrunk(wrong: str, right: str, kind: str, oracle: object) -> None:
    area = Sums(wrong, right)
    lines = area.generate(random.Random(0))
    found = find_difference(area, lines)
    assert found is not None
    if found.line.startswith("c ="):
        assert found.kind == kind
    said = examine(area, "sums", 0, lines)
    assert "reason" not in said
    assert "d = a - b" not in said["lines"]
    assert len(said["lines"]) <= 2
    assert len("".join(said["lines"])) < 80
    assert said["text"].startswith("-- sums, seed 0\n")


@pytest.mark.oracle
def test_same_programs_are_the_same_and_known_differences_have_their_reason(oracle: object) -> None:
    lines = Sums("3.0").generate(random.Random(0))
    assert find_difference(Sums("3.0"), lines) is None
    because = Known("it is a test", kind="^values$", line="wrong")
    assert examine(Sums("2.0", known=(because,)), "sums", 0, lines) == {"reason": "it is a test"}
    assert "text" in examine(Sums("2.0", known=(Known("another", line="right"),)), "sums", 0, lines)


def test_known_differences_are_told_by_all_their_patterns() -> None:
    difference = Difference("values", "a.sin()", "1", "2")
    area = Area()
    area.known = (
        Known("one", kind="strides"),
        Known("two", line="sin", when=lambda given: given.ours == "0"),
        Known("three", line=r"\.sin"),
    )
    assert reason_of(area, difference) == "three"


PATIENCE = 12.0  # seconds; where other programs keep the machine busy, PyTorch alone needs several to be there


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("how", ["kill", "hang"])
def test_programs_that_end_their_process_or_hang_are_found(how: str, oracle: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their seeds are named, and those after them are run; where PyTorch alone does so, too, it is explained."""
    statement = "os.kill(os.getpid(), signal.SIGSEGV)" if how == "kill" else "time.sleep(1000)"
    monkeypatch.setenv("DIFFERENTIAL_ADDS", f"11 import os, signal, time\nif torch.__name__ == 'flambeau': {statement}")
    texts: list[str] = []
    report = run_programs(Report("views", 10), 3, None, complain=texts.append, patience=PATIENCE, shrinking=0.0)
    assert report.count == 3
    named = [text for text in texts if text.startswith("-- views, seed 11: ")]
    assert len(named) == 1
    assert (signal.SIGSEGV.name if how == "kill" else f"no end within {PATIENCE:g} s") in named[0]
    assert statement in named[0]
    monkeypatch.setenv("DIFFERENTIAL_ADDS", f"11 import os, signal, time\n{statement}")
    report = run_programs(Report("views", 11), 1, None, complain=texts.append, patience=PATIENCE, shrinking=0.0)
    assert (report.count, report.explained.total(), report.unexplained) == (1, 1, 0)


def test_statements_become_simpler() -> None:
    parts = list(simpler_statements("with torch.no_grad(): t1 = t0.abs().add(t2 * 7, alpha=2)"))
    assert "t1 = t0.abs().add(t2 * 7, alpha=2)" in parts
    shorter = [part.removeprefix("with torch.no_grad():\n    ") for part in parts]
    assert {"t1 = t0.abs()", "t1 = t0.abs().add(t2 * 7)", "t1 = t0.abs().add(t2, alpha=2)", "t1 = t0.abs().add(t2 * 1, alpha=2)"} <= set(
        shorter
    )


def test_shrinking_ends_at_what_is_needed() -> None:
    def still(lines: list[str]) -> bool:
        space: dict[str, object] = {}
        for line in lines:
            attempt(line, space)
        return isinstance(space.get("c"), int) and space["c"] >= 5

    assert shrink(["a = 1", "b = 40 + a", "c = max(a, b) + 60", "d = b"], still) == ["c = 5"]
