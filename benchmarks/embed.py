"""Embedding speed beside sentence-transformers and ONNX Runtime, tokenisation included.

    python benchmarks/embed.py [--json] [--rounds 7] [--threads 2]

400 lines of mixed length through the real MiniLM in float32, each side in turn. sentence-
transformers runs `encode(batch_size=32)`; ONNX Runtime runs length-sorted batches of 32 with the
same tokenizer and default session options. The share of peak counts the multiplications of the
linear layers and of attention, over the fastest plain matrix product seen in the same run.

What equal bits cost is our time over that of the same model on torch's plain linear layers, whose
bits depend on the batch; below 1 they save time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import bothways
from bothways.inference import prepacked
from measure import all_processors, alternate, machine, matmul_peak, minilm, mixed_lines, ratio

# Largest difference of a number in two sides' vectors that is rounding; beyond it they do not
# compute the same thing, and no ratio means anything.
ROUNDING = 1e-4


def flops(lengths: list[int], config: bothways.EncoderConfig) -> float:
    """Multiplications and additions of one forward pass over texts of these lengths."""
    hidden, inner = config.hidden_size, config.feedforward.size
    linear = 2 * config.num_layers * (4 * hidden * hidden + 2 * hidden * inner)
    attention = 4 * config.num_layers * hidden
    return sum(linear * n + attention * n * n for n in lengths)


def onnx_graph(folder: Path) -> Path:
    """The encoder's graph in float32, in a folder of its own."""
    from transformers import BertModel

    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    path = Path(tempfile.mkdtemp()) / "model.onnx"
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    # Two tensors: one given twice becomes one input of the graph.
    ids, mask = torch.ones(2, 16, dtype=torch.long), torch.ones(2, 16, dtype=torch.long)
    torch.onnx.export(
        Hidden(),
        (ids, mask),
        path,
        input_names=["ids", "mask"],
        dynamo=True,
        dynamic_shapes={"ids": {0: batch, 1: length}, "mask": {0: batch, 1: length}},
        verbose=False,
    )
    return path


def onnx_side(
    texts: list[str], folder: Path, graph: Path, threads: int
) -> Callable[[], NDArray[np.float32]]:
    """ONNX Runtime over length-sorted batches of 32, mean pooled and normalised."""
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with all_processors():
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def run() -> NDArray[np.float32]:
        ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        out = np.empty((len(ids), 384), dtype=np.float32)
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            width = max(len(ids[row]) for row in rows)
            padded = np.zeros((len(rows), width), dtype=np.int64)
            mask = np.zeros_like(padded)
            for place, row in enumerate(rows):
                padded[place, : len(ids[row])] = ids[row]
                mask[place, : len(ids[row])] = 1
            (hidden,) = session.run(None, {"ids": padded, "mask": mask})
            weights = mask[:, :, None].astype(np.float32)
            pooled = (hidden * weights).sum(1) / weights.sum(1)
            out[rows] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return out

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts, folder = mixed_lines(), minilm()

    from sentence_transformers import SentenceTransformer

    model = bothways.load(folder)
    theirs = SentenceTransformer(str(folder), device="cpu")
    onnx = onnx_side(texts, folder, onnx_graph(folder), options.threads)
    reference = theirs.encode(texts, batch_size=32, show_progress_bar=False)
    worst = {
        "sentence_transformers": float(np.abs(model.embed(texts).vectors - reference).max()),
        "onnxruntime": float(np.abs(onnx() - reference).max()),
    }
    plain = bothways.load(folder)
    prepacked.uninstall(plain.encoder)
    worst["plain"] = float(np.abs(plain.embed(texts).vectors - reference).max())
    if max(worst.values()) > ROUNDING:
        raise SystemExit(f"vectors differ by more than {ROUNDING}: {worst}")
    peaks = [matmul_peak()]
    times = alternate(
        {
            "bothways": lambda: model.embed(texts),
            "sentence_transformers": lambda: theirs.encode(
                texts, batch_size=32, show_progress_bar=False
            ),
            "onnxruntime": onnx,
            "plain": lambda: plain.embed(texts),
        },
        options.rounds,
    )
    peaks.append(matmul_peak())
    ids, _, _ = model.tokenizer.encode_ids(texts, policy=model.policy())
    lengths = [len(pieces) for pieces in ids]
    ours = statistics.median(times["bothways"])
    achieved = flops(lengths, model.encoder.config) / ours / 1e9
    st, ort = (ratio(times[name], times["bothways"]) for name in list(times)[1:3])
    bits = ratio(times["bothways"], times["plain"])
    result = {
        "machine": machine(),
        "texts": len(texts),
        "tokens": sum(lengths),
        "seconds": {name: statistics.median(values) for name, values in times.items()},
        "tokens_per_second": sum(lengths) / ours,
        "versus_sentence_transformers_ratio": st.median,
        "versus_sentence_transformers": asdict(st),
        "versus_onnxruntime_ratio": ort.median,
        "versus_onnxruntime": asdict(ort),
        "share_of_matmul_peak": achieved / max(peaks),
        "matmul_peak_gflops": max(peaks),
        "largest_difference": worst,
        "bit_invariant": model.bit_invariant,
        "equal_bits_cost_ratio": bits.median,
        "equal_bits_cost": asdict(bits),
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['machine']}\n{len(texts)} texts, {sum(lengths)} tokens")
    for name, values in times.items():
        print(f"{name:24}{statistics.median(values):8.3f} s")
    print(f"versus sentence-transformers  {st}\nversus ONNX Runtime           {ort}")
    print(
        f"share of matmul peak          {result['share_of_matmul_peak']:.0%} "
        f"of {max(peaks):.0f} GFLOP/s"
    )
    print(
        f"equal bits                    {model.bit_invariant}, plain {plain.bit_invariant}; "
        f"ours / plain {bits}"
    )


if __name__ == "__main__":
    main()
