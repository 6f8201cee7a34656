"""PyTorch's kernels as objects: what ``torch.ops``, ``torch.library``, ``__torch_dispatch__`` and fake tensors are made of.

schema, tags, schemas.txt                       what an operation takes and gives, in PyTorch's words
overloads, namespaces                           ``torch.ops``: overloads, packets, namespaces
table, names, calls                             which kernels of PyTorch's our operations are, and back
kernels, composites, rules, formulas, derivatives   what single kernels do, and their derivatives
below, fake_tensor                              modes below the tape, and tensors without values
library                                         operations that programs define
"""
