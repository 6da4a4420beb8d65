"""Attention: where the heads look, and which words speak for a prediction.

Where a head looks is how the model computes, not why it says what it says; for that, words are
taken away along a path (`attributions.py`). Both are for looking at: nothing here shows that a
model is wrong, except for parts that do not add up.

Source: Clark et al. 2019 on what heads look at; Jain and Wallace 2019 on why that explains little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bothways.diagnostics.attributions import INCOMPLETE, STEPS, Attribution, attribute
from bothways.diagnostics.evidence import Evidence
from bothways.errors import MissingExtraError, NotAsked, counted
from bothways.evaluation.result import Figure, Finding, Series, Severity, Table
from bothways.inference.predictor import run
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch
from bothways.tasks.results import LabelResult

# Texts whose attention is read, and texts whose words are coloured.
READ = 100
COLOURED = 20
LEAST_COLOURED = 3
# Tokens on all paths together, which limit how many long texts are coloured.
PATH_TOKENS = 60_000
# Weights of more tokens at once would fill the memory.
BATCH_TOKENS = 1024
WORDS_SHOWN = 5
# Less attention than this on later positions, in every layer: the model reads one way.
ONE_WAY = 0.02
MEASURES = ("entropy", "first", "special", "later")


@dataclass(frozen=True)
class Attention:
    """Where heads look, and what words add.

    Attributes:
        texts: how many were read for the heads.
        entropy: (layers, heads) of attention, as a share of what looking everywhere alike has.
        first: (layers, heads) share of attention on the first piece, such as [CLS].
        special: (layers, heads) share on all other special pieces, such as [SEP].
        later: (layers, heads) share on later positions than the piece that looks.
        evenly: the share on later positions if heads looked everywhere alike.
        coloured: texts with what each word adds.
        expected: what is right for each of these, in words.
        told: why none are coloured; empty where some are.
    """

    texts: int
    entropy: NDArray[np.float64]
    first: NDArray[np.float64]
    special: NDArray[np.float64]
    later: NDArray[np.float64]
    evenly: float
    coloured: tuple[Attribution, ...]
    expected: tuple[str, ...]
    told: str = ""

    def findings(self) -> tuple[Finding, ...]:
        """Where heads look on the whole, and how far coloured words can be relied on."""
        fixed = self.first + self.special
        layer = int(fixed.mean(1).argmax())
        one_way = bool((self.later.mean(1) < ONE_WAY).all())
        text = (
            f"Over {counted(self.texts, 'text')} the heads spend {fixed.mean():.0%} of their "
            f"attention on special pieces ({self.first.mean():.0%} on the first), most in layer "
            f"{layer + 1} ({fixed[layer].mean():.0%}), and {self.later.mean():.0%} on later "
            f"positions ({self.evenly:.0%} if they looked everywhere alike)."
        )
        if one_way:
            text += " That is next to nothing: this encoder does not read both ways."
        numbers: dict[str, float | int | str | None] = {
            "texts": self.texts,
            "entropy": float(self.entropy.mean()),
            "share_on_first": float(self.first.mean()),
            "share_on_other_special": float(self.special.mean()),
            "share_on_later": float(self.later.mean()),
            "share_on_later_evenly": self.evenly,
        }
        heads = Finding("attention", "note" if one_way else "fine", text, numbers)
        if self.told:
            return heads, Finding("attention", "not asked", self.told)
        return heads, self._of_words()

    def figures(self) -> tuple[Figure, ...]:
        """Shares by layer, the entropy of each head, and the coloured texts."""
        layers = tuple(range(1, len(self.entropy) + 1))
        named = {
            "on the first piece": self.first,
            "on other special pieces": self.special,
            "on later positions": self.later,
        }
        series = (
            Series(name, layers, tuple(values.mean(1).tolist())) for name, values in named.items()
        )
        heads = tuple(layer for layer in layers for _ in self.entropy[0])
        figures = [
            Figure(
                "attention",
                "Where attention goes, by layer (mean of the heads)",
                "line",
                "layer",
                "share of attention",
                tuple(series),
            ),
            Figure(
                "attention_heads",
                "How widely each head looks (0: at one piece, 1: at all alike)",
                "scatter",
                "layer",
                "entropy",
                (Series("head", heads, tuple(self.entropy.ravel().tolist())),),
            ),
        ]
        if self.coloured:
            texts = (
                Series(
                    f"{number}. {each.said}; expected: {right}",
                    each.words,
                    tuple(each.scores.tolist()),
                )
                for number, (each, right) in enumerate(
                    zip(self.coloured, self.expected, strict=True), 1
                )
            )
            title = "What each word adds to what the model says"
            figures.append(Figure("attention_words", title, "text", "word", "adds", tuple(texts)))
        return tuple(figures)

    def tables(self) -> tuple[Table, ...]:
        """Every head, and the words that add most."""
        shape = self.entropy.shape
        rows = tuple(
            (layer + 1, head + 1, *(float(getattr(self, name)[layer, head]) for name in MEASURES))
            for layer, head in np.ndindex(*shape)
        )
        columns = ("layer", "head", "entropy", "on the first piece", "on other special pieces")
        title = "Where each head looks (shares of its attention)"
        heads = Table("attention_heads", title, (*columns, "on later positions"), rows)
        if not self.coloured:
            return (heads,)
        words = tuple(
            (
                number,
                each.said,
                right,
                _strongest(each, 1),
                _strongest(each, -1),
                each.whole,
                each.error,
            )
            for number, (each, right) in enumerate(
                zip(self.coloured, self.expected, strict=True), 1
            )
        )
        title = "The words that add and take most; what all add, and how far the parts are off it"
        heads_of = ("text", "said", "expected", "for it", "against it", "all words", "error")
        return heads, Table("attention_words", title, heads_of, words)

    def _of_words(self) -> Finding:
        errors = [each.error for each in self.coloured]
        worst, middle = max(errors), float(np.median(errors))
        severity: Severity = "note" if middle > INCOMPLETE else "fine"
        text = (
            f"In {counted(len(self.coloured), 'text')} the words are coloured by what they add to "
            f"the prediction; their parts miss the whole by {middle:.2%} (median; at most "
            f"{worst:.2%})."
        )
        if severity == "note":
            text += " That is too much to rely on single words."
        numbers: dict[str, float | int | str | None] = {
            "texts_coloured": len(self.coloured),
            "completeness_error_median": middle,
            "completeness_error_largest": worst,
        }
        return Finding("attention", severity, text, numbers)


def attention(evidence: Evidence, *, texts: int = COLOURED) -> Attention:
    """Look at where the heads look, and at the words behind some predictions.

    Args:
        evidence: to ask.
        texts: how many are coloured at most.

    Raises:
        NotAsked: where the encoder gives no attention weights.
    """
    part = evidence.part(READ)
    watcher = _Watcher(part.model.encoder)
    windows = [each for encodings in part.encodings for each in encodings]
    kinds = [each.type_ids for each in windows]
    measured: list[NDArray[np.float64]] = []
    evenly: list[float] = []
    for indices, output, _ in run(
        watcher,  # type: ignore[arg-type]
        lambda output, _: output,
        [each.ids for each in windows],
        type_ids=kinds if any(map(any, kinds)) else None,
        batch_tokens=BATCH_TOKENS,
    ):
        if not output.attentions:
            raise NotAsked("This encoder gives no attention weights.")
        for place, index in enumerate(indices):
            layers = [weights[place] for weights in output.attentions]
            special = torch.tensor(windows[index].special)
            measured.append(np.stack([measures(weights, special) for weights in layers]))
            length = len(windows[index])
            evenly.append((length - 1) / (2 * length))
    entropy, first, special, later = np.mean(measured, axis=0).swapaxes(0, 1)
    coloured, told = _coloured(evidence, texts)
    return Attention(
        texts=len(part.examples),
        entropy=entropy,
        first=first,
        special=special,
        later=later,
        evenly=float(np.mean(evenly)),
        coloured=coloured,
        expected=tuple(_expected(evidence, each.example) for each in coloured),
        told=told,
    )


def measures(weights: Tensor, special: Tensor) -> NDArray[np.float64]:
    """(4, heads) MEASURES of the attention of one layer on one sequence.

    Args:
        weights: (heads, length, length), of each piece (rows) on each (columns).
        special: (length,) which pieces the template added.
    """
    weights = weights.detach().double().cpu()
    length = weights.shape[-1]
    widest = np.log(length) if length > 1 else 1.0
    others = special.clone()
    others[0] = False
    found = (
        torch.special.entr(weights).sum(-1).mean(-1) / widest,
        weights[:, :, 0].mean(-1),
        weights[:, :, others].sum(-1).mean(-1),
        weights.triu(1).sum(-1).mean(-1),
    )
    stacked: NDArray[np.float64] = torch.stack(found).numpy()
    return stacked


class _Watcher:
    """An encoder that returns its attention weights."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def __getattr__(self, name: str) -> Any:
        """Whatever else is asked of an encoder."""
        return getattr(self.encoder, name)

    def __call__(self, batch: Batch, rows: Tensor | None = None) -> EncoderOutput:
        """Read a batch whole."""
        del rows
        output: EncoderOutput = self.encoder(batch, attentions=True)
        return output


def _coloured(evidence: Evidence, most: int) -> tuple[tuple[Attribution, ...], str]:
    """Attributions of some texts, or why there are none."""
    average = float(np.mean([len(windows[0]) for windows in evidence.encodings]))
    count = int(np.clip(PATH_TOKENS / (STEPS * average), LEAST_COLOURED, most))
    try:
        found = tuple(attribute(evidence, index) for index in _chosen(evidence, count))
    except MissingExtraError as missing:
        return (), f"Words are coloured by captum: {missing}"
    except NotAsked as reason:
        return (), str(reason)
    return found, ""


def _chosen(evidence: Evidence, count: int) -> Sequence[int]:
    """Examples at random, up to half of them wrong, which come first."""
    order = evidence.generator("attention").permutation(len(evidence.examples)).tolist()
    wrong = [index for index in order if _is_wrong(evidence, index)][: count // 2]
    chosen = set(wrong)
    return [*wrong, *(index for index in order if index not in chosen)][:count]


def _is_wrong(evidence: Evidence, index: int) -> bool:
    result = evidence.results[index]
    return isinstance(result, LabelResult) and result.label != evidence.examples[index].label


def _expected(evidence: Evidence, index: int) -> str:
    example = evidence.examples[index]
    truth = getattr(example, "labels", getattr(example, "label", None))
    return ", ".join(map(str, truth)) if isinstance(truth, tuple) else str(truth)


def _strongest(found: Attribution, sign: int) -> str:
    """The words that add most, or take most, with how much."""
    order = np.argsort(-sign * found.scores, kind="stable")[:WORDS_SHOWN]
    return ", ".join(
        f"{found.words[place].strip()} ({found.scores[place]:+.2f})"
        for place in order.tolist()
        if sign * found.scores[place] > 0
    )
