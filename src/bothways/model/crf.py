"""A linear-chain conditional random field over the words of a text: tags that depend on each other.

The head scores the tags of every token, like any token head, and holds the scores of one tag after
another; what the task does with both is loss, best path and probabilities, which are here too. The
task says which tokens stand for words, and which tags may not follow which.

Source: Lafferty, McCallum and Pereira 2001; over an encoder: Lample et al. 2016, section 2.

Dimension letters: N texts, W words of the longest, C tags, S = C + 1, H hidden, T tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bothways.model.dropout import Dropout
from bothways.model.encoder import EncoderOutput
from bothways.model.layout import Batch
from bothways.model.linear import Linear

# Added to what may not be; finite, so that a text of which nothing may be still has a best path.
FORBIDDEN = -1e4


class CrfHead(nn.Module):
    """Scores of each token's tags, and of one tag after another.

    Args:
        hidden_size: width of the encoder.
        num_labels: how many tags there are.
        dropout: rate before the output layer.

    Attributes:
        transitions: (S, S), a row a tag and a column the tag after it; the last row is the start
            of a text, the last column its end.
    """

    unit: ClassVar[Literal["token"]] = "token"

    def __init__(self, hidden_size: int, num_labels: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.settings = {"hidden_size": hidden_size, "num_labels": num_labels, "dropout": dropout}
        self.dropout = Dropout(dropout)
        self.output = Linear(hidden_size, num_labels)
        self.transitions = nn.Parameter(torch.zeros(num_labels + 1, num_labels + 1))

    def forward(self, output: EncoderOutput, batch: Batch) -> Float[Tensor, "T C"]:
        """Scores of every token's tags."""
        del batch
        scores: Tensor = self.output(self.dropout(output.last_hidden))
        return scores

    def beside_logits(self) -> dict[str, Tensor]:
        """What loss and decoding need besides, by name; `with_head` puts it into the batch."""
        return {"transitions": self.transitions}


def with_head(batch: Batch, head: nn.Module | None) -> Batch:
    """The batch with what its head says besides the logits, for loss and decoding, if anything."""
    beside = getattr(head, "beside_logits", None)
    return batch if beside is None else replace(batch, targets={**batch.targets, **beside()})


def path_score(
    scores: Float[Tensor, "N W C"],
    tags: Int[Tensor, "N W"],
    lengths: Int[Tensor, " N"],
    transitions: Float[Tensor, "S S"],
) -> Float[Tensor, " N"]:
    """The score of a path: of its tags, and of each after the one before.

    Args:
        scores: of each word's tags; beyond a text's length they do not count.
        tags: of the path, valid ones beyond the length too.
        lengths: words of each text, at least 1.
        transitions: of one tag after another.
    """
    edge = scores.shape[2]
    inside = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
    own = scores.gather(2, tags[:, :, None]).squeeze(2)
    steps = transitions[tags[:, :-1], tags[:, 1:]]
    last = tags.gather(1, lengths[:, None] - 1).squeeze(1)
    total = (own * inside).sum(1) + (steps * inside[:, 1:]).sum(1)
    return total + transitions[edge, tags[:, 0]] + transitions[last, edge]


def log_partition(
    scores: Float[Tensor, "N W C"],
    lengths: Int[Tensor, " N"],
    transitions: Float[Tensor, "S S"],
) -> Float[Tensor, " N"]:
    """The log of the sum of exp(score) over all paths, by the forward algorithm."""
    edge = scores.shape[2]
    before = _forward(scores, lengths, transitions)[-1]
    return (before + transitions[:edge, edge]).logsumexp(1)


def best_path(
    scores: Float[Tensor, "N W C"],
    lengths: Int[Tensor, " N"],
    transitions: Float[Tensor, "S S"],
) -> Int[Tensor, "N W"]:
    """The tags of the path with the largest score (Viterbi); 0 beyond a text's length."""
    edge = scores.shape[2]
    between = transitions[:edge, :edge]
    best = scores[:, 0] + transitions[edge, :edge]
    back = []
    for word in range(1, scores.shape[1]):
        # (N, C before, C after) -> the best tag before each
        values, origin = (best[:, :, None] + between).max(1)
        going = (word < lengths)[:, None]
        best = torch.where(going, values + scores[:, word], best)
        # A text that is over stays at its last tag.
        stay = torch.arange(edge, device=scores.device).expand_as(origin)
        back.append(torch.where(going, origin, stay))
    tag = (best + transitions[:edge, edge]).argmax(1)
    path = [tag]
    for origin in reversed(back):
        tag = origin.gather(1, tag[:, None]).squeeze(1)
        path.append(tag)
    tags = torch.stack(path[::-1], 1)
    inside = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
    return torch.where(inside, tags, 0)


def marginals(
    scores: Float[Tensor, "N W C"],
    lengths: Int[Tensor, " N"],
    transitions: Float[Tensor, "S S"],
) -> Float[Tensor, "N W C"]:
    """The probability of each tag of each word over all paths; what is beyond a length is nothing.

    Forward and backward algorithm.
    """
    edge = scores.shape[2]
    forward = _forward(scores, lengths, transitions)
    between = transitions[:edge, :edge]
    end = transitions[:edge, edge].expand(len(scores), edge)
    after = end
    backward = [after]
    for word in range(scores.shape[1] - 1, 0, -1):
        # (N, C before, C after) -> C before
        inner = (between + (scores[:, word] + after)[:, None, :]).logsumexp(2)
        after = torch.where((word < lengths)[:, None], inner, end)
        backward.append(after)
    together = torch.stack(forward, 1) + torch.stack(backward[::-1], 1)
    return together.softmax(2)


def forbidden_moves(allowed: Bool[Tensor, "S S"]) -> Float[Tensor, "S S"]:
    """What to add to transitions, so that only those that are allowed are taken."""
    return torch.where(allowed, 0.0, FORBIDDEN)


def _forward(
    scores: Float[Tensor, "N W C"],
    lengths: Int[Tensor, " N"],
    transitions: Float[Tensor, "S S"],
) -> list[Tensor]:
    """For each word the log-sums over all paths that end there in each tag, (N, C)."""
    edge = scores.shape[2]
    before = scores[:, 0] + transitions[edge, :edge]
    found = [before]
    for word in range(1, scores.shape[1]):
        # (N, C before, C after) -> C after
        inner = (before[:, :, None] + transitions[:edge, :edge]).logsumexp(1) + scores[:, word]
        before = torch.where((word < lengths)[:, None], inner, before)
        found.append(before)
    return found
