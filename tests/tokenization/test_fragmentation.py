"""How words break, and the commands that learn and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bothways.cli.main import main
from bothways.tokenization import fragmentation as module
from bothways.tokenization.fragmentation import SplitWord, fragmentation
from bothways.tokenization.tokenizer import Tokenizer


def test_counts_of_a_text(tiny: Tokenizer) -> None:
    found = fragmentation(tiny, ["The unaffable cat, cats.", "zebra [SEP] on\x00"])
    assert (found.texts, found.words) == (2, 7)  # SEP is a word of the text
    # the | un ##aff ##able | cat | , | cat ##s | . ; [UNK] | [ SEP ] as unknown pieces | on
    assert found.pieces == 14
    assert found.pieces_in_words == 10
    assert found.pieces_per_word == 10 / 7
    assert found.words_split == 2
    assert found.split_rate == 2 / 7
    assert (found.unknown, found.words_unknown) == (4, 2)
    assert (found.special_in_text, found.dropped_characters) == (1, 1)
    assert found.longest == (SplitWord("unaffable", 3, 1), SplitWord("cats", 2, 1))


def test_no_text_has_rates_too(tiny: Tokenizer) -> None:
    found = fragmentation(tiny, ["", "..."])
    assert (found.words, found.pieces_per_word, found.unknown_rate) == (0, 0.0, 0.0)


def test_words_of_most_pieces_are_kept_however_many_there_are(
    tiny: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 5)
    monkeypatch.setattr(module, "TEXTS_AT_A_TIME", 3)
    texts = [f"x{'s' * count}" for count in range(1, 40)] * 2
    found = fragmentation(tiny, texts, num_longest=3)
    assert [(word.pieces, word.count) for word in found.longest] == [(40, 2), (39, 2), (38, 2)]
    assert found.longest[0].word == "x" + "s" * 39
    assert fragmentation(tiny, ["x" + "s" * 60]).longest[0].word.endswith("...")


def test_a_script_that_the_vocabulary_lacks_shows(
    cased: Tokenizer, xlm_roberta: Tokenizer, real_data: Path
) -> None:
    lines = (real_data / "rawtext" / "debian_handbook_zh.txt").read_text().split("\n")[:100]
    english, many = fragmentation(cased, lines), fragmentation(xlm_roberta, lines)
    assert english.words == many.words
    assert english.unknown_rate > 0.1 > 0.001 > many.unknown_rate


def test_the_commands_learn_and_report(
    make_folder: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\nunaffable cats\n" * 20, encoding="utf-8")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"text": "the cat sat\non a hat"}) + "\n", encoding="utf-8")
    output = tmp_path / "tokenizer"
    train = ["tokenizer", "train", "--input", f"{text},{rows}", "--output", str(output)]
    assert main([*train, "--vocab-size", "43", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["vocabulary"], said["type"], said["family"]) == (43, "wordpiece", "bert")
    assert main([*train, "--vocab-size", "43"]) == 1
    assert "--overwrite" in capsys.readouterr().err
    again = [*train, "--vocab-size", "400", "--overwrite", "--family", "roberta"]
    assert main(again) == 1  # bytes need 261, and so little text has no 400
    assert "supports a vocabulary of" in capsys.readouterr().err
    assert main(["tokenizer", "train", "--family", "brt", *train[2:], "--vocab-size", "43"]) == 1
    assert "did you mean 'bert'" in capsys.readouterr().err

    report = ["tokenizer", "report", "--tokenizer", str(output), "--input", str(text)]
    assert main([*report, "--json", "--longest", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["words"], said["unknown"], said["special_in_text"]) == (160, 0, 0)
    assert main(report) == 0
    assert "pieces per word" in capsys.readouterr().out
    assert main([*report, "--longest", "-1"]) == 2
