"""From weight files to an encoder and a head.

Both are built without memory of their own; their parameters are then the tensors of the
memory-mapped files.
Which tensor is which parameter is decided in `accounting.py`; what else a folder holds is read in
`load.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bothways.checkpoints.accounting import Account, FileNames
from bothways.checkpoints.empty import without_memory
from bothways.checkpoints.files import HEAD_NAME, WeightFiles
from bothways.checkpoints.parts import TIES, needs_pooler, set_parameter
from bothways.checkpoints.report import LoadReport, listing
from bothways.checkpoints.settings import SETTINGS_NAME
from bothways.errors import CheckpointError, agreeing, counted, nearest
from bothways.families.keys import ConfigKeys
from bothways.families.names import NameTable, Slot
from bothways.families.spec import FamilySpec, HeadSpec
from bothways.model.config import EncoderConfig
from bothways.model.encoder import Encoder
from bothways.model.heads import MaskedLMHead, build_head


@dataclass(frozen=True)
class Assembled:
    """What weight files gave.

    Attributes:
        encoder, head: with every parameter in place.
        architecture: class of both in transformers; that of the bare encoder where the head has
            none.
        num_labels: outputs of a head whose outputs have names; 0 for all others.
        report: what became of every tensor.
    """

    encoder: Encoder
    head: nn.Module | None
    architecture: str
    num_labels: int
    report: LoadReport


class Assembler:
    """Builds encoder and head of one folder.

    Args:
        weights: its files.
        family: what they are called.
        raw: content of config.json.
        place: of config.json, for messages.
        options: device and dtype of the parameters, as `Tensor.to` takes them.
    """

    def __init__(
        self,
        weights: WeightFiles,
        family: FamilySpec,
        raw: Mapping[str, Any],
        place: str,
        options: Mapping[str, Any],
    ) -> None:
        self.weights = weights
        self.family = family
        self.raw = raw
        self.keys = ConfigKeys(raw, place)
        self.options = options
        self.account = Account()
        self.warnings: list[str] = []
        self.architecture = (*self.keys.words("architectures"), family.bare)[0]
        self.head_spec = self._find_head_spec()
        self.tables = [family.names] + ([self.head_spec.names] if self.head_spec else [])
        names = FileNames.of(tuple(weights.shapes), self.tables, family.prefix)
        self.names = self.account.settle_copies(names, weights, self.tables)

    def assemble(
        self, source: str, num_labels: int, settings: Mapping[str, Any], folder: Path
    ) -> Assembled:
        """Encoder, head and report.

        Args:
            source: what the user asked for.
            num_labels: how many labels the folder names; 0 for none.
            settings: content of bothways.json, which may describe a head.
            folder: where that head's weights lie.

        Raises:
            CheckpointError: with everything that does not fit.
        """
        config = self.family.read_config(self.raw, self.keys.place)
        encoder, encoder_slots = self._take_encoder(config)
        head, head_slots = self._take_head(encoder.config, num_labels)
        loose = settings.get("head") if head is None else None
        if loose is not None:
            with without_memory():
                head = build_head(loose)
        if config.pooler and encoder.pooler is None:
            self._note_absent_pooler(head)
        tied = self._ties(encoder_slots, head_slots)
        self.account.note_rest(self.names, self.tables)
        report = self._report(source, tied, settings)
        if self.account.problems or self.account.mismatched:
            raise CheckpointError(self._complaint(config, encoder_slots))

        self._assign(encoder, encoder_slots)
        if head is not None and loose is not None:
            tied = load_loose_head(head, folder, self.options)
        elif head is not None:
            self._assign(head, head_slots)
        if head is not None:
            for ours, theirs in tied.items():
                set_parameter(head, ours, encoder.get_parameter(theirs))
        empty = [
            name
            for module in (encoder, head)
            if module is not None
            for name, value in module.named_parameters()
            if value.is_meta
        ]
        assert not empty, f"parameters without values: {empty}"
        named = loose is not None or (self.head_spec and self.head_spec.num_outputs is None)
        arguments = {} if head is None or not named else vars(head).get("settings", {})
        return Assembled(
            encoder,
            head,
            self.family.bare if head is None or loose is not None else self.architecture,
            arguments.get("num_labels", 0),
            report,
        )

    def _find_head_spec(self) -> HeadSpec | None:
        spec = self.family.head(self.architecture, self.raw)
        if spec is None and self.architecture != self.family.bare:
            known = [self.family.bare, *self.family.heads]
            self.warnings.append(
                f"config.json names the class {self.architecture}, whose head is not built here; "
                f"only the encoder is loaded ({nearest(self.architecture, known)})"
            )
        return spec

    def _take_encoder(self, config: EncoderConfig) -> tuple[Encoder, tuple[Slot, ...]]:
        """An empty encoder, with a pooler where the file has one, and its slots.

        Raises:
            CheckpointError: where it has more layers than the files can hold; nothing is built.
        """
        if config.num_blocks > (count := len(self.weights.shapes)):
            raise CheckpointError(
                f"{self.keys.place} asks for {config.num_blocks:,} layers with weights of their "
                f"own, and {self.weights.place} holds {count} tensors in all; take config.json and "
                "the weights from the same model"
            )
        encoder, slots = _empty_encoder(self.family, config)
        pooler = [slot for slot in slots if slot.ours[0].startswith("pooler.")]
        if pooler and not any(self.names.has(slot) for slot in pooler):
            without = dataclasses.replace(config, pooler=False)
            encoder, slots = _empty_encoder(self.family, without)
        absent = self.account.take(slots, self.names, self.weights)
        self.account.check_encoder(
            absent, self.names, self.family.names, self.family.prefix, len(slots)
        )
        return encoder, slots

    def _take_head(
        self, config: EncoderConfig, num_labels: int
    ) -> tuple[nn.Module | None, tuple[Slot, ...]]:
        """An empty head and its slots; None where the class or the file has none."""
        spec = self.head_spec
        if spec is None:
            return None, ()
        width = spec.num_outputs
        with without_memory():
            if width is None:
                slots = spec.names.bind(spec.build(config, self.keys, 1), config)
                width = num_labels or self._rows(slots)
            head = spec.build(config, self.keys, width)
        slots = spec.names.bind(head, config)
        own = [slot for slot in slots if slot.ours[0] not in spec.names.tied]
        if not any(self.names.has(slot) for slot in own):
            self.account.missing.update((slot.theirs, "the model has no head") for slot in own)
            self.warnings.append("the files hold no tensor of the head, so the model has none")
            return None, ()
        absent = self.account.take(slots, self.names, self.weights)
        lost = tuple(slot.theirs for slot in absent if slot in own)
        if lost:
            self.account.problems.append(
                f"{len(lost)} of {counted(len(own), 'tensor')} of the head "
                f"{agreeing(len(lost), 'are')} missing: {listing(lost)}"
            )
        return head, slots

    def _rows(self, slots: Sequence[Slot]) -> int:
        """Outputs of the head in the file; 1 where it has none."""
        for slot in slots:
            if slot.ours[0].startswith("output.") and self.names.has(slot):
                return self.weights.shapes[self.names.file_name[slot.theirs]][0]
        return 1

    def _note_absent_pooler(self, head: nn.Module | None) -> None:
        if head is None:
            self.account.missing["pooler"] = "the encoder has none"
        elif needs_pooler(head):
            self.account.problems.append("the pooler is missing, and the head reads its output")

    def _ties(self, encoder_slots: Sequence[Slot], head_slots: Sequence[Slot]) -> dict[str, str]:
        """Parameters of the head that are one of the encoder's, by the file or by default."""
        if self.head_spec is None:
            return {}
        wanted = self.raw.get("tie_word_embeddings") is not False
        originals = {slot.ours[0]: slot for slot in encoder_slots}
        tied = {}
        for slot in head_slots:
            ours = slot.ours[0]
            source = self.head_spec.names.tied.get(ours)
            if source is None:
                continue
            if not self.names.has(slot):
                tied[ours] = source
                if not wanted:
                    self.account.problems.append(
                        f"{slot.theirs} is missing, and tie_word_embeddings is false"
                    )
            elif wanted and self._equal(slot, originals[source]):
                tied[ours] = source
            else:
                self.account.untied.append(ours)
                self.warnings.append(
                    f"{slot.theirs} is not the token table in these files; it is kept as it is"
                )
        return tied

    def _equal(self, one: Slot, other: Slot) -> bool:
        if not (self.names.has(one) and self.names.has(other)):
            return False
        left, right = (
            self.weights.tensor(self.names.file_name[slot.theirs]) for slot in (one, other)
        )
        return torch.equal(left, right)

    def _assign(self, module: nn.Module, slots: Sequence[Slot]) -> None:
        state: dict[str, Tensor] = {}
        for slot in slots:
            if self.names.has(slot):
                tensor = self.weights.tensor(self.names.file_name[slot.theirs])
                state.update(slot.split(tensor.to(**self.options)))
        module.load_state_dict(state, strict=False, assign=True)

    def _report(
        self, source: str, tied: Mapping[str, str], settings: Mapping[str, Any]
    ) -> LoadReport:
        account = self.account
        if unread := len(account.unexpected):
            self.warnings.append(
                f"{counted(unread, 'tensor')} {agreeing(unread, 'are')} not read: "
                f"{listing(account.unexpected)}"
            )
        return LoadReport(
            source=source,
            family=self.family.model_type,
            architecture=self.architecture,
            loaded=tuple(sorted(account.loaded)),
            tied=tied,
            untied=tuple(account.untied),
            ignored=account.ignored,
            aliases=self.names.aliases,
            missing=account.missing,
            unexpected=account.unexpected,
            mismatched=account.mismatched,
            untrained=tuple(settings.get("untrained", ())),
            warnings=tuple(self.warnings),
            stored_dtypes=tuple(sorted({self.weights.dtypes[name] for name in account.loaded})),
        )

    def _complaint(self, config: EncoderConfig, slots: Sequence[Slot]) -> str:
        problems = list(self.account.problems)
        words = next(slot for slot in slots if "embeddings.words.weight" in slot.ours)
        name = self.names.file_name.get(words.theirs)
        if name in self.account.mismatched:
            problems.append(
                f"config.json says vocab_size {config.embeddings.vocab_size}, the token table in "
                f"the files has {self.weights.shapes[name][0]} rows"
            )
        if odd := len(self.account.mismatched):
            problems.append(
                f"{counted(odd, 'tensor')} {agreeing(odd, 'have')} another shape than config.json "
                f"asks for: {listing(self.account.mismatched)}"
            )
        return (
            f"{self.weights.place} does not fit {self.keys.place}:\n  - "
            + "\n  - ".join(problems)
            + "\n  take config.json and the weights from the same model"
        )


def load_loose_head(head: nn.Module, folder: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Give a head the weights of head.safetensors, which has our own names.

    Returns:
        The parameters that the file leaves out because they are the encoder's.

    Raises:
        CheckpointError: when the file is absent or holds another head.
    """
    path = folder / HEAD_NAME
    if not path.exists():
        raise CheckpointError(f"{SETTINGS_NAME} describes a head, but {path} is not there")
    weights = WeightFiles([path])
    slots = NameTable({name: name for name in head.state_dict()}).bind(head)
    shapes = {slot.theirs: slot.shape for slot in slots}
    tied = {}
    if isinstance(head, MaskedLMHead):
        tied = {ours: source for ours, source in TIES.items() if ours not in weights.shapes}
    expected = {name: shape for name, shape in shapes.items() if name not in tied}
    wrong = sorted(
        name
        for name in {*expected, *weights.shapes}
        if expected.get(name) != weights.shapes.get(name)
    )
    if wrong:
        raise CheckpointError(
            f"{path} does not hold the head that {SETTINGS_NAME} describes; missing, unexpected or "
            f"of another shape: {listing(tuple(wrong))}"
        )
    state = {name: weights.tensor(name).to(**options) for name in expected}
    head.load_state_dict(state, strict=False, assign=True)
    return tied


def _empty_encoder(family: FamilySpec, config: EncoderConfig) -> tuple[Encoder, tuple[Slot, ...]]:
    with without_memory():
        encoder = Encoder(config)
    return encoder, family.names.bind(encoder, config)
