"""Switches for how modules change their parameters, one pair for the process. Source: torch.__future__."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion", "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]  # fmt: skip

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions of a module (``to``, ``float``, ...) make new parameters.

    Args:
        value: True for new ``Parameter`` objects; False, as at first, for new data in the old ones.
    Source: torch.__future__.set_overwrite_module_params_on_conversion.
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions of a module make new parameters. Source: torch.__future__.get_overwrite_module_params_on_conversion."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions of a module and ``load_state_dict`` exchange tensors by ``torch.utils.swap_tensors``.

    Then an object keeps its identity and gets everything else of the new tensor: its class, attributes and memory. What is loaded goes
    through ``Tensor.module_load``. Goes before ``set_overwrite_module_params_on_conversion``.

    Args:
        value: False, as at first, for new data (``.data``) and ``copy_``.
    Source: torch.__future__.set_swap_module_params_on_conversion.
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether modules exchange their tensors. Source: torch.__future__.get_swap_module_params_on_conversion."""
    return _swap
