"""In which order samples are taken."""
import itertools
import math

from ... import _C


class Sampler:
    """An iterable of numbers of samples."""

    def __init__(self, data_source=None):
        pass

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def _extras(generator):
    return {} if generator is None else {"generator": generator}


def drawn_seed(generator):
    """A number of 63 bits for another generator."""
    return _C.empty((), dtype=_C.int64).random_(**_extras(generator)).item()


class RandomSampler(Sampler):
    """A random order, or random samples if `replacement`."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        self.generator = generator
        if self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        count, generator = len(self.data_source), self.generator
        if generator is None:
            generator = _C.Generator()
            generator.manual_seed(drawn_seed(None))
        if self.replacement:
            for begin in range(0, self.num_samples, 32):  # there may be more samples than memory
                some = min(32, self.num_samples - begin)
                yield from _C.randint(0, count, (some,), generator=generator).tolist()
            return
        left = self.num_samples
        while left > 0:
            order = _C.randperm(count, generator=generator).tolist()[:left]
            yield from order
            left -= len(order)

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for i in _C.randperm(len(self.indices), **_extras(self.generator)).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    def __init__(self, weights, num_samples, replacement=True, generator=None):
        self.weights = weights if hasattr(weights, "shape") else _C.tensor(list(weights), dtype=_C.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        return iter(_C.multinomial(self.weights, self.num_samples, self.replacement, **_extras(self.generator)).tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` numbers."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)


class DistributedSampler(Sampler):
    """The samples of one of several processes; by default those of the default group."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        from ... import distributed
        self.dataset = dataset
        self.num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        self.rank = distributed.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset) / self.num_replicas
        self.num_samples = math.floor(count) if drop_last else math.ceil(count)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            order = _C.randperm(count, generator=_C.Generator().manual_seed(self.seed + self.epoch)).tolist()
        total = self.num_samples * self.num_replicas
        order = (order * math.ceil(total / max(count, 1)))[:total]
        return iter(order[self.rank:total:self.num_replicas])

    def __len__(self):
        return self.num_samples
