"""The families there are, found by the model_type of a config.json or by what an encoder is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bothways.errors import UnsupportedModelError, nearest
from bothways.families.albert import ALBERT
from bothways.families.bert import BERT
from bothways.families.deberta import DEBERTA
from bothways.families.deberta_v2 import DEBERTA_V2
from bothways.families.distilbert import DISTILBERT
from bothways.families.electra import ELECTRA
from bothways.families.flaubert import FLAUBERT
from bothways.families.modernbert import MODERNBERT
from bothways.families.own import OWN
from bothways.families.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from bothways.families.spec import FamilySpec
from bothways.model.config import EncoderConfig

# In the order in which they are listed; where several can express an encoder, the first does.
FAMILIES: dict[str, FamilySpec] = {
    spec.model_type: spec
    for spec in (
        BERT,
        ROBERTA,
        XLM_ROBERTA,
        CAMEMBERT,
        DISTILBERT,
        ALBERT,
        ELECTRA,
        DEBERTA,
        DEBERTA_V2,
        FLAUBERT,
        MODERNBERT,
        OWN,
    )
}


def find_family(raw: Mapping[str, Any], place: str = "config.json") -> FamilySpec:
    """The family of a config.json.

    Args:
        raw: the content of the file.
        place: the file, for messages.

    Raises:
        UnsupportedModelError: when its model_type is absent or unknown, with the nearest known.
    """
    model_type = raw.get("model_type")
    if not model_type:
        raise UnsupportedModelError(
            f"{place} has no model_type, so it is not known how to read the weights; "
            f"add one of: {', '.join(FAMILIES)}"
        )
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise UnsupportedModelError(
            f"{place}: model_type {model_type!r} is not supported; "
            f"{nearest(str(model_type), FAMILIES)}"
        )
    return FAMILIES[model_type]


def family_of(config: EncoderConfig) -> FamilySpec:
    """The first family whose config.json can say what this encoder is.

    Example:
        >>> from bothways.families.presets import preset
        >>> family_of(preset("bert-base")).title
        'BERT'
    """
    return next(spec for spec in FAMILIES.values() if spec.expresses(config))
