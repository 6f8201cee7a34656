"""Anomaly detection: shows the forward call behind a backward pass that failed or made NaN."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np

from ..core.arrays.kinds import on_device_of
from ..core.state import active, modes
from ..core.tape.node import Node


class _Anomaly:
    """Whether detection is on, and whether gradients are searched for NaN."""

    enabled = False
    check_nan = True

    def switch(self, enabled: bool, check_nan: bool) -> None:
        if enabled and not self.enabled:
            modes.on_record = self.note
            active[:0] = (None,)
        elif self.enabled and not enabled:
            modes.on_record = None
            del active[-1]
        self.enabled, self.check_nan = enabled, check_nan

    def note(self, node: Node) -> None:
        """Remember the stack of the forward call that made ``node``."""
        node.metadata["traceback_"] = traceback.format_stack()[:-3]

    def check(self, node: Node, grads: Any) -> None:
        """Raise where a derivative made NaN.

        Raises:
            RuntimeError: naming the node and the index of the gradient.
        """
        if not self.check_nan:
            return
        for index, grad in enumerate(grads):
            if grad is not None and grad._array.dtype.kind in "fc" and _has_nan(grad._array):
                self.blame(node)
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {index}th output.")

    def blame(self, node: Node) -> None:
        stack = node.metadata.get("traceback_")
        if stack is None:
            shown = "No forward pass information available. Enable detect anomaly during forward pass for more information."
        else:
            shown = "Traceback of forward call that caused the error:\n" + "".join(stack)
        warnings.warn(f"Error detected in {node.name()}. {shown}", UserWarning, stacklevel=4)


def _has_nan(array: Any) -> bool:
    with on_device_of(array):
        return bool(np.isnan(array).any())


anomaly = _Anomaly()


class detect_anomaly:
    """Context in which backward passes are checked for NaN and errors are traced to the forward call.

    Args:
        check_nan: search every gradient for NaN.
    Raises:
        RuntimeError: within the context, by a backward pass that makes NaN, where ``check_nan``.
    Source: torch.autograd.detect_anomaly.
    Example:
        >>> x = torch.zeros(1, requires_grad=True)
        >>> with detect_anomaly():
        ...     (x.sqrt() * 0).sum().backward()
        Traceback (most recent call last):
            ...
        RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True):
        self._was = (anomaly.enabled, anomaly.check_nan)
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._was = (anomaly.enabled, anomaly.check_nan)
        anomaly.switch(True, self.check_nan)

    def __exit__(self, *exc_info: Any) -> None:
        anomaly.switch(*self._was)


class set_detect_anomaly:
    """Switch anomaly detection by a flag; as a function, or as a context that restores the earlier state.

    Args:
        mode: on or off.
        check_nan: search every gradient for NaN.
    Source: torch.autograd.set_detect_anomaly.
    Example:
        >>> with set_detect_anomaly(True, check_nan=False):
        ...     is_anomaly_enabled(), is_anomaly_check_nan_enabled()
        (True, False)
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._was = (anomaly.enabled, anomaly.check_nan)
        anomaly.switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc_info: Any) -> None:
        anomaly.switch(*self._was)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on.

    Returns: a bool; False unless switched on.
    Source: torch.is_anomaly_enabled.
    Example:
        >>> is_anomaly_enabled()
        False
    """
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection searches for NaN.

    Returns: a bool; True unless switched off.
    Source: torch.is_anomaly_check_nan_enabled.
    Example:
        >>> is_anomaly_check_nan_enabled()
        True
    """
    return anomaly.check_nan
