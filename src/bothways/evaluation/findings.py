"""What the evaluation says in words: does the model beat its baselines, and was text cut?

Rules with named thresholds, no more: numbers in, a `Finding` out. Questions that need more than
one set of predictions are asked in `diagnostics/`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bothways.errors import agreeing, counted
from bothways.evaluation.result import SEVERITIES, Finding, Metric, Severity
from bothways.tokenization.encoding import End, Ledger

# Fewer judged units than this show nothing either way.
TOO_FEW = 20

# Shares of the texts that are cut, and of the tokens that no model saw.
TEXTS_CUT_ALARM = 0.20
TOKENS_CUT_ALARM = 0.10
TEXTS_CUT_NOTE = 0.01

LOST: dict[End, str] = {
    "head": "their beginning",
    "tail": "their end",
    "middle": "their middle",
    "mixed": "parts of them",
    "none": "nothing",
}


def baseline_finding(
    metric: str,
    value: Metric,
    baselines: Mapping[str, Metric],
    differences: Mapping[str, Metric],
    units: int,
) -> Finding:
    """Whether the model beats every baseline with its whole interval.

    An alarm when it is no better than one, a note when it is better but chance may explain it.

    Args:
        metric: name of the metric that is compared.
        value: the model's.
        baselines: the same of each baseline; at least one.
        differences: how much better the model is than each, paired; positive is better.
        units: how many were judged, where those of one group, which err together, count once.
    """

    def rank(name: str) -> tuple[int, float]:
        return SEVERITIES.index(_baseline_severity(differences[name])), differences[name].value

    hardest = min(baselines, key=rank)
    difference = differences[hardest]
    severity = _baseline_severity(difference)
    rival = f"{_words(hardest)} ({baselines[hardest].value:.3f})"
    if units < TOO_FEW:
        severity = "note"
        text = (
            f"Only {counted(units, 'independent example')} {agreeing(units, 'were')} judged, too "
            f"few to tell the model ({metric} {value.value:.3f}) from {rival}."
        )
    elif severity == "fine":
        text = (
            f"The model beats its best baseline, {rival}, by {difference} in {metric}; chance does "
            "not explain that."
        )
    elif severity == "note":
        text = (
            f"The model is ahead of {rival} by {difference} in {metric}, but the interval "
            "reaches 0, so this may be chance."
        )
    else:
        text = f"The model does not beat {rival}: {metric} {value}, a difference of {difference}."
    numbers: dict[str, float | int | str | None] = {"hardest": hardest, metric: value.value}
    for name, baseline in baselines.items():
        gain = differences[name]
        numbers |= {
            name: baseline.value,
            f"gain_over_{name}": gain.value,
            f"gain_over_{name}_low": gain.low,
            f"gain_over_{name}_high": gain.high,
        }
    return Finding("baseline", severity, text, numbers)


def errors_finding(
    by_label: Mapping[str, Metric],
    support: Mapping[str, int],
    mistake: tuple[str, str, int] | None,
    *,
    told: str = "",
) -> Finding:
    """Which label is found worst, and the commonest mistake.

    A note when a label with enough examples has an F1 whose whole interval lies below half the
    mean of all.

    Args:
        by_label: F1 of each label, with its interval.
        support: examples of each label.
        mistake: true label, predicted label and how often, or None where there is no such thing.
        told: what else is wrong, in words; with neither all is right.
    """
    occurring = {label: f1 for label, f1 in by_label.items() if support[label]}
    worst = min(occurring, key=lambda label: occurring[label].value)
    f1 = occurring[worst]
    numbers: dict[str, float | int | str | None] = {
        "weakest_label": worst,
        "f1": f1.value,
        "f1_low": f1.low,
        "f1_high": f1.high,
        "examples": support[worst],
    }
    if mistake is None and not told:
        return Finding("errors", "fine", "Every prediction is right.", numbers)
    if mistake is not None:
        true, said, count = mistake
        told = f"the commonest mistake is to take {true!r} for {said!r} ({counted(count, 'time')})"
        numbers |= {"mistake_true": true, "mistake_predicted": said, "mistake_count": count}
    mean = sum(metric.value for metric in occurring.values()) / len(occurring)
    weak = support[worst] >= TOO_FEW and (f1.value if f1.high is None else f1.high) < mean / 2
    text = (
        f"The weakest label is {worst!r} (F1 {f1}, {counted(support[worst], 'example')}); {told}."
    )
    return Finding("errors", "note" if weak else "fine", text, numbers)


def baselines_not_asked(what: str = "a bag of words") -> Finding:
    """The baseline that needs training texts, when there are none."""
    text = f"Not compared with {what}: that needs the training texts (--train)."
    return Finding("baseline", "not asked", text)


def truncation_finding(ledger: Ledger) -> Finding:
    """Whether texts were cut, how many, and which end went."""
    share = ledger.texts_cut / ledger.texts if ledger.texts else 0.0
    severity: Severity = "fine"
    if share > TEXTS_CUT_ALARM or ledger.share_cut > TOKENS_CUT_ALARM:
        severity = "alarm"
    elif share > TEXTS_CUT_NOTE:
        severity = "note"
    if not ledger.texts_cut:
        whole = "it was" if ledger.texts == 1 else f"all {ledger.texts:,} were"
        text = f"No text was cut: {whole} read whole."
    else:
        text = (
            f"{ledger.texts_cut:,} of {counted(ledger.texts, 'text')} ({share:.1%}) lost "
            f"{LOST[ledger.end]}: {ledger.tokens_cut:,} of {ledger.tokens:,} tokens "
            f"({ledger.share_cut:.1%}) were never read."
        )
    if ledger.dropped_characters:
        text += f" {counted(ledger.dropped_characters, 'character')} became no token."
    if ledger.targets_cut:
        severity = "note" if severity == "fine" else severity
        text += f" {ledger.targets_cut:,} of what was to be found lies in no window whole."
    return Finding("truncation", severity, text, {**ledger.as_dict(), "share_of_texts_cut": share})


def _baseline_severity(difference: Metric) -> Severity:
    if difference.value <= 0:
        return "alarm"
    return "fine" if difference.low is not None and difference.low > 0 else "note"


def _words(name: str) -> str:
    """`bag_of_words` as it is said."""
    said = {
        "majority": "the majority label",
        "likeliest_sentence": "the sentence with most words of the question",
        "no_answer": "no answer to any question",
        "length": "the length of the text",
        "random_encoder": "a random encoder with a linear head",
    }
    return said.get(name, name.replace("_", " "))
