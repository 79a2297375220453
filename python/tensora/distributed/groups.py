"""The world, groups of its ranks, and who is who in them."""
import datetime as _datetime
import os as _os

from .. import _C

default_pg_timeout = _datetime.timedelta(minutes=30)
_world = None  # the default group, once there is one
_made = 0  # groups so far, which all ranks make in one order: their names


class ReduceOp:
    """How values of several processes become one."""
    SUM, PRODUCT, MIN, MAX, AVG, BAND, BOR, BXOR, PREMUL_SUM = (
        "SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR", "PREMUL_SUM")


ReduceOp.RedOpType = str
reduce_op = ReduceOp


class Backend(str):
    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = ["undefined", "gloo", "nccl", "mpi"]
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl"}


class ProcessGroup:
    """Ranks that exchange data."""

    def __init__(self, inner, backend, description=""):
        self._inner, self._backend, self.group_desc = inner, backend, description
        self._ranks = list(inner.global_ranks())

    def rank(self):
        """This process's number in the group."""
        return self._inner.rank()

    def size(self):
        return self._inner.size()

    def name(self):
        return self._backend

    @property
    def group_name(self):
        return self._inner.name()

    def __repr__(self):
        return f"<ProcessGroup {self.group_name}: rank {self.rank()} of {self.size()}, {self._backend}>"


class Work:
    """A call that was begun. `after` runs once it is over: it copies to where the caller wants the result."""

    def __init__(self, works, after=None):
        self._works, self._after = works, after

    def wait(self, timeout=None):
        """Waits until the result can be used. False if that takes longer than `timeout` (a timedelta)."""
        for work in self._works:
            if timeout is not None and not work.wait_for(timeout.total_seconds()):
                return False
            work.wait()
        after, self._works, self._after = self._after, [], None
        if after is not None:
            after()
        return True

    def is_completed(self):
        """Whether the call is over and its result in place."""
        return all(work.done() for work in self._works) and self.wait()

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
    return _world is not None


def _library(name):
    folder = _os.path.join(_os.path.dirname(_os.path.abspath(_C.__file__)), "lib")
    return _os.path.exists(_os.path.join(folder, name))


def is_mpi_available():
    """Whether this build has the transport of MPI."""
    return _library("libtensora_mpi.so")


def is_nccl_available():
    """Whether this build has the transport of NCCL, and a GPU is there."""
    return _library("libtensora_nccl.so") and _C._is_available("cuda")


def is_gloo_available():
    """Whether processes on the CPU can form a group: they can; "gloo" means shared memory, or MPI under mpirun."""
    return True


def is_ucc_available():
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend):
    """Whether groups of this backend can be made."""
    known = {"gloo": is_gloo_available, "mpi": is_mpi_available, "nccl": is_nccl_available}
    return all(known.get(part.rpartition(":")[2], is_ucc_available)() for part in str(backend).lower().split(","))


def is_torchelastic_launched():
    """Whether a launcher started this process."""
    return "TORCHELASTIC_RUN_ID" in _os.environ


def get_node_local_rank(fallback_rank=None):
    """This process's number among those of its host: LOCAL_RANK."""
    if "LOCAL_RANK" in _os.environ:
        return int(_os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("distributed.get_node_local_rank: LOCAL_RANK is not in the environment; give fallback_rank")
    return int(fallback_rank)


def get_default_backend_for_device(device):
    """The backend of tensors on this device."""
    return "nccl" if _C.device(device).type == "cuda" else "gloo"


def _transport(backend):
    """The C++ interface's name of a backend."""
    parts = {part.rpartition(":")[2] for part in backend.split(",")}
    unknown = parts - {"gloo", "mpi", "nccl"}
    if unknown:
        raise ValueError(f"distributed.init_process_group: expected the backend gloo, mpi or nccl, got '{backend}'")
    if "nccl" in parts and not _C._is_available("cuda"):
        raise ValueError("distributed.init_process_group: ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    return "nccl" if "nccl" in parts else "mpi" if "mpi" in parts else "auto"


def _met_by_file(path, rank, limit):
    """The address at which rank 0 listens: rank 0 writes it into the file, the others wait for it."""
    import socket
    import time
    if rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        with open(f"{path}.part", "w") as file:
            file.write(address)
        _os.replace(f"{path}.part", path)
        return address
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if _os.path.exists(path) and _os.path.getsize(path):
            with open(path) as file:
                return file.read()
        time.sleep(0.01)
    raise RuntimeError(f"distributed.init_process_group: rank 0 wrote nothing into {path} within {limit:g} s")


def _meeting_point(init_method, rank, world_size, limit):
    """(address of rank 0, rank, world size); an empty address: what the environment says."""
    import urllib.parse
    if init_method in (None, "env://"):
        return "", rank, world_size
    place = urllib.parse.urlparse(init_method)
    query = {key: values[0] for key, values in urllib.parse.parse_qs(place.query).items()}
    rank = int(query.get("rank", rank))
    world_size = int(query.get("world_size", world_size))
    if rank < 0 or world_size <= 0:
        raise ValueError(f"distributed.init_process_group: init_method '{init_method}' needs rank and world_size, got "
                         f"{rank} and {world_size}")
    if place.scheme == "tcp":
        host = "127.0.0.1" if place.hostname == "localhost" else place.hostname
        return f"{host}:{place.port}", rank, world_size
    if place.scheme == "file":
        return (_met_by_file(place.path, rank, limit) if world_size > 1 else ""), rank, world_size
    raise ValueError(f"distributed.init_process_group: expected an init_method env://, tcp:// or file://, got '{init_method}'")


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None):
    """Makes the world: this process and the others of its job. The ranks and the address of rank 0 come from the
    arguments, or from what a launcher put into the environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)."""
    global _world
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    for name, given in (("store", store), ("pg_options", pg_options)):
        if given is not None:
            raise NotImplementedError(f"distributed.init_process_group: {name} is not supported; give init_method, rank and "
                                      "world_size")
    backend = str(backend or ("cpu:gloo,cuda:nccl" if _C._is_available("cuda") else "gloo")).lower()
    transport, limit = _transport(backend), (timeout or default_pg_timeout).total_seconds()
    master, rank, world_size = _meeting_point(init_method, rank, world_size, limit)
    if world_size < 0:
        world_size = int(_os.environ.get("WORLD_SIZE", -1))
    if rank < 0:
        rank = int(_os.environ.get("RANK", -1))
    if world_size > 0 and not 0 <= rank < world_size:
        raise ValueError(f"distributed.init_process_group: rank must be in [0, {world_size}), got {rank}")
    from .. import _distributed
    if world_size > 0:  # a launcher may have set one of the two; the arguments are the place of this process
        _os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    inner = _distributed.init(transport, None if rank < 0 else rank, None if world_size < 0 else world_size, master, limit)
    device = None if device_id is None else _C.device("cuda", device_id) if isinstance(device_id, int) else _C.device(device_id)
    if device is not None and device.type == "cuda" and device.index not in (None, _distributed.local_rank()):
        _distributed.shutdown()
        raise NotImplementedError(f"distributed.init_process_group: a rank uses the GPU of its local rank "
                                  f"{_distributed.local_rank()}, got device_id {device_id}")
    _world = ProcessGroup(inner, backend, group_name)
    group.WORLD = GroupMember.WORLD = _world


def destroy_process_group(group=None):
    """Leaves the job; with a group, forgets that one alone."""
    global _world
    _check("destroy_process_group")
    if group is not None and group is not _world:
        group._inner = None
        return
    from .. import _distributed
    _world = None
    globals()["group"].WORLD = GroupMember.WORLD = None
    _distributed.shutdown()


def _check(name):
    if _world is None:
        raise ValueError(f"distributed.{name}: Default process group has not been initialized, please make sure to call "
                         "init_process_group.")


def _get_default_group():
    _check("_get_default_group")
    return _world


def _group(name, group):
    """The group of a call: the world if None. None for a process that is no member, as in PyTorch."""
    _check(name)
    if group is None:
        return _world
    if group == GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup) or group._inner is None:
        raise ValueError(f"distributed.{name}: expected a group of this job, got {group!r}")
    return group


def get_rank(group=None):
    """This process's rank in a group; -1 if it is no member."""
    found = _group("get_rank", group)
    return found.rank() if found else -1


def get_world_size(group=None):
    found = _group("get_world_size", group)
    return found.size() if found else -1


def get_backend(group=None):
    found = _group("get_backend", group)
    if found is None:
        raise ValueError("distributed.get_backend: this process is no member of the group")
    return found._backend


def get_backend_config(group=None):
    return get_backend(group)


def get_process_group_ranks(group=None):
    """The world's numbers of a group's ranks."""
    return list(_group("get_process_group_ranks", group)._ranks)


def get_global_rank(group, group_rank):
    """The world's number of a rank of a group."""
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"distributed.get_global_rank: the group has {len(ranks)} ranks, got {group_rank}")
    return ranks[group_rank]


def get_group_rank(group, global_rank):
    """A group's number of a rank of the world."""
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"distributed.get_group_rank: rank {global_rank} is not in the group of ranks {ranks}")
    return ranks.index(global_rank)


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
              device_id=None):
    """A group of these ranks of the world (all by default), which every rank of the world must call."""
    global _made
    _check("new_group")
    if timeout is not None or pg_options is not None or use_local_synchronization:
        raise NotImplementedError("distributed.new_group: a group has the world's timeout and options, and all ranks make it")
    if backend is not None and _transport(str(backend).lower()) != _transport(_world._backend):
        raise NotImplementedError(f"distributed.new_group: a group has the world's backend {_world._backend}, got {backend}")
    del device_id  # a rank has the device that it uses
    members = list(range(_world.size())) if ranks is None else sorted(ranks)
    wrong = [rank for rank in members if not 0 <= rank < _world.size()]
    if wrong or len(set(members)) != len(members):
        raise ValueError(f"distributed.new_group: expected different ranks in [0, {_world.size()}), got {members}")
    _made += 1
    inside = _world.rank() in members
    name = f"group{_made}"
    inner = _world._inner.split(0 if inside else -1, _world.rank(), name)
    return ProcessGroup(inner, _world._backend, group_desc or name) if inside else GroupMember.NON_GROUP_MEMBER


def new_subgroups(group_size=None, group=None, **options):
    """Groups of `group_size` neighbouring ranks: (this rank's, all of them)."""
    _check("new_subgroups")
    if group is not None:
        raise NotImplementedError("distributed.new_subgroups: the world is divided, not a group")
    size = group_size or int(_os.environ.get("LOCAL_WORLD_SIZE", 1))
    if size <= 0 or _world.size() % size:
        raise ValueError(f"distributed.new_subgroups: the world's size {_world.size()} must be divisible by group_size {size}")
    made = [new_group(range(begin, begin + size), **options) for begin in range(0, _world.size(), size)]
    return made[_world.rank() // size], made
