"""Portable artifacts: StableHLO as versioned bytecode (VHLO), which PJRT plugins of other versions read.

Written without source locations, so that a module depends on the model alone and carries no path of the exporting
machine; and read back, so that the signature that is checked is the one in the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from .specs import ExportError

# Old enough for every plugin with PJRT C API 0.81 or newer.
TARGET_VERSION = "1.0.0"

# MLIR's element types in the words of DTYPES.
_ELEMENT_TYPES = {
    "i1": "bool",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}

Shape = tuple[str, tuple[int, ...]]
"""A dtype's name and the extents."""


@dataclass(frozen=True)
class Signature:
    """What a module's entry function takes and gives."""

    arguments: tuple[Shape, ...]
    results: tuple[Shape, ...]


def write_artifact(module_text: str) -> bytes:
    """The portable bytecode of a StableHLO module given as MLIR text."""
    with jax_mlir.make_ir_context():
        # Printing without debug information and parsing again is what drops the locations.
        bare = ir.Module.parse(module_text).operation.get_asm(enable_debug_info=False)
    return stablehlo.serialize_portable_artifact_str(bare, TARGET_VERSION)


def read_signature(artifact: bytes) -> Signature:
    """The entry function's types, as the artifact has them."""
    with jax_mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        for function in module.body.operations:
            if function.attributes["sym_name"].value == "main":
                kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
                return Signature(tuple(map(_shape, kind.inputs)), tuple(map(_shape, kind.results)))
    raise ExportError("the module has no function main")


def check_signature(name: str, actual: Signature, expected: Signature) -> None:
    """
    Raises ExportError unless the entry takes exactly the inputs and weights. A surplus argument is a value that the
    conversion lifted out of the graph, e.g. a random generator's seed: no server could supply it.
    """
    for what, have, want in (
        ("arguments", actual.arguments, expected.arguments),
        ("results", actual.results, expected.results),
    ):
        if len(have) != len(want):
            surplus = f"; the last is {have[-1]}" if len(have) > len(want) else ""
            raise ExportError(f"{name}: the entry has {len(have)} {what}, expected {len(want)}{surplus}")
        for index, (one, other) in enumerate(zip(have, want)):
            if one != other:
                raise ExportError(f"{name}: {what}[{index}] is {one}, expected {other}")


def _shape(kind: ir.Type) -> Shape:
    tensor = ir.RankedTensorType(kind)
    element = str(tensor.element_type)
    return _ELEMENT_TYPES.get(element, element), tuple(tensor.shape)
