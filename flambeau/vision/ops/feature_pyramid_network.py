"""Feature pyramids: maps of all scales that include the features of the deepest one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...nn import functional as F
from .misc import Conv2dNormActivation

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7"]

Maps = list[Tensor]


def _initialise(convolutions: Any) -> None:
    for convolution in convolutions:
        nn.init.kaiming_uniform_(convolution.weight, a=1)
        if convolution.bias is not None:
            nn.init.constant_(convolution.bias, 0)


class ExtraFPNBlock(nn.Module):
    """Base of what adds further maps to a pyramid.

    ``forward(results, x, names)`` gets the pyramid's maps, the original ones and the names, and returns longer lists of maps and names.

    Shape:
        Maps ``(N, C, H_i, W_i)`` of the pyramid, those of the backbone, and names, to longer lists of maps and names.
    Raises:
        NotImplementedError: a class that defines no ``forward``.
    Source: torchvision.ops.feature_pyramid_network.ExtraFPNBlock.
    Example:
        >>> class Again(ExtraFPNBlock):
        ...     def forward(self, results, x, names):
        ...         return [*results, results[-1]], [*names, "again"]
        >>> Again()([torch.ones(1, 4, 2, 2)], [], ["0"])[1]
        ['0', 'again']
    """

    def forward(self, results: Maps, x: Maps, names: list[str]) -> tuple[Maps, list[str]]:
        raise NotImplementedError(f"{type(self).__name__} needs a forward(results, x, names)")


class FeaturePyramidNetwork(nn.Module):
    """A pyramid over maps of rising depth: each becomes ``out_channels`` wide and takes up what lies above it, enlarged.

    Args:
        in_channels_list: channels of each map.
        out_channels: channels of the results.
        extra_blocks: adds further maps.
        norm_layer: normalisation after each convolution; none, and a bias instead, when None.
    Shape:
        A dict of ``(N, in_channels_list[i], H_i, W_i)`` to an OrderedDict of ``(N, out_channels, H_i, W_i)``.
    Attributes:
        inner_blocks: convolutions of one pixel.
        layer_blocks: convolutions of 3x3 on the sums. Weights are uniform (Kaiming with a = 1), biases 0.
    Raises:
        ValueError: a map of 0 channels.
        TypeError: ``extra_blocks`` that is no ``ExtraFPNBlock``.
    Source: torchvision.ops.FeaturePyramidNetwork. Lin et al. 2017.
    Example:
        >>> from collections import OrderedDict
        >>> pyramid = FeaturePyramidNetwork([8, 16], 4)
        >>> maps = OrderedDict(fine=torch.rand(1, 8, 6, 6), coarse=torch.rand(1, 16, 3, 3))
        >>> {name: tuple(result.shape) for name, result in pyramid(maps).items()}
        {'fine': (1, 4, 6, 6), 'coarse': (1, 4, 3, 3)}
    """

    _version = 2

    def __init__(
        self,
        in_channels_list: Sequence[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for in_channels in in_channels_list:
            if in_channels == 0:
                raise ValueError("in_channels=0 is currently not supported")
            self.inner_blocks.append(
                Conv2dNormActivation(in_channels, out_channels, kernel_size=1, padding=0, norm_layer=norm_layer, activation_layer=None)
            )
            self.layer_blocks.append(
                Conv2dNormActivation(out_channels, out_channels, kernel_size=3, norm_layer=norm_layer, activation_layer=None)
            )
        _initialise(module for module in self.modules() if isinstance(module, nn.Conv2d))
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}")
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any) -> None:
        """Files of version 1 name the convolutions without the place in their block."""
        version = local_metadata.get("version", None)
        if version is None or version < 2:
            for blocks in ("inner_blocks", "layer_blocks"):
                for index in range(len(self.inner_blocks)):
                    for name in ("weight", "bias"):
                        old = f"{prefix}{blocks}.{index}.{name}"
                        if old in state_dict:
                            state_dict[f"{prefix}{blocks}.{index}.0.{name}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def get_result_from_inner_blocks(self, x: Tensor, idx: int) -> Tensor:
        """``x`` through the inner block at ``idx``."""
        return self.inner_blocks[idx](x)

    def get_result_from_layer_blocks(self, x: Tensor, idx: int) -> Tensor:
        """``x`` through the layer block at ``idx``."""
        return self.layer_blocks[idx](x)

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        names, maps = list(x.keys()), list(x.values())
        inner = self.inner_blocks[-1](maps[-1])
        results = [self.layer_blocks[-1](inner)]
        for idx in range(len(maps) - 2, -1, -1):
            lateral = self.inner_blocks[idx](maps[idx])
            inner = lateral + F.interpolate(inner, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[idx](inner))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results))


class LastLevelMaxPool(ExtraFPNBlock):
    """Adds ``"pool"``: every other pixel of the last map.

    Shape:
        Maps ``(N, C, H_i, W_i)`` of the pyramid, those of the backbone, and names, to longer lists of maps and names.
    Source: torchvision.ops.feature_pyramid_network.LastLevelMaxPool.
    Example:
        >>> maps, names = LastLevelMaxPool()([torch.ones(1, 4, 6, 6)], [], ["0"])
        >>> names, maps[-1].shape
        (['0', 'pool'], torch.Size([1, 4, 3, 3]))
    """

    def forward(self, results: Maps, x: Maps, names: list[str]) -> tuple[Maps, list[str]]:
        names.append("pool")
        results.append(F.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0))
        return results, names


class LastLevelP6P7(ExtraFPNBlock):
    """Adds ``"p6"`` and ``"p7"``, two convolutions with stride 2 upon the last map, as RetinaNet has them.

    Args:
        in_channels: channels of the map that ``p6`` reads: of the pyramid where they equal ``out_channels``, else of the backbone.
        out_channels: channels of the new maps.
    Shape:
        Maps ``(N, C, H_i, W_i)`` of the pyramid, those of the backbone, and names, to longer lists of maps and names.
    Source: torchvision.ops.feature_pyramid_network.LastLevelP6P7.
    Example:
        >>> maps, names = LastLevelP6P7(4, 4)([torch.ones(1, 4, 8, 8)], [], ["p5"])
        >>> names, [tuple(each.shape) for each in maps]
        (['p5', 'p6', 'p7'], [(1, 4, 8, 8), (1, 4, 4, 4), (1, 4, 2, 2)])
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        _initialise((self.p6, self.p7))
        self.use_P5 = in_channels == out_channels

    def forward(self, results: Maps, x: Maps, names: list[str]) -> tuple[Maps, list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        results.extend([p6, self.p7(F.relu(p6))])
        names.extend(["p6", "p7"])
        return results, names
