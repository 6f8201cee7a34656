"""Programs of modules: every layer of ``torch.nn``, in containers, hooked, parametrized, pruned, cast, copied, saved, loaded, and called.

Compared after each statement are the modules themselves (what they print, their states, names of parameters, buffers and members,
gradients, modes), outputs, gradients of first and second order with respect to inputs and parameters, and the types of exceptions.
"""

from __future__ import annotations

import collections
import copy
import importlib
import random
import re
from types import ModuleType
from typing import Any

import numpy as np

from .area import Area, Difference, Known, Run, agrees_in_float64, differ_little
from .comparing import compare_results, values_of
from .files import fact, plain, saved_again
from .module_lines import LAYERS

# Statements about a module ``m``, or about ``m`` in a list of modules.
CHANGES = (
    "m.eval()",
    "m.train()",
    "m.double()",
    "m.float()",
    "m.half()",
    "m.bfloat16()",
    "m.to(torch.float64)",
    "m.requires_grad_(False)",
    "m.train(False).train()",
    "m = copy.deepcopy(m)",
    "m = saved_again(torch, m)",
    "m.zero_grad()",
    "m.share_memory()",
    "m = torch.nn.Sequential(m)",
    "m = torch.nn.Sequential(m, torch.nn.Tanh())",
    "m = torch.nn.Sequential(collections.OrderedDict(a=m, b=torch.nn.Dropout(0.5)))",
    "m.register_forward_hook(lambda module, args, out: doubled(torch, out))",
    "m.register_forward_pre_hook(lambda module, args: None)",
    "m.register_full_backward_hook(lambda module, gi, go: None)",
    "m.register_full_backward_hook(lambda module, gi, go: tuple(g and 2 * g if g is None else 2 * g for g in gi))",
    "m.register_full_backward_pre_hook(lambda module, go: None)",
    "m.apply(lambda module: module.register_buffer('extra', torch.ones(2)))",
    "m.register_buffer('b', torch.arange(3.0), persistent=False)",
    "m.register_parameter('p', None)",
    "m.q = torch.nn.Parameter(torch.ones(1))",
    "m.register_parameter('a.b', None)",
    "m.add_module('inner', torch.nn.ReLU())",
    "m.weight = None",
    "del m.bias",
    "m.bias = 3",
    "del m.nothing",
    "torch.nn.utils.parametrizations.weight_norm(m)",
    "torch.nn.utils.parametrizations.spectral_norm(m)",
    "torch.nn.utils.parametrizations.orthogonal(m)",
    "torch.nn.utils.parametrize.register_parametrization(m, 'weight', torch.nn.Softplus())",
    "torch.nn.utils.parametrize.remove_parametrizations(m, 'weight')",
    "torch.nn.utils.prune.l1_unstructured(m, 'weight', 0.5)",
    "torch.nn.utils.prune.random_structured(m, 'weight', 1, dim=0)",
    "torch.nn.utils.prune.remove(m, 'weight')",
    "torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)",
    "torch.nn.utils.stateless.functional_call(m, {}, ())",
    "torch.nn.init.ones_(next(m.parameters()))",
    "[torch.nn.init.uniform_(p) for p in m.parameters()]",
    "m.reset_parameters()",
    "m.load_state_dict(m.state_dict())",
    "m.load_state_dict(m.state_dict(), assign=True)",
    "m.load_state_dict({}, strict=False)",
    "m.load_state_dict({})",
    "m.load_state_dict({**m.state_dict(), 'more': torch.ones(1)})",
    "m.load_state_dict({key: torch.ones(7) for key in m.state_dict()})",
    "m.load_state_dict({key: value.double() for key, value in m.state_dict().items()})",
    "m.to('meta')",
    "[x.detach().zero_() for xs in (m.to_empty(device='cpu').parameters(), m.buffers()) for x in xs]",
    "m.type(torch.float64)",
    "m.to(torch.int64)",
    "m.to(memory_format=torch.channels_last)",
    "m.requires_grad_('x')",
    "m.set_extra_state(1)",
    "m.compile",
    "m.cuda()",
    "m._register_load_state_dict_pre_hook(lambda *args: None)",
    "m.register_state_dict_post_hook(lambda module, state, prefix, notes: state.update(x=torch.ones(1)))",
)
QUESTIONS = (
    "[name for name, _ in m.named_parameters()]",
    "[name for name, _ in m.named_parameters('x', recurse=False)]",
    "[name for name, _ in m.named_buffers()]",
    "[(name, type(module).__name__) for name, module in m.named_modules()]",
    "[name for name, _ in m.named_children()]",
    "len(list(m.parameters()))",
    "[name for name, _ in m.named_parameters(remove_duplicate=False)]",
    "list(m.state_dict())",
    "list(m.state_dict(prefix='p.', keep_vars=True))",
    "m.extra_repr()",
    "m.get_parameter('weight')",
    "m.get_submodule('0')",
    "m.get_buffer('running_mean')",
    "sorted(dir(m))[:0]",
    "str(m)",
    "m.training",
    "torch.nn.utils.parameters_to_vector(m.parameters())",
    "torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5)",
    "m.state_dict()._metadata['']",
    "torch.nn.utils.parametrize.is_parametrized(m)",
    "torch.nn.utils.prune.is_pruned(m)",
    "hasattr(m, 'weight')",
    "m.weight",
    "m[0]",
    "len(m)",
    "m.nothing",
)


def flat(torch: Any, value: Any) -> list[Any]:
    """The tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in flat(torch, item)]


def doubled(torch: Any, value: Any) -> Any:
    return value * 2 if isinstance(value, torch.Tensor) and value.is_floating_point() else None


def weighted(torch: Any, value: Any) -> Any:
    """One number of a result, to which every element adds something of its own."""
    total: Any = torch.zeros(())
    for tensor in flat(torch, value):
        if tensor.is_floating_point() and tensor.requires_grad:
            weights = torch.linspace(0.5, 1.5, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)
            total = total + (tensor * weights).sum()
    return total


def gradients(torch: Any, total: Any, tensors: list[Any], **options: Any) -> list[Any]:
    """The gradients of a number; zeros for what took no part."""
    if not tensors or not total.requires_grad:
        return [torch.zeros_like(x) for x in tensors]
    found = torch.autograd.grad(total, tensors, allow_unused=True, **options)
    return [torch.zeros_like(x) if gradient is None else gradient for gradient, x in zip(found, tensors)]


LEAVES = "leaves = [x for x in [*flat(torch, inputs), *m.parameters()] if x.requires_grad and x.is_leaf]"
GRADS = "grads = gradients(torch, weighted(torch, out), leaves, create_graph=True)"
SECOND = "second = gradients(torch, weighted(torch, grads), leaves)"
STEPPED = ".transpose(0, -1).contiguous().transpose(0, -1)"


def inputs_line(inputs: str, form: str, is_double: bool) -> str:
    """The statement that makes a layer's inputs, ``form`` behind those of them that are floating-point numbers."""
    for short, name in (("r", "randn"), ("u", "rand")):
        inputs = re.sub(rf"\b{short}\(([\d, ]*)\)", rf"torch.{name}((\1,)){form}", inputs).replace("((,))", "(())")
    inputs = re.sub(r"\bi\((\d+)\)", r"torch.randint(\1, (4,))", inputs)
    inputs = re.sub(r"\bi\((\d+), ([\d, ]+)\)", r"torch.randint(\1, (\2,))", inputs)
    return f"inputs = ({inputs if is_double else inputs.replace('.double()', '.float()')},)"


class Drawing:
    """One program."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    def layer(self) -> tuple[str, str]:
        """A constructor, and inputs that may fit."""
        # PyTorch's gradient of one is wrong, and raises where there is one channel
        name = self.draw.choice([name for name in LAYERS if name != "CrossMapLRN2d"])
        arguments, inputs = self.draw.choice(LAYERS[name])
        return f"torch.nn.{name}({self.draw.choice(arguments)})", self.draw.choice(inputs)

    def program(self) -> list[str]:
        draw = self.draw
        constructor, inputs = self.layer()
        lines = []
        is_double = draw.random() < 0.7
        if is_double:
            lines.append("torch.set_default_dtype(torch.float64)")
        lines.append(f"m = {constructor}")
        if draw.random() < 0.1:
            lines.append(f"m = torch.nn.ModuleList([m, {self.layer()[0]}])[0]")
        for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
            lines.append(draw.choice(CHANGES))
            if draw.random() < 0.3:
                lines.append(f"said = {draw.choice(QUESTIONS)}")
        form = draw.choice(
            ("", "", ".requires_grad_()", ".requires_grad_()", ".requires_grad_()", ".transpose(0, -1).contiguous().transpose(0, -1)")
        )
        lines.append(inputs_line(inputs, form, is_double))
        for _ in range(draw.choice((1, 1, 2))):
            lines.append("out = m(*inputs)")
        lines.append(LEAVES)
        kind = draw.random()
        if kind < 0.3:
            lines.append("weighted(torch, out).backward()")
        elif kind < 0.8:
            lines.append(GRADS)
            # PyTorch forgets the norm in second derivatives of weight_norm
            if draw.random() < 0.6 and not any("weight_norm" in line for line in lines):
                lines.append(SECOND)
        if draw.random() < 0.3:
            lines.append(f"said = {draw.choice(QUESTIONS)}")
        return lines


class Modules(Area):
    known = (
        Known(
            "PyTorch's gradient of a group norm without a weight, to be recorded, fails",
            theirs="shape '\\[0\\]' is invalid",
            program="GroupNorm",
        ),
        Known("PyTorch forgot bfloat16 among the conversions of uninitialized tensors", line="bfloat16", theirs="uninitialized parameter"),
        Known(
            "lazy layers that lost their uninitialized parameters fail at their first call, each in its own way",
            theirs="must be an Uninitialized",
        ),
        Known("second derivatives that PyTorch does not have", kind="exception", theirs="derivative for .* is not implemented"),
        Known("PyTorch looks at values where shapes would do", kind="exception", theirs="Tensor.item.. cannot be called on meta"),
        Known("PyTorch does not look at dimensions on meta", kind="exception", ours="Dimension out of range", theirs="^no exception"),
        Known("PyTorch finds out later, on meta", kind="exception", ours="1D target must have size 1", theirs="Index tensor must have"),
        Known("limits of numbers are a kernel's to look at, and none runs on meta", kind="exception", theirs="lambda must be in range"),
        Known("PyTorch's weight_norm wants channels", kind="exception", theirs="cannot reshape tensor of 0 elements"),
        Known(
            "what is no tensor is found out by its first use, where a layer is a composition",
            kind="exception",
            ours="^AttributeError: '(tuple|list|dict|int|float|bool|NoneType)' object has no attribute",
            theirs="^(Type|Value)Error",
        ),
        Known("requires_grad_ takes what is true or false", kind="exception", theirs="'requires_grad' .position 1. must be bool"),
        Known(
            "PyTorch's derivatives of norms look for a weight that was taken away",
            kind="exception",
            ours="^no exception",
            theirs="tensor does not have a device|Expected a proper Tensor but got None",
        ),
        Known(
            "PyTorch forgot to assign what is uninitialized",
            kind="exception",
            line="assign=True",
            theirs="uninitialized parameter|state_dict for Lazy",
        ),
        Known(
            "lazy convolutions that moved to meta", kind="exception", ours="weight should have at least", theirs="^IndexError: tuple index"
        ),
        Known(
            "recurrent layers whose move failed have lost their weights in PyTorch", kind="exception", theirs="zip.. argument 2 is longer"
        ),
        Known("operands on meta and on the CPU do not meet", kind="exception", ours="at least two devices, (cpu and meta|meta and cpu)"),
        Known(
            "which of equal weights are the smallest",
            kind="^values$",
            line="l1_unstructured",
            ours="weight_mask",
            when=lambda difference: (
                sorted(difference.ours) == sorted(difference.theirs)
                or re.search(r"\.(ones|zeros|constant)_\(", difference.program) is not None
            ),
        ),
        Known(
            "one example's loss has a dimension on meta in PyTorch, and none on the CPU", kind="shape", program="(?s)MultiLabelMargin.*meta"
        ),
        Known(
            "the orthogonal factor of a matrix without full rank: which columns are zeros, rounding says",
            kind="^values$",
            line="orthogonal",
            program=r"\.(ones|zeros|constant)_\(|Norm",
        ),
        Known(
            "float32 parameters, one rounding apart, beside float64",
            kind="^values$",
            program=r"(?s)float64.*\.(float|half|bfloat16)\(",
            when=lambda difference: differ_little(difference, 1e-6),
        ),
        Known("memory that nobody wrote", kind="^values$", program=r"to_empty\("),
        Known(
            "roundings of float32, of which second derivatives have many: the same program has no difference in float64",
            kind="^values$",
            line="^(second|grads) = ",
            when=lambda difference: agrees_in_float64(AREA, difference.program),
        ),
        Known("factors of QR are row-major here", kind="strides", ours="parametrizations.weight"),
    )

    def generate(self, draw: random.Random) -> list[str]:
        return Drawing(draw).program()

    def space(self, torch: ModuleType) -> dict[str, Any]:
        importlib.import_module(f"{torch.__name__}.nn.utils.prune")
        helpers = (flat, doubled, weighted, gradients, saved_again)
        return {"torch": torch, "copy": copy, "collections": collections, **{helper.__name__: helper for helper in helpers}}

    def compare(self, run: Run) -> Difference | None:
        if any(run.errors):
            run.ended = run.line.startswith(("inputs", "out", "m = ", "grads"))
            return self.compare_exceptions(run)
        # Numbers that were made in float32 stay as exact as that when they become float64.
        single = "set_default_dtype" not in run.lines[0]
        found = compare_modules(run.ours.get("m"), run.theirs.get("m"), single) if "m" in run.theirs else None
        if found is not None:
            return run.differs(found[0], f"m: {found[1]}", f"m: {found[2]}")
        name = re.match(r"(said|inputs|out|grads|second) = ", run.line)
        if name is None:
            return None
        ours, theirs = run.ours[name[1]], run.theirs[name[1]]
        if name[1] in ("grads", "second"):  # PyTorch says of more gradients than depend on anything that they require one
            ours, theirs = ([gradient.detach() for gradient in value] for value in (ours, theirs))
        if name[1] == "said" and is_lazy(theirs):
            return None if is_lazy(ours) else run.differs("class", type(ours), type(theirs))
        found = compare_results(ours, theirs, strides=False)
        parts = flat(run.ours["torch"], ours), flat(run.theirs["torch"], theirs)
        if found is not None and found[0] == "values" and are_near(*parts, single):
            found = None
        return None if found is None else run.differs(found[0], f"{name[1]}: {found[1]}", f"{name[1]}: {found[2]}")


def are_near(ours: list[Any], theirs: list[Any], single: bool) -> bool:
    """Whether results differ by less than what is left of numbers around one that cancel, in float32 where ``single``."""
    if len(ours) != len(theirs) or any(str(a.dtype) != str(b.dtype) or tuple(a.shape) != tuple(b.shape) for a, b in zip(ours, theirs)):
        return False
    if any(x.is_meta for x in (*ours, *theirs)):
        return all(a.is_meta == b.is_meta for a, b in zip(ours, theirs))
    pairs = [(values_of(a), values_of(b), 1e-10 if str(b.dtype) == "torch.float64" and not single else 3e-5) for a, b in zip(ours, theirs)]
    return all(np.allclose(a, b, rtol=near, atol=near, equal_nan=True) for a, b, near in pairs if b.dtype.itemsize > 2)


def is_lazy(value: Any) -> bool:
    return type(value).__name__.startswith("Uninitialized")


def compare_modules(ours: Any, theirs: Any, single: bool) -> tuple[str, str, str] | None:
    """What can be seen of a module."""
    for what, get in FACTS.items():
        a, b = plain(fact(get, ours)), plain(fact(get, theirs))
        if a != b:
            return what, a, b
    for what in ("named_parameters", "named_buffers"):
        for (name, a), (_, b) in zip(getattr(ours, what)(), getattr(theirs, what)(), strict=True):
            if is_lazy(b):
                if type(a).__name__ != type(b).__name__ or str(a.dtype) != str(b.dtype):
                    return "class", f"{name}: {type(a).__name__} {a.dtype}", f"{name}: {type(b).__name__} {b.dtype}"
                continue
            found = compare_results(a, b)
            if found is not None and found[0] == "values" and single and are_near([a], [b], single):
                found = None
            if found is None and b.is_leaf:
                found = compare_results(a.grad, b.grad, strides=False)
                if found is not None and found[0] == "values" and are_near([a.grad], [b.grad], single):
                    found = None
            if found is not None:
                return found[0], f"{name}: {found[1]}", f"{name}: {found[2]}"
    return None


FACTS: dict[str, Any] = {
    "class": lambda module: type(module).__name__,
    "repr": repr,
    "modes": lambda module: [inner.training for inner in module.modules()],
    "parameters": lambda module: [name for name, _ in module.named_parameters()],
    "buffers": lambda module: [name for name, _ in module.named_buffers()],
    "members": lambda module: [name for name, _ in module.named_modules()],
    "state": lambda module: list(module.state_dict()),
}
AREA = Modules()
