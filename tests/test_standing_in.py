"""Standing in for PyTorch: versions, metadata, child processes, the alias in an environment, and names that wait for their system."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from oracle import pytorch

import flambeau as torch
from flambeau.facades import unsupported
from flambeau.runner import distribution
from flambeau.torch_version import TorchVersion

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = (
    "1.0 1.0.0 1.0.dev1 1.0a1 1.0a1.dev2 1.0b2 1.0rc1 1.0.post1 1.0.post1.dev3 1.0-2 2.13.0+cpu 2.13.0 2.13.0+flambeau.0.1.0 2.13 2.12.9 3 "
    "1!0.1 2.13.0a0+git1234 2.13.0+cu121 2.13.0+1 2.13.0+1.a 2.13.0+a.1 v2.0 2.13.0.dev20240101"
).split()


def start(*words: Any, python: Any = sys.executable, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([python, *map(str, words)], env=environment, capture_output=True, text=True, timeout=120, check=False)


def output(process: subprocess.CompletedProcess[str]) -> list[str]:
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


# -- versions
@pytest.mark.oracle
def test_versions_compare_as_pytorchs_do() -> None:
    Theirs = pytorch("torch.torch_version").TorchVersion

    comparisons = ("__lt__", "__le__", "__eq__", "__gt__", "__ge__")
    for ours, other, comparison in itertools.product(VERSIONS, [*VERSIONS, (2, 13), (2,), "no version"], comparisons):
        assert getattr(TorchVersion(ours), comparison)(other) == getattr(Theirs(ours), comparison)(other), (ours, comparison, other)


def test_the_version_says_what_is_implemented_and_by_whom() -> None:
    assert torch.__version__ is torch.version.__version__
    assert torch.__version__ >= (2, 13) and torch.__version__ > "2.9" and torch.__version__ < "3"
    assert isinstance(torch.__version__, str) and torch.version.release in torch.__version__
    assert torch.version.cuda is None and torch.version.hip is None


# -- programs under the alias
PROGRAM = """
import importlib.metadata, importlib.util, subprocess, sys
import torch
assert importlib.metadata.version("torch") == torch.__version__
assert importlib.metadata.distribution("Torch").metadata["Name"] == "torch"
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torchvision") and importlib.util.find_spec("torchvision.ops")
import torchvision
assert importlib.metadata.version("torchvision") == torchvision.__version__ == torchvision.version.__version__
assert torchvision.__name__ == "flambeau.vision" and torchvision.get_image_backend() == "PIL"
child = "import importlib.metadata as m; a = m.version('torchvision'); import torchvision.ops, torch.nn; "
child += "print(m.version('torch'), torch.nn.__name__, a == torchvision.__version__, torchvision.ops.__name__)"
print(subprocess.check_output([sys.executable, "-c", child], text=True), end="")
print(subprocess.check_output([sys.executable, "-m", "torch.utils.collect_env"], text=True).splitlines()[1])
"""


def test_a_program_and_its_children_mean_flambeau(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    version = str(torch.__version__)
    assert output(start("-m", "flambeau", tmp_path / "program.py")) == [
        f"{version} flambeau.nn True flambeau.vision.ops",
        f"PyTorch version: {version}",
    ]


def test_uninstall_leaves_children_as_they_were() -> None:
    program = """
import os, flambeau.runner
before = os.environ.get("PYTHONPATH")
with flambeau.runner.install():
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0].endswith("shim")
print(os.environ.get("PYTHONPATH") == before)
"""
    assert output(start("-c", program)) == ["True"]


def test_the_shim_says_what_the_package_says() -> None:
    for name in ("torch", "torchvision"):
        text = (ROOT / "flambeau" / "runner" / "shim" / f"{name}.dist-info" / "METADATA").read_text()
        assert text == distribution.metadata_text(name)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of Python without PyTorch; returns its interpreter."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder], check=True, timeout=120)
    return folder / "bin" / "python"


def test_an_alias_is_installed_shown_and_removed(environment: Path, tmp_path: Path) -> None:
    # What flambeau needs is found through the path of this environment; only the alias itself lies in the other one.
    needs = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry.endswith("site-packages"))])
    site = output(start("-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", python=environment))[0]

    def alias(option: str) -> list[str]:
        return output(start("-m", "flambeau", "alias", option, python=environment, PYTHONPATH=needs))

    versions = {"torch": torch.__version__, "torchvision": torch.version.vision}
    assert alias("--status") == [f"no {name} in {site}" for name in versions]
    both = " and ".join(f"{name} {version}" for name, version in versions.items())
    assert alias("--install") == [f"{both} in {site} mean flambeau"]
    assert alias("--status") == [f"{name} {version} in {site} is flambeau" for name, version in versions.items()]
    assert alias("--install") == alias("--install")
    files = sorted(path.name for path in Path(site).iterdir() if "torch" in path.name)
    assert files == sorted(["functorch", *versions, *(f"{name}-{version}.dist-info" for name, version in versions.items())])
    program = f"""
import sys
sys.path.insert(0, {site!r})
import torchvision.ops, torch, torch.nn as nn
from importlib.metadata import version
print(torch.__name__, type(torch.ones(1)), nn.__name__, torchvision.ops.__name__, version("torch"), version("torchvision"))
import functorch
print(functorch.__name__)
"""
    said = f"torch <class 'torch.Tensor'> flambeau.nn flambeau.vision.ops {' '.join(versions.values())}"
    assert output(start("-c", program, python=environment, PYTHONPATH=needs)) == [said, "flambeau.facades.functorch"]
    for name in versions:
        record = next(Path(site).glob(f"{name}-*/RECORD")).read_text().splitlines()
        assert record and all((Path(site) / row.split(",")[0]).exists() for row in record)
    assert alias("--remove") == [f"removed from {site}"]
    assert alias("--remove") == [f"no alias in {site}"]
    assert not [path for path in Path(site).iterdir() if "torch" in path.name]


def test_an_alias_does_not_touch_what_is_there(environment: Path) -> None:
    needs = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry.endswith("site-packages"))])
    site = Path(output(start("-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", python=environment))[0])
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("")
    process = start("-m", "flambeau", "alias", "--install", python=environment, PYTHONPATH=needs)
    assert process.returncode == 1 and "belongs to no distribution" in process.stderr
    (site / "torch-2.0.dist-info").mkdir()
    (site / "torch-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.0\n")
    process = start("-m", "flambeau", "alias", "--install", python=environment, PYTHONPATH=needs)
    assert process.returncode == 1 and "PyTorch 2.0 is installed" in process.stderr
    assert output(start("-m", "flambeau", "alias", "--status", python=environment, PYTHONPATH=needs))[:1] == [
        f"torch 2.0 in {site} is PyTorch"
    ]
    assert (site / "torch" / "__init__.py").read_text() == ""


def test_info_names_what_computes() -> None:
    rows = dict(line.split(None, 1) for line in output(start("-m", "flambeau", "info", FLAMBEAU_KERNELS="numpy")))
    assert rows["kernels"] == "off (FLAMBEAU_KERNELS=numpy)"
    assert rows["flambeau"].startswith(torch.version.release) and "numpy" in rows and "threads" in rows


def test_configuration_in_words() -> None:
    assert "numpy" in torch.__config__.show()
    assert f"torch.get_num_threads() : {torch.get_num_threads()}" in torch.__config__.parallel_info()


# -- modules of which something works
def test_what_is_asked_of_compilers_and_groups_has_the_answers_of_a_plain_program() -> None:
    assert not torch.jit.is_scripting() and not torch.jit.is_tracing()
    assert not torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting()
    assert not torch.onnx.is_in_onnx_export()
    assert torch.distributed.is_available() and not torch.distributed.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        torch.distributed.get_rank()


def test_marks_leave_functions_what_they_are() -> None:
    def double(x: int) -> int:
        return 2 * x

    with pytest.warns(FutureWarning, match="torch.jit.unused"):
        dropped = torch.jit.ignore(drop=True)
    marks = (torch.jit.ignore, dropped, torch.jit.unused, torch.jit.export, torch.jit.script_if_tracing)
    others = (torch.compiler.disable, torch.compiler.disable(recursive=False), torch.compiler.allow_in_graph)
    for mark in (*marks, *others, torch.compiler.assume_constant_result, torch.fx.has_side_effect):
        assert mark(double)(3) == 6
    assert torch.jit.annotate(list[int], [1]) == [1]
    with torch.compiler.set_stance("force_eager"):
        assert torch.compiler.set_stance("default")(double)(4) == 8


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1], list),
        ([1], list[int]),
        (["a"], list[int]),
        ({}, dict),
        ({1: "a"}, dict[int, str]),
        ((1, "a"), tuple[int, str]),
        ((1,), tuple[int, str]),
    ],
)
def test_isinstance_with_parameters(value: Any, kind: Any) -> None:
    oracle = pytorch()

    def asked(library: Any) -> Any:
        try:
            return library.jit.isinstance(value, kind)
        except RuntimeError as error:
            return str(error)

    assert asked(torch) == asked(oracle)


@pytest.mark.parametrize("module", ["onnx"])
def test_what_waits_for_its_system_says_its_name(module: str) -> None:
    namespace = vars(getattr(torch, module))
    waiting = {name: value for name, value in namespace.items() if getattr(value, "is_unsupported", False)}
    assert waiting
    for name, value in waiting.items():
        with pytest.raises(NotImplementedError, match=rf"torch\.{module}\.{name} is not supported yet"):
            value()
        assert not isinstance(value, type) or not isinstance(3, value)
    assert set(waiting).isdisjoint(namespace["__all__"])
    assert unsupported.function("jit", "trace").__module__ == "torch.jit"


def test_compiled_modules_and_functions_stand_for_their_originals() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(model)
        again = torch.compile(compiled, mode="max-autotune")
        function = torch.compile(lambda x: x + 1, fullgraph=True)
        model.compile()

        @torch.compile(dynamic=True)
        def decorated(x: int) -> int:
            return 2 * x

    assert again is not compiled and again._orig_mod is model and function(1) == 2 and decorated(3) == 6
    assert list(compiled.state_dict()) == [f"_orig_mod.{key}" for key in model.state_dict()]
    assert compiled.eval() is compiled and not model.training and not compiled.training
    compiled.scale = 3
    assert model.scale == 3 and isinstance(compiled, torch.nn.Module)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), model(x))
    assert next(compiled.parameters()) is model[0].weight
    assert torch.equal(pickle.loads(pickle.dumps(compiled))(x), model(x))
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(model, mode="default", options={})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        torch.compile(model, mode="quick")
    with pytest.raises(RuntimeError, match="Invalid backend"):
        torch.compile(model, backend="nothing")
    with pytest.raises(RuntimeError, match="expected a function or a module"):
        torch.compile(3)  # type: ignore[arg-type]
    assert torch.compile(model, disable=True) is model


# -- scaling of losses
def scaled_steps(library: Any) -> list[Any]:
    """What a scaler does over steps of which one overflows."""
    parameter = library.nn.Parameter(library.ones(3))
    optimizer = library.optim.AdamW([parameter], lr=0.1)
    scaler = library.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    seen: list[Any] = []
    for step in range(6):
        optimizer.zero_grad()
        scaler.scale((parameter * (float("inf") if step == 3 else 1.0) * 2).sum()).backward()
        if step % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.state_dict(), parameter.tolist()))
    return seen


@pytest.mark.oracle
def test_a_scaler_takes_pytorchs_steps() -> None:
    oracle = pytorch()

    for (state, values), (their_state, their_values) in zip(scaled_steps(torch), scaled_steps(oracle), strict=True):
        assert state == their_state
        assert values == pytest.approx(their_values, rel=1e-6)


def test_a_scaler_wants_its_methods_in_order() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for method in (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            method()
    scaler.scale(parameter.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: None)
    scaler.update()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    narrow = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
    narrow.grad = torch.ones(2, dtype=torch.float16)
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(torch.optim.SGD([narrow], lr=0.1))


def test_a_scaler_that_is_off_changes_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.amp.GradScaler("cuda")
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    loss = parameter.sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1 and scaler.state_dict() == {} and not scaler.is_enabled()
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0, 0, 0]


@pytest.mark.oracle
def test_older_spellings_warn_as_pytorchs_do() -> None:
    oracle = pytorch()

    def warned(library: Any) -> list[tuple[type, str]]:
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            library.cuda.amp.autocast()
            library.cuda.amp.GradScaler()
            library.cpu.amp.autocast(enabled=False)
            library.cpu.amp.GradScaler(init_scale=2.0)
            library.cuda.amp.custom_fwd(lambda ctx, x: x)
            library.cuda.amp.custom_bwd(lambda ctx, x: x)
        return [(record.category, str(record.message)) for record in records]

    assert warned(torch) == warned(oracle)


def test_a_module_that_is_kept_from_the_compiler_stays_a_module() -> None:
    layer = torch.nn.Linear(2, 2)
    kept = torch.compiler.disable(layer)
    assert list(kept.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"] and kept._orig_mod is layer
    assert torch.equal(kept(torch.ones(1, 2)), layer(torch.ones(1, 2)))
    assert torch.compiler.disable(torch.nn.Linear) is torch.nn.Linear
    with pytest.raises(AssertionError, match="must be callable"):
        torch.compiler.disable(3)


def test_the_path_of_modules_is_given_back_as_the_program_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from flambeau import runner

    for given, left in ((None, None), ("/a", "/a"), (f"/a{os.pathsep}{os.pathsep}/b", f"/a{os.pathsep}{os.pathsep}/b")):
        monkeypatch.delenv("PYTHONPATH", raising=False)
        if given is not None:
            monkeypatch.setenv("PYTHONPATH", given)
        runner.show_shim()
        assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == runner.SHIM
        runner.hide_shim()
        assert os.environ.get("PYTHONPATH") == left


def test_a_failed_installation_leaves_the_alias_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "site_packages", lambda: tmp_path)
    distribution.install()
    before = sorted(tmp_path.rglob("*"))

    def full(*args: Any) -> Any:
        raise OSError("No space left on device")

    monkeypatch.setattr(distribution, "write_shim", full)
    with pytest.raises(OSError, match="No space left"):
        distribution.install()
    assert sorted(tmp_path.rglob("*")) == before
