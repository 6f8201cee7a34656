"""Modules in which PyTorch defines the classes and functions of this package, so that files of whole modules, optimizers and so on name
what PyTorch would: ``flambeau.nn.linear.Linear`` is ``torch.nn.modules.linear.Linear`` in a file.

The rule: what ``flambeau.x.y`` defines, PyTorch defines in ``torch.x.y``, and what ``flambeau.vision.x`` does, torchvision in
``torchvision.x``; what lies in a folder that PyTorch does not have, it has in a public namespace. Exceptions are whole files and stand in
tables here and in ``nn.modules``. A name is only written where reading it gives the same object back; all others are written as flambeau's.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from ..facades import modules as facades
from .names import DATA_NAMES, PACKAGE

# Files here, and the files in which PyTorch has the same names. ``nn.modules`` has the table of the layers' files.
ELSEWHERE: dict[str, str] = {
    "autograd.anomaly": "autograd.anomaly_mode",
    "autograd.api": "autograd",
    "aten.overloads": "_ops",
    "aten.quantized": "",
    "aten.tags": "",
    "compiler.entry": "",
    "core.random.generator": "_C",
    "core.storage": "storage",
    "core.tape.hooks": "utils.hooks",
    "nn._backward_hooks": "nn.modules._functions",
    "nn._module_hooks": "nn.modules.module",
    "nn._module_state": "nn.modules.module",
    "fx.control_flow": "_higher_order_ops",
    **{f"optim.lr_scheduler.{file}": "optim.lr_scheduler" for file in "annealing base composite cycles factors plateau".split()},
    **{place: name for name, place in facades.ELSEWHERE.items()},
}
# PyTorch's files that are part of a file here: by a part of the names in them, in the order in which it is looked for.
PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "accelerator": (("device_module", ""), ("", "accelerator")),
    "nn.linear_cross_entropy": (("Options", "nn.modules.linear_cross_entropy_options"), ("", "nn.modules.loss")),
    "nn.normalization": (
        ("InstanceNorm", "nn.modules.instancenorm"),
        ("BatchNorm", "nn.modules.batchnorm"),
        ("NormBase", "nn.modules.batchnorm"),
        ("", "nn.modules.normalization"),
    ),
    "nn.shuffling": (("Channel", "nn.modules.channelshuffle"), ("", "nn.modules.pixelshuffle")),
    "optim.adafactor": (("Adafactor", "optim"), ("", "optim._adafactor")),
    "optim.adam": (("AdamW", "optim.adamw"), ("", "optim.adam")),
    "optim.muon": (("Muon", "optim"), ("", "optim._muon")),
}
# Folders and files that PyTorch does not have, and the namespaces in which it shows what they define.
OURS_ALONE = ("core", "ops", "serialization")
PUBLIC = ("", "nn.functional", "linalg", "special", "fft", "serialization", "nn.parameter")
# Namespaces here for names whose file does not exist here, by PyTorch's; the longest prefix counts.
NAMESPACES: dict[str, str] = {
    "torch": "",
    "torch._C._fft": "fft",
    "torch._C._linalg": "linalg",
    "torch._C._nn": "nn.functional",
    "torch._C._special": "special",
    **{f"torch.{name}": name for name in ("autograd", "distributions", "nn", "nn.utils", "optim", "utils.data")},
    **{f"torchvision.{name}": f"vision.{name}" for name in ("datasets", "models", "ops", "transforms")},
}
# PyTorch's functions in C++ are attributes of these two, and files say ``getattr(torch._C._VariableFunctionsClass, "tanh")``.
OWNERS = {"torch._C._VariableFunctionsClass": "", "torch._C.TensorBase": "Tensor"}


def is_foreign(module: str) -> bool:
    """Whether a file means PyTorch's own code by this module name."""
    return module.partition(".")[0] in ("torch", "torchvision")


def spelling(value: Any) -> tuple[str, str] | None:
    """Module and name under which our files name an object, where they use PyTorch's; None otherwise."""
    data = DATA_NAMES.get(id(value))
    if data is not None:
        return data
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if is_foreign(module):  # classes made for one of PyTorch's names say it themselves
        return (module, name) if public_object(module, name) is value else None
    package, _, path = module.partition(".")
    if package != PACKAGE:
        return None
    if path.startswith("vision."):
        homes = [f"torchvision.{path.removeprefix('vision.')}"]
    else:
        homes = [f"torch.{place}".rstrip(".") for place in _places_in_pytorch(path, name)]
    return next(((home, name) for home in homes if public_object(home, name) is value), None)


def _places_in_pytorch(path: str, name: str) -> tuple[str, ...]:
    if path in PARTS:
        return (next(home for part, home in PARTS[path] if part in name),)
    if path in ELSEWHERE:
        return (ELSEWHERE[path],)
    if path.partition(".")[0] in OURS_ALONE:
        return PUBLIC
    if path.startswith("nn."):
        from ..nn.modules import FILES, JOINED  # late: who saves a layer has imported nn, others need not

        file = path.removeprefix("nn.")
        home = JOINED.get(file) or next((theirs for theirs, ours in FILES.items() if ours == file), None)
        if home is not None:
            return (f"nn.modules.{home}",)
    return (path,)


def public_object(module: str, name: str) -> Any:
    """The class or function of this package that stands for one of PyTorch; None where there is none.

    It counts only where this package defined it: a file cannot reach what a module here has imported from elsewhere.
    """
    if not all(part.isidentifier() and not part.startswith("__") for part in f"{module}.{name}".split(".")):
        return None
    if f"{module}.{name}" in OWNERS:
        package = importlib.import_module(PACKAGE)
        owner = OWNERS[f"{module}.{name}"]
        return getattr(package, owner) if owner else package
    for path in _paths_here(module):
        try:
            value: Any = importlib.import_module(f"{PACKAGE}.{path}" if path else PACKAGE)
        except ModuleNotFoundError:
            continue
        for part in _name_here(module, name).split("."):
            value = getattr(value, part, None)
        home = getattr(value, "__module__", None) or ""
        if callable(value) and home.partition(".")[0] in (PACKAGE, "torch"):
            return value
    return None


def _paths_here(module: str) -> Iterator[str]:
    """Modules of this package in which a name of PyTorch's ``module`` may be, the likeliest first."""
    if module.startswith("torch."):
        yield module.removeprefix("torch.")
    if module.startswith("torchvision."):
        yield f"vision.{module.removeprefix('torchvision.')}"
    parts = module.split(".")
    prefixes = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    namespace = next((NAMESPACES[prefix] for prefix in prefixes if prefix in NAMESPACES), None)
    if namespace is not None:
        yield namespace


def _name_here(module: str, name: str) -> str:
    """Functions in C++ of a namespace repeat its name: ``torch._C._linalg linalg_norm``."""
    if module.startswith("torch._C._") and module != "torch._C._nn":
        return name.removeprefix(module.removeprefix("torch._C._") + "_")
    return name
