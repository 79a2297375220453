"""The `tensora` command: the program that came with the package."""
import os
import sys


def main():
    """Runs it with the same arguments."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tensora")
    if not os.path.exists(program):
        sys.exit("tensora: this installation has no command line; build it with ./dev build tensora-cli")
    os.execv(program, [program] + sys.argv[1:])
