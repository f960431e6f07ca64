"""Tensors as a manifest describes them: a dtype token, a letter for each axis, an extent for each letter.

Shapes are in wire order, as manifest 3.0 writes them. `n` is the batch axis; an extent of -1 varies with the variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BATCH = "n"

# Manifest token -> the name that numpy, torch, jax and StableHLO's printer are asked with.
DTYPES = {
    "bool": "bool",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}


class ExportError(Exception):
    """What can't be exported, and why. The message names the tensor or the module."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output, e.g. TensorSpec("input_ids", "i64", "nt", {"t": -1})."""

    name: str
    dtype: str
    shape: str
    dims: Mapping[str, int] = field(default_factory=dict)

    def extents(self, batch: int, variant: Mapping[str, int]) -> tuple[int, ...]:
        """The shape at a batch size and in a shape variant."""
        return tuple(self._extent(letter, batch, variant) for letter in self.shape)

    def _extent(self, letter: str, batch: int, variant: Mapping[str, int]) -> int:
        if letter == BATCH:
            return batch
        extent = self.dims[letter]
        return variant[letter] if extent == -1 else extent

    def manifest(self) -> dict:
        """The entry in a manifest's list of tensors."""
        entry = {"name": self.name, "dtype": self.dtype, "shape": self.shape}
        return entry | ({"dims": dict(self.dims)} if self.dims else {})
