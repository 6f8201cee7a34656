"""Operations of detectors and building blocks of models: ``torchvision.ops``."""

from __future__ import annotations

from ...core import late as _late
from .boxes import *
from .boxes import __all__ as _of_boxes
from .ciou_loss import complete_box_iou_loss
from .deform_conv import DeformConv2d, deform_conv2d
from .diou_loss import distance_box_iou_loss
from .drop_block import DropBlock2d, DropBlock3d, drop_block2d, drop_block3d
from .feature_pyramid_network import FeaturePyramidNetwork
from .focal_loss import sigmoid_focal_loss
from .giou_loss import generalized_box_iou_loss
from .misc import MLP, Conv2dNormActivation, Conv3dNormActivation, FrozenBatchNorm2d, Permute, SqueezeExcitation
from .poolers import MultiScaleRoIAlign
from .ps_roi_align import PSRoIAlign, ps_roi_align
from .ps_roi_pool import PSRoIPool, ps_roi_pool
from .roi_align import RoIAlign, roi_align
from .roi_pool import RoIPool, roi_pool
from .stochastic_depth import StochasticDepth, stochastic_depth

_late.adopt(__name__)

__all__ = ["MLP", "Conv2dNormActivation", "Conv3dNormActivation", "DeformConv2d", "DropBlock2d", "DropBlock3d", "FeaturePyramidNetwork"]
__all__ += ["FrozenBatchNorm2d", "MultiScaleRoIAlign", "PSRoIAlign", "PSRoIPool", "Permute", "RoIAlign", "RoIPool", "SqueezeExcitation"]
__all__ += ["StochasticDepth", "complete_box_iou_loss", "deform_conv2d", "distance_box_iou_loss", "drop_block2d", "drop_block3d"]
__all__ += ["generalized_box_iou_loss", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool", "sigmoid_focal_loss", "stochastic_depth"]
__all__ += _of_boxes
