"""`CharacterMap`: the table by which SentencePiece rewrites characters, read as it reads it.

A model file carries its normalisation rules (NFKC with some more, usually) as a trie of UTF-8
bytes in a double array (Kudo 2018; Yata's darts-clone) followed by the replacements. At each place
of a text the longest rule that fits is applied. The `Precompiled` normaliser of tokenizers reads
the same table, but by clusters of letters and marks: of "e", circumflex and acute it takes the
first rule that fits, e with circumflex, and drops the acute; Hangul letters stay apart. Ids of
such texts would not be those that a model was trained on.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from bothways.errors import TokenizerError

HEADER = 4  # bytes: the size of the trie
LABEL = 0x800000FF
# A rule and the node after it, or None where nothing begins so.
Step = tuple[int | None, int] | None


class CharacterMap:
    """Rules of a model file.

    Args:
        table: `precompiled_charsmap` of the file; empty for no rules.

    Raises:
        TokenizerError: when the table is cut short.
    """

    def __init__(self, table: bytes) -> None:
        self._table = table
        size = int.from_bytes(table[:HEADER], "little")
        if table and (len(table) < HEADER + size or size % 4 or not size):
            raise TokenizerError(
                "the normalisation table of the model file is cut short; fetch the file again"
            )
        self._units = array("I")
        self._units.frombytes(table[HEADER : HEADER + size])
        self._strings = table[HEADER + size :]
        self._root = 0 if not table else _offset(self._units[0])
        self._steps: dict[tuple[int, str], Step] = {}
        self._values: dict[int, str] = {}
        self._runs = self._find_runs()

    def __reduce__(self) -> tuple[type[CharacterMap], tuple[bytes]]:
        """Pickled as its table."""
        return CharacterMap, (self._table,)

    def edits(self, text: str) -> Iterator[tuple[int, int, str]]:
        r"""What to replace in a text: start, stop and the new characters, in order.

        Example:
            >>> list(character_map.edits("\ufb01ne"))  # doctest: +SKIP
            [(0, 1, 'fi')]
        """
        if not self._table:
            return
        place = 0
        for run in self._runs.finditer(text):
            # A letter before the run can be the first of a rule too.
            for start in range(max(run.start() - 1, place), run.end()):
                if start < place:
                    continue
                found = self._longest(text, start)
                if found is not None:
                    rule, place = found
                    yield start, place, self._replacement(rule)

    def _longest(self, text: str, start: int) -> tuple[int, int] | None:
        """The longest rule that fits at a place, and where it ends."""
        found = None
        node = self._root
        for index in range(start, len(text)):
            step = self._step(node, text[index])
            if step is None:
                break
            value, node = step
            if value is not None:
                found = value, index + 1
        return found

    def _find_runs(self) -> re.Pattern[str]:
        """Runs of characters that rules can begin with or hold, printable ASCII only where needed.

        No published table has a rule for two ASCII letters in a row, but one may.
        """
        ascii_ = [chr(code) for code in range(128)]
        first = [(c, step) for c in ascii_ if self._table and (step := self._step(self._root, c))]
        starting = [
            character
            for character, (value, node) in first
            if value is not None or any(self._step(node, after) for after in ascii_)
        ]
        plain = "".join(c for c in ascii_ if c.isprintable() and c not in starting)
        return re.compile(f"[^{re.escape(plain)}]+")

    def _step(self, node: int, character: str) -> Step:
        """From a node along the bytes of a character."""
        key = (node, character)
        if key not in self._steps:
            self._steps[key] = self._walk(node, character.encode(errors="surrogatepass"))
        return self._steps[key]

    def _walk(self, node: int, content: bytes) -> Step:
        value = None
        for byte in content:
            place = node ^ byte
            unit = self._units[place] if place < len(self._units) else 0
            if unit & LABEL != byte or not byte:
                return None
            node = place ^ _offset(unit)
            value = self._units[node] & 0x7FFFFFFF if unit >> 8 & 1 else None
        return value, node

    def _replacement(self, rule: int) -> str:
        if rule not in self._values:
            self._values[rule] = self._strings[rule : self._strings.index(0, rule)].decode()
        return self._values[rule]


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 1 << 9) >> 6)
