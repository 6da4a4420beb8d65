"""`Model`: an encoder with its tokenizer, head and task, ready to use; `load` makes one.

Every method plans its batches by tokens, answers in input order and accounts for what was cut.
Here is what users call; the running itself is in `predictor.py`, loading in `checkpoints/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch import nn

from bothways.checkpoints.load import LoadReport, Parts, load_parts
from bothways.checkpoints.save import save_parts
from bothways.errors import TaskError
from bothways.inference import prepacked
from bothways.inference.abilities import abilities, ability_words, trained_masked_lm
from bothways.inference.embedding import embedding_stream, text_token_vectors
from bothways.inference.exported import load_exported
from bothways.inference.filling import fill_masks
from bothways.inference.inputs import Text, cut_policy, one_window, task_of
from bothways.inference.int8_files import int8_to_save, use_stored_int8
from bothways.inference.invariance import is_bit_invariant
from bothways.inference.logits import head_stream
from bothways.inference.predictor import CHUNK_TEXTS, chunks
from bothways.inference.results import (
    Embeddings,
    Filled,
    Results,
    Similarities,
    SparseEmbeddings,
    TokenVectors,
)
from bothways.inference.several import one_head, policies, several_stream
from bothways.inference.sparse import embed_sparse
from bothways.inference.verification import Verification, unverified
from bothways.inference.zero_shot import zero_shot_stream
from bothways.model.encoder import Encoder
from bothways.model.sentence import Pool, SentenceVector
from bothways.tasks.task import Task
from bothways.tokenization.encoding import Policy
from bothways.tokenization.policy import CutPolicy
from bothways.tokenization.tokenizer import Tokenizer


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
        verify: compares the weights with the folder's passport; every method asks it first.

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
        self.verify: Callable[[], None] = unverified
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

    @cached_property
    def heads(self) -> dict[str, Model]:
        """Where several heads share the encoder, a model of each; `predict` asks them all."""
        return {name: Model(one_head(self.parts, name)) for name in self.parts.head_names}

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.encoder.device

    def policy(
        self,
        max_length: int | None = None,
        keep: Policy | None = None,
        overlap: int | None = None,
    ) -> CutPolicy:
        """How long texts may be and what is kept: as asked, else as the folder says.

        A folder that says nothing reads all usable positions and keeps the head; a fine-tuned one
        says what it was trained and judged with. Windows overlap by a quarter unless something
        else is said.

        Raises:
            UsageError: when max_length is beyond the usable positions, or an overlap is given
                without windows or is as long as one.
        """
        usable = self.encoder.config.embeddings.usable_positions
        longest = min(self.tokenizer.declared_max_length or usable, usable)
        stored = {"policy": getattr(self.task, "default_policy", "head"), **self.parts.settings}
        return cut_policy(stored, usable, longest, max_length, keep, overlap)

    def embed(
        self,
        texts: Iterable[Text],
        *,
        prompt: str | None = None,
        pooling: Literal["cls", "mean", "max"] | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        policy: Policy | None = None,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Embeddings:
        """One vector a text.

        Args:
            texts: texts or pairs; any iterable.
            prompt: name of a prompt of the model, or a text to put before each input.
            pooling: None for what the folder says (mean where it says nothing); another one
                takes its place, and the folder's later steps stay.
            normalize: None for what the folder says.
            max_length: longest text in tokens; None for the folder's.
            policy: what is kept of longer texts; None for what the folder says.
            batch_tokens: budget of a batch; None for the device's default.
            on_batch: called with the number of texts done.

        Returns:
            `.vectors`, float32 (n, dim), and `.ledger`.
        """
        parts = self.embed_stream(
            texts,
            prompt=prompt,
            pooling=pooling,
            normalize=normalize,
            policy=self.policy(max_length, policy),
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        )
        return Embeddings.together(parts, self.dimension(pooling))

    def embed_stream(
        self, texts: Iterable[Text], *, chunk_texts: int = CHUNK_TEXTS, **options: Any
    ) -> Iterator[Embeddings]:
        """`embed` in parts of at most `chunk_texts` texts, for inputs larger than memory.

        Args:
            texts: texts or pairs; any iterable.
            chunk_texts: how many at once.
            options: of `embed`, but policy as `Model.policy` makes it.
        """
        return embedding_stream(self, chunks(texts, chunk_texts), **options)

    def dimension(self, pooling: Literal["cls", "mean", "max"] | None = None) -> int:
        """Width of the vectors that `embed` returns."""
        if self.sentence.dense:
            return self.sentence.dense[-1].linear.out_features
        modes = 1 if pooling is not None else len(self.sentence.pool.modes)
        return self.encoder.config.hidden_size * modes

    def embed_tokens(
        self,
        texts: Iterable[Text],
        *,
        max_length: int | None = None,
        policy: Policy | None = None,
        chunk_texts: int = CHUNK_TEXTS,
    ) -> TokenVectors:
        """One (pieces, hidden) float32 array a text: the last layer, special pieces included."""
        cut = self.policy(max_length, policy)
        return text_token_vectors(self, chunks(texts, chunk_texts), cut)

    def embed_sparse(self, texts: Iterable[Text], **options: Any) -> SparseEmbeddings:
        """One weight a word of the vocabulary and text, mostly 0, from the masked-LM head.

        Args:
            texts: texts or pairs; any iterable.
            options: of `embed`: max_length, policy, batch_tokens, on_batch.
        """
        return embed_sparse(self, texts, **options)

    def similarity(
        self, texts: Sequence[str], others: Sequence[str] | None = None, **options: Any
    ) -> Similarities:
        """Similarity of every text with every other, (n, m) float32, with a ledger.

        Args:
            texts: rows.
            others: columns; None for the same texts.
            options: of `embed`: max_length, policy, batch_tokens.

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
        left = self.embed(texts, normalize=normalize, **options)
        if others is None:
            return Similarities.of(left.vectors @ left.vectors.T, left.ledger)
        right = self.embed(others, normalize=normalize, **options)
        return Similarities.of(left.vectors @ right.vectors.T, left.ledger + right.ledger)

    def predict(
        self,
        examples: Iterable[Any],
        *,
        max_length: int | None = None,
        policy: Policy | None = None,
        overlap: int | None = None,
        batch_tokens: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> Results:
        """One result an example, in input order, with a ledger.

        Args:
            examples: texts, pairs of texts, or examples of the task; any iterable.
            max_length: longest text in tokens; None for the folder's.
            policy: what is kept of longer texts; None for what the folder says.
            overlap: tokens that windows share; None for what the folder says.
            batch_tokens: budget of a batch; None for the device's default.
            on_batch: called with the number of texts done.

        Raises:
            TaskError: when the model has no task.
            UntrainedHeadError: when the head's weights are random.
        """
        return Results.together(
            self.predict_stream(
                examples,
                policy=policies(self, max_length, policy, overlap),
                batch_tokens=batch_tokens,
                on_batch=on_batch,
            )
        )

    def predict_stream(
        self,
        examples: Iterable[Any],
        *,
        policy: CutPolicy | Mapping[str, CutPolicy] | None = None,
        chunk_texts: int = CHUNK_TEXTS,
        **options: Any,
    ) -> Iterator[Results]:
        """`predict` in parts of at most `chunk_texts` examples, for inputs larger than memory.

        Args:
            examples: as `predict` takes them.
            policy: as `Model.policy` makes it, or `inference.several.policies`.
            chunk_texts: how many at once.
            options: of `predict`: batch_tokens, on_batch.
        """
        self.verify()
        stream: Any = several_stream if self.parts.head_names else head_stream
        parts = chunks(examples, chunk_texts)
        found: Iterator[Results] = stream(self, parts, policy=policy or policies(self), **options)
        return found

    def predict_zero_shot(
        self, texts: Iterable[str], labels: Sequence[str], **options: Any
    ) -> Results:
        """One of labels that were never trained a text, by a classifier of entailment.

        Args:
            texts: single texts; any iterable.
            labels: in words that make sense in the template.
            options: of `zero_shot_stream`: template, multi_label, policy, batch_tokens, on_batch.

        Raises:
            TaskError: when the model does not know entailment.
        """
        return Results.together(zero_shot_stream(self, texts, labels, **options))

    def fill(
        self,
        texts: Sequence[str],
        *,
        top: int = 5,
        max_length: int | None = None,
        policy: Policy | None = None,
        batch_tokens: int | None = None,
    ) -> Filled:
        """The most probable tokens for each mask of each text.

        Args:
            texts: each with at least one mask token written out, such as [MASK].
            top: candidates a mask.
            max_length: longest text in tokens; None for the folder's.
            policy: what is kept of longer texts; None for what the folder says.
            batch_tokens: budget of a batch; None for the device's default.

        Returns:
            For each text, for each of its masks, candidates with probabilities, best first; with
            a ledger.

        Raises:
            TaskError: when the model has no masked-LM head, or a text has no mask or loses one
                where it is cut.
            UntrainedHeadError: when that head's weights are random.
        """
        self.verify()
        return fill_masks(
            self.encoder,
            trained_masked_lm(self.parts, self.task),
            self.tokenizer,
            texts,
            policy=one_window(self.policy(max_length, policy)),
            top=top,
            batch_tokens=batch_tokens,
        )

    def generate(self, *texts: object, **options: object) -> NoReturn:
        """Refuse: an encoder reads a whole text at once and continues none.

        Raises:
            TaskError: always, naming what this model can do.
        """
        del texts, options
        raise TaskError(
            "an encoder reads a text whole, both ways, and does not continue it. "
            f"This model can: {ability_words(self.parts, self.task)}"
        )

    def abilities(self) -> list[str]:
        """What this model can be asked for."""
        return abilities(self.parts, self.task)

    @cached_property
    def bit_invariant(self) -> bool:
        """Whether a text gets the same bits alone and in a batch here, by a probe at first use."""
        per_text = getattr(self.head, "unit", None) == "sequence"
        heads = [self.head] if self.head is not None and per_text else []
        return is_bit_invariant(self.encoder, self.sentence, *heads)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model where `load`, transformers and sentence-transformers find it.

        Args:
            folder: made when absent; the folder the model was loaded from is safe too.
            overwrite: allow a folder that holds a model.
        """
        with int8_to_save(self.encoder) as beside:
            save_parts(self.parts, Path(folder), overwrite=overwrite, beside=beside)


def load(
    source: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Load a model from a folder or by its hub name.

    Args:
        source: a folder in the Hugging Face layout or an exported one, or a hub name "org/model".
        device: None for the CPU.
        dtype: of the weights; None for float32, and for int8 where the folder has int8 weights.

    Raises:
        CheckpointError: with every problem of the folder at once.
    """
    exported = load_exported(source, device=device, dtype=dtype)
    if exported is not None:
        return Model(exported)
    parts = load_parts(source, device=device, dtype=dtype)
    verify = Verification(parts)
    model = Model(parts)
    model.verify = verify
    if dtype is None:
        use_stored_int8(parts, verify)
    return model
