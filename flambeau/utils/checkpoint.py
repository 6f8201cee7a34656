"""Activation checkpointing: compute a part of the model again during backward instead of keeping what it saved.

Without reentry (the recommended way) the part is recorded as always, but each tensor that it would save is replaced by a
small holder. The first holder that backward opens runs the function once more; the tensors saved by that second run are
dealt out to the holders by position:

    forward:    op1 saves a -> holder 0     op2 saves b -> holder 1     op3 saves c -> holder 2
    backward:   op3 opens holder 2 -> run again, saving a', b', c' (then stop) -> op3 gets c', op2 gets b', op1 gets a'

With reentry the part is not recorded at all: one node stands for it, whose backward records and differentiates it.
"""

from __future__ import annotations

import enum
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeAlias

from ..autograd import backward as run_backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..core.calls.autocast import resumed
from ..core.random.generator import default_generator
from ..core.state import grad_enabled, observing, thread
from ..core.tensor import Tensor
from ._pytree import tree_leaves

__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType", "GraphExecGroup",
    "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
    "set_device_states",
]  # fmt: skip

ContextFn: TypeAlias = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]

_overrides: dict[str, bool | None] = {"early_stop": None, "debug": None}  # what contexts say of the checkpoints inside of them

SAC_IGNORED_OPS: set[Any] = set()  # operations that a selective checkpoint never keeps and asks nobody about, as views are


class CheckpointError(RuntimeError):
    """Raised during backward: the second run of a checkpointed function saved other tensors than the first.

    Source: torch.utils.checkpoint.CheckpointError.
    Example:
        >>> issubclass(torch.utils.checkpoint.CheckpointError, RuntimeError)
        True
    """


class _StopRecomputationError(Exception):
    """All tensors that backward needs have been computed again."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """The default ``context_fn``: two contexts that do nothing, for the first run and for the second.

    Returns: the two contexts.
    Source: torch.utils.checkpoint.noop_context_fn.
    Example:
        >>> first, second = noop_context_fn()
        >>> with first, second:
        ...     pass
    """
    return nullcontext(), nullcontext()


@contextmanager
def _overriding(option: str, value: bool | None) -> Iterator[None]:
    previous, _overrides[option] = _overrides[option], value
    try:
        yield
    finally:
        _overrides[option] = previous


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """Let the checkpoints made inside stop, or not, as soon as everything needed is computed again.

    Args:
        enable: takes the place of their ``early_stop``.
    Returns: the context.
    Source: torch.utils.checkpoint.set_checkpoint_early_stop.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with set_checkpoint_early_stop(False):
        ...     y = checkpoint(torch.exp, x, use_reentrant=False)
        >>> y.sum().backward()
    """
    return _overriding("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """Let the checkpoints made inside be debugged, or not.

    Args:
        enabled: takes the place of their ``debug``; None leaves it.
    Returns: the context.
    Source: torch.utils.checkpoint.set_checkpoint_debug_enabled.
    Example:
        >>> with set_checkpoint_debug_enabled(False):
        ...     y = checkpoint(torch.exp, torch.zeros(2, requires_grad=True), use_reentrant=False)
        >>> y.detach()
        tensor([1., 1.])
    """
    return _overriding("debug", enabled)


class DefaultDeviceType:
    """The type of device whose random state a checkpoint keeps where its arguments do not say.

    Source: torch.utils.checkpoint.DefaultDeviceType.
    Example:
        >>> DefaultDeviceType.get_device_type() in ("cpu", "cuda")
        True
    """

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        if DefaultDeviceType._default_device_type is None:
            DefaultDeviceType._default_device_type = "cuda" if _cuda().is_available() else "cpu"
        return DefaultDeviceType._default_device_type


class GraphExecGroup:
    """A context around several backward passes through different parts of a graph: each checkpointed function runs again once at most.

    Outside of one, every pass that needs something of it runs it again.

    Raises:
        RuntimeError: one inside of another.
        CheckpointError: a pass that needs what another has used.
    Source: torch.utils.checkpoint.GraphExecGroup.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = checkpoint(torch.exp, x, use_reentrant=False)
        >>> with GraphExecGroup():
        ...     gradient = torch.autograd.grad(y.sum(), x)
    """

    _current: GraphExecGroup | None = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup._current is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested. Please ensure that only one is active at a time.")
        GraphExecGroup._current = self
        return self

    def __exit__(self, *exception: Any) -> None:
        GraphExecGroup._current = None


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors of a tuple without their history, requiring grad as they did; the rest as it is.

    Args:
        inputs: a tuple of tensors and other objects.
    Returns: a tuple; its tensors share memory with the inputs.
    Raises:
        RuntimeError: no tuple.
    Source: torch.utils.checkpoint.detach_variable.
    Example:
        >>> x = torch.ones(2, requires_grad=True) * 2
        >>> detach_variable((x, "text"))
        (tensor([2., 2.], requires_grad=True), 'text')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ", type(inputs).__name__)
    return tuple([value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value for value in inputs])


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no tensor among the inputs requires grad.

    Args:
        inputs: tensors and other objects.
    Source: torch.utils.checkpoint.check_backward_validity.
    Example:
        >>> check_backward_validity([torch.ones(1, requires_grad=True), 3])
    """
    if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Numbers of the CUDA devices on which tensors among the arguments (nested ones too) lie, and the states of their generators.

    Args:
        args: anything; mappings and sequences are searched.
    Returns: a list of device numbers and a list of states, both empty without CUDA tensors.
    Source: torch.utils.checkpoint.get_device_states.
    Example:
        >>> get_device_states(torch.ones(2))
        ([], [])
    """
    devices = _devices_of(args)
    return [device.index or 0 for device in devices], [_cuda().get_rng_state(device) for device in devices]


def set_device_states(devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None) -> None:
    """Set the generators of devices.

    Args:
        devices: numbers of the devices.
        states: for each the state, a tensor of any number of bytes.
        device_type: of the devices; CUDA, where it is there, when None.
    Source: torch.utils.checkpoint.set_device_states.
    Example:
        >>> set_device_states(*get_device_states(torch.ones(2)))
    """
    device_type = device_type or DefaultDeviceType.get_device_type()
    for device, state in zip(devices, states, strict=True):
        if device_type != "meta":
            _cuda().set_rng_state(state, f"{device_type}:{device}")


def _devices_of(args: Any) -> list[Any]:
    return list(dict.fromkeys(arg.device for arg in tree_leaves(args) if isinstance(arg, Tensor) and arg.device.type == "cuda"))


class _RandomState:
    """The random numbers at the start of the first run, to be drawn again by the second."""

    def __init__(self, args: Iterable[Any]) -> None:
        self.cpu = default_generator.get_state()
        self.devices = _devices_of(args)
        self.on_devices = {device: _cuda().get_rng_state(device) for device in self.devices}

    @contextmanager
    def restored(self) -> Iterator[None]:
        """The state as it was then inside, and as it is now afterwards."""
        now = default_generator.get_state()
        on_devices_now = {device: _cuda().get_rng_state(device) for device in self.devices}
        self._set(self.cpu, self.on_devices)
        try:
            yield
        finally:
            self._set(now, on_devices_now)

    def _set(self, cpu: Tensor, on_devices: dict[Any, Tensor]) -> None:
        default_generator.set_state(cpu)
        for device, state in on_devices.items():
            _cuda().set_rng_state(state, device)


def _cuda() -> Any:
    from .. import cuda  # late: it looks for a driver

    return cuda


class CheckpointFunction(Function):
    """The checkpoint with reentry: one node, whose backward runs the function again and differentiates it.

    Args:
        run_function: the function.
        preserve_rng_state: draw the same random numbers both times.
        args: arguments of the function; tensors of any shape among them.
    Source: torch.utils.checkpoint.CheckpointFunction.
    Example:
        >>> x = torch.zeros(2, requires_grad=True)
        >>> CheckpointFunction.apply(torch.exp, True, x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Run without recording; keep the arguments."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random_state = _RandomState(args) if preserve_rng_state else None
        ctx.autocast = resumed()
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.positions = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run with recording, on detached arguments, and go back through that."""
        args = list(ctx.others)
        for i, tensor in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[i] = tensor.detach().requires_grad_(tensor.requires_grad)
        with ctx.random_state.restored() if ctx.random_state is not None else nullcontext(), ctx.autocast, enable_grad():
            outputs = ctx.run_function(*args)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if isinstance(output, Tensor) and output.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        run_backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(arg.grad if isinstance(arg, Tensor) else None for arg in args))


class _Holder:
    """Stand-in that a node keeps for a tensor: the tensor's position among those that the function saved."""

    __slots__ = ("__weakref__", "position")

    def __init__(self, position: int) -> None:
        self.position = position


def _metadata(tensor: Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_DETERMINISM_CHECKS: dict[str, Callable[[Tensor], Any]] = {"default": _metadata, "none": lambda tensor: None}


class _Frame:
    """One checkpointed call: how to run it again, its holders, and the tensors of the second run not yet handed out."""

    def __init__(self, recompute: Callable[[], Any], early_stop: bool, describe: Callable[[Tensor], Any]) -> None:
        self.recompute, self.early_stop, self.describe = recompute, early_stop, describe
        self.holders: list[weakref.ref[_Holder]] = []
        self.descriptions: list[Any] = []
        self.values: dict[int, Tensor] = {}
        self.group: Any = None  # a weak reference to the context whose passes share the values
        self.forward_completed = False

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        with no_grad():
            self.descriptions.append(self.describe(tensor))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        # Each tensor is handed out once and then forgotten: a further backward through a retained graph runs the function again.
        group = GraphExecGroup._current
        if group is None:
            if holder.position not in self.values:
                self._run_again()
        elif self.group is None or self.group() is not group:
            self._run_again()
            self.group = weakref.ref(group)
        elif holder.position not in self.values:
            raise CheckpointError(
                "torch.utils.checkpoint: a tensor is asked for a second time inside of a GraphExecGroup: its backward passes must not go "
                "through the same part of the graph"
            )
        return self.values.pop(holder.position)

    def _run_again(self) -> None:
        self.values.clear()
        count = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            position, count = count, count + 1
            tensor = tensor.detach()
            if position < len(self.holders):
                if self.holders[position]() is not None:
                    self.values[position] = tensor
                if self.early_stop and count == len(self.holders):
                    raise _StopRecomputationError
            elif self.forward_completed:
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass: "
                    f"the forward pass saved {len(self.holders)}"
                )
            return tensor

        try:
            with saved_tensors_hooks(pack, lambda tensor: tensor), enable_grad():
                self.recompute()
        except _StopRecomputationError:
            pass
        # A backward pass inside the function itself comes before all tensors are saved, and needs none of the missing ones.
        if self.forward_completed:
            self._check(count)

    def _check(self, count: int) -> None:
        if count != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {count}."
            )
        changes = [
            f"tensor at position {position}:\nsaved metadata: {self.descriptions[position]}\nrecomputed metadata: {self.describe(value)}\n"
            for position, value in self.values.items()
            if self.descriptions[position] != self.describe(value)
        ]
        if changes:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                "forward pass.\n" + "".join(changes)
            )


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextFn = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``function(*args, **kwargs)`` without keeping what backward needs of it: it is called again during backward.

    Args:
        function: a part of the model; it has to do the same both times.
        args: its arguments.
        use_reentrant: False (recommended): all ways of going backward work, and nested structures and keyword arguments take
            part. True: one node with a backward pass of its own, which needs ``backward()`` without ``inputs``. None: True, with
            a warning.
        context_fn: makes the contexts for the first call and for the second; not with reentry.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of the two calls; ``"none"`` does not.
        debug: not implemented.
        early_stop: end the second call as soon as everything needed is there; not with reentry.
        kwargs: keyword arguments of ``function`` (not with reentry), and ``preserve_rng_state`` (default True): draw the same
            random numbers both times.
    Returns:
        What ``function`` returned.
    Raises:
        ValueError: keyword arguments, ``context_fn`` or ``debug`` with reentry, or an unknown ``determinism_check``.
        CheckpointError: during backward, when the second call saved other tensors than the first.
        NotImplementedError: ``debug``.
    Source: torch.utils.checkpoint.checkpoint. Chen et al. 2016.
    Example:
        >>> calls = []
        >>> block = lambda x: calls.append("call") or x.sin().exp()
        >>> x = torch.zeros(2, requires_grad=True)
        >>> checkpoint(block, x, use_reentrant=False).sum().backward()
        >>> calls, x.grad
        (['call', 'call'], tensor([1., 1.]))
    """
    if _overrides["debug"] is not None:
        debug = _overrides["debug"]
    if use_reentrant is None:
        use_reentrant = _default_reentrant("torch.utils.checkpoint")
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if debug:
        raise NotImplementedError("checkpoint: debug=True, the trace of both calls, is not implemented")
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got {determinism_check}")
    return _checkpoint_recorded(function, args, kwargs, preserve_rng_state, context_fn, determinism_check, early_stop)


def _default_reentrant(function: str) -> bool:
    """Warn that ``use_reentrant`` was not given, and what it is then."""
    warnings.warn(
        f"{function}: the use_reentrant parameter should be passed explicitly: use_reentrant=False is recommended, "
        "use_reentrant=True keeps what happens without it.",
        stacklevel=3,
    )
    return True


def _kept(arg: Any) -> Callable[[], Any]:
    """Gives ``arg`` back later, if nobody writes to it.

    Inside another checkpoint it is one of the tensors that the outer one computes again.
    """
    if not isinstance(arg, Tensor) or arg.is_inference():
        return lambda: arg
    if not thread.saved_hooks:
        version = arg._version
        return lambda: _unwritten(arg, version)
    pack, unpack = thread.saved_hooks[-1]
    payload, requires_grad = pack(arg), arg.requires_grad
    return lambda: unpack(payload).detach().requires_grad_(requires_grad)


def _unwritten(arg: Tensor, version: int) -> Tensor:
    """``arg``, which is at ``version``.

    Raises:
        RuntimeError: it is at another one.
    """
    if arg._version != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{arg.type()} {list(arg.shape)}], an argument of a checkpointed function, is at version {arg._version}; "
            f"expected version {version} instead."
        )
    return arg


def _checkpoint_recorded(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve_rng_state: bool,
    context_fn: ContextFn,
    determinism_check: str,
    early_stop: bool,
) -> Any:
    first_context, second_context = context_fn()
    if not grad_enabled():
        return function(*args, **kwargs)
    random_state = _RandomState(args) if preserve_rng_state else None
    kept, autocast = [_kept(arg) for arg in args], resumed()

    def recompute() -> None:
        with ExitStack() as stack:
            if random_state is not None:
                stack.enter_context(random_state.restored())
            stack.enter_context(autocast)
            stack.enter_context(second_context)
            function(*(get() for get in kept), **kwargs)

    if _overrides["early_stop"] is not None:
        early_stop = _overrides["early_stop"]
    frame = _Frame(recompute, early_stop, _DETERMINISM_CHECKS[determinism_check])
    with saved_tensors_hooks(frame.pack, frame.unpack), first_context:
        result = function(*args, **kwargs)
        frame.forward_completed = True
        return result
    raise RuntimeError(
        "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during the checkpointed "
        "forward. This is not supported because checkpoint cannot return a value for a failed forward."
    )


class CheckpointPolicy(enum.Enum):
    """The treatment of an operation's result by a selective checkpoint: keep it, or compute it again.

    Source: torch.utils.checkpoint.CheckpointPolicy.
    Example:
        >>> [policy.name for policy in CheckpointPolicy][:2]
        ['MUST_SAVE', 'PREFER_SAVE']
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """The first argument of a policy: says which of the two runs calls.

    Args:
        is_recompute: whether this is the second run.
    Source: torch.utils.checkpoint.SelectiveCheckpointContext.
    Example:
        >>> SelectiveCheckpointContext(is_recompute=True).is_recompute
        True
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """A ``context_fn`` for ``checkpoint``, with which the results of some operations are kept and not computed again.

    Args:
        policy_fn_or_list: functions whose results are kept, such as ``[torch.mm, torch.nn.functional.linear]``; or
            ``policy(ctx, function, *args)``, which is called for each call and returns a ``CheckpointPolicy``. A call of several
            operations is not shown, but its parts are; views are not shown.
        allow_cache_entry_mutation: what is kept is a copy here, which nobody can change, so that both settings do the same.
    Returns:
        The contexts for the first run and for the second. They serve one call of ``checkpoint`` and one backward pass.
    Raises:
        TypeError: neither a list nor a function.
        RuntimeError: during backward, when the second run asks for a result that the first did not keep.
    Example:
        >>> from functools import partial
        >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> keep = partial(create_selective_checkpoint_contexts, [torch.mm])
        >>> x = torch.ones(2, 2, requires_grad=True)
        >>> checkpoint(lambda x: torch.mm(x, x).sin().sum(), x, use_reentrant=False, context_fn=keep).backward()

    Source: torch.utils.checkpoint.create_selective_checkpoint_contexts.
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        names = {_NAMES_OF_PARTS.get(function.__name__, function.__name__) for function in policy_fn_or_list}

        def decide(context: SelectiveCheckpointContext, op: Any, values: tuple[Any, ...]) -> Any:
            return CheckpointPolicy.MUST_SAVE if op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):

        def decide(context: SelectiveCheckpointContext, op: Any, values: tuple[Any, ...]) -> Any:
            answer = policy_fn_or_list(context, op.wrapper, *values)
            if isinstance(answer, bool):
                return CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
            return answer

    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict[str, list[Any]] = {}

    def saves(is_recompute: bool, op: Any, values: tuple[Any, ...]) -> bool:
        if op.is_view or op.wrapper in SAC_IGNORED_OPS:
            return False
        decision = decide(SelectiveCheckpointContext(is_recompute=is_recompute), op, values)
        return decision in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def keep(op: Any, values: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        results, is_tuple = run()
        if saves(False, op, values):
            kept.setdefault(op.name, []).append(([array.copy() for array in results], is_tuple))
        return results, is_tuple

    def recall(op: Any, values: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if not saves(True, op, values):
            return run()
        if not kept.get(op.name):
            raise RuntimeError(
                f"{op.name} encountered during backward, but not found in storage: the second run has more calls of it than the first, or "
                "this is a second backward pass"
            )
        return kept[op.name].pop(0)

    return observing(keep), observing(recall)


# Functions that are several others' part under another name.
_NAMES_OF_PARTS = dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "convolution")


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """Checkpoint a chain of functions in parts; the last part runs as always, since backward begins there.

    Args:
        functions: an ``nn.Sequential``, or a list of modules or functions.
        segments: number of parts.
        input: of the first function.
        use_reentrant: as in :func:`checkpoint`.
        kwargs: ``preserve_rng_state`` as in :func:`checkpoint`.
    Returns:
        What the last function returned.
    Raises:
        ValueError: another keyword argument.
    Source: torch.utils.checkpoint.checkpoint_sequential.
    Example:
        >>> layers = [torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)]
        >>> checkpoint_sequential(layers, 2, torch.ones(3, 2, requires_grad=True), use_reentrant=False).shape
        torch.Size([3, 1])
    """
    if use_reentrant is None:
        use_reentrant = _default_reentrant("torch.utils.checkpoint.checkpoint_sequential")
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    # A Sequential is iterable like a list.
    steps = list(functions)

    def chain(part: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    end = size * (segments - 1)
    for start in range(0, end, size):
        part = chain(steps[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return chain(steps[end:])(input)
