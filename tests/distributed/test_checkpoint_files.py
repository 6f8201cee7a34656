"""Files of distributed checkpoints, in one process: PyTorch's, those that want to run something, damaged ones."""

from __future__ import annotations

import io
import json
import os
import pickle
import threading
import warnings
from pathlib import Path

import pytest
from oracle import pytorch

import flambeau as torch
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files, file_name
from flambeau.distributed.checkpoint.filesystem import read_metadata
from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from flambeau.distributed.tensor import Shard
from flambeau.serialization import safetensors
from flambeau.serialization.pickling import dump
from tests.helpers.threads import in_threads

WRITTEN_BY_PYTORCH = Path(__file__).parents[1] / "recorded" / "distributed_checkpoint"  # by two processes
X = torch.arange(15.0).view(5, 3)


def save(state, folder):
    return checkpoint.save(state, checkpoint_id=folder, no_dist=True)


def load(state, folder):
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)
    return state


def empty():
    return {"model": {"rows": X * 0, "columns": X * 0}, "step": torch.tensor(0), "epoch": 0}


def test_a_checkpoint_that_two_processes_of_pytorchs_wrote_is_read() -> None:
    state = load(empty(), WRITTEN_BY_PYTORCH)
    assert torch.equal(state["model"]["rows"], X) and torch.equal(state["model"]["columns"], X)
    assert state["step"].item() == 4 and state["epoch"] == 3
    entry = checkpoint.FileSystemReader(WRITTEN_BY_PYTORCH).read_metadata().state_dict_metadata["model.rows"]
    assert [tuple(chunk.sizes) for chunk in entry.chunks] == [(3, 3), (2, 3)]


@pytest.mark.oracle
def test_pytorch_reads_what_is_written_here(tmp_path) -> None:
    theirs, of_pytorch = pytorch(), pytorch("torch.distributed.checkpoint")
    save({"model": {"rows": X, "columns": X}, "step": torch.tensor(4), "epoch": 3}, tmp_path)
    state = {"model": {"rows": theirs.zeros(5, 3), "columns": theirs.zeros(5, 3)}, "step": theirs.tensor(0), "epoch": 0}
    with warnings.catch_warnings(action="ignore"):  # that it is alone
        of_pytorch.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["model"]["rows"].tolist() == X.tolist() and state["step"].item() == 4 and state["epoch"] == 3


def in_hugging_faces_form(state, folder, **options):
    checkpoint.save(state, storage_writer=checkpoint.HuggingFaceStorageWriter(folder, **options), no_dist=True)


def from_hugging_faces_form(state, folder):
    checkpoint.load(state, storage_reader=checkpoint.HuggingFaceStorageReader(folder), no_dist=True)
    return state


DTYPES = [dtype for dtype in safetensors.DTYPES.values() if dtype.numpy is not None]


def test_safetensors_files_and_their_list(tmp_path) -> None:
    whole = {"x": X, "scalar": torch.tensor(2), "none": torch.ones(0, 3)} | {str(dtype): torch.ones(3).to(dtype) for dtype in DTYPES}
    in_hugging_faces_form(whole, tmp_path, fqn_to_index_mapping=dict.fromkeys(whole, 2) | {"x": 1})
    listed = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert listed["weight_map"] == dict.fromkeys(whole, "model-00002-of-00002.safetensors") | {"x": "model-00001-of-00002.safetensors"}
    assert listed["metadata"] == {"total_size": sum(value.nbytes for value in whole.values())}
    state = from_hugging_faces_form({name: torch.zeros_like(value) for name, value in whole.items()}, tmp_path)
    for name, value in whole.items():
        assert state[name].dtype == value.dtype and state[name].tolist() == value.tolist(), name
    assert list(torch.load(tmp_path / "model-00001-of-00002.safetensors")) == ["x"]
    with pytest.raises(checkpoint.CheckpointException, match="got something else as epoch"):
        in_hugging_faces_form({"epoch": 3}, tmp_path)
    with pytest.raises(checkpoint.CheckpointException, match="expected another name"):
        in_hugging_faces_form({"__metadata__": X}, tmp_path)
    with pytest.raises(checkpoint.CheckpointException, match="Missing key in checkpoint state_dict: y"):
        from_hugging_faces_form({"y": X}, tmp_path)
    with pytest.raises(checkpoint.CheckpointException, match="No such file or directory"):
        from_hugging_faces_form({}, tmp_path / "elsewhere")


def test_a_checkpoint_of_fewer_processes_takes_the_place_of_another_one(tmp_path) -> None:
    (tmp_path / "sharded").mkdir()
    parts(tmp_path / "sharded", [[0, 0], [2, 0]])
    in_hugging_faces_form({"x": X}, tmp_path, save_distributed=True, enable_consolidation=True)
    assert os.listdir(tmp_path / "sharded") == [file_name(1, 1, 1)]
    assert torch.equal(from_hugging_faces_form({"x": X * 0}, tmp_path)["x"], X)


def test_threads_that_write_the_same_files_leave_whole_ones(tmp_path) -> None:
    def write(value):
        for _ in range(10):
            in_hugging_faces_form({"x": torch.full((10000,), float(value))}, tmp_path)

    in_threads(3, write)
    values = from_hugging_faces_form({"x": torch.zeros(10000)}, tmp_path)["x"]
    assert values[0] in (0, 1, 2) and (values == values[0]).all() and len(os.listdir(tmp_path)) == 2


def parts(folder, note, shapes=((2, 3), (3, 3))):
    """Write parts of ``x``, one to a file, which begin where ``note`` says."""
    for number, shape in enumerate(shapes):
        begins = json.dumps({"x": {"saved_offsets": note[number]}})
        with open(folder / file_name(1, 1, number + 1), "wb") as file:
            array = torch.ones(shape).numpy()
            safetensors.write_safetensors(file, {"x": (torch.float32, array)}, {"DCP_SHARDING_INFO": begins})


@pytest.mark.parametrize(
    ("note", "match"),
    [
        ([[0, 0], [3, 0]], "leave out elements of shape"),
        ([[0, 0], [1, 0]], "or have some twice"),
        ([[0], [2, 0]], "cannot begin at"),
        ([[0, 0], [-1, 0]], "cannot begin at"),
        ([[0, 0], [2, True]], "cannot begin at"),
        ([[0, 0], None], "does not say where"),
    ],
)
def test_parts_that_do_not_fit_are_an_error(note, match, tmp_path) -> None:
    parts(tmp_path, note)
    with pytest.raises((ValueError, RuntimeError), match=match):
        consolidate_safetensors_files(str(tmp_path), str(tmp_path / "whole"), {"x": 1})
    assert not list(tmp_path.glob("whole/*"))
    parts(tmp_path, [[0, 0], [2, 0]])
    consolidate_safetensors_files(str(tmp_path), str(tmp_path / "whole"), {"x": 1})
    assert torch.equal(torch.load(tmp_path / "whole" / file_name(1, 1))["x"], torch.ones(5, 3))
    with pytest.raises(ValueError, match="expected parts of y"):
        consolidate_safetensors_files(str(tmp_path), str(tmp_path / "whole"), {"y": 1})
    with pytest.raises(ValueError, match="No DCP custom metadata"):
        consolidate_safetensors_files(str(tmp_path / "whole"), str(tmp_path), {"x": 1})


class Runs:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("function", [os.system, eval, print, torch.load, getattr])
def test_metadata_runs_nothing(function, tmp_path) -> None:
    save({"a": X}, tmp_path)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Runs(function, "touch ran")))
    with pytest.raises(checkpoint.CheckpointException, match="UnpicklingError"):
        load({"a": X.clone()}, tmp_path)


def test_metadata_does_not_change_classes() -> None:
    attack = pickle.PROTO + b"\x04" + b"ctorch.distributed.checkpoint.metadata\nMetadata\n" + b"N}\x8c\x08__init__Nsb\x86b."
    before = checkpoint.Metadata.__init__
    with pytest.raises((pickle.UnpicklingError, AttributeError, IndexError)):
        read_metadata(io.BytesIO(attack))
    assert checkpoint.Metadata.__init__ is before


def test_items_run_nothing(tmp_path) -> None:
    save({"a": {"b": 1}}, tmp_path)
    file = io.BytesIO()
    torch.save(Runs(print, "ran"), file)
    part = tmp_path / "__0_0.distcp"
    length = part.stat().st_size
    part.write_bytes(file.getvalue().ljust(length, b"\0") if len(file.getvalue()) < length else file.getvalue())
    with pytest.raises(checkpoint.CheckpointException):
        load({"a": {"b": 0}}, tmp_path)


def test_files_of_other_folders_are_not_read(tmp_path) -> None:
    made = save({"a": X}, tmp_path)
    for info in made.storage_data.values():
        info.relative_path = "../elsewhere.distcp"
    checkpoint.FileSystemWriter(tmp_path).finish(made, [])  # which has no places of items
    with pytest.raises(checkpoint.CheckpointException):
        load({"a": X.clone()}, tmp_path)


def test_what_does_not_fit_is_an_error_with_its_name(tmp_path) -> None:
    save({"a": X, "b": 1}, tmp_path)
    for state, words in (
        ({"c": X.clone()}, "Missing key"),
        ({"a": X[:2].clone()}, "Size mismatch"),
        ({"b": X.clone()}, "not in the checkpoint"),
    ):
        with pytest.raises(checkpoint.CheckpointException, match=words):
            load(state, tmp_path)
    state = {"a": X * 0, "c": 5}
    checkpoint.load(state, checkpoint_id=tmp_path, planner=checkpoint.DefaultLoadPlanner(allow_partial_load=True), no_dist=True)
    assert torch.equal(state["a"], X) and state["c"] == 5


def test_a_checkpoint_that_was_not_finished_is_none(tmp_path, monkeypatch) -> None:
    save({"a": X}, tmp_path)
    monkeypatch.setattr(checkpoint.FileSystemWriter, "write_data", lambda *_: 1 / 0)
    with pytest.raises(checkpoint.CheckpointException, match="ZeroDivisionError"):
        save({"a": X + 1}, tmp_path / "new")
    assert not (tmp_path / "new" / ".metadata").exists()
    assert torch.equal(load({"a": X * 0}, tmp_path)["a"], X)


def test_a_checkpoint_stays_whole_until_the_next_one_is(tmp_path) -> None:
    class Breaking(checkpoint.DefaultSavePlanner):
        def resolve_data(self, write_item):
            if write_item.index.fqn == "b":
                raise OSError("no space")
            return super().resolve_data(write_item)

    def write(value: float, planner=None) -> None:
        state = {"a": torch.full((2,), value), "b": torch.full((2,), value)}
        writer = checkpoint.FileSystemWriter(tmp_path, single_file_per_rank=False)
        checkpoint.save(state, storage_writer=writer, planner=planner, no_dist=True)

    def read() -> list[float]:
        state = {"a": torch.zeros(2), "b": torch.zeros(2)}
        checkpoint.load(state, checkpoint_id=tmp_path, no_dist=True)
        return [*state["a"].tolist(), *state["b"].tolist()]

    write(1.0)
    with pytest.raises(checkpoint.CheckpointException):
        write(2.0, Breaking())
    assert read() == [1.0] * 4
    for left in ("__0_1.distcp.77.tmp", ".metadata.77.tmp"):
        (tmp_path / left).write_bytes(b"of a process that was killed")
    write(3.0)
    assert read() == [3.0] * 4
    assert len(os.listdir(tmp_path)) == 3


def test_what_is_changed_meanwhile_is_not_in_an_asynchronous_checkpoint(tmp_path) -> None:
    changed = threading.Event()

    class Waiting(checkpoint.FileSystemWriter):
        def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
            assert changed.wait(20)

    state = {"x": X.clone(), "seen": {1}}
    written = checkpoint.async_save(state, storage_writer=Waiting(tmp_path), no_dist=True)
    state["x"] += 1
    state["seen"].add(2)
    changed.set()
    written.result()
    back = load({"x": X * 0, "seen": set()}, tmp_path)
    assert torch.equal(back["x"], X) and back["seen"] == {1}


def test_what_has_a_state_gives_and_takes_it(tmp_path) -> None:
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    save({"model": model}, tmp_path)
    load({"model": other}, tmp_path)
    assert torch.equal(model.weight, other.weight)


def test_files_of_save_and_back(tmp_path) -> None:
    state = {"model": {"a": X, "b": [X[0], {"c": 1}]}, "epoch": 2}
    torch.save(state, tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "many")
    dcp_to_torch_save(tmp_path / "many", tmp_path / "again.pt")
    again = torch.load(tmp_path / "again.pt")
    assert torch.equal(again["model"]["a"], X) and torch.equal(again["model"]["b"][0], X[0])
    assert again["model"]["b"][1] == {"c": 1} and again["epoch"] == 2


@pytest.mark.parametrize(("size", "count"), [(5, 2), (5, 4), (3, 5), (0, 2), (8, 4)])
def test_parts_are_those_of_chunk(size, count) -> None:
    parts = [Shard.local_shard_size_and_offset(size, count, rank) for rank in range(count)]
    chunks = torch.arange(size).chunk(count)
    assert [n for n, _ in parts if n] == [len(chunk) for chunk in chunks if len(chunk)]
    assert all(n == 0 or begin == int(chunk[0]) for (n, begin), chunk in zip(parts, chunks, strict=False))


def damaged(folder, change):
    save({"x": X, "list": [X, {}, X]}, folder)
    metadata = checkpoint.FileSystemReader(folder).read_metadata()
    change(metadata)
    with (folder / ".metadata").open("wb") as file:
        dump(metadata, file, pickle, 4, lambda _: None)
    return folder


def halves(*begins):
    return [checkpoint.ChunkStorageMetadata(torch.Size([begin, 0]), torch.Size([size, 3])) for begin, size in begins]


@pytest.mark.parametrize("parts", [[], [(0, 3)], [(0, 3), (1, 2)], [(0, 5), (0, 5)]], ids=str)
def test_parts_that_leave_something_out_are_an_error(parts, tmp_path) -> None:
    def change(metadata):
        metadata.state_dict_metadata["x"].chunks[:] = halves(*parts)

    folder = damaged(tmp_path, change)
    with pytest.raises(checkpoint.CheckpointException, match="parts of x do not make up"):
        load({"x": X * 0}, folder)
    with pytest.raises(checkpoint.CheckpointException, match="parts of x do not make up"):
        dcp_to_torch_save(folder, tmp_path / "whole.pt")


@pytest.mark.parametrize("place", [1 << 40, str(1 << 40), -1])
def test_a_place_far_behind_a_list_is_an_error(place, tmp_path) -> None:
    folder = damaged(tmp_path, lambda metadata: metadata.planner_data.update({"list.2": ("list", place)}))
    with pytest.raises(checkpoint.CheckpointException, match="of a list"):
        dcp_to_torch_save(folder, tmp_path / "whole.pt")
