"""The header of a safetensors file: what tensors it holds, in the order in which their data lies.

Exporting leaves the weights as they are; only names, dtypes and shapes are needed, so the data is never read.
Format: 8 bytes of little-endian length, a JSON header, the data (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from .specs import ExportError

# safetensors' token -> the numpy-like name used in DTYPES.
FILE_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}


@dataclass(frozen=True)
class FileTensor:
    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, FileTensor]:
    """The tensors of the file, by name, in the order of their data."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    by_offset = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    return {
        name: FileTensor(FILE_DTYPES.get(entry["dtype"], entry["dtype"]), tuple(entry["shape"]))
        for name, entry in by_offset
    }


def check_held(name: str, dtype: str, shape: tuple[int, ...], file: dict[str, FileTensor]) -> None:
    """Raises ExportError unless the file holds the weight just as the model has it."""
    held = file.get(name)
    if held is None:
        raise ExportError(f"{name}: the model uses it as a weight, but the weights file has no tensor of that name")
    if held != FileTensor(dtype, shape):
        raise ExportError(f"{name}: the model has {dtype}{list(shape)}, the weights file {held.dtype}{list(held.shape)}")
