"""Groups of processes: torch.distributed's functions over the groups of the C++ interface (docs/distributed.md)."""
from .collectives import (P2POp, all_gather, all_gather_into_tensor, all_gather_object, all_reduce,  # noqa: F401
                          all_to_all, all_to_all_single, barrier, batch_isend_irecv, broadcast, broadcast_object_list,
                          gather, gather_object, irecv, isend, monitored_barrier, recv, recv_object_list, reduce,
                          reduce_scatter, reduce_scatter_tensor, scatter, scatter_object_list, send, send_object_list)
from .groups import (Backend, GroupMember, ProcessGroup, ReduceOp, Work, default_pg_timeout,  # noqa: F401
                     destroy_process_group, get_backend, get_backend_config, get_default_backend_for_device,
                     get_global_rank, get_group_rank, get_node_local_rank, get_process_group_ranks, get_rank,
                     get_world_size, group, init_process_group, is_available, is_backend_available, is_gloo_available,
                     is_initialized, is_mpi_available, is_nccl_available, is_torchelastic_launched, is_ucc_available,
                     is_xccl_available, new_group, new_subgroups, reduce_op, _check, _get_default_group)

_all_gather_base, _reduce_scatter_base = all_gather_into_tensor, reduce_scatter_tensor


def __getattr__(name):
    if name in ("TCPStore", "FileStore", "HashStore", "PrefixStore", "Store", "rendezvous"):
        from .._compat import refused
        return refused(f"torch.distributed.{name}", "ranks meet at the address that init_process_group is given")
    if name == "device_mesh":
        import importlib
        return importlib.import_module("torch.distributed.device_mesh")
    raise AttributeError(f"module 'tensora.distributed' has no attribute '{name}'")
