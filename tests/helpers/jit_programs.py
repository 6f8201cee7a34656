"""Programs that are scripted and traced in both libraries: the same source, loaded once for each (``programs_of``).

The library stands in ``LIBRARY`` when this file is run. Parameters are set to fixed numbers, so that both have the same.
"""

# ruff: noqa: B007, C406, UP031 - as scripted programs write loops and texts

import importlib.util
import math
import sys
import warnings
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Final, NamedTuple  # noqa: UP035 - as scripted programs write them

torch: Any = globals().get("LIBRARY")
nn: Any = torch and torch.nn
F: Any = torch and torch.nn.functional
Tensor: Any = torch and torch.Tensor
Module: Any = torch.nn.Module if torch else object


@dataclass
class Program:
    """A function or module with inputs.

    Attributes:
        make: gives the function or module. inputs: gives arguments. ways: how it is compiled. other: arguments with other sizes, which the
            compiled program must take too.
    """

    make: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    ways: tuple[str, ...] = ("script", "trace")
    other: Callable[[], tuple[Any, ...]] | None = None
    training: bool = False
    notes: dict[str, Any] = field(default_factory=dict)


PROGRAMS: dict[str, Program] = {}


def program(inputs: Any, ways: Any = ("script", "trace"), other: Any = None, training: bool = False) -> Any:
    def add(make: Any) -> Any:
        PROGRAMS[make.__name__.lower()] = Program(make if isinstance(make, type) else lambda: make, inputs, ways, other, training)
        return make

    return add


def ramp(*shape: int) -> Any:
    """Numbers without a pattern that an error could keep."""
    count = math.prod(shape)
    return torch.sin(torch.arange(count, dtype=torch.float32) * 1.3 + 0.4).reshape(shape)


def settle(module: Any) -> Any:
    """Give all parameters and buffers fixed numbers."""
    with torch.no_grad():
        for place, (name, tensor) in enumerate([*module.named_parameters(), *module.named_buffers()]):
            if tensor.is_floating_point():
                values = ramp(*tensor.shape) * 0.4 + 0.01 * place
                tensor.copy_(values.abs() + 0.5 if "var" in name else values)
    return module


def programs_of(library: Any) -> dict[str, Program]:
    """The programs, written with a library."""
    name = f"jit_programs_of_{library.__name__}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, __file__)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        made.LIBRARY = library  # type: ignore[attr-defined]
        sys.modules[name] = made
        spec.loader.exec_module(made)
    found: dict[str, Program] = sys.modules[name].PROGRAMS
    return found


def made(library: Any, name: str, way: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """A program, compiled, and its arguments."""
    which = programs_of(library)[name]
    module = sys.modules[f"jit_programs_of_{library.__name__}"]
    program = which.make()
    if isinstance(program, library.nn.Module):
        program = module.settle(program)
        program.train(which.training)
    inputs = which.inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a trace keeps as a constant
        compiled = library.jit.script(program) if way == "script" else library.jit.trace(program, inputs, check_trace=False)
    return program, compiled, inputs


# -- functions -------------------------------------------------------------------------------------------------------------------------
if torch:

    @program(lambda: (ramp(3, 4), ramp(3, 4)), other=lambda: (ramp(2, 5), ramp(2, 5)))
    def arithmetic(x, y):
        z = x * 2 + y / 3 - x**2
        z = -z + 1 - (2 - y) * 3
        return torch.relu(z) @ y.t() + torch.exp(-x.abs()).sum(1, keepdim=True)

    @program(lambda: (ramp(2, 3),), ways=("script",))
    def branches(x):
        if bool(x.sum() > 0):
            y = x
        else:
            y = -x
        return y if x.numel() > 4 else y * 2

    @program(lambda: (ramp(2, 3), 4), ways=("script",))
    def loops(x, n: int):
        total = torch.zeros_like(x)
        i = 0
        while i < n:
            i += 1
            if i == 2:
                continue
            for j in range(i):
                total = total + x * j
            if i > 5:
                break
        return total, i

    @program(lambda: (ramp(2, 3),), ways=("script",))
    def containers(x) -> tuple[Tensor, list[int], dict[str, int]]:
        parts: list[Tensor] = []
        sizes = [n * 2 for n in x.shape]
        table: dict[str, int] = {}
        for place, size in enumerate(sizes):
            parts.append(x * place)
            table["a" + str(place)] = size
        for key, value in table.items():
            parts[0] = parts[0] + value
        if "a0" in table:
            sizes.extend([len(parts), table["a0"]])
        return torch.stack(parts).sum(0), sizes[::-1], table

    @program(lambda: (ramp(2, 3), None, 2.0), ways=("script",))
    def optional(x, y: Tensor | None = None, scale: float = 2.0):
        if y is None:
            y = x * scale
        if y is not None and y.dim() == 2:
            return x + y
        return x

    @program(lambda: (ramp(3, 4, 5),), other=lambda: (ramp(4, 4, 5),))
    def indexing(x):
        y = x[:, 1:3, ::2] + x[0, None, 0:2, -1:]
        z = x[..., 0].clone()
        z[0] = 2.0
        z[:, 1:2] = y[:, 0:1, 0]
        return y, z, x[torch.tensor([0, 2])], x[x[:, 0, 0] > 0].sum()

    @program(lambda: (ramp(2, 6),), other=lambda: (ramp(5, 6),))
    def sizes(x):
        batch, width = x.shape[0], x.size(1)
        y = x.view(batch, 2, width // 2).transpose(1, 2).reshape(batch, -1)
        return y.repeat(2, 1), y.expand(3, -1, -1), torch.zeros(batch, 3) + y.flatten(1)[:, 0:1]

    @program(lambda: (ramp(4, 6),))
    def splitting(x):
        a, b = x.chunk(2, 1)
        c, d, e = torch.split(x, 2, dim=1)
        values, places = torch.max(x, 1)
        top = torch.topk(x, 2, dim=1)
        return torch.cat([a, b * 2, c], 1), d + e, values + places, top[0], torch.stack(x.unbind(0), 1)

    @program(lambda: (ramp(2, 3),), ways=("script",))
    def words(x) -> tuple[str, str, int, float]:
        name = f"shape of {x.dim()} dims".upper()
        text = f"{name}, {x.size(0)}" + "!"
        count = int(x.sum() > 10) + max(3, len(text)) + math.floor(2.7)
        return text, ",".join(["a", "b"]) + "%d" % count, count, math.sqrt(4.0) + math.pi

    @program(lambda: (ramp(3, 4),), ways=("script",))
    def types(x):
        y = torch.arange(4, dtype=torch.float64, device=x.device)
        z = x.to(torch.float64) * y
        if z.dtype == torch.float64 and not z.is_cuda:
            z = z.float()
        return z, (z > 0).to(torch.int64), torch.full([2, 2], 1.5), torch.tensor([1, 2, 3])

    @program(lambda: (4, ramp(2, 3), [1, 2, 3, 4], "a,b"), ways=("script",))
    def refined(n: int | None, x: Tensor | None, items: list[int], text: str) -> tuple[Tensor, int, list[int], str, dict[str, int]]:
        assert x is not None
        total = 0
        if isinstance(n, int):
            total = n + 1
        if total and len(items):
            total += 1
        return x + 1, total, items[-2:], "%s=%d" % (text[-1:], total), dict([("a", 1), ("b", total)])

    @program(lambda: (3,), ways=("script",))
    def compared(n: int) -> tuple[int, bool, str, int]:
        level = Level(n)
        half = Level(9) / Level(3)
        total = 0
        for color in Shade:
            total += color.value
        return half.level, level == Level(3), str(level), total

    class Shade(Enum):
        LIGHT = 1
        DARK = 2

    class Level:
        def __init__(self, level: int):
            self.level = level

        def __truediv__(self, other: "Level") -> "Level":
            return Level(self.level // other.level)

        def __eq__(self, other: "Level") -> bool:
            return self.level == other.level

        def __str__(self) -> str:
            return "a level"

    class Pair(NamedTuple):
        first: Tensor
        second: int

    def paired(x, n: int) -> Pair:
        return Pair(x * n, n + 1)

    @program(lambda: (ramp(2, 3),), ways=("script",))
    def named_tuples(x):
        pair = paired(x, 3)
        return pair.first + pair.second

    class Color(Enum):
        RED = 1
        GREEN = 2

    @program(lambda: (ramp(2, 3), 2), ways=("script",))
    def forked(x, n: int):
        future = torch.jit.fork(arithmetic, x, x)
        total = x.sum()
        with torch.no_grad():
            y = x * n
        return torch.jit.wait(future), total, y

    class Counter:
        def __init__(self, start: int):
            self.count = start
            self.last = torch.zeros(1)

        def add(self, x: Tensor, times: int = 1) -> int:
            for _ in range(times):
                self.count += 1
            self.last = x
            return self.count

    @program(lambda: (ramp(2, 3),), ways=("script",))
    def objects(x):
        counter = Counter(3)
        counter.add(x, 2)
        counter.add(x * 2)
        return counter.last, counter.count

    @program(lambda: (ramp(2, 3), "mean"), ways=("script",))
    def raising(x, mode: str = "sum"):
        if mode == "sum":
            return x.sum()
        elif mode == "mean":
            return x.mean()
        else:
            raise ValueError("bad mode " + mode)

    def scaled(x, flag: bool, *, scale: float):
        return x * scale if flag else x

    @program(lambda: ((2, ramp(2)), {2: [1, 2]}), ways=("script",))
    def tables(pair: tuple[int, Tensor], table: dict[int, list[int]]):
        n, x = pair
        items = table[n] + [n]
        items[0] = 5
        del table[n]
        named: list[tuple[str, int]] = [("a", 1), ("b", 2)]
        total = 0
        for name, value in named:
            if name == "b":
                continue
            total += value
        return scaled(x, True, scale=2.0) + total, items, len(table), n in table, table.get(3, [7]), [name for name, _ in named], n**2

    # -- modules -----------------------------------------------------------------------------------------------------------------------
    @program(lambda: (ramp(4, 6),), other=lambda: (ramp(2, 6),))
    class Perceptron(Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 5, bias=False), nn.LogSoftmax(dim=1))

        def forward(self, x):
            return self.layers(x)

    @program(lambda: (ramp(2, 3, 8, 8),), other=lambda: (ramp(1, 3, 12, 12),))
    class Convolutions(Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.depth = nn.Conv2d(4, 4, 3, groups=4, stride=2, bias=False)
            self.pool = nn.AdaptiveAvgPool2d((1, 1))
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            x = F.relu(self.norm(self.conv(x)), inplace=True)
            x = F.max_pool2d(self.depth(x), 2, padding=1) + F.avg_pool2d(x, 4).mean()
            return self.head(torch.flatten(self.pool(x), 1))

    @program(lambda: (ramp(2, 4, 8, 8),))
    class Shapes(Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)
            self.shuffle = nn.PixelShuffle(2)
            self.sample = nn.Upsample(scale_factor=2, mode="nearest")
            self.pad = nn.ZeroPad2d(1)

        def forward(self, x):
            y = self.up(x) + F.interpolate(x[:, 0:2], scale_factor=2.0, mode="bilinear", align_corners=False)
            return self.pad(y), self.shuffle(x), self.sample(x[:, :1]), F.pad(x, (1, 1), value=2.0)

    @program(lambda: (ramp(2, 3, 4),), ways=("script",))
    class Control(Module):
        scale: Final[float]

        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)])
            self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Sigmoid()})
            self.scale, self.steps = 0.5, 2
            self.sizes = [1, 2]
            self.register_buffer("shift", torch.ones(4))

        def helper(self, x, times: int = 1):
            for _ in range(times):
                x = x * self.scale
            return x

        @torch.jit.export
        def doubled(self, x):
            return 2 * x

        @torch.jit.unused
        def never(self, x) -> Tensor:
            return torch.from_numpy(x.numpy())

        def forward(self, x, flag: bool = True):
            for place, layer in enumerate(self.layers):
                x = layer(x) + place
            for name, layer in self.named.items():
                x = layer(x)
            if self.training:
                x = self.never(x)
            if not torch.jit.is_scripting():
                x = x + 0.0
            assert x.dim() == 3, "three dimensions"
            if x.size(0) > 5:
                raise ValueError(f"too large: {x.size(0)}")
            x = self.helper(x, times=self.steps) + self.shift + self.sizes[-1]
            self.steps += 1
            return self.doubled(x) if flag else self.layers[0](x)

    @program(lambda: (ramp(5, 2, 4),), other=lambda: (ramp(3, 2, 4),))
    class Recurrent(Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True)
            self.gru = nn.GRU(6, 2)

        def forward(self, x):
            y, (h, c) = self.lstm(x)
            z, last = self.gru(y)
            return z, h + c, last

    @program(lambda: (ramp(3, 5, 4), torch.tensor([3, 5, 1])), other=lambda: (ramp(2, 6, 4), torch.tensor([2, 6])))
    class Packed(Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)
            self.gru = nn.GRU(6, 2, batch_first=True)
            self.rnn = nn.RNN(2, 2)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, (h, c) = self.lstm(packed)
            z, last = self.gru(y)
            z, end = self.rnn(z, last)
            padded, found = nn.utils.rnn.pad_packed_sequence(z, batch_first=True, padding_value=-1.0, total_length=x.size(1))
            return padded, found, h + c, end

    @program(lambda: (torch.tensor([[1, 2, 0], [3, 1, 1]]),))
    class Attention(Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 8, padding_idx=0)
            self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
            self.norm = nn.LayerNorm(8)
            self.heads = 2

        def split(self, x):
            return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

        def forward(self, tokens):
            x = self.table(tokens)
            y = F.scaled_dot_product_attention(self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x)), is_causal=True)
            return self.norm(x + y.transpose(1, 2).flatten(2))

    @program(lambda: (ramp(2, 3, 8),))
    class Multihead(Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            y, weights = self.attention(x, x, x)
            return y, weights

    @program(lambda: (ramp(3, 5), torch.tensor([1, 0, 4])))
    class Losses(Module):
        def __init__(self):
            super().__init__()
            self.entropy = nn.CrossEntropyLoss(label_smoothing=0.1)

        def forward(self, x, target):
            y = x * 0.5
            losses = self.entropy(x, target) + F.mse_loss(x, y) + F.smooth_l1_loss(x, y, beta=0.5) + F.l1_loss(x, y, reduction="sum")
            binary = F.binary_cross_entropy_with_logits(x, torch.sigmoid(y))
            return losses + binary, F.nll_loss(F.log_softmax(x, dim=1), target, reduction="none")

    @program(lambda: (ramp(2, 6),))
    class Activations(Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(
                [nn.ELU(), nn.LeakyReLU(0.2), nn.Hardtanh(-0.5, 0.5), nn.SiLU(), nn.Softplus(), nn.PReLU(), nn.Hardswish()]
            )

        def forward(self, x):
            for layer in self.layers:
                x = layer(x) + 0.1
            return F.softmax(x, dim=-1), F.normalize(x, dim=1), F.selu(x), F.relu6(x), F.glu(x), F.softsign(x), F.logsigmoid(x)

    @program(lambda: (ramp(2, 4, 6),))
    class Norms(Module):
        def __init__(self):
            super().__init__()
            self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
            self.batch, self.layer = nn.BatchNorm1d(4, affine=False), nn.LayerNorm([4, 6], elementwise_affine=False)

        def forward(self, x):
            return self.group(x) + self.instance(x), self.batch(x) + self.layer(x)

    @program(lambda: (ramp(8, 4),), training=True)
    class Training(Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.BatchNorm1d(4), nn.Linear(4, 2)

        def forward(self, x):
            return self.linear(self.norm(x)), self.norm.running_mean, self.norm.num_batches_tracked

    @program(lambda: (ramp(2, 3), None), ways=("script",))
    class Members(Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("count", torch.zeros(1))
            self.table = {"k": 2}
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(3))])
            self.tag = "t"

        @property
        def width(self):
            return 3

        def forward(self, x, state: tuple[Tensor, Tensor] | None = None):
            self.count += 1
            if state is None:
                state = (x, x)
            h, c = state
            y = self.linear(x) * self.table["k"] + self.width
            if self.tag == "t":
                y = y + h + c
            return y, (h, torch.einsum("ij,kj->ik", y, c))

    class Inner(Module):
        def __init__(self, width: int):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(width))
            self.width = width

        def forward(self, x, y):
            return x * self.weight + y, x.sum()

    @program(lambda: (ramp(2, 3),))
    class Nested(Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = Inner(3), Inner(3)
            self.two.weight = self.one.weight
            self.same = self.one
            self.act: Any = F.relu
            self.none = None

        def forward(self, x):
            a, total = self.one(x, x)
            b, other = self.two(self.act(a), x)
            c, _ = self.same(b, a)
            if self.none is not None:
                c = c + 1
            return c, total + other

    @program(lambda: (ramp(2, 3),), ways=("script",))
    class WithState(Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))
            self.register_buffer("shift", torch.zeros(3))
            self.scales = [2, 3]
            self.count = 4

        @torch.jit.export
        def __getstate__(self):
            return self.count + 1, self.scales, self.weight, self.shift, self.training

        @torch.jit.export
        def __setstate__(self, state: tuple[int, list[int], Tensor, Tensor, bool]):
            self.count = state[0]
            self.scales = state[1]
            self.weight = state[2]
            self.shift = state[3]
            self.training = state[4]

        def forward(self, x):
            return x * self.weight * self.scales[1] + self.shift
