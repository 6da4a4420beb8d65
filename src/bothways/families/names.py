"""`NameTable`: what a published checkpoint calls our parameters, readable in both directions.

A table is bound to a module: every parameter of the module gets exactly one `Slot`, a tensor of
the file that holds it alone or fused with others. Reading splits the slots' tensors, writing joins
them, and the one is the inverse of the other bit for bit. Which tensors a given file really has
is sorted out in `checkpoints/accounting.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from bothways.errors import ConfigError
from bothways.model.config import EncoderConfig

FusedBy = Literal["rows", "heads"]


@dataclass(frozen=True)
class Fused:
    """Several of our parameters in one tensor of the file.

    Attributes:
        ours: templates of our names, in the order in which they lie in the tensor.
        by: one whole parameter after another (`rows`), or all of them within each attention
            head, head after head (`heads`).
    """

    ours: tuple[str, ...]
    by: FusedBy = "rows"


@dataclass(frozen=True)
class Slot:
    """One tensor of a file and the parameters it holds.

    Attributes:
        theirs: its name in the file, without the prefix of the encoder.
        ours: names of the parameters in it.
        shapes: of these parameters.
        by: how they are fused, where there are several.
        num_heads: attention heads, for parameters fused by head.
    """

    theirs: str
    ours: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    by: FusedBy = "rows"
    num_heads: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor in the file."""
        first = self.shapes[0]
        if len(self.shapes) == 1:
            return first
        return (sum(shape[0] for shape in self.shapes), *first[1:])

    def split(self, tensor: Tensor) -> dict[str, Tensor]:
        """Our parameters of a tensor of the file; views where possible."""
        if len(self.ours) == 1:
            return {self.ours[0]: tensor}
        if self.by == "rows":
            pieces = torch.split(tensor, [shape[0] for shape in self.shapes])
            return dict(zip(self.ours, pieces, strict=True))
        # (heads * parts * d, ...) -> (heads, parts, d, ...)
        blocks = tensor.view(self.num_heads, len(self.ours), -1, *tensor.shape[1:])
        return {name: blocks[:, part].flatten(0, 1) for part, name in enumerate(self.ours)}

    def join(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """The tensor of the file from our parameters; the inverse of `split`."""
        pieces = [parameters[name] for name in self.ours]
        if len(pieces) == 1:
            return pieces[0]
        if self.by == "rows":
            return torch.cat(pieces)
        blocks = [piece.view(self.num_heads, -1, *piece.shape[1:]) for piece in pieces]
        return torch.stack(blocks, dim=1).flatten(0, 2)


@dataclass(frozen=True)
class NameTable:
    r"""The names of a family's encoder, or of one of its heads.

    Templates name modules or single parameters; what follows a module's name (`.weight`) is the
    same on both sides. `{i}` is the index of a block; where layers share weights in groups, the
    file's names may say `{group}` and `{inner}`, the block's place in its group.

    Attributes:
        names: the file's template to ours, or to several of ours that it holds fused.
        optional: templates of the file whose parameters an encoder may lack.
        tied: for parameters of a head that are the same as one of the encoder: our name in the
            head to our name in the encoder. The file may leave them out.
        aliases: regular expressions to replacements, for older names that are read and never
            written.
        copies: second names of a tensor to its first. Where ties are cut the published class adds
            the second, so that one counts where the two differ, and both are written.
        ignored: regular expressions of whole names that carry nothing, to the reason why.

    Example:
        >>> table = NameTable({"dense": "input"}, aliases={r"\.gamma$": ".weight"})
        >>> [slot.theirs for slot in table.bind({"input.weight": torch.zeros(2, 3)})]
        ['dense.weight']
    """

    names: Mapping[str, str | Fused]
    optional: frozenset[str] = frozenset()
    tied: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)

    def bind(
        self,
        module: nn.Module | Mapping[str, Tensor],
        config: EncoderConfig | None = None,
    ) -> tuple[Slot, ...]:
        """One slot for each tensor that a file of this module has.

        Args:
            module: a module, on the meta device too, or its parameters by name.
            config: of the encoder; for names that count groups and for tensors fused by head.

        Raises:
            ConfigError: when a parameter is the target of no rule or of two, a rule has no
                parameter, or a fused tensor is incomplete: mistakes of the table.
        """
        parameters = module.state_dict(keep_vars=True) if isinstance(module, nn.Module) else module
        per_group = 1 if config is None else config.layers_per_group
        found: dict[str, dict[int, str]] = {}
        rule_of: dict[str, str] = {}
        problems = []
        for name in parameters:
            targets = [
                (rule, part, match)
                for rule, part, pattern in self._ours
                if (match := pattern.fullmatch(name))
            ]
            if len(targets) != 1:
                rules = ", ".join(repr(rule) for rule, _, _ in targets) or "none"
                problems.append(f"{name} needs exactly one rule; it has {rules}")
                continue
            rule, part, match = targets[0]
            theirs = _fill(rule, match, per_group)
            found.setdefault(theirs, {})[part] = name
            rule_of[theirs] = rule
        used = set(rule_of.values())
        problems += [
            f"the rule {rule!r} has no parameter"
            for rule in self.names
            if rule not in used and rule not in self.optional
        ]
        slots = []
        for theirs, parts in found.items():
            rule = rule_of[theirs]
            target = self.names[rule]
            wanted = len(target.ours) if isinstance(target, Fused) else 1
            if len(parts) != wanted:
                problems.append(f"{theirs} holds {wanted} parameters; there are {len(parts)}")
            ours = tuple(parts[part] for part in sorted(parts))
            slots.append(
                Slot(
                    theirs,
                    ours,
                    tuple(tuple(parameters[name].shape) for name in ours),
                    target.by if isinstance(target, Fused) else "rows",
                    1 if config is None else config.attention.num_heads,
                )
            )
        if problems:
            raise ConfigError("the name table does not fit the module:\n  " + "\n  ".join(problems))
        return tuple(slots)

    def modern(self, name: str) -> str:
        """The name in today's spelling."""
        for pattern, replacement in self.aliases.items():
            name = re.sub(pattern, replacement, name)
        return self.copies.get(name, name)

    def why_ignored(self, name: str) -> str | None:
        """Why a tensor carries nothing; None when it does."""
        return next(
            (why for pattern, why in self.ignored.items() if re.fullmatch(pattern, name)), None
        )

    def covers(self, name: str) -> bool:
        """Whether a name of the file is of the kind that this table places somewhere."""
        return any(pattern.fullmatch(name) for pattern in self._theirs)

    @cached_property
    def _ours(self) -> list[tuple[str, int, re.Pattern[str]]]:
        return [
            (theirs, part, _pattern(template))
            for theirs, target in self.names.items()
            for part, template in enumerate(target.ours if isinstance(target, Fused) else (target,))
        ]

    @cached_property
    def _theirs(self) -> list[re.Pattern[str]]:
        return [_pattern(template) for template in self.names]


def _pattern(template: str) -> re.Pattern[str]:
    """A template as an expression: numbers in its braces, then what follows a module's name."""
    pieces = re.split(r"\{(\w+)\}", template)
    text = "".join(
        rf"(?P<{piece}>\d+)" if index % 2 else re.escape(piece)
        for index, piece in enumerate(pieces)
    )
    return re.compile(rf"{text}(?P<rest>(?:\.\w+)*)")


def _fill(template: str, match: re.Match[str], per_group: int) -> str:
    """The file's name for a parameter that matched our template."""
    groups = match.groupdict()
    numbers = {}
    if "i" in groups:
        index = int(groups["i"])
        numbers = {"i": index, "group": index // per_group, "inner": index % per_group}
    return template.format(**numbers) + groups["rest"]
