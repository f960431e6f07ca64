"""A small PyTorch model becomes a bundle whose modules take what the manifest says. Needs torch, torchax and jax."""

import importlib.util
import json
import struct
import tempfile
import unittest
from pathlib import Path

MISSING = [name for name in ("torch", "torchax", "jax", "yaml") if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"needs {', '.join(MISSING)}, which only exporting needs")
class Export(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name) / "scaled"
        self.directory.mkdir()

    def model(self):
        import torch

        class Scaled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.unused = torch.nn.Parameter(torch.zeros(5))
                self.dense = torch.nn.Linear(3, 2)

            def forward(self, x):
                return self.dense(x) * torch.tensor([1.0, 2.0])

        return Scaled()

    def write_weights(self, model, names):
        """A safetensors file of the model's state, in the order of `names`."""
        header, data = {}, b""
        for name in names:
            tensor = model.state_dict()[name]
            chunk = tensor.numpy().tobytes()
            offsets = [len(data), len(data) + len(chunk)]
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
            data += chunk
        text = json.dumps(header).encode()
        (self.directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    def export(self, model, inputs_shape="nd", **options):
        from xlaserver_export import TensorSpec, export_torch

        export_torch(
            model,
            self.directory,
            inputs=[TensorSpec("x", "f32", inputs_shape, {"d": 3})],
            outputs=[TensorSpec("y", "f32", "nk", {"k": 2})],
            weights_file="model.safetensors",
            **options,
        )

    def test_weights_are_arguments_in_the_order_of_the_file_and_unused_ones_are_none(self):
        import yaml

        from xlaserver_export.artifact import Signature, read_signature

        model = self.model()
        self.write_weights(model, ["dense.weight", "unused", "dense.bias"])
        self.export(model, batch_sizes=[1, 4])
        manifest = yaml.safe_load((self.directory / "manifest.yaml").read_text())
        self.assertEqual(manifest["weights"]["arguments"], ["dense.weight", "dense.bias"])
        self.assertEqual(manifest["batching"], {"compiled_batch_sizes": [1, 4]})
        self.assertEqual(manifest["executable_inputs"], [{"name": "x", "dtype": "f32", "shape": "nd", "dims": {"d": 3}}])
        artifact = (self.directory / "model.b4.mlir").read_bytes()
        self.assertEqual(
            read_signature(artifact),
            Signature(
                (("float32", (4, 3)), ("float32", (2, 3)), ("float32", (2,))),
                (("float32", (4, 2)),),
            ),
        )
        self.assertNotIn(b".py", artifact)

    def test_a_weight_that_the_file_lacks_is_named(self):
        from xlaserver_export.specs import ExportError

        model = self.model()
        self.write_weights(model, ["dense.weight"])
        with self.assertRaisesRegex(ExportError, "^dense.bias: "):
            self.export(model, batch_sizes=[1])

    def test_an_entry_with_a_surplus_argument_is_refused(self):
        from xlaserver_export.artifact import Signature, check_signature
        from xlaserver_export.specs import ExportError

        seed = ("uint64", (2,))
        one = ("float32", (1,))
        with self.assertRaisesRegex(ExportError, r"model.mlir: the entry has 2 arguments, expected 1; the last is .*uint64"):
            check_signature("model.mlir", Signature((one, seed), (one,)), Signature((one,), (one,)))


if __name__ == "__main__":
    unittest.main()
