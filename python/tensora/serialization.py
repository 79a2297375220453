"""Files: .pt as PyTorch writes them, .safetensors, .npz, .npy; and pickled objects for those who trust them."""
import os
from typing import Any, Callable, Dict, Optional, Union

from . import _C
from ._C import Tensor

DEFAULT_PROTOCOL = 2  # of pickle, in PyTorch's files
MAP_LOCATION = Optional[Union[Callable[[Any, str], Any], str, Dict[str, str]]]  # for annotations
_PICKLED = b"tensora pickle\n"  # begins a file that holds objects of the program
_KNOWN = (".safetensors", ".npz", ".npy")
_PLAIN = (type(None), bool, int, float, str, Tensor)
_safe = []  # what the program allows load to make


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Saves tensors, numbers, texts, lists and dicts in PyTorch's format, or as safetensors by the name.

    Whole modules and other objects are pickled; see `load` for what reads such a file.

    >>> tensora.save({"x": tensora.ones(2)}, "/tmp/tensora_doc.pt")
    >>> tensora.load("/tmp/tensora_doc.pt")
    {'x': tensor([1., 1.])}
    """
    import pickle  # these take a while to import, and most programs save late or never
    import tempfile
    if hasattr(f, "write"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "content.pt")
            save(obj, path)
            with open(path, "rb") as written:
                f.write(written.read())
        return
    path = os.fspath(f)
    if path.endswith(_KNOWN) or _is_plain(obj):
        seen, parameters = {}, []
        _C._save(_detached(obj, seen, parameters), path, not path.endswith(_KNOWN), parameters)
        return
    from . import _torch_pickles
    if _torch_pickles.can_save(obj):
        return _torch_pickles.save(obj, path)
    content = _PICKLED + pickle.dumps(obj)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(os.path.abspath(path)), delete=False) as written:
        written.write(content)
    os.replace(written.name, path)


def _is_plain(obj):
    """Whether C++ can write it: it knows dicts and lists, and no other containers."""
    if type(obj) is dict:
        return all(type(key) in (str, int) and _is_plain(value) for key, value in obj.items())
    if type(obj) is list:
        return all(_is_plain(value) for value in obj)
    if type(obj) is int:
        return -1 << 63 <= obj < 1 << 63
    return isinstance(obj, _PLAIN) and not (isinstance(obj, Tensor) and hasattr(obj, "_places"))  # sparse tensors


def _detached(obj, seen, parameters):
    """The object with its tensors outside the graph, each of them once; appends those that are parameters."""
    if isinstance(obj, dict):
        return {key: _detached(value, seen, parameters) for key, value in obj.items()}
    if isinstance(obj, (list, tuple, set)):
        return [_detached(value, seen, parameters) for value in obj]
    if not isinstance(obj, Tensor):
        return obj
    if id(obj) not in seen:
        from .nn import Parameter
        tensor = obj.detach().requires_grad_(obj.requires_grad)
        seen[id(obj)] = tensor
        if isinstance(obj, Parameter):
            parameters.append(tensor)
    return seen[id(obj)]


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **pickle_load_args) -> Any:
    """Loads a .pt, .safetensors, .npz or .npy file, of which nothing is ever executed.

    A file of pickled objects makes only objects of the classes in `add_safe_globals`, or of any class if
    `weights_only=False` says that you trust it. With `mmap=True` the tensors are views of the mapped file, which
    must not be truncated while they are used. `map_location` is a device, a dict of devices, or a function of a storage
    and its device that returns the storage where it shall be, such as `lambda storage, place: storage`.
    """
    unknown = set(pickle_load_args) - {"encoding", "errors", "fix_imports"}  # of pickles of Python 2
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument '{min(unknown)}'")
    if hasattr(f, "read"):
        import tempfile
        with tempfile.NamedTemporaryFile(suffix=".pt") as copy:
            copy.write(f.read())
            copy.flush()
            return load(copy.name, map_location, weights_only=weights_only)
    path = os.fspath(f)
    if not os.path.exists(path):
        raise FileNotFoundError(2, "No such file or directory", path)
    device = _C.device("cpu")
    if isinstance(map_location, (str, _C.device)):
        device = _C.device(map_location)
    elif isinstance(map_location, dict):
        device = _C.device(next(iter(map_location.values()), "cpu"))
    elif callable(map_location):
        device = _chosen(map_location)
    elif map_location is not None:
        raise TypeError(f"load: map_location must be a device, a dict or a function, got a {type(map_location).__name__}")
    with open(path, "rb") as file:
        if file.read(len(_PICKLED)) == _PICKLED:
            return _unpickled(file, weights_only)
    try:
        value, parameters = _C._load(path, device, not mmap)
    except RuntimeError as refusal:
        from . import _torch_pickles
        if not _torch_pickles.is_archive(path):
            raise
        try:
            return _moved(_torch_pickles.load(path, careful=weights_only), device)
        except Exception:
            if weights_only:
                raise _torch_pickles.Refused(str(refusal)) from None
            raise
    if parameters:
        from .nn import Parameter
        value = _replaced(value, {id(p): Parameter(p.detach(), p.requires_grad) for p in parameters})
    if path.endswith(_KNOWN):
        return value
    from . import _torch_pickles
    return _torch_pickles.in_containers(path, value) if _torch_pickles.is_archive(path) else value


class _Storage:
    """What a function as `map_location` is asked about: it moves nothing, and knows where it would be."""

    def __init__(self, device):
        self.device = device

    def cpu(self):
        return _Storage(_C.device("cpu"))

    def cuda(self, device=None, non_blocking=False):
        return self.to(_C.device("cuda" if device is None else device))

    def to(self, device):
        return _Storage(_C.device("cuda", device) if type(device) is int else _C.device(device))


def _chosen(map_location):
    storage = _Storage(_C.device("cpu"))
    result = map_location(storage, "cpu")
    if result is not None and not isinstance(result, _Storage):
        raise TypeError(f"load: map_location must return the storage or None, got a {type(result).__name__}")
    return storage.device if result is None else result.device


def _moved(value, device):
    """The value with its tensors on the device; modules are moved themselves."""
    if device.type == "cpu":
        return value
    from .nn import Module
    from .utils._pytree import tree_map_only
    return tree_map_only((Tensor, Module), lambda x: x.to(device), value)


def _replaced(value, tensors):
    """The value with other tensors in place of those with these ids."""
    if isinstance(value, Tensor):
        return tensors.get(id(value), value)
    if isinstance(value, dict):
        return {key: _replaced(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, tensors) for item in value]
    return value


# What load may make besides what the program declared safe: tensors, parameters, containers.
_KNOWN_CLASSES = {("tensora._tensor", "_rebuild"), ("tensora._tensor", "_rebuild_view"),
                  ("tensora._tensor", "_restored"), ("tensora._C", "Tensor"), ("tensora", "Tensor"),
                  ("tensora.nn.parameter", "Parameter"), ("tensora.nn.parameter", "Buffer"),
                  ("tensora._C", "_dtype"), ("tensora.sparse", "_made"), ("tensora._C", "Size"), ("tensora._C", "device"),
                  ("collections", "OrderedDict"), ("builtins", "set")}


def _unpickled(file, weights_only):
    import pickle
    if not weights_only:
        return pickle.load(file)
    import mmap
    from . import _careful_pickles
    start, content = file.tell(), mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    content.seek(start)  # a mapping reads what is there, whatever a length says
    _careful_pickles.check(content, len(content))
    content.seek(start)

    class Restricted(pickle.Unpickler):
        def find_class(self, module, name):
            if (module, name) == ("builtins", "bytearray"):
                return _careful_pickles.byte_array
            if (module, name) in _KNOWN_CLASSES:
                return super().find_class(module, name)
            if (module, name) == ("tensora._C", "_function"):
                return function
            safe = allowed(module, name)
            if safe is not None:
                return safe
            raise pickle.UnpicklingError(
                f"load: this file holds an object of '{module}.{name}', and making it can run code; pass "
                "weights_only=False if you trust the file, name the class in "
                "tensora.serialization.add_safe_globals, or save the state_dict()")

    def function(*place):
        found = _C._function(*place)
        if found in _safe:
            return found
        raise pickle.UnpicklingError(f"load: this file names the function {place[1]!r}; add it to add_safe_globals")
    with content:
        return Restricted(content).load()


def allowed(module, name):
    """The class or function of that name that the program declared safe; None if it did not. Files of PyTorch have names of
    torch."""
    wanted = f"{module}.{name}"
    if wanted.startswith("torch."):
        wanted = wanted.replace("torch", "tensora", 1)
    for safe in _safe:
        kept, place = safe if isinstance(safe, tuple) else (
            safe, f"{getattr(safe, '__module__', None)}.{getattr(safe, '__qualname__', None)}")
        if (place.replace("torch", "tensora", 1) if place.startswith("torch.") else place) == wanted:
            return kept
    return None


def get_unsafe_globals_in_checkpoint(f):
    """The names in a file of PyTorch's format that `load` refuses unless they are among the safe globals."""
    from . import _torch_pickles
    if not hasattr(f, "read"):
        return _torch_pickles.refused_names(os.fspath(f))
    import tempfile
    with tempfile.NamedTemporaryFile(suffix=".pt") as copy:
        copy.write(f.read())
        copy.flush()
        return _torch_pickles.refused_names(copy.name)


def add_safe_globals(classes):
    """Classes and functions of which `load` may make objects; a pair of one and a text gives it another full name."""
    _safe.extend(classes)


def get_safe_globals():
    """Those that were added."""
    return list(_safe)


def clear_safe_globals():
    """Forgets them."""
    _safe.clear()


class safe_globals:
    """Within the scope, `load` may make objects of these classes."""

    def __init__(self, classes):
        self._classes = list(classes)

    def __enter__(self):
        self._before = list(_safe)
        _safe.extend(self._classes)

    def __exit__(self, *error):
        _safe[:] = self._before


def load_safetensors(path):
    """The tensors of a safetensors file by name; they are views of the mapped file."""
    return _C._load_safetensors(os.fspath(path))


def save_safetensors(tensors, path, metadata=None):
    """Writes tensors by name into a safetensors file."""
    _C._save_safetensors(dict(tensors), os.fspath(path), list((metadata or {}).items()))
