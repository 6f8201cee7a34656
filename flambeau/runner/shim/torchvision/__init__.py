"""flambeau.vision in torchvision's place, for the same processes as its neighbour ``torch``, which finds flambeau."""

import importlib
import sys

importlib.import_module("torch")
sys.modules[__name__] = importlib.import_module("flambeau.vision")
