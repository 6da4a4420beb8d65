"""`Model`: an encoder with its tokenizer, head and task, ready to use; `load` makes one.

Every method plans its batches by tokens, answers in input order and accounts for what was cut.
Here is what users call; the running itself is in `predictor.py`, loading in `checkpoints/`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bothways.checkpoints.load import LoadReport, Parts, load_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import TaskError, UntrainedHeadError, UsageError
from bothways.inference import prepacked
from bothways.inference.filling import fill_masks
from bothways.inference.inputs import Text, task_of, text_columns
from bothways.inference.invariance import is_bit_invariant, last_states
from bothways.inference.logits import head_logits
from bothways.inference.predictor import CHUNK_TEXTS, chunks, run
from bothways.inference.results import Embeddings, FillCandidate, Results, TokenVectors
from bothways.model.encoder import Encoder, EncoderOutput
from bothways.model.layout import Batch
from bothways.model.sentence import Pool, SentenceVector
from bothways.tasks.task import Task
from bothways.tokenization.encoding import Ledger, Policy
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


class Model:
    """A loaded encoder and what goes with it.

    Args:
        parts: what `checkpoints.load_parts` returned.

    Attributes:
        encoder: the network.
        head: over it, or None.
        tokenizer: of the checkpoint, or None.
        task: what the head is for, or None.
        report: what became of every tensor in the files.

    Example:
        >>> model = bothways.load("path/to/model")  # doctest: +SKIP
        >>> model.embed(["A text.", "Another."]).vectors.shape  # doctest: +SKIP
        (2, 384)
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.encoder: Encoder = parts.encoder
        self.head: nn.Module | None = parts.head
        self.report: LoadReport = parts.report
        self.task: Task[Any] | None = task_of(parts)
        self.sentence = parts.sentence or SentenceVector(Pool(["mean"]))
        for module in (self.encoder, self.head, self.sentence):
            if module is not None:
                module.eval()
                prepacked.install(module)

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer.

        Raises:
            TaskError: when the folder has none.
        """
        if self.parts.tokenizer is None:
            raise TaskError(
                f"{self.parts.folder} has no tokenizer, so no text can be read; put its "
                "tokenizer.json (or vocab.txt) beside config.json"
            )
        return self.parts.tokenizer

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.encoder.embeddings.words.weight.device

    def policy(
        self, max_length: int | None = None, keep: Policy = "head", overlap: int = 0
    ) -> CutPolicy:
        """How long texts may be: as asked, else as the folder says, else all usable positions.

        Raises:
            UsageError: when max_length is beyond the usable positions.
        """
        usable = self.encoder.config.embeddings.usable_positions
        if max_length is not None and max_length > usable:
            raise UsageError(
                f"max_length is {max_length}; this model reads at most {usable} tokens"
            )
        declared = self.tokenizer.declared_max_length
        length = max_length or min(declared or usable, usable)
        return CutPolicy(length, keep, overlap)

    def embed(
        self,
        texts: Iterable[Text],
        *,
        prompt: str | None = None,
        pooling: Literal["cls", "mean", "max"] | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        policy: Policy = "head",
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Embeddings:
        """One vector a text.

        Args:
            texts: texts or pairs; any iterable.
            prompt: name of a prompt of the model, or a text to put before each input.
            pooling: None for what the folder says (mean where it says nothing).
            normalize: None for what the folder says.
            max_length: longest text in tokens; None for the folder's.
            policy: what is kept of longer texts.
            batch_tokens: budget of a batch; None for the device's default.
            on_batch: called with the number of texts done.

        Returns:
            `.vectors`, float32 (n, dim), and `.ledger`.
        """
        parts = list(
            self.embed_stream(
                texts,
                prompt=prompt,
                pooling=pooling,
                normalize=normalize,
                policy=self.policy(max_length, policy),
                batch_tokens=batch_tokens,
                on_batch=on_batch,
            )
        )
        if len(parts) == 1:
            return parts[0]
        width = self.dimension(pooling)
        vectors = [part.vectors for part in parts] or [np.empty((0, width), dtype=np.float32)]
        return Embeddings(np.concatenate(vectors), Ledger.total(part.ledger for part in parts))

    def embed_stream(
        self,
        texts: Iterable[Text],
        *,
        prompt: str | None = None,
        pooling: Literal["cls", "mean", "max"] | None = None,
        normalize: bool | None = None,
        policy: CutPolicy | None = None,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Iterator[Embeddings]:
        """`embed` in parts of at most 16,384 texts, for inputs larger than memory."""
        sentence = self.sentence if pooling is None else SentenceVector(Pool([pooling]))
        before = self._prompt(prompt)

        def read_out(output: EncoderOutput, batch: Batch) -> Tensor:
            vectors: Tensor = sentence(output, batch, normalize=normalize)
            return vectors.float()

        for chunk in chunks(texts, CHUNK_TEXTS):
            firsts, seconds = text_columns(chunk, before)
            ids, type_ids, ledger = self.tokenizer.encode_ids(
                firsts, seconds, policy=policy or self.policy()
            )
            vectors: NDArray[np.float32] | None = None
            for indices, rows, _ in run(
                self.encoder,
                read_out,
                ids,
                type_ids=type_ids,
                rows=sentence.rows,
                batch_tokens=batch_tokens,
                on_batch=on_batch,
            ):
                if vectors is None:
                    vectors = np.empty((len(chunk), rows.shape[1]), dtype=np.float32)
                vectors[indices] = rows.cpu().numpy()
            assert vectors is not None
            yield Embeddings(vectors, ledger)

    def dimension(self, pooling: Literal["cls", "mean", "max"] | None = None) -> int:
        """Width of the vectors that `embed` returns."""
        hidden = self.encoder.config.hidden_size
        if pooling is not None:
            return hidden
        width = hidden * len(self.sentence.pool.modes)
        for step in self.sentence.steps:
            width = getattr(getattr(step, "linear", None), "out_features", width)
        return width

    def embed_tokens(
        self, texts: Iterable[Text], *, max_length: int | None = None, policy: Policy = "head"
    ) -> TokenVectors:
        """One (pieces, hidden) float32 array a text: the last layer, special pieces included."""
        arrays: list[NDArray[np.float32]] = []
        ledger = Ledger()
        for chunk in chunks(texts, CHUNK_TEXTS):
            firsts, seconds = text_columns(chunk, "")
            ids, type_ids, part = self.tokenizer.encode_ids(
                firsts, seconds, policy=self.policy(max_length, policy)
            )
            ledger = ledger + part
            found: dict[int, NDArray[np.float32]] = {}
            for indices, rows, batch in run(self.encoder, last_states, ids, type_ids=type_ids):
                pieces = batch.layout.split(rows.float().cpu())
                # A copy a text, so that one kept array does not keep its whole batch.
                found.update(zip(indices, (piece.numpy().copy() for piece in pieces), strict=True))
            arrays.extend(found[index] for index in range(len(chunk)))
        return TokenVectors(arrays, ledger)

    def similarity(
        self, texts: Sequence[str], others: Sequence[str] | None = None
    ) -> NDArray[np.float32]:
        """Similarity of every text with every other, (n, m) float32.

        Args:
            texts: rows.
            others: columns; None for the same texts.

        Raises:
            TaskError: when the model compares vectors by neither cosine nor dot product.
        """
        kind = self.sentence.similarity
        if kind not in ("cosine", "dot"):
            raise TaskError(
                f"the model compares vectors by {kind!r}; supported: cosine, dot. "
                "Use embed and compare them yourself"
            )
        normalize = True if kind == "cosine" else None
        left = self.embed(texts, normalize=normalize).vectors
        right = left if others is None else self.embed(others, normalize=normalize).vectors
        product: NDArray[np.float32] = left @ right.T
        return product

    def predict(
        self,
        examples: Iterable[Any],
        *,
        max_length: int | None = None,
        policy: Policy = "head",
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Results:
        """One result an example, in input order, with a ledger.

        Args:
            examples: texts, pairs of texts, or examples of the task; any iterable.
            max_length: longest text in tokens; None for the folder's.
            policy: what is kept of longer texts.
            batch_tokens: budget of a batch; None for the device's default.
            on_batch: called with the number of texts done.

        Raises:
            TaskError: when the model has no task.
            UntrainedHeadError: when the head's weights are random.
        """
        results = Results()
        for part in self.predict_stream(
            examples,
            policy=self.policy(max_length, policy),
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        ):
            results.extend(part)
            results.ledger = results.ledger + part.ledger
        return results

    def predict_stream(
        self,
        examples: Iterable[Any],
        *,
        policy: CutPolicy | None = None,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Iterator[Results]:
        """`predict` in parts of at most 16,384 examples, for inputs larger than memory."""
        task, head = self._task_and_head()
        for chunk in chunks(examples, CHUNK_TEXTS):
            given = task.examples(chunk)
            encodings, ledger = task.encode_all(given, self.tokenizer, policy or self.policy())
            logits, batch = head_logits(
                self.encoder, head, encodings, batch_tokens=batch_tokens, on_batch=on_batch
            )
            yield Results(task.decode(logits, batch), ledger)

    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[list[FillCandidate]]]:
        """The most probable tokens for each mask of each text.

        Args:
            texts: each with at least one mask token written out, such as [MASK].
            top: candidates a mask.

        Returns:
            For each text, for each of its masks, candidates with probabilities, best first.

        Raises:
            TaskError: when the model has no masked-LM head or a text no mask.
            UntrainedHeadError: when that head's weights are random.
        """
        head = self.parts.masked_lm
        if head is None:
            raise TaskError(
                "this checkpoint has no masked-language-model head, so it cannot fill masks; "
                f"it can: {', '.join(self.abilities())}"
            )
        if "head" in self.report.untrained:
            raise UntrainedHeadError(
                "the masked-LM head's weights are random: it cannot fill masks"
            )
        return fill_masks(self.encoder, head, self.tokenizer, texts, policy=self.policy(), top=top)

    def generate(self, *texts: object, **options: object) -> NoReturn:
        """Refuse: an encoder reads a whole text at once and continues none.

        Raises:
            TaskError: always, naming what this model can do.
        """
        del texts, options
        raise TaskError(
            "an encoder reads a text whole, both ways, and does not continue it. "
            f"This model can: {', '.join(self.abilities())}"
        )

    def abilities(self) -> list[str]:
        """What this model can be asked for."""
        abilities = ["embed", "embed_tokens", "similarity"]
        if self.head is not None and self.task is not None:
            abilities.append(f"predict ({self.task.name})")
        if self.parts.masked_lm is not None:
            abilities.append("fill")
        return abilities

    @cached_property
    def bit_invariant(self) -> bool:
        """Whether a text's states have the same bits alone and in a batch, on this machine.

        Found by a probe at first use: a few random texts, alone and together.
        """
        return is_bit_invariant(self.encoder)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model where `load`, transformers and sentence-transformers find it.

        Args:
            folder: made when absent; the folder the model was loaded from is safe too.
            overwrite: allow a folder that holds a model.
        """
        save_parts(self.parts, Path(folder), overwrite=overwrite)

    def _task_and_head(self) -> tuple[Task[Any], nn.Module]:
        if self.task is None or self.head is None:
            raise TaskError(
                f"this model has no head for a task; it can: {', '.join(self.abilities())}. "
                "Train one with `bothways finetune`"
            )
        if not self.parts.head_trained:
            raise UntrainedHeadError(
                "the head's weights are random, so its predictions mean nothing; train it with "
                "`bothways finetune` first"
            )
        return self.task, self.head

    def _prompt(self, prompt: str | None) -> str:
        name = prompt if prompt is not None else self.sentence.default_prompt
        return "" if name is None else self.sentence.prompts.get(name, name)


def load(
    source: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Load a model from a folder or by its hub name.

    Args:
        source: a folder in the Hugging Face layout, or a name such as "org/model".
        device: None for the CPU.
        dtype: of the weights; None for float32.

    Raises:
        CheckpointError: with every problem of the folder at once.
    """
    return Model(load_parts(source, device=device, dtype=dtype))
