"""The names of the classes of official weights."""

from __future__ import annotations

from ._api import table

_IMAGENET_CATEGORIES: list[str] = table("categories")["IMAGENET"]
_COCO_CATEGORIES: list[str] = table("categories")["COCO"]
_COCO_PERSON_CATEGORIES: list[str] = table("categories")["COCO_PERSON"]
_COCO_PERSON_KEYPOINT_NAMES: list[str] = table("categories")["COCO_PERSON_KEYPOINTS"]
_VOC_CATEGORIES: list[str] = table("categories")["VOC"]
_KINETICS400_CATEGORIES: list[str] = table("categories")["KINETICS400"]
