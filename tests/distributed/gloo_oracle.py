"""Every collective of `tensora launch` and mpirun jobs against PyTorch's gloo, on the same inputs. Needs PyTorch and
safetensors; skipped without them."""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as processes
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)

OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "minimum": dist.ReduceOp.MIN,
       "maximum": dist.ReduceOp.MAX}


def inputs(rank, ranks):
    """Vectors of several dtypes and lengths; the longest does not fit into a window of 2 MiB."""
    numbers = torch.Generator().manual_seed(100 * ranks + rank)
    result = {}
    for length in (ranks, 60, 12_000, 720_720):
        if length % (2 * ranks) and length != ranks:
            length += 2 * ranks - length % (2 * ranks)
        x = torch.rand(length, generator=numbers, dtype=torch.float64) * 4 - 2
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64):
            if length < 100_000 or dtype == torch.float32:
                values = x * 3 if not dtype.is_floating_point else x
                result[f"{str(dtype)[6:]}_{length}"] = values.to(dtype)
    return result


def gloo_results(rank, ranks, tensors):
    """What PyTorch says to each call; reductions of half types in float32, as Tensora adds them."""
    results = {}
    for name, x in tensors.items():
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        part = x.numel() // ranks
        for op_name, op in OPS.items():
            total = wide.clone()
            dist.all_reduce(total, op)
            total = total.to(x.dtype)
            results[f"all_reduce_{op_name}.{name}"] = total
            results[f"reduce_scatter_{op_name}.{name}"] = total[part * rank:part * (rank + 1)].clone()
            one = wide.clone()
            dist.reduce(one, ranks - 1, op)
            if rank == ranks - 1:
                results[f"reduce_{op_name}.{name}"] = one.to(x.dtype)
        parts = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(parts, x)
        results[f"all_gather.{name}"] = torch.cat(parts)
        exchanged = torch.empty_like(x)
        dist.all_to_all_single(exchanged, x)
        results[f"all_to_all.{name}"] = exchanged
        counts = [[(a + 2 * b) % 3 * part // 2 for b in range(ranks)] for a in range(ranks)]
        out = [counts[other][rank] for other in range(ranks)]
        received = x.new_empty(sum(out))
        dist.all_to_all_single(received, x.repeat(2)[:sum(counts[rank])].contiguous(), out, counts[rank])
        results[f"all_to_all_counts.{name}"] = received
        told = x.clone()
        dist.broadcast(told, 1)
        results[f"broadcast.{name}"] = told
        passed = torch.empty_like(x)
        sending = dist.isend(x, (rank + 1) % ranks)
        dist.recv(passed, (rank - 1) % ranks)
        sending.wait()
        results[f"send_recv.{name}"] = passed
        dist.barrier()
    return results


def gloo_rank(rank, ranks, port, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    tensors = inputs(rank, ranks)
    save_file(tensors, f"{folder}/in-{rank}.safetensors")
    save_file(gloo_results(rank, ranks, tensors), f"{folder}/gloo-{rank}.safetensors")
    dist.destroy_process_group()


def compare(folder, rank, ranks):
    ours, theirs = (load_file(f"{folder}/{who}-{rank}.safetensors") for who in ("out", "gloo"))
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for name, expected in theirs.items():
        got = ours[name]
        # A sum or product of more than two floats depends on the order.
        ordered = ranks > 2 and expected.is_floating_point() and re.search("_(sum|product)[.]", name)
        close = dict(rtol=2e-2 if expected.itemsize == 2 else 1e-5, atol=1e-2 if expected.itemsize == 2 else 1e-5)
        same = torch.allclose(got.double(), expected.double(), **close) if ordered else torch.equal(got, expected)
        assert got.dtype == expected.dtype and same, f"rank {rank} of {ranks}: {name} differs"
    return len(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cli", required=True, help="the program tensora")
    parser.add_argument("--ranks", required=True, help="the program tensora-ranks")
    parser.add_argument("--backend", action="append", help="local or mpi; may be repeated (default local)")
    arguments = parser.parse_args()
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(TENSORA|PMI|PMIX|SLURM)_", k)}
    for ranks in (2, 3, 4):
        with tempfile.TemporaryDirectory() as folder:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            processes.spawn(gloo_rank, (ranks, port, folder), nprocs=ranks)
            for backend in arguments.backend or ["local"]:
                for old in Path(folder).glob("out-*"):
                    old.unlink()
                subprocess.run([arguments.cli, "launch", "-n", str(ranks), "--backend", backend, "--", arguments.ranks,
                                "oracle", folder], check=True, timeout=120, env={**kept, "TENSORA_NUM_THREADS": "1"})
                compared = sum(compare(folder, rank, ranks) for rank in range(ranks))
                print(f"{backend}, {ranks} ranks: {compared} results as gloo has them", flush=True)


if __name__ == "__main__":
    main()
