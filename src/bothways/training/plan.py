"""What a pretraining run will take, on paper: arithmetic, memory, hours, cost.

    hours = tokens x FLOPs a token / (devices x peak x utilisation)

FLOPs are counted (`estimate.py`), the rest is assumed and stated in the answer: how much of its
peak a device reaches, what an hour costs. Two published runs bound the utilisation, and a test
recomputes both: ModernBERT-base, 1.72 trillion tokens in 191 hours on 8 H100 (26 % of peak), and
NVIDIA's BERT-large, 580 sequences of 128 tokens a second on an A100 (45 %).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from bothways.checkpoints.empty import without_memory
from bothways.errors import UsageError, nearest
from bothways.families.presets import generator_of, preset
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.training.estimate import forward_flops, head_flops

LOW, USUAL, HIGH = 0.26, 0.35, 0.45
PAPER_NOTE = (
    "utilisation between that of ModernBERT-base on 8 H100 (26 %) and NVIDIA's BERT-large on an "
    "A100 (45 %)"
)
# Bytes a parameter: weight, gradient and two moments in float32.
STATE_BYTES = 16
# Bytes a token, layer and unit of width that wait for the backward pass in half precision, where
# attention keeps no table of weights (Korthikanti et al. 2022, table 2, without its second term).
ACTIVATION_BYTES = 34
# Where nothing is said: the device of a pretraining, and the texts of a fine-tuning beside it.
DEFAULT_DEVICE, EXAMPLES = "h100x8", 10_000
# What is left free for the vocabulary's chunks, the libraries and fragmentation.
USABLE_MEMORY = 0.85


@dataclass(frozen=True)
class Device:
    """A kind of accelerator.

    Attributes:
        peak: FLOP/s of dense bfloat16 products, by its data sheet.
        memory: bytes.
        price: of an hour, in dollars; an assumption.
    """

    peak: float
    memory: float
    price: float


DEVICES = {
    "t4": Device(65e12, 16e9, 0.35),
    "l4": Device(121e12, 24e9, 0.7),
    "a10": Device(125e12, 24e9, 0.8),
    "rtx4090": Device(165e12, 24e9, 0.5),
    "v100": Device(125e12, 32e9, 0.6),
    "a100": Device(312e12, 80e9, 1.8),
    "h100": Device(989e12, 80e9, 3.0),
    "h200": Device(989e12, 141e9, 3.8),
    "b200": Device(2250e12, 192e9, 5.5),
}


@dataclass(frozen=True)
class PlanSettings:
    """What a run will take: pretraining on paper; using or fine-tuning a model, measured here.

    Pretraining takes --preset and --tokens; a model --model and --data.

    Attributes:
        preset: the shape of the encoder to pretrain.
        tokens: how many the run reads, such as 3.3B, 500M or 1.7T.
        device: kind and number, such as h200x8, or a100 for one; unset: h100x8 for pretraining,
            and for a model only what is measured here.
        length: tokens of a sequence in pretraining.
        mask_share: share of the tokens that is masked.
        batch_tokens: tokens of one forward pass on a device.
        utilisation: share of its peak that a device reaches; unset: 0.35, with a range.
        price: dollars an hour and device; unset: an assumption, and none for this machine.
        compare_finetune: also compute what fine-tuning an encoder of this shape would take.
        examples: texts that are read or fine-tuned on; unset: 10,000, or those of --data.
        epochs: passes over them.
    """

    preset: str | None = None
    tokens: str | None = None
    device: str | None = None
    length: int = 512
    mask_share: float = 0.3
    batch_tokens: int = 65_536
    utilisation: float | None = None
    price: float | None = None
    compare_finetune: bool = False
    examples: int | None = None
    epochs: int = 3


@dataclass(frozen=True)
class Shares:
    """Of its peak, what a device reaches.

    Attributes:
        low, usual, high: of published runs, or all as given.
        note: where they come from.
    """

    low: float
    usual: float
    high: float
    note: str


def shares_of(settings: PlanSettings) -> Shares:
    """As asked, else those of published runs.

    Raises:
        UsageError: for numbers that cannot be.
    """
    _check_numbers(settings)
    given = settings.utilisation
    if given is not None:
        return Shares(given, given, given, f"utilisation {given:.0%}")
    return Shares(LOW, USUAL, HIGH, f"{PAPER_NOTE}, usually {USUAL:.0%}")


@dataclass(frozen=True)
class Effort:
    """What some work takes.

    Attributes:
        tokens: read.
        flops: of all matrix products.
        hours, hours_low, hours_high: at the usual, the best and the worst utilisation.
        cost: dollars, at the usual one.
    """

    tokens: float
    flops: float
    hours: float
    hours_low: float
    hours_high: float
    cost: float


@dataclass(frozen=True)
class Plan:
    """A run on paper.

    Attributes:
        parameters: of everything that is trained.
        flops_per_token: of forward and backward pass.
        run: the pretraining.
        finetune: the same for fine-tuning; None where that was not asked for.
        state_bytes: weights, gradients and moments, on every device or, sharded, on all together.
        activation_bytes: of one forward pass on a device.
        fits: whether both fit on a device.
        fits_sharded: the same with the state spread over the devices.
        devices: how many.
        assumptions: in words.
    """

    parameters: int
    flops_per_token: float
    run: Effort
    finetune: Effort | None
    state_bytes: float
    activation_bytes: float
    fits: bool
    fits_sharded: bool
    devices: int
    assumptions: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The object that `plan --json` prints."""
        return asdict(self)


def plan_run(settings: PlanSettings) -> Plan:
    """Compute a run.

    Raises:
        UsageError: for a shape, a device or a number that cannot be.

    Example:
        >>> plan = plan_run(PlanSettings("bert-base", "3.3B", device="h200x8"))
        >>> round(plan.run.hours, 1)
        0.2
    """
    if settings.preset is None or settings.tokens is None:
        raise UsageError(
            "a plan of pretraining needs a shape and how much it reads: "
            "--preset bert-base --tokens 3.3B; for a model give --model and --data"
        )
    config = preset(settings.preset)
    kind, count, device = parse_device(settings.device or DEFAULT_DEVICE)
    tokens = parse_count(settings.tokens)
    shares = shares_of(settings)
    usable = config.embeddings.usable_positions
    if settings.length > usable:
        raise UsageError(f"--length is {settings.length}; this shape reads at most {usable}")
    per_token = training_flops(config, settings.length, settings.mask_share)
    parameters = _parameters(config)
    price = device.price if settings.price is None else settings.price

    def effort(tokens: float, flops: float) -> Effort:
        seconds = flops / (device.peak * count)
        return Effort(
            tokens=tokens,
            flops=flops,
            hours=seconds / shares.usual / 3600,
            hours_low=seconds / shares.high / 3600,
            hours_high=seconds / shares.low / 3600,
            cost=seconds / shares.usual / 3600 * count * price,
        )

    finetune = None
    if settings.compare_finetune:
        read = float((settings.examples or EXAMPLES) * settings.epochs * settings.length)
        finetune = effort(read, 3.0 * read * _encoder_flops(config, settings.length))
    state = float(parameters * STATE_BYTES)
    activations = settings.batch_tokens * _activation_bytes(config)
    room = device.memory * USABLE_MEMORY
    return Plan(
        parameters=parameters,
        flops_per_token=per_token,
        run=effort(tokens, tokens * per_token),
        finetune=finetune,
        state_bytes=state,
        activation_bytes=activations,
        fits=state + activations <= room,
        fits_sharded=state / count + activations <= room,
        devices=count,
        assumptions=(
            (
                f"{count} x {kind}: {device.peak / 1e12:,.0f} TFLOP/s (bfloat16, dense), "
                f"{device.memory / 1e9:.0f} GB, ${price:.2f} an hour"
            ),
            shares.note,
            (
                f"sequences of {settings.length} tokens, {settings.mask_share:.0%} masked, "
                "nothing padded"
            ),
            (
                f"{settings.batch_tokens:,} tokens a forward pass and device, bfloat16 "
                "activations, AdamW in float32"
            ),
        ),
    )


def training_flops(config: EncoderConfig, length: int, mask_share: float) -> float:
    """FLOPs of forward and backward pass a token, masked language modelling.

    Args:
        config: the encoder; one with narrow embeddings or disentangled attention, which are
            trained to detect replaced tokens, counts with its generator.
        length: tokens of a sequence.
        mask_share: share of them that is masked.
    """
    masked = mask_share * length
    head_of = generator_of(config) if detects(config) else config
    total = forward_flops(config, [length])
    if head_of is not config:
        total += forward_flops(head_of, [length])
    return 3.0 * (total + head_flops(head_of, round(masked))) / length


def detects(config: EncoderConfig) -> bool:
    """Whether presets of this kind learn from replaced tokens."""
    return config.relative is not None or config.embeddings.size != config.hidden_size


def _encoder_flops(config: EncoderConfig, length: int) -> float:
    return forward_flops(config, [length]) / length


def _parameters(config: EncoderConfig) -> int:
    with without_memory():
        count = Encoder(config).num_parameters()
        if detects(config):
            generator = generator_of(config)
            table = generator.embeddings.vocab_size * generator.embeddings.size
            count += Encoder(generator).num_parameters() - table
    return count


def _activation_bytes(config: EncoderConfig) -> float:
    """Bytes a token that wait for the backward pass."""
    # 34 = 18 for attention and norms and 16 for a feed-forward network four times as wide.
    inner = config.feedforward.size * (1.5 if config.feedforward.gated else 1.0)
    of_attention = (ACTIVATION_BYTES - 16) * config.hidden_size
    return config.num_layers * (of_attention + 4.0 * inner)


def parse_count(text: str) -> float:
    """A number with k, M, B or T behind it.

    Raises:
        UsageError: for anything else, and for 0.

    Example:
        >>> parse_count("3.3B")
        3300000000.0
    """
    match = re.fullmatch(r"(\d+(?:[._]\d+)*)\s*([kKmMbBgGtT]?)", text.strip())
    sizes = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
    value = float(match[1].replace("_", "")) * sizes[match[2].lower()] if match else 0.0
    if value <= 0.0:
        raise UsageError(f"{text!r} is no number of tokens; expected one such as 3.3B or 500M")
    return value


def parse_device(text: str) -> tuple[str, int, Device]:
    """Kind, number and figures of `h200x8`.

    Raises:
        UsageError: for a kind that is not in the table, or a number below 1.
    """
    name = text.strip().lower()
    kind, _, number = (name, "", "1") if name in DEVICES else name.rpartition("x")
    if kind not in DEVICES or not number.isdigit() or int(number) < 1:
        raise UsageError(
            f"{text!r} is no device; {nearest(kind or name, DEVICES)} Several are written h200x8"
        )
    return kind, int(number), DEVICES[kind]


def _check_numbers(settings: PlanSettings) -> None:
    problems = [
        f"--{name.replace('_', '-')} is {value}; expected at least 1"
        for name in ("length", "batch_tokens", "examples", "epochs")
        if (value := getattr(settings, name)) is not None and value < 1
    ]
    if not 0.0 < settings.mask_share < 1.0:
        problems.append(f"--mask-share is {settings.mask_share}; expected a share between 0 and 1")
    if settings.utilisation is not None and not 0.0 < settings.utilisation <= 1.0:
        problems.append(f"--utilisation is {settings.utilisation}; expected above 0 up to 1")
    if settings.price is not None and settings.price < 0.0:
        problems.append(f"--price is {settings.price}; expected 0 or more")
    if problems:
        raise UsageError("; ".join(problems))
