"""Datasets, samplers and loaders."""
from .collate import default_collate, default_convert  # noqa: F401
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset,  # noqa: F401
                      TensorDataset, random_split)
from .loader import DataLoader, get_worker_info  # noqa: F401
from .sampler import (BatchSampler, DistributedSampler, RandomSampler, Sampler, SequentialSampler,  # noqa: F401
                      SubsetRandomSampler, WeightedRandomSampler)
from . import dataset, loader as dataloader, sampler  # noqa: F401
import sys as _sys

_sys.modules[__name__ + ".dataloader"] = dataloader  # PyTorch's name of the file

