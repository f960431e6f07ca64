"""Writes a bundle: one module for each shape variant and batch size, and the manifest (format 3.0).

Hooks, tests and the weights file are the bundle author's; nothing but `model*.mlir` and `manifest.yaml` is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import torch
import yaml

from .artifact import Signature, check_signature, read_signature
from .lower import lower
from .specs import BATCH, DTYPES, ExportError, TensorSpec
from .weights import read_header


def export_torch(
    model: torch.nn.Module,
    directory: Path,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    weights_file: str,
    weight_name: Callable[[str], str] = lambda name: name,
    variants: Sequence[Mapping[str, int]] = (),
    batch_sizes: Sequence[int] = (),
    client_inputs: Sequence[TensorSpec] = (),
    client_outputs: Sequence[TensorSpec] = (),
    description: str = "",
    matmul_precision: str = "highest",
) -> None:
    """
    Exports `model`, whose forward takes one tensor for each of `inputs` and gives a tensor or a tuple of them.

    `weights_file` is a safetensors file in `directory` that holds the model's weights as the model has them; it is
    only read. `variants` gives the extents of the -1 axes; `batch_sizes` the sizes to compile. Raises ExportError.
    """
    file = read_header(directory / weights_file)
    model = model.eval()
    weights: tuple[str, ...] | None = None
    for suffix, variant, batch in _modules(variants, batch_sizes):
        examples = tuple(_example(spec, batch, variant) for spec in inputs)
        lowered = lower(model, examples, file, weight_name, matmul_precision)
        if weights not in (None, lowered.weights):
            raise ExportError(f"model{suffix}.mlir uses other weights than the modules before it")
        weights = lowered.weights
        arguments = [_expected(spec, batch, variant) for spec in inputs]
        arguments += [(file[name].dtype, file[name].shape) for name in weights]
        results = [_expected(spec, batch, variant) for spec in outputs]
        check_signature(
            f"model{suffix}.mlir", read_signature(lowered.artifact), Signature(tuple(arguments), tuple(results))
        )
        (directory / f"model{suffix}.mlir").write_bytes(lowered.artifact)
        print(f"model{suffix}.mlir: {len(lowered.artifact)} bytes, {len(inputs)} inputs, {len(weights)} weights")

    manifest = {"format_version": "3.0", "name": directory.name, "description": description}
    manifest["executable_inputs"] = list(inputs)
    manifest["executable_outputs"] = list(outputs)
    if client_inputs:
        manifest["client_inputs"] = list(client_inputs)
    if client_outputs:
        manifest["client_outputs"] = list(client_outputs)
    if variants:
        manifest["input_shapes"] = [dict(variant) for variant in variants]
    if batch_sizes:
        manifest["batching"] = {"compiled_batch_sizes": list(batch_sizes)}
    manifest["provenance"] = _provenance()
    manifest["weights"] = {"file": weights_file, "arguments": list(weights or ())}
    text = yaml.dump(manifest, Dumper=_ManifestDumper, sort_keys=False, default_flow_style=None, width=110)
    (directory / "manifest.yaml").write_text(f"# Written by the exporter (export/).\n{text}")


class _ManifestDumper(yaml.SafeDumper):
    """Writes a tensor's entry, extents included, on one line, and what occurs twice twice."""

    def ignore_aliases(self, data):
        return True


_ManifestDumper.add_representer(
    TensorSpec,
    lambda dumper, spec: dumper.represent_mapping("tag:yaml.org,2002:map", spec.manifest(), flow_style=True),
)


def _modules(variants, batch_sizes):
    """Every module's file suffix, variant and batch size."""
    for index, variant in enumerate(variants or [{}]):
        prefix = f".v{index}" if variants else ""
        for batch in batch_sizes or [None]:
            yield (f"{prefix}.b{batch}" if batch else prefix), variant, batch


def _example(spec: TensorSpec, batch: int | None, variant: Mapping[str, int]) -> torch.Tensor:
    return torch.zeros(_expected(spec, batch, variant)[1], dtype=getattr(torch, DTYPES[spec.dtype]))


def _expected(spec: TensorSpec, batch: int | None, variant: Mapping[str, int]) -> tuple[str, tuple[int, ...]]:
    if batch is None and BATCH in spec.shape:
        raise ExportError(f"{spec.name}: has the batch axis {BATCH}, so batch_sizes must say what to compile")
    return DTYPES[spec.dtype], spec.extents(batch or 1, variant)


def _provenance() -> dict[str, str]:
    packages = ("torch", "torchax", "jax")
    own = {"source_framework": "pytorch", "converter": "xlaserver-export"}
    return own | {f"{package}_version": version(package) for package in packages}
