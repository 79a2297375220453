"""torch.utils.weak: dictionaries whose keys are compared by identity, and go when nothing else has them."""
import collections.abc
import weakref


class WeakIdKeyDictionary(collections.abc.MutableMapping):
    """A dictionary of objects that need not be hashable; tensors are compared by identity, not by their elements."""

    def __init__(self, dict=None, ref_type=None):  # noqa: A002 - PyTorch's names
        del ref_type
        self._entries = {}
        if dict is not None:
            self.update(dict)

    def __setitem__(self, key, value):
        number, entries = id(key), self._entries
        self._entries[number] = (weakref.ref(key, lambda _: entries.pop(number, None)), value)

    def __getitem__(self, key):
        return self._entries[id(key)][1]

    def __delitem__(self, key):
        del self._entries[id(key)]

    def __contains__(self, key):
        return id(key) in self._entries

    def __iter__(self):
        return iter([key for key in (reference() for reference, _ in list(self._entries.values())) if key is not None])

    def __len__(self):
        return len(self._entries)


WeakTensorKeyDictionary = WeakIdKeyDictionary
TensorWeakRef = weakref.ref
