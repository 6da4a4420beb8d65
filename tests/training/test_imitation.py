"""What a student minimises: each part by hand, and parts of a step that add up."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.checkpoints.parts import Parts, adapt, new_head, new_parts
from bothways.data.collate import Source, collate
from bothways.model.layout import Batch
from bothways.model.windows import WindowAttentionHead
from bothways.tasks.answer import AnswerTask
from bothways.tasks.choice import ChoiceTask
from bothways.tasks.classify import ClassifyTask
from bothways.tasks.embed import EmbedTask
from bothways.tasks.multi_label import MultiLabelTask
from bothways.tasks.regress import RegressTask
from bothways.tasks.rerank import RerankTask
from bothways.tasks.tag import TagTask
from bothways.training.imitation import SOFT, ImitatedMaskedLM, ImitatedTask, ImitationSettings
from bothways.training.masked_lm import MASKED, ORIGINALS, MaskedLMObjective
from tests.contracts.cases import CASES, make_encoder
from tests.tasks.tiny import encoding
from tests.training.masks import masked_batch
from tests.training.test_masked_lm import LENGTHS, masked_parts, without_dropout

T = 2.5
# float32, summed in another order.
SAME = 1e-5
WEIGHTS = ImitationSettings(T, 0.5, 2.0, 3.0)


def batch_of(targets: dict[str, Tensor], windows: list[int]) -> Batch:
    """Texts of so many windows each, of growing length."""
    sources = [
        Source(text, window, encoding(3 + text + window), None)
        for text, count in enumerate(windows)
        for window in range(count)
    ]
    return collate(sources, targets)


def soft(task: Any, student: Tensor, teacher: Tensor, batch: Batch) -> float:
    return SOFT[task.name][0](student, teacher, batch, T, task).item()


def drawn(*shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def by_hand(student: Tensor, teacher: Tensor) -> float:
    """T^2 sum p (log p - log q) of softmaxes over the last dimension."""
    p, q = (teacher / T).softmax(-1), (student / T).softmax(-1)
    return (T * T * (p * (p.log() - q.log())).sum()).item()


def test_labels_are_compared_by_softmax() -> None:
    student, teacher = drawn(3, 4)
    task = ClassifyTask(labels=("a", "b", "c", "d"))
    found = soft(task, student, teacher, batch_of({}, [1, 1, 1]))
    assert found == pytest.approx(by_hand(student, teacher), rel=SAME)
    assert soft(task, teacher, teacher, batch_of({}, [1, 1, 1])) == pytest.approx(0, abs=SAME)


def test_windows_of_a_text_are_compared_together() -> None:
    student, teacher = drawn(3, 4)
    task = ClassifyTask(labels=("a", "b", "c", "d"))
    batch = batch_of({}, [2, 1])
    first = [(logits[:2] / T).softmax(-1).mean(0) for logits in (student, teacher)]
    expected = float(T * T * (first[1] * (first[1].log() - first[0].log())).sum())
    expected += by_hand(student[2:], teacher[2:])
    assert soft(task, student, teacher, batch) == pytest.approx(expected, rel=SAME)
    assert SOFT["classify"][1](batch) == 2


def test_sets_of_labels_are_compared_by_sigmoid() -> None:
    student, teacher = drawn(2, 3)
    both = [torch.stack([logits, torch.zeros_like(logits)], -1) for logits in (student, teacher)]
    found = soft(MultiLabelTask(labels=("a", "b", "c")), student, teacher, batch_of({}, [1, 1]))
    assert found == pytest.approx(by_hand(*both), rel=SAME)


def test_tags_are_compared_where_a_token_speaks_for_a_word() -> None:
    student, teacher = drawn(7, 3)
    tag = torch.tensor([-100, 0, 1, -100, -100, 2, -100])
    batch = batch_of({"tag": tag}, [1, 1])
    rows = tag >= 0
    found = soft(TagTask(labels=("O", "B", "I")), student, teacher, batch)
    assert found == pytest.approx(by_hand(student[rows], teacher[rows]), rel=SAME)
    assert SOFT["tag"][1](batch) == 3


def test_answers_are_compared_over_the_places_they_may_have() -> None:
    student, teacher = drawn(7, 2)
    may = torch.tensor([True, False, True, True, False, True, True])
    batch = batch_of({"may_answer": may}, [1, 1])
    expected = 0.0
    for rows in ([0, 2], [3, 5, 6]):
        for side in (0, 1):
            expected += by_hand(student[rows, side], teacher[rows, side]) / 2
    assert soft(AnswerTask(), student, teacher, batch) == pytest.approx(expected, rel=SAME)


def test_choices_are_compared_within_their_question() -> None:
    student, teacher = drawn(5, 1)
    expected = by_hand(student[:3, 0], teacher[:3, 0]) + by_hand(student[3:, 0], teacher[3:, 0])
    found = soft(ChoiceTask(), student, teacher, batch_of({}, [3, 2]))
    assert found == pytest.approx(expected, rel=SAME)


def test_numbers_are_compared_by_their_distance() -> None:
    student, teacher = drawn(3, 1)
    batch = batch_of({}, [2, 1])
    (mean, mean_), (best, best_) = (
        [f(x[:2]) for x in (student, teacher)] for f in (torch.mean, torch.max)
    )
    rest = (student[2] - teacher[2]).square()
    expected = float((mean - mean_).square() + rest)
    assert soft(RegressTask(), student, teacher, batch) == pytest.approx(expected, rel=SAME)
    expected = float((best - best_).square() + rest)
    assert soft(RerankTask(), student, teacher, batch) == pytest.approx(expected, rel=SAME)


def test_vectors_are_compared_by_their_angle() -> None:
    student, teacher = drawn(3, 6)
    expected = float(3 - F.cosine_similarity(student, teacher).sum())
    found = soft(EmbedTask(), student, teacher, batch_of({}, [1, 1, 1]))
    assert found == pytest.approx(expected, rel=SAME)


# --- whole objectives -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier() -> tuple[Parts, Parts, ClassifyTask]:
    """A student of one layer fewer, its teacher and their task; no dropout."""
    config = CASES["bert"]
    off = dataclasses.replace(config.dropout, hidden=0.0, attention=0.0, classifier=0.0)
    made = []
    for seed, depth in ((3, 1), (4, 2)):
        own = dataclasses.replace(config, num_layers=depth, dropout=off)
        parts = new_parts(own, encoder=make_encoder(own, dtype=torch.float32, seed=seed))
        made.append(adapt(parts, new_head(parts, "sequence", 3), labels="abc").trained())
    return made[0], made[1], ClassifyTask(labels=("a", "b", "c"))


def labelled(texts: list[int]) -> Batch:
    sources = [Source(text, 0, encoding(3 + text), None) for text in texts]
    return collate(sources, {"label": torch.tensor([text % 3 for text in texts])})


def test_the_parts_of_a_task_by_hand(classifier: tuple[Parts, Parts, ClassifyTask]) -> None:
    student, teacher, task = classifier
    objective = ImitatedTask(student, task, teacher, WEIGHTS)
    batch = labelled([0, 1, 2, 3])
    found = objective(batch)
    outputs = [parts.encoder(batch) for parts in (student, teacher)]
    assert student.head is not None
    assert teacher.head is not None
    logits = [student.head(outputs[0], batch), teacher.head(outputs[1], batch)]
    hard = F.cross_entropy(logits[0], batch.targets["label"], reduction="sum")
    hidden = (1 - F.cosine_similarity(outputs[0].last_hidden, outputs[1].last_hidden)).sum()
    expected = [hard.item(), by_hand(*logits), hidden.item()]
    assert found.tolist() == pytest.approx(expected, rel=SAME, abs=SAME)
    assert [part.weight for part in objective.parts] == [0.5, 2.0, 3.0]
    assert objective.counts(batch) == (4, 4, batch.layout.num_tokens)


def test_without_states_the_rest_is_the_same(
    classifier: tuple[Parts, Parts, ClassifyTask],
) -> None:
    """Then the last layer is computed for the first tokens alone."""
    student, teacher, task = classifier
    batch = labelled([0, 1, 2])
    without = ImitatedTask(student, task, teacher, dataclasses.replace(WEIGHTS, hidden_weight=0.0))(
        batch
    )
    whole = ImitatedTask(student, task, teacher, WEIGHTS)(batch)
    assert without.tolist() == pytest.approx([*whole[:2].tolist(), 0.0], rel=SAME, abs=SAME)


def test_parts_of_a_step_add_up(classifier: tuple[Parts, Parts, ClassifyTask]) -> None:
    student, teacher, task = classifier
    objective = ImitatedTask(student, task, teacher, WEIGHTS)
    whole = objective(labelled([0, 1, 2, 3]))
    halves = objective(labelled([0, 2])) + objective(labelled([1, 3]))
    assert halves.tolist() == pytest.approx(whole.tolist(), rel=SAME, abs=SAME)


def test_the_teacher_is_not_trained(classifier: tuple[Parts, Parts, ClassifyTask]) -> None:
    student, teacher, task = classifier
    objective = ImitatedTask(student, task, teacher, WEIGHTS)
    own = {id(p) for p in (*student.encoder.parameters(), *student.head.parameters())}  # type: ignore[union-attr]
    assert {id(p) for p in objective.parameters()} == own
    torch.autograd.backward(objective.train()(labelled([0, 1])).sum())
    assert not teacher.encoder.training
    assert all(p.grad is None for p in teacher.encoder.parameters())
    assert all(p.grad is not None for p in student.encoder.parameters())


def test_window_attention_heads_are_compared_too(
    classifier: tuple[Parts, Parts, ClassifyTask],
) -> None:
    student, teacher, task = classifier
    task = dataclasses.replace(task, window_pooling="attention")
    made = [
        adapt(parts, WindowAttentionHead(24, 3, pooling="cls", dropout=0.0))
        for parts in (student, teacher)
    ]
    batch = batch_of({"label": torch.tensor([0, 0, 1])}, [2, 1])
    found = ImitatedTask(made[0], task, made[1], WEIGHTS)(batch)
    assert found[1] > 0
    same = ImitatedTask(made[0], task, made[0], WEIGHTS)(batch)
    assert same[1:].tolist() == pytest.approx([0.0, 0.0], abs=SAME)


def test_the_parts_of_masked_text_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    student, teacher = (masked_parts(without_dropout("tiny"), seed=seed) for seed in (0, 1))
    batch = masked_batch(student.config, LENGTHS)
    assert student.masked_lm is not None
    objective = ImitatedMaskedLM(student.encoder, student.masked_lm, teacher, WEIGHTS).eval()
    assert teacher.masked_lm is not None
    states = [parts.encoder(batch).last_hidden for parts in (student, teacher)]
    masked, originals = batch.targets[MASKED], batch.targets[ORIGINALS]
    logits = [
        parts.masked_lm.output(parts.masked_lm.features(rows[masked]))  # type: ignore[union-attr]
        for parts, rows in zip((student, teacher), states, strict=True)
    ]
    plain = MaskedLMObjective(student.encoder, student.masked_lm).eval()(batch)
    hidden = (1 - F.cosine_similarity(*states)).sum()
    expected = [*plain.tolist(), by_hand(*logits), hidden.item()]
    assert objective(batch).tolist() == pytest.approx(expected, rel=SAME)
    count = len(originals)
    assert objective.counts(batch) == (count, count, count, batch.layout.num_tokens)
    # In chunks of one row, with the gradients of the whole.
    torch.autograd.backward(objective(batch).sum())
    slopes = {n: p.grad.clone() for n, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    monkeypatch.setattr("bothways.training.imitation.CHUNK_LOGITS", 1)
    found = objective(batch)
    assert found.tolist() == pytest.approx(expected, rel=SAME)
    torch.autograd.backward(found.sum())
    for name, parameter in objective.named_parameters():
        if name in slopes:
            assert parameter.grad is not None
            assert torch.allclose(parameter.grad, slopes[name], atol=SAME, rtol=1e-4)
