"""torch.__config__: how the library was built."""
from .. import _C


def show():
    """A description of the build."""
    from .. import version
    from ..version import __version__
    features = [name for name in ("cuda",) if _C._is_available(name)]
    return f"Tensora {__version__} (CUDA {version.cuda}; devices: {', '.join(['cpu', *features])})"


def parallel_info():
    """The number of threads that ops use."""
    return f"at::get_num_threads() : {_C.get_num_threads()}"
