"""The other side of `quality.py`: transformers' Trainer and sentence-transformers, as documented.

Each function takes a job, the encoder's folder, training and test examples and a seed, and returns
what each test example contributed, seconds of training and seconds of predicting.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from quality import Example, Job, Score

Made = tuple[list["Score"], float, float]
IGNORED = -100


def _train(
    job: Job, model: Any, tokenizer: Any, rows: Sequence[Any], collator: Any, seed: int
) -> tuple[Any, float]:
    """A trained Trainer, and how long it took."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        per_device_train_batch_size=job.batch_size,
        per_device_eval_batch_size=job.batch_size,
        num_train_epochs=job.epochs,
        learning_rate=job.learning_rate,
        warmup_steps=0.06,
        weight_decay=0.01,
        lr_scheduler_type="linear",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=seed,
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, data_collator=collator(tokenizer), train_dataset=rows)
    start = time.perf_counter()
    trainer.train()
    return trainer, time.perf_counter() - start


def texts(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Labels or numbers of texts and pairs, by AutoModelForSequenceClassification."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        set_seed,
    )

    set_seed(seed)
    numbers = job.kind == "regress"
    labels = [] if numbers else sorted({each["label"] for each in train})
    index = {label: number for number, label in enumerate(labels)}
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(some: Sequence[Example]) -> list[dict[str, Any]]:
        firsts = [each["text"] for each in some]
        seconds = [each["pair"] for each in some] if "pair" in job.columns else None
        pieces = tokenizer(firsts, seconds, truncation=True, max_length=job.max_length)
        return [
            {name: column[row] for name, column in pieces.items()}
            | {"labels": float(each["label"]) if numbers else index[each["label"]]}
            for row, each in enumerate(some)
        ]

    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1 if numbers else len(labels)
    )
    collator = DataCollatorWithPadding
    trainer, seconds = _train(job, model, tokenizer, encode(train), collator, seed)
    start = time.perf_counter()
    found = trainer.predict(encode(test)).predictions
    took = time.perf_counter() - start
    if numbers:
        pairs = zip(found[:, 0].tolist(), test, strict=True)
        return [[score, float(each["label"])] for score, each in pairs], seconds, took
    said = [labels[number] for number in np.argmax(found, axis=1)]
    right = [float(one == each["label"]) for one, each in zip(said, test, strict=True)]
    return list(right), seconds, took


def tags(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Tags of words, by AutoModelForTokenClassification; the first piece speaks for its word."""
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        set_seed,
    )

    from quality import tag_scores

    set_seed(seed)
    labels = sorted({tag for each in train for tag in each["tags"].split("\n")})
    index = {label: number for number, label in enumerate(labels)}
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(some: Sequence[Example]) -> tuple[list[dict[str, Any]], list[list[int | None]]]:
        """Pieces with their targets, and the word that each piece begins."""
        rows, places = [], []
        for each in some:
            words, own = each["words"].split("\n"), each["tags"].split("\n")
            given = tokenizer(
                words, is_split_into_words=True, truncation=True, max_length=job.max_length
            )
            numbers = given.word_ids()
            first = [
                number if number is not None and number not in numbers[:at] else None
                for at, number in enumerate(numbers)
            ]
            target = [IGNORED if n is None else index.get(own[n], IGNORED) for n in first]
            rows.append({**given, "labels": target})
            places.append(first)
        return rows, places

    model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=len(labels))
    collator = DataCollatorForTokenClassification
    trainer, seconds = _train(job, model, tokenizer, encode(train)[0], collator, seed)
    start = time.perf_counter()
    rows, places = encode(test)
    best = np.argmax(trainer.predict(rows).predictions, axis=-1)
    said = []
    for each, first, row in zip(test, places, best, strict=True):
        # What was cut is outside, as is usual.
        found = [labels[0] if "O" not in index else "O"] * len(each["words"].split("\n"))
        for at, word in enumerate(first):
            if word is not None:
                found[word] = labels[row[at]]
        said.append(found)
    return tag_scores(job, said, test), seconds, time.perf_counter() - start


def pairs(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Cosines of sentence vectors, trained by sentence-transformers with CoSENT.

    By its older loop, whose optimizer and schedule are the same and which needs no `datasets`.
    """
    from sentence_transformers import InputExample, SentenceTransformer
    from sentence_transformers.losses import CoSENTLoss
    from torch.utils.data import DataLoader
    from transformers import set_seed

    set_seed(seed)
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = job.max_length
    given = [
        InputExample(texts=[each["text"], each["pair"]], label=float(each["label"]) / 5)
        for each in train
    ]
    loader: Any = DataLoader(given, batch_size=job.batch_size, shuffle=True)  # type: ignore[arg-type]
    start = time.perf_counter()
    model.old_fit(
        [(loader, CoSENTLoss(model))],
        epochs=job.epochs,
        warmup_steps=round(0.06 * len(loader) * job.epochs),
        optimizer_params={"lr": job.learning_rate},
        weight_decay=0.01,
        max_grad_norm=1.0,
        show_progress_bar=False,
    )
    trained = time.perf_counter()
    left, right = (
        model.encode([each[name] for each in test], normalize_embeddings=True)
        for name in ("text", "pair")
    )
    took = time.perf_counter() - trained
    cosines = (left * right).sum(1).tolist()
    scores: list[Score] = [[c, float(each["label"])] for c, each in zip(cosines, test, strict=True)]
    return scores, trained - start, took


def _our_encoder(folder: Path, max_length: int) -> Callable[[list[str]], Any]:
    import bothways

    model = bothways.load(folder)
    return lambda some: model.embed(some, normalize=True, max_length=max_length).vectors


def _their_encoder(folder: Path, max_length: int) -> Callable[[list[str]], Any]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = max_length
    return lambda some: model.encode(some, normalize_embeddings=True)


REFERENCES: dict[str, Callable[..., Made]] = {
    "classify": texts,
    "regress": texts,
    "tag": tags,
    "embed": pairs,
}
ENCODERS = {"ours": _our_encoder, "reference": _their_encoder}
