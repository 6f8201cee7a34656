"""Programs that define operations of their own, run with PyTorch and with flambeau: each returns what it saw.

A program gets the library and a namespace of its own, and a function that gives a call's result, or its error, as text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from oracle import pytorch

PROGRAMS: list[Callable[..., Any]] = []


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(function)
    return function


def shown(function: Callable[[], Any]) -> str:
    """A call's result as text, or its error without addresses and places of files."""
    try:
        text = repr(function())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    text = re.sub(r" at 0x[0-9a-f]+|<module '[^']*' from '[^']*'>|from '[^']*'", "", text)
    return text.replace("flambeau.core.tensor.Tensor", "torch.Tensor").replace("flambeau", "torch")


def typed(torch: Any, function: Callable[..., Any], result: Any = "Tensor", **kinds: Any) -> Callable[..., Any]:
    """A function with annotations of a library's own types; 'Tensor' is its tensor."""

    def of(kind: Any) -> Any:
        return torch.Tensor if kind == "Tensor" else kind(torch.Tensor) if isinstance(kind, FunctionType) else kind

    function.__annotations__ = {**{name: of(kind) for name, kind in kinds.items()}, "return": of(result)}
    return function


@program
def numpy_operations(torch: Any, ns: str) -> Any:
    """The tutorial's: NumPy inside, derivatives, a fake kernel, and a second derivative."""

    def sine(x):
        return torch.from_numpy(np.sin(x.numpy(force=True)))

    def product(x, y):
        return torch.from_numpy(x.numpy(force=True) * y.numpy(force=True))

    library = torch.library
    sin = library.custom_op(f"{ns}::numpy_sin", typed(torch, sine, x="Tensor"), mutates_args=(), device_types="cpu")
    mul = library.custom_op(f"{ns}::numpy_mul", typed(torch, product, x="Tensor", y="Tensor"), mutates_args=())
    sin.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0].cos(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    mul.register_autograd(
        lambda ctx, grad: (mul(grad, ctx.saved_tensors[1]), mul(grad, ctx.saved_tensors[0])),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    for operation in (sin, mul):
        operation.register_fake(lambda x, *rest: torch.empty_like(x))
    x = torch.tensor([0.5, 1.0, -2.0], dtype=torch.float64, requires_grad=True)
    y = mul(sin(x), x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    checks = torch.autograd.gradgradcheck(mul, (x, x.detach().exp().requires_grad_()))
    module = torch.nn.Sequential(torch.nn.Linear(3, 2, dtype=torch.float64))
    with torch.no_grad():
        module[0].weight.fill_(0.5)
        module[0].bias.zero_()
    return [y, first, second, checks, sin(module(x)), getattr(torch.ops, ns).numpy_sin(x), sin, mul(x.to("meta"), x.to("meta"))]


@program
def a_mutable_operation(torch: Any, ns: str) -> Any:
    """Arguments that are written to: versions, stale saved tensors, leaves, results beside."""

    def write(x, y):
        np.add(x.numpy(force=True), y.numpy(force=True), out=x.numpy(force=True))

    def both(x, y):
        x.add_(1)
        return y * 2

    library = torch.library
    add = library.custom_op(f"{ns}::add_", typed(torch, write, None, x="Tensor", y="Tensor"), mutates_args={"x"})
    two = library.custom_op(f"{ns}::both", typed(torch, both, x="Tensor", y="Tensor"), mutates_args=("x",))
    x, y = torch.zeros(2), torch.ones(2, requires_grad=True)
    add(x, y)
    seen = [x, x._version, x.requires_grad]
    z = torch.ones(2, requires_grad=True)
    middle = z * 2
    result = (middle * middle).sum()
    add(middle, torch.ones(2))
    seen += [shown(result.backward).partition(": [")[0], shown(lambda: add(torch.ones(2, requires_grad=True), y))]
    made = two(torch.zeros(2), y)
    seen += [made.requires_grad, shown(lambda: made.sum().backward()), shown(lambda: add.register_autograd(lambda ctx, grad: grad))]
    seen += [add._opoverload._schema]
    return seen


@program
def results_that_are_refused(torch: Any, ns: str) -> Any:
    """Arguments as results, wrong results, wrong arguments."""

    def define(name, function, result="Tensor", **kinds):
        return torch.library.custom_op(f"{ns}::{name}", typed(torch, function, result, x="Tensor", **kinds), mutates_args=())

    pair = tuple.__class_getitem__((torch.Tensor, torch.Tensor))
    x = torch.ones(2)
    same = define("same", lambda x: x)
    view = define("view", lambda x: x.view(-1))
    twice = define("twice", lambda x: (y := x.clone(), y), pair)
    number = define("number", lambda x: 3)
    one = define("one", lambda x: x.clone(), pair)
    none = define("none", lambda x: x.clone(), None)
    several = define("several", lambda x, k=2, f=1.0, s="a", b=True: x * k, k=int, f=float, s=str, b=bool)
    calls = [lambda: same(x), lambda: view(x), lambda: twice(x), lambda: number(x), lambda: one(x), lambda: none(x)]
    calls += [lambda: several(3), several, lambda: several(x, "a"), lambda: several(x, 1.5), lambda: several(x, 2, 1, "a", 1, 5)]
    calls += [lambda: several(x, q=1), lambda: several(x, f="a"), lambda: several(x, f=2, k=True), lambda: several(x, s=1)]
    calls += [lambda: several(np.ones(2)), lambda: several(x, torch.tensor(3)), lambda: several(x, np.int64(3))]
    return [shown(call) for call in calls]


@program
def annotations(torch: Any, ns: str) -> Any:
    """Schemas that are inferred."""
    from collections.abc import Sequence
    from typing import List, Optional, Tuple, Union  # noqa: UP035

    tensor = torch.Tensor

    def function(x, y, z, v=3, s="a", f=1.5, b=True, *, d=None, n=2):
        pass

    def inferred(result, mutates_args=(), **kinds):
        function.__annotations__ = {**dict.fromkeys("xyzvsfbdn", float), **kinds, "return": result}
        return shown(lambda: torch.library.infer_schema(function, mutates_args=mutates_args))

    kinds = [tensor, Optional[tensor], Sequence[tensor], List[tensor], list[tensor], Optional[List[int]], torch.dtype]  # noqa: UP006, UP045
    kinds += [Union[int, float, bool], int, list[float], Optional[bool], torch.device, list[Optional[tensor]]]  # noqa: UP007, UP045
    seen = [inferred(None, x=kind) for kind in kinds]
    seen += [inferred(result) for result in (tensor, list[tensor], Tuple[tensor, int], tuple[tensor], float, bool)]  # noqa: UP006
    seen += [inferred(result).partition("valid types")[0] for result in (str, dict, Optional[tensor], Tuple[tensor, ...])]  # noqa: UP006, UP045
    seen += [inferred(None, x=kind).partition("valid types")[0] for kind in (dict, tuple[int, int], tensor | None | str)]
    seen += [
        inferred(None, "unknown", x=tensor, y=list[tensor]),
        inferred(None, ("x",), x=tensor),
        inferred(None, ("x",)),
        inferred(None, "x"),
    ]
    seen += [inferred(None, ("q",)), shown(lambda: torch.library.infer_schema(lambda x: x, mutates_args=()))]

    def rest(*args: float) -> None: ...

    def bare(x: float): ...

    return [*seen, *[shown(lambda given=given: torch.library.infer_schema(given, mutates_args=())) for given in (rest, bare)]]


@program
def derivatives_of_lists_and_keywords(torch: Any, ns: str) -> Any:
    """Lists of tensors among arguments and results, keyword-only numbers, results that are no tensors, and wrong gradients."""
    define = torch.library.custom_op
    told: list[Any] = []

    def scaled(xs, k, *, shift=0.0):
        return [x * k + shift for x in xs]

    def several(x):
        return x * 2, x.long(), 5

    scaled = define(f"{ns}::scaled", typed(torch, scaled, lambda t: list[t], xs=lambda t: list[t], k=float, shift=float), mutates_args=())
    several = define(
        f"{ns}::several", typed(torch, several, tuple.__class_getitem__((torch.Tensor, torch.Tensor, int)), x="Tensor"), mutates_args=()
    )

    def setup(ctx, inputs, output, keyword_only_inputs):
        told.append((inputs, output, keyword_only_inputs))
        ctx.k = inputs[1]

    def backward(ctx, grads):
        told.append((grads, ctx.needs_input_grad))
        return [grad * ctx.k for grad in grads], None

    scaled.register_autograd(backward, setup_context=setup)
    z = torch.ones(2, requires_grad=True)
    first, second = scaled([z, torch.ones(1)], 3.0, shift=0.5)
    told += [torch.autograd.grad(first.sum() + second.sum(), z), first.grad_fn.name(), len(first.grad_fn.next_functions)]
    for wrong in ([], [None, None, None], 3.0):
        scaled.register_autograd(lambda ctx, grads, wrong=wrong: (wrong, None), setup_context=setup)
        told.append(shown(lambda: torch.autograd.grad(scaled([z, z * 2], 3.0)[0].sum(), z)))
    several.register_autograd(lambda ctx, *grads: (told.append(grads), grads[0])[1])
    made = several(z)
    told += [made, torch.autograd.grad(made[0].sum(), z)]
    for backward in (lambda ctx, *grads: (grads[0], grads[0]), lambda ctx, *grads: None, lambda ctx, *grads: 3, lambda ctx: None):
        several.register_autograd(backward)
        told.append(shown(lambda: torch.autograd.grad(several(z)[0].sum(), z, allow_unused=True)))
    return told


@program
def libraries(torch: Any, ns: str) -> Any:
    """``Library``: definitions, kernels by dispatch key, overloads, errors, and what goes with it."""
    library = torch.library
    lib = library.Library(ns, "DEF")
    ops = getattr(torch.ops, ns)
    z = torch.ones(2, requires_grad=True)
    seen = [
        lib.define("foo(Tensor x, int k=3) -> Tensor"),
        shown(lambda: lib.define("foo(Tensor x, int k=3) -> Tensor")).partition(" Dup")[0],
    ]
    seen += [shown(lambda: library.Library(ns, "DEF")).partition("  Prev")[0], shown(lambda: library.Library(ns, "FOO"))]
    seen += [
        shown(lambda: library.Library("prim", "DEF")),
        shown(lambda: lib.impl("foo", 3, "CPU")),
        shown(lambda: lib.impl("foo", len, "No")),
    ]
    seen += [shown(lambda: library.Library(ns, "IMPL").define("a(Tensor x) -> Tensor")).partition("  (E")[0]]
    seen += [shown(lambda: lib.impl("other::foo", len, "CPU")).partition("  (E")[0], shown(lambda: ops.foo(z))[:90]]
    lib.impl("foo", lambda x, k=3: x * k, "CPU")
    seen += [ops.foo(z), ops.foo.default(z, 5), ops.foo(z.detach(), k=1), ops.foo.overloads(), lib]
    lib.define("o.a(Tensor x) -> Tensor")
    lib.define("o.b(Tensor x, int y) -> Tensor")
    lib.impl("o.a", lambda x: x + 1, "CPU")
    lib.impl("o.b", lambda x, y: x + y, "CPU")
    seen += [ops.o(z.detach()), ops.o(z.detach(), 5), ops.o.overloads(), shown(lambda: ops.o.default), shown(lambda: ops.o("a"))]
    lib.define("composite(Tensor x) -> Tensor")
    lib.impl("composite", lambda x: x.sin() * 2, "CompositeImplicitAutograd")
    seen += [torch.autograd.grad(ops.composite(z).sum(), z), ops.composite(z.detach().to("meta"))]
    lib.define("given(Tensor x, int a=1, *, int b=2) -> Tensor")
    lib.impl("given", lambda *args, **kwargs: (seen.append((args[1:], kwargs)), args[0].clone())[1], "CPU")
    for args, kwargs in (((), {}), ((1,), {"b": 2}), ((2,), {"b": 3})):
        ops.given(z.detach(), *args, **kwargs)
    lib.define("kinds(Tensor x, int n, float f, bool b, str s, ScalarType? d=None, Device? e=None, int[2] m=1) -> (int, float, bool, str)")
    lib.impl("kinds", lambda x, n, f, b, s, *rest: (n, f, b, str((type(n), type(f), type(b), rest))), "CPU")
    seen += [
        ops.kinds(z, True, 1, 1, "a"),
        ops.kinds(z, 2, 1.5, False, "a", torch.float32, "cpu", 5),
        shown(lambda: ops.kinds(z, 1.5, 1, 1, "")),
    ]
    lib.define("lists(Tensor[] xs, int[] n, Tensor?[]? o=None) -> Tensor[]")
    lib.impl("lists", lambda xs, n, o=None: (seen.append((type(xs), n, o)), [x.clone() for x in xs])[1], "CPU")
    seen += [ops.lists((z, z), (1, 2)), ops.lists([z], [1], [None, z.detach()])]
    seen += [shown(lambda: ops.lists(z, [1])), shown(lambda: ops.lists([z, 3], [1])), shown(lambda: ops.lists([z], [1, "a"]))]
    lib.define("write(Tensor(a!) x, Tensor y) -> ()")
    lib.impl("write", lambda x, y: None if x.copy_(y) is x else 0, "CompositeExplicitAutograd")
    x = torch.zeros(2)
    ops.write(x, z.detach())
    seen += [x, x._version, ops.write.default._schema, ops.write.default._schema.is_mutable]
    lib._destroy()
    return [*seen, shown(lambda: ops.foo), shown(lambda: ops.foo(z)), library.Library(ns, "DEF").define("foo(Tensor x) -> Tensor")]


@program
def what_goes_with_a_library(torch: Any, ns: str) -> Any:
    first = torch.library.Library(ns, "DEF")
    first.define("moved(Tensor x) -> Tensor")
    first.impl("moved", lambda x: x + 1, "CPU")
    op, x = getattr(torch.ops, ns).moved, torch.zeros(2)
    seen = []
    later = [torch.library.Library(ns, "IMPL") for _ in range(3)]
    for number, lib in enumerate(later):
        lib.impl("moved", lambda x, number=number: x + 10 * (number + 1), "CPU")
        seen.append(op(x).tolist())
    for lib in (later[1], later[2], later[0]):  # one below the last, the last, and the one that is left
        lib._destroy()
        seen.append(op(x).tolist())
    rules = torch.library.Library(ns, "FRAGMENT")
    torch.library.register_fake(f"{ns}::moved", lambda x: torch.empty_like(x), lib=rules)
    torch.library.register_vmap(f"{ns}::moved", lambda info, dims, x: (x * 2, dims[0]), lib=rules)
    seen += [shown(lambda: op(torch.empty(3, device="meta")).shape), shown(lambda: torch.vmap(op)(torch.ones(2, 2)))]
    rules._destroy()
    seen.append(shown(lambda: op(torch.empty(3, device="meta")).shape).partition(":")[0])
    return seen


@program
def kernels_for_autograd(torch: Any, ns: str) -> Any:
    """An ``autograd.Function`` under the key Autograd; an operation without derivative, which warns."""
    lib = torch.library.Library(ns, "FRAGMENT")
    ops = getattr(torch.ops, ns)
    lib.define("sine(Tensor x) -> Tensor")
    lib.impl("sine", lambda x: torch.from_numpy(np.sin(x.numpy(force=True))), "CPU")
    z = torch.ones(2, requires_grad=True)

    def warned():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = ops.sine(z)
            made.sum().backward()
        return made.requires_grad, z.grad, [str(warning.message).partition(" If your")[0] for warning in caught]

    seen = [warned()]

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with torch._C._AutoDispatchBelowAutograd():
                return ops.sine(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cos()

    lib.impl("sine", Sine.apply, "Autograd")
    seen += [
        torch.autograd.grad(ops.sine(z).sum(), z),
        ops.sine(z).grad_fn.name(),
    ]
    lib.impl("sine", torch.library.fallthrough_kernel, "Autograd")
    return [*seen, ops.sine(z).requires_grad, shown(torch.library.fallthrough_kernel)]


@program
def functions_by_name(torch: Any, ns: str) -> Any:
    """``define``, ``impl`` and ``register_*`` by qualified names."""
    library = torch.library
    name = f"{ns}::cube"
    library.define(name, "(Tensor x) -> Tensor")
    cube = getattr(torch.ops, ns).cube
    library.impl(name, "cpu", lambda x: x**3)
    z = torch.tensor([2.0, 3.0], requires_grad=True)
    seen = [cube(z.detach()), shown(lambda: cube(z.detach().to("meta"))).partition(": att")[0]]
    library.register_fake(name)(lambda x: torch.empty_like(x))
    library.register_autograd(
        name,
        lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    seen += [cube(z.detach().to("meta")), torch.autograd.grad(cube(z).sum(), z), cube(z).grad_fn.name()]
    library.register_kernel(name, "cpu", lambda x: x + 100)
    seen += [cube(z.detach()), shown(lambda: library.register_fake(name, len, allow_override=False)).partition(" at ")[0].rstrip(".")]
    seen += [shown(lambda: library.define(name, "Tensor x -> Tensor")), shown(lambda: library.define("cube", "(Tensor x) -> Tensor"))]
    seen += [shown(lambda: library.impl("cube", "cpu", len)), shown(lambda: library.register_fake(f"{ns}::nothing", len))]
    seen += [shown(lambda: library.register_autograd(f"{ns}::nothing", len)), shown(lambda: library.register_vmap(f"{ns}::nothing", len))]
    for function in (library.register_fake, library.register_autograd, library.register_vmap):
        seen.append(shown(lambda function=function: function(3, len)))
    return [*seen, shown(lambda: library.impl(name, "toaster", len))[:20], library.get_ctx()]


@program
def devices(torch: Any, ns: str) -> Any:
    """Kernels by device, without tensors, disabled, and none."""
    define = torch.library.custom_op
    elsewhere = define(f"{ns}::elsewhere", typed(torch, lambda x: x.clone(), x="Tensor"), mutates_args=(), device_types="cuda")
    x = torch.ones(2)
    seen = [shown(lambda: elsewhere(x))[:95]]
    elsewhere.register_kernel("cpu")(lambda x: x * 3)
    seen.append(elsewhere(x))
    both = define(f"{ns}::both", typed(torch, lambda x: x * 2, x="Tensor"), mutates_args=())
    both.register_kernel(["cpu"], lambda x: x * 5)
    with both.set_kernel_enabled("cpu", enabled=False):
        seen.append(both(x))
    seen += [both(x), both.register_kernel(None, lambda x: x * 7)(x), both(x)]
    made = define(
        f"{ns}::made",
        typed(torch, lambda n, device: torch.ones(n, device=device), n=int, device=torch.device),
        mutates_args=(),
        device_types="cpu",
    )
    seen += [made(2, "cpu"), made(2, device=torch.device("cpu")), shown(lambda: made(2, "meta"))]
    nothing = typed(torch, lambda: x.clone())
    seen.append(shown(lambda: define(f"{ns}::nothing", nothing, mutates_args=(), device_types="cpu")))
    seen += [define(f"{ns}::nothing", nothing, mutates_args=())(), shown(lambda: both(x.to("meta")))]
    seen.append(shown(lambda: define(f"{ns}::toaster", nothing, mutates_args=(), device_types="toaster"))[:30])
    lib = torch.library.Library(ns, "FRAGMENT")
    lib.define("empty(Tensor[] xs) -> Tensor")
    lib.impl("empty", lambda xs: x.clone(), "CPU")
    return [*seen, shown(lambda: getattr(torch.ops, ns).empty([]))[:160], getattr(torch.ops, ns).empty([x])]


@program
def subclasses_and_modes(torch: Any, ns: str) -> Any:
    """``__torch_function__`` of subclasses and modes; copies and pickles; schemas given by hand."""
    import copy

    operation = torch.library.custom_op(f"{ns}::sine", typed(torch, lambda x, k=2: x.sin() * k, x="Tensor", k=int), mutates_args=())
    packet = getattr(torch.ops, ns).sine
    seen: list[Any] = []

    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((str(func), len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), len(args), kwargs))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    sub = x.as_subclass(Sub)
    made = [type(call(sub)).__name__ for call in (operation, packet, packet.default)]
    with Seen():
        made += [operation(x, k=3), packet(x)]
    same = [copy.deepcopy(packet.default) is packet.default, packet == packet, packet.default == packet.default, packet.default._opname]
    text = "(Tensor(a!) x, int k=1) -> Tensor"
    define = torch.library.custom_op
    given = typed(torch, lambda x, k=1: x.clone(), x="Tensor", k=int)
    wrong = shown(lambda: define(f"{ns}::other", given, mutates_args=(), schema=text))
    by_hand = define(f"{ns}::other", given, mutates_args=("x",), schema=text)
    tagged = define(f"{ns}::tagged", given, mutates_args=(), tags=torch.Tag.core)
    inplace = typed(torch, lambda x: x.add_(1), x="Tensor")
    aliased = define(f"{ns}::add_", inplace, mutates_args=("x",), schema="(Tensor(a!) x) -> Tensor(a!)")
    view = define(f"{ns}::view", typed(torch, lambda x: x.view(-1), x="Tensor"), mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)")
    return [seen, made, same, wrong, by_hand._opoverload._schema, tagged._opoverload.tags, shown(lambda: aliased(x)), view(x)]


@program
def inside_autocast(torch: Any, ns: str) -> Any:
    """Kernels for autocast, what they are given, and what others see."""
    seen: list[Any] = []

    def kernel(x, y):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        seen.append((x.dtype, y.dtype, torch.is_autocast_enabled("cpu"), product.dtype))
        return x.clone()

    operation = torch.library.custom_op(f"{ns}::cast", typed(torch, kernel, x="Tensor", y="Tensor"), mutates_args=())
    x, y, z = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, requires_grad=True)
    with torch.autocast("cpu"):
        operation(x, y)
    operation.register_autograd(lambda ctx, grad: (grad, None))
    operation.register_autocast("cpu", torch.bfloat16)
    operation(x, y)
    with torch.autocast("cpu"):
        seen += [operation(x, y), operation(torch.ones(2, dtype=torch.int64), x.half()), operation(z, y)]
        seen.append(torch.autograd.grad(operation(z, y).sum(), z))
        with torch.autocast("cpu", enabled=False):
            seen.append(operation(x, y))
    lib = torch.library.Library(ns, "FRAGMENT")
    lib.define("by_hand(Tensor x) -> Tensor")
    lib.impl("by_hand", lambda x: x * 2, "CPU")

    def narrow(x):
        seen.append(torch.is_autocast_enabled("cpu"))
        with torch.autocast("cpu", enabled=False):
            return getattr(torch.ops, ns).by_hand(x.bfloat16())

    lib.impl("by_hand", narrow, "AutocastCPU")
    with torch.autocast("cpu"):
        seen.append(getattr(torch.ops, ns).by_hand(x))
    return [
        *seen,
        shown(lambda: operation.register_autocast(3, torch.float16)),
        shown(lambda: torch.library.register_autocast(3, "cpu", 1)),
    ]


@program
def below_autograd(torch: Any, ns: str) -> Any:
    """Modes and subclasses with ``__torch_dispatch__``: what they see, rules for them, nothing recorded meanwhile."""
    from importlib import import_module

    modes = import_module(f"{torch.__name__}.utils._python_dispatch")
    seen: list[Any] = []
    define = torch.library.custom_op
    sine = define(f"{ns}::sine", typed(torch, lambda x, k=2: x.sin() * k, x="Tensor", k=int), mutates_args=())
    sine.register_autograd(lambda ctx, grad: (grad * 3, None))

    class Mode(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), len(args), kwargs, args[0].requires_grad))
            return func(*args, **(kwargs or {}))

    x, z = torch.ones(2), torch.ones(2, requires_grad=True)
    with Mode():
        sine(x)
        made = sine(z, k=3)
        write = define(f"{ns}::write", typed(torch, lambda x: x.add_(1) is None or None, None, x="Tensor"), mutates_args=("x",))
        write(x)
    seen += [made, torch.autograd.grad(made.sum(), z), x]

    @sine.register_torch_dispatch(Mode)
    def rule(mode, func, types, args, kwargs):
        seen.append((type(mode).__name__, str(func), types, args, kwargs))
        return func(*args, **kwargs) * 100

    with Mode():
        seen.append(sine(x))
    seen.append(sine(x))
    lib = torch.library.Library(ns, "FRAGMENT")
    lib.define("composite(Tensor x) -> Tensor")
    lib.impl("composite", lambda x: x.cos() * 2, "CompositeImplicitAutograd")
    with Mode():
        getattr(torch.ops, ns).composite(z)
    return seen


def what_opcheck_finds(torch: Any, ns: str) -> Any:
    """Registrations that are wrong, in every test."""
    define, check = torch.library.custom_op, torch.library.opcheck
    x = torch.randn(3)

    def made(name, function, fake=None, grad=None):
        operation = define(f"{ns}::{name}", typed(torch, function, x="Tensor"), mutates_args=())
        if fake is not None:
            operation.register_fake(fake)
        if grad is not None:
            operation.register_autograd(grad)
        return operation

    def written(x):
        x.add_(1)
        return x.clone()

    like = torch.empty_like
    cases = [
        (made("good", lambda x: x.clone(), like, lambda ctx, grad: grad), x),
        (made("no_fake", lambda x: x.clone()), x),
        (made("shape", lambda x: x.clone(), lambda x: x.new_empty(5)), x),
        (made("dtype", lambda x: x.clone(), lambda x: like(x, dtype=torch.double)), x),
        (made("strides", lambda x: x.clone(), lambda x: x.new_empty(3, 3).t()), torch.ones(3, 3)),
        (made("writes", written, like), x),
        (made("no_formula", lambda x: x.clone(), like), torch.randn(3, requires_grad=True)),
    ]
    seen = [shown(lambda case=case: check(case[0], (case[1],), raise_exception=False)) for case in cases]
    seen += [shown(lambda case=case: check(case[0], (case[1],))).partition("(scroll")[0] for case in cases]
    lib = torch.library.Library(ns, "FRAGMENT")
    lib.define("alias(Tensor x) -> Tensor")
    lib.impl("alias", lambda x: x, "CPU")
    lib.define("unregistered(Tensor x) -> Tensor")
    lib.impl("unregistered", lambda x: x * 2, "CPU")
    ops = getattr(torch.ops, ns)
    seen.append(shown(lambda: check(ops.alias, (x,), test_utils="test_schema", raise_exception=False)))
    some = ("test_schema", "test_autograd_registration")
    seen += [
        shown(lambda given=given: check(ops.unregistered, (given,), test_utils=some, raise_exception=False)) for given in (x, cases[-1][1])
    ]
    seen += [shown(lambda: check(torch.sin, (x,))).partition(", got")[0], shown(lambda: check(cases[0][0], (x,), test_utils="nope"))]
    return [*seen, check(torch.ops.aten.sin.default, (x,)), shown(lambda: check(cases[0][0], (3,), test_utils="test_schema"))]


def main() -> None:
    """``python -m tests.programs.library_programs``: what ``opcheck`` says, with PyTorch and with flambeau; PyTorch takes long over it."""
    torch = pytorch()

    import flambeau

    for ours, theirs in zip(what_opcheck_finds(flambeau, "own"), what_opcheck_finds(torch, "own"), strict=True):
        print(
            "same     " if repr(ours) == repr(theirs) else "different", ours, *[] if repr(ours) == repr(theirs) else [theirs], sep="\n    "
        )


if __name__ == "__main__":
    main()
