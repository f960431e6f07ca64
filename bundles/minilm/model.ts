// Texts to token ids, before the model runs. The embeddings need no hook afterwards.
//
// A request is padded to the shortest variant that holds its longest text. What is beyond 256 tokens is not read, as
// in the PyTorch model (max_seq_length of its sentence_bert_config.json).

import { InvalidInput, registerModel, type Tensor } from "xlaserver";
import { BertTokenizer } from "xlaserver/text";
import vocabulary from "./vocab.txt" with { type: "text" };

/** `input_shapes` of the manifest. */
const SEQUENCE_LENGTHS = [32, 128, 256];

const tokenizer = BertTokenizer.fromVocab(vocabulary);

export default registerModel({
  preprocess(inputs: Tensor[]): Tensor[] {
    const texts = inputs.find((input) => input.name === "texts");
    if (texts?.dtype !== "bytes") throw new InvalidInput("texts: expected a BYTES tensor of shape [n]");
    const { inputIds, attentionMask, shape } = tokenizer.encode(texts.data, { buckets: SEQUENCE_LENGTHS });
    return [
      { name: "input_ids", dtype: "i64", shape, data: inputIds },
      { name: "attention_mask", dtype: "i64", shape, data: attentionMask },
    ];
  },
});
