"""A model of each family, made by transformers, is fine-tuned here and read by transformers again.

Texts go in on both sides: the tokenizer of the folder, in transformers too, makes the pieces.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from bothways.config import CommonSettings
from bothways.families.registry import FAMILIES
from bothways.inference.model import load
from bothways.tasks.results import LabelResult
from bothways.training.finetune import finetune
from bothways.training.settings import (
    DataSettings,
    FinetuneSettings,
    LoopSettings,
    OptimSettings,
)
from tests.parity.families import ROWS, Row, make_pair
from tests.training.tiny import BAD, GOOD, PLAIN, write_examples

# float32 probabilities; the two add in another order.
ATOL = 1e-5
SPECIAL = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
TEXTS = ["the film was great", "a very dull story", "it ended", "lovely"]


def write_tokenizer(folder: Path, row: Row) -> None:
    """Whole words, with the padding token where the configuration has it."""
    pad_id = int(row.keys.get("pad_token_id", 0))
    words = [name for name in SPECIAL.values() if name != "<pad>"] + [*GOOD, *BAD, *PLAIN]
    words.insert(pad_id, "<pad>")
    vocabulary = {word: index for index, word in enumerate(words)}
    engine = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(name, vocabulary[name]) for name in ("<s>", "</s>")],
    )
    engine.add_special_tokens(list(SPECIAL.values()))
    engine.save(str(folder / "tokenizer.json"))
    named = {f"{role}_token": name for role, name in SPECIAL.items()}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


# From the bare encoder; and, where the classifier reads a pooler, from a class that has none.
BASES = [
    *((name, FAMILIES[name].bare) for name in dict.fromkeys(row.model_type for row in ROWS)),
    ("bert", "BertForMaskedLM"),
    ("albert", "AlbertForMaskedLM"),
]


@pytest.mark.parametrize(("model_type", "class_name"), BASES)
def test_what_is_fine_tuned_is_read_by_transformers(
    model_type: str, class_name: str, tmp_path: Path
) -> None:
    row = next(row for row in ROWS if row.model_type == model_type)
    base = tmp_path / "base"
    family = make_pair(row, class_name, base).ours.family
    write_tokenizer(base, row)
    finetune(
        FinetuneSettings(
            str(base),
            tmp_path / "tuned",
            DataSettings(train=write_examples(tmp_path / "train.csv", 24)),
            optim=OptimSettings(learning_rate=(5e-3,)),
            loop=LoopSettings(epochs=1, batch_size=8),
            common=CommonSettings(device="cpu"),
        )
    )
    ours = load(str(tmp_path / "tuned"))
    tuned = str(family.head_of_kind("sequence"))
    assert ours.parts.architecture == tuned
    assert ours.report.head_trained
    results = list(ours.predict(TEXTS))
    theirs = getattr(transformers, tuned).from_pretrained(tmp_path / "tuned").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "tuned")
    for text, result in zip(TEXTS, results, strict=True):
        assert isinstance(result, LabelResult)
        given = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            scores = theirs(**given).logits.softmax(-1)[0]
        named = {theirs.config.id2label[index]: float(score) for index, score in enumerate(scores)}
        assert named == pytest.approx(result.probabilities, abs=ATOL)
