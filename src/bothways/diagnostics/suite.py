"""Suites of behavioural tests: TOML templates in, cases out.

A suite says what a model must be able to do in sentences with placeholders, each of which stands
for any of a list of words. Nothing is predicted here; the tests are run in `check.py`.

Source: Ribeiro, Wu, Guestrin and Singh 2020, whose three types of tests these are.
"""

from __future__ import annotations

import math
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from bothways.errors import UsageError, counted, nearest

# Cases of one test; of more, so many are drawn.
MOST_CASES = 1000

# A text or a pair of texts, as `Model.predict` takes them.
Read = str | tuple[str, str]

# What a test of each kind must say, and what else it may, besides what all say.
NEEDED: dict[str, tuple[str, ...]] = {
    "minimum": ("expect",),
    "invariance": (),
    "direction": ("changed", "label", "moves"),
}
OPTIONAL: dict[str, tuple[str, ...]] = {
    "minimum": (),
    "invariance": ("changed", "changed_pair", "varies"),
    "direction": ("changed_pair", "by"),
}
EVERY = ("name", "kind", "template", "pair", "least_share", "most")
TEMPLATES = ("template", "pair", "changed", "changed_pair")
MOVES = ("up", "down")
TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("name", "kind", "template", "pair", "changed", "changed_pair", "varies", "label", "moves"),
        (str,),
    ),
    **dict.fromkeys(("least_share", "by"), (int, float)),
    "expect": (str, list),
    "most": (int,),
}


@dataclass(frozen=True)
class Case:
    """One filling of a template.

    Attributes:
        read: the text or pair.
        changed: what it is compared with, where the test is no test of a single text.
    """

    read: Read
    changed: Read | None = None


@dataclass(frozen=True)
class Behaviour:
    """A test of a suite.

    Attributes:
        name, kind: what it is called, and minimum, invariance or direction.
        cases: all of them, or a sample.
        possible: how many there are.
        expect: labels of which one must be said (minimum).
        label: whose probability moves (direction).
        moves: up or down (direction).
        by: how far at least (direction).
        least_share: of the cases that must pass.
    """

    name: str
    kind: str
    cases: tuple[Case, ...]
    possible: int
    expect: tuple[str, ...] = ()
    label: str = ""
    moves: str = ""
    by: float = 0.0
    least_share: float = 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the model must have."""
        return (*self.expect, *filter(None, [self.label]))


@dataclass(frozen=True)
class Suite:
    """Tests of what a model must be able to do.

    Attributes:
        name: of the file.
        tests: in its order.
    """

    name: str
    tests: tuple[Behaviour, ...]

    def check(self, labels: Sequence[str]) -> None:
        """Refuse labels that a model does not have.

        Raises:
            UsageError: with all of them.
        """
        unknown = [
            f"test {test.name!r} names the label {label!r}; {nearest(label, labels)}"
            for test in self.tests
            for label in test.labels
            if label not in labels
        ]
        _refuse(self.name, unknown)


def read_suite(path: str | Path, *, seed: int = 0) -> Suite:
    """The tests of a TOML file.

    Args:
        path: of the file; docs/checking.md says what is in it.
        seed: of the cases that are drawn where there are too many.

    Raises:
        UsageError: when it cannot be read, or with everything that is wrong in it.

    Example:
        >>> read_suite("suite.toml").tests[0].cases[0].read  # doctest: +SKIP
        'The film was good.'
    """
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the suite {path} cannot be read: {error}") from error
    reader = _Reader(given, seed)
    tests = list(reader.tests())
    _refuse(str(path), reader.problems)
    return Suite(str(path), tuple(tests))


def placeholders(template: str) -> list[str]:
    """Names in braces, in order; doubled braces are plain ones.

    Raises:
        ValueError: for braces that are not closed, or hold more than a name.

    Example:
        >>> placeholders("The {film} was {praise}, {{sic}}.")
        ['film', 'praise']
    """
    names = []
    for _, name, form, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or form or conversion:
            raise ValueError(f"{{{name}}} is no placeholder; expected a name such as {{film}}")
        names.append(name)
    return list(dict.fromkeys(names))


def _refuse(name: str, problems: Sequence[str]) -> None:
    if problems:
        found = "".join(f"\n  {problem}" for problem in dict.fromkeys(problems))
        count = len(dict.fromkeys(problems))
        raise UsageError(f"{name}: {counted(count, 'problem')} in this suite:{found}")


@dataclass
class _Reader:
    """Reads tests of TOML values and collects what is wrong with them."""

    given: Mapping[str, Any]
    seed: int
    problems: list[str] = field(default_factory=list)

    def tests(self) -> Iterator[Behaviour]:
        """Every test that is whole."""
        for key in self.given.keys() - {"words", "test"}:
            self.problems.append(f"{key!r} is not known; {nearest(key, ['words', 'test'])}")
        self.words = self.given.get("words", {})
        for name, words in self.words.items():
            if not isinstance(words, list) or not words or not all(map(_is_text, words)):
                self.problems.append(f"words.{name} is {words!r}; expected a list of words")
                self.words = {**self.words, name: [""]}
        tests = self.given.get("test", [])
        if not isinstance(tests, list) or not tests:
            self.problems.append("it has no test; expected at least one [[test]]")
            return
        seen: set[str] = set()
        for number, table in enumerate(tests, 1):
            before = len(self.problems)
            self.where = f"test {table.get('name', number)!r}"
            self.check(table)
            if table.get("name") in seen:
                self.say("has the name of an earlier one")
            seen.add(table.get("name"))
            if len(self.problems) == before:
                yield self.test(table)

    def say(self, what: str) -> None:
        """Note a problem of the test being read."""
        self.problems.append(f"{self.where} {what}")

    def check(self, table: Mapping[str, Any]) -> None:
        """Note what is missing, unknown, of the wrong type, or no template."""
        kind = table.get("kind")
        if kind not in NEEDED:
            self.say(f"has the kind {kind!r}; {nearest(str(kind), NEEDED)}")
            return
        known = (*EVERY, *NEEDED[kind], *OPTIONAL[kind])
        for key in table.keys() - set(known):
            self.say(f"has {key!r}; {nearest(key, known)}")
        for key in ("name", "template", *NEEDED[kind]):
            if key not in table:
                self.say(f"has no {key!r}, which a test of kind {kind!r} needs")
        for key, types in TYPES.items():
            value = table.get(key, "")
            if key in table and (not isinstance(value, types) or isinstance(value, bool)):
                self.say(f"has {key} = {value!r}; expected {types[0].__name__}")
        if kind == "invariance" and ("changed" in table) == ("varies" in table):
            self.say("needs 'changed', another template, or 'varies', a placeholder; one of both")
        if kind == "direction" and table.get("moves") not in MOVES:
            self.say(f"has moves = {table.get('moves')!r}; {nearest('', MOVES)}")
        share = table.get("least_share", 1.0)
        if isinstance(share, (int, float)) and not 0 < share <= 1:
            self.say(
                f"has least_share = {share}; expected a share of the cases, above 0, at most 1"
            )
        most = table.get("most", 1)
        if isinstance(most, int) and most < 1:
            self.say(f"has most = {most}; expected at least 1")
        expect = table.get("expect", "a label")
        if not expect or (isinstance(expect, list) and not all(map(_is_text, expect))):
            self.say(f"has expect = {expect!r}; expected a label or a list of labels")
        self.check_templates(table)

    def check_templates(self, table: Mapping[str, Any]) -> None:
        """Note empty templates and placeholders that stand for nothing."""
        used: list[str] = []
        for key in TEMPLATES:
            template = table.get(key)
            if not isinstance(template, str):
                continue
            if not template.strip():
                self.say(f"has an empty {key}")
            try:
                names = placeholders(template)
            except ValueError as error:
                self.say(f"has a {key} that is none: {error}")
                continue
            used += names
            for name in names:
                if name not in self.words:
                    self.say(
                        f"has {{{name}}}, which is not in [words]; {nearest(name, self.words)}"
                    )
        varies = table.get("varies")
        if isinstance(varies, str) and varies not in used:
            self.say(f"varies {varies!r}, which is not in its template; {nearest(varies, used)}")
        elif isinstance(varies, str) and len(self.words.get(varies, "ab")) < 2:
            self.say(f"varies {varies!r}, which has one word; expected several")

    def test(self, table: Mapping[str, Any]) -> Behaviour:
        """A test that is whole, with its cases."""
        expect = table.get("expect", [])
        names = self.names(table)
        sizes = [len(self.words[name]) - (name == table.get("varies")) for name in names]
        possible, most = math.prod(sizes), table.get("most", MOST_CASES)
        numbers = np.arange(min(possible, most))
        if possible > most:
            draw = np.random.default_rng([self.seed, zlib.crc32(table["name"].encode())])
            numbers = np.sort(draw.choice(possible, most, replace=False))
        words = zip(*np.unravel_index(numbers, sizes), strict=True) if names else [()]
        cases = [self.case(table, dict(zip(names, each, strict=True))) for each in words]
        return Behaviour(
            name=table["name"],
            kind=table["kind"],
            cases=tuple(cases),
            possible=possible,
            expect=(expect,) if isinstance(expect, str) else tuple(expect),
            label=table.get("label", ""),
            moves=table.get("moves", ""),
            by=float(table.get("by", 0.0)),
            least_share=float(table.get("least_share", 1.0)),
        )

    def names(self, table: Mapping[str, Any]) -> list[str]:
        """Placeholders of all templates of a test."""
        templates = [table[key] for key in TEMPLATES if key in table]
        return list(dict.fromkeys(name for each in templates for name in placeholders(each)))

    def case(self, table: Mapping[str, Any], numbers: Mapping[str, int]) -> Case:
        """One filling, given the number of each word; of what varies the first is held against."""
        varies = table.get("varies")
        filling = {
            name: self.words[name][number + (name == varies)] for name, number in numbers.items()
        }
        template, pair = table["template"], table.get("pair")
        read = _read(template, pair, filling)
        if varies is not None:
            return Case(_read(template, pair, {**filling, varies: self.words[varies][0]}), read)
        if "changed" in table:
            return Case(read, _read(table["changed"], table.get("changed_pair", pair), filling))
        return Case(read)


def _read(template: str, pair: str | None, filling: Mapping[str, str]) -> Read:
    text = template.format_map(filling)
    return text if pair is None else (text, pair.format_map(filling))


def _is_text(value: object) -> bool:
    return isinstance(value, str)
