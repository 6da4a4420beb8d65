"""What an evaluation of answers shows beside its scores: by question word, by length, mistakes.

The baselines know no language: the sentence of the context that has most words of the question,
and, where some questions have no answer, to say so always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bothways.data.problems import shown
from bothways.evaluation.baselines import TOKEN_PATTERN
from bothways.evaluation.intervals import RESAMPLES, Units, intervals
from bothways.evaluation.parts import Parts
from bothways.evaluation.result import Finding, Table
from bothways.metrics.answers import AnswerScores, normalised
from bothways.tasks.answer import AnswerTask, answer_results, answer_scores
from bothways.tasks.answer_reading import AnswerExample
from bothways.tasks.results import AnswerResult, Result

QUESTION_WORDS = (
    "how many",
    "how much",
    "what",
    "which",
    "who",
    "whom",
    "whose",
    "when",
    "where",
    "why",
    "how",
)
# Words of an answer, from the first number up to below the next.
LENGTHS = {"1 word": 1, "2 words": 2, "3 to 5 words": 3, "6 to 10 words": 6, "11 and more": 11}
MISTAKES_SHOWN = 20


def answering_parts(
    task: AnswerTask,
    examples: Sequence[AnswerExample],
    results: Sequence[Result],
    *,
    train: Sequence[AnswerExample] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Parts:
    """Baselines, scores by question word and by length of the answer, and confident mistakes.

    Args:
        task: what was predicted.
        examples: with their answers.
        results: as many.
        train: not needed: the baselines learn nothing.
        resamples: for the intervals of the tables.
        seed: of the resampling.
    """
    del train
    predicted = answer_results(results)
    scores = answer_scores(predicted, examples)
    rivals = {"likeliest_sentence": [likeliest_sentence(example) for example in examples]}
    if not scores.has_answer.all():
        rivals["no_answer"] = [AnswerResult("", 0, 0, 1.0, 1.0)] * len(examples)

    def table(name: str, title: str, kinds: Sequence[str], order: Sequence[str]) -> Table:
        columns = ("", "questions", "exact match", "F1", "F1 low", "F1 high")
        rows = []
        for kind in [kind for kind in order if kind in set(kinds)]:
            those = np.flatnonzero([each == kind for each in kinds])
            groups = task.units([examples[index] for index in those.tolist()])
            units = Units.of(len(those), groups)
            f1 = intervals(_mean_of(scores.f1[those]), units, resamples=resamples, seed=seed)["f1"]
            rows.append(
                (kind, len(those), float(scores.exact[those].mean()), f1.value, f1.low, f1.high)
            )
        return Table(name, title, columns, tuple(rows))

    words = [question_word(example.question) for example in examples]
    lengths = [length_of_answer(example) for example in examples]
    tables = [table("answer_lengths", "By length of the answer", lengths, (*LENGTHS, "no answer"))]
    if set(words) != {"other"}:
        order = (*QUESTION_WORDS, "other")
        tables.insert(0, table("question_words", "By question word", words, order))
    mistakes = _mistakes(examples, predicted, scores)
    tables += [mistakes] if mistakes.rows else []
    return Parts(rivals, (_finding(scores, predicted),), tuple(tables))


def _mean_of(f1: NDArray[np.float64]) -> Callable[[NDArray[np.int64]], dict[str, float]]:
    return lambda some: {"f1": float(f1[some].mean())}


def question_word(question: str) -> str:
    """The English question word that comes first, or `other`.

    Example:
        >>> question_word("In which year, and how, did it end?")
        'which'
    """
    found = [
        (match.start(), -len(word), word)
        for word in QUESTION_WORDS
        if (match := re.search(rf"\b{word}\b", question.casefold()))
    ]
    return min(found)[2] if found else "other"


def length_of_answer(example: AnswerExample) -> str:
    """The class in `LENGTHS` of the first answer, or `no answer`."""
    if not example.answers:
        return "no answer"
    words = len(example.answers[0].text.split())
    return [name for name, least in LENGTHS.items() if least <= words][-1]


def likeliest_sentence(example: AnswerExample) -> AnswerResult:
    """The whole sentence that has most words of the question; the first of several.

    Example:
        >>> likeliest_sentence(AnswerExample("Who saw her?", "It rained. Bo saw Ann.")).text
        'Bo saw Ann.'
    """
    asked = set(_words(example.question))
    best = (-1, 0, 0)
    for start, end in sentences(example.context):
        shared = len(asked & set(_words(example.context[start:end])))
        if shared > best[0]:
            best = (shared, start, end)
    _, start, end = best
    return AnswerResult(example.context[start:end], start, end, 1.0, 0.0)


def sentences(text: str) -> list[tuple[int, int]]:
    """Ranges of the sentences: they end at . ! ? before white space, at their wide forms, at lines.

    Example:
        >>> [" A 1.5 m wall. Big!"[start:end] for start, end in sentences(" A 1.5 m wall. Big!")]
        ['A 1.5 m wall.', 'Big!']
    """
    borders = [match.end() for match in re.finditer(r"[.!?]+(?=\s)|[。！？]+|\n+", text)]
    found = []
    for low, high in zip([0, *borders], [*borders, len(text)], strict=True):
        part = text[low:high]
        if part.strip():
            start = low + len(part) - len(part.lstrip())
            found.append((start, start + len(part.strip())))
    return found


def _words(text: str) -> list[str]:
    return re.findall(TOKEN_PATTERN, text.casefold())


def _finding(scores: AnswerScores, predicted: Sequence[AnswerResult]) -> Finding:
    """Where the mistakes are: wrong spans, answers that are none, missed answers."""
    said = np.array([bool(result.text) for result in predicted])
    has = scores.has_answer
    wrong = scores.f1 < 1.0
    counts = {
        "right": int((~wrong).sum()),
        "overlapping": int((has & said & wrong & (scores.f1 > 0)).sum()),
        "elsewhere": int((has & said & (scores.f1 == 0)).sum()),
        "missed": int((has & ~said).sum()),
        "made_up": int((~has & said).sum()),
    }
    text = (
        f"Of {len(has):,} questions {counts['right']:,} are answered with the right words, "
        f"{counts['overlapping']:,} with some of them, {counts['elsewhere']:,} with none"
    )
    if not has.all() or counts["missed"]:
        text += (
            f"; {counts['missed']:,} that have an answer got none, and {counts['made_up']:,} that "
            "have none got one"
        )
    return Finding("errors", "fine", text + ".", dict(counts))


def _mistakes(
    examples: Sequence[AnswerExample],
    predicted: Sequence[AnswerResult],
    scores: AnswerScores,
) -> Table:
    """The most confident answers that share no word with a right one."""
    wrong = np.flatnonzero(scores.f1 == 0).tolist()
    wrong.sort(key=lambda index: -predicted[index].probability)
    rows = []
    for index in wrong[:MISTAKES_SHOWN]:
        example, result = examples[index], predicted[index]
        right = [answer.text for answer in example.answers or () if normalised(answer.text)]
        rows.append(
            (
                example.place,
                shown(example.question, 100),
                shown(right[0]) if right else "no answer",
                shown(result.text) if result.text else "no answer",
                result.probability,
            )
        )
    columns = ("place", "question", "expected", "answered", "probability")
    return Table("mistakes", "The most confident mistakes", columns, tuple(rows))
