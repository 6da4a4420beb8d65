"""The tagging task: values, labels, loss, decoding, scores."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bothways.data.collate import Source, collate
from bothways.errors import DataError, TaskError, UsageError
from bothways.model.config import build_config
from bothways.model.crf import CrfHead, path_score, with_head
from bothways.model.heads import TokenHead
from bothways.model.layout import Batch
from bothways.tasks.registry import task_from_state
from bothways.tasks.results import LabelResult, Result, TagResult
from bothways.tasks.schemes import SCHEMES
from bothways.tasks.tag import IGNORED, TagTask
from bothways.tasks.tag_examples import TagExample, tag_results
from bothways.tasks.task import Columns, Task
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer, load_tokenizer

SENTENCE = TagExample.of_words(
    ["Ann", "Katzenklavier", "sang", "in", "Oslo"], ["B-PER", "I-PER", "O", "O", "B-LOC"]
)
SHORT = TagExample.of_words(["Oslo", "sang"], ["B-LOC", "O"])
SHORT_PERSON = TagExample.of_words(["Ann", "sang"], ["B-PER", "O"])
VERBS = TagExample.of_words(["Ann", "sang"], ["NOUN", "VERB"])
WHOLE = CutPolicy(64)


@pytest.fixture(scope="module")
def tokenizer(minilm: Path) -> Tokenizer:
    return load_tokenizer(minilm)


def fitted(*examples: TagExample, **settings: Any) -> TagTask:
    return TagTask(**settings).fit(examples or (SENTENCE,))


def batch_of(
    task: TagTask, tokenizer: Tokenizer, *examples: TagExample, policy: CutPolicy = WHOLE
) -> Batch:
    """A batch as training makes it, targets included."""
    encodings, _ = task.encode_all(examples, tokenizer, policy)
    sources = [
        Source(number, window, encoding, examples[number])
        for number, windows in enumerate(encodings)
        for window, encoding in enumerate(windows)
    ]
    return collate(sources, task.targets(examples, sources))


def sure_logits(task: TagTask, batch: Batch) -> Tensor:
    """Logits that say the true tag at every token that speaks for a word, and noise elsewhere."""
    logits = torch.randn(len(batch.ids), len(task.labels))
    tags = batch.targets["tag"]
    known = tags != IGNORED
    logits[known] = 20.0 * F.one_hot(tags[known], len(task.labels)).float()
    return logits


def tags_of(results: list[Result]) -> list[tuple[str, ...]]:
    return [result.tags for result in tag_results(results)]


def test_it_is_a_task() -> None:
    task: Task[TagExample] = TagTask()
    assert task.metric_directions[task.main_metric] == 1


# --- values and labels --------------------------------------------------------------------------


def test_texts_are_split_and_words_are_taken() -> None:
    text, words = TagTask().examples(["Ann sang.", ["Ann", "sang."]])
    assert text.words == ("Ann", "sang", ".")
    assert words.words == ("Ann", "sang.")
    with pytest.raises(UsageError, match=r"numbers \[1\] are something else, .*type int"):
        TagTask().examples(["fine", 3])


def test_labels_are_all_tags_of_the_types_that_occur() -> None:
    task = fitted(SENTENCE)
    assert task.labels == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    assert task.label_counts == {"B-LOC": 1, "B-PER": 1, "I-LOC": 0, "I-PER": 1, "O": 2}
    assert (task.scheme, task.main_metric) == ("bio", "f1_strict")


def test_tags_without_a_scheme_are_what_they_are() -> None:
    task = fitted(VERBS)
    assert (task.scheme, task.labels) == ("none", ("NOUN", "VERB"))
    assert task.main_metric == "accuracy_tokens"
    assert set(task.metric_directions) == {"accuracy_tokens"}


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "there are no training examples"),
        ([TagExample.of_words(["a", "b"], ["O", "O"])], "all 2 words have the tag 'O'"),
        ([TagExample.of_words(["a", "b"])], "0 tags for 2 words"),
        ([TagExample.of_words(["a", "b"], ["O"])], "1 tags for 2 words"),
    ],
)
def test_what_nothing_can_be_learned_from_is_refused(
    examples: list[TagExample], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        TagTask().fit(examples)


def test_tags_that_training_lacks_are_counted_and_always_wrong(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    task = fitted(SENTENCE)
    example = TagExample.of_words(["Ann", "saw", "Figaro"], ["B-PER", "O", "B-WORK"])
    with caplog.at_level(logging.WARNING):
        task.check([example])
    assert "1 of 2 tagged words has a tag that the training data does not have" in caplog.text
    assert "word 3: 'B-WORK'" in caplog.text
    batch = batch_of(task, tokenizer, example)
    (result,) = task.decode(sure_logits(task, batch), batch)
    assert task.metrics([result], [example])["f1_strict"] < 1


def test_a_file_of_mostly_other_tags_is_another_column() -> None:
    with pytest.raises(DataError, match=r"does not have: 2\n(.|\n)*right column \(--column\)"):
        fitted(VERBS).check([TagExample.of_words(["Ann", "sang"], ["NNP", "VBD"])])


def test_the_column_of_tags_has_one_name() -> None:
    assert TagTask(column="upos").columns == Columns(label="upos")
    with pytest.raises(UsageError, match="both name the column of the tags"):
        TagTask(column="3", columns=Columns(label="4"))


@pytest.mark.parametrize("settings", [{}, {"crf": True, "label_pieces": "all"}, {"column": "x"}])
def test_a_task_is_made_again_from_its_state(settings: dict[str, Any]) -> None:
    task = fitted(SENTENCE, **settings)
    assert task_from_state(task.state()) == task


def test_a_published_tagger_says_its_scheme_by_its_labels() -> None:
    named = {"name": "tag", "labels": ["O", "B-PER", "I-PER"]}
    task = task_from_state(named)
    assert isinstance(task, TagTask)
    assert task.scheme == "bio"


# --- loss ---------------------------------------------------------------------------------------


def test_the_loss_is_the_cross_entropy_of_first_pieces(tokenizer: Tokenizer) -> None:
    task = fitted(SENTENCE)
    batch = batch_of(task, tokenizer, SENTENCE)
    pieces = tokenizer.tokens(batch.ids.tolist())
    assert len(pieces) > len(SENTENCE.words) + 2
    logits = torch.randn(len(pieces), 5)
    total, count = task.loss(logits, batch)
    first = [n for n, piece in enumerate(pieces) if not piece.startswith(("##", "["))]
    truth = torch.tensor([task.labels.index(tag) for tag in SENTENCE.tags or ()])
    assert count == task.count(batch) == 5
    torch.testing.assert_close(total, F.cross_entropy(logits[first], truth, reduction="sum"))


def test_all_pieces_of_a_word_are_learned_where_that_is_asked(tokenizer: Tokenizer) -> None:
    task = fitted(SENTENCE, label_pieces="all")
    batch = batch_of(task, tokenizer, SENTENCE)
    assert task.count(batch) == len(batch.ids) - 2
    named = [task.labels[tag] for tag in batch.targets["tag"].tolist() if tag != IGNORED]
    assert named.count("I-PER") == task.count(batch) - 4


def test_the_loss_of_a_chain_is_minus_the_log_of_its_share(tokenizer: Tokenizer) -> None:
    """Text by text, over windows too, in any company."""
    task = fitted(SENTENCE, SHORT, crf=True)
    head = CrfHead(4, 5)
    torch.nn.init.normal_(head.transitions)
    policy = CutPolicy(7, "windows", 3)
    batch = with_head(batch_of(task, tokenizer, SENTENCE, SHORT, policy=policy), head)
    assert batch.layout.num_sequences > 2
    logits = torch.randn(len(batch.ids), 5)
    total, count = task.loss(logits, batch)
    assert count == task.count(batch) == 7
    expected = 0.0
    for text, example in enumerate((SENTENCE, SHORT)):
        mine = (batch.targets["text"] == text).nonzero().squeeze(1)
        scores = logits[mine][None]
        tags = torch.tensor([[task.labels.index(tag) for tag in example.tags or ()]])
        every = torch.cartesian_prod(*[torch.arange(5)] * len(mine)).reshape(-1, len(mine))
        lengths = torch.tensor([len(mine)])
        all_scores = path_score(
            scores.expand(len(every), -1, -1), every, lengths.expand(len(every)), head.transitions
        )
        own = path_score(scores, tags, lengths, head.transitions)
        expected += float((all_scores.logsumexp(0) - own).detach())
    assert float(total.detach()) == pytest.approx(expected, rel=1e-4)


def test_the_head_is_one_that_transformers_has_unless_tags_depend_on_each_other() -> None:
    config = build_config(vocab_size=20, hidden_size=8, num_heads=2, num_layers=1)
    assert type(fitted(SENTENCE).head(config, ("O", "X"))) is TokenHead
    assert type(fitted(SENTENCE, crf=True).head(config, ("O", "X"))) is CrfHead


# --- decoding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("label_pieces", ["first", "all"])
@pytest.mark.parametrize("crf", [False, True])
def test_words_get_their_tags_and_spans_their_offsets(
    tokenizer: Tokenizer, crf: bool, label_pieces: str
) -> None:
    task = fitted(SENTENCE, crf=crf, label_pieces=label_pieces)
    batch = with_head(batch_of(task, tokenizer, SENTENCE), CrfHead(4, 5))
    (result,) = task.decode(sure_logits(task, batch), batch)
    assert isinstance(result, TagResult)
    assert (result.words, result.tags) == (SENTENCE.words, SENTENCE.tags)
    person, place = result.spans
    assert (person.text, person.label) == ("Ann Katzenklavier", "PER")
    assert (place.start, place.end, place.text) == (26, 30, "Oslo")
    assert SENTENCE.text[place.start : place.end] == place.text
    assert person.probability == pytest.approx(math.prod(result.probabilities[:2]))
    assert min(result.probabilities) > 0.99
    assert result.unread == ()


def test_a_word_is_never_split_into_two_types(tokenizer: Tokenizer) -> None:
    """transformers#12593, #11887, #23322: whatever its later pieces say, a word has one tag."""
    task = fitted(SENTENCE)
    batch = batch_of(task, tokenizer, SENTENCE)
    logits = torch.zeros(len(batch.ids), 5)
    logits[:, task.labels.index("B-LOC")] = 5.0
    known = batch.targets["tag"] != IGNORED
    logits[known] = sure_logits(task, batch)[known]
    (result,) = task.decode(logits, batch)
    assert [span.text for span in tag_results([result])[0].spans] == ["Ann Katzenklavier", "Oslo"]


@pytest.mark.parametrize("overlap", [0, 2, 4])
def test_a_span_across_a_cut_is_found_once(tokenizer: Tokenizer, overlap: int) -> None:
    """transformers#15177, #33579, #10682: windows change neither targets nor results."""
    words = ["we", "saw", "Ann", "Lee", "Bo", "Li", "sing"] * 3
    tags = ["O", "O", "B-PER", "I-PER", "I-PER", "I-PER", "O"] * 3
    example = TagExample.of_words(words, tags)
    task = fitted(example)
    policy = CutPolicy(8, "windows", overlap)
    batch = batch_of(task, tokenizer, SHORT_PERSON, example, policy=policy)
    assert batch.layout.num_sequences > 4
    assert task.count(batch) == len(words) + 2
    _, result = tag_results(task.decode(sure_logits(task, batch), batch))
    assert result.tags == tuple(tags)
    assert [span.text for span in result.spans] == ["Ann Lee Bo Li"] * 3


def test_chains_are_decided_over_the_whole_text_and_never_break_the_scheme(
    tokenizer: Tokenizer,
) -> None:
    task = fitted(SENTENCE, crf=True)
    words = ["Ann", "sang", "in", "Oslo"] * 40
    example = TagExample.of_words(words, ["B-PER", "O", "O", "B-LOC"] * 40)
    batch = with_head(
        batch_of(task, tokenizer, example, SENTENCE, policy=CutPolicy(9, "windows", 3)),
        CrfHead(4, 5),
    )
    results = task.decode(torch.randn(len(batch.ids), 5), batch)
    for tags in tags_of(results):
        assert SCHEMES["bio"].strict(tags) == SCHEMES["bio"].lenient(tags)
    softmax = fitted(SENTENCE).decode(torch.randn(len(batch.ids), 5), batch)
    assert any(
        SCHEMES["bio"].strict(tags) != SCHEMES["bio"].lenient(tags) for tags in tags_of(softmax)
    )


def test_words_that_become_nothing_keep_a_tag_and_are_counted(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    """Control characters and lone variation selectors; the words after them stay in place."""
    example = TagExample.of_words(["Ann", "\x07", "\ufe0f", "Oslo"], ["B-PER", "O", "O", "B-LOC"])
    task = fitted(example)
    with caplog.at_level(logging.WARNING):
        batch = batch_of(task, tokenizer, example)
    assert "2 words became no token" in caplog.text
    assert r"word 2: '\x07'" in caplog.text
    (result,) = tag_results(task.decode(sure_logits(task, batch), batch))
    assert result.tags == example.tags
    assert result.unread == (1, 2)
    assert result.probabilities[1:3] == (0.0, 0.0)


def test_of_a_text_of_nothing_there_is_an_empty_result(tokenizer: Tokenizer) -> None:
    for crf in (False, True):
        task = fitted(SENTENCE, crf=crf)
        empty = TagExample.of_words([], [])
        batch = with_head(batch_of(task, tokenizer, empty), CrfHead(4, 5))
        logits = torch.zeros(len(batch.ids), 5, requires_grad=True)
        assert task.decode(logits, batch) == [TagResult((), (), ())]
        total, count = task.loss(logits, batch)
        assert (float(total.detach()), count) == (0.0, 0)


def test_without_a_scheme_what_was_not_read_has_the_commonest_tag(tokenizer: Tokenizer) -> None:
    task = fitted(TagExample.of_words(["a", "b", "c"], ["VERB", "NOUN", "VERB"]))
    batch = batch_of(task, tokenizer, TagExample.of_words(["\x07"], ["NOUN"]))
    (result,) = tag_results(task.decode(torch.zeros(len(batch.ids), 2), batch))
    assert (result.tags, result.spans) == (("VERB",), ())


def test_spans_that_are_cut_are_counted(tokenizer: Tokenizer) -> None:
    """One lies beyond the cut, one across it; in windows nothing is lost."""
    words = ["we", "saw", "Ann", "Lee", "and", "Bo"]
    example = TagExample.of_words(words, ["O", "O", "B-PER", "I-PER", "O", "B-PER"])
    task = fitted(example)
    _, cut = task.encode_all([example], tokenizer, CutPolicy(5))
    assert (cut.tokens_cut, cut.targets_cut) == (3, 2)
    assert "2 of what was to be found" in cut.sentence()
    _, windows = task.encode_all([example], tokenizer, CutPolicy(5, "windows", 1))
    assert (windows.tokens_cut, windows.targets_cut) == (0, 0)


# --- scores -------------------------------------------------------------------------------------


def test_a_span_without_its_beginning_counts_leniently_only() -> None:
    task = fitted(SENTENCE)
    said = ("I-PER", "I-PER", "O", "O", "B-LOC")
    result = TagResult(SENTENCE.words, said, ())
    scores = task.metrics([result], [SENTENCE])
    assert scores["f1_lenient"] == 1.0
    assert scores["f1_strict"] == pytest.approx(2 / 3)
    assert scores["accuracy_tokens"] == 0.8


def test_results_of_another_task_are_refused() -> None:
    with pytest.raises(TaskError, match="1 of 1 results are not tags"):
        fitted(SENTENCE).metrics([LabelResult("x", 1.0, {"x": 1.0})], [SENTENCE])


def test_sentences_of_a_document_are_drawn_together() -> None:
    alone = TagExample("a", ("a",), ((0, 1),), ("O",))
    first = TagExample("b", ("b",), ((0, 1),), ("O",), group="d")
    task = TagTask()
    assert task.units([alone]) is None
    units = task.units([first, alone, first]) or ()
    assert units[0] == units[2] != units[1]
