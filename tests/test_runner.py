"""`python -m flambeau program.py` behaves as `python program.py` does, with flambeau where the program says torch."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def run(tmp_path):
    """Write a program to a folder of its own, run it there with the given words before its name, return the finished process."""

    def runner(source, *arguments, words=("-m", "flambeau"), name="program.py", **options):
        (tmp_path / name).write_text(textwrap.dedent(source))
        return start(*words, name, *arguments, cwd=tmp_path, **options)

    return runner


def start(*words, cwd, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False, **options)


def lines(process):
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_every_import_form_gives_the_same_module_objects(run):
    process = run(
        """
        import importlib, sys
        import flambeau
        import torch
        import torch.nn as nn
        import torch.utils.data
        import torch.optim.lr_scheduler as schedulers
        from torch import nn as nn2, optim
        from torch.nn import functional as F, Linear
        from torch.utils.data import DataLoader
        assert torch is flambeau and sys.modules["torch"] is flambeau
        assert nn is nn2 is torch.nn is flambeau.nn is importlib.import_module("torch.nn") is sys.modules["flambeau.nn"]
        assert F is flambeau.nn.functional and Linear is flambeau.nn.Linear
        assert torch.utils.data is flambeau.utils.data and DataLoader is flambeau.utils.data.DataLoader
        assert schedulers is flambeau.optim.lr_scheduler and optim is flambeau.optim
        print(nn.__name__, nn.__spec__.name, torch.__spec__.name)
        """
    )
    assert lines(process) == ["flambeau.nn flambeau.nn flambeau"]


def test_a_missing_submodule_is_named(run):
    process = run("import torch.no_such_part")
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'torch.no_such_part': flambeau stands in for PyTorch here and has no 'flambeau.no_such_part'"
    )


def test_asking_for_a_missing_submodule_is_no_error(run):
    process = run(
        """
        import importlib.util
        print(importlib.util.find_spec("torch.no_such_part"), importlib.util.find_spec("torch.nn").name)
        try:
            import torch.no_such_part.deeper
        except ImportError as error:
            print(error.name)
        """
    )
    assert lines(process) == ["None torch.nn", "torch.no_such_part"]


@pytest.mark.parametrize(
    "call",
    ["program.py", "./program.py", "sub/../program.py", "archive.zip", "folder", "-m module", "-m package.inner", "-m package", "-c code"],
)
def test_the_program_sees_what_python_would_show_it(tmp_path, call):
    source = """
import sys, os
here = os.getcwd()
print([word.replace(here, "HERE") for word in sys.argv])
print(__name__, sys.modules["__main__"].__dict__ is globals())
for name in ("__file__", "__package__", "__doc__"):
    print(name, str(globals().get(name, "absent")).replace(here, "HERE"))
print(None if __spec__ is None else (__spec__.name, __spec__.origin.replace(here, "HERE")))
print(sys.path[0].replace(here, "HERE"))
"""
    for path in (
        "program.py",
        "folder/__main__.py",
        "module.py",
        "package/__init__.py",
        "package/inner.py",
        "package/__main__.py",
        "sub/x",
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("" if path.endswith("__init__.py") else '"""Doc."""\n' + source)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", source)
    words = ["-c", source] if call == "-c code" else call.split()
    ours, pythons = (lines(start(*prefix, *words, "--flag", "a b", cwd=tmp_path)) for prefix in (("-m", "flambeau"), ()))
    assert ours == pythons
    assert "'--flag', 'a b'" in ours[0]


@pytest.mark.parametrize(
    "ending",
    [
        "raise SystemExit(3)",
        "raise SystemExit('a message')",
        "sys.exit()",
        "def f():\n    return 1 / 0\ndef g():\n    f()\ng()",
        "raise KeyboardInterrupt",
        "try:\n    {}['key']\nexcept KeyError as error:\n    raise ValueError('two') from error",
        "import atexit, threading\natexit.register(lambda: print('bye'))\nthreading.Thread(target=lambda: print('thread')).start()",
        "x = = 1",
        "sys.excepthook = lambda kind, value, trace: print('hook', kind.__name__, trace.tb_lineno, file=sys.stderr)\nraise OSError",
        "import os\nos._exit(7)",
    ],
)
def test_endings_are_pythons_own(run, ending):
    source = "import sys\nprint('begun', flush=True)\n" + ending
    ours, pythons = run(source), run(source, words=())
    assert (ours.returncode, ours.stdout, ours.stderr) == (pythons.returncode, pythons.stdout, pythons.stderr)


def test_an_absent_program_is_reported_with_status_2(tmp_path):
    process = start("-m", "flambeau", "absent.py", cwd=tmp_path)
    assert process.returncode == 2
    assert f"can't open file '{tmp_path}/absent.py': [Errno 2] No such file or directory" in process.stderr
    process = start("-m", "flambeau", "-m", "absent_module", cwd=tmp_path)
    assert process.returncode == 1 and "No module named absent_module" in process.stderr
    process = start("-m", "flambeau", cwd=tmp_path)
    assert process.returncode == 2 and "usage: python -m flambeau" in process.stderr


def test_standard_input_is_a_program_too(tmp_path):
    process = start("-m", "flambeau", "-", "word", cwd=tmp_path, input="import sys, torch\nprint(torch.__name__, sys.argv)")
    assert lines(process) == ["torch ['-', 'word']"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_see_the_alias(run, method):
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    process = run(
        f"""
        import multiprocessing, sys
        import torch, torch.nn as nn

        class Answer(tuple):
            pass  # a child that was not forked knows it as __mp_main__.Answer

        def work(queue):
            queue.put(Answer((torch.__name__, nn.__name__, "flambeau" in sys.modules, sys.argv[1:])))

        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            queue = context.Queue()
            child = context.Process(target=work, args=(queue,))
            child.start()
            answer = queue.get(timeout=60)
            print(type(answer) is Answer, *answer)
            child.join()
            print(child.exitcode)
        """,
        "word",
    )
    assert lines(process) == ["True torch flambeau.nn True ['word']", "0"]


def test_a_module_of_the_alias_can_be_run(tmp_path):
    process = start("-m", "flambeau", "-c", "import runpy, torch; print(runpy.run_module('torch.version')['__version__'])", cwd=tmp_path)
    import flambeau

    assert lines(process) == [flambeau.__version__]


def test_install_is_a_context_manager_that_puts_everything_back(run):
    process = run(
        """
        import sys, types
        stranger, child = types.ModuleType("torch"), types.ModuleType("torch.child")
        sys.modules["torch"], sys.modules["torch.child"] = stranger, child
        import flambeau.runner
        with flambeau.runner.install():
            import torch
            import torch.nn
            assert torch is flambeau and "torch.child" not in sys.modules
            with flambeau.runner.install():
                pass
            assert sys.modules["torch"] is flambeau
        import torch
        assert torch is stranger and sys.modules["torch.child"] is child and "torch.nn" not in sys.modules
        assert not any(isinstance(finder, flambeau.runner.AliasFinder) for finder in sys.meta_path)
        from multiprocessing import spawn
        assert spawn.get_command_line.__module__ == "multiprocessing.spawn"
        print("done")
        """,
        words=(),
    )
    assert lines(process) == ["done"]


def test_importing_the_runner_alone_changes_nothing(run):
    process = run("import sys; before = list(sys.meta_path); import flambeau.runner; print(before == sys.meta_path)", words=())
    assert lines(process) == ["True"]
