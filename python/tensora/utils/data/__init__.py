"""Datasets, samplers and loaders."""
from .collate import default_collate as default_collate, default_convert as default_convert
from .dataset import (
    ChainDataset as ChainDataset, ConcatDataset as ConcatDataset, Dataset as Dataset,
    IterableDataset as IterableDataset, StackDataset as StackDataset, Subset as Subset,
    TensorDataset as TensorDataset, random_split as random_split)
from .loader import DataLoader as DataLoader, get_worker_info as get_worker_info
from .sampler import (
    BatchSampler as BatchSampler, DistributedSampler as DistributedSampler, RandomSampler as RandomSampler,
    Sampler as Sampler, SequentialSampler as SequentialSampler, SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler)
from . import dataset, loader as dataloader, sampler  # noqa: F401
import sys as _sys

_sys.modules[__name__ + ".dataloader"] = dataloader  # PyTorch's name of the file

