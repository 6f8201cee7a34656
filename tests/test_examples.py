"""The example programs run unchanged on flambeau, and take the same steps as on real PyTorch."""

from __future__ import annotations

import re

import pytest
from example_programs import QUICK, ROOT, largest_difference, losses, run, run_quickly
from oracle import pytorch

pytest.importorskip("sklearn")

# What an episode's loss is says nothing about how well the actor plays.
NOT_FALLING = {"actor_critic"}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What every program prints on flambeau, by name."""
    return run_quickly(on_flambeau=True, folder=tmp_path_factory.mktemp("flambeau"))


def test_every_program_is_run():
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert programs == {*QUICK, "digits"}
    table = (ROOT / "examples" / "README.md").read_text()
    assert programs == set(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\)", table, re.MULTILINE))


@pytest.mark.parametrize("name", QUICK)
def test_a_program_names_only_torch(name):
    assert not re.search(r"^\s*(import|from) flambeau", (ROOT / "examples" / f"{name}.py").read_text(), re.MULTILINE)


@pytest.mark.slow
def test_programs_learn_on_flambeau(outputs):
    for name in QUICK.keys() - NOT_FALLING:
        values = losses(outputs[name])
        assert sum(values[-1]) < 0.95 * sum(values[0]), name


@pytest.mark.oracle
def test_programs_take_pytorchs_steps(outputs, oracle, tmp_path):
    theirs = run_quickly(on_flambeau=False, folder=tmp_path)
    differences = {name: largest_difference(losses(outputs[name]), losses(theirs[name])) for name in QUICK}
    assert max(differences.values()) < 1e-4, differences


@pytest.mark.slow
def test_the_demo_reads_98_percent_of_the_digits(tmp_path):
    output = run(ROOT / "examples" / "digits.py", "--seed", 3, "--out", "results", folder=tmp_path)
    trained, restored = re.search(r"test accuracy ([\d.]+)%, from the checkpoint ([\d.]+)%", output).groups()
    assert trained == restored
    assert float(trained) >= 98
    assert (tmp_path / "results" / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "results" / "checkpoint.pth").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.oracle
def test_the_demo_trains_as_on_pytorch(tmp_path):
    pytorch()
    output = run(ROOT / "examples" / "digits.py", "--compare", "--epochs", 5, folder=tmp_path)
    assert "loss of the first 100 steps" in output
