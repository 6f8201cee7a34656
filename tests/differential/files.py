"""Programs that make a tree of objects, save it by one library, and load the file by both, with random options on either side.

Compared is all that a file must keep: classes, dtypes, shapes, strides, offsets, values bit for bit, which tensors share memory, who
requires a gradient, attributes, parts of sparse and quantized tensors, states of modules, optimizers and generators; or the type of the
exception.
"""

from __future__ import annotations

import collections
import io
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from .area import Area, Difference, Known, Run

FLOATING = ("float32", "float64", "float16", "bfloat16")
SMALL_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATING, *SMALL_FLOATS, *INTEGERS, "bool", "complex64", "complex128", "complex32")
SHAPES = ("()", "(0,)", "(1,)", "(4,)", "(2, 3)", "(3, 1, 2)", "(2, 0, 3)", "(1, 2, 3, 2)")
QUANTIZED = ("qint8", "quint8", "qint32")
LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def sparse(torch: Any, layout: str, dtype: str, index: str, rows: int) -> Any:
    """A sparse tensor of few elements."""
    x = torch.zeros(rows, 4)
    x[0, 1], x[rows - 1, 3], x[rows - 1, 0] = 1.0, 2.0, 3.0
    x = x.to(getattr(torch, dtype))
    blocks = {"blocksize": (1, 2)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    made = x.to_sparse(layout=getattr(torch, layout), **blocks)
    if index == "int64" or layout == "sparse_coo":
        return made
    names = ("crow_indices", "col_indices") if layout in ("sparse_csr", "sparse_bsr") else ("ccol_indices", "row_indices")
    parts = [getattr(made, name)().to(getattr(torch, index)) for name in names]
    return torch.sparse_compressed_tensor(*parts, made.values(), made.shape, layout=made.layout)


def by_channel(torch: Any, dtype: str, axis: int, zeros: str) -> Any:
    x = torch.arange(12.0).reshape(3, 4) / 5
    count = x.shape[axis]
    zero_points = torch.arange(count).to(getattr(torch, zeros))
    return torch.quantize_per_channel(x, (torch.arange(float(count)) + 1) / 8, zero_points, axis, getattr(torch, dtype))


def noted(tensor: Any, **notes: Any) -> Any:
    """A tensor with attributes."""
    for name, value in notes.items():
        setattr(tensor, name, value)
    return tensor


def stepped(torch: Any, name: str, steps: int, **options: Any) -> Any:
    """An optimizer after some steps."""
    parameters = [torch.nn.Parameter(torch.arange(4.0) / 4), torch.nn.Parameter(torch.ones(2, 2))]
    optimizer = getattr(torch.optim, name)(parameters, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        sum((p * p).sum() for p in parameters).backward()
        optimizer.step()
    return optimizer


def saved_again(torch: Any, value: Any) -> Any:
    """What comes back from a file."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


Pair = collections.namedtuple("Pair", "one other")

MODULES = (
    "torch.nn.Linear(2, 3)",
    "torch.nn.BatchNorm2d(2)",
    "torch.nn.Conv2d(2, 3, 2, padding='same')",
    "torch.nn.LSTM(2, 3, 2)",
    "torch.nn.MultiheadAttention(4, 2)",
    "torch.nn.Embedding(5, 2)",
    "torch.nn.GELU('tanh')",
    "torch.nn.LazyLinear(3)",
    "torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())",
    "torch.nn.ModuleDict({'a': torch.nn.PReLU()})",
    "torch.nn.LayerNorm(2)",
    "torch.nn.ParameterList([torch.ones(2), torch.zeros(1)])",
    "torch.nn.TransformerEncoderLayer(4, 2, 8)",
    "torch.nn.MSELoss()",
)
OPTIMIZERS = (
    "'SGD', 2, lr=0.1, momentum=0.9",
    "'Adam', 2",
    "'AdamW', 1, amsgrad=True",
    "'RMSprop', 1, centered=True",
    "'Adagrad', 1",
    "'LBFGS', 1",
    "'SGD', 0, lr=0.1",
    "'NAdam', 1",
    "'Adadelta', 1",
    "'Rprop', 2",
    "'ASGD', 1",
    "'Adamax', 1",
    "'RAdam', 1",
)
PLAIN = (
    "1",
    "-(2**70)",
    "2.5",
    "float('nan')",
    "1j",
    "True",
    "None",
    "'text é'",
    "b'bytes'",
    "bytearray(b'x')",
    "torch.float16",
    "torch.device('cpu')",
    "torch.Size([2, 3])",
    "torch.strided",
    "torch.channels_last",
    "{1, 2}",
    "frozenset([1])",
    "range(3)",
    "''",
    "'\\ud800'",
    "torch.per_tensor_affine",
    "collections.Counter('aab')",
    "collections.OrderedDict(a=1)",
    "np.float32(2)",
    "np.arange(3)",
    "slice(1, 2)",
)
LOCATIONS = (
    "'cpu'",
    "torch.device('cpu')",
    "'meta'",
    "{'cpu': 'cpu'}",
    "{'cpu': 'meta'}",
    "{}",
    "lambda storage, tag: storage",
    "lambda storage, tag: None",
    "'nowhere'",
    "'cuda'",
    "3",
    "lambda storage, tag: storage.clone()",
)


class Drawing:
    """One program."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.tensors, self.lines = draw, 0, []

    def tensor(self) -> str:
        """A name of a new tensor."""
        draw, name = self.draw, f"x{self.tensors}"
        dtype, shape = draw.choice(DTYPES if draw.random() < 0.5 else FLOATING), draw.choice(SHAPES)
        made = f"torch.arange(64.0)[: torch.zeros({shape}).numel()].reshape({shape}).to(torch.{dtype})"
        kind = draw.randrange(12)
        if self.tensors and kind < 4:
            x = f"x{draw.randrange(self.tensors)}"
            made = draw.choice(
                (
                    f"{x}[1:]",
                    f"{x}.t()",
                    f"{x}[..., ::2]",
                    f"{x}.detach()",
                    f"{x}.data",
                    f"{x}.view(-1)",
                    f"{x}.unsqueeze(0).expand(3, *{x}.shape)",
                    f"{x}.transpose(0, -1)",
                    f"{x}[0]",
                    x,
                    f"{x}.clone()",
                    f"{x}.contiguous(memory_format=torch.channels_last)",
                    f"{x}.real",
                    f"{x}.diagonal()",
                    f"{x}.view(torch.uint8)",
                    f"torch.nn.Parameter({x}, requires_grad={x}.is_floating_point())",
                    f"{x}.conj()",
                    f"{x}.as_strided((2,), (1,), 1)",
                )
            )
        elif kind == 4:
            made = f"torch.nn.Parameter({made}, requires_grad={draw.choice(('False', 'True'))})"
        elif kind == 5:
            made = f"({made}).requires_grad_()"
        elif kind == 6:
            index = draw.choice(("int64", "int32"))
            made = f"sparse(torch, {draw.choice(LAYOUTS)!r}, {draw.choice(FLOATING)!r}, {index!r}, {draw.choice((1, 3))})"
        elif kind == 7:
            zeros = draw.choice(("int64", "int32", "float32"))
            made = f"by_channel(torch, {draw.choice(QUANTIZED)!r}, {draw.randrange(2)}, {zeros!r})"
        elif kind == 8:
            made = f"torch.quantize_per_tensor(torch.arange(6.0).reshape(2, 3), 0.5, {draw.randrange(5)}, torch.{draw.choice(QUANTIZED)})"
        elif kind == 9:
            made = f"noted({made}, tag={draw.choice(PLAIN)}, more=torch.ones(2))"
        elif kind == 10:
            made = draw.choice(
                (
                    f"({made}).to('meta')",
                    f"torch.nn.Buffer({made})",
                    "torch.empty_strided((2, 3), (1, 4), device='meta')",
                    "torch.sparse_coo_tensor([[1, 1, 0]], [1.0, 2.0, 3.0], (3,))",
                    "torch.nn.UninitializedParameter()",
                )
            )
        self.lines.append(f"{name} = {made}")
        self.tensors += 1
        return name

    def value(self, depth: int = 0) -> str:
        draw, kind = self.draw, self.draw.randrange(18)
        if depth < 3 and kind < 6:
            items = [self.value(depth + 1) for _ in range(draw.randrange(4))]
            keys = [draw.choice(("'a'", "'weight'", "0", "(1, 'b')", "2.5", "None")) for _ in items]
            inside = ", ".join(items)
            return draw.choice(
                (
                    f"[{inside}]",
                    f"({''.join(item + ', ' for item in items)})",
                    "{" + ", ".join(map(": ".join, zip(keys, items))) + "}",
                    f"collections.OrderedDict([{', '.join(f'({key}, {item})' for key, item in zip(keys, items))}])",
                )
            )
        if kind < 13:
            return self.tensor() if not self.tensors or draw.random() < 0.7 else f"x{draw.randrange(self.tensors)}"
        if kind == 13:
            return draw.choice(PLAIN)
        if kind == 14:
            return f"{draw.choice(MODULES)}{draw.choice(('', '.state_dict()', '.state_dict()', '.double()', '.eval()'))}"
        if kind == 15:
            return f"stepped(torch, {draw.choice(OPTIMIZERS)}){draw.choice(('.state_dict()', '.state_dict()', ''))}"
        if kind == 16:
            x = self.tensor()
            return draw.choice((f"{x}.untyped_storage()", f"{x}.storage()", f"{x}.size()", f"{x}.grad"))
        return draw.choice(
            (
                "torch.Generator().manual_seed(3)",
                "torch.ones(3).max(0)",
                "torch.arange(3.0).sort()",
                "Pair(torch.ones(1), 2)",
                "torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)])",
                "torch.get_rng_state()",
            )
        )

    def program(self) -> list[str]:
        draw = self.draw
        for number in range(draw.choice((1, 1, 2))):
            self.lines.append(f"value = {self.value()}")
            by = draw.choice(("flambeau", "torch"))
            is_zip = draw.random() < 0.6
            options = "" if is_zip else ", _use_new_zipfile_serialization=False"
            options += draw.choice(("", "", ", pickle_protocol=4", ", pickle_protocol=3", ", pickle_protocol=5"))
            self.lines.append(f"save({number}, {by!r}, value{options})")
            for _ in range(2):
                given = []
                if draw.random() < 0.6:
                    given.append(f"weights_only={draw.choice((True, False, False))}")
                if draw.random() < 0.4:
                    given.append(f"map_location={draw.choice(LOCATIONS)}")
                if draw.random() < (0.4 if is_zip else 0.1):
                    given.append("mmap=True")
                self.lines.append(f"back = load({', '.join([str(number), repr(draw.random() < 0.5), *given])})")
        return self.lines


class Files(Area):
    known = (
        Known("map_location is looked at before anything is read", ours="expected map_location to be"),
        Known(
            "PyTorch cannot read what it writes of complex32 that requires grad", theirs="a leaf Variable that requires grad is being used"
        ),
        Known("PyTorch cannot read old files of dtypes without a class of storages", theirs="UntypedStorage' has no attribute 'dtype'"),
        Known("PyTorch sets a generator's state before it has read it from an old file", theirs="^SystemError.*Generator object"),
        Known(
            "PyTorch sets a generator's state before it has read it from an old file, to whatever lies in memory",
            kind="values",
            theirs="get_state",
            program=r"(?s)Generator.*_use_new_zipfile_serialization=False",
        ),
        Known("PyTorch has no quantized tensors on meta", theirs="'QuantizedMeta' backend"),
        Known("sparse tensors are on no other device", ours="NotImplementedError: load: sparse tensors on meta"),
        Known(
            "storages of old files are placed before their objects are made, and may be refused first",
            kind="exception",
            ours="^RuntimeError: (Attempting to deserialize|don't know how to restore)",
            theirs="^UnpicklingError: Weights only",
        ),
        Known(
            "an empty storage that is seen as two dtypes: mapped, PyTorch gives it the first one for all",
            kind="fact",
            line="mmap=True",
            ours=r"\('dtype', ",
            theirs=r"\('dtype', ",
        ),
        Known("values of memory formats are harmless", theirs="GLOBAL torch.(channels_last|contiguous_format|preserve_format)"),
    )

    def __init__(self) -> None:
        self._files: dict[int, bytes] = {}

    def generate(self, draw: random.Random) -> list[str]:
        return Drawing(draw).program()

    def space(self, torch: ModuleType) -> dict[str, Any]:
        if torch.__name__ == "flambeau":
            self._files = {}  # of one program, for both of its namespaces
        files = self._files

        def save(number: int, by: str, value: Any, **options: Any) -> None:
            if torch.__name__ == by:
                buffer = io.BytesIO()
                files.pop(number, None)
                torch.save(value, buffer, **options)
                files[number] = buffer.getvalue()

        def load(number: int, from_path: bool, **options: Any) -> Any:
            if number not in files:
                return "nothing was saved"
            if not (from_path or options.get("mmap")):
                return torch.load(io.BytesIO(files[number]), **options)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "file.pt")
                with open(path, "wb") as file:
                    file.write(files[number])
                return torch.load(path, **options)

        helpers: tuple[Any, ...] = (sparse, by_channel, noted, stepped, Pair)
        modules = {"collections": collections, "np": np}
        return {"torch": torch, "save": save, "load": load, **modules, **{helper.__name__: helper for helper in helpers}}

    def compare(self, run: Run) -> Difference | None:
        line = run.line
        if line.startswith("save("):
            return None  # done by one of the two
        if any(run.errors):
            if not line.startswith("back"):
                run.ended = True  # what is made differs is another area's matter
                return None
            return self.compare_exceptions(run)
        if not line.startswith("back"):
            return None
        found = Comparison().compare(run.ours["back"], run.theirs["back"], "back")
        return None if found is None else run.differs(*found)


Found = tuple[str, str, str]


class Comparison:
    """All of two loaded objects, with the memory that their tensors share."""

    def __init__(self) -> None:
        self._memories: tuple[list[int], list[int]] = ([], [])

    def compare(self, ours: Any, theirs: Any, path: str) -> Found | None:
        found = self._compare(ours, theirs, path)
        groups = [[memory.index(pointer) for pointer in memory] for memory in self._memories]
        return found or (None if groups[0] == groups[1] else ("sharing", str(groups[0]), str(groups[1])))

    def _compare(self, ours: Any, theirs: Any, path: str) -> Found | None:
        if hasattr(theirs, "untyped_storage") and hasattr(theirs, "layout"):
            return self._tensors(ours, theirs, path)
        if type(ours).__name__ != type(theirs).__name__:
            return "class", f"{path}: {type(ours).__name__}", f"{path}: {type(theirs).__name__}"
        if hasattr(theirs, "state_dict"):
            facts = [(repr(value), getattr(value, "training", None)) for value in (ours, theirs)]
            if plain(facts[0]) != plain(facts[1]):
                return "repr", str(facts[0]), str(facts[1])
            return self._compare(ours.state_dict(), theirs.state_dict(), f"{path}.state_dict()")
        if hasattr(theirs, "get_state"):
            return self._compare(ours.get_state(), theirs.get_state(), f"{path}.get_state()")
        if hasattr(theirs, "nbytes") and hasattr(theirs, "data_ptr"):
            return self._storages(ours, theirs, path)
        if isinstance(theirs, dict):
            if [plain(key) for key in ours] != [plain(key) for key in theirs]:
                return "keys", f"{path}: {list(ours)}", f"{path}: {list(theirs)}"
            return first(self._compare(ours[a], theirs[b], f"{path}[{b!r}]") for a, b in zip(ours, theirs, strict=True))
        if isinstance(theirs, (list, tuple)):
            if len(ours) != len(theirs):
                return "length", f"{path}: {len(ours)}", f"{path}: {len(theirs)}"
            return first(self._compare(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(ours, theirs, strict=True)))
        if isinstance(theirs, np.ndarray):
            return None if np.array_equal(ours, theirs) else ("values", f"{path}: {ours}", f"{path}: {theirs}")
        return None if plain(ours) == plain(theirs) else ("value", f"{path}: {ours!r}", f"{path}: {theirs!r}")

    def _storages(self, ours: Any, theirs: Any, path: str) -> Found | None:
        facts = [(str(value.device), value.nbytes() if callable(value.nbytes) else value.nbytes) for value in (ours, theirs)]
        if facts[0] != facts[1]:
            return "storage", f"{path}: {facts[0]}", f"{path}: {facts[1]}"
        if facts[1][0] != "meta":
            self._remember(ours, theirs)
            if list(map(str, ours)) != list(map(str, theirs)):
                return "values", f"{path}: {list(ours)}", f"{path}: {list(theirs)}"
        return None

    def _remember(self, ours: Any, theirs: Any) -> None:
        for memory, storage in zip(self._memories, (ours, theirs), strict=True):
            memory.append(storage.data_ptr() or -len(memory) - 1)

    def _tensors(self, ours: Any, theirs: Any, path: str, is_part: bool = False) -> Found | None:
        """What differs; parts of sparse tensors need not have the memory that they were given in."""
        if is_uninitialized(theirs):
            same = is_uninitialized(ours) and str(ours.dtype) == str(theirs.dtype)
            return None if same else ("class", f"{path}: {type(ours)}", f"{path}: {type(theirs)}")
        for get in FACTS:
            a, b = plain(fact(get, ours)), plain(fact(get, theirs))
            if a != b:
                return "fact", f"{path}: {a}", f"{path}: {b}"
        parts = parts_of(theirs)
        if theirs.is_quantized:  # its parts are copies
            pairs = [(getattr(ours, part)(), getattr(theirs, part)()) for part in parts]
            same = all(str(a.dtype) == str(b.dtype) and bits(a) == bits(b) for a, b in pairs)
            return None if same else ("values", f"{path}: {pairs[-1][0]}", f"{path}: {pairs[-1][1]}")
        if parts:
            pairs = [(part, getattr(ours.detach(), part)(), getattr(theirs.detach(), part)()) for part in parts]
            return first(self._tensors(a, b, f"{path}.{part}()", is_part=True) for part, a, b in pairs)
        where = [(value.stride(), None if is_part else value.storage_offset()) for value in (ours, theirs)]
        if theirs.numel() and where[0] != where[1]:
            return "strides", f"{path}: {where[0]}", f"{path}: {where[1]}"
        if not theirs.is_meta:
            if theirs.numel() and not is_part:
                self._remember(ours.untyped_storage(), theirs.untyped_storage())
            if bits(ours) != bits(theirs):
                return "values", f"{path}: {ours}", f"{path}: {theirs}"
        return self._compare(dict(vars(ours)), dict(vars(theirs)), f"vars({path})")


FACTS: tuple[Callable[[Any], Any], ...] = (
    lambda x: ("class", isinstance(x, library_of(x).nn.Parameter)),
    lambda x: ("dtype", str(x.dtype)),
    lambda x: ("shape", tuple(x.shape)),
    lambda x: ("device", str(x.device)),
    lambda x: ("layout", str(x.layout)),
    lambda x: ("requires_grad", x.requires_grad),
    lambda x: ("is_leaf", x.is_leaf),
    lambda x: ("quantized", x.is_quantized),
    lambda x: ("qscheme", str(x.qscheme())) if x.is_quantized else None,
    lambda x: ("coalesced", x.is_coalesced()) if str(x.layout) == "torch.sparse_coo" else None,
    lambda x: ("scale", x.q_scale(), x.q_zero_point()) if x.is_quantized and "tensor" in str(x.qscheme()) else None,
    lambda x: ("axis", x.q_per_channel_axis()) if x.is_quantized and "channel" in str(x.qscheme()) else None,
)


def library_of(value: Any) -> Any:
    return sys.modules[type(value).__module__.partition(".")[0]]


def fact(get: Callable[[Any], Any], value: Any) -> Any:
    try:
        return get(value)
    except Exception as error:
        return type(error).__name__


def is_uninitialized(value: Any) -> bool:
    return type(value).__name__.startswith("Uninitialized")


def parts_of(tensor: Any) -> tuple[str, ...]:
    layout = str(tensor.layout).removeprefix("torch.")
    if tensor.is_quantized:
        return ("int_repr", "q_per_channel_scales", "q_per_channel_zero_points") if "channel" in str(tensor.qscheme()) else ("int_repr",)
    if layout == "sparse_coo":
        return ("_indices", "_values")
    if layout in ("sparse_csr", "sparse_bsr"):
        return ("crow_indices", "col_indices", "values")
    return ("ccol_indices", "row_indices", "values") if layout.startswith("sparse") else ()


def bits(tensor: Any) -> list[int]:
    """A tensor's elements as bytes."""
    torch = library_of(tensor)
    flat = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).tolist() if flat.numel() else []


def plain(value: Any) -> str:
    return re.sub(r"\b(flambeau|torch)\b", "torch", re.sub(r"0x[0-9a-f]+", "0x", repr(value)))


def first(found: Any) -> Any:
    return next(filter(None, found), None)


AREA = Files()
