"""RAFT: optical flow by a recurrent unit that looks into the correlations of all pairs of pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .... import nn, ops
from ....core.tensor import Tensor
from ....nn import functional as F
from ...ops.misc import Conv2dNormActivation
from .._builders import builder_and_weights
from ._utils import grid_sample, make_coords_grid, upsample_flow

__all__ = ["RAFT", "Raft_Large_Weights", "Raft_Small_Weights", "raft_large", "raft_small"]

Norm = Callable[..., Any] | None


def _shortcut(in_channels: int, out_channels: int, norm_layer: Norm, stride: int) -> nn.Module:
    return Conv2dNormActivation(
        in_channels, out_channels, norm_layer=norm_layer, kernel_size=1, stride=stride, bias=True, activation_layer=None
    )


class ResidualBlock(nn.Module):
    """Two convolutions, and the input added to their result.

    Args:
        in_channels, out_channels: of the block.
        norm_layer: normalisation.
        stride: of the first convolution.
        always_project: whether the input passes a convolution where it need not.
    Source: torchvision.models.optical_flow.raft.ResidualBlock.
    """

    def __init__(self, in_channels: int, out_channels: int, *, norm_layer: Norm, stride: int = 1, always_project: bool = False) -> None:
        super().__init__()
        self.convnormrelu1 = Conv2dNormActivation(in_channels, out_channels, norm_layer=norm_layer, kernel_size=3, stride=stride, bias=True)
        self.convnormrelu2 = Conv2dNormActivation(out_channels, out_channels, norm_layer=norm_layer, kernel_size=3, bias=True)
        plain = stride == 1 and not always_project
        self.downsample = nn.Identity() if plain else _shortcut(in_channels, out_channels, norm_layer, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.downsample(x) + self.convnormrelu2(self.convnormrelu1(x)))


class BottleneckBlock(nn.Module):
    """A convolution between two of one pixel at a quarter of the channels, and the input added to their result.

    Args:
        in_channels, out_channels: of the block.
        norm_layer: normalisation.
        stride: of the convolution between.
    Source: torchvision.models.optical_flow.raft.BottleneckBlock.
    """

    def __init__(self, in_channels: int, out_channels: int, *, norm_layer: Norm, stride: int = 1) -> None:
        super().__init__()
        narrow = out_channels // 4
        settings: dict[str, Any] = {"norm_layer": norm_layer, "bias": True}
        self.convnormrelu1 = Conv2dNormActivation(in_channels, narrow, kernel_size=1, **settings)
        self.convnormrelu2 = Conv2dNormActivation(narrow, narrow, kernel_size=3, stride=stride, **settings)
        self.convnormrelu3 = Conv2dNormActivation(narrow, out_channels, kernel_size=1, **settings)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Identity() if stride == 1 else _shortcut(in_channels, out_channels, norm_layer, stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.downsample(x) + self.convnormrelu3(self.convnormrelu2(self.convnormrelu1(x))))


class FeatureEncoder(nn.Module):
    """Features of an image at an eighth of its size.

    Args:
        block: class of the blocks.
        layers: channels of the first convolution, of three pairs of blocks, and of the result.
        strides: of the first four of these.
        norm_layer: normalisation.
    Raises:
        ValueError: other than five layers.
    Source: torchvision.models.optical_flow.raft.FeatureEncoder.
    """

    def __init__(
        self,
        *,
        block: Callable[..., Any] = ResidualBlock,
        layers: Sequence[int] = (64, 64, 96, 128, 256),
        strides: Sequence[int] = (2, 1, 2, 2),
        norm_layer: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if len(layers) != 5:
            raise ValueError(f"The expected number of layers is 5, instead got {len(layers)}")
        self.convnormrelu = Conv2dNormActivation(3, layers[0], norm_layer=norm_layer, kernel_size=7, stride=strides[0], bias=True)
        for place in range(3):
            pair = nn.Sequential(
                block(layers[place], layers[place + 1], norm_layer=norm_layer, stride=strides[place + 1]),
                block(layers[place + 1], layers[place + 1], norm_layer=norm_layer, stride=1),
            )
            self.add_module(f"layer{place + 1}", pair)
        self.conv = nn.Conv2d(layers[3], layers[4], kernel_size=1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (nn.BatchNorm2d, nn.InstanceNorm2d)) and module.weight is not None:
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
        self.output_dim = layers[-1]
        self.downsample_factor = 2 ** sum(stride == 2 for stride in strides)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.layer3(self.layer2(self.layer1(self.convnormrelu(x)))))


class MotionEncoder(nn.Module):
    """Correlations and the flow so far to features of motion.

    Args:
        in_channels_corr: channels of the correlations.
        corr_layers: channels of one or two convolutions over them.
        flow_layers: channels of two convolutions over the flow.
        out_channels: channels of the result, the flow's own two included.
    Raises:
        ValueError: another number of layers.
    Source: torchvision.models.optical_flow.raft.MotionEncoder.
    """

    def __init__(
        self,
        *,
        in_channels_corr: int,
        corr_layers: Sequence[int] = (256, 192),
        flow_layers: Sequence[int] = (128, 64),
        out_channels: int = 128,
    ) -> None:
        super().__init__()
        if len(flow_layers) != 2:
            raise ValueError(f"The expected number of flow_layers is 2, instead got {len(flow_layers)}")
        if len(corr_layers) not in (1, 2):
            raise ValueError(f"The number of corr_layers should be 1 or 2, instead got {len(corr_layers)}")
        self.convcorr1 = Conv2dNormActivation(in_channels_corr, corr_layers[0], norm_layer=None, kernel_size=1)
        two = len(corr_layers) == 2
        self.convcorr2 = Conv2dNormActivation(corr_layers[0], corr_layers[1], norm_layer=None, kernel_size=3) if two else nn.Identity()
        self.convflow1 = Conv2dNormActivation(2, flow_layers[0], norm_layer=None, kernel_size=7)
        self.convflow2 = Conv2dNormActivation(flow_layers[0], flow_layers[1], norm_layer=None, kernel_size=3)
        joined = corr_layers[-1] + flow_layers[-1]
        self.conv = Conv2dNormActivation(joined, out_channels - 2, norm_layer=None, kernel_size=3)
        self.out_channels = out_channels

    def forward(self, flow: Tensor, corr_features: Tensor) -> Tensor:
        correlation = self.convcorr2(self.convcorr1(corr_features))
        motion = self.convflow2(self.convflow1(flow))
        return ops.cat([self.conv(ops.cat([correlation, motion], dim=1)), flow], dim=1)


class ConvGRU(nn.Module):
    """A gated recurrent unit of convolutions.

    Args:
        input_size, hidden_size: channels.
        kernel_size, padding: of the convolutions.
    Source: torchvision.models.optical_flow.raft.ConvGRU.
    """

    def __init__(self, *, input_size: int, hidden_size: int, kernel_size: Any, padding: Any) -> None:
        super().__init__()
        for gate in ("convz", "convr", "convq"):
            convolution = nn.Conv2d(hidden_size + input_size, hidden_size, kernel_size=kernel_size, padding=padding)
            self.add_module(gate, convolution)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        both = ops.cat([h, x], dim=1)
        update, reset = ops.sigmoid(self.convz(both)), ops.sigmoid(self.convr(both))
        candidate = ops.tanh(self.convq(ops.cat([reset * h, x], dim=1)))
        return (1 - update) * h + update * candidate


def _pass_through_h(h: Tensor, _: Tensor) -> Tensor:
    return h


class RecurrentBlock(nn.Module):
    """One or two recurrent units after each other, as rows and columns.

    Args:
        input_size, hidden_size: channels.
        kernel_size, padding: of each unit.
    Raises:
        ValueError: other than one or two units.
    Source: torchvision.models.optical_flow.raft.RecurrentBlock.
    """

    def __init__(
        self, *, input_size: int, hidden_size: int, kernel_size: Sequence[Any] = ((1, 5), (5, 1)), padding: Sequence[Any] = ((0, 2), (2, 0))
    ) -> None:
        super().__init__()
        if len(kernel_size) != len(padding):
            raise ValueError(
                "kernel_size should have the same length as padding, instead got "
                f"len(kernel_size) = {len(kernel_size)} and len(padding) = {len(padding)}"
            )
        if len(kernel_size) not in (1, 2):
            raise ValueError(f"kernel_size should either 1 or 2, instead got {len(kernel_size)}")
        sizes = {"input_size": input_size, "hidden_size": hidden_size}
        self.convgru1 = ConvGRU(**sizes, kernel_size=kernel_size[0], padding=padding[0])
        two = len(kernel_size) == 2
        self.convgru2: Any = ConvGRU(**sizes, kernel_size=kernel_size[1], padding=padding[1]) if two else _pass_through_h
        self.hidden_size = hidden_size

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        return self.convgru2(self.convgru1(h, x), x)


class FlowHead(nn.Module):
    """The hidden state to a change of the flow. Source: torchvision.models.optical_flow.raft.FlowHead."""

    def __init__(self, *, in_channels: int, hidden_size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, hidden_size, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden_size, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.relu(self.conv1(x)))


class UpdateBlock(nn.Module):
    """One step: features of motion, the recurrent unit, a change of the flow. Source: torchvision.models.optical_flow.raft.UpdateBlock."""

    def __init__(self, *, motion_encoder: nn.Module, recurrent_block: Any, flow_head: nn.Module) -> None:
        super().__init__()
        self.motion_encoder, self.recurrent_block, self.flow_head = motion_encoder, recurrent_block, flow_head
        self.hidden_state_size = recurrent_block.hidden_size

    def forward(self, hidden_state: Tensor, context: Tensor, corr_features: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
        x = ops.cat([context, self.motion_encoder(flow, corr_features)], dim=1)
        hidden_state = self.recurrent_block(hidden_state, x)
        return hidden_state, self.flow_head(hidden_state)


class MaskPredictor(nn.Module):
    """The hidden state to weights with which the flow is enlarged by 8.

    Args:
        in_channels, hidden_size: channels.
        multiplier: of the results, which makes their gradients smaller.
    Source: torchvision.models.optical_flow.raft.MaskPredictor.
    """

    def __init__(self, *, in_channels: int, hidden_size: int, multiplier: float = 0.25) -> None:
        super().__init__()
        self.convrelu = Conv2dNormActivation(in_channels, hidden_size, norm_layer=None, kernel_size=3)
        self.conv = nn.Conv2d(hidden_size, 8 * 8 * 9, 1, padding=0)
        self.multiplier = multiplier

    def forward(self, x: Tensor) -> Tensor:
        return self.multiplier * self.conv(self.convrelu(x))


class CorrBlock(nn.Module):
    """Correlations of all pairs of pixels at several scales, and a look into them around a place.

    Args:
        num_levels: scales, each half as large as the one before.
        radius: how far the look reaches, in pixels of each scale.
    Source: torchvision.models.optical_flow.raft.CorrBlock. Teed and Deng 2020, section 3.2.
    """

    def __init__(self, *, num_levels: int = 4, radius: int = 4) -> None:
        super().__init__()
        self.num_levels, self.radius = num_levels, radius
        self.corr_pyramid: list[Tensor] = []
        self.out_channels = num_levels * (2 * radius + 1) ** 2

    def build_pyramid(self, fmap1: Tensor, fmap2: Tensor) -> None:
        """Correlate two maps ``(N, C, h, w)``.

        Raises:
            ValueError: maps of different shapes, or too small to be halved so often.
        """
        if fmap1.shape != fmap2.shape:
            raise ValueError(
                f"Input feature maps should have the same shape, instead got {fmap1.shape} (fmap1.shape) != {fmap2.shape} (fmap2.shape)"
            )
        least = 2 * 2 ** (self.num_levels - 1)
        if min(fmap1.shape[-2:]) < least:
            raise ValueError(
                "Feature maps are too small to be down-sampled by the correlation pyramid. H and W of feature maps should be at least "
                f"{least}; got: {fmap1.shape[-2:]}. Remember that input images to the model are downsampled by 8, so that means their "
                f"dimensions should be at least 8 * {least} = {8 * least}."
            )
        batch, channels, height, width = fmap1.shape
        volume = fmap1.flatten(2).transpose(1, 2) @ fmap2.flatten(2) / channels**0.5
        volume = volume.reshape(batch * height * width, 1, height, width)
        self.corr_pyramid = [volume]
        for _ in range(self.num_levels - 1):
            volume = F.avg_pool2d(volume, kernel_size=2, stride=2)
            self.corr_pyramid.append(volume)

    def index_pyramid(self, centroids_coords: Tensor) -> Tensor:
        """The correlations ``(N, out_channels, h, w)`` around a place of the second map, ``(N, 2, h, w)``, for each pixel of the first."""
        side = 2 * self.radius + 1
        steps = ops.linspace(-self.radius, self.radius, side)
        delta = ops.stack(ops.meshgrid(steps, steps, indexing="ij"), dim=-1).to(centroids_coords.device)
        batch, _, height, width = centroids_coords.shape
        centres = centroids_coords.permute(0, 2, 3, 1).reshape(batch * height * width, 1, 1, 2)
        looks = []
        for volume in self.corr_pyramid:
            looks.append(grid_sample(volume, centres + delta, align_corners=True, mode="bilinear").view(batch, height, width, -1))
            centres = centres / 2
        return ops.cat(looks, dim=-1).permute(0, 3, 1, 2).contiguous()


class RAFT(nn.Module):
    """Optical flow from one image to another, refined step by step.

    Args:
        feature_encoder: images to features at an eighth of their size.
        context_encoder: the first image to the hidden state's first value and the context.
        corr_block: correlations of features.
        update_block: a step; has ``hidden_state_size``.
        mask_predictor: weights with which the flow is enlarged; bilinear when None.
    Shape:
        Two images ``(N, 3, H, W)``, sizes that 8 divides, to a list of flows ``(N, 2, H, W)``, one for each of ``num_flow_updates`` steps.
    Raises:
        ValueError: images of different or other sizes, encoders that do not fit.
    Source: torchvision.models.optical_flow.RAFT. Teed and Deng 2020.
    Example:
        >>> from flambeau.vision.models.optical_flow import raft_small
        >>> with torch.device('meta'):
        ...     model = raft_small()
        >>> type(model).__name__
        'RAFT'
    """

    def __init__(
        self,
        *,
        feature_encoder: nn.Module,
        context_encoder: nn.Module,
        corr_block: Any,
        update_block: Any,
        mask_predictor: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.feature_encoder, self.context_encoder = feature_encoder, context_encoder
        self.corr_block, self.update_block, self.mask_predictor = corr_block, update_block, mask_predictor
        if not hasattr(update_block, "hidden_state_size"):
            raise ValueError("The update_block parameter should expose a 'hidden_state_size' attribute.")

    def forward(self, image1: Tensor, image2: Tensor, num_flow_updates: int = 12) -> list[Tensor]:
        batch, _, height, width = image1.shape
        if (height, width) != tuple(image2.shape[-2:]):
            raise ValueError(f"input images should have the same shape, instead got ({height}, {width}) != {image2.shape[-2:]}")
        if height % 8 != 0 or width % 8 != 0:
            raise ValueError(f"input image H and W should be divisible by 8, instead got {height} (h) and {width} (w)")
        size = (height // 8, width // 8)
        first, second = ops.chunk(self.feature_encoder(ops.cat([image1, image2], dim=0)), chunks=2, dim=0)
        if tuple(first.shape[-2:]) != size:
            raise ValueError("The feature encoder should downsample H and W by 8")
        self.corr_block.build_pyramid(first, second)
        hidden, context = self._context(image1, size)
        start = make_coords_grid(batch, *size).to(first.device)
        place = start
        flows = []
        for _ in range(num_flow_updates):
            place = place.detach()  # gradients do not pass from step to step here
            correlation = self.corr_block.index_pyramid(centroids_coords=place)
            hidden, change = self.update_block(hidden, context, correlation, place - start)
            place = place + change
            weights = None if self.mask_predictor is None else self.mask_predictor(hidden)
            flows.append(upsample_flow(flow=place - start, up_mask=weights))
        return flows

    def _context(self, image: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The hidden state's first value, and the context."""
        both = self.context_encoder(image)
        if tuple(both.shape[-2:]) != size:
            raise ValueError("The context encoder should downsample H and W by 8")
        hidden_size = self.update_block.hidden_state_size
        rest = both.shape[1] - hidden_size
        if rest <= 0:
            raise ValueError(
                f"The context encoder outputs {both.shape[1]} channels, but it should have at strictly more than "
                f"hidden_state={hidden_size} channels"
            )
        hidden, context = ops.split(both, [hidden_size, rest], dim=1)
        return ops.tanh(hidden), F.relu(context)


LARGE: dict[str, Any] = {
    "feature": {"block": ResidualBlock, "layers": (64, 64, 96, 128, 256), "norm_layer": nn.InstanceNorm2d},
    "context": {"block": ResidualBlock, "layers": (64, 64, 96, 128, 256), "norm_layer": nn.BatchNorm2d},
    "correlation": {"num_levels": 4, "radius": 4},
    "motion": {"corr_layers": (256, 192), "flow_layers": (128, 64), "out_channels": 128},
    "recurrent": {"hidden_size": 128, "kernel_size": ((1, 5), (5, 1)), "padding": ((0, 2), (2, 0))},
    "head": 256,
    "mask": True,
}
SMALL: dict[str, Any] = {
    "feature": {"block": BottleneckBlock, "layers": (32, 32, 64, 96, 128), "norm_layer": nn.InstanceNorm2d},
    "context": {"block": BottleneckBlock, "layers": (32, 32, 64, 96, 160), "norm_layer": None},
    "correlation": {"num_levels": 4, "radius": 3},
    "motion": {"corr_layers": (96,), "flow_layers": (64, 32), "out_channels": 82},
    "recurrent": {"hidden_size": 96, "kernel_size": (3,), "padding": (1,)},
    "head": 128,
    "mask": False,
}


def _raft(sizes: dict[str, Any], **parts: Any) -> RAFT:
    """A RAFT of ``sizes``, in which ``parts`` replace those of the same name."""
    features = parts.pop("feature_encoder", None) or FeatureEncoder(**sizes["feature"])
    context = parts.pop("context_encoder", None) or FeatureEncoder(**sizes["context"])
    correlation = parts.pop("corr_block", None) or CorrBlock(**sizes["correlation"])
    hidden_size = sizes["recurrent"]["hidden_size"]
    update = parts.pop("update_block", None)
    if update is None:
        motion = MotionEncoder(in_channels_corr=correlation.out_channels, **sizes["motion"])
        rest = sizes["context"]["layers"][-1] - hidden_size
        recurrent = RecurrentBlock(input_size=motion.out_channels + rest, **sizes["recurrent"])
        head = FlowHead(in_channels=hidden_size, hidden_size=sizes["head"])
        update = UpdateBlock(motion_encoder=motion, recurrent_block=recurrent, flow_head=head)
    mask = parts.pop("mask_predictor", None)
    if mask is None and sizes["mask"]:
        mask = MaskPredictor(in_channels=hidden_size, hidden_size=256, multiplier=0.25)
    encoders = {"feature_encoder": features, "context_encoder": context}
    return RAFT(**encoders, corr_block=correlation, update_block=update, mask_predictor=mask, **parts)


raft_large, Raft_Large_Weights = builder_and_weights("raft_large", __name__, partial(_raft, LARGE), pretrained="C_T_SKHT_V2")
raft_small, Raft_Small_Weights = builder_and_weights("raft_small", __name__, partial(_raft, SMALL), pretrained="C_T_V2")
