"""Writes ``flambeau/aten/schemas.txt`` from the PyTorch that is installed: ``python -m tools.aten_schemas``.

One line for each overload of every operation that ``torch.ops.aten`` has here: its schema without the namespace, and its tags. Each
operation's overloads stand in PyTorch's order, which is the order in which a call looks for the one that it fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import flambeau

PATH = Path(flambeau.__file__).parent / "aten" / "schemas.txt"


def lines() -> Iterator[str]:
    import torch

    dispatched: dict[str, set[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace == "aten":
            operation, _, overload = rest.partition(".")
            dispatched.setdefault(operation, set()).add(overload or "default")
    for operation in sorted(dispatched):
        if not hasattr(flambeau.ops.aten, operation):
            continue
        packet = getattr(torch.ops.aten, operation)
        for name in packet.overloads():
            if name in dispatched[operation]:  # the others are TorchScript's, of plain numbers
                overload = getattr(packet, name)
                tags = sorted(str(tag).removeprefix("Tag.") for tag in overload.tags)
                schema = str(overload._schema).removeprefix("aten::")
                yield " | ".join([schema, *[" ".join(tag for tag in tags if tag != "pt2_compliant_tag")] * (len(tags) > 1)])


def main() -> None:
    PATH.write_text("\n".join(lines()) + "\n")
    print(f"{PATH.name}: {len(PATH.read_text().splitlines())} overloads")


if __name__ == "__main__":
    main()
