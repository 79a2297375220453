"""Groups of processes. A process that nobody started as one of several is a world of one, in which every collective is
the identity; training on several processes is part of the C++ interface (docs/distributed.md)."""
import datetime as _datetime
import os as _os

default_pg_timeout = _datetime.timedelta(minutes=30)
_backend = None  # of the default group, once there is one


class ReduceOp:
    """How values of several processes become one."""
    SUM, PRODUCT, MIN, MAX, AVG, BAND, BOR, BXOR, PREMUL_SUM = (
        "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "premul_sum")


ReduceOp.RedOpType = str
reduce_op = ReduceOp


class Backend(str):
    UNDEFINED, GLOO, NCCL, MPI, UCC = "undefined", "gloo", "nccl", "mpi", "ucc"


class ProcessGroup:
    """The group of this process alone."""

    def rank(self):
        return 0

    def size(self):
        return 1

    def name(self):
        return _backend or "gloo"


class Work:
    """A call that was over when it returned."""

    def wait(self, timeout=None):
        del timeout
        return True

    def is_completed(self):
        return True

    is_success = is_completed

    def get_future(self):
        raise NotImplementedError("distributed.Work.get_future: call wait()")


class group:
    WORLD = None


class GroupMember:
    WORLD, NON_GROUP_MEMBER = None, -100


def is_available():
    """Whether this module can be used."""
    return True


def is_initialized():
    """Whether init_process_group was called."""
    return _backend is not None


def is_mpi_available():
    return False


is_nccl_available = is_ucc_available = is_xccl_available = is_mpi_available


def is_gloo_available():
    """Whether a group of processes on the CPU exists: that of one process does."""
    return True


def is_backend_available(backend):
    return str(backend).lower() in ("gloo", "cpu:gloo")


def is_torchelastic_launched():
    return "TORCHELASTIC_RUN_ID" in _os.environ


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None):
    """Makes the default group, of this process alone. A world of more processes is refused."""
    global _backend
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    given = world_size if world_size > 0 else int(_os.environ.get("WORLD_SIZE", 1))
    if given != 1:
        raise NotImplementedError(f"distributed.init_process_group: training on several processes (here {given}) is not "
                                  "part of the Python interface; use tensora::data_parallel in C++")
    from . import _C
    if "nccl" in str(backend) and not _C._is_available("cuda"):
        raise ValueError("distributed.init_process_group: ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    if rank > 0:
        raise ValueError(f"distributed.init_process_group: rank must be 0 in a world of one process, got {rank}")
    del init_method, timeout, store, group_name, pg_options, device_id  # how processes would find one another
    _backend = str(backend or "gloo").lower()
    group.WORLD = GroupMember.WORLD = ProcessGroup()


def destroy_process_group(group=None):
    """Forgets the default group."""
    global _backend
    _check("destroy_process_group")
    if group is None or group is GroupMember.WORLD:
        _backend = None
        globals()["group"].WORLD = GroupMember.WORLD = None


def _check(name):
    if _backend is None:
        raise ValueError(f"distributed.{name}: Default process group has not been initialized, please make sure to call "
                         "init_process_group.")


def get_rank(group=None):
    """0, in any group."""
    del group
    _check("get_rank")
    return 0


def get_world_size(group=None):
    del group
    _check("get_world_size")
    return 1


def get_backend(group=None):
    del group
    _check("get_backend")
    return _backend


def new_group(ranks=None, **options):
    """A group of these ranks: of 0."""
    _check("new_group")
    if ranks is not None and list(ranks) != [0]:
        raise ValueError(f"distributed.new_group: this world has rank 0 alone, got ranks {list(ranks)}")
    del options
    return ProcessGroup()


def get_process_group_ranks(group=None):
    del group
    return [0]


def get_global_rank(group, group_rank):
    return group_rank


get_group_rank = get_global_rank


def _get_default_group():
    _check("_get_default_group")
    return group.WORLD


def _check_rank(name, rank):
    _check(name)
    if rank not in (None, 0):
        raise ValueError(f"distributed.{name}: this world has rank 0 alone, got {rank}")


def _done(async_op):
    return Work() if async_op else None


def barrier(group=None, async_op=False, device_ids=None):
    del group, device_ids
    _check("barrier")
    return _done(async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    del group, timeout, wait_all_ranks
    _check("monitored_barrier")


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """The sum over one process: the tensor as it is."""
    del tensor, op, group
    _check("all_reduce")
    return _done(async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    del tensor, op, group
    _check_rank("reduce", dst or group_dst)
    return _done(async_op)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    del tensor, group
    _check_rank("broadcast", src or group_src)
    return _done(async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    del group
    _check("all_gather")
    tensor_list[0].copy_(tensor)
    return _done(async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    _check_rank("gather", dst or group_dst)
    return all_gather(gather_list, tensor, group, async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    del group
    _check_rank("scatter", src or group_src)
    tensor.copy_(scatter_list[0])
    return _done(async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """The tensors of all processes in one: of one."""
    del group
    _check("all_gather_into_tensor")
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return _done(async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    del op
    return all_gather_into_tensor(output, input, group, async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    del op
    return scatter(output, input_list, 0, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    del output_split_sizes, input_split_sizes
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_gather_object(object_list, obj, group=None):
    del group
    _check("all_gather_object")
    object_list[0] = obj


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    _check_rank("gather_object", dst or group_dst)
    all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    del object_list, group, device
    _check_rank("broadcast_object_list", src or group_src)


def _alone(name):
    def refuse(*args, **kwargs):
        _check(name)
        raise ValueError(f"distributed.{name}: this world has one process, which cannot send to itself")
    refuse.__name__ = refuse.__qualname__ = name
    return refuse


send, recv, isend, irecv, batch_isend_irecv = map(_alone, ("send", "recv", "isend", "irecv", "batch_isend_irecv"))
