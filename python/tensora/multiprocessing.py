"""Python's own, with tensors that processes share: `x.share_memory_()`, `module.share_memory()`."""
import multiprocessing as _python
from multiprocessing import *  # noqa: F401,F403

from . import _shared

_shared.register()


def get_all_sharing_strategies():
    """PyTorch's ways to share memory. Descriptors of files without a name are sent, whichever is chosen."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    """The way in use."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy):
    """Accepted, and checked: it must be one of `get_all_sharing_strategies()`."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"multiprocessing: unknown sharing strategy {new_strategy!r}")


def _run(function, index, args):
    function(index, *args)


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Starts `nprocs` processes of fn(i, *args); an error in one of them is raised here."""
    context = _python.get_context(start_method)
    processes = [context.Process(target=_run, args=(fn, i, args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for i, process in enumerate(processes):
        process.join()
        if process.exitcode:
            raise RuntimeError(f"process {i} terminated with exit code {process.exitcode}")
    return None
