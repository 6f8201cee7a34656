"""``torch.utils.tensorboard``: files that the same calls write under both libraries, message by message, and TensorBoard shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from flambeau.utils import tensorboard
from flambeau.utils.tensorboard import summary as summaries

ROOT = Path(__file__).resolve().parent.parent


def summary_writer(library: Any) -> Any:
    if library is flambeau:
        return tensorboard.SummaryWriter
    SummaryWriter = pytorch("torch.utils.tensorboard").SummaryWriter

    return SummaryWriter


def events_of(path: Path) -> list[Any]:
    return [Event.FromString(record) for record in RawEventFileLoader(str(path)).Load()]


def contents(folder: Path) -> dict[str, Any]:
    """What lies in a folder: the events of event files, whose names end in a process and a number, and the bytes of others."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if "tfevents" in name:
            found.setdefault(os.path.dirname(name), []).append([str(event) for event in events_of(path)])
        else:
            found[name] = path.read_bytes()
    return found


def written(library: Any, program: Callable[[Any, Any], Any], folder: Path, **options: Any) -> Any:
    """What a program that is given a writer and a library leaves in a folder, and what it prints; or the type of its error."""
    library.manual_seed(0)
    printed = StringIO()
    with redirect_stdout(printed):
        writer = summary_writer(library)(str(folder), **options)
        try:
            program(writer, library)
        except Exception as error:
            return type(error)
        finally:
            writer.close()
    return contents(folder), printed.getvalue().replace(str(folder), "folder")


def scalars(writer: Any, torch: Any) -> None:
    for step, value in enumerate((1, 2.5, torch.rand(1), torch.rand(())[None, None], np.float32(0.1), torch.tensor(3), np.ones((1, 1)))):
        writer.add_scalar("group/value", value, step)
    writer.add_scalar("no step", torch.ones(1, requires_grad=True) * 2)
    writer.add_scalar("new", 0.1, torch.tensor(4), 5.0, new_style=True)
    writer.add_scalar("double", 0.1, np.int64(4), 5.0, new_style=True, double_precision=True)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.bool):
        writer.add_scalar("dtype", torch.tensor([1.1]).to(dtype), 0)


def several_scalars(writer: Any, torch: Any) -> None:
    for step in range(3):
        writer.add_scalars("run/14h", {"a": step, "b": torch.tensor(step / 2)}, step)
    writer.add_scalars("run/14h", {"a": 9}, 3, walltime=8.0)


def tensors(writer: Any, torch: Any) -> None:
    for name in "float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 bool complex64 complex128".split():
        writer.add_tensor(name, (torch.arange(6.0).reshape(2, 3) * 1.25).to(getattr(torch, name)), 1)


def histograms(writer: Any, torch: Any) -> None:
    values = torch.randn(50)
    writer.add_histogram("default", values, 1)
    writer.add_histogram("few", values, 1, max_bins=40)
    writer.add_histogram("odd", values, 1, bins=17, max_bins=5)
    for bins in ("auto", "fd", 4, [-1.0, 0.0, 0.5, 2.0]):
        writer.add_histogram(f"bins {bins}", values.numpy(), 2, bins)
    writer.add_histogram("integers", torch.tensor([[1, 2], [2, 5]]), 0)
    writer.add_histogram("zero", torch.zeros(3), 0)
    writer.add_histogram("one side", values.abs(), 0, bins=3)
    writer.add_histogram_raw("raw", 0.0, 3.0, 4, 6.0, 14.0, [1.0, 2.0, 3.0], torch.tensor([1, 1, 2]), 3)


def images(writer: Any, torch: Any) -> None:
    image = torch.rand(3, 4, 6)
    writer.add_image("CHW", image, 0)
    writer.add_image("HWC", image.permute(1, 2, 0), 1, dataformats="HWC")
    writer.add_image("WHC", (image * 255).to(torch.uint8).permute(2, 1, 0).numpy(), 1, dataformats="whc")
    writer.add_image("HW", image[0] * 3 - 1, 1, dataformats="HW")
    writer.add_image("WH", image[0].numpy(), 1, dataformats="WH")
    writer.add_image("grey", image[:1], 1)
    writer.add_image("bools", image > 0.5, 1)
    batch = torch.rand(10, 3, 4, 5)
    writer.add_images("NCHW", batch, 2)
    writer.add_images("NHWC", batch[:3].permute(0, 2, 3, 1), 2, dataformats="NHWC")
    writer.add_images("grey", batch[:, :1].half(), 2)
    writer.add_image("a batch", batch[:2], dataformats="NCHW")


def boxes(writer: Any, torch: Any) -> None:
    image, corners = torch.rand(3, 40, 50), torch.tensor([[2.0, 3.0, 20.0, 30.0], [5.0, 9.0, 45.0, 35.0]])
    writer.add_image_with_boxes("boxes", image, corners, 1)
    writer.add_image_with_boxes("labels", image, corners, 1, labels=["cat", "dog"])
    writer.add_image_with_boxes("one label", image, corners[:1], 1, labels="cat")
    writer.add_image_with_boxes("too few labels", image, corners.numpy(), 1, labels=["cat"])
    writer.add_image_with_boxes("larger", image.permute(1, 2, 0), corners, 1, rescale=1.5, dataformats="HWC")


def figures(writer: Any, torch: Any) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pair = [pyplot.figure(figsize=(0.5, 0.4)) for _ in range(2)]
    for number, figure in enumerate(pair):
        figure.add_axes((0, 0, 1, 1)).plot([0, number, 1])
    writer.add_figure("one", pair[0], 1, close=False)
    assert pyplot.fignum_exists(pair[0].number)
    writer.add_figure("two", pair, 2)
    assert not any(pyplot.fignum_exists(figure.number) for figure in pair)


def sounds(writer: Any, torch: Any) -> None:
    wave = torch.sin(torch.arange(40.0))
    writer.add_audio("sound", wave[None], 0)
    writer.add_audio("loud", wave.numpy() * 2, 0, sample_rate=8000)


def embeddings(writer: Any, torch: Any) -> None:
    vectors = torch.randn(5, 3)
    writer.add_embedding(vectors)
    writer.add_embedding(vectors, metadata=["a", "b", 3, 4.5, "é"], tag="with/labels %\\", global_step=12)
    rows = [[number, "x"] for number in range(5)]
    writer.add_embedding(vectors.numpy(), metadata=rows, metadata_header=["number", "letter"], tag="columns")
    writer.add_embedding(vectors, label_img=torch.rand(5, 3, 4, 4), tag="pictures")
    writer.add_embedding(vectors, label_img=torch.rand(5, 1, 4, 4), tag="pictures")  # the folder is there


def precision_and_recall(writer: Any, torch: Any) -> None:
    labels, predictions = torch.randint(2, (60,)), torch.rand(60)
    writer.add_pr_curve("curve", labels, predictions, 0)
    writer.add_pr_curve("few", labels.numpy() > 0, predictions.numpy(), 1, num_thresholds=5, weights=np.arange(60.0))
    writer.add_pr_curve("many", labels, predictions, 1, num_thresholds=200)
    writer.add_pr_curve_raw("raw", [75, 64], [150, 105], [0, 45], [0, 11], [0.3, 0.4], [1.0, 0.85], 2, num_thresholds=2)


def layouts(writer: Any, torch: Any) -> None:
    writer.add_custom_scalars_multilinechart(["a", "b"], "category", "title")
    writer.add_custom_scalars_marginchart(["a", "b", "c"])
    writer.add_custom_scalars({"one": {"lines": ["Multiline", ["a", "b"]]}, "two": {"band": ["Margin", ["a", "b", "c"]]}})


def meshes(writer: Any, torch: Any) -> None:
    vertices, faces = torch.rand(1, 4, 3), torch.tensor([[[0, 2, 3], [0, 3, 1]]])
    writer.add_mesh("points", vertices)
    camera = {"camera": {"cls": "PerspectiveCamera", "fov": 75}, "a": 1}
    writer.add_mesh("mesh", vertices, torch.tensor([[[255, 0, 0]] * 4]), faces, camera, 3)


def hyperparameters(writer: Any, torch: Any) -> None:
    parameters = {"lr": 0.1, "bsize": 4, "flag": True, "kind": "adam", "none": None, "tensor": torch.tensor([2.5])}
    writer.add_hparams(parameters, {"loss": 0.5, "accuracy": torch.tensor(0.9)}, run_name="named", global_step=3)
    writer.add_hparams({"lr": 0.1, "kind": "a"}, {"loss": 1}, {"lr": [0.1, 0.2], "kind": ["a", "b"]})


def text(writer: Any, torch: Any) -> None:
    writer.add_text("note", "**bold** é", 2)


def twice(writer: Any, torch: Any) -> None:
    writer.add_scalar("a", 1, 0)
    writer.close()
    writer.close()
    writer.flush()
    writer.add_scalar("a", 2, 1)  # begins a new file
    writer.flush()


PROGRAMS = (
    (scalars, several_scalars, tensors, histograms, images, boxes, figures, sounds, embeddings, precision_and_recall, layouts, meshes)
    + (hyperparameters, text, twice)
)  # fmt: skip


@pytest.fixture
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1234.5)


@pytest.mark.oracle
@pytest.mark.usefixtures("_clock")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_files_are_pytorchs(program: Any, oracle: ModuleType, tmp_path: Path) -> None:
    ours, theirs = written(flambeau, program, tmp_path / "a"), written(oracle, program, tmp_path / "b")
    assert ours == theirs
    assert any("summary" in event for files in ours[0].values() if isinstance(files, list) for file in files for event in file) or (
        program is embeddings
    )


@pytest.mark.oracle
@pytest.mark.usefixtures("_clock")
def test_an_interrupted_run_is_purged_as_pytorch_does(oracle: ModuleType, tmp_path: Path) -> None:
    options = {"purge_step": 5, "filename_suffix": ".end", "max_queue": 2, "flush_secs": 1}
    ours, theirs = (written(library, text, tmp_path / name, **options) for library, name in ((flambeau, "a"), (oracle, "b")))
    assert ours == theirs
    assert all(path.name.endswith(".end") for path in tmp_path.rglob("*tfevents*"))


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "two numbers": lambda writer, torch: writer.add_scalar("a", torch.ones(2)),
    "no number": lambda writer, torch: writer.add_scalar("a", [1.0]),
    "empty histogram": lambda writer, torch: writer.add_histogram("a", torch.ones(0)),
    "values beside the bins": lambda writer, torch: writer.add_histogram("a", torch.ones(3), bins=[4.0, 5.0, 6.0]),
    "limits": lambda writer, torch: writer.add_histogram_raw("a", 0, 1, 1, 1, 1, [1, 2], [1]),
    "dimensions": lambda writer, torch: writer.add_image("a", torch.ones(2, 2)),
    "letters": lambda writer, torch: writer.add_image("a", torch.ones(3, 2, 2), dataformats="HHW"),
    "channels": lambda writer, torch: writer.add_images("a", torch.ones(2, 2, 2, 2)),
    "stereo": lambda writer, torch: writer.add_audio("a", torch.zeros(2, 5)),
    "labels": lambda writer, torch: writer.add_embedding(torch.ones(2, 3), metadata=["a"]),
    "label images": lambda writer, torch: writer.add_embedding(torch.ones(2, 3), label_img=torch.ones(1, 3, 2, 2)),
    "columns": lambda writer, torch: writer.add_embedding(torch.ones(1, 3), metadata=[["a"]], metadata_header=["a", "b"]),
    "vectors": lambda writer, torch: writer.add_embedding(torch.ones(2, 3, 1)),
    "margin": lambda writer, torch: writer.add_custom_scalars_marginchart(["a"]),
    "hparams": lambda writer, torch: writer.add_hparams([1], {}),
    "hparam": lambda writer, torch: writer.add_hparams({"a": [1]}, {}),
    "domain": lambda writer, torch: writer.add_hparams({"a": 1}, {}, {"a": ["x"]}),
    "tensor dtype": lambda writer, torch: writer.add_tensor("a", torch.zeros(2, dtype=torch.uint16)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("program", ERRORS.values(), ids=ERRORS)
def test_errors_are_pytorchs(program: Any, oracle: ModuleType, tmp_path: Path) -> None:
    kind = written(flambeau, program, tmp_path / "a")
    assert isinstance(kind, type) and kind is written(oracle, program, tmp_path / "b")


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    with tensorboard.SummaryWriter(tmp_path) as writer:
        assert writer.get_logdir() == writer.log_dir == tmp_path
        for program in (scalars, histograms, images, sounds, text):
            program(writer, flambeau)
        writer.add_graph(flambeau.nn.Linear(2, 1), flambeau.ones(1, 2))
    accumulator = EventAccumulator(str(tmp_path)).Reload()
    tags = accumulator.Tags()
    assert "group/value" in tags["scalars"] and "CHW" in tags["images"] and "default" in tags["histograms"] and "sound" in tags["audio"]
    assert [(event.step, event.value) for event in accumulator.Scalars("group/value")][:2] == [(0, 1.0), (1, 2.5)]
    assert accumulator.Images("CHW")[0].encoded_image_string.startswith(b"\x89PNG")
    assert {node.op for node in accumulator.Graph().node} == {"IO Node", "prim::GetAttr", "aten::linear"}


def test_folders_are_named_by_time_and_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.chdir(tmp_path)
    with tensorboard.SummaryWriter(comment="LR_0.1") as writer:
        assert Path(writer.get_logdir()).is_dir()
    moment, rest = Path(writer.log_dir).name.split("_", 2)[:2], Path(writer.log_dir).name.split("_", 2)[2]
    time.strptime("_".join(["2024", *moment]), "%Y_%b%d_%H-%M-%S")
    assert rest == f"{socket.gethostname()}LR_0.1" and Path(writer.log_dir).parent == Path("runs")


def test_a_file_writer_is_opened_again(tmp_path: Path) -> None:
    writer = tensorboard.FileWriter(tmp_path, filename_suffix=".end")
    for step in range(3):
        writer.add_summary(summaries.scalar("a", step), step)
        writer.close()
        writer.reopen()
    writer.reopen()  # is open
    writer.close()
    steps = sorted(event.step for path in tmp_path.iterdir() for event in events_of(path) if event.summary.value)
    assert steps == [0, 1, 2] and len(list(tmp_path.iterdir())) == 4 and writer.get_logdir() == str(tmp_path)


def test_videos_are_gifs_of_a_grid(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_video("three", flambeau.rand(3, 5, 3, 8, 10), 1, fps=10)
        writer.add_video("bytes", (flambeau.rand(1, 2, 1, 8, 10) * 255).to(flambeau.uint8))
    messages = [value.image for event in events_of(next(tmp_path.iterdir())) for value in event.summary.value]
    pictures = [image.open(BytesIO(message.encoded_image_string)) for message in messages]
    assert [(message.height, message.width, message.colorspace) for message in messages] == [(8, 40, 3), (8, 10, 1)]
    assert [(picture.format, picture.size, picture.n_frames) for picture in pictures] == [("GIF", (40, 8), 5), ("GIF", (10, 8), 2)]
    assert pictures[0].info["duration"] == 100 and pictures[0].info["loop"] == 0


@pytest.mark.oracle
def test_the_grid_of_videos_is_pytorchs(oracle: ModuleType) -> None:
    _prepare_video = pytorch("torch.utils.tensorboard._utils")._prepare_video

    from flambeau.utils.tensorboard._utils import _prepare_video as ours

    for number in (1, 2, 3, 4, 6):
        videos = np.random.default_rng(number).random((number, 2, 3, 4, 5), np.float32)
        np.testing.assert_array_equal(ours(videos), _prepare_video(videos))


# -- graphs -----------------------------------------------------------------------------------------------------------------
def network(library: Any) -> Any:
    nn = library.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
            self.fc = nn.Linear(8, 2)

        def forward(self, x: Any, shift: Any) -> Any:
            hidden = library.flatten(self.body(x) + self.body(shift), 1)
            return self.fc(hidden).relu_()

    return Net()


@pytest.mark.oracle
def test_graphs_have_the_modules_and_operations_of_pytorchs(oracle: ModuleType, tmp_path: Path) -> None:
    graph = pytorch("torch.utils.tensorboard._pytorch_graph").graph

    from flambeau.utils.tensorboard import _pytorch_graph

    def described(graph: Any, library: Any) -> Any:
        definition, run = graph(network(library), (library.ones(1, 1, 4, 4), library.ones(1, 1, 4, 4)))
        operations = [
            (node.name.rpartition("/")[0], "aten::conv2d" if "conv" in node.op else node.op, str(node.attr["_output_shapes"]))
            for node in definition.node
            if node.op.startswith(("aten", "IO"))
        ]
        return sorted(operations), str(run), definition.versions.producer

    assert described(_pytorch_graph.graph, flambeau) == described(graph, oracle)


def test_graphs_link_what_is_written_in_place() -> None:
    from flambeau.utils.tensorboard._pytorch_graph import graph

    nn = flambeau.nn

    class Net(nn.Module):
        def forward(self, x: Any, unused: Any) -> Any:
            y = x * 2
            row = y[0].contiguous()
            y[:, 0].add_(1)
            y[0] = 3
            nn.functional.relu(y, inplace=True)
            return y.max(1)[1], row

    net = Net().train()
    definition, _ = graph(net, (flambeau.ones(2, 3), flambeau.ones(1)))
    links = {node.name: list(node.input) for node in definition.node}
    assert links == {
        "input/x": [],
        "Net/mul": ["input/x"],
        "Net/select": ["Net/mul"],
        "Net/contiguous": ["Net/select"],
        "Net/select_1": ["Net/mul"],
        "Net/add_": ["Net/select_1"],
        "Net/index_put_": ["Net/add_"],
        "Net/relu": ["Net/index_put_"],
        "Net/max": ["Net/relu"],
        "output/output.1": ["Net/max:1"],
        "output/output.2": ["Net/relu"],
    }
    assert net.training


def test_a_graph_of_lists_needs_to_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Net(flambeau.nn.Module):
        def forward(self, x: Any) -> Any:
            return [x + 1]

    with tensorboard.SummaryWriter(tmp_path) as writer:
        with pytest.raises(RuntimeError, match="list at the output"):
            writer.add_graph(Net(), flambeau.ones(1))
        writer.add_graph(Net(), flambeau.ones(1), verbose=True, use_strict_trace=False)
    assert "No graph saved" in (shown := capsys.readouterr().out) and "Net/add = aten::add(input/x)" in shown


@pytest.mark.oracle
def test_onnx_graphs_are_pytorchs(oracle: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def value(name: str, *sizes: int) -> Any:
        shape = SimpleNamespace(dim=[SimpleNamespace(dim_value=size) for size in sizes])
        return SimpleNamespace(name=name, type=SimpleNamespace(tensor_type=SimpleNamespace(shape=shape, elem_type=1)))

    attribute = SimpleNamespace(ListFields=lambda: [("name", "axis"), ("i", 1)])
    node = SimpleNamespace(output=["y"], op_type="Softmax", input=["x"], attribute=[attribute, attribute])
    model = SimpleNamespace(graph=SimpleNamespace(input=[value("x", 2, 3)], output=[value("y", 2, 3)], node=[node]))
    monkeypatch.setitem(sys.modules, "onnx", SimpleNamespace(load=lambda path: model))
    monkeypatch.setattr(time, "time", lambda: 1234.5)

    def program(writer: Any, torch: Any) -> None:
        writer.add_onnx_graph("model.onnx")

    ours, theirs = (written(library, program, tmp_path / name) for library, name in ((flambeau, "a"), (oracle, "b")))
    assert ours[0] == theirs[0]


# -- the package --------------------------------------------------------------------------------------------------------------
CHECK = """
import sys
import flambeau, flambeau.utils
assert "tensorboard" not in sys.modules
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorboard":
            raise ModuleNotFoundError("No module named 'tensorboard'", name="tensorboard")
sys.meta_path.insert(0, Missing())
try:
    import flambeau.utils.tensorboard
except ImportError as error:
    assert "flambeau[tensorboard]" in str(error), error
else:
    raise AssertionError("no error")
del sys.meta_path[0]
import flambeau.utils.tensorboard
assert "tensorflow" not in sys.modules and "torch" not in sys.modules
"""


def test_the_package_is_imported_late_and_its_absence_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


TENSORBOARDX = """
import sys
import torch
from tensorboardX import SummaryWriter
assert str(type(torch.ones(1))) == "<class 'torch.Tensor'>" and torch.nn.Parameter.__module__ == "torch.nn.parameter"
torch.manual_seed(0)
with SummaryWriter(sys.argv[1]) as writer:
    layer = torch.nn.Linear(2, 3)
    for step in range(3):
        writer.add_scalar("data/scalar1", torch.rand(1)[0], step)
        writer.add_scalars("run_14h", {"a": layer(torch.ones(2)).sum(), "b": 2}, step)
    writer.add_histogram("weights", layer.weight, 0)
    writer.add_image("image", torch.rand(3, 8, 8), 0)
    writer.add_embedding(torch.rand(4, 3), label_img=torch.rand(4, 3, 4, 4))
    writer.add_pr_curve("curve", torch.randint(2, (9,)), torch.rand(9))
"""


def test_programs_with_tensorboardx_run_where_flambeau_stands_in(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    script = tmp_path / "program.py"
    script.write_text(TENSORBOARDX)
    command = [sys.executable, "-m", "flambeau", str(script), str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    accumulator = EventAccumulator(str(tmp_path / "run")).Reload()
    flambeau.manual_seed(0)
    flambeau.nn.Linear(2, 3)
    expected = [flambeau.rand(1).item() for _ in range(3)]
    assert [event.value for event in accumulator.Scalars("data/scalar1")] == pytest.approx(expected)
    assert accumulator.Tags()["images"] == ["image"] and accumulator.Histograms("weights")[0].histogram_value.num == 6


def test_tensorboard_serves_what_was_written(tmp_path: Path) -> None:
    """TensorBoard itself, on a port that the system chooses, asked by HTTP."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard import default, program

    with tensorboard.SummaryWriter(tmp_path / "run") as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_image("image", flambeau.rand(3, 4, 4))
        writer.add_graph(flambeau.nn.Linear(2, 1), flambeau.ones(1, 2))
    board = program.TensorBoard(plugins=default.get_static_plugins())
    board.configure(argv=[None, "--logdir", str(tmp_path), "--port", "0", "--load_fast", "false", "--reload_interval", "0"])
    server = board._make_server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def asked(path: str) -> Any:
        with urllib.request.urlopen(server.get_url().rstrip("/") + path, timeout=30) as answer:
            return answer.read()

    try:
        for _ in range(100):
            if json.loads(asked("/data/runs")) == ["run"]:
                break
            time.sleep(0.1)
        assert set(json.loads(asked("/data/plugin/scalars/tags"))["run"]) == {"loss"}
        curve = json.loads(asked("/data/plugin/scalars/scalars?run=run&tag=loss"))
        assert [(step, round(value, 3)) for _, step, value in curve] == [(0, 1.0), (1, 0.5), (2, 0.333)]
        assert b"aten::linear" in asked("/data/plugin/graphs/graph?run=run")
        (shown,) = json.loads(asked("/data/plugin/images/images?run=run&tag=image&sample=0"))
        assert asked(f"/data/plugin/images/individualImage?{shown['query']}").startswith(b"\x89PNG")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
