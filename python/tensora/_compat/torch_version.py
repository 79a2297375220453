"""The version of PyTorch whose interface is followed; libraries decide by it what to import."""


class TorchVersion(str):
    """A version that compares as versions do: "2.10" is greater than "2.9"."""

    def _parts(self):
        import re
        return tuple(int(part) for part in re.findall(r"\d+", str(self).split("+")[0])[:3])

    def _compare(self, other):
        if isinstance(other, str):
            other = TorchVersion(other)._parts()
        mine, other = self._parts(), tuple(int(part) for part in other)
        length = max(len(mine), len(other))
        mine, other = mine + (0,) * (length - len(mine)), other + (0,) * (length - len(other))
        return (mine > other) - (mine < other)

    __lt__ = lambda self, other: self._compare(other) < 0  # noqa: E731
    __le__ = lambda self, other: self._compare(other) <= 0  # noqa: E731
    __gt__ = lambda self, other: self._compare(other) > 0  # noqa: E731
    __ge__ = lambda self, other: self._compare(other) >= 0  # noqa: E731
    __eq__ = lambda self, other: self._compare(other) == 0  # noqa: E731
    __ne__ = lambda self, other: self._compare(other) != 0  # noqa: E731
    __hash__ = str.__hash__


FOLLOWED = TorchVersion("2.8.0+tensora")
__version__ = FOLLOWED
