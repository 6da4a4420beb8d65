"""Smaller models cut out of larger ones: the layers named, the words kept, the numbers the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from bothways.checkpoints.load import load_parts
from bothways.checkpoints.parts import Parts, adapt, new_head, new_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import TokenizerError, UsageError
from bothways.families.presets import PRESETS
from bothways.model.config import EncoderConfig
from bothways.model.layout import Batch, Layout
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer
from bothways.training.student import evenly_spaced, with_fewer_words, with_layers
from tests.contracts.cases import CASES, change, make_batch, make_encoder
from tests.training.tiny import SPECIAL, save_tiny_model

PUBLISHED = ("bert", "roberta", "distilbert", "albert", "electra", "deberta", "deberta-v3",
             "flaubert", "modernbert")  # fmt: skip
# Where each layer has weights of its own, and more than one.
SEPARATE = [name for name, config in CASES.items() if not config.num_layer_groups]
# The same float32 equations, summed in another order.
SAME = 1e-5


def deep(name: str, num_layers: int = 6) -> Parts:
    """A random model of so many layers."""
    config = PRESETS["modern-tiny"] if name == "modernbert" else CASES[name]
    kinds = tuple("global" if n % 3 == 0 else "local" for n in range(num_layers))
    if config.attention.layer_kinds:
        config = change(config, num_layers=num_layers, attention__layer_kinds=kinds)
    config = dataclasses.replace(config, num_layers=num_layers)
    return new_parts(config, encoder=make_encoder(config, dtype=torch.float32))


@torch.no_grad()
def all_hidden(parts: Parts) -> tuple[Tensor, ...]:
    batch = make_batch(parts.config, [9, 4, 1])
    found = parts.encoder(batch, all_hidden=True).all_hidden
    assert found is not None
    return tuple(found)


@pytest.mark.parametrize(
    ("of", "count", "expected"),
    [(6, 2, (0, 3)), (6, 3, (0, 2, 4)), (6, 6, (0, 1, 2, 3, 4, 5)), (6, 4, (0, 1, 3, 4)),
     (12, 6, (0, 2, 4, 6, 8, 10)), (5, 1, (0,))],
)  # fmt: skip
def test_layers_are_evenly_spaced(of: int, count: int, expected: tuple[int, ...]) -> None:
    assert evenly_spaced(of, count) == expected


@pytest.mark.parametrize("count", [0, 7, -1])
def test_more_layers_than_there_are_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"--student-layers is {count}; the teacher has 6"):
        evenly_spaced(6, count)


@pytest.mark.parametrize("name", SEPARATE)
def test_the_first_layers_compute_what_they_did(name: str) -> None:
    parts = deep(name)
    student = with_layers(parts, range(4))
    ours, theirs = all_hidden(student), all_hidden(parts)
    assert len(ours) == 5
    for one, other in zip(ours[:4], theirs[:4], strict=True):
        assert torch.equal(one, other)
    if not parts.config.norm.final:
        assert torch.equal(ours[4], theirs[4])


@pytest.mark.parametrize("name", SEPARATE)
def test_a_later_layer_reads_the_states_of_an_earlier_one(name: str) -> None:
    parts = deep(name)
    student = with_layers(parts, (0, 3, 4))
    for new, old in enumerate((0, 3, 4)):
        ours = student.encoder.layers[new].state_dict()
        theirs = parts.encoder.layers[old].state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
        assert student.config.layer_kinds[new] == parts.config.layer_kinds[old]
    before = {name: value.clone() for name, value in parts.encoder.state_dict().items()}
    with torch.no_grad():
        for parameter in student.encoder.parameters():
            parameter.zero_()
    assert all(torch.equal(value, before[n]) for n, value in parts.encoder.state_dict().items())


def test_shared_layers_are_passed_less_often() -> None:
    parts = deep("albert")
    student = with_layers(parts, evenly_spaced(6, 2))
    assert student.encoder.num_parameters() == parts.encoder.num_parameters()
    assert torch.equal(all_hidden(student)[2], all_hidden(parts)[2])
    grouped = deep("shared-inner", 6)  # two groups of three layers
    student = with_layers(grouped, (1, 4))
    assert student.config.block_order == ((0, 1), (2, 3))
    upper = with_layers(grouped, (3, 4))
    ours, theirs = upper.encoder.layers[0].state_dict(), grouped.encoder.layers[2].state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    with pytest.raises(UsageError, match="equally many of each group"):
        with_layers(grouped, (0, 1, 3))


@pytest.mark.parametrize("layers", [(), (1, 0), (0, 0), (0, 6), (-1,)])
def test_layers_that_there_are_not_are_refused(layers: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="expected increasing numbers from 0 to 5"):
        with_layers(deep("bert"), layers)


def test_a_first_layer_made_to_be_the_first_stays() -> None:
    with pytest.raises(UsageError, match="layer 0"):
        with_layers(deep("modern"), (1, 2))


@pytest.mark.parametrize("name", PUBLISHED)
def test_students_of_every_family_load_here_and_in_transformers(name: str, tmp_path: Path) -> None:
    student = with_layers(deep(name), evenly_spaced(6, 2))
    save_parts(student, tmp_path)
    again = load_parts(tmp_path)
    assert again.config.num_layers == 2
    assert torch.equal(all_hidden(again)[-1], all_hidden(student)[-1])
    theirs = transformers.AutoModel.from_pretrained(tmp_path).eval()
    ids = make_batch(student.config, [7]).ids.clamp(min=6)  # none of padding
    with torch.no_grad():
        expected = theirs(input_ids=ids[None]).last_hidden_state[0]
        found = again.encoder(Batch(ids, Layout.packed([7]))).last_hidden
    assert torch.allclose(found, expected, atol=SAME * max(1.0, float(expected.abs().max())))


# --- fewer words ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A tiny model that fills masks."""
    parts = load_parts(save_tiny_model(tmp_path_factory.mktemp("filler") / "model"))
    return adapt(parts, new_head(parts, "masked_lm", 0), kind="masked_lm").trained()


TEXTS = ["the film was great", "a very dull story"]


def read(tokenizer: Tokenizer) -> list[list[int]]:
    return tokenizer.plain_ids(TEXTS)


@torch.no_grad()
def guesses(parts: Parts, text: str) -> dict[str, float]:
    """The logit of each piece at the second token."""
    assert parts.tokenizer is not None
    assert parts.head is not None
    ids = parts.tokenizer.encode(text).ids
    batch = Batch(torch.tensor(ids), Layout.packed([len(ids)]))
    row = parts.head(parts.encoder(batch), batch)[1]
    return dict(zip(parts.tokenizer.tokens(range(len(row))), row.tolist(), strict=True))


def test_results_on_kept_words_are_equal(filler: Parts, tmp_path: Path) -> None:
    small = with_fewer_words(filler, lambda tokenizer: iter(read(tokenizer)))
    assert small.tokenizer is not None
    assert set(small.tokenizer.vocabulary()) == {*SPECIAL, *" ".join(TEXTS).split()}
    save_parts(small, tmp_path)
    for text in TEXTS:
        before, after = guesses(filler, text), guesses(load_parts(tmp_path), text)
        assert after.keys() < before.keys()
        assert after == pytest.approx({piece: before[piece] for piece in after}, abs=1e-6)


def test_the_output_stays_tied_and_the_teacher_as_it_was(filler: Parts) -> None:
    before = filler.encoder.embeddings.words.weight.clone()
    small = with_fewer_words(filler, lambda tokenizer: iter(read(tokenizer)))
    assert small.masked_lm is not None
    assert small.masked_lm.output.weight is small.encoder.embeddings.words.weight
    with torch.no_grad():
        small.encoder.embeddings.words.weight.zero_()
    assert torch.equal(filler.encoder.embeddings.words.weight, before)


def test_ids_in_config_json_move_with_the_pieces(roberta_like: Parts) -> None:
    small = with_fewer_words(roberta_like, lambda tokenizer: iter(tokenizer.plain_ids(["a film"])))
    assert small.tokenizer is not None
    assert small.raw["mask_token_id"] == small.tokenizer.mask_id
    assert "unknown_token_id" not in {k: v for k, v in small.raw.items() if v is not None}
    assert small.config.embeddings.pad_id == small.tokenizer.pad_id == 1


@pytest.fixture
def roberta_like(real_data: Path) -> Parts:
    tokenizer = load_tokenizer(real_data / "tokenizers" / "roberta")
    config: EncoderConfig = change(CASES["roberta"], embeddings__vocab_size=tokenizer.vocab_size)
    parts = new_parts(config, tokenizer=tokenizer)
    raw = {"mask_token_id": tokenizer.mask_id, "unknown_token_id": 31_337}
    return dataclasses.replace(parts, raw=raw)


def test_positions_counted_from_padding_forbid_another_padding_id(filler: Parts) -> None:
    assert filler.tokenizer is not None
    late = change(filler.config, embeddings__position_start=12, embeddings__pad_id=11)
    parts = dataclasses.replace(filler, encoder=make_encoder(late), head=None)
    with pytest.raises(TokenizerError, match="counted from the padding id 11"):
        with_fewer_words(parts, lambda tokenizer: iter(read(tokenizer)))


def test_texts_that_would_be_read_otherwise_are_refused(filler: Parts) -> None:
    """Here by reading other texts the second time, whose words are gone by then."""
    calls: list[int] = []

    def read_others(tokenizer: Tokenizer) -> Iterator[list[int]]:
        calls.append(1)
        return iter(tokenizer.plain_ids(TEXTS[:1] if len(calls) == 1 else TEXTS[1:]))

    with pytest.raises(TokenizerError, match="text 1 of --keep-words-from"):
        with_fewer_words(filler, read_others)
