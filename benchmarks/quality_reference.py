"""The other side of `quality.py`: transformers' Trainer and sentence-transformers, as documented.

Each function takes a job, the encoder's folder, training and test examples and a seed, and returns
what it says of each test example, and how long it took from examples to a trained model and from
that to results, as on our side.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from measure import Stopwatch, Took

if TYPE_CHECKING:
    from quality_jobs import Example, Job

Made = tuple[list[Any], Took, Took]
IGNORED = -100
# As in transformers' script for SQuAD.
BEST, MOST_TOKENS = 20, 30


def _train(
    job: Job, model: Any, tokenizer: Any, rows: Sequence[Any], collator: Any, seed: int
) -> Any:
    """A trained Trainer."""
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
    trainer.train()
    return trainer


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
    watch = Stopwatch()
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
            | {"labels": float(each["label"]) if numbers else index.get(each["label"], IGNORED)}
            for row, each in enumerate(some)
        ]

    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1 if numbers else len(labels)
    )
    collator = DataCollatorWithPadding
    trainer = _train(job, model, tokenizer, encode(train), collator, seed)
    trained = watch.lap()
    found = trainer.predict(encode(test)).predictions
    took = watch.lap()
    if numbers:
        return found[:, 0].tolist(), trained, took
    return [labels[number] for number in np.argmax(found, axis=1)], trained, took


def relations(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Labels of texts whose entities stand between plain marks, as on our side; read at [CLS]."""
    from bothways.tasks.marking import RelateExample, parse_marks

    marked = [
        [{**each, "text": RelateExample(*parse_marks(each["text"])).marked[0]} for each in some]
        for some in (train, test)
    ]
    return texts(job, folder, *marked, seed)


def answers(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Spans of contexts, by AutoModelForQuestionAnswering, over windows of the context."""
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoTokenizer,
        DataCollatorWithPadding,
        set_seed,
    )

    set_seed(seed)
    watch = Stopwatch()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(some: Sequence[Example]) -> Any:
        return tokenizer(
            [each["text"] for each in some],
            [each["pair"] for each in some],
            truncation="only_second",
            max_length=job.max_length,
            stride=job.overlap,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    def row(pieces: Any, number: int) -> dict[str, Any]:
        return {name: pieces[name][number] for name in tokenizer.model_input_names}

    def offsets_of(pieces: Any, number: int) -> list[tuple[int, int] | None]:
        """Where pieces stand in the context; None outside of it."""
        sides = pieces.sequence_ids(number)
        spans = pieces["offset_mapping"][number]
        return [span if side == 1 else None for side, span in zip(sides, spans, strict=True)]

    pieces = encode(train)
    rows = []
    for number, owner in enumerate(pieces["overflow_to_sample_mapping"]):
        answer = json.loads(train[owner]["answers"])[0]
        start, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
        spans = list(enumerate(offsets_of(pieces, number)))
        first = [at for at, span in spans if span and span[0] <= start < span[1]]
        last = [at for at, span in spans if span and span[0] < end <= span[1]]
        ends = (first[0], last[0]) if first and last else (0, 0)
        targets = dict(zip(("start_positions", "end_positions"), ends, strict=True))
        rows.append({**row(pieces, number), **targets})
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    trainer = _train(job, model, tokenizer, rows, DataCollatorWithPadding, seed)
    trained = watch.lap()
    pieces = encode(test)
    owners = pieces["overflow_to_sample_mapping"]
    found = trainer.predict([row(pieces, number) for number in range(len(owners))]).predictions
    best = [(-np.inf, "")] * len(test)
    for number, (owner, starts, ends) in enumerate(zip(owners, *found, strict=True)):
        spans = offsets_of(pieces, number)
        for first in np.argsort(starts[: len(spans)])[: -BEST - 1 : -1]:
            for last in np.argsort(ends[: len(spans)])[: -BEST - 1 : -1]:
                one, two = spans[first], spans[last]
                if one is None or two is None or not 0 <= last - first < MOST_TOKENS:
                    continue
                score = float(starts[first] + ends[last])
                if score > best[owner][0]:
                    best[owner] = (score, test[owner]["pair"][one[0] : two[1]])
    return [text for _, text in best], trained, watch.lap()


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

    set_seed(seed)
    watch = Stopwatch()
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
    trainer = _train(job, model, tokenizer, encode(train)[0], collator, seed)
    trained = watch.lap()
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
    return said, trained, watch.lap()


def _loader(job: Job, given: Any) -> Any:
    return torch.utils.data.DataLoader(given, batch_size=job.batch_size, shuffle=True)


def _old_loop(job: Job, count: int) -> dict[str, Any]:
    """Settings of sentence-transformers' older loop, the same as `_train`'s."""
    steps = -(-count // job.batch_size) * job.epochs
    return {
        "epochs": job.epochs,
        "warmup_steps": round(0.06 * steps),
        "optimizer_params": {"lr": job.learning_rate},
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "show_progress_bar": False,
    }


def pairs(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Cosines of sentence vectors, trained by sentence-transformers with CoSENT.

    By its older loop, whose optimizer and schedule are the same and which needs no `datasets`.
    """
    from sentence_transformers import InputExample, SentenceTransformer
    from sentence_transformers.losses import CoSENTLoss
    from transformers import set_seed

    set_seed(seed)
    watch = Stopwatch()
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = job.max_length
    given = [
        InputExample(texts=[each["text"], each["pair"]], label=float(each["label"]) / 5)
        for each in train
    ]
    model.old_fit([(_loader(job, given), CoSENTLoss(model))], **_old_loop(job, len(given)))
    trained = watch.lap()
    left, right = (
        model.encode([each[name] for each in test], normalize_embeddings=True)
        for name in ("text", "pair")
    )
    return (left * right).sum(1).tolist(), trained, watch.lap()


def rankings(
    job: Job, folder: Path, train: Sequence[Example], test: Sequence[Example], seed: int
) -> Made:
    """Scores of passages, by sentence-transformers' CrossEncoder and its binary cross-entropy."""
    from sentence_transformers import CrossEncoder, InputExample
    from transformers import set_seed

    set_seed(seed)
    watch = Stopwatch()
    model = CrossEncoder(str(folder), num_labels=1, max_length=job.max_length, device="cpu")
    grades = [float(each["label"]) for each in train]
    given = [
        InputExample(texts=[each["text"], each["pair"]], label=grade / max(grades))
        for each, grade in zip(train, grades, strict=True)
    ]
    model.old_fit(_loader(job, given), **_old_loop(job, len(given)))
    trained = watch.lap()
    found = model.predict(
        [(each["text"], each["pair"]) for each in test], activation_fn=torch.nn.Identity()
    )
    return found.tolist(), trained, watch.lap()


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
    "answer": answers,
    "relate": relations,
    "rerank": rankings,
}
ENCODERS = {"ours": _our_encoder, "reference": _their_encoder}
