"""Writes tests/io/goldens/: small files made by PyTorch and NumPy, which the tests read.

The safetensors file is put together here by the format's definition, so that it does not depend on the writer that
it tests.
"""

import io
import json
import struct
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).resolve().parent / "goldens"


def pytorch():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape) / 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    base = torch.arange(12.0)
    dtypes = {str(d).removeprefix("torch."): torch.tensor([0, 1, 2, 3]).to(d) for d in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2)}
    everything = OrderedDict(
        model=model.state_dict(), optimizer=optimizer.state_dict(), dtypes=dtypes,
        views={"base": base, "part": base[2:8:2], "transposed": base.view(3, 4).t()},
        shapes={"empty": torch.empty(0, 3), "number": torch.tensor(7), "expanded": torch.ones(1).expand(5)},
        parameter=torch.nn.Parameter(torch.ones(2)), tied=[base, base],
        plain={"none": None, "true": True, "small": 3, "negative": -70000, "large": 2**40, "smallest": -2**63,
               "number": 2.5, "text": "größe", "tuple": (1, (2, "x")), "list": [], "set": {5}, 7: "seven",
               "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda", 1),
               "bytes": b"\x00\xff", "counter": Counter([3, 3])})
    torch.save(everything, FOLDER / "everything.pt")
    for protocol in (3, 4, 5):
        torch.save(everything, FOLDER / f"protocol{protocol}.pt", pickle_protocol=protocol)
    for protocol in (2, 4):
        torch.save(everything, FOLDER / f"legacy{protocol}.pt", pickle_protocol=protocol,
                   _use_new_zipfile_serialization=False)
    torch.save({str(d).removeprefix("torch."): torch.tensor([0, 1, -1]).to(d)
                for d in (torch.uint16, torch.uint32, torch.uint64)}, FOLDER / "unsigned.pt")
    torch.save({"x": torch.ones(3), "module": torch.nn.Linear(1, 1)}, FOLDER / "module.pt")
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        module[0].weight.copy_(torch.arange(6.0).reshape(3, 2))
        module[0].bias.fill_(7)
    program = io.BytesIO()
    torch.jit.save(torch.jit.script(module), program)
    # Without the positions in the source, which name folders of this machine.
    with zipfile.ZipFile(program) as whole, zipfile.ZipFile(FOLDER / "script.pt", "w") as file:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                file.writestr(entry.filename, whole.read(entry))


def numpy():
    for kind in ("?", "u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", "<c8", "<c16", ">i2", ">f8", ">c8"):
        name = np.dtype(kind).name + ("_big" if kind[0] == ">" else "")
        np.save(FOLDER / f"{name}.npy", np.arange(6).reshape(2, 3).astype(kind))
    np.save(FOLDER / "fortran.npy", np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)))
    np.save(FOLDER / "number.npy", np.float32(2.5))
    np.save(FOLDER / "empty.npy", np.zeros((0, 4), np.float32))
    np.save(FOLDER / "objects.npy", np.array([None, 1], object))
    np.save(FOLDER / "records.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
    for version in ((2, 0), (3, 0)):
        with open(FOLDER / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, np.arange(5.0), version=version)
    arrays = {"weights": np.arange(1000, dtype="<f4").reshape(10, 100), "labels": np.arange(4), "number": np.float64(1)}
    np.savez(FOLDER / "stored.npz", **arrays)
    np.savez_compressed(FOLDER / "deflated.npz", **arrays)
    with zipfile.ZipFile(FOLDER / "zip64.npz", "w") as archive:
        with archive.open("labels.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, np.arange(4))


def safetensors():
    tensors = [("f32", "F32", [2, 2], struct.pack("<4f", 0, 1, 2, 3)), ("i64", "I64", [2], struct.pack("<2q", -1, 2**40)),
               ("bf16", "BF16", [1, 2], struct.pack("<2H", 0x3f80, 0xc000)), ("empty", "F64", [0, 7], b""),
               ("number", "F16", [], struct.pack("<e", 1.5)), ("e4m3", "F8_E4M3", [2], b"\x38\xc0"),
               ("flags", "BOOL", [3], b"\x01\x00\x01"), ("ünï", "U8", [1], b"\x07"),
               ("odd", "I32", [1], struct.pack("<i", 5))]
    header, data = {"__metadata__": {"format": "pt", "note": "größe"}}, b""
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    (FOLDER / "mixed.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


FOLDER.mkdir(exist_ok=True)
pytorch()
numpy()
safetensors()
