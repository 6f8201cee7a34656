"""Datasets, samplers and the loader that makes batches of them."""

from ...core import late as _late
from . import datapipes as datapipes  # first: its modules may be left of an interrupted import, without it
from ._utils.collate import default_collate, default_convert
from ._utils.worker import get_worker_info
from .dataloader import DataLoader, _DatasetKind
from .datapipes._decorator import functional_datapipe, guaranteed_datapipes_determinism, non_deterministic
from .datapipes.datapipe import DataChunk, DFIterDataPipe, IterDataPipe, MapDataPipe
from .dataset import ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split
from .distributed import DistributedSampler
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

_late.adopt(__name__)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader", "Dataset", "DistributedSampler",
    "IterDataPipe", "IterableDataset", "MapDataPipe", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "_DatasetKind", "default_collate", "default_convert",
    "functional_datapipe", "get_worker_info", "guaranteed_datapipes_determinism", "non_deterministic", "random_split",
]  # fmt: skip
