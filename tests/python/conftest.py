import os
import sys

import pytest

# ctest and ./dev name the built package by TENSORA_PYTHON, for tests and the processes that they start; an
# installed one needs nothing.
if built := os.environ.get("TENSORA_PYTHON"):
    sys.path.insert(0, built)
    os.environ["PYTHONPATH"] = os.pathsep.join([built, *filter(None, [os.environ.get("PYTHONPATH")])])


def pytest_addoption(parser):
    parser.addoption("--leak-calls", type=int, default=100_000,
                     help="how many calls the tests of test_leaks.py make, all together")


@pytest.fixture(autouse=True)
def seeded():
    import tensora
    tensora.manual_seed(0)
