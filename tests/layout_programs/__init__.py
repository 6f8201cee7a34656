"""Random operations on large tensors of random memory layout: native kernels against the NumPy reference, and against PyTorch.

    python -m tests.layout_programs --seconds 60            # with a new seed, which is printed
    python -m tests.layout_programs --seed 7 --count 1000   # programs 7, 8, ... 1006
    python -m tests.layout_programs --seed 1234 --count 1   # one of them again

A program is one operation with its operands, and follows from its seed alone:

    seed -> operation, shapes near a threshold, dtype -> layout of each operand -> result -> cotangent's layout -> gradients

It runs three times: by native kernels, by reference kernels alone, and by real PyTorch where that is installed.  Operands and cotangents
of the first two runs lie between pages that must not be touched, and what an in-place operation must leave alone is compared too.

Most programs compute with small whole numbers, for which sums and products are exact in every order: there, any difference at all is an
error, and one wrong element among a hundred thousand shows.  The others state how far apart two roundings may be (``Bound``).
"""
