"""One PyTorch module at one set of shapes, as StableHLO: torch.export -> torchax -> jax.export.

The entry function takes the inputs, then the weights as separate arguments under the names that they have in the
weights file, in the file's order; what the graph does not use is not an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.export
import jax.numpy as jnp
import torch
import torchax
from torchax.export import exported_program_to_jax
from torchax.ops.mappings import t2j_dtype

from .artifact import write_artifact
from .specs import ExportError
from .weights import FileTensor, check_held

# A tensor that torch.export lifted out of the code becomes a literal in the module, if it is no bigger than this.
LITERAL_ELEMENTS_MAX = 4096

# i64 inputs stay i64.
jax.config.update("jax_enable_x64", True)
# Registers the lowering of every torch operation.
torchax.default_env()


@dataclass(frozen=True)
class Lowered:
    """A module's bytecode, and which of the file's tensors its entry takes after the inputs."""

    artifact: bytes
    weights: tuple[str, ...]


def lower(
    model: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    file: dict[str, FileTensor],
    weight_name: Callable[[str], str],
    matmul_precision: str,
) -> Lowered:
    """
    Lowers `model` for inputs of these shapes. `weight_name` maps a name in the model's state to the name in the
    weights file. "highest" as `matmul_precision` keeps f32 products exact on accelerators too, which otherwise round
    to TF32 or bfloat16.
    """
    program = torch.export.export(model, inputs, strict=False)
    names, states, run = exported_program_to_jax(program, export_raw=True)
    literals = [_literal(state) for state in states[len(names) :]]
    avals = {name: jax.ShapeDtypeStruct(state.shape, t2j_dtype(state.dtype)) for name, state in zip(names, states)}
    input_avals = [jax.ShapeDtypeStruct(tensor.shape, t2j_dtype(tensor.dtype)) for tensor in inputs]

    def entry_with(order):
        def entry(*arguments):
            given = dict(zip(order, arguments[len(inputs) :]))
            # What the graph does not read needs no value, but a place.
            return run([given.get(name) for name in names] + literals, arguments[: len(inputs)])

        return entry

    def export(order, keep_unused):
        with jax.default_matmul_precision(matmul_precision):
            function = jax.jit(entry_with(order), keep_unused=keep_unused)
            return jax.export.export(function, platforms=["cpu"])(*input_avals, *(avals[name] for name in order))

    kept = export(names, keep_unused=False).module_kept_var_idx
    used = {weight_name(names[index - len(inputs)]): names[index - len(inputs)] for index in kept if index >= len(inputs)}
    for name, state_name in used.items():
        check_held(name, str(avals[state_name].dtype), avals[state_name].shape, file)
    weights = tuple(name for name in file if name in used)
    exported = export([used[name] for name in weights], keep_unused=True)
    return Lowered(write_artifact(exported.mlir_module()), weights)


def _literal(tensor: torch.Tensor) -> jax.Array:
    if tensor.numel() > LITERAL_ELEMENTS_MAX:
        raise ExportError(f"a constant of shape {list(tensor.shape)} in the model's code is too big for a literal")
    return jnp.asarray(tensor.numpy())
