"""Native kernels of operations, a module for each family, and what families share."""
