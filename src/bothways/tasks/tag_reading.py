"""Words and tags of rows: CoNLL and CoNLL-U, one sentence a row, or jsonl with spans of characters.

What is not valid is refused with file and line, all of a kind in one error; what can be read in
one way only is read so and counted: tags that do not fit what stands before them, and spans that
begin or end inside a word. How tags make spans is in `schemes.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bothways.data.conll import LINE_COLUMN, words
from bothways.data.problems import shown
from bothways.data.rows import Row
from bothways.errors import ColumnError, DataError, agreeing, counted, nearest
from bothways.metrics.spans import Span
from bothways.tasks.columns import find_columns, refuse
from bothways.tasks.schemes import SCHEMES, SchemeName, find_scheme
from bothways.tasks.tag_examples import TagExample
from bothways.tasks.task import Columns

logger = logging.getLogger(__name__)

SPANS_COLUMN = "spans"
# In CoNLL-U; in other files the words are the first column and the tags the last.
FORM_COLUMN, TAG_COLUMN = "form", "upos"


def read_tagged(
    rows: Sequence[Row],
    columns: Columns,
    *,
    labelled: bool,
    scheme: SchemeName | None,
) -> list[TagExample]:
    """Examples of rows.

    Args:
        rows: of one file, or of several in one format.
        columns: of the words or the text, and of the tags; None for the usual ones.
        labelled: whether the rows must have tags; without it they are not read.
        scheme: of the tags; None to find it in them.

    Raises:
        DataError: for missing columns, words without a tag, tags that the scheme does not have,
            and spans that are outside their text, empty, or share characters; each with all of
            its places.
    """
    if not rows:
        return []
    if LINE_COLUMN in rows[0].cells:
        examples = _of_words(rows, columns, labelled=labelled)
        return with_scheme(examples, scheme) if labelled else examples
    return _of_texts(rows, columns, labelled=labelled, scheme=scheme)


def with_scheme(examples: Sequence[TagExample], scheme: SchemeName | None) -> list[TagExample]:
    """The same examples with tags as their scheme writes the spans that are in them.

    Args:
        examples: with tags.
        scheme: None to find it.

    Raises:
        DataError: for tags that the scheme does not have.
    """
    name = scheme or find_scheme(tag for example in examples for tag in example.tags or ())
    if name == "none":
        return list(examples)
    form = SCHEMES[name]
    if form.name == "IO":
        examples = [_with_prefixes(example) for example in examples]
    wrong = [
        f"{example.word_place(number)}: {tag!r}"
        for example in examples
        for number, tag in enumerate(example.tags or ())
        if not form.has(tag)
    ]
    if wrong:
        refuse(
            f"tags that are not valid in {form.name}",
            wrong,
            f"expected O or a type after {' or '.join(f'{p}-' for p in form.prefixes)}, as in "
            f"{form.prefixes[0]}-PER. Mend them, or name the scheme (--scheme; none where tags "
            "make no spans)",
        )
    mended, odd = [], []
    for example in examples:
        tags = example.tags or ()
        written = form.write(form.lenient(tags), len(tags))
        odd += [
            f"{example.word_place(n)}: {tag!r} after {tags[n - 1] if n else 'nothing'!r}"
            for n, (tag, right) in enumerate(zip(tags, written, strict=True))
            if tag != right
        ]
        mended.append(replace(example, tags=tuple(written)) if example.tags else example)
    if odd:
        logger.warning(
            "%s %s not as %s writes spans; each span is read as it must be meant, an I- without "
            "its B- beginning one (the first: %s)",
            counted(len(odd), "tag"),
            agreeing(len(odd), "are"),
            form.name,
            odd[0],
        )
    return mended


def _with_prefixes(example: TagExample) -> TagExample:
    """In IO the type may stand alone: PER for I-PER."""
    if example.tags is None:
        return example
    bare = [tag if tag == "O" or tag.startswith("I-") else f"I-{tag}" for tag in example.tags]
    return replace(example, tags=tuple(bare))


def _of_words(rows: Sequence[Row], columns: Columns, *, labelled: bool) -> list[TagExample]:
    """Sentences whose words and tags are columns of a file."""
    names = [name for name in rows[0].cells if name not in (LINE_COLUMN, columns.group)]
    conllu = FORM_COLUMN in names
    form = columns.text or (FORM_COLUMN if conllu else names[0])
    tag = columns.label or (TAG_COLUMN if conllu else names[-1])
    wanted = {"--text": form} | ({"--column": tag} if labelled else {})
    for flag, name in wanted.items():
        if name not in names:
            raise ColumnError(
                f"{rows[0].file} has no column {name!r} ({flag}); {nearest(name, names)}. It has: "
                f"{', '.join(names)}"
            )
    if labelled and tag == form:
        raise DataError(
            f"{rows[0].file}: words and tags would both be column {form!r}; it has: "
            f"{', '.join(names)}. Name another column of tags with --column"
        )
    examples, bare = [], []
    for row in rows:
        lines = tuple(int(number) for number in words(row.cells[LINE_COLUMN]))
        tags = words(row.cells[tag]) if labelled else None
        example = replace(
            TagExample.of_words(words(row.cells[form]), tags),
            place=row.place,
            lines=lines,
            group=row.cells.get(columns.group) if columns.group else None,
        )
        bare += [example.word_place(n) for n, each in enumerate(tags or ()) if not each.strip()]
        examples.append(example)
    if bare:
        refuse("words without a tag", bare, "give each word a tag; O where it has none")
    return examples


def _of_texts(
    rows: Sequence[Row], columns: Columns, *, labelled: bool, scheme: SchemeName | None
) -> list[TagExample]:
    """Texts, with spans of characters where they are labelled."""
    spans_column = columns.label or SPANS_COLUMN
    if labelled and not any(spans_column in row.cells for row in rows):
        names = ", ".join(map(repr, rows[0].cells))
        raise DataError(
            f"{rows[0].file} has no column {spans_column!r}; it has: {names}. Tagging learns from "
            'CoNLL, CoNLL-U, or jsonl with spans: {"text": "Ann sang", "spans": [{"start": 0, '
            '"end": 3, "label": "PER"}]}. Another name of that key: --column'
        )
    if labelled and scheme == "none":
        raise DataError(
            f"{rows[0].file} has spans, and without a scheme tags make none; give --scheme bio"
        )
    text = find_columns(rows, replace(columns, label=None), labelled=False).text or ""
    absent = [row.place for row in rows if text not in row.cells]
    if absent:
        refuse(f"rows without {text!r}", absent, "give each row that field, if empty")
    examples, wrong = [], list[str]()
    inside = list[str]()
    form = SCHEMES[scheme or "bio"] if scheme != "none" else None
    for row in rows:
        example = replace(
            TagExample.of_text(row.cells[text]),
            place=row.place,
            group=row.cells.get(columns.group) if columns.group else None,
        )
        if labelled and form is not None:
            found, problems = _spans(row.cells.get(spans_column, ""), example.text)
            wrong += [f"{row.place}: {problem}" for problem in problems]
            spans, cut = _in_words(found, example)
            inside += [f"{row.place}: {each}" for each in cut]
            tags = form.write(spans, len(example.words))
            example = replace(example, tags=tuple(tags))
        examples.append(example)
    if wrong:
        refuse(
            "spans that cannot be",
            wrong,
            'expected a list of {"start": first character, "end": the one after the last, '
            '"label": type}, within the text, none sharing characters with another',
        )
    if inside:
        logger.warning(
            "%s %s not begin and end where words do; whole words are read, and a span that is left "
            "with none of its own is lost (the first: %s)",
            counted(len(inside), "span"),
            "does" if len(inside) == 1 else "do",
            inside[0],
        )
    return examples


def _spans(cell: str, text: str) -> tuple[list[Span], list[str]]:
    """Spans of characters in order, and what is wrong with them."""
    try:
        given = json.loads(cell or "[]")
    except ValueError:
        return [], [f"not JSON: {shown(cell)}"]
    if not isinstance(given, list):
        return [], [f"not a list: {shown(cell)}"]
    spans: list[Span] = []
    problems = []
    for item in given:
        problem = _problem(item, len(text))
        if problem:
            problems.append(f"{problem}: {shown(json.dumps(item, ensure_ascii=False))}")
        else:
            spans.append((item["start"], item["end"], item["label"]))
    spans.sort(key=lambda span: span[:2])
    for one, other in pairwise(spans):
        if other[0] < one[1]:
            problems.append(
                f"{_quoted(one, text)} and {_quoted(other, text)} share characters; a word has one "
                "tag, so spans may not lie in each other or overlap"
            )
    return spans, problems


def _problem(item: Any, length: int) -> str | None:
    if not isinstance(item, dict) or not {"start", "end", "label"} <= item.keys():
        return "without start, end or label"
    start, end, label = item["start"], item["end"], item["label"]
    if not all(type(number) is int for number in (start, end)):
        return "start or end is no whole number"
    if not isinstance(label, str) or not label.strip():
        return "the label is no word"
    if not 0 <= start < end:
        return "it does not end after its start"
    return f"it ends after the text, which has {length} characters" if end > length else None


def _in_words(spans: Iterable[Span], example: TagExample) -> tuple[list[Span], list[str]]:
    """Spans of characters as spans of whole words, and those that do not fit words."""
    found: list[Span] = []
    unfit = []
    free = 0
    for start, end, label in spans:
        touched = [
            number
            for number, (first, last) in enumerate(example.offsets)
            if first < end and last > start and number >= free
        ]
        edges = {(first, last) for first, last in example.offsets if first < end and last > start}
        fits = bool(touched) and all(first >= start and last <= end for first, last in edges)
        if not fits:
            unfit.append(_quoted((start, end, label), example.text))
        if touched:
            free = touched[-1] + 1
            found.append((touched[0], free, label))
    return found, unfit


def _quoted(span: Span, text: str) -> str:
    start, end, label = span
    return f"{shown(text[start:end])} ({label}, {start} to {end})"
