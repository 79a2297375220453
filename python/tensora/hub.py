"""Files from the network, and models from repositories."""
import os
import re

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder = None


def get_dir():
    """Where downloads are kept: set_dir, or $TORCH_HOME/hub, or torch/hub in the user's cache."""
    if _folder is not None:
        return _folder
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    return os.path.join(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")), "hub")


_get_torch_home = lambda: os.path.dirname(get_dir())  # noqa: E731


def set_dir(d):
    """Keeps downloads in this folder."""
    global _folder
    _folder = os.path.expanduser(d)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads a file; its SHA-256 must begin with `hash_prefix`."""
    import hashlib
    import shutil
    import sys
    import tempfile
    import urllib.request
    digest = hashlib.sha256()
    request = urllib.request.Request(url, headers={"User-Agent": "tensora.hub"})
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(os.path.abspath(dst)), delete=False) as written:
        try:
            with urllib.request.urlopen(request) as answer:
                if progress:
                    print(f"Downloading {url} to {dst}", file=sys.stderr)
                for piece in iter(lambda: answer.read(1 << 16), b""):
                    digest.update(piece)
                    written.write(piece)
            if hash_prefix is not None and digest.hexdigest()[:len(hash_prefix)] != hash_prefix:
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
            written.close()
            shutil.move(written.name, dst)
        finally:
            if os.path.exists(written.name):
                os.remove(written.name)


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
                             weights_only=True):
    """Downloads a file once and loads it."""
    from urllib.parse import urlparse
    from .serialization import load as load_file
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return load_file(path, map_location, weights_only=weights_only)


load_url = load_state_dict_from_url


def __getattr__(name):
    if name == "tqdm":  # programs take the progress bar from here
        from tqdm.auto import tqdm
        return tqdm
    if name == "urlparse":
        from urllib.parse import urlparse
        return urlparse
    raise AttributeError(f"module 'tensora.hub' has no attribute '{name}'")


def _entries(folder):
    import importlib.util
    import sys
    path = os.path.join(folder, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(2, "No such file or directory", path)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _local(repo_or_dir, source):
    if source != "local":
        raise NotImplementedError("hub: repositories are not downloaded, because their code would run; clone the repository "
                                  "and call hub.load(folder, model, source='local')")
    return os.path.expanduser(repo_or_dir)


def list(repo_or_dir, *, source="github"):  # noqa: A001 - PyTorch's name
    """The models that a folder's hubconf.py has."""
    module = _entries(_local(repo_or_dir, source))
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(repo_or_dir, model, *, source="github"):  # noqa: A001 - PyTorch's name
    """The documentation of a model."""
    return getattr(_entries(_local(repo_or_dir, source)), model).__doc__


def load(repo_or_dir, model, *args, source="github", **kwargs):
    """Makes a model of a folder's hubconf.py: load(folder, name, source='local')."""
    entry = getattr(_entries(_local(repo_or_dir, source)), model, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return entry(*args, **kwargs)
