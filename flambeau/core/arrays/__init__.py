"""Kinds of array: what a tensor's memory may be, which kernels run on it, and where a host array's native kernel comes from."""
