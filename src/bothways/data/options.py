"""`FileOptions`: how data files are to be read, as given once and kept with a model.

What fine-tuning was told is stored in `bothways.json` under "files" and holds again for evaluate,
predict and the rest, where the same flags overrule it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bothways.config import CommonSettings
from bothways.data.detection import Format, begins_with_marks
from bothways.data.readers import Rows, read_rows


@dataclass(frozen=True)
class FileOptions:
    """How to read data files; None where nothing was said.

    Attributes:
        format: of the file; auto, and None where nothing is stored, asks its name and first lines.
        encoding: of its text; None is UTF-8.
        header: whether the first record names the columns; None means it does.
        quoting: whether double quotes enclose cells; None means they do. Where the first line has
            two marked entities (<e1>, <e2>), None means neither.
    """

    format: str | None = None
    encoding: str | None = None
    header: bool | None = None
    quoting: bool | None = None

    @classmethod
    def of(cls, common: CommonSettings) -> FileOptions:
        """What the flags of a command say."""
        return cls(common.format, common.encoding, common.header, common.quoting)

    def over(self, stored: FileOptions) -> FileOptions:
        """These options where they say something, else the stored ones."""
        given = {name: value for name, value in self.state().items() if value is not None}
        return dataclasses.replace(stored, **given)

    def rows(self, path: str | Path) -> Rows:
        """The rows of a file, read so. Raises as `read_rows`."""
        encoding = self.encoding or "utf-8"
        usual = not begins_with_marks(path, encoding=encoding)
        return read_rows(
            path,
            format=cast(Format, self.format or "auto"),
            encoding=encoding,
            header=usual if self.header is None else self.header,
            quoting=usual if self.quoting is None else self.quoting,
        )

    def state(self) -> dict[str, Any]:
        """What `bothways.json` keeps under "files"."""
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FileOptions:
        """The options that `state` described; what this version does not know is left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in state.items() if name in known})
