"""Attributions: which words spoke for what the model says of a text, by integrated gradients.

The path runs from the text with all its words hidden to the text as it is, at the output of the
embeddings, so any encoder will do. Which texts are asked, and what is said about them, is in
`attention.py`.

Source: Sundararajan et al. 2017; computed by captum (Kokhlikyan et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.data.collate import Source
from bothways.diagnostics.evidence import Evidence
from bothways.errors import MissingExtraError, NotAsked
from bothways.inference.abilities import trained_task
from bothways.inference.predictor import evaluating
from bothways.model.layout import Batch, Layout
from bothways.tasks.results import LabelResult, LabelSetResult, Result, ScoreResult
from bothways.tokenization.encoding import Encoding

# Points on the path; where the parts do not add up to the whole, more of them.
STEPS = 32
MORE_STEPS = 256
# Share of all that words add and take by which the sum may miss the whole.
INCOMPLETE = 0.05
SMALLEST = 1e-9
# Tokens that are read at once.
BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Attribution:
    """What each word of a text adds to what the model says of it.

    Attributes:
        example: index among the examples.
        said: what the model says, in words.
        words: of the text in order, each with what stands between it and the next.
        scores: (words,) what each adds: to the logit of what is said, less the mean of the other
            logits where labels exclude each other. In logits, or the caller's units of a number.
        whole: what all words together add, over the text with all of them hidden.
        is_cut: whether only part of the text was read.
    """

    example: int
    said: str
    words: tuple[str, ...]
    scores: NDArray[np.float64]
    whole: float
    is_cut: bool = False

    @property
    def error(self) -> float:
        """How far the words' scores are from adding up to the whole, as a share of their sizes.

        Words that add and words that take may cancel out, so the whole itself is no measure.
        """
        sizes = max(float(np.abs(self.scores).sum()), abs(self.whole), SMALLEST)
        return abs(float(self.scores.sum()) - self.whole) / sizes


def attribute(evidence: Evidence, example: int) -> Attribution:
    """Ask for the words behind the prediction of an example; of several windows, in the first.

    Args:
        evidence: whose examples.
        example: index of one.

    Raises:
        NotAsked: where the model says something else than labels or a number of a whole text.
        MissingExtraError: when captum is not installed.

    Example:
        >>> found = attribute(evidence, 0)  # doctest: +SKIP
        >>> max(zip(found.scores, found.words))  # doctest: +SKIP
        (2.31, 'wonderful ')
    """
    integrate = _integrated_gradients()
    result = evidence.results[example]
    output, said = _asked(evidence, result)
    windows = evidence.encodings[example]
    encoding, given = windows[0], evidence.examples[example]
    task, head = trained_task(evidence.model.parts, evidence.task)
    encoder = evidence.model.encoder
    source = Source(example, 0, encoding, given)
    reads = getattr(task, "reads", None)
    types = torch.tensor(encoding.type_ids) if any(encoding.type_ids) else None

    def batch_of(ids: Tensor, count: int = 1) -> Batch:
        return Batch(
            ids.repeat(count),
            Layout.packed([len(ids)] * count),
            None if types is None else types.repeat(count),
            targets={} if reads is None else reads([source] * count),
        ).to(encoder.device)

    ids = torch.tensor(encoding.ids)
    hidden = torch.where(torch.tensor(encoding.special), ids, _hidden_id(evidence))
    with evaluating(encoder, head):
        with torch.no_grad():
            states, nothing = (encoder.embeddings(batch_of(each)) for each in (ids, hidden))

        def score(many: Tensor) -> Tensor:
            batch = batch_of(ids, len(many))
            with _embedded(encoder.embeddings, many.flatten(0, 1)):
                return output(head(encoder(batch), batch))

        with torch.no_grad():
            whole = float(score(states[None]) - score(nothing[None]))
        for steps in (STEPS, MORE_STEPS):
            parts = integrate(score).attribute(
                states[None],
                baselines=nothing[None],
                n_steps=steps,
                internal_batch_size=max(1, BATCH_TOKENS // len(ids)),
            )
            pieces = parts[0].sum(-1).double().cpu().numpy()
            words, scores = _by_word(encoding, _texts(given), pieces)
            is_cut = len(windows) > 1 or encoding.tokens_cut > 0
            found = Attribution(example, said, words, scores, whole, is_cut)
            if found.error <= INCOMPLETE:
                break
    return found


def _integrated_gradients() -> Any:
    """The class of captum."""
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise MissingExtraError("captum", "explain") from error
    return IntegratedGradients


def _asked(evidence: Evidence, result: Result) -> tuple[Callable[[Tensor], Tensor], str]:
    """What is asked for of logits (sequences, outputs), and what the model says, in words."""
    labels = evidence.task.labels
    if isinstance(result, LabelResult):
        place, count = labels.index(result.label), len(labels)

        def margin(logits: Tensor) -> Tensor:
            others = (logits[:, :count].sum(1) - logits[:, place]) / max(count - 1, 1)
            return logits[:, place] - others

        return margin, f"{result.label} ({result.probability:.2f})"
    if isinstance(result, LabelSetResult):
        best = max(result.probabilities, key=result.probabilities.__getitem__)
        place = labels.index(best)
        return lambda logits: logits[:, place], f"{best} ({result.probabilities[best]:.2f})"
    if isinstance(result, ScoreResult) and evidence.task.name != "embed":
        return lambda logits: logits[:, 0], f"{result.score:.3f}"
    raise NotAsked(
        f"Words are coloured for labels and numbers of whole texts, not for {evidence.task.name}."
    )


def _hidden_id(evidence: Evidence) -> Tensor:
    """What stands for a word that is hidden: the mask, else the unknown piece, else padding."""
    tokenizer = evidence.model.tokenizer
    known = (tokenizer.mask_id, tokenizer.unk_id, tokenizer.pad_id)
    return torch.tensor(next((number for number in known if number is not None), 0))


class _embedded:  # noqa: N801 - a context manager, read as a verb
    """Embeddings that give these states, whatever they are asked."""

    def __init__(self, embeddings: nn.Module, states: Tensor) -> None:
        self.embeddings = embeddings
        self.states = states

    def __enter__(self) -> None:
        """Put the states in place."""
        self.handle = self.embeddings.register_forward_hook(lambda *_: self.states)

    def __exit__(self, *error: object) -> None:
        """Give the embeddings back."""
        self.handle.remove()


def _texts(example: Any) -> tuple[str, ...]:
    """What the offsets of an example's pieces count in."""
    first = example.marked[0] if hasattr(example, "marked") else example.text
    return (first,) if example.pair is None else (first, example.pair)


def _by_word(
    encoding: Encoding, texts: tuple[str, ...], scores: NDArray[np.float64]
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The words that were read, and the sums of their pieces' scores; a slash parts two texts."""
    second = len(encoding) if encoding.second is None else encoding.second
    sums: dict[tuple[int, int | None], float] = {}
    places: dict[tuple[int, int | None], tuple[int, int]] = {}
    for piece, score in enumerate(scores.tolist()):
        if encoding.special[piece]:
            continue
        word = int(piece >= second), encoding.words[piece]
        start, end = encoding.offsets[piece]
        sums[word] = sums.get(word, 0.0) + score
        places[word] = places.get(word, (start, end))[0], end
    words: list[str] = []
    found: list[float] = []
    order = list(sums)
    for word, after in zip(order, [*order, None][1:], strict=True):
        start, end = places[word]
        same = after is not None and after[0] == word[0]
        until = places[after][0] if same and after is not None else end
        words.append(texts[word[0]][start:until])
        found.append(sums[word])
        if after is not None and not same:
            words.append(" / ")
            found.append(0.0)
    return tuple(words), np.array(found)
