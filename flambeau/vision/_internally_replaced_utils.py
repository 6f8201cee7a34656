"""The name under which programs of torchvision's references find the loader of official weights."""

from __future__ import annotations

from ..hub import load_state_dict_from_url

__all__ = ["load_state_dict_from_url"]
