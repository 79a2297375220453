"""Objects of switches, as PyTorch's config modules are."""
import contextlib


class Settings:
    """Keeps values by name; a name that PyTorch's module does not have is an AttributeError."""

    def __init__(self, name, **defaults):
        self.__dict__.update(defaults, _name=name, _defaults=defaults)

    def __getattr__(self, name):
        raise AttributeError(f"module '{self.__dict__['_name']}' has no attribute '{name}'")

    @contextlib.contextmanager
    def patch(self, arg=None, /, **changes):
        """Other values within the scope."""
        changes = {**(arg or {}), **changes}
        before = {key: self.__dict__.get(key) for key in changes}
        self.__dict__.update(changes)
        try:
            yield self
        finally:
            self.__dict__.update(before)
