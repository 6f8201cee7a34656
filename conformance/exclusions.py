"""Entries of the database that are left out, each with its reason."""

_WORDS = ("2inputs_2outputs", "4inputs_with_extra_args", "binary", "binary_return_by_ref", "unary")
EXCLUDED = {f"jiterator_{word}": "compiles C++ for a CUDA device, there is nothing of it on the CPU" for word in _WORDS}


def is_public(name: str) -> bool:
    """Whether an entry is of a public function; a name with an underscore in front is PyTorch's own business, an operator's is not."""
    parts = name.split(".")
    return parts[:1] != ["torch"] and (not parts[0].startswith("_") or parts[0].startswith("__"))
