"""Encoding, loss, decoding and judging of answers."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from bothways.data.collate import Source, collate
from bothways.errors import DataError, TaskError, UsageError
from bothways.model.layout import Batch
from bothways.tasks.answer import AnswerTask, answer_results
from bothways.tasks.answer_pieces import context_pieces, pieces_of
from bothways.tasks.answer_reading import Answer, AnswerExample
from bothways.tasks.results import AnswerResult, AnswerSpan, LabelResult
from bothways.tokenization.encoding import Encoding
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

QUESTION = "Who saw the river?"  # 5 pieces
# 40 words, each one piece: number 17 is the answer.
WORDS = ["one", "two", "three", "four"] * 10
WORDS[17] = "Ann"
CONTEXT = " ".join(WORDS)
ANN = Answer("Ann", CONTEXT.index("Ann"))
EXAMPLE = AnswerExample(QUESTION, CONTEXT, (ANN,))
# Room for 3 special pieces, the question and 12 pieces of context, of which 4 are shared.
POLICY = CutPolicy(20, "windows", 4)


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    return load_tokenizer(minilm)


def covered(window: Encoding) -> list[int]:
    """Words of the context that a window holds."""
    return [word for place in context_pieces(window) if (word := window.words[place]) is not None]


def test_windows_slide_over_the_context_and_share_exactly_the_overlap(tokenizer: Tokenizer) -> None:
    """transformers#22391, #18160: `stride` meant overlap; here overlap is what it says."""
    windows = AnswerTask().encode(EXAMPLE, tokenizer, POLICY)
    question = windows[0].ids[1:6]
    assert tokenizer.tokens(question) == ["who", "saw", "the", "river", "?"]
    assert all(window.ids[1:6] == question for window in windows)
    parts = [covered(window) for window in windows]
    assert [len(part) for part in parts] == [12, 12, 12, 12, 8]
    assert all(left[-4:] == right[:4] for left, right in pairwise(parts))
    assert sorted({word for part in parts for word in part}) == list(range(40))


def test_a_question_longer_than_its_context_is_not_cut(tokenizer: Tokenizer) -> None:
    long = AnswerExample("Who saw the river, the hill and the sea again?", "one two three four")
    (kept,) = AnswerTask().encode(long, tokenizer, CutPolicy(16, "head"))
    whole = ["who", "saw", "the", "river", ",", "the", "hill", "and", "the", "sea", "again", "?"]
    assert tokenizer.tokens(kept.ids[1:13]) == whole
    assert covered(kept) == [0]
    windows = AnswerTask().encode(long, tokenizer, CutPolicy(17, "windows", 0))
    assert [covered(window) for window in windows] == [[0, 1], [2, 3]]


def test_questions_without_room_and_large_overlaps_are_refused(tokenizer: Tokenizer) -> None:
    """transformers#18160: too large a stride panicked."""
    examples = [EXAMPLE, replace(EXAMPLE, question="why " * 30, place="a.json, line 7")]
    with pytest.raises(DataError) as raised:
        AnswerTask().encode_all(examples, tokenizer, POLICY)
    message = str(raised.value)
    assert "questions that leave no room for their context: 1" in message
    assert "a.json, line 7: 30 tokens" in message
    assert "a window has 20 tokens: room for 17, of which 4 are shared" in message
    assert "at most 12" in message
    with pytest.raises(DataError, match="of which 12 are shared"):
        AnswerTask().encode_all([EXAMPLE], tokenizer, CutPolicy(20, "windows", 12))
    # A short context needs no second window, so nothing has to move.
    short = [replace(EXAMPLE, context="Ann saw it")]
    AnswerTask().encode_all(short, tokenizer, CutPolicy(20, "windows", 19))


def test_labels_are_right_on_every_window(tokenizer: Tokenizer) -> None:
    """transformers#10682: labels were wrong on overflowing windows."""
    task, batch = AnswerTask(), batch_of([EXAMPLE], tokenizer, POLICY)
    starts, ends = batch.targets["start"].tolist(), batch.targets["end"].tolist()
    for source, start, end in zip(batch.sources, starts, ends, strict=True):
        held = 17 in covered(source.encoding)
        assert (start > 0) == held
        assert start == end
        if held:
            assert tokenizer.tokens(source.encoding.ids[start : end + 1]) == ["ann"]
    # Words 16 to 19 are in two windows.
    assert [start > 0 for start in starts] == [False, True, True, False, False]
    assert task.count(batch) == 5
    # The first piece and the context may be pointed to, the question and the others not.
    assert batch.targets["may_answer"].tolist()[:20] == [True, *[False] * 6, *[True] * 12, False]


def test_an_answer_at_the_cut_is_whole_in_the_next_window(tokenizer: Tokenizer) -> None:
    words = WORDS.copy()
    words[11:13] = ["Ann", "Lee"]  # the first window ends after word 11
    context = " ".join(words)
    answer = Answer("Ann Lee", context.index("Ann Lee"))
    windows = AnswerTask().encode(replace(EXAMPLE, context=context), tokenizer, POLICY)
    places = [pieces_of(window, answer) for window in windows]
    assert [place is not None for place in places] == [False, True, False, False, False]
    held = places[1]
    assert held is not None
    assert tokenizer.tokens(windows[1].ids[held[0] : held[1] + 1]) == ["ann", "lee"]


@pytest.mark.parametrize(
    ("answers", "policy", "lost"),
    [
        ((ANN,), POLICY, 0),
        ((ANN,), CutPolicy(20, "head"), 1),  # the first 12 words
        ((ANN,), CutPolicy(20, "tail"), 1),  # the last 12
        ((ANN,), CutPolicy(26, "head"), 0),  # the first 18
        ((ANN, Answer("one", 0)), CutPolicy(20, "head"), 0),
        ((Answer(CONTEXT, 0),), POLICY, 1),  # longer than any window
        ((Answer(CONTEXT, 0),), CutPolicy(64, "windows", 4), 0),
        ((Answer("Ann", None),), CutPolicy(20, "head"), 0),
        ((), CutPolicy(20, "head"), 0),
        (None, CutPolicy(20, "head"), 0),
    ],
)
def test_answers_that_the_cut_loses_are_counted(
    tokenizer: Tokenizer, answers: tuple[Answer, ...] | None, policy: CutPolicy, lost: int
) -> None:
    _, ledger = AnswerTask().encode_all([replace(EXAMPLE, answers=answers)], tokenizer, policy)
    assert ledger.targets_cut == lost
    assert ("lies in no window whole" in ledger.sentence()) == bool(lost)


def test_answers_longer_than_any_that_is_looked_for_are_counted(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    examples = [
        replace(EXAMPLE, answers=(Answer("one two three", 0), Answer("one two", 0))),
        replace(EXAMPLE, answers=(Answer("one two three", 0),)),
    ]
    AnswerTask(max_answer_length=2).encode_all(examples, tokenizer, CutPolicy(64))
    assert "1 of 2 questions have no answer of at most 2 tokens" in caplog.text


def test_pieces_of_an_answer_inside_words_and_with_space_around(tokenizer: Tokenizer) -> None:
    (window,) = AnswerTask().encode(
        AnswerExample("When?", "In the 1990s, mostly."), tokenizer, CutPolicy(32)
    )

    def held(text: str, start: int) -> list[str]:
        place = pieces_of(window, Answer(text, start))
        assert place is not None
        return tokenizer.tokens(window.ids[place[0] : place[1] + 1])

    assert held("1990", 7) == ["1990s"]
    assert held("the 1990s,", 3) == ["the", "1990s", ","]
    assert held(" 1990s ", 6) == ["1990s"]


def batch_of(examples: list[AnswerExample], tokenizer: Tokenizer, policy: CutPolicy) -> Batch:
    encodings, _ = AnswerTask().encode_all(examples, tokenizer, policy)
    sources = [
        Source(example, number, window, examples[example])
        for example, windows in enumerate(encodings)
        for number, window in enumerate(windows)
    ]
    known = all(example.answers is not None for example in examples)
    return collate(sources, AnswerTask().targets(examples, sources) if known else None)


def test_the_loss_worked_out_by_hand(tokenizer: Tokenizer) -> None:
    # [CLS] why ? [SEP] one ann two [SEP] and [CLS] why ? [SEP] one [SEP]
    examples = [
        AnswerExample("why?", "one Ann two", (Answer("Ann two", 4),)),
        AnswerExample("why?", "one", ()),
    ]
    batch = batch_of(examples, tokenizer, CutPolicy(32))
    assert batch.targets["start"].tolist() == [5, 0]
    assert batch.targets["end"].tolist() == [6, 0]
    logits = torch.full((14, 2), 99.0)  # what may not be pointed to weighs nothing
    logits[[0, 4, 5, 6]] = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
    logits[[8, 12]] = torch.tensor([[1.0, -1.0], [0.0, 0.0]])
    logits.requires_grad_()
    total, count = AnswerTask().loss(logits, batch)
    start = math.log(1 + math.e + math.e**2 + 1) - 2
    end = math.log(1 + 1 + math.e + math.e**3) - 3
    none = math.log(math.e + 1) - 1 + math.log(math.exp(-1) + 1) + 1
    assert count == 2
    assert total.item() == pytest.approx((start + end + none) / 2, rel=1e-6)
    total.backward()
    assert logits.grad is not None
    assert logits.grad[[1, 2, 3, 7, 9, 10, 11, 13]].abs().sum() == 0
    assert logits.grad[[0, 4, 5, 6, 8, 12]].abs().min() > 0


def scored(batch: Batch, *marks: tuple[int, int, float], nothing: list[float]) -> torch.Tensor:
    """Logits of a batch: 0, but for marks (window, word, score of both) and first pieces."""
    logits = torch.zeros(batch.layout.num_tokens, 2)
    begins = batch.layout.starts.tolist()
    for window, score in enumerate(nothing):
        logits[begins[window]] = score / 2
    for window, word, score in marks:
        place = batch.sources[window].encoding.words.index(word, 6)
        logits[begins[window] + place] = score / 2
    return logits


def test_one_answer_of_all_windows_with_offsets_into_the_context(tokenizer: Tokenizer) -> None:
    """transformers#2623: windows disagree on no answer; one with an answer is enough."""
    batch = batch_of([EXAMPLE], tokenizer, POLICY)
    # The answer is in two windows, a lesser one in another; most windows say that there is none.
    logits = scored(batch, (1, 17, 8.0), (2, 17, 6.0), (4, 39, 7.0), nothing=[20, 2, 3, 20, 20])
    for threshold in (None, 0.0):
        task = AnswerTask(threshold=threshold, n_best=3)
        (result,) = answer_results(task.decode(logits, batch))
        assert (result.text, result.start, result.end) == ("Ann", ANN.start, ANN.end)
        assert result.text == CONTEXT[result.start : result.end]
        assert math.log(result.no_answer / result.probability) == pytest.approx(2 - 8, abs=1e-9)
        first, second, _ = result.alternatives
        assert first == AnswerSpan("Ann", result.start, result.end, result.probability)
        assert (second.text, second.end) == ("four", len(CONTEXT))
        assert math.log(second.probability / first.probability) == pytest.approx(-1.0)


def test_no_answer_is_said_above_the_threshold(tokenizer: Tokenizer) -> None:
    batch = batch_of([EXAMPLE], tokenizer, POLICY)
    logits = scored(batch, (1, 17, 8.0), nothing=[9.0, 9.5, 20, 20, 20])
    for threshold, text in ((None, "Ann"), (1.5, "Ann"), (0.5, ""), (0.0, "")):
        (result,) = answer_results(AnswerTask(threshold=threshold).decode(logits, batch))
        assert result.text == text
        assert result.alternatives == ()
    assert (result.start, result.end, result.probability) == (0, 0, result.no_answer)
    (listing,) = answer_results(AnswerTask(threshold=0.0, n_best=1).decode(logits, batch))
    assert (listing.text, listing.alternatives[0].text) == ("", "Ann")


def test_an_empty_context_or_question_is_no_crash(tokenizer: Tokenizer) -> None:
    """transformers#14277, #14311, #18719."""
    examples = [AnswerExample("Who?", ""), AnswerExample("", "Ann"), AnswerExample("", " ")]
    batch = batch_of(examples, tokenizer, CutPolicy(32))
    logits = torch.ones(batch.layout.num_tokens, 2)
    empty, word, blank = answer_results(AnswerTask().decode(logits, batch))
    assert empty == blank == AnswerResult("", 0, 0, 1.0, 1.0)
    assert word.text == "Ann"


def test_the_threshold_is_tuned_where_training_had_both_kinds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    examples = [
        AnswerExample("q", "x y", (Answer("x", 0),)),
        AnswerExample("q", "x z", ()),
        AnswerExample("q", "x w", (Answer("x", 0),)),
    ]
    fitted = AnswerTask().fit(examples)
    assert fitted.threshold == 0.0
    assert fitted.untuned().threshold is None
    # log odds 1, 3 and -1: answering up to 1 and no more is right three times.
    odds = [1.0, 3.0, -1.0]
    results = [AnswerResult("x", 0, 1, 0.01, 0.01 * math.exp(each)) for each in odds]
    tuned = fitted.tuned(results, examples)
    assert tuned.threshold == pytest.approx(2.0)
    assert AnswerTask.from_state(tuned.state()) == tuned
    with caplog.at_level(logging.WARNING):
        assert fitted.tuned(results[:1], examples[:1]) == fitted
    assert "dev has no questions without an answer" in caplog.text

    always = AnswerTask().fit(examples[:1])
    assert always.threshold is None
    assert always.tuned(results, examples) == always
    assert set(always.metric_directions) == {"exact_match", "f1"}
    assert set(fitted.metric_directions) > {"f1_has_answer", "f1_no_answer"}


def test_metrics_of_examples_and_units_by_context() -> None:
    examples = [
        AnswerExample("q", "c", (Answer("the Rhine", 0), Answer("Rhine river", 0))),
        AnswerExample("r", "c", ()),
        AnswerExample("s", "d", (Answer("Ann", 0),), group="g"),
    ]
    results = [AnswerResult(text, 0, 0, 1.0, 0.0) for text in ("Rhine", "", "Bo")]
    task = AnswerTask(trained=True)
    assert task.metrics(results, examples) == pytest.approx(
        {"exact_match": 2 / 3, "f1": 2 / 3, "f1_has_answer": 0.5, "f1_no_answer": 1.0}
    )
    some = task.scorer(results, examples)(np.array([2, 2, 0, 1]))
    assert some["f1"] == 0.5
    assert task.units(examples) == ["c", "c", "g"]


def test_what_cannot_be_is_refused(tokenizer: Tokenizer) -> None:
    task = AnswerTask()
    with pytest.raises(DataError, match="none of the 1 training questions has an answer"):
        task.fit([AnswerExample("q", "c", ())])
    with pytest.raises(DataError, match=r"answers are not known: 1\n  a.json, line 3"):
        task.check([AnswerExample("q", "c", None, "a.json, line 3")])
    with pytest.raises(UsageError, match=r"pairs; numbers \[1\] are single texts"):
        task.examples([("q", "c"), "q"])
    with pytest.raises(UsageError, match="--max-answer-length is 0"):
        AnswerTask(max_answer_length=0)
    with pytest.raises(TaskError, match="1 of 1 results are not answers"):
        task.metrics([LabelResult("a", 1.0, {})], [EXAMPLE])
    (alone,), _ = tokenizer.encode_many(["one text"], policy=None)
    with pytest.raises(TaskError, match="this is one text"):
        context_pieces(alone[0])
