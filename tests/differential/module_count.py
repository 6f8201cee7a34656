"""How many of the layers of ``torch.nn`` compute as PyTorch's: ``python -m tests.differential.module_count [NAME ...]``.

Each with all its arguments and inputs of ``module_lines``: forward, backward and second derivatives in float64; forward and backward in
float32, in evaluation, with inputs that are not contiguous, and on ``meta``. What PyTorch refuses must be refused, by the same type of
exception.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

from .area import Difference, find_area, find_difference, reason_of
from .module_lines import LAYERS
from .modules import GRADS, LEAVES, SECOND, STEPPED, inputs_line

EXCEPTED = {"CrossMapLRN2d": "PyTorch's gradient is wrong by finite differences"}
ON_META = "inputs = torch.utils._pytree.tree_map(lambda x: x.to('meta') if isinstance(x, torch.Tensor) else x, inputs)"
DOUBLE = "torch.set_default_dtype(torch.float64)"


def programs(name: str) -> Iterator[list[str]]:
    """The programs of a layer."""
    for arguments, inputs in LAYERS[name]:
        for argument in arguments:
            for given in inputs:
                made, leaf = f"m = torch.nn.{name}({argument})", ".requires_grad_()"
                called = ["out = m(*inputs)", LEAVES, GRADS]
                yield [DOUBLE, made, inputs_line(given, leaf, True), *called, SECOND]
                yield [made, inputs_line(given, leaf, False), *called]
                yield [DOUBLE, made, "m.eval()", inputs_line(given, leaf, True), *called]
                yield [DOUBLE, made, inputs_line(given, STEPPED, True), *called]
                if "Lazy" not in name:
                    yield [DOUBLE, made, "m.to('meta')", inputs_line(given, "", True), ON_META, "out = m(*inputs)"]


def differences(name: str, count: int | None = None) -> Iterator[tuple[list[str], Difference]]:
    """What differs and is not explained, of ``count`` of a layer's programs, or of all."""
    area, every = find_area("modules"), list(programs(name))
    for lines in every if count is None or count >= len(every) else random.Random(name).sample(every, count):
        found = find_difference(area, lines)
        if found is not None and reason_of(area, found) is None:
            yield lines, found


def main(names: list[str]) -> int:
    equal, total = [], 0
    for name in names or LAYERS:
        total += sum(1 for _ in programs(name))
        found = list(differences(name))
        if not found:
            equal.append(name)
        for lines, difference in found[:3]:
            print("\n".join(lines), difference, "", sep="\n", flush=True)
        if found:
            print(f"{name}: {len(found)} programs differ{' (' + EXCEPTED[name] + ')' if name in EXCEPTED else ''}\n", flush=True)
    print(f"modules {len(equal)} of {len(names or LAYERS)}, {total} programs; {', '.join(EXCEPTED)} excepted")
    return 0 if set(names or LAYERS) <= {*equal, *EXCEPTED} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
