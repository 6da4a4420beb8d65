"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and CamemBERT (Martin et al. 2020).

Three families of one build: BERT's blocks, positions that are counted from the row after the
padding id, and heads of their own. They differ in vocabulary, tokenizer and class names.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from bothways.errors import ConfigError
from bothways.families import bert, heads
from bothways.families.keys import ConfigKeys
from bothways.families.names import NameTable
from bothways.families.spec import FamilySpec, HeadSpec, TokenizerRecipe
from bothways.model.config import EncoderConfig

_PAD_ID = 1


def read(keys: ConfigKeys) -> EncoderConfig:
    """The axes: BERT's, with positions that start after the padding id.

    Of 514 position rows 512 can be used: row 1 is the padding's and row 0 is never read.

    Raises:
        ConfigError: when there is no padding id, or no position row after it.
    """
    config = bert.read(keys)
    pad_id = keys.index("pad_token_id", _PAD_ID)
    if pad_id is None:
        raise ConfigError("pad_token_id is null; positions are counted from the row after it")
    embeddings = dataclasses.replace(
        config.embeddings, pad_id=pad_id, position_start=_position_start(pad_id)
    )
    return dataclasses.replace(config, embeddings=embeddings)


def _position_start(pad_id: int) -> int:
    return pad_id + 1


def write(config: EncoderConfig) -> dict[str, Any]:
    """The keys of a configuration; the position start follows from the padding id."""
    return bert.write(config)


_NAMES = NameTable(
    {**bert.EMBEDDING_NAMES, **bert.LAYER_NAMES, **bert.POOLER_NAMES},
    optional=frozenset(bert.POOLER_NAMES),
    ignored=bert.IGNORED_BUFFERS,
)
_MASKED_LM = NameTable(
    {
        "lm_head.dense": "dense",
        "lm_head.layer_norm": "norm",
        "lm_head.decoder.weight": "output.weight",
        "lm_head.bias": "output.bias",
    },
    tied={"output.weight": "embeddings.words.weight"},
    # The bias stands under a second name where nothing was left out on saving.
    copies={"lm_head.decoder.bias": "lm_head.bias"},
)
_CLASSIFIER = NameTable({"classifier": "output"})


def _heads(name: str) -> dict[str, HeadSpec]:
    """The heads, under the class names that start with a family's own."""
    return {
        f"{name}ForSequenceClassification": HeadSpec(
            "sequence",
            NameTable({"classifier.dense": "dense", "classifier.out_proj": "output"}),
            heads.sequence("cls", dense="tanh"),
        ),
        f"{name}ForTokenClassification": HeadSpec("token", _CLASSIFIER, heads.token()),
        f"{name}ForQuestionAnswering": HeadSpec(
            "answer", NameTable({"qa_outputs": "output"}), heads.token(dropout=0.0), 2
        ),
        f"{name}ForMultipleChoice": HeadSpec("choice", _CLASSIFIER, heads.sequence(), 1),
        f"{name}ForMaskedLM": HeadSpec("masked_lm", _MASKED_LM, heads.masked_lm("gelu"), 0),
    }


def _tokenizer(kind: Literal["byte_bpe", "sentencepiece"]) -> TokenizerRecipe:
    return TokenizerRecipe(
        kind=kind,
        cls="<s>",
        sep="</s>",
        pad="<pad>",
        mask="<mask>",
        unknown="<unk>",
        single="<s> A </s>",
        pair="<s> A </s> </s> B </s>",
        order=("cls", "pad", "sep", "unknown", "mask"),
    )


def _family(
    name: str,
    *,
    model_type: str,
    title: str,
    tokenizer: TokenizerRecipe,
    description: str,
    changes: str,
) -> FamilySpec:
    return FamilySpec(
        model_type=model_type,
        title=title,
        prefix="roberta.",
        bare=f"{name}Model",
        read=read,
        write=write,
        names=_NAMES,
        heads=_heads(name),
        tokenizer=tokenizer,
        description=description,
        changes=changes,
    )


ROBERTA = _family(
    "Roberta",
    model_type="roberta",
    title="RoBERTa",
    tokenizer=_tokenizer("byte_bpe"),
    description=(
        "BERT trained longer, on ten times the text, without next-sentence prediction and with "
        "masks drawn anew each time. The better default for English, and the base of most models "
        "for tweets, code and biomedicine."
    ),
    changes=(
        "byte-level BPE pieces, cased; positions start after the padding id, so 514 rows read 512 "
        "tokens; one segment type; the classifier has a dense layer of its own and no pooler"
    ),
)
XLM_ROBERTA = _family(
    "XLMRoberta",
    model_type="xlm-roberta",
    title="XLM-R",
    tokenizer=_tokenizer("sentencepiece"),
    description=(
        "RoBERTa over 100 languages with one SentencePiece vocabulary of 250,002 pieces. For many "
        "languages at once, and for moving from a language with labels to one without; most of "
        "its weights are the token table."
    ),
    changes="as RoBERTa, with a multilingual SentencePiece vocabulary",
)
CAMEMBERT = _family(
    "Camembert",
    model_type="camembert",
    title="CamemBERT",
    tokenizer=_tokenizer("sentencepiece"),
    description=(
        "RoBERTa for French, trained on web text with whole-word masks. The usual choice for "
        "French."
    ),
    changes="as RoBERTa, with a French SentencePiece vocabulary",
)
