"""Makes xlaserver bundles from PyTorch models: StableHLO modules and a manifest beside a safetensors file.

    from xlaserver_export import TensorSpec, export_torch

`bundle.export_torch` is the entry; `lower` turns one module into StableHLO, `artifact` writes and reads the portable
bytecode and checks its signature, `weights` reads safetensors headers, `specs` holds the description of tensors.
Nothing is imported here that needs torch or jax until it is asked for.
"""

from .specs import TensorSpec

__all__ = ["TensorSpec", "export_torch"]


def __getattr__(name):
    if name == "export_torch":
        from .bundle import export_torch

        return export_torch
    raise AttributeError(name)
