"""The curve of a run as a picture of its own: loss against steps, from the lines of its log.

Figures inside a report page, which have the page's colours, are in `figures.py`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

INK, GRID = "#333333", "#dddddd"
# Okabe and Ito 2008; training drawn thin, held-out text with points.
STYLES: dict[str, dict[str, Any]] = {
    "train": {"color": "#56b4e9", "linewidth": 1.0},
    "dev": {"color": "#d55e00", "linewidth": 1.5, "marker": "o", "markersize": 3.5},
}
NAMES = {"train": "training", "dev": "held-out text"}


def loss_curve(
    lines: Iterable[Mapping[str, Any]], *, title: str = "", level: tuple[str, float] | None = None
) -> str:
    """The losses of metrics.jsonl as an SVG image.

    Args:
        lines: with step, split and loss; those without a loss are left out.
        title: above the picture.
        level: a name and a loss that is drawn across, such as that of guessing by frequency.

    Example:
        >>> svg = loss_curve([{"step": 1, "split": "train", "loss": 2.0}])
        >>> svg.startswith("<?xml")
        True
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    points: dict[str, list[tuple[int, float]]] = {split: [] for split in STYLES}
    for line in lines:
        if line.get("loss") is not None and line.get("split") in points:
            points[line["split"]].append((line["step"], line["loss"]))
    settings: Any = {"svg.hashsalt": "loss", "font.size": 9, "text.color": INK}
    with mpl.rc_context(settings):
        canvas = Canvas(figsize=(6.0, 3.4), layout="constrained")
        axes = canvas.subplots()
        for split, found in points.items():
            if found:
                steps, losses = zip(*found, strict=True)
                axes.plot(steps, losses, label=NAMES[split], **STYLES[split])
        if level is not None:
            axes.axhline(level[1], color=INK, linewidth=0.8, linestyle=":", label=level[0])
        axes.set_xlabel("step")
        axes.set_ylabel("loss (nats a token)")
        axes.set_title(title, fontsize=10)
        axes.grid(color=GRID, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
        out = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator"))
        canvas.savefig(out, format="svg", metadata=nothing)
    return out.getvalue()
