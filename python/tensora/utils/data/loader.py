"""DataLoader: batches, made by this thread or by worker threads."""
import collections
import itertools
import queue
import threading
from typing import Any, Callable, Iterator, List

from ... import _C
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed


class _WorkerInfo:
    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset


_local = threading.local()
_collate_fn_t = Callable[[List[Any]], Any]  # for annotations


def get_worker_info():
    """In a worker: its number, how many there are, its seed, and its dataset; elsewhere None."""
    return getattr(_local, "info", None)


def _pinned(batch):
    """The tensors of a batch in page-locked memory."""
    if isinstance(batch, _C.Tensor):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return {key: _pinned(value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_pinned, batch))
    return type(batch)(map(_pinned, batch)) if isinstance(batch, (list, tuple)) else batch


class DataLoader:
    """Batches of a dataset.

    >>> data = tensora.utils.data.TensorDataset(tensora.arange(4))
    >>> [x.tolist() for x, in tensora.utils.data.DataLoader(data, batch_size=3)]
    [[0, 1, 2], [3]]
    """

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.worker_init_fn, self.generator, self.pin_memory = worker_init_fn, generator, pin_memory
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers):
            raise ValueError("prefetch_factor and persistent_workers need num_workers > 0")
        self.prefetch_factor = prefetch_factor or (2 if num_workers > 0 else None)
        self.persistent_workers, self.multiprocessing_context = persistent_workers, multiprocessing_context
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle, sampler and batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None and not self._iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not self._iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler
        batched = batch_sampler is not None or (self._iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def __len__(self) -> int:
        if self._iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def __iter__(self) -> Iterator[Any]:
        seed = drawn_seed(self.generator)  # drawn by every iteration, as in PyTorch: what follows has its numbers
        batches = (self._here() if self.num_workers == 0
                   else self._from_streams(seed) if self._iterable else self._from_workers(seed))
        return map(_pinned, batches) if self.pin_memory and _C._is_available("cuda") else batches

    # ---- one thread ----

    def _fetch(self, index):
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[index])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(index))
        return self.collate_fn([self.dataset[i] for i in index])

    def _stream(self, samples):
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def _indices(self):
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def _here(self):
        if self._iterable:
            yield from self._stream(iter(self.dataset))
        else:
            yield from map(self._fetch, self._indices())

    # ---- several: threads, because ops and file reading release the interpreter ----

    def _late(self):
        return RuntimeError(f"DataLoader timed out after {self.timeout} seconds")

    def _enter_worker(self, number, seed):
        _local.info = _WorkerInfo(number, self.num_workers, seed + number, self.dataset)
        if self.worker_init_fn is not None:
            self.worker_init_fn(number)

    def _from_workers(self, seed):
        tasks, results, stop = queue.Queue(), {}, object()
        ready = threading.Condition()

        def work(number):
            failure = None
            try:
                self._enter_worker(number, seed)
            except BaseException as error:
                failure = error
            while (task := tasks.get()) is not stop:
                place, index = task
                try:
                    outcome = (None, failure) if failure else (self._fetch(index), None)
                except BaseException as error:  # raised again where the batch is taken
                    outcome = None, error
                with ready:
                    results[place] = outcome
                    ready.notify_all()
        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(self.num_workers)]
        for thread in threads:
            thread.start()
        indices, sent = enumerate(self._indices()), 0
        try:
            for task in itertools.islice(indices, self.num_workers * self.prefetch_factor):
                tasks.put(task)
                sent += 1
            place = 0
            while place < sent:
                with ready:
                    if not ready.wait_for(lambda: place in results, self.timeout or None):
                        raise self._late()
                    value, error = results.pop(place)
                if error is not None:
                    raise error
                for task in itertools.islice(indices, 1):
                    tasks.put(task)
                    sent += 1
                yield value
                place += 1
        finally:
            while not tasks.empty():
                try:
                    tasks.get_nowait()
                except queue.Empty:
                    break
            for _ in threads:
                tasks.put(stop)

    def _from_streams(self, seed):
        stop, end = threading.Event(), object()

        def put(results, item):
            while not stop.is_set():
                try:
                    return results.put(item, timeout=0.1)
                except queue.Full:
                    continue

        def work(number, results):
            try:
                self._enter_worker(number, seed)
                for batch in self._stream(iter(self.dataset)):
                    put(results, (batch, None))
                    if stop.is_set():
                        return
                put(results, (end, None))
            except BaseException as error:
                put(results, (None, error))
        turns = collections.deque()  # the workers give their batches in turn, so that the order does not depend on timing
        for i in range(self.num_workers):
            turns.append(queue.Queue(self.prefetch_factor))
            threading.Thread(target=work, args=(i, turns[-1]), daemon=True).start()
        try:
            while turns:
                try:
                    value, error = turns[0].get(timeout=self.timeout or None)
                except queue.Empty:
                    raise self._late() from None
                if error is not None:
                    raise error
                if value is end:
                    turns.popleft()
                else:
                    turns.rotate(-1)
                    yield value
        finally:
            stop.set()


class _BaseDataLoaderIter:
    """PyTorch's type of iterators over a loader; here they are generators."""


_SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = _BaseDataLoaderIter
