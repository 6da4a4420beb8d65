"""The table [tuning]: what fine-tuning may do beyond its plain form.

What is done stands in a file each: `layers.py` (rates and new weights by layer), `balanced.py`
(what is drawn), `adapters.py` (LoRA), `curve.py` (more or less data), `few_shot.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TuningSettings:
    """What fine-tuning does beyond its plain form.

    Attributes:
        layer_decay: factor on the learning rate from each layer to the one below, such as 0.9; the
            head has the whole rate.
        reinit_layers: so many layers from the top, and the pooler, begin with new random weights.
        sampling: what an epoch reads: every text once, or as many texts of each label (balanced).
        lora_rank: learn low-rank changes of the encoder's projections, of this rank, and not the
            encoder itself.
        lora_alpha: the changes are scaled by this over the rank; unset: twice the rank.
        lora_targets: projections that are changed: query, key, value, output, input, gate.
        lora_save: put the changes into the weights (merged), or also into a folder of their own
            (adapter) that peft reads over the base model.
        learning_curve: shares of the training data that are learned from in turn, to see what more
            of it brings; 0.1,0.25,0.5,1 where the flag stands alone.
        few_shot: for 8 to 64 texts a label: pull texts of one label together, push others apart,
            then fit a linear head.
    """

    layer_decay: float = 1.0
    reinit_layers: int = 0
    sampling: Literal["plain", "balanced"] = "plain"
    lora_rank: int = 0
    lora_alpha: float | None = None
    lora_targets: tuple[str, ...] = ("query", "value")
    lora_save: Literal["merged", "adapter"] = "merged"
    learning_curve: tuple[float, ...] = ()
    few_shot: bool = False

    def problems(
        self, *, task: str, freeze: str | None, has_dev: bool, windows: bool, multi_label: bool
    ) -> list[str]:
        """What cannot be, or does not go together, in words.

        Args:
            task: of the command.
            freeze: what does not learn.
            has_dev: whether anything is held out.
            windows: whether long texts are read in windows.
            multi_label: whether texts have several labels.
        """
        whole = freeze == "encoder"
        one_label = task == "classify" and not multi_label
        problems = {
            f"--layer-decay is {self.layer_decay}; expected a factor above 0 up to 1": not (
                0.0 < self.layer_decay <= 1.0
            ),
            f"--reinit-layers is {self.reinit_layers}; expected 0 or more": self.reinit_layers < 0,
            f"--lora-rank is {self.lora_rank}; expected at least 1, or 0 for no LoRA": (
                self.lora_rank < 0
            ),
            f"--lora-alpha is {self.lora_alpha}; expected a number above 0": (
                self.lora_alpha is not None and not 0.0 < self.lora_alpha < float("inf")
            ),
            "--lora-targets is empty; give at least one, as in query,value": not self.lora_targets,
            "--lora-alpha, --lora-targets and --lora-save go with --lora-rank; give it too": (
                self.lora_rank == 0 and self._says_how()
            ),
            f"--freeze is {freeze!r}; expected embeddings, encoder, or a number of layers from 1": (
                freeze not in (None, "embeddings", "encoder") and not _is_count(freeze or "")
            ),
            "--learning-curve has shares that are not above 0 up to 1": not all(
                0.0 < share <= 1.0 for share in self.learning_curve
            ),
            "--learning-curve needs something to score on: give --dev or --dev-share": (
                bool(self.learning_curve) and not has_dev
            ),
            "--freeze encoder leaves no layer to learn; leave out --layer-decay, --reinit-layers, "
            "--lora-rank and --few-shot": (
                whole and (self.layer_decay != 1.0 or self.reinit_layers > 0 or self.lora_rank > 0)
            )
            or (whole and self.few_shot),
            "--lora-rank freezes the whole encoder; leave out --freeze and --reinit-layers": (
                self.lora_rank > 0
                and ((freeze is not None and not whole) or self.reinit_layers > 0)
            ),
            "--sampling balanced and --few-shot need one label a text (--task classify without "
            "--multi-label)": not one_label and (self.few_shot or self.sampling == "balanced"),
            "--few-shot reads each text once; leave out --policy windows": self.few_shot
            and windows,
            "--few-shot balances by itself and has no LoRA; leave out --sampling and --lora-rank": (
                self.few_shot and (self.sampling == "balanced" or self.lora_rank > 0)
            ),
        }
        return [words for words, wrong in problems.items() if wrong]

    def _says_how(self) -> bool:
        plain = TuningSettings()
        names = ("lora_alpha", "lora_targets", "lora_save")
        return any(getattr(self, name) != getattr(plain, name) for name in names)


def _is_count(word: str) -> bool:
    return word.isdecimal() and int(word) > 0
