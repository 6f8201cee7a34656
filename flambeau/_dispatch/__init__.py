"""``__torch_dispatch__``: calls below the tape, in the terms of PyTorch's kernels. See ``below``."""
