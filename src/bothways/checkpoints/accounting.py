"""Which tensor of a file is which parameter: every tensor and every parameter is accounted for.

Pure functions over names and shapes; nothing is read from the files but what decides whether two
copies are equal. Problems are gathered, so that one error names them all. Assigning the tensors is
in `load.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from bothways.checkpoints.files import FLOATS, WeightFiles
from bothways.checkpoints.report import listing
from bothways.errors import agreeing, counted
from bothways.families.names import NameTable, Slot


@dataclass(frozen=True)
class FileNames:
    """The names in a file, in today's spelling and without the encoder's prefix.

    Attributes:
        file_name: today's name to the name in the file.
        aliases: names in the file with an older spelling, to today's.
        copies: names in the file that say the same thing as another one, to that one.
    """

    file_name: Mapping[str, str]
    aliases: Mapping[str, str]
    copies: Mapping[str, str]

    @classmethod
    def of(cls, names: Sequence[str], tables: Sequence[NameTable], prefix: str) -> FileNames:
        """Sort out the names of a file.

        Args:
            names: in the file.
            tables: of the encoder and of the head.
            prefix: of the encoder, which a file may have or not.
        """
        spelled: dict[str, str] = {}
        for name in names:
            modern = name
            for table in tables:
                modern = table.modern(modern)
            spelled[name] = modern
        chosen: dict[str, str] = {}
        copies: dict[str, str] = {}
        # Names that need no alias go first, so that an old name beside a new one is the copy.
        for name in sorted(names, key=lambda name: (spelled[name] != name, name)):
            plain = spelled[name].removeprefix(prefix)
            if plain in chosen:
                copies[name] = chosen[plain]
            else:
                chosen[plain] = name
        aliases = {name: modern for name, modern in spelled.items() if modern != name}
        return cls(chosen, aliases, copies)

    def has(self, slot: Slot) -> bool:
        """Whether the file has this tensor."""
        return slot.theirs in self.file_name


@dataclass
class Account:
    """What was found, part by part.

    Attributes:
        problems: sentences for the user; with `mismatched`, what keeps the model from being built.
        loaded: names in the file of the tensors that are used.
        ignored, missing, mismatched: as in `LoadReport`.
        unexpected: names in the file that nothing reads.
        untied: our names of head parameters that the file holds apart from the encoder's.
    """

    problems: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    mismatched: dict[str, str] = field(default_factory=dict)
    unexpected: tuple[str, ...] = ()
    untied: list[str] = field(default_factory=list)

    def take(self, slots: Sequence[Slot], names: FileNames, weights: WeightFiles) -> list[Slot]:
        """Note the tensors of these slots; returns the slots that the file lacks."""
        absent = []
        for slot in slots:
            if not names.has(slot):
                absent.append(slot)
                continue
            name = names.file_name[slot.theirs]
            self.loaded.append(name)
            shape = weights.shapes[name]
            if shape != slot.shape:
                self.mismatched[name] = f"{list(shape)} in the file, {list(slot.shape)} expected"
            elif weights.dtypes[name] not in FLOATS:
                self.problems.append(f"{name} does not hold floating-point numbers")
        return absent

    def check_encoder(
        self, absent: Sequence[Slot], names: FileNames, table: NameTable, prefix: str, total: int
    ) -> None:
        """Note what the file lacks of the encoder, and what it has that has no place in it."""
        if absent:
            foreign = _foreign_prefix(absent, names) if len(absent) == total else None
            if foreign is not None:
                self.problems.append(
                    f"every tensor of the encoder stands under the prefix {foreign!r}; expected "
                    f"{prefix!r} or none. Rename the tensors in the file, or correct model_type"
                )
            else:
                self.problems.append(
                    f"{len(absent)} of {counted(total, 'tensor')} of the encoder "
                    f"{agreeing(len(absent), 'are')} missing: "
                    + listing(tuple(prefix + slot.theirs for slot in absent))
                )
        taken = set(self.loaded)
        surplus = tuple(
            name
            for plain, name in names.file_name.items()
            if name not in taken and table.covers(plain) and table.why_ignored(plain) is None
        )
        if surplus:
            self.problems.append(
                f"{counted(len(surplus), 'tensor')} {agreeing(len(surplus), 'have')} no place in "
                "the encoder that config.json describes (has it fewer layers than the file?): "
                f"{listing(surplus)}"
            )

    def settle_copies(
        self, names: FileNames, weights: WeightFiles, tables: Sequence[NameTable]
    ) -> FileNames:
        """The names without second ones: those that are the same, and those that count instead."""
        seconds = {copy for table in tables for copy in table.copies}
        chosen = dict(names.file_name)
        for copy, original in names.copies.items():
            if torch.equal(weights.tensor(copy), weights.tensor(original)):
                self.ignored[copy] = f"a copy of {original}"
            elif copy in seconds:
                self.ignored[original] = f"{copy} differs and is what the published class adds"
                chosen.update((plain, copy) for plain, name in chosen.items() if name == original)
            else:
                self.problems.append(f"{copy} and {original} should be the same, but differ")
        return FileNames(chosen, names.aliases, names.copies)

    def note_rest(self, names: FileNames, tables: Sequence[NameTable]) -> None:
        """Note the tensors that are in no slot: ignored with a reason, or unexpected."""
        rest = []
        taken = set(self.loaded)
        for plain, name in names.file_name.items():
            if name in taken:
                continue
            why = next((why for table in tables if (why := table.why_ignored(plain))), None)
            if why is None:
                rest.append(name)
            else:
                self.ignored[name] = why
        self.unexpected = tuple(sorted(rest))


def _foreign_prefix(absent: Sequence[Slot], names: FileNames) -> str | None:
    """What stands before the encoder's names in a file that has them all under another prefix."""
    wanted = absent[0].theirs
    found = [plain for plain in names.file_name if plain.endswith("." + wanted)]
    if len(found) != 1:
        return None
    prefix = found[0].removesuffix(wanted)
    return prefix if all(prefix + slot.theirs in names.file_name for slot in absent) else None
