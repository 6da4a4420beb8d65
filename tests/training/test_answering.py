"""Answers from files to a folder and back: the same from Python, the command line and judging."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bothways.config import CommonSettings
from bothways.data.readers import read_rows
from bothways.evaluation.evaluate import evaluate
from bothways.inference.model import load
from bothways.tasks.answer import AnswerTask, answer_results
from bothways.tasks.results import AnswerResult
from bothways.training.finetune import finetune
from bothways.training.settings import (
    DataSettings,
    FinetuneSettings,
    LoopSettings,
    OptimSettings,
)
from bothways.training.task_tables import AnswerSettings
from tests.cli.command import Command
from tests.training.tiny import BAD, GOOD, PLAIN

# float32 logits of two implementations, which add in another order.
ATOL = 1e-5


def write_squad(path: Path, paragraphs: int, *, seed: int, without: bool) -> Path:
    """Stories with one good word, which is what is asked for; or asked for a bad one in vain."""
    draw = random.Random(seed)
    blocks = []
    for number in range(paragraphs):
        words = draw.choices(PLAIN, k=draw.randint(6, 30))
        words[draw.randrange(len(words))] = answer = draw.choice(GOOD)
        context = " ".join(words)
        start = context.index(answer)
        qas: list[dict[str, Any]] = [
            {
                "id": f"{number}-good",
                "question": "was it " + draw.choice(GOOD),
                "answers": [{"text": answer, "answer_start": start}],
                "is_impossible": False,
            }
        ]
        if without:
            question = "was it " + draw.choice(BAD)
            qas.append(
                {"id": f"{number}-bad", "question": question, "answers": [], "is_impossible": True}
            )
        blocks.append({"context": context, "qas": qas})
    path.write_text(json.dumps({"data": [{"title": "films", "paragraphs": blocks}]}, indent=1))
    return path


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of questions with and without an answer, and the files it was made from."""
    files = tmp_path_factory.mktemp("answers")
    write_squad(files / "train.json", 60, seed=0, without=True)
    write_squad(files / "test.json", 15, seed=1, without=True)
    finetune(
        FinetuneSettings(
            str(tiny_model),
            files / "model",
            DataSettings(files / "train.json", dev_share=0.2, test=files / "test.json"),
            task="answer",
            optim=OptimSettings(learning_rate=(1e-2,)),
            loop=LoopSettings(epochs=8, batch_size=4),
            answer=AnswerSettings(max_answer_length=5),
            common=CommonSettings(device="cpu"),
        )
    )
    return files


def test_it_learns_and_says_how_well_beside_its_baselines(folder: Path) -> None:
    report = json.loads((folder / "model" / "report.json").read_text())
    found = {name: metric["value"] for name, metric in report["metrics"].items()}
    assert set(found) == {"exact_match", "f1", "f1_has_answer", "f1_no_answer"}
    assert found["f1"] > 0.9
    assert set(report["baselines"]) == {"likeliest_sentence", "no_answer"}
    assert report["baselines"]["no_answer"]["f1"]["value"] == 0.5
    assert report["baselines"]["no_answer"]["f1_has_answer"]["value"] == 0.0
    assert {table["name"] for table in report["tables"]} >= {"answer_lengths"}
    assert report["ledger"]["windows"] > 0
    assert report["ledger"]["tokens_cut"] == report["ledger"]["targets_cut"] == 0
    stored = json.loads((folder / "model" / "bothways.json").read_text())
    assert stored["policy"] == "windows"
    assert stored["overlap"] == 6  # a quarter of 24
    assert stored["task"]["max_answer_length"] == 5
    assert isinstance(stored["task"]["threshold"], float)


def test_python_commands_and_judging_agree(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command, test = Command(capsys), folder / "test.json"
    model = load(folder / "model")
    assert isinstance(model.task, AnswerTask)
    examples = model.task.read(read_rows(test))
    results = answer_results(model.predict([(e.question, e.context) for e in examples]))
    for example, result in zip(examples, results, strict=True):
        assert example.context[result.start : result.end] == result.text
    alone = [answer_results(model.predict([(e.question, e.context)]))[0] for e in examples[:5]]
    assert [each.text for each in alone] == [each.text for each in results[:5]]

    told = command("predict", "--model", folder / "model", "--input", test, "--n-best", 2)
    for line, example, result in zip(told.lines, examples, results, strict=True):
        assert example.place.endswith(f"line {line['line']}")
        assert line["id"].endswith(("-good", "-bad"))
        assert {**line, "alternatives": ()} == {
            "line": line["line"],
            "id": line["id"],
            **vars(result),
        }
        assert [each["probability"] for each in line["alternatives"]] == sorted(
            (each["probability"] for each in line["alternatives"]), reverse=True
        )
        assert len(line["alternatives"]) == 2

    judged = command("evaluate", "--model", folder / "model", "--data", test, "--json").json
    metrics = model.task.metrics(results, examples)
    assert {name: each["value"] for name, each in judged["metrics"].items()} == metrics
    again = evaluate(model, test)
    assert {name: each.value for name, each in again.metrics.items()} == metrics
    stored = json.loads((folder / "model" / "report.json").read_text())["metrics"]
    assert {name: each["value"] for name, each in stored.items()} == metrics

    rows = [
        {
            "question": e.question,
            "context": e.context,
            "answers": [{"text": a.text, "answer_start": a.start} for a in e.answers or ()],
        }
        for e in examples
    ]
    (tmp_path / "same.jsonl").write_text("\n".join(map(json.dumps, rows)))
    same = evaluate(model, tmp_path / "same.jsonl")
    assert {name: each.value for name, each in same.metrics.items()} == metrics


def test_transformers_reads_the_head_and_gives_the_same_logits(folder: Path) -> None:
    model = load(folder / "model")
    assert (
        model.parts.in_transformers() == "in transformers: BertForQuestionAnswering, same numbers"
    )
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(folder / "model").eval()
    assert type(theirs).__name__ == "BertForQuestionAnswering"
    padded = model.tokenizer.padded(["was it great"], ["the film was lovely"])
    with torch.no_grad():
        expected = theirs(**padded)
    # The same through `decode`: with these logits the best span by hand is the one predicted.
    task = AnswerTask(max_answer_length=5, n_best=50, trained=True)
    model.task = task
    (result,) = answer_results(model.predict([("was it great", "the film was lovely")]))
    starts, ends = expected.start_logits[0, 5:9].double(), expected.end_logits[0, 5:9].double()
    scores = {
        (first, last): float(starts[first] + ends[last])
        for first in range(4)
        for last in range(first, 4)
    }
    nothing = float(expected.start_logits[0, 0] + expected.end_logits[0, 0])
    total = torch.tensor([*scores.values(), nothing], dtype=torch.float64).logsumexp(0)
    assert len(result.alternatives) == len(scores)
    spans = ["the", "film", "was", "lovely"]
    for (first, last), score in scores.items():
        text = " ".join(spans[first : last + 1])
        (found,) = [each for each in result.alternatives if each.text == text]
        assert found.probability == pytest.approx(float((score - total).exp()), abs=ATOL)
    assert result.no_answer == pytest.approx(float((nothing - total).exp()), abs=ATOL)


def test_a_published_head_answers_without_being_told(folder: Path, tmp_path: Path) -> None:
    saved = transformers.AutoModelForQuestionAnswering.from_pretrained(folder / "model")
    saved.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / "model" / name).read_bytes())
    model = load(tmp_path)
    assert model.task == AnswerTask(trained=True)
    assert model.policy().keep == "windows"
    mine = load(folder / "model")
    mine.task = model.task
    pairs = [("was it great", "the film was lovely and it ended " * 6)]
    assert list(model.predict(pairs)) == list(mine.predict(pairs))


def test_an_empty_context_has_no_answer_and_is_counted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """transformers#14277, #18719."""
    results = load(folder / "model").predict([("was it great", ""), ("was it great", "it was")])
    assert results[0] == AnswerResult("", 0, 0, 1.0, 1.0)
    assert "1 of 2 contexts is empty" in caplog.text


def test_training_without_unanswerable_questions_always_answers(
    folder: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write_squad(tmp_path / "train.json", 12, seed=2, without=False)
    words = ["finetune", "--task", "answer", "--model", tiny_model, "--train", train, "--output"]
    words += [tmp_path / "m", "--dev-share", 0.2, "--epochs", 1, "--device", "cpu"]
    command = Command(capsys)
    assert set(command(*words, "--json").json["metrics"]) == {"exact_match", "f1"}
    model = load(tmp_path / "m")
    assert all(result.text for result in answer_results(model.predict([("was it dull", "it was")])))
    command.fails(*words, "--overwrite", "--metric", "f1_no_answer", code=2, parts=["exact_match"])
    command.fails(*words, "--overwrite", "--overlap", 20, parts=["leave no room for their context"])
    command.fails(*words, "--overwrite", "--overlap", 24, code=2, parts=["overlap is 24"])
    damaged = train.read_text().replace('"answer_start": ', '"answer_start": 1')
    train.write_text(damaged)
    command.fails(*words, "--overwrite", parts=["do not stand", "train.json, line ", "--drop-"])
