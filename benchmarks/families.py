"""Embedding speed of families with equations of their own, beside transformers.

    python benchmarks/families.py [--json] [--rounds 3] [--threads 2] [--shape deberta-v3-small]

Random models of published shapes in float32, the same weights on both sides, over the lengths of
400 mixed lines and random ids; tokenisation is left out. transformers runs length-sorted batches
of 32 with its default attention; the means of the last states are compared first.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
import transformers
from torch import Tensor

from bothways.families.registry import FAMILIES
from bothways.inference import prepacked
from bothways.inference.predictor import run
from bothways.model.encoder import Encoder
from measure import alternate, machine, minilm, mixed_lines, ratio

SHAPES: dict[str, dict[str, Any]] = {
    "deberta-v3-small": {
        "model_type": "deberta-v2",
        "vocab_size": 128_100,
        "hidden_size": 768,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "position_buckets": 256,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "modernbert-base": {
        "model_type": "modernbert",
        "vocab_size": 50_368,
        "hidden_size": 768,
        "num_hidden_layers": 22,
        "num_attention_heads": 12,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "pad_token_id": 50_283,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0,
        "local_attention": 128,
    },
}
LONGEST = 512
BATCH = 32


def lengths_of_lines(count: int) -> list[int]:
    """Tokens of each of the mixed lines, by the real MiniLM's tokenizer."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    return [len(encoding.ids) for encoding in tokenizer.encode_batch_fast(mixed_lines(count))]


def our_side(encoder: Encoder, ids: Sequence[list[int]]) -> Callable[[], Tensor]:
    """Batches by tokens, nothing padded."""
    prepacked.install(encoder)

    def embed() -> Tensor:
        vectors = torch.empty(len(ids), encoder.config.hidden_size)
        for indices, means, _ in run(encoder, lambda o, b: b.layout.mean(o.last_hidden), ids):
            vectors[indices] = means
        return vectors

    return embed


def their_side(model: Any, ids: Sequence[list[int]]) -> Callable[[], Tensor]:
    """Length-sorted batches of 32, padded."""
    order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]

    @torch.inference_mode()
    def embed() -> Tensor:
        vectors = torch.empty(len(ids), model.config.hidden_size)
        for batch in batches:
            rows = [torch.tensor(ids[index]) for index in batch]
            given = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            lengths = torch.tensor([len(row) for row in rows])
            mask = (torch.arange(given.shape[1]) < lengths[:, None]).long()
            states = model(input_ids=given, attention_mask=mask).last_hidden_state
            weights = mask[..., None].float()
            vectors[batch] = (states * weights).sum(1) / weights.sum(1)
        return vectors

    return embed


def both_sides(keys: dict[str, Any], ids: Sequence[list[int]]) -> dict[str, Callable[[], Tensor]]:
    """The same random weights in both libraries."""
    family = FAMILIES[keys["model_type"]]
    encoder = Encoder(family.read_config(keys)).eval()
    state = encoder.state_dict()
    slots = family.names.bind(encoder, encoder.config)
    settings = transformers.AutoConfig.for_model(**keys)
    theirs = getattr(transformers, family.bare)(settings).eval()
    theirs.load_state_dict({slot.theirs: slot.join(state) for slot in slots})
    return {"bothways": our_side(encoder, ids), "transformers": their_side(theirs, ids)}


def measure(name: str, lengths: Sequence[int], rounds: int) -> dict[str, Any]:
    """Both sides in turn over one shape."""
    torch.manual_seed(0)
    vocab_size = SHAPES[name]["vocab_size"]
    ids = [torch.randint(4, vocab_size - 100, (length,)).tolist() for length in lengths]
    sides = both_sides(SHAPES[name], ids)
    worst = float((sides["bothways"]() - sides["transformers"]()).abs().max())
    times = alternate(sides, rounds)
    found = ratio(times["transformers"], times["bothways"])
    return {
        "seconds": {side: statistics.median(values) for side, values in times.items()},
        "tokens_per_second": sum(lengths) / statistics.median(times["bothways"]),
        "versus_transformers_ratio": found.median,
        "versus_transformers": asdict(found),
        "largest_difference": worst,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--shape", choices=SHAPES, default=None)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lengths = lengths_of_lines(options.texts)
    names = [options.shape] if options.shape else list(SHAPES)
    result: dict[str, Any] = {
        "machine": machine(),
        "texts": len(lengths),
        "tokens": sum(lengths),
        **{name: measure(name, lengths, options.rounds) for name in names},
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}\n{len(lengths)} texts, {sum(lengths)} tokens")
    for name in names:
        found = result[name]
        for side, seconds in found["seconds"].items():
            print(f"{name:20}{side:16}{seconds:8.3f} s")
        low, high = (found["versus_transformers"][end] for end in ("low", "high"))
        print(
            f"{name:20}versus transformers {found['versus_transformers_ratio']:.2f} "
            f"[{low:.2f}, {high:.2f}], vectors within {found['largest_difference']:.0e}"
        )


if __name__ == "__main__":
    main()
