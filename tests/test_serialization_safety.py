"""What a load may run, and what becomes of files that are damaged or something else."""

from __future__ import annotations

import builtins
import collections
import io
import os
import pathlib
import pickle
import subprocess
import zipfile
from typing import Any

import numpy as np
import pytest
from serialized import DICT, GOLDEN, call, hand_made, loaded, saved, tensor, text

from flambeau import serialization
from flambeau.core.shape import Size
from flambeau.core.tensor import Parameter, Tensor, wrap


# -- what a load may run --------------------------------------------------------------------------------------------------
class Runs:
    """Pickles as a call of ``function(*args)``."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


TOUCH = text("open(__import__('os').environ['FLAMBEAU_WITNESS'], 'w').close()")
ATTACKS = {
    "system": call("os", "system", text('echo > "$FLAMBEAU_WITNESS"')),
    "posix": call("posix", "system", text('echo > "$FLAMBEAU_WITNESS"')),
    "eval": call("builtins", "eval", TOUCH),
    "python 2 eval": call("__builtin__", "eval", TOUCH),
    "exec": call("builtins", "exec", TOUCH),
    "getattr": call("builtins", "getattr", call("builtins", "__import__", text("os")), text("system")),
    "subprocess": call("subprocess", "check_call", text("true")),
    "nested in a list": b"]" + call("builtins", "eval", TOUCH) + b"a",
    "nested in arguments": call("collections", "OrderedDict", call("builtins", "eval", TOUCH)),
    "in a dict's key": b"}" + call("builtins", "eval", TOUCH) + b"Ns",
    "in a storage id": b"(" + text("storage") + call("builtins", "eval", TOUCH) + text("0") + text("cpu") + b"K\x01tQ",
    "import through torch": call("torch.serialization", "os.system", text("true")),
    "other function of torch": call("torch", "load", text("x")),
    "hub": call("torch.hub", "load", text("x"), text("y")),
    "own package": call("flambeau.serialization.files", "load", text("x")),
    "runner": call("flambeau.__main__", "main", text("x")),
    "dotted names": call("collections", "OrderedDict.__init__.__globals__", text("x")),
    "as the type of a tensor": call(
        "torch._tensor", "_rebuild_from_type_v2", b"cbuiltins\neval\n", b"ctorch\nTensor\n", b"(" + TOUCH + b"t", b"}"
    ),
    "a type as the function": call("torch._tensor", "_rebuild_from_type_v2", b"cbuiltins\nset\n", b"ctorch\nTensor\n", b")", b"}"),
    "calling a value": b"ctorch\nTensor\n(K\x01tR",
    "calling a dtype": b"ctorch\nfloat32\n(K\x01tR",
    "class of a dict": DICT + b"}" + text("__class__") + b"cbuiltins\nset\nsb",
    "method of a dict": DICT + b"}" + text("items") + b"cbuiltins\nset\nsb",
    "state of a function": b"ctorch._utils\n_rebuild_tensor_v2\n}" + text("__code__") + b"Nsb",
    "state of a class": b"ccollections\nOrderedDict\n}" + text("get") + b"Nsb",
    "instance": b"(" + TOUCH + b"ibuiltins\neval\n",
    "object": b"(cbuiltins\neval\n" + TOUCH + b"o",
    "new object": b"cbuiltins\nobject\n)\x81",
    "new object of a value": b"ctorch\nfloat32\n)\x81",
    "stack global": text("builtins") + text("eval") + b"\x93" + TOUCH + b"\x85R",
    "extension": b"\x82\x01" + TOUCH + b"\x85R",
    "codec": call("_codecs", "encode", text("x"), text("zlib")),
    "memory bomb": call("builtins", "bytearray", b"J\xff\xff\xff\x7f"),
    "other persistent id": text("module") + b"\x85Q",
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("is_zip", [True, False])
def test_malicious_pickles_run_nothing(name: str, is_zip: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = tmp_path / "witness"
    monkeypatch.setenv("FLAMBEAU_WITNESS", str(witness))

    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the file ran code")

    head = b"".join(pickle.dumps(header, 2) for header in (0x1950A86A20F9469CFC6C, 1001, {}))

    def load_pickle(pickled: bytes) -> Any:
        return loaded(hand_made(pickled) if is_zip else head + pickled + pickle.dumps([], 2))

    assert load_pickle(pickle.dumps({}, 2)) == {}  # imports what loading imports, encodings of names too: that runs code as well
    for owner, function in ((os, "system"), (builtins, "eval"), (builtins, "exec"), (subprocess, "check_call")):
        monkeypatch.setattr(owner, function, fail)
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        load_pickle(b"\x80\x02" + ATTACKS[name] + b".")
    assert not witness.exists()


@pytest.mark.parametrize("function", [os.system, eval, print, getattr, pickle.loads, subprocess.Popen, Tensor.__init__])
def test_calls_of_python_objects_are_refused(function: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        loaded(saved({"x": [Runs(function, "1")]}))


def test_the_refusal_names_the_global_and_the_ways_out() -> None:
    with pytest.raises(pickle.UnpicklingError) as caught:
        loaded(saved(Plain(1)))
    message = str(caught.value)
    for part in ("Weights only load failed", f"{__name__}.Plain", "weights_only", "add_safe_globals", "WeightsUnpickler error"):
        assert part in message


def test_attributes_that_are_no_state_are_refused() -> None:
    marked = Parameter(tensor(1))
    marked.x = 1  # type: ignore[attr-defined]
    data = saved(marked)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        pickled = file.read("archive/data.pkl").replace(text("x"), text("__class__"))
        with pytest.raises(RuntimeError, match="attribute names"):
            loaded(hand_made(pickled, {"data/0": file.read("archive/data/0")}))


def test_unrestricted_load_is_asked_for_by_name() -> None:
    data = saved(Runs(collections.deque, [1, 2]))
    with pytest.raises(pickle.UnpicklingError):
        loaded(data)
    assert loaded(data, weights_only=False) == collections.deque([1, 2])


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(Runs(collections.deque, [1, 2]))
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") as caught:
        assert len(serialization.load(io.BytesIO(data))) == 2
    assert caught[0].filename == __file__
    with pytest.raises(pickle.UnpicklingError):
        loaded(data, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        loaded(data)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError):
        loaded(data, weights_only=False)


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_safe_globals_allow_exactly_what_they_name() -> None:
    data = saved([Plain(tensor(4)), Plain(5)])
    serialization.add_safe_globals([Plain])
    try:
        assert loaded(data)[1].value == 5 and serialization.get_safe_globals() == [Plain]
        with pytest.raises(pickle.UnpicklingError):
            loaded(saved(Runs(eval, "1")))
    finally:
        serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        loaded(data)
    with zipfile.ZipFile(io.BytesIO(saved(Plain(1)))) as file:
        other = hand_made(file.read("archive/data.pkl").replace(b"Plain", b"Elsewhere"))
    with serialization.safe_globals([(Plain, f"{__name__}.Elsewhere")]):
        assert loaded(other).value == 1


def test_blocked_modules_cannot_be_allowed() -> None:
    with serialization.safe_globals([os.system, (os.system, "posix.system"), (os.system, "os.system")]):
        with pytest.raises(pickle.UnpicklingError, match="blocked"):
            loaded(saved(Runs(os.system, "true")))


def test_unsafe_names_are_listed_without_running_anything() -> None:
    data = io.BytesIO(saved([tensor(1), Runs(eval, "1/0"), Plain(1)]))
    assert serialization.get_unsafe_globals_in_checkpoint(data) == ["builtins.eval", f"{__name__}.Plain"]
    with pytest.raises(ValueError, match="checkpoint"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"no"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x05tQ", b"K\x06tQ"),  # more elements than bytes
        (b"K\x05tQ", b"J\xff\xff\xff\xfftQ"),  # a negative number of them
        (b"QK\x01", b"QK\x02"),  # the last element lies behind the storage
        (b"QK\x01", b"QJ\xff\xff\xff\xff"),  # the first lies before it
        (b"K\x02K\x02\x86", b"K\x02K\x03\x86"),  # one row more
        (b"K\x01K\x02\x86\x89", b"J\xff\xff\xff\xffK\x02\x86\x89"),  # a negative stride
        (b"K\x01K\x02\x86\x89", b"K\x01\x85\x89"),  # a stride too few
        (b"K\x02K\x02\x86K", b"K\x02\x88\x86K"),  # a size that is no number
        (b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x001"),  # a record that is not there
        (b"FloatStorage", b"QInt8Storage"),  # a kind that is not known
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensors_cannot_reach_outside_their_storage(old: bytes, new: bytes, weights_only: bool) -> None:
    assert GOLDEN.count(old) == 1
    data = hand_made(GOLDEN.replace(old, new), {"data/0": bytes(20)})
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        loaded(data, weights_only=weights_only)


# -- damage ---------------------------------------------------------------------------------------------------------------
ERRORS = (RuntimeError, EOFError, pickle.UnpicklingError)


@pytest.mark.parametrize("is_zip", [True, False])
def test_files_cut_off_anywhere_are_errors(is_zip: bool) -> None:
    data = saved({"a": tensor(1, 2, 3), "b": Parameter(tensor(4))}, _use_new_zipfile_serialization=is_zip)
    for length in [*range(0, len(data) - 1, 5), len(data) - 1]:
        with pytest.raises(ERRORS):
            loaded(data[:length])


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_are_errors_or_change_values_only(is_zip: bool) -> None:
    data = saved({"a": tensor(1, 2, 3), "b": Parameter(tensor(4)), "c": Size([1])}, _use_new_zipfile_serialization=is_zip)
    rng = np.random.default_rng(0)
    failures = 0
    for _ in range(600):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        try:
            loaded(bytes(damaged))
        except ERRORS:
            failures += 1
        except ValueError as error:
            assert "endianness" in str(error)
    assert failures > 100


def test_damage_to_stored_numbers_is_noticed() -> None:
    data = saved(wrap(np.full(100, 1.5)))
    position = data.index(np.float64(1.5).tobytes() * 3)
    with pytest.raises(RuntimeError, match="checksum"):
        loaded(data[:position] + b"\x01" + data[position + 1 :])


@pytest.mark.parametrize("data", [b"", b"hello world", b"PK\x03\x04abc", b"\x80", b"GIF89a" * 99, pickle.dumps({"a": 1}, 2), b"\x80\x02}."])
@pytest.mark.parametrize("weights_only", [True, False])
def test_other_files_are_errors(data: bytes, weights_only: bool) -> None:
    with pytest.raises(ERRORS):
        loaded(data, weights_only=weights_only)


def test_kinds_of_files_that_cannot_be_read_say_so() -> None:
    with pytest.raises(RuntimeError, match="TorchScript"):
        loaded(hand_made(b"\x80\x02N.", {"constants.pkl": b""}))
    with pytest.warns(UserWarning, match="TorchScript archive"), pytest.raises(RuntimeError, match="torch.jit.load"):
        loaded(hand_made(b"\x80\x02N.", {"constants.pkl": b""}), weights_only=False)
    tar = bytes(257) + b"ustar" + bytes(250)
    with pytest.raises(RuntimeError, match=r"\.tar"):
        loaded(tar)
    with pytest.raises(NotImplementedError, match=r"\.tar"):
        loaded(tar, weights_only=False)
    with pytest.raises(RuntimeError, match="mmap"):
        loaded(saved(1, _use_new_zipfile_serialization=False), mmap=True)
    with pytest.raises(RuntimeError, match="file not found"):
        loaded(hand_made(b"\x80\x02N.").replace(b"data.pkl", b"else.pkl"))
