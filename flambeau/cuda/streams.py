"""Queues of work on a device, and marks in them. Source: torch.cuda.streams."""

from __future__ import annotations
