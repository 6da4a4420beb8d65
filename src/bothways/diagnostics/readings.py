"""The same texts read otherwise: other policies, shorter and longer, with what each would score.

Predictions of the same model; nothing is trained. What is made of it is said in `truncation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bothways.diagnostics.evidence import Evidence
from bothways.errors import UsageError
from bothways.evaluation.findings import TOO_FEW
from bothways.evaluation.intervals import Indices, interval, of_many, paired_difference
from bothways.evaluation.result import Metric
from bothways.tokenization.encoding import Encoding, Policy
from bothways.tokenization.policy import CutPolicy

WORDS: dict[Policy, str] = {
    "head": "their first {} tokens",
    "tail": "their last {} tokens",
    "head+tail": "{} tokens from both ends",
    "windows": "all of them in windows of {} tokens",
}
# Kept lengths that are tried: the model's, and this often half of it.
HALVINGS = 2
SHORTEST = 8
# Tokens that may be read to try all of them, which sets how many texts are.
TRIED_TOKENS = 50_000
TRIED_TEXTS = 500
RESAMPLES = 500


@dataclass(frozen=True)
class Reading:
    """How texts may be read, and what comes of it.

    Attributes:
        keep: policy.
        length: most pieces of one encoding, special ones included.
        score: the main metric.
        gain: over how they are read now, paired, with intervals that hold together; None where
            it is how they are read now.
        cost: pieces read, as a multiple of now.
    """

    keep: Policy
    length: int
    score: Metric
    gain: Metric | None
    cost: float

    def __str__(self) -> str:
        """`their first 128 tokens`."""
        return WORDS[self.keep].format(self.length)


def read_instead(evidence: Evidence, cut: Indices) -> tuple[Reading, ...]:
    """The cut texts read by other policies, at this length and at the longest there is."""
    if len(cut) < TOO_FEW:
        return ()
    now = evidence.policy
    longest = evidence.model.encoder.config.embeddings.usable_positions
    others = [_policy(now, keep, now.max_length) for keep in WORDS]
    if longest > now.max_length:
        others += [_policy(now, now.keep, longest)]
    some = _affordable(evidence, cut, len(others))
    return _readings(evidence, some, [policy for policy in others if policy != now])


def read_tried(evidence: Evidence) -> tuple[Reading, ...]:
    """All texts by policy and kept length, from short to what is read now."""
    now = evidence.policy
    most = min(now.max_length, int(evidence.tokens.max()) + _specials(evidence))
    lengths = sorted({most >> halving for halving in range(HALVINGS + 1)})
    lengths = [length for length in lengths if length >= min(SHORTEST, most)]
    policies = [_policy(now, keep, length) for length in lengths for keep in WORDS]
    some = _affordable(evidence, np.arange(len(evidence.examples)), len(policies) / 2)
    return _readings(evidence, some, policies)


def _specials(evidence: Evidence) -> int:
    return max(sum(encoding.special) for windows in evidence.encodings for encoding in windows)


def _policy(now: CutPolicy, keep: Policy, length: int) -> CutPolicy:
    overlap = 0
    if keep == "windows":
        overlap = now.overlap if (keep, length) == (now.keep, now.max_length) else length // 4
    return replace(now, keep=keep, max_length=length, overlap=overlap)


def _affordable(evidence: Evidence, some: Indices, times: float) -> Indices:
    """As many of these examples as may be read so often."""
    average = max(float(evidence.tokens[some].mean()), 1.0)
    count = max(min(TRIED_TEXTS, int(TRIED_TOKENS / (average * max(times, 1)))), 2 * TOO_FEW)
    if count >= len(some):
        return some
    return np.sort(evidence.generator("truncation").choice(some, count, replace=False))


def _readings(
    evidence: Evidence, some: Indices, policies: Sequence[CutPolicy]
) -> tuple[Reading, ...]:
    """Scores of these examples read by each policy; those that this task cannot use are left out.

    Texts that fit whole, now and then, are not read again.
    """
    part = evidence.those(some)
    now = [evidence.results[index] for index in some.tolist()]
    score_now = part.scorer(now)
    pieces_now = np.array([_pieces(evidence.encodings[index]) for index in some.tolist()])
    sizes = evidence.tokens[some] + _specials(evidence)
    found = []
    for policy in policies:
        again = np.flatnonzero((sizes > policy.max_length) | (evidence.tokens_cut[some] > 0))
        changed = policy != evidence.policy
        results, pieces = list(now), pieces_now.copy()
        if changed and len(again):
            other = replace(part.those(again), policy=policy)
            try:
                for index, result, windows in zip(
                    again.tolist(), other.results, other.encodings, strict=True
                ):
                    results[index], pieces[index] = result, _pieces(windows)
            except UsageError:
                continue
        score = part.scorer(results)
        gain = None
        if changed:
            gain = paired_difference(
                score,
                score_now,
                part.units,
                resamples=part.resamples,
                seed=part.seed,
                confidence=of_many(len(policies)),
            )
        found.append(
            Reading(
                policy.keep,
                policy.max_length,
                interval(
                    score, part.units, resamples=min(part.resamples, RESAMPLES), seed=part.seed
                ),
                gain,
                float(pieces.sum() / pieces_now.sum()),
            )
        )
    return tuple(found)


def _pieces(windows: Sequence[Encoding]) -> int:
    return sum(map(len, windows))
