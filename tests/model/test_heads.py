"""Heads: the same logits in both forms and from the rows they ask for, gradients, descriptions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bothways.errors import ConfigError
from bothways.model.crf import CrfHead
from bothways.model.encoder import Encoder
from bothways.model.entities import EntityHead
from bothways.model.heads import (
    HEADS,
    ClassificationHead,
    MaskedLMHead,
    ReplacedTokenHead,
    SummaryHead,
    TokenHead,
    build_head,
    describe_head,
)
from bothways.model.layout import Batch, Layout
from bothways.model.sentence import Pool, SentenceDense, SentenceNormalize, SentenceVector
from bothways.model.windows import WindowAttentionHead
from tests.contracts.cases import MASKS, base_config, make_batch, make_encoder, make_rectangle

WIDTH = base_config().hidden_size
VOCAB_SIZE = base_config().embeddings.vocab_size
# Two ways to the same float64 numbers.
SAME = 1e-9

MAKERS: dict[str, Callable[[], nn.Module]] = {
    "pooler": lambda: ClassificationHead(WIDTH, 3),
    "cls": lambda: ClassificationHead(WIDTH, 3, pooling="cls", dense="tanh"),
    "mean": lambda: ClassificationHead(WIDTH, 2, pooling="mean", dense="gelu", dropout=0.3),
    "token": lambda: TokenHead(WIDTH, 4),
    "token-dense": lambda: TokenHead(WIDTH, 1, dense="gelu", norm=1e-5, bias="none"),
    "replaced": lambda: ReplacedTokenHead(WIDTH),
    "masked-lm": lambda: MaskedLMHead(WIDTH, 10, VOCAB_SIZE, bias="norm"),
    "summary": lambda: SummaryHead(WIDTH, 1, 3, activation="tanh", summary_dropout=0.2),
    "masked-lm-bare": lambda: MaskedLMHead(WIDTH, WIDTH, VOCAB_SIZE, activation=None),
    "relation": lambda: MaskedLMHead(WIDTH, WIDTH, VOCAB_SIZE, num_relations=2, dropout=0.2),
    "crf": lambda: CrfHead(WIDTH, 4),
    "windows": lambda: WindowAttentionHead(WIDTH, 3),
}
every_head = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def made(make: Callable[[], nn.Module]) -> Any:
    """A head in evaluation mode with weights that no bias or norm is neutral in."""
    head = make().double().eval()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.3)
    return head


def rectangle() -> tuple[Batch, Batch, Tensor]:
    """A rectangular batch, the packed one with the same tokens, and the mask between them."""
    mask = MASKS["any"].flatten()
    wide = make_rectangle(base_config(), MASKS["any"])
    assert wide.type_ids is not None
    narrow = Batch(wide.ids[mask], Layout.packed(wide.layout.lengths), wide.type_ids[mask])
    return wide, narrow, mask


@every_head
def test_logits_do_not_depend_on_the_form(make: Callable[[], nn.Module]) -> None:
    head, encoder = made(make), make_encoder(base_config())
    wide, narrow, mask = rectangle()
    given, expected = head(encoder(wide), wide), head(encoder(narrow), narrow)
    if head.unit == "token":
        given = given[mask]
    assert len(expected) == (
        len(narrow.ids) if head.unit == "token" else narrow.layout.num_sequences
    )
    torch.testing.assert_close(given, expected, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("make", [MAKERS[n] for n in ("pooler", "cls", "mean")])
def test_a_classifier_needs_only_the_rows_it_asks_for(make: Callable[[], nn.Module]) -> None:
    head, encoder = made(make), make_encoder(base_config())
    for lengths in ([4, 1, 6, 1], [1, 1]):
        batch = make_batch(base_config(), lengths)
        rows = head.rows(batch)
        assert (rows is None) == (head.pooling == "mean")
        given = head(encoder(batch, rows=rows), batch)
        torch.testing.assert_close(given, head(encoder(batch), batch), rtol=SAME, atol=SAME)


@every_head
def test_every_weight_of_a_head_gets_a_gradient(make: Callable[[], nn.Module]) -> None:
    head, encoder = made(make).train(), make_encoder(base_config())
    batch = make_batch(base_config(), [4, 1, 6])
    output = encoder(batch)
    total = head(output, batch).sin().sum()
    if getattr(head, "relation", None) is not None:
        total = total + head.relation(output, batch).sin().sum()
    if isinstance(head, CrfHead):
        total = total + head.beside_logits()["transitions"].sin().sum()
    torch.autograd.backward(total)
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@every_head
def test_dropout_is_off_in_evaluation(make: Callable[[], nn.Module]) -> None:
    head, encoder = made(make), make_encoder(base_config())
    batch = make_batch(base_config(), [4, 3])
    output = encoder(batch)
    assert torch.equal(head(output, batch), head(output, batch))


def test_a_classifier_drops_in_training() -> None:
    head = ClassificationHead(WIDTH, 3, dropout=0.5, dense="relu", dense_dropout=0.0)
    head = head.double().train()
    batch = make_batch(base_config(), [4, 3])
    output = make_encoder(base_config())(batch)
    assert not torch.equal(head(output, batch), head(output, batch))


@every_head
def test_a_head_is_built_again_from_its_description(make: Callable[[], nn.Module]) -> None:
    head = make()
    again = build_head(json.loads(json.dumps(describe_head(head))))
    assert type(again) is type(head)
    assert describe_head(again) == describe_head(head)
    again.load_state_dict(head.state_dict())


def test_every_kind_of_head_is_tried_here() -> None:
    # Which tokens an EntityHead reads is a target of its task: tests/tasks/test_relate.py.
    assert {type(make()) for make in MAKERS.values()} | {EntityHead} == set(HEADS.values())


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({"kind": "tokens", "hidden_size": 8, "num_labels": 2}, "'tokens'; did you mean 'token'"),
        ({"hidden_size": 8}, "kind None"),
        ({"kind": "token", "hidden_size": 8}, "num_labels"),
        ({"kind": "token", "hidden_size": 8, "num_labels": 2, "depth": 3}, "depth"),
    ],
)
def test_a_description_that_fits_no_head_is_refused(
    description: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        build_head(description)


def test_a_head_of_another_class_cannot_be_described() -> None:
    with pytest.raises(ConfigError, match=r"class Linear.*ClassificationHead"):
        describe_head(nn.Linear(2, 2))


def test_the_output_of_a_masked_lm_head_is_the_token_table() -> None:
    encoder = Encoder(base_config())
    head = MaskedLMHead(WIDTH, WIDTH, VOCAB_SIZE)
    head.tie(encoder.embeddings.words)
    batch = make_batch(base_config(), [4, 3])
    torch.autograd.backward(head(encoder(batch), batch).sum())
    assert head.output.weight is encoder.embeddings.words.weight
    # Rows of tokens that stand in no text learn through the output.
    absent = [token for token in range(VOCAB_SIZE) if token not in batch.ids.tolist()]
    gradient = encoder.embeddings.words.weight.grad
    assert gradient is not None
    assert (gradient[absent].abs().sum(1) > 0).all()


def test_features_of_some_tokens_are_those_of_all() -> None:
    head, encoder = made(MAKERS["masked-lm"]), make_encoder(base_config())
    batch = make_batch(base_config(), [4, 3])
    output = encoder(batch)
    some = torch.tensor([1, 5])
    given = head.output(head.features(output.last_hidden[some]))
    torch.testing.assert_close(given, head(output, batch)[some], rtol=SAME, atol=SAME)


def test_pooled_vectors_of_both_forms_and_their_definition() -> None:
    encoder = make_encoder(base_config())
    wide, narrow, _ = rectangle()
    pool = Pool(["cls", "mean", "max", "mean_sqrt_len"])
    given, expected = pool(encoder(wide), wide), pool(encoder(narrow), narrow)
    torch.testing.assert_close(given, expected, rtol=SAME, atol=SAME)
    for vector, states in zip(
        expected, narrow.layout.split(encoder(narrow).last_hidden), strict=True
    ):
        parts = [states[0], states.mean(0), states.amax(0), states.sum(0) / len(states) ** 0.5]
        torch.testing.assert_close(vector, torch.cat(parts), rtol=SAME, atol=SAME)
    with pytest.raises(ConfigError, match="at least one mode"):
        Pool([])


def test_sentence_steps_run_in_order_and_normalising_can_be_overruled() -> None:
    encoder, batch = make_encoder(base_config()), make_batch(base_config(), [4, 3, 1])
    dense = SentenceDense(WIDTH, 5, bias=True, activation="tanh").double()
    vector = SentenceVector(Pool(["mean"]), [dense, SentenceNormalize()])
    plain = SentenceVector(Pool(["mean"]), [dense])
    output = encoder(batch)
    raw = torch.tanh(dense.linear(batch.layout.mean(output.last_hidden)))
    unit = raw / raw.norm(dim=1, keepdim=True)
    for given, expected in (
        (vector(output, batch), unit),
        (vector(output, batch, normalize=False), raw),
        (plain(output, batch), raw),
        (plain(output, batch, normalize=True), unit),
    ):
        torch.testing.assert_close(given, expected, rtol=SAME, atol=SAME)
