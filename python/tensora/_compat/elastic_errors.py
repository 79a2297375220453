"""torch.distributed.elastic.multiprocessing.errors: what programs decorate their main function with."""


class ChildFailedError(Exception):
    """A rank failed."""


def record(fn=None, error_handler=None):
    """The function as it is: a rank's exception is printed by Python, and the launcher names the rank."""
    del error_handler
    return fn if fn is not None else record
