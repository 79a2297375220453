"""What the ranks of a group do together. All ranks make the same calls in the same order; ranks that disagree get an
error that names the calls."""
import pickle

from .. import _C
from .groups import ReduceOp, Work, _group, get_group_rank


def _operation(name, op):
    from .. import _distributed
    found = getattr(_distributed.ReduceOp, str(op), None)
    if found is None:
        raise NotImplementedError(f"distributed.{name}: the reduction {op} does not exist here; there are SUM, AVG, PRODUCT, "
                                  "MIN and MAX")
    return found


def _memory(name, tensor):
    """(a contiguous tensor outside of any graph, whether it is the tensor's own memory)"""
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"distributed.{name}: expected a tensor, got {type(tensor).__name__}")
    plain = tensor.detach()
    if plain.is_complex():
        plain = _C.view_as_real(plain)
    return (plain, True) if plain.is_contiguous() else (plain.contiguous(), False)


def _write(tensor, memory):
    """Copies a result to where it belongs."""
    plain = tensor.detach()
    if plain.is_complex():
        plain = _C.view_as_real(plain)
    plain.copy_(memory.view(plain.shape))


def _begun(works, after, async_op):
    work = Work(works, after)
    if async_op:
        return work
    work.wait()
    return None


def _root(name, group, global_rank, group_rank, argument):
    """The rank in the group that `src` or `dst` names."""
    if (global_rank is None) == (group_rank is None):
        if global_rank is not None:
            raise ValueError(f"distributed.{name}: give {argument} or group_{argument}, not both")
        return 0
    if group_rank is None:
        return get_group_rank(group, global_rank)
    if not 0 <= group_rank < group.size():
        raise ValueError(f"distributed.{name}: the group has {group.size()} ranks, got group_{argument} {group_rank}")
    return group_rank


def _in_place(name, tensor, group, async_op, call):
    """A call that overwrites its tensor."""
    found = _group(name, group)
    if found is None:
        return None
    memory, own = _memory(name, tensor)
    work = call(found, memory)
    return _begun([work], None if own else lambda: _write(tensor, memory), async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines the tensors of all ranks, in place. Sums are formed in the order of ranks."""
    wanted = _operation("all_reduce", op)
    return _in_place("all_reduce", tensor, group, async_op, lambda g, m: g._inner.all_reduce(m, wanted, async_op))


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Rank `dst` gets the combination; the tensors of the others are left undefined."""
    wanted = _operation("reduce", op)
    return _in_place("reduce", tensor, group, async_op, lambda g, m: g._inner.reduce(
        m, _root("reduce", g, dst, group_dst, "dst"), wanted, async_op))


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """All ranks get the tensor of rank `src`."""
    return _in_place("broadcast", tensor, group, async_op, lambda g, m: g._inner.broadcast(
        m, _root("broadcast", g, src, group_src, "src"), async_op))


def _gathered(group, memory, async_op):
    """(a work, a tensor that has the memory of rank r in row r)"""
    rows = memory.new_empty((group.size(), *memory.shape))
    return group._inner.all_gather(rows, memory, async_op), rows


def _check_list(name, tensors, group, like):
    if len(tensors) != group.size():
        raise ValueError(f"distributed.{name}: expected a list of {group.size()} tensors, one per rank, got {len(tensors)}")
    for tensor in tensors:
        if tensor.numel() != like.numel() or tensor.dtype != like.dtype:
            raise ValueError(f"distributed.{name}: expected tensors of {like.numel()} elements of {like.dtype}, got "
                             f"{tuple(tensor.shape)} of {tensor.dtype}")


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """`tensor_list` gets the tensors of all ranks, which have the same shape."""
    found = _group("all_gather", group)
    if found is None:
        return None
    _check_list("all_gather", tensor_list, found, tensor)
    work, rows = _gathered(found, _memory("all_gather", tensor)[0], async_op)

    def hand_out():
        for place, row in zip(tensor_list, rows):
            _write(place, row)
    return _begun([work], hand_out, async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """`output_tensor` gets the tensors of all ranks, one after the other."""
    found = _group("all_gather_into_tensor", group)
    if found is None:
        return None
    memory, own = _memory("all_gather_into_tensor", output_tensor)
    work = found._inner.all_gather(memory, _memory("all_gather_into_tensor", input_tensor)[0], async_op)
    return _begun([work], None if own else lambda: _write(output_tensor, memory), async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """`input` has a part for each rank; this rank gets the combination of all parts for it."""
    found = _group("reduce_scatter_tensor", group)
    if found is None:
        return None
    memory, own = _memory("reduce_scatter_tensor", output)
    work = found._inner.reduce_scatter(memory, _memory("reduce_scatter_tensor", input)[0],
                                       _operation("reduce_scatter_tensor", op), async_op)
    return _begun([work], None if own else lambda: _write(output, memory), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """The same with a list of parts."""
    found = _group("reduce_scatter", group)
    if found is None:
        return None
    _check_list("reduce_scatter", input_list, found, output)
    return reduce_scatter_tensor(output, _C.stack([part.detach() for part in input_list]), op, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Part r of `input` goes to rank r; part r of `output` comes from rank r. Sizes are rows of dim 0; equal by default."""
    found = _group("all_to_all_single", group)
    if found is None:
        return None

    def counts(tensor, sizes, argument):
        rows = tensor.shape[0] if tensor.dim() else 0
        if not sizes:
            if rows % found.size():
                raise ValueError(f"distributed.all_to_all_single: {rows} rows cannot be divided by {found.size()} ranks; give "
                                 f"{argument}")
            sizes = [rows // found.size()] * found.size()
        if len(sizes) != found.size() or sum(sizes) != rows:
            raise ValueError(f"distributed.all_to_all_single: {argument} must be {found.size()} numbers with the sum {rows}, "
                             f"got {list(sizes)}")
        per_row = tensor.numel() // max(rows, 1) * (2 if tensor.is_complex() else 1)
        return [size * per_row for size in sizes]
    memory, own = _memory("all_to_all_single", output)
    work = found._inner.all_to_all(memory, counts(output, output_split_sizes, "output_split_sizes"),
                                   _memory("all_to_all_single", input)[0],
                                   counts(input, input_split_sizes, "input_split_sizes"), async_op)
    return _begun([work], None if own else lambda: _write(output, memory), async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Tensor r of the inputs goes to rank r; tensor r of the outputs comes from rank r."""
    found = _group("all_to_all", group)
    if found is None:
        return None
    sent = [_memory("all_to_all", tensor)[0].reshape(-1) for tensor in input_tensor_list]
    places = [_memory("all_to_all", tensor)[0] for tensor in output_tensor_list]
    if len(sent) != found.size() or len(places) != found.size():
        raise ValueError(f"distributed.all_to_all: expected {found.size()} inputs and outputs, got {len(sent)} and {len(places)}")
    sizes = [place.numel() for place in places]
    memory = sent[0].new_empty((sum(sizes),))
    work = found._inner.all_to_all(memory, sizes, _C.cat(sent), [part.numel() for part in sent], async_op)

    def hand_out():
        for place, part in zip(output_tensor_list, memory.split(sizes)):
            _write(place, part)
    return _begun([work], hand_out, async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Rank `dst` gets the tensors of all ranks in its `gather_list`; the others give none."""
    found = _group("gather", group)
    if found is None:
        return None
    root, memory = _root("gather", found, dst, group_dst, "dst"), _memory("gather", tensor)[0]
    if found.rank() != root:
        if gather_list:
            raise ValueError(f"distributed.gather: only rank {root}, dst, gives a gather_list; this is rank {found.rank()}")
        return _begun([found._inner.send(memory, root, True)], None, async_op)
    _check_list("gather", gather_list or [], found, tensor)
    rows = memory.new_empty((found.size(), *memory.shape))
    rows[root].copy_(memory)
    works = [found._inner.recv(rows[rank], rank, True) for rank in range(found.size()) if rank != root]

    def hand_out():
        for place, row in zip(gather_list, rows):
            _write(place, row)
    return _begun(works, hand_out, async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Each rank gets its tensor of the list of rank `src`; the others give none."""
    found = _group("scatter", group)
    if found is None:
        return None
    root = _root("scatter", found, src, group_src, "src")
    memory, own = _memory("scatter", tensor)
    if found.rank() != root:
        if scatter_list:
            raise ValueError(f"distributed.scatter: only rank {root}, src, gives a scatter_list; this is rank {found.rank()}")
        return _begun([found._inner.recv(memory, root, True)], None if own else lambda: _write(tensor, memory), async_op)
    _check_list("scatter", scatter_list or [], found, tensor)
    works = [found._inner.send(_memory("scatter", part)[0], rank, True)
             for rank, part in enumerate(scatter_list) if rank != root]
    _write(tensor, _memory("scatter", scatter_list[root])[0])
    return _begun(works, None, async_op)


def barrier(group=None, async_op=False, device_ids=None):
    """Returns when all ranks have called it."""
    del device_ids  # every rank has one
    found = _group("barrier", group)
    if found is None:
        return None
    if async_op:  # a call that moves one number is over when all ranks have come
        return all_reduce(_C.zeros(1, device=_device(found)), group=group, async_op=True)
    found._inner.barrier()
    return None


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """barrier: its error names the ranks that did not come within the group's timeout."""
    if timeout is not None:
        raise NotImplementedError("distributed.monitored_barrier: give the timeout to init_process_group")
    del wait_all_ranks  # the error names all of them in any case
    barrier(group)


def _other(name, group, rank, group_rank, argument):
    if rank is None and group_rank is None:
        raise ValueError(f"distributed.{name}: {argument} must be given")
    other = _root(name, group, rank, group_rank, argument)
    if other == group.rank():
        raise ValueError(f"distributed.{name}: rank {other} cannot be its own partner")
    return other


def _check_tag(name, tag):
    if tag:
        raise NotImplementedError(f"distributed.{name}: messages between two ranks arrive in their order, without tags; got "
                                  f"tag {tag}")


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Begins to send a tensor to rank `dst`."""
    found = _group("isend", group)
    _check_tag("isend", tag)
    if found is None:
        return None
    return Work([found._inner.send(_memory("isend", tensor)[0], _other("isend", found, dst, group_dst, "dst"), True)])


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Begins to receive a tensor of the same shape and dtype from rank `src`."""
    found = _group("irecv", group)
    _check_tag("irecv", tag)
    if found is None:
        return None
    memory, own = _memory("irecv", tensor)
    work = found._inner.recv(memory, _other("irecv", found, src, group_src, "src"), True)
    return Work([work], None if own else lambda: _write(tensor, memory))


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to rank `dst`; returns when its memory may be changed."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor from rank `src`, and returns that rank; -1 for a process that is no member."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return src if src is not None else _group("recv", group)._ranks[group_src]


class P2POp:
    """A send or recv of batch_isend_irecv."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError("distributed.P2POp: expected isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list):
    """Begins all of them, sends first, and returns their works."""
    works = {}
    for wanted in (isend, irecv):
        for i, item in enumerate(p2p_op_list):
            if item.op is wanted:
                works[i] = item.op(item.tensor, item.peer, item.group, item.tag, item.group_peer)
    return [works[i] for i in sorted(works) if works[i] is not None]


def _device(group):
    return "cuda" if group._inner.backend() == "nccl" else "cpu"


def _packed(obj, device):
    """An object's pickle as a uint8 tensor."""
    from .._functions import frombuffer
    return frombuffer(bytearray(pickle.dumps(obj)), dtype=_C.uint8).to(device)


def _unpacked(tensor):
    return pickle.loads(bytes(tensor.cpu().numpy()))


def _sizes(group, size):
    """The sizes that all ranks give."""
    own = _C.tensor([size], device=_device(group))
    work, rows = _gathered(group, own, False)
    work.wait()
    return rows.view(-1).tolist()


def all_gather_object(object_list, obj, group=None):
    """`object_list` gets the objects of all ranks, by pickle."""
    found = _group("all_gather_object", group)
    if found is None:
        return
    if len(object_list) != found.size():
        raise ValueError(f"distributed.all_gather_object: expected a list of {found.size()} places, got {len(object_list)}")
    packed = _packed(obj, _device(found))
    sizes = _sizes(found, packed.numel())
    padded = packed.new_zeros(max(sizes))
    padded[:packed.numel()] = packed
    work, rows = _gathered(found, padded, False)
    work.wait()
    for i, size in enumerate(sizes):
        object_list[i] = _unpacked(rows[i, :size])


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Rank `dst` gets the objects of all ranks in its list; the others give none."""
    found = _group("gather_object", group)
    if found is None:
        return
    root = _root("gather_object", found, dst, group_dst, "dst")
    if (found.rank() == root) != bool(object_gather_list):
        raise ValueError(f"distributed.gather_object: rank {root}, dst, gives a list, and no other does; this is rank "
                         f"{found.rank()}")
    every = [None] * found.size()
    all_gather_object(every, obj, group)
    if found.rank() == root:
        object_gather_list[:] = every


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """All ranks get the objects of rank `src` in their lists, which are equally long."""
    del device  # that of the group
    found = _group("broadcast_object_list", group)
    if found is None:
        return
    root = _root("broadcast_object_list", found, src, group_src, "src")
    mine = found.rank() == root
    packed = _packed(list(object_list), _device(found)) if mine else None
    size = _C.tensor([packed.numel() if mine else 0], device=_device(found))
    found._inner.broadcast(size, root, False).wait()
    if not mine:
        packed = _C.empty(int(size.item()), dtype=_C.uint8, device=_device(found))
    found._inner.broadcast(packed, root, False).wait()
    if mine:
        return
    objects = _unpacked(packed)
    if len(objects) != len(object_list):
        raise ValueError(f"distributed.broadcast_object_list: rank {root} sent {len(objects)} objects, the list has "
                         f"{len(object_list)} places")
    object_list[:] = objects


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """The first place of the output list gets this rank's object of the list of rank `src`."""
    found = _group("scatter_object_list", group)
    if found is None:
        return
    root = _root("scatter_object_list", found, src, group_src, "src")
    if found.rank() == root and len(scatter_object_input_list or []) != found.size():
        raise ValueError(f"distributed.scatter_object_list: expected {found.size()} objects, one per rank")
    objects = list(scatter_object_input_list) if found.rank() == root else [None] * found.size()
    broadcast_object_list(objects, group=group, group_src=root)
    scatter_object_output_list[0] = objects[found.rank()]


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends a list of objects to rank `dst`, by pickle."""
    del device, use_batch  # how NCCL would be called
    found = _group("send_object_list", group)
    packed = _packed(list(object_list), _device(found))
    send(_C.tensor([packed.numel()], device=_device(found)), dst, group, 0, group_dst)
    send(packed, dst, group, 0, group_dst)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives a list of objects from rank `src`, and returns that rank."""
    del device, use_batch  # how NCCL would be called
    found = _group("recv_object_list", group)
    size = _C.zeros(1, dtype=_C.int64, device=_device(found))
    recv(size, src, group, 0, group_src)
    packed = _C.empty(int(size.item()), dtype=_C.uint8, device=_device(found))
    sender = recv(packed, src, group, 0, group_src)
    object_list[:] = _unpacked(packed)
    return sender
