"""Versions, under PyTorch's names."""
from ._C import __version__ as __version__  # the version of the CMake project

cuda = None
hip = None
git_version = ""
