"""Collectives, messages and groups against PyTorch's gloo, whose outcomes are recorded."""

from __future__ import annotations
