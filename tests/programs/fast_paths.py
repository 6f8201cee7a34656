"""Which operations take their fast kernels: ``python -m tests.programs.fast_paths`` counts over the samples of all records.

The functions that users call are generated; here they are generated with a counter around each, before the first is made.  A call took the
fast path if it returned without asking the slow path of its operation.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from flambeau.core.calls import wrapper_source, wrappers

fast: Counter[str] = Counter()
slow: Counter[str] = Counter()


def count_calls() -> None:
    """Put counters around the slow paths and around every function that is generated from now on."""

    def counted(path: Any) -> Any:
        def call(op: Any, *arguments: Any, **named: Any) -> Any:
            slow[key_of(op)] += 1
            return path(op, *arguments, **named)

        return call

    wrapper_source.ENVIRONMENT["dispatch"] = counted(wrapper_source.ENVIRONMENT["dispatch"])
    compile_source = wrapper_source.Source.compile
    wrappers.operator_slow, wrappers.reflected_slow = counted(wrappers.operator_slow), counted(wrappers.reflected_slow)

    def compile_counted(source: Any, name: str) -> Any:
        function, key = compile_source(source, name), key_of(source.op)

        def call(*arguments: Any, **named: Any) -> Any:
            before = slow[key]
            result = function(*arguments, **named)
            if slow[key] == before:
                fast[key] += 1
            return result

        call.__dict__.update(function.__dict__)
        call.__doc__, call.__module__, call.__name__, call.__qualname__ = function.__doc__, "torch", name, name
        return call

    wrapper_source.Source.compile = compile_counted  # type: ignore[method-assign]


def key_of(op: Any) -> str:
    return f"{op.namespace}.{op.name}".removeprefix("torch.")


def reach_the_rest() -> None:
    """Calls of what only large operands, other lengths or the index operator need."""
    import flambeau as torch

    _ = torch.ones(3)[None], torch.ones(3)[None, None], torch.ones(3)[None, 0]
    torch.topk(torch.ones(5), 2)
    functional = torch.nn.functional
    x = torch.ones(64, 130, requires_grad=True)
    functional.cross_entropy(x, torch.zeros(64, dtype=torch.int64), label_smoothing=0.1)
    fixed = torch.ones(4)
    weight = torch._make_per_tensor_quantized_tensor(torch.ones(3, 4, dtype=torch.int8), 0.5, 0)
    packed, quantized = torch.ops.quantized.linear_prepack(weight), torch.ops.quantized
    quantized.linear_dynamic(torch.ones(2, 4), packed)
    quantized.linear(torch._make_per_tensor_quantized_tensor(torch.ones(2, 4, dtype=torch.uint8), 0.5, 0), packed, 0.5, 0)
    functional.batch_norm(torch.ones(8, 4, 3), fixed, fixed, torch.ones(4, requires_grad=True)).sum().backward()


def main() -> int:
    count_calls()
    from libraries import OURS, differentiable_inputs, flat
    from records import RECORDS
    from records.record import Maker

    from flambeau import autograd
    from flambeau.core.calls.registry import Entry, entries

    for record in RECORDS.values():
        for dtype in record.dtypes[:2]:
            for sample in record.samples(Maker(dtype, record.name)):
                for recorded in (False, True):
                    args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
                    inputs = [tensor.requires_grad_() for tensor in differentiable_inputs([args, kwargs])] if recorded else []
                    result, _ = OURS.attempt(OURS.function(record.name), *args, **kwargs)
                    outputs = [output for output in flat(result) if getattr(output, "requires_grad", False)]
                    if outputs and inputs:
                        OURS.attempt(autograd.grad, [output.sum() for output in outputs], inputs, allow_unused=True)
    reach_the_rest()
    declared = {key_of(entry) for entry in entries() if isinstance(entry, Entry) and entry.fast is not None}
    never = sorted(declared - set(fast))
    for key in never:
        print(f"{key}: never in {slow[key]} calls")
    print(f"{len(declared)} operations with a fast kernel, {len(never)} of them never take it; {sum(fast.values())} fast calls")
    return 1 if never else 0


if __name__ == "__main__":
    sys.exit(main())
