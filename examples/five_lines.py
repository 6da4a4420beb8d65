"""The usual five-line classifier of PyTorch over an encoder, with three names changed.

Where one writes `tokenizer(texts, ...)`, `encoder(**batch)` and `.last_hidden_state`, it is
`tokenizer.padded(texts)`, `encoder.padded(**batch)` and `.last_hidden`. Everything around these
lines is ordinary PyTorch.

    python examples/five_lines.py MODEL
"""

from __future__ import annotations

import sys

import torch

import bothways

TEXTS = ["a fine film", "a dull film", "great fun", "a bore", "lovely", "what a waste of time"]
LABELS = [1, 0, 1, 0, 1, 0]
STEPS = 8


def logits_of(model: bothways.Model, head: torch.nn.Linear, texts: list[str]) -> torch.Tensor:
    """The five lines, but for the head, which outlives them."""
    encoder = model.encoder
    tokenizer = model.tokenizer
    batch = tokenizer.padded(texts)
    first = encoder.padded(**batch).last_hidden[:, 0]
    logits: torch.Tensor = head(first)
    return logits


def main(source: str) -> list[float]:
    """Train on six texts; returns the loss of each step."""
    torch.manual_seed(0)
    model = bothways.load(source)
    model.encoder.train()
    head = torch.nn.Linear(model.encoder.config.hidden_size, 2)
    optimizer = torch.optim.AdamW([*model.encoder.parameters(), *head.parameters()], lr=2e-4)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(
            logits_of(model, head, TEXTS), torch.tensor(LABELS)
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(" ".join(f"{loss:.3f}" for loss in main(*sys.argv[1:])))
