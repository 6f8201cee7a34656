"""CUDA's libraries, which are not there; their switches are kept. Source: torch.backends.cuda."""

from __future__ import annotations

from typing import Any

from ..core.settings import settings
from ._switches import precision, switch

__all__ = [
    "cudnn_sdp_enabled", "cufft_plan_cache", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled",
]  # fmt: skip


def is_built() -> bool:
    """Whether the package uses CUDA, which it does where there are CuPy and a device.

    Returns: a bool.
    Source: torch.backends.cuda.is_built.
    Example:
        >>> torch.backends.cuda.is_built() == torch.cuda.is_available()
        True
    """
    from ..cuda import is_available

    return is_available()


def is_flash_attention_available() -> bool:
    """Whether there is a kernel of FlashAttention.

    Returns: False.
    Source: torch.backends.cuda.is_flash_attention_available.
    Example:
        >>> torch.backends.cuda.is_flash_attention_available()
        False
    """
    return False


class _Matmul:
    """Switches of matrix products; ``allow_tf32`` is another face of ``torch.set_float32_matmul_precision``, 'high' where it is True."""

    __slots__ = ()
    allow_fp16_reduced_precision_reduction = switch("set_allow_fp16_reduction_cublas", True)
    allow_bf16_reduced_precision_reduction = switch("set_allow_bf16_reduction_cublas", True)
    allow_fp16_accumulation = switch("set_allow_fp16_accumulation_cublas", False)
    fp32_precision = precision("none")

    @property
    def allow_tf32(self) -> bool:
        return settings.matmul_precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(value).__name__}")
        settings.matmul_precision = "high" if value else "highest"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}")


class _PlanCaches:
    """The plan caches of cuFFT, one per device."""

    def __getitem__(self, device: Any) -> Any:
        raise RuntimeError(f"cufft_plan_cache: expected 0 <= device index < 0, but got device with index {device}")


matmul = _Matmul()
cufft_plan_cache = _PlanCaches()


def flash_sdp_enabled() -> bool:
    """Whether attention may use FlashAttention.

    Returns: a bool.
    Source: torch.backends.cuda.flash_sdp_enabled.
    Example:
        >>> torch.backends.cuda.flash_sdp_enabled()
        True
    """
    return settings.attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Let attention on CUDA use FlashAttention, or not.

    Args:
        enabled: whether it may.
    Source: torch.backends.cuda.enable_flash_sdp.
    Example:
        >>> torch.backends.cuda.enable_flash_sdp(True)
    """
    settings.attention["flash"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may use plain operations.

    Returns: a bool.
    Source: torch.backends.cuda.math_sdp_enabled.
    Example:
        >>> torch.backends.cuda.math_sdp_enabled()
        True
    """
    return settings.attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Let attention on CUDA use plain operations, or not.

    Args:
        enabled: whether it may.
    Source: torch.backends.cuda.enable_math_sdp.
    Example:
        >>> torch.backends.cuda.enable_math_sdp(True)
    """
    settings.attention["math"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may use the memory-efficient kernel.

    Returns: a bool.
    Source: torch.backends.cuda.mem_efficient_sdp_enabled.
    Example:
        >>> torch.backends.cuda.mem_efficient_sdp_enabled()
        True
    """
    return settings.attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Let attention on CUDA use the memory-efficient kernel, or not.

    Args:
        enabled: whether it may.
    Source: torch.backends.cuda.enable_mem_efficient_sdp.
    Example:
        >>> torch.backends.cuda.enable_mem_efficient_sdp(True)
    """
    settings.attention["mem_efficient"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may use cuDNN.

    Returns: a bool.
    Source: torch.backends.cuda.cudnn_sdp_enabled.
    Example:
        >>> torch.backends.cuda.cudnn_sdp_enabled()
        True
    """
    return settings.attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Let attention on CUDA use cuDNN, or not.

    Args:
        enabled: whether it may.
    Source: torch.backends.cuda.enable_cudnn_sdp.
    Example:
        >>> torch.backends.cuda.enable_cudnn_sdp(True)
    """
    settings.attention["cudnn"] = bool(enabled)
