"""Kernels generated as LLVM IR: see ``docs/kernels.md`` for the way from an expression to machine code."""

# Which module has the native kernels of an operation; it is imported when the operation first meets a large operand.
FAMILIES: dict[str, str] = {}
