"""What pretraining leaves: the model, its generator, its card, its curve and where it came from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bothways.checkpoints.card import CardFacts
from bothways.checkpoints.parts import Parts
from bothways.checkpoints.save import save_parts
from bothways.data.manifest import Manifest
from bothways.evaluation.evaluate import versions
from bothways.files import write_text
from bothways.report.curves import loss_curve
from bothways.training.networks import GENERATOR, Networks
from bothways.training.pretrain_settings import PretrainSettings
from bothways.training.replaced import ReplacedTokenObjective
from bothways.training.state import Progress

CURVE_NAME = "loss.svg"


@dataclass(frozen=True)
class Outcome:
    """What is known when a run is over.

    Attributes:
        progress: where it ended.
        steps: of the whole run.
        before: scores on held-out text before the first step; empty where the model is new.
        after: the same at the end; empty where nothing was held out.
        unigram_loss: of guessing by frequency alone, on the same masked tokens; None with `after`.
        manifest: of the shards.
    """

    progress: Progress
    steps: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    unigram_loss: float | None
    manifest: Manifest


def save_pretrained(settings: PretrainSettings, networks: Networks, outcome: Outcome) -> None:
    """Write the model folder.

    Args:
        settings: of the command.
        networks: trained.
        outcome: of the run.
    """
    folder, parts = settings.output, with_declared_length(settings, networks.parts)
    provenance = {
        "base_model": settings.from_,
        "settings": settings.deciding(),
        "steps": outcome.progress.step,
        "tokens": outcome.progress.tokens,
        "seconds": outcome.progress.seconds,
        "skipped_steps": list(outcome.progress.skipped),
        "corpus": {
            "settings": dict(outcome.manifest.settings),
            "counts": dict(outcome.manifest.counts),
            "tokenizer": outcome.manifest.fingerprint,
        },
        "held_out": {"before": dict(outcome.before), "after": dict(outcome.after)},
        "unigram_loss": outcome.unigram_loss,
        "versions": versions(),
    }
    if isinstance(networks.objective, ReplacedTokenObjective):
        provenance["sharing"] = networks.objective.sharing
    if networks.generator is not None:
        save_parts(networks.generator, folder / GENERATOR, overwrite=True)
    save_parts(
        dataclasses.replace(parts, settings={**parts.settings, "provenance": provenance}),
        folder,
        overwrite=True,
        card=card(settings, networks, outcome),
    )
    level = None
    if outcome.unigram_loss is not None and networks.generator is None:
        level = ("guessing by frequency", outcome.unigram_loss)
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    title = folder.resolve().name
    write_text(folder / CURVE_NAME, loss_curve(map(json.loads, lines), title=title, level=level))


def with_declared_length(settings: PretrainSettings, parts: Parts) -> Parts:
    """A new model's tokenizer says how long the texts were, where later positions never learned."""
    length, axis = settings.loop.max_length, parts.config.embeddings
    if settings.from_ is not None or parts.tokenizer is None or axis.positions != "learned":
        return parts
    assert length is not None
    return dataclasses.replace(parts, tokenizer=parts.tokenizer.with_max_length(length))


def card(settings: PretrainSettings, networks: Networks, outcome: Outcome) -> CardFacts:
    """The facts of the model card."""
    counts: Mapping[str, Any] = outcome.manifest.counts
    read = ", ".join(f"`{name}`" for name in outcome.manifest.settings.get("input", ()))
    progress = outcome.progress
    lines = [
        (
            f"Read {progress.tokens:,} tokens in {progress.step:,} steps, from "
            f"{counts.get('documents_train', 0):,} documents of {read or 'prepared shards'} "
            f"({counts.get('tokens_train', 0):,} tokens)."
        ),
        (
            f"Sequences of up to {settings.loop.max_length} tokens, "
            f"{settings.objective.mask_share:.0%} of the tokens hidden "
            f"(unit: {settings.objective.mask_unit})."
        ),
    ]
    if progress.skipped:
        lines.append(f"{len(progress.skipped)} steps were left out for their loss.")
    scores = {}
    if outcome.before:
        scores["held-out text, before"] = _told(outcome.before)
    if outcome.after:
        scores["held-out text"] = _told(outcome.after)
    if outcome.unigram_loss is not None:
        name = "loss" if networks.generator is None else "masked_lm"
        scores["guessing by frequency"] = {name: f"{outcome.unigram_loss:.3f}"}
    folder = str(settings.output)
    fills = networks.parts.masked_lm is not None
    tokenizer = networks.parts.tokenizer
    mask = "" if tokenizer is None else tokenizer.special_tokens.get("mask", "")
    use = (
        f'print(model.fill(["One {mask} of text."]))'
        if fills
        else 'print(model.embed(["A text."]).vectors.shape)'
    )
    return CardFacts(
        title=settings.output.resolve().name,
        base_model=settings.from_ or "",
        task="fill" if fills else "",
        data=tuple(lines),
        scores=scores,
        limits=(
            "Learned from the text above, with whatever is wrong or one-sided in it.",
            "An encoder to fine-tune; by itself it classifies nothing.",
        ),
        use=("import bothways", f"model = bothways.load({folder!r})", use),
    )


def _told(scores: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{value:.3f}" for name, value in scores.items()}
