"""PyTorch's names for the files of ``nn``: ``torch.nn.modules.batchnorm`` is ``nn.normalization``, and so on.

The names stand in programs (``isinstance(module, nn.modules.batchnorm._BatchNorm)``) and in files of whole modules.
"""

from __future__ import annotations

import sys
from importlib import import_module

from . import utils as utils

_ALIKE = (
    "activation adaptive conv distance dropout flatten fold lazy linear loss module normalization padding pooling rnn transformer "
    "upsampling"
)
FILES = {name: name for name in _ALIKE.split()} | {
    "batchnorm": "normalization",
    "channelshuffle": "shuffling",
    "container": "containers",
    "instancenorm": "normalization",
    "linear_cross_entropy_options": "linear_cross_entropy",
    "pixelshuffle": "shuffling",
    "sparse": "embedding",
}
# Files whose classes PyTorch has in a file of others.
JOINED = {"linear_cross_entropy": "loss", "multihead_attention": "activation", "sync_batchnorm": "batchnorm"}

for _name, _file in FILES.items():
    _module = import_module(f"..{_file}", __name__)
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
    globals().update((_public, getattr(_module, _public)) for _public in _module.__all__)
for _file, _name in JOINED.items():
    _module = import_module(f"..{_file}", __name__)
    for _public in _module.__all__:
        globals()[_public] = getattr(_module, _public)
        setattr(globals()[_name], _public, getattr(_module, _public))
del _name, _file, _module
