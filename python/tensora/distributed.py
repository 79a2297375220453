"""One process: programs that ask whether there are more get an answer, and those that want more a sentence."""


def is_available():
    """Whether several processes can train together: not in this version."""
    return False


def is_initialized():
    """Whether a group of processes exists."""
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_initialized


def init_process_group(*args, **kwargs):
    raise NotImplementedError("distributed.init_process_group: training on several processes is not part of this version")


def _without_group(name):
    def ask(*args, **kwargs):
        raise ValueError(f"distributed.{name}: Default process group has not been initialized, and training on "
                         "several processes is not part of this version")
    ask.__name__ = ask.__qualname__ = name
    return ask


for _name in ("get_rank", "get_world_size", "get_backend", "destroy_process_group", "barrier", "all_reduce", "reduce",
              "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "send", "recv", "new_group"):
    globals()[_name] = _without_group(_name)


class ReduceOp:
    SUM, PRODUCT, MIN, MAX, AVG = "sum", "prod", "min", "max", "avg"
