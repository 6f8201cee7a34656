"""One process collects all tests; for every change it forks a child, which makes the change and runs the chosen tests until one fails.

A test that fails counts if it passes in a child without the change.  A child that dies or hangs has noticed, too.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from . import choosing, swapping
from .changes import Site

ROOT = Path(__file__).parents[2]
AFRESH = 60  # tests of a change in a process of its own
WALL = 240  # seconds after which a child hangs


class Mutants:
    """A pytest plugin whose loop runs changes in place of tests."""

    def __init__(self, sites: list[Site], results: Path, seconds: float, limit: int, seed: int):
        self.sites, self.results, self.seconds, self.limit, self.seed = sites, results, seconds, limit, seed
        self.failed: list[str] = []
        self.trusted: set[str] = set()
        self.excluded: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        swapping.import_everything()
        self.items = session.items
        ids = [item.nodeid for item in session.items]
        for site in self.sites:
            began = time.monotonic()
            numbers = choosing.chosen(site, ids, self.seed, self.limit)
            outcome, detail = self.judge(site, numbers)
            if outcome == "survived" and site.kind != "rounded":
                outcome, detail = self.afresh(site, [ids[number] for number in numbers[:AFRESH]]) or (outcome, detail)
            with self.results.open("a") as file:
                file.write(json.dumps({"key": site.key, "site": str(site), "outcome": outcome, "detail": detail}) + "\n")
            print(f"{outcome:9} {time.monotonic() - began:5.0f} s  {site}  {detail}", file=sys.__stderr__, flush=True)
        return True

    def judge(self, site: Site, numbers: list[int]) -> tuple[str, str]:
        while True:
            outcome, detail = self.child(partial(self.run, site, numbers))
            if outcome != "killed" or detail in self.trusted or detail.startswith("("):
                return outcome, detail
            failed = [n for n in numbers if self.items[n].nodeid == detail]
            again, _ = self.child(partial(self.run, None, failed))
            if again == "survived":
                self.trusted.add(detail)
                return outcome, detail
            self.excluded.add(detail)  # it fails here without a change; those before it passed
            print(f"fails without a change: {detail}", file=sys.__stderr__, flush=True)
            numbers = numbers[numbers.index(failed[0]) + 1 :]

    def afresh(self, site: Site, ids: list[str]) -> tuple[str, str] | None:
        """In a process and a copy of their own: what the import runs, or makes code of, has been run here before the change."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("flambeau", "tests", "pyproject.toml"):
                source = ROOT / name
                (shutil.copytree if source.is_dir() else shutil.copy)(source, Path(folder) / name)
            own = ["-o", "addopts=--import-mode=importlib -p no:logging", "-p", "no:xdist", "-p", "no:cacheprovider", "-q", "-x"]
            environment = {**os.environ, "PYTHONPATH": folder}

            def failed(text: str, names: list[str]) -> list[str]:
                (Path(folder) / "flambeau" / site.path).write_text(text)
                command = [sys.executable, "-m", "pytest", *own, *names]
                done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                lines = [line.partition(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return (lines or ["(the import)"]) if done.returncode else []

            original, changed = site.source()
            names = [name for name in ids if name not in self.excluded]
            found = failed(changed, names)
            if not found or failed(original, names):
                return None  # nothing fails, or without a change, too
            return "killed", found[0] + " afresh"

    def run(self, site: Site | None, numbers: list[int]) -> tuple[str, str]:
        """In the child."""
        rounding = swapping.Rounding()
        if site is not None:
            try:
                swapping.apply(site)
            except swapping.Unchanged as reason:
                return "unchanged", str(reason)
        chosen = [self.items[n] for n in numbers if self.items[n].nodeid not in self.excluded]
        began, ran = time.process_time(), 0
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException:
                return "killed", item.nodeid
            ran += 1
            if self.failed:
                return "killed", self.failed[0]
            if time.process_time() - began > self.seconds:
                break
        if site is not None and site.kind == "rounded" and rounding.given and not rounding.altered:
            return "unchanged", "rounds nothing that has more digits"
        return "survived", f"({ran} tests)"

    def child(self, work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        mine, theirs = os.pipe()
        process = os.fork()
        if not process:
            try:
                os.setpgid(0, 0)
                os.close(mine)
                silent = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(silent, descriptor)
                try:
                    answer = json.dumps(work())
                except BaseException:
                    answer = json.dumps(("broken", traceback.format_exc()[-400:]))
                os.write(theirs, answer.encode())
            finally:
                os._exit(0)
        os.close(theirs)
        answered, _, _ = select.select([mine], [], [], WALL)
        answer = os.read(mine, 1 << 16) if answered else b""
        os.close(mine)
        for target in (lambda: os.killpg(process, signal.SIGKILL), lambda: os.kill(process, signal.SIGKILL)):
            try:
                target()
            except ProcessLookupError:
                pass
        _, status = os.waitpid(process, 0)
        if answer:
            return tuple(json.loads(answer))  # type: ignore[return-value]
        return "killed", f"(signal {os.WTERMSIG(status)})" if answered and os.WIFSIGNALED(status) else "(it hung)"
