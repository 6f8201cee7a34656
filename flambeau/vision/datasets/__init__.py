"""Data sets of images.

In the examples ``root`` is a folder with the files of the data set, of which there are only a few, with small pictures.

Source: torchvision.datasets.
"""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from ...facades.unsupported import names as _unsupported_names
from ._optical_flow import HD1K, FlyingChairs, FlyingThings3D, KittiFlow, Sintel
from ._stereo_matching import *
from .arrays import FER2013, PCAM, MovingMNIST
from .caltech import Caltech101, Caltech256
from .captions import SBU, Flickr8k, Flickr30k
from .cifar import CIFAR10, CIFAR100
from .classification import *
from .coco import CocoCaptions, CocoDetection
from .detection import Cityscapes, Kitti, OxfordIIITPet, SBDataset, WIDERFace
from .faces import CelebA, LFWPairs, LFWPeople
from .fakedata import FakeData
from .flowers102 import Flowers102
from .folder import DatasetFolder, ImageFolder
from .food101 import Food101
from .imagenet import ImageNet
from .inaturalist import INaturalist
from .lsun import LSUN, LSUNClass
from .mnist import EMNIST, KMNIST, MNIST, QMNIST, FashionMNIST
from .omniglot import Omniglot
from .phototour import PhotoTour
from .places365 import Places365
from .semeion import SEMEION
from .stl10 import STL10
from .svhn import SVHN
from .usps import USPS
from .vision import VisionDataset
from .voc import VOCDetection, VOCSegmentation

_late.adopt(__name__)

__all__ = (
    *("LSUN", "LSUNClass", "ImageFolder", "DatasetFolder", "FakeData", "CocoCaptions", "CocoDetection", "CIFAR10", "CIFAR100", "EMNIST"),
    *("FashionMNIST", "QMNIST", "MNIST", "KMNIST", "MovingMNIST", "StanfordCars", "STL10", "SUN397", "SVHN", "PhotoTour", "SEMEION"),
    *("Omniglot", "SBU", "Flickr8k", "Flickr30k", "Flowers102", "VOCSegmentation", "VOCDetection", "Cityscapes", "ImageNet"),
    *("Caltech101", "Caltech256", "CelebA", "WIDERFace", "SBDataset", "VisionDataset", "USPS", "Kinetics", "HMDB51", "UCF101"),
    *("Places365", "Kitti", "INaturalist", "LFWPeople", "LFWPairs", "KittiFlow", "Sintel", "FlyingChairs", "FlyingThings3D", "HD1K"),
    *("Food101", "DTD", "FER2013", "GTSRB", "CLEVRClassification", "OxfordIIITPet", "PCAM", "Country211", "FGVCAircraft", "EuroSAT"),
    *("RenderedSST2", "Kitti2012Stereo", "Kitti2015Stereo", "CarlaStereo", "Middlebury2014Stereo", "CREStereo", "FallingThingsStereo"),
    *("SceneFlowStereo", "SintelStereo", "InStereo2k", "ETH3DStereo", "wrap_dataset_for_transforms_v2", "Imagenette"),
)

# Films: there is no decoder for them.
globals().update(_unsupported_names("vision.datasets", kinds="Kinetics HMDB51 UCF101"))


def __getattr__(name: str) -> Any:
    if name == "wrap_dataset_for_transforms_v2":
        from .wrapping import wrap_dataset_for_transforms_v2  # late: it needs the transforms

        return wrap_dataset_for_transforms_v2
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
