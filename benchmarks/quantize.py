"""Int8 beside float32 and beside ONNX Runtime's dynamic int8, tokenisation included.

    python benchmarks/quantize.py [--json] [--rounds 5] [--threads 2] [--texts 200]

Lines of mixed length through the real MiniLM, each side in turn: ours in float32, ours with all
layers in int8, ONNX Runtime's `quantize_dynamic` as it is, and the same brought to our mean cosine
to float32 by leaving its worst products in float, worst alone first. Where the processor would
saturate, both sides take weights of 7 bits. ONEDNN_MAX_CPU_ISA=AVX2 shows how we do without VNNI;
it does not restrict ONNX Runtime, whose ratios then mean nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import bothways
from bothways.inference.int8 import Int8Weight, instruction_set, largest_exact
from bothways.inference.int8_layers import attach, layers_of
from embed import onnx_graph, onnx_side
from measure import alternate, machine, minilm, mixed_lines, ratio

Vectors = NDArray[np.float32]
Side = Callable[[], Vectors]
# Texts by which products are ordered.
SAMPLE = 12


def cosine(some: Vectors, others: Vectors) -> float:
    """Mean over texts; both have vectors of length one."""
    return float(np.einsum("nd,nd->n", some, others).mean())


class Dynamic:
    """ONNX Runtime's dynamic int8 of one graph.

    Args:
        folder: of the model.
        threads: of its sessions.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        import onnx

        self.folder, self.threads = folder, threads
        self.graph = onnx_graph(folder)
        loaded = onnx.load(self.graph)
        constants = {each.name for each in loaded.graph.initializer}
        self.products = [
            node.name
            for node in loaded.graph.node
            if node.op_type in ("MatMul", "Gemm") and node.input[1] in constants
        ]

    def side(self, texts: list[str], in_float: Sequence[str] | None = None) -> Side:
        """Embeds texts with all products in int8 but these.

        None is `quantize_dynamic` as it is, which puts the tables of embeddings into int8 too.
        """
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = Path(tempfile.mkdtemp()) / "int8.onnx"
        quantize_dynamic(
            self.graph,
            path,
            per_channel=True,
            reduce_range=largest_exact() < 127,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=None if in_float is None else ["MatMul"],
            nodes_to_exclude=list(in_float or ()),
        )
        return onnx_side(texts, self.folder, path, self.threads)

    def worst_first(self, texts: list[str]) -> list[str]:
        """Products by what each alone in int8 does to vectors."""
        exact = onnx_side(texts, self.folder, self.graph, self.threads)()
        alone = {
            name: cosine(exact, self.side(texts, [n for n in self.products if n != name])())
            for name in self.products
        }
        return sorted(self.products, key=lambda name: alone[name])

    def matched(self, texts: list[str], exact: Vectors, wanted: float) -> tuple[Side, int]:
        """With as few products in float as reach a mean cosine, and how many these are."""
        order = self.worst_first(texts[:SAMPLE])
        bad, enough = -1, len(order)
        while enough - bad > 1:
            middle = (bad + enough) // 2
            reached = cosine(exact, self.side(texts, order[:middle])())
            bad, enough = (bad, middle) if reached >= wanted else (middle, enough)
        return self.side(texts, order[:enough]), enough


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts, folder = mixed_lines(options.texts), minilm()
    exact, int8 = bothways.load(folder), bothways.load(folder)
    for layer in layers_of(int8.encoder).values():
        attach(layer, Int8Weight.of(layer.weight, largest_exact()))
    wanted = exact.embed(texts).vectors
    ours = cosine(wanted, int8.embed(texts).vectors)
    dynamic = Dynamic(folder, options.threads)
    plain = dynamic.side(texts)
    matched, in_float = dynamic.matched(texts, wanted, ours)
    times = alternate(
        {
            "float32": lambda: exact.embed(texts),
            "int8": lambda: int8.embed(texts),
            "onnxruntime int8": plain,
            "onnxruntime int8, matched": matched,
        },
        options.rounds,
    )
    ratios = {
        name: ratio(times[side], times["int8"])
        for name, side in (
            ("versus_float32", "float32"),
            ("versus_onnxruntime_int8", "onnxruntime int8"),
            ("versus_onnxruntime_matched", "onnxruntime int8, matched"),
        )
    }
    cosines = {
        "int8": ours,
        "onnxruntime int8": cosine(wanted, plain()),
        "onnxruntime int8, matched": cosine(wanted, matched()),
    }
    ids, _, _ = int8.tokenizer.encode_ids(texts, policy=int8.policy())
    tokens = sum(map(len, ids))
    result = {
        "machine": machine(),
        "instruction_set": instruction_set(),
        "weight_bits": 8 if largest_exact() == 127 else 7,
        "texts": len(texts),
        "tokens": tokens,
        "seconds": {name: statistics.median(values) for name, values in times.items()},
        "mean_cosine": cosines,
        "products": len(dynamic.products),
        "products_in_float_matched": in_float,
        "bit_invariant": int8.bit_invariant,
        **{f"{name}_ratio": each.median for name, each in ratios.items()},
        **{name: asdict(each) for name, each in ratios.items()},
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}, {instruction_set()}, weights of {result['weight_bits']} bits")
    print(f"{len(texts)} texts, {tokens} tokens\n")
    print(f"{'':28}{'seconds':>8}{'tokens/s':>10}{'cosine':>9}")
    for name, values in times.items():
        seconds = statistics.median(values)
        print(f"{name:28}{seconds:8.3f}{tokens / seconds:10,.0f}{cosines.get(name, 1.0):9.4f}")
    print()
    for name, each in ratios.items():
        print(f"{name.replace('_', ' '):28}{each}")
    print(f"{in_float} of {len(dynamic.products)} products of ONNX Runtime in float when matched")
    print(f"same bits alone and in a batch: {int8.bit_invariant}")


if __name__ == "__main__":
    main()
