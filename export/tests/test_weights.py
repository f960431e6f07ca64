"""Reading safetensors headers, and refusing weights that the file does not hold as the model has them."""

import json
import struct
import tempfile
import unittest
from pathlib import Path

from xlaserver_export.specs import ExportError, TensorSpec
from xlaserver_export.weights import FileTensor, check_held, read_header

HEADER = {
    "__metadata__": {"format": "pt"},
    "late": {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]},
    "early": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
}


class Weights(unittest.TestCase):
    def test_tensors_come_in_the_order_of_their_data(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model.safetensors"
            header = json.dumps(HEADER).encode()
            path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(28))
            tensors = read_header(path)
        self.assertEqual(list(tensors), ["early", "late"])
        self.assertEqual(tensors["late"], FileTensor("float32", (2, 3)))
        self.assertEqual(tensors["early"].dtype, "bfloat16")

    def test_a_weight_must_be_held_as_it_is(self):
        file = {"w": FileTensor("float32", (2, 3))}
        check_held("w", "float32", (2, 3), file)
        with self.assertRaisesRegex(ExportError, "v: .* no tensor of that name"):
            check_held("v", "float32", (2, 3), file)
        with self.assertRaisesRegex(ExportError, r"w: the model has float32\[3, 2\], the weights file float32\[2, 3\]"):
            check_held("w", "float32", (3, 2), file)


class Specs(unittest.TestCase):
    def test_extents_take_the_batch_and_the_variant(self):
        spec = TensorSpec("ids", "i64", "ntk", {"t": -1, "k": 7})
        self.assertEqual(spec.extents(4, {"t": 32}), (4, 32, 7))
        self.assertEqual(
            spec.manifest(), {"name": "ids", "dtype": "i64", "shape": "ntk", "dims": {"t": -1, "k": 7}}
        )

    def test_a_tensor_without_extents_has_no_dims(self):
        self.assertEqual(TensorSpec("texts", "bytes", "n").manifest(), {"name": "texts", "dtype": "bytes", "shape": "n"})


if __name__ == "__main__":
    unittest.main()
