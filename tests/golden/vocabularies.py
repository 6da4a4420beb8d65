"""Small vocabularies of the families whose real ones are not at hand: training them, making files.

What a training gave is stored as text beside this file; the model files are made of it when they
are needed. The normalisation rules are left out, a quarter of a megabyte each, and come from the
sentencepiece library; a hash says that they are the same.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

FOLDER = Path(__file__).parent
# Their packages say nothing of types.
json_format: Any = import_module("google.protobuf.json_format")
model_format: Any = import_module("sentencepiece.sentencepiece_model_pb2")
RULES = "nmt_nfkc"


@dataclass(frozen=True)
class Family:
    """A family whose vocabulary is made here.

    Attributes:
        model_type: its word in config.json, and the name of its stored files.
        file: its model file; None for vocab.json and merges.txt.
        settings: tokenizer_config.json.
        training: arguments of SentencePiece's trainer.
        like: the family whose pieces are used, where it is another.
    """

    model_type: str
    file: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    like: str | None = None

    @property
    def stored(self) -> Path:
        """The file of its pieces."""
        return FOLDER / f"{self.like or self.model_type}.pieces.json"


FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        Family("xlm-roberta", "sentencepiece.bpe.model"),
        Family("camembert", "sentencepiece.bpe.model", like="xlm-roberta"),
        Family(
            "albert",
            "spiece.model",
            training={
                "pad_id": 0,
                "unk_id": 1,
                "bos_id": -1,
                "eos_id": -1,
                "pad_piece": "<pad>",
                "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
                "split_by_number": False,
            },
        ),
        Family(
            "deberta-v2",
            "spm.model",
            training={
                "pad_id": 0,
                "bos_id": 1,
                "eos_id": 2,
                "unk_id": 3,
                "pad_piece": "[PAD]",
                "bos_piece": "[CLS]",
                "eos_piece": "[SEP]",
                "unk_piece": "[UNK]",
                "byte_fallback": True,
                "character_coverage": 0.995,
            },
        ),
        Family("flaubert", None, {"do_lowercase": True}),
    )
}


def train_model(sentences: Iterable[str], **arguments: Any) -> bytes:
    """A model file, trained by SentencePiece in one thread and without a word."""
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=buffer,
        minloglevel=2,
        num_threads=1,
        hard_vocab_limit=False,
        **{"vocab_size": 700, "normalization_rule_name": RULES, **arguments},
    )
    return buffer.getvalue()


def rules() -> bytes:
    """The library's normalisation rules."""
    model = model_format.ModelProto()
    model.ParseFromString(train_model(["a b c"] * 3, vocab_size=20))
    table: bytes = model.normalizer_spec.precompiled_charsmap
    return table


def store(family: Family, sentences: list[str]) -> None:
    """Train a family's vocabulary and keep what was learned beside this file."""
    if family.file is None:
        content = _word_end_pieces(sentences)
    else:
        model = model_format.ModelProto()
        model.ParseFromString(train_model(sentences, **family.training))
        model.normalizer_spec.ClearField("precompiled_charsmap")
        content = json_format.MessageToDict(model)
    text = json.dumps(content, ensure_ascii=False, indent=None)
    # One piece a line, so that differences can be read.
    family.stored.write_text(
        text.replace("}, {", "},\n{").replace('", "', '",\n"') + "\n", encoding="utf-8"
    )


def write_folder(family: Family, folder: Path) -> Path:
    """The files that a published folder of the family has, with its stored vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.loads(family.stored.read_text(encoding="utf-8"))
    if family.file is None:
        vocabulary = {piece: index for index, piece in enumerate(content["pieces"])}
        (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        (folder / "merges.txt").write_text("".join(content["merges"]), encoding="utf-8")
    else:
        model = json_format.ParseDict(content, model_format.ModelProto())
        model.normalizer_spec.precompiled_charsmap = rules()
        (folder / family.file).write_bytes(model.SerializeToString())
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(family.settings)))
    (folder / "config.json").write_text(json.dumps({"model_type": family.model_type}))
    return folder


def rules_hash() -> str:
    """Says whether the library's rules are those that the ids were stored with."""
    return hashlib.sha256(rules()).hexdigest()


def _word_end_pieces(sentences: list[str]) -> dict[str, list[str]]:
    """FlauBERT's kind: pairs merged within words, some single letters in no piece of their own."""
    engine = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    lowered = [sentence.lower() for sentence in sentences]
    engine.train_from_iterator(
        lowered,
        trainers.BpeTrainer(vocab_size=900, end_of_word_suffix="</w>", show_progress=False),
    )
    model = json.loads(engine.to_str())["model"]
    specials = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{index}>" for index in range(10))]
    pieces = [piece for piece in model["vocab"] if piece not in ("q", "z")]
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    merges = [f"{left} {right} {10_000 - rank}\n" for rank, (left, right) in enumerate(pairs)]
    return {"pieces": [*specials, *pieces], "merges": merges}
