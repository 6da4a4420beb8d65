"""`bothways predict` and `bothways evaluate`: one model, one way of reading files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from bothways.inference.model import load
from bothways.tasks.classify import label_results
from tests.cli.command import LEDGER_KEYS, Command

ROUNDING = 1e-9


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def predicted(bothways: Command, classifier: Path, examples: Path) -> list[dict[str, Any]]:
    return bothways("predict", "--model", classifier, "--input", examples / "test.csv").lines


# --- predict ------------------------------------------------------------------------------------


def test_a_line_a_row_with_its_place(predicted: list[dict[str, Any]], examples: Path) -> None:
    assert len(predicted) == len(rows_of(examples / "test.csv")) == 24
    assert [line["line"] for line in predicted] == list(range(2, 26))
    assert set(predicted[0]) == {"line", "label", "probability", "probabilities"}
    for line in predicted:
        assert list(line["probabilities"]) == ["bad", "good"]
        assert sum(line["probabilities"].values()) == pytest.approx(1, abs=ROUNDING)
        assert line["probability"] == max(line["probabilities"].values())


def test_predictions_are_those_of_the_library(
    predicted: list[dict[str, Any]], classifier: Path, examples: Path
) -> None:
    texts = [row["text"] for row in rows_of(examples / "test.csv")]
    results = label_results(load(classifier).predict(texts))
    assert [line["label"] for line in predicted] == [result.label for result in results]
    assert [line["probability"] for line in predicted] == [r.probability for r in results]


def test_the_same_lines_into_a_file_and_an_account(
    bothways: Command,
    classifier: Path,
    examples: Path,
    predicted: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    output = tmp_path / "new" / "out.jsonl"
    words = ["predict", "--model", classifier, "--input", examples / "test.csv"]
    done = bothways(*words, "--output", output, "--json")
    assert [json.loads(line) for line in output.read_text().splitlines()] == predicted
    assert set(done.json) == {"model", "output", "count", "seconds", "ledger"}
    assert (done.json["count"], done.json["output"]) == (24, str(output))
    assert set(done.json["ledger"]) == LEDGER_KEYS
    told = bothways(*words, "--output", output, "--overwrite").out
    assert "24 results" in told
    assert "nothing was cut (24 texts" in told


def test_lines_on_standard_output_are_json_either_way(
    bothways: Command, classifier: Path, examples: Path, predicted: list[dict[str, Any]]
) -> None:
    words = ["predict", "--model", classifier, "--input", examples / "test.csv"]
    done = bothways(*words, "--json")
    assert done.lines == predicted
    assert "nothing was cut (24 texts" in done.err


def test_labels_in_the_file_are_not_read(
    bothways: Command, classifier: Path, examples: Path, tmp_path: Path
) -> None:
    texts = "text,label\ngreat film,no such label\ndull,\n"
    (tmp_path / "a.csv").write_text(texts, encoding="utf-8")
    done = bothways("predict", "--model", classifier, "--input", tmp_path / "a.csv")
    assert [line["label"] for line in done.lines] == ["good", "bad"]
    (tmp_path / "b.csv").write_text("text\ngreat film\ndull\n", encoding="utf-8")
    again = bothways("predict", "--model", classifier, "--input", tmp_path / "b.csv")
    assert again.lines == done.lines


def test_quotes_line_ends_and_empty_texts(
    bothways: Command, classifier: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('text\n"great,\n""fine"" film"\n""\ndull\n', encoding="utf-8")
    done = bothways("predict", "--model", classifier, "--input", tmp_path / "a.csv")
    assert [line["line"] for line in done.lines] == [2, 4, 5]
    assert [done.lines[at]["label"] for at in (0, 2)] == ["good", "bad"]
    assert "1 of 3 texts is empty" in done.err


def test_each_line_may_be_a_text(bothways: Command, classifier: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.txt"
    file.write_text("a great, great film\n\nthe film was dull\n", encoding="utf-8")
    words = ("predict", "--model", classifier, "--input", file)
    assert "lines: each is a text" in bothways.fails(*words)
    lines = bothways(*words, "--format", "lines").lines
    assert [line["line"] for line in lines] == [1, 2, 3]
    results = label_results(load(classifier).predict(file.read_text("utf-8").splitlines()))
    assert [line["label"] for line in lines] == [result.label for result in results]


def test_what_is_cut_is_said(bothways: Command, classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "great film " * 30 + "\n", encoding="utf-8")
    words = ["predict", "--model", classifier, "--input", tmp_path / "a.csv"]
    assert "1 of 1 text was cut (38 of 60 tokens, 63.3 %, at the tail)" in bothways(*words).err
    # 18 tokens a window, of which 5 are those before: 18 + 4 * 13 is the first that reaches 60.
    assert "5 windows" in bothways(*words, "--policy", "windows", "--max-length", "20").err
    assert "at the head" in bothways(*words, "--policy", "tail").err


def test_outputs_and_inputs_that_cannot_be(
    bothways: Command, classifier: Path, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("mine", encoding="utf-8")
    words = ["predict", "--model", classifier, "--input", examples / "test.csv"]
    bothways.fails(*words, "--output", output, parts=["out.jsonl exists", "--overwrite"])
    assert output.read_text(encoding="utf-8") == "mine"
    bothways.fails(*words, "--output", tmp_path, parts=["is a folder"])
    bothways.fails(*words[:-1], tmp_path / "no.csv", parts=["there is no file", "no.csv"])
    bothways.fails(*words, "--text", "body", parts=["--text 'body'", "'text', 'label'"])
    bothways.fails("predict", "--model", tiny, *words[3:], parts=["no head", "finetune"])
    bothways.fails("predict", "--model", tmp_path / "no", *words[3:], parts=[str(tmp_path / "no")])


# --- evaluate -----------------------------------------------------------------------------------


def test_the_json_of_evaluate_is_that_of_the_interface(
    bothways: Command, classifier: Path, examples: Path
) -> None:
    words = ["evaluate", "--model", classifier, "--data", examples / "test.csv"]
    found = bothways(*words, "--json").json
    assert set(found) == {"task", "model", "data", "count", "metrics", "ledger", "seconds"}
    assert (found["task"], found["count"]) == ("classify", 24)
    assert found["data"] == str(examples / "test.csv")
    assert {"accuracy", "f1_macro", "f1_micro"} <= set(found["metrics"])
    for metric in found["metrics"].values():
        assert set(metric) == {"value", "low", "high"}
        assert metric["low"] <= metric["value"] <= metric["high"]
    assert set(found["ledger"]) == LEDGER_KEYS


def test_evaluate_counts_what_predict_predicts(
    bothways: Command, classifier: Path, examples: Path, predicted: list[dict[str, Any]]
) -> None:
    words = ["evaluate", "--model", classifier, "--data", examples / "test.csv", "--json"]
    accuracy = bothways(*words).json["metrics"]["accuracy"]["value"]
    truth = [row["label"] for row in rows_of(examples / "test.csv")]
    right = sum(line["label"] == label for line, label in zip(predicted, truth, strict=True))
    assert accuracy == right / 24


def test_evaluate_tells_a_person_and_writes_a_report(
    bothways: Command, classifier: Path, examples: Path, tmp_path: Path
) -> None:
    words = ["evaluate", "--model", classifier, "--data", examples / "test.csv"]
    words += ["--train", examples / "train.csv", "--report", tmp_path / "report"]
    told = bothways(*words).out
    assert "accuracy" in told
    assert "majority" in told
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert written == {"report.json", "report.md", "report.html"}
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert {"bag_of_words", "majority"} <= set(report["baselines"])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("text,label\ngreat,good\nfine,splendid\n", ["line 3", "'splendid'", "bad, good"]),
        ("text,label\ngreat,good\nfine,\n", ["line 3", "without a label"]),
        ("text,category\ngreat,good\n", ["'label'", "'category'"]),
        ("text,label\n", ["no rows"]),
    ],
)
def test_data_that_cannot_be_judged_is_refused(
    content: str, parts: list[str], bothways: Command, classifier: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    words = ["evaluate", "--model", classifier, "--data", tmp_path / "a.csv", "--label", "label"]
    bothways.fails(*words, parts=[*parts, "a.csv"])


def test_an_untrained_encoder_is_not_judged(bothways: Command, tiny: Path, examples: Path) -> None:
    words = ["evaluate", "--model", tiny, "--data", examples / "test.csv"]
    bothways.fails(*words, parts=["no head for a task", "bothways finetune"])


# --- what fine-tuning was told holds again --------------------------------------------------------


@pytest.fixture(scope="module")
def german(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model trained on a file that needs every flag, and that file."""
    from bothways.cli.main import main
    from tests.cli.command import undisturbed

    folder = tmp_path_factory.mktemp("german")
    lines = [f'x\tthe film was {w} \xfc"\tgut' for w in ("great", "fine", "lovely", "bright")]
    lines += [f'x\tthe film was {w} \xfc"\tschlecht' for w in ("awful", "dull", "poor", "bleak")]
    file = folder / "data"
    file.write_bytes("\n".join(lines * 4).encode("latin-1"))
    words = ["finetune", "--model", str(tiny), "--train", str(file), "--learning-rate", "2e-2"]
    words += ["--output", str(folder / "model"), "--batch-size", "8", "--epochs", "8"]
    words += ["--format", "tsv", "--encoding", "latin-1", "--no-header", "--no-quoting"]
    words += ["--text", "2", "--label", "3", "--pooling", "mean"]
    with undisturbed():
        assert main(words) == 0
    return folder / "model", file


def test_columns_format_and_encoding_of_training_hold_again(
    bothways: Command, german: tuple[Path, Path]
) -> None:
    model, file = german
    judged = bothways("evaluate", "--model", model, "--data", file, "--json").json
    assert judged["count"] == 32
    assert judged["metrics"]["accuracy"]["value"] > 0.9
    lines = bothways("predict", "--model", model, "--input", file).lines
    assert [lines[at]["label"] for at in (0, 7)] == ["gut", "schlecht"]
    assert lines[0]["line"] == 1


def test_flags_overrule_what_is_stored(
    bothways: Command, german: tuple[Path, Path], tmp_path: Path
) -> None:
    model, _ = german
    content = 'body,answer\nthe film was great é,gut\n"dull, é",schlecht\n'
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    flags = ["--format", "auto", "--encoding", "utf-8", "--header", "--quoting", "--text", "body"]
    words = ["--model", model, "--label", "answer", *flags]
    found = bothways("evaluate", "--data", tmp_path / "a.csv", *words, "--json").json
    assert found["count"] == 2
    given = ["--model", model, *flags]
    lines = bothways("predict", "--input", tmp_path / "a.csv", *given).lines
    results = label_results(load(model).predict(["the film was great é", "dull, é"]))
    assert [line["label"] for line in lines] == [result.label for result in results]
    assert [line["probability"] for line in lines] == pytest.approx(
        [result.probability for result in results], abs=ROUNDING
    )
    bothways.fails(
        *("predict", "--input", tmp_path / "a.csv", "--model", model, "--encoding", "utf-8"),
        parts=[
            "a.csv has no column --text '2'",
            (
                "files are read as the model's training data were: --format tsv --encoding latin-1 "
                "--no-header --no-quoting --text 2 --label 3. For another one give --format auto"
            ),
        ],
    )


def test_lengths_and_what_is_kept_hold_again(
    bothways: Command, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    """A report that nobody can repeat: judged on another part of each text than predicted from."""
    words = ["finetune", "--model", tiny, "--train", examples / "train.csv", "--epochs", "1"]
    words += ["--test", examples / "test.csv", "--max-length", "6", "--policy", "tail", "--json"]
    found = bothways(*words, "--output", tmp_path / "model").json
    judged = bothways(
        "evaluate", "--model", tmp_path / "model", "--data", examples / "test.csv", "--json"
    ).json
    assert judged["metrics"] == found["metrics"]
    assert judged["ledger"]["end"] == "head"
    assert judged["ledger"]["tokens_cut"] > 0
    policy = load(tmp_path / "model").policy()
    assert (policy.max_length, policy.keep) == (6, "tail")
