"""Python imports this file when it starts, in processes that a program under tensora.compat starts."""
import os
import sys


def _run():
    here = os.path.dirname(os.path.abspath(__file__))
    import tensora.compat
    tensora.compat.install()
    # The sitecustomize that Python would have found without this one.
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != here])
    if spec is not None and spec.loader is not None:
        import importlib.util
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_run()
