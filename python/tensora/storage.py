"""The types of storages, which programs name in isinstance; `x.untyped_storage()` gives one."""
from ._tensor import _Storage

UntypedStorage = TypedStorage = _Storage
