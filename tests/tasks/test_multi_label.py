"""Several labels a text: reading, thresholds, loss, and what others make of the folder."""

from __future__ import annotations

import csv
import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForSequenceClassification

from bothways.data.collate import Source, collate
from bothways.data.readers import read_rows
from bothways.data.rows import Row
from bothways.errors import CheckpointError, DataError, TaskError, UsageError
from bothways.evaluation.evaluate import evaluate
from bothways.inference.model import load
from bothways.tasks.label_sets import MultiLabelExample, label_set, label_set_results
from bothways.tasks.multi_label import MultiLabelTask
from bothways.tasks.registry import task_from_state
from bothways.tasks.results import LabelSetResult, ScoreResult
from bothways.tokenization.encoding import Encoding
from bothways.training.finetune import finetune
from bothways.training.settings import FinetuneSettings
from bothways.training.task_tables import ClassifySettings
from tests.cli.command import Command
from tests.training.tiny import BAD, GOOD, PLAIN, save_tiny_model, settings_for

# Two implementations of the same numbers in float32.
SINGLE = 1e-5


def rows(*labels: str) -> list[Row]:
    return [Row({"text": "a", "label": cell}, "a.csv", n) for n, cell in enumerate(labels, 2)]


def fitted(*sets: tuple[str, ...]) -> MultiLabelTask:
    return MultiLabelTask().fit([MultiLabelExample("a", labels=labels) for labels in sets])


def test_cells_and_lists_become_sets(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(
        '{"text": "a", "label": ["x", "y;z"]}\n{"text": "b", "label": []}\n'
        '{"text": "c", "label": "x; y"}\n{"text": "d", "label": [1, 2.50]}\n',
        encoding="utf-8",
    )
    examples = MultiLabelTask().read(read_rows(file))
    assert [e.labels for e in examples] == [("x", "y;z"), (), ("x", "y"), ("1", "2.50")]
    assert label_set("[odd] name|b", "|") == ("[odd] name", "b")


def test_an_empty_cell_is_no_label_and_a_missing_one_is_refused() -> None:
    assert MultiLabelTask().read(rows("x", ""))[1].labels == ()
    broken = [*rows("x"), Row({"text": "a"}, "a.csv", 9)]
    with pytest.raises(DataError, match=r"a\.csv, line 9"):
        MultiLabelTask().read(broken)


def test_unknown_labels_are_one_error_with_their_lines() -> None:
    with pytest.raises(DataError, match=r"does not have: 2\n  a\.csv, line 2: 'xx'"):
        fitted(("x",), ("y",)).read(rows("xx;y", "x", "z"))


def test_a_separator_that_separates_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        fitted(("x|y",), ("z",))
    assert "--label-separator" in caplog.text
    with pytest.raises(UsageError, match="--label-separator is ' '"):
        MultiLabelTask(label_separator=" ")


def test_no_label_anywhere_is_refused() -> None:
    with pytest.raises(DataError, match="none of 2 training examples has a label"):
        fitted((), ())


def test_thresholds_decide_and_are_tuned_label_by_label() -> None:
    task = fitted(("x",), ("y",))
    probabilities = np.array([[0.3, 0.9], [0.1, 0.7], [0.05, 0.2]])
    results = [task.result(row) for row in probabilities]
    assert [result.labels for result in results] == [("y",), ("y",), ()]
    truth = [MultiLabelExample("a", labels=labels) for labels in (("x", "y"), (), ())]
    tuned = task.tuned(results, truth)
    assert tuned.thresholds == pytest.approx((0.2, 0.8))
    assert [tuned.result(row).labels for row in probabilities] == [("x", "y"), (), ()]
    assert task_from_state(json.loads(json.dumps(tuned.state()))) == tuned
    with pytest.raises(CheckpointError, match="1 thresholds are stored for 2 labels"):
        MultiLabelTask.from_state(tuned.state() | {"thresholds": [0.5]})


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_windows_are_one_text_and_the_loss_is_that_of_their_probability(pooling: str) -> None:
    task = MultiLabelTask(labels=("x", "y"), window_pooling=pooling)  # type: ignore[arg-type]
    piece = Encoding([5] * 2, [0] * 2, [(0, 0)] * 2, [None] * 2, [False] * 2)
    sources = [Source(0, 0, piece), Source(0, 1, piece), Source(1, 0, piece)]
    examples = [MultiLabelExample("a", labels=("x",)), MultiLabelExample("b", labels=())]
    batch = collate(sources, task.targets(examples, sources))
    logits = torch.tensor([[2.0, -1.0], [0.0, 1.0], [0.5, 0.5]])
    windows = logits[:2].sigmoid()
    first = windows.mean(0) if pooling == "mean" else windows.amax(0)
    expected = torch.stack([first, logits[2].sigmoid()])
    results = label_set_results(task.decode(logits, batch))
    found = torch.tensor([list(result.probabilities.values()) for result in results])
    torch.testing.assert_close(found, expected, rtol=0, atol=SINGLE)
    total, count = task.loss(logits, batch)
    truth = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(total, 2 * F.binary_cross_entropy(expected, truth))
    assert count == 2


def test_other_results_are_refused() -> None:
    with pytest.raises(TaskError, match="1 of 2 results are not sets"):
        label_set_results([LabelSetResult((), {}), ScoreResult(0.5)])


# --- the whole way ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[FinetuneSettings, Path]:
    """A model that tells whether a text praises, blames, both or neither."""
    folder = tmp_path_factory.mktemp("sets")
    model = save_tiny_model(folder / "model")
    for name, seed in (("train", 0), ("dev", 1)):
        random = np.random.default_rng(seed)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for number in range(64):
                kinds = [("good", GOOD), ("bad", BAD)]
                chosen = [kind for place, kind in enumerate(kinds) if number >> place & 1]
                words = [*random.choice(PLAIN, 4), *(random.choice(kind) for _, kind in chosen)]
                writer.writerow([" ".join(words), ";".join(name for name, _ in chosen)])
    settings = settings_for(
        model,
        folder,
        folder / "out",
        loop={"epochs": 10},
        optim={"learning_rate": (5e-3,)},
        network={"pooling": "auto"},
        classify=ClassifySettings(multi_label=True),
    )
    finetune(settings)
    return settings, folder


def test_it_learns_and_is_judged_beside_its_baselines(
    trained: tuple[FinetuneSettings, Path],
) -> None:
    settings, folder = trained
    report = evaluate(load(settings.output), folder / "dev.csv", train=folder / "train.csv")
    assert report.metrics["average_precision"].value > 0.9
    assert report.metrics["average_precision"].low is not None
    assert set(report.baselines) == {"bag_of_words", "majority"}
    (table,) = [table for table in report.tables if table.name == "labels"]
    assert table.columns[-2:] == ("average precision", "threshold")
    assert [finding.question for finding in report.findings].count("errors") == 1


def test_the_problem_type_and_thresholds_travel_with_the_head(
    trained: tuple[FinetuneSettings, Path],
) -> None:
    """transformers#10232, #38219: softmax instead of sigmoid, guessed from the number of labels."""
    settings, _ = trained
    config = json.loads((settings.output / "config.json").read_text(encoding="utf-8"))
    stored = json.loads((settings.output / "bothways.json").read_text(encoding="utf-8"))
    assert config["problem_type"] == stored["task"]["problem_type"] == "multi_label_classification"
    assert len(stored["task"]["thresholds"]) == 2
    (both, neither) = load(settings.output).predict(
        ["the film was long dull great", "the film was long"]
    )
    assert isinstance(both, LabelSetResult)
    assert abs(sum(both.probabilities.values()) - 1.0) > 0.05  # no softmax
    assert isinstance(neither, LabelSetResult)
    assert neither.labels == ()


def test_transformers_gives_the_same_probabilities(
    trained: tuple[FinetuneSettings, Path],
) -> None:
    settings, folder = trained
    theirs = AutoModelForSequenceClassification.from_pretrained(settings.output).eval()
    assert theirs.config.problem_type == "multi_label_classification"
    text = "great film dull story"
    model = load(settings.output)
    with torch.no_grad():
        expected = theirs(**model.tokenizer.padded([text])).logits[0].sigmoid()
    (found,) = label_set_results(model.predict([text]))
    torch.testing.assert_close(
        torch.tensor(list(found.probabilities.values())), expected, rtol=0, atol=SINGLE
    )
    # A folder of others says it with its config.json alone.
    (settings.output / "bothways.json").rename(folder / "aside.json")
    try:
        alone = load(settings.output)
        assert isinstance(alone.task, MultiLabelTask)
        assert label_set_results(alone.predict([text]))[0].probabilities == found.probabilities
    finally:
        (folder / "aside.json").rename(settings.output / "bothways.json")


def test_the_commands_predict_and_evaluate_sets(
    trained: tuple[FinetuneSettings, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    settings, folder = trained
    command = Command(capsys)
    lines = command("predict", "--model", settings.output, "--input", folder / "dev.csv", "--json")
    assert set(lines.lines[0]) == {"line", "labels", "probabilities"}
    found = command("evaluate", "--model", settings.output, "--data", folder / "dev.csv", "--json")
    assert set(found.json["metrics"]) == set(MultiLabelTask.metric_directions)
