"""The tables of a pretraining recipe; `pretrain_settings.py` puts them together and checks them.

Every field is a flag of the same name with dashes and a key of its table; its text is the help.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bothways.data.masking import Masking, Unit
from bothways.training.optim import OptimizerName
from bothways.training.schedule import ScheduleName

Goal = Literal["masked-lm", "replaced"]
Relation = Literal["none", "next-sentence", "sentence-order"]


@dataclass(frozen=True)
class CorpusSettings:
    """What is read.

    Attributes:
        data: folder of shards that `bothways prepare` has made.
        input: raw files, or names on the hub, prepared first into the output folder.
        tokenizer: folder of the tokenizer that --input is read with; unset: that of --from.
        document: where documents end in text files of --input.
        text: column of the text in files of --input that have rows.
        encoding: of the characters of --input.
        new_words: file of words to add to the vocabulary of --from, one a line.
    """

    data: Path | None = None
    input: tuple[str, ...] = ()
    tokenizer: str | None = None
    document: Literal["blank-line", "line", "file"] = "blank-line"
    text: str | None = None
    encoding: str = "utf-8"
    new_words: Path | None = None


@dataclass(frozen=True)
class ObjectiveSettings:
    """What is learned.

    Attributes:
        goal: masked-lm, to guess hidden tokens; replaced, to find tokens that a generator put in;
            unset: what the preset or the model was made for.
        mask_share: share of the tokens that is hidden.
        shown_as_mask: share of those that the mask token stands for.
        shown_as_random: share of those that another token stands for; the rest stays as it is.
        mask_unit: what is hidden together: tokens, whole words, or spans of words.
        span_words: mean length of a span.
        static_masks: the same masks in every epoch, as BERT had them.
        relation: also learn whether two parts of a sequence follow each other (next-sentence), or
            stand in their order (sentence-order); RoBERTa showed that it is not needed.
        sharing: embeddings of generator and encoder; unset: as the preset's family has it.
        detection_weight: of the loss of finding replaced tokens.
    """

    goal: Goal | None = None
    mask_share: float = 0.15
    shown_as_mask: float = 0.8
    shown_as_random: float = 0.1
    mask_unit: Unit = "token"
    span_words: float = 3.0
    static_masks: bool = False
    relation: Relation = "none"
    sharing: Literal["embeddings", "disentangled", "none"] | None = None
    detection_weight: float = 50.0

    def masking(self) -> Masking:
        """What is hidden, and how.

        Raises:
            UsageError: for shares that are none.
        """
        return Masking(
            share=self.mask_share,
            shown_as_mask=self.shown_as_mask,
            shown_as_random=self.shown_as_random,
            unit=self.mask_unit,
            span_words=self.span_words,
            static=self.static_masks,
        )


@dataclass(frozen=True)
class OptimSettings:
    """The optimizer, its learning rate and how it moves.

    Attributes:
        optimizer: adamw; stable-adamw, whose updates are bounded; muon, for the matrices of layers,
            with adamw for the rest.
        learning_rate: the peak; unset: the preset's.
        matrix_learning_rate: the peak of muon.
        weight_decay: of matrices and tables; biases and norms do not decay.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        clip: largest norm of all gradients together; 0 for no limit.
        schedule: after the warm-up down in a line, along a cosine, or stable and then down.
        warmup: share of the steps over which the rate rises.
        decay: share of the steps over which a trapezoid falls.
        ramp: share of the steps over which the batch grows to its full size; 0 for none.
        ramp_start: share of the full batch that the ramp begins with.
    """

    optimizer: OptimizerName = "adamw"
    learning_rate: float | None = None
    matrix_learning_rate: float = 0.02
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.98
    clip: float = 1.0
    schedule: ScheduleName = "linear"
    warmup: float = 0.06
    decay: float = 0.2
    ramp: float = 0.0
    ramp_start: float = 0.25


@dataclass(frozen=True)
class NetworkSettings:
    """What is changed about the encoder.

    Attributes:
        hidden_dropout: dropout of embeddings and sub-layers; unset: the preset's.
        attention_dropout: dropout of attention weights; unset: the preset's.
        compile: compile the encoder; on an accelerator, in half precision, without attention
            dropout.
        checkpoint_activations: compute the layers again in the backward pass, to save memory.
    """

    hidden_dropout: float | None = None
    attention_dropout: float | None = None
    compile: bool = False
    checkpoint_activations: bool = False

    @property
    def dropout(self) -> dict[str, float]:
        """The rates that are given, by their names in `DropoutConfig`."""
        rates = {"hidden": self.hidden_dropout, "attention": self.attention_dropout}
        return {name: rate for name, rate in rates.items() if rate is not None}


@dataclass(frozen=True)
class LoopSettings:
    """How long, how much at once, and what is kept.

    Attributes:
        steps: of the optimizer.
        hours: instead of steps: the number of steps that fit, fixed after 50 measured ones.
        batch_tokens: tokens of a step, of all processes together; unset: the preset's.
        max_length: longest sequence in tokens, special ones included; unset: the preset's.
        accumulate: parts in which a process computes a step; unset: as many as suit the device.
        evaluate_every: steps between evaluations on held-out text; unset: a tenth of the run.
        held_out_tokens: most tokens of an evaluation.
        checkpoint_every: steps between checkpoints; unset: one every 5 minutes.
        keep_checkpoints: newest checkpoints that stay.
        log_every: steps between lines of metrics.jsonl, at most 10.
        spike: how many times its running mean the loss may be; 0 for any.
        on_bad_step: what a loss that is not finite, or a spike, does: stop; or skip, go back to the
            newest checkpoint and leave the step out.
    """

    steps: int | None = None
    hours: float | None = None
    batch_tokens: int | None = None
    max_length: int | None = None
    accumulate: int | None = None
    evaluate_every: int | None = None
    held_out_tokens: int = 65_536
    checkpoint_every: int | None = None
    keep_checkpoints: int = 2
    log_every: int = 10
    spike: float = 2.0
    on_bad_step: Literal["stop", "skip"] = "stop"


@dataclass(frozen=True)
class MachineSettings:
    """Where it runs.

    Attributes:
        seed: what weights, order, masks and dropout are functions of.
        device: cpu, cuda, cuda:1 or mps; unset: the best there is.
        precision: number format of the computation; auto: what suits the device.
        threads: processor threads; unset: one a core.
        workers: batches that are made ahead of the step that reads them.
        sharded: under a launcher, spread weights, gradients and moments over the processes (FSDP2),
            for models that one device cannot hold.
    """

    seed: int = 0
    device: str | None = None
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    threads: int | None = None
    workers: int = 2
    sharded: bool = False
