"""What trials run: operations of every kind, on small operands (wrappers, node classes) and large ones (families, kernels, the pool).

Each function takes the package and returns arrays, the same ones whenever and in whatever order it is called.
"""

from __future__ import annotations

import importlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import trials


def _ramp(torch: Any, *shape: int) -> Any:
    n = int(np.prod(shape))
    return torch.from_numpy((np.arange(n, dtype=np.float32) % 97 - 48).reshape(shape) / 16)


def arithmetic(torch: Any, n: int) -> list[Any]:
    x, y = _ramp(torch, n, 4), _ramp(torch, 4)
    return [x + y, x - 1, 2 / (x.abs() + 1), x * y, -x, x**2, x.sqrt(), torch.maximum(x, y), x.clamp(-1, 1), x.lt(0), x.sign()]


def in_place(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4).clone()
    x.add_(1).mul_(0.5).clamp_(-9, 9).sub_(x.detach() * 0.25)
    x += 1
    x[0] -= 2
    x[:, 1].mul_(3)
    x.relu_()
    return [x, x.tanh_()]


def views(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4)
    a, b = x.split(2, 1)
    return [
        x.view(-1),
        x.t(),
        x.reshape(4, n),
        x[1:, ::2],
        x[..., None],
        a.contiguous(),
        b.transpose(0, 1).clone(),
        x.unbind(1)[2],
        x.flip(0),
    ]


def reductions(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4)
    value, where = x.max(1)
    return [x.sum(), x.mean(0), x.var(1), value, where, x.amin(), x.argmax(), x.norm(), x.logsumexp(1), x.any(), x.prod(1), x.cumsum(0)]


def activations(torch: Any, n: int) -> list[Any]:
    x, functional = _ramp(torch, n, 4), torch.nn.functional
    return [
        *(x.exp(), x.sigmoid(), x.tanh(), x.erf(), x.softmax(1), x.log_softmax(0)),
        *(functional.gelu(x), functional.silu(x), functional.softplus(x), functional.leaky_relu(x)),
    ]


def gradients(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4).clone().requires_grad_()
    functional = torch.nn.functional
    y = functional.silu(x) * x.sigmoid() + functional.layer_norm(x, (4,)).tanh()
    loss = functional.cross_entropy(y, torch.arange(n) % 4) + y.square().mean() + x.exp().log1p().sum() / n
    loss.backward()
    return [loss.detach(), x.grad, torch.autograd.grad((x * x).sum(), x)[0]]


def products(torch: Any, n: int) -> list[Any]:
    side = max(4, int(n**0.5) * 2)
    x = _ramp(torch, side, side)
    return [x @ x, torch.bmm(x[None], x[None]), torch.nn.functional.linear(x, x, x[0]), torch.einsum("ij,kj->ik", x, x)]


def images(torch: Any, n: int) -> list[Any]:
    side = max(6, int(n**0.5) // 2)
    x, functional = _ramp(torch, 2, 3, side, side).clone().requires_grad_(), torch.nn.functional
    y = functional.conv2d(x, _ramp(torch, 5, 3, 3, 3), padding=1)
    z = functional.avg_pool2d(functional.max_pool2d(functional.batch_norm(y, None, None, training=True), 2), 2)
    z.sum().backward()
    return [y.detach(), z.detach(), x.grad]


def joining(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4)
    rows = torch.arange(n).flip(0)
    picked = torch.nn.functional.embedding(rows, x)
    return [torch.cat([x, x], 1), torch.stack([x, x]), x.repeat(2, 1), picked, x.gather(0, rows[:, None]), x.index_select(0, rows), x[rows]]


def random_numbers(torch: Any, n: int) -> list[Any]:
    source = torch.Generator().manual_seed(5)
    x = torch.empty(n, 4).normal_(generator=source)
    return [torch.rand(n, generator=source), torch.randn(n, 4, generator=source), torch.randperm(n, generator=source), x, x.sort(0).values]


def training(torch: Any, n: int) -> list[Any]:
    width = max(8, n // 16)
    layer = torch.nn.Linear(width, 8)
    with torch.no_grad():
        layer.weight.copy_(_ramp(torch, 8, width))
        layer.bias.zero_()
    for optimizer in (torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9), torch.optim.Adam(layer.parameters(), lr=0.01)):
        for _ in range(2):
            optimizer.zero_grad()
            layer(_ramp(torch, 8, width)).square().mean().backward()
            optimizer.step()
    return [layer.weight.detach(), layer.bias.detach()]


def files(torch: Any, n: int) -> list[Any]:
    file = io.BytesIO()
    torch.save({"x": _ramp(torch, n, 4), "y": [1, "two"]}, file)
    file.seek(0)
    return [torch.load(file)["x"]]


def conversions(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4)
    return [x.to(torch.bfloat16).float(), x.double(), x.long(), x.half().float(), x.bool(), torch.zeros_like(x), torch.linspace(0, 1, n)]


def transforms(torch: Any, n: int) -> list[Any]:
    x, func = _ramp(torch, n, 4), torch.func

    def energy(row: Any) -> Any:
        return (row.tanh() * row).sum() + row[0].clone().mul_(row[1])

    slopes = func.vmap(func.grad(energy))(x)
    value, along = func.jvp(energy, (x[1],), (x[2],))
    with torch.autograd.forward_ad.dual_level():
        tangent = torch.autograd.forward_ad.unpack_dual(torch.autograd.forward_ad.make_dual(x, x).sin()).tangent
    _, pull = func.vjp(torch.sigmoid, x)
    back = pull(torch.ones_like(x))[0]
    return [slopes, value, along, tangent, back, func.hessian(energy)(x[3]), func.jacrev(torch.sin)(x[0]), func.jacfwd(torch.exp)(x[0])]


def mixed_precision(torch: Any, n: int) -> list[Any]:
    x, layer = _ramp(torch, n, 4), torch.nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight.copy_(_ramp(torch, 3, 4))
        layer.bias.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        loss = torch.nn.functional.mse_loss(y, torch.zeros_like(y))
        with torch.autocast("cpu", enabled=False):
            plain = layer(x)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss).backward()
    assert y.dtype == torch.bfloat16 and plain.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return [y.float(), plain, loss, layer.weight.grad / scaler.get_scale()]


def modes(torch: Any, n: int) -> list[Any]:
    x, names = _ramp(torch, n, 4).clone().requires_grad_(), []

    class Seen(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func)
            return func(*args, **(kwargs or {}))

    class Kernels(importlib.import_module("torch.utils._python_dispatch".replace("torch", torch.__name__, 1)).TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func)
            return func(*args, **(kwargs or {}))

    with Seen():
        y = x.exp()
    with Kernels():
        (y.sin() * x).sum().backward()
    with torch.device("meta"):
        shape = torch.ones(n, 3).matmul(torch.ones(3, 2)).shape
    assert len(names) >= 8, names
    return [y, x.grad, torch.zeros(shape), torch.ops.aten.add.Tensor(x, x, alpha=2)]


def own_operations(torch: Any, n: int) -> list[Any]:
    x = _ramp(torch, n, 4).clone().requires_grad_()
    space = f"faults{threading.get_ident()}"  # names of operations are the process's
    with torch.library._scoped_library(space, "FRAGMENT") as library:
        library.define("twice(Tensor x, float by=2.0) -> Tensor")
        library.impl("twice", lambda x, by=2.0: x * by, "CPU")
        torch.library.register_autograd(f"{space}::twice", lambda ctx, grad: (grad * 2, None), lib=library)
        y = getattr(torch.ops, space).twice(x)
        y.sum().backward()
    return [y, x.grad]


def decompositions(torch: Any, n: int) -> list[Any]:
    side = max(4, int(n**0.5))
    x = _ramp(torch, 3, side, side) / side + 2 * torch.eye(side)
    x.requires_grad_()
    even = x.detach() @ x.detach().mT
    torch.linalg.inv(x).sum().backward()
    return [
        *(torch.linalg.solve(x, x[0]), torch.linalg.det(even / even.amax()), torch.linalg.cholesky(even), torch.linalg.svdvals(x)),
        *(torch.linalg.qr(x)[0].abs(), torch.linalg.eigvalsh(even), x.grad, torch.fft.rfft(x).abs(), torch.linalg.lu_factor(x)[0]),
    ]


def sparse(torch: Any, n: int) -> list[Any]:
    places = torch.stack([torch.arange(n), torch.arange(n).flip(0)])
    values = _ramp(torch, n).clone().requires_grad_()
    matrix, x = torch.sparse_coo_tensor(places, values, (n, n), check_invariants=False), _ramp(torch, n, 4)
    product = torch.sparse.mm(matrix, x)
    product.square().sum().backward()
    still = torch.sparse_coo_tensor(places, values.detach(), (n, n), check_invariants=False).coalesce()
    return [product, values.grad, still.values(), torch.sparse.mm(still, x), torch.sparse.sum(still, 0).to_dense()]


def distributions(torch: Any, n: int) -> list[Any]:
    scale, source = _ramp(torch, n).abs() + 0.5, torch.Generator().manual_seed(3)  # the default generator is shared by all threads
    normal, gamma = torch.distributions.Normal(_ramp(torch, n), scale), torch.distributions.Gamma(scale, scale)
    categories = torch.distributions.Categorical(logits=_ramp(torch, n, 4))
    return [
        *(normal.log_prob(scale), normal.cdf(scale), gamma.entropy(), categories.entropy(), categories.log_prob(torch.arange(n) % 4)),
        *(torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)), torch.poisson(scale, generator=source)),
        *(torch.multinomial(categories.probs, 3, True, generator=source), torch.bernoulli(scale / 8, generator=source)),
    ]


def pictures(torch: Any, n: int) -> list[Any]:
    vision = importlib.import_module(f"{torch.__name__}.vision")
    side = max(8, int(n**0.5))
    image = (_ramp(torch, 3, side, side) * 40 + 128).to(torch.uint8)
    change = vision.transforms.v2.Compose([vision.transforms.v2.Resize(7), vision.transforms.v2.ToDtype(torch.float32, scale=True)])
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 1.0, 4.0, 4.0], [5.0, 5.0, 7.0, 7.0]])
    return [change(image), vision.ops.nms(boxes, torch.tensor([0.1, 0.9, 0.5]), 0.5), vision.utils.make_grid([image, image])]


PROGRAMS: dict[str, Callable[[Any, int], list[Any]]] = {
    program.__name__: program
    for program in (arithmetic, in_place, views, reductions, activations, gradients, products, images)
    + (joining, random_numbers, training, files, conversions)
    + (transforms, mixed_precision, modes, own_operations, decompositions, sparse, distributions, pictures)
}
# What stands around their calls stands around those of a signal's handler, too, in PyTorch as here: handlers there do not compute.
SURROUNDED = frozenset(("transforms", "mixed_precision", "modes"))
SMALL, LARGE = 8, 9000  # rows: below and above the sizes from which kernels are asked


def values(torch: Any, name: str, rows: int) -> list[np.ndarray]:
    return [result.detach().numpy().copy(order="K") for result in PROGRAMS[name](torch, rows)]


def expected(rows: int) -> dict[str, list[np.ndarray]]:
    """What every program gives, from a process of its own in which nothing happens; also what ``state`` says then."""
    with tempfile.TemporaryDirectory() as folder:
        counts = trials.in_child(_write_expected, folder, rows)
        return {
            name: [np.lib.format.open_memmap(f"{folder}/{name}{i}.npy", "r").copy(order="K") for i in range(count)]
            for name, count in counts.items()
        }


def _write_expected(folder: str, rows: int) -> dict[str, int]:
    import flambeau as torch

    counts = {}
    for name in PROGRAMS:
        results = values(torch, name, rows)
        counts[name] = len(results)
        for i, result in enumerate(results):
            np.save(f"{folder}/{name}{i}.npy", result)
    return counts


def check(torch: Any, name: str, rows: int, wanted: list[np.ndarray]) -> None:
    """Run a program.

    Raises:
        AssertionError: it gives something else.
    """
    results = values(torch, name, rows)
    for i, (have, want) in enumerate(zip(results, wanted, strict=True)):
        assert have.dtype == want.dtype and have.shape == want.shape, f"{name} {i}: {have.dtype} {have.shape}"
        # NumPy rounds otherwise where memory is aligned otherwise, and a handler's call may have gone to the reference
        np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5, err_msg=f"{name} {i}")


def state() -> dict[str, Any]:
    """What the process has switched on, and which kernels it has found: the same after every run of the same programs."""
    from flambeau.core import late, state as states
    from flambeau.core.arrays import native

    facts: dict[str, Any] = {
        "modes": [bool(states.active), states.modes.on_record is None, len(states.without_grad)],
        "inside": [states._own.inside, late._own.making],
        "thread": {name: repr(value) for name, value in sorted(vars(states.thread).items()) if value not in (True, False, None, ())},
        "grad": [states.thread.grad, states.thread.inference, native.switch.on],
        "kernels": sorted(name for name, kernel in native._found.items() if kernel is not None),
    }
    pool = sys.modules.get("flambeau.kernels.compiler.pool")
    build = sys.modules.get("flambeau.kernels.compiler.build")
    pointwise = sys.modules.get("flambeau.kernels.families.pointwise")
    if pool is not None and pool.pool.crew is not None:
        facts["pool"] = [pool.pool.launch == pool.pool.crew.launch, pool.pool.crew.count]
    if build is not None:
        facts["built"] = {generator.__name__: len(kernels) for generator, kernels in build.GENERATORS.items() if kernels}
    if pointwise is not None:
        facts["plans given up"] = sum(plan is None for plan in pointwise._plans.values())
    return facts


OF_CONTEXTS = ("modes", "inside", "thread", "grad")  # what they switch


def check_state(actual: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare two of ``state``; a process to which something happened may have built more kernels, for what its handler did."""
    fewer = {name: count for name, count in wanted.get("built", {}).items() if actual["built"].get(name, 0) < count}
    assert not fewer, f"kernels that were not built: {fewer}"
    for name in wanted:
        assert name == "built" or actual[name] == wanted[name], f"{name}: {actual[name]} instead of {wanted[name]}"
