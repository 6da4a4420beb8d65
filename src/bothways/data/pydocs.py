"""Python's own documentation as a labelled corpus that every machine with Python has.

The docstrings of the standard library's sources, each with the chapter of the library reference
that its module belongs to. Sources are parsed with `ast` and never imported. The names of modules
are taken out of the texts, since they would give the chapter away. The table of chapters is in
`pydocs_chapters.py`.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sysconfig
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bothways.data.pydocs_chapters import CHAPTER_OF, IMPLEMENTATIONS
from bothways.data.randomness import keyed_random
from bothways.errors import DataError

LEAST_WORDS = 8
LEAST_MODULES = 2
LEAST_DOCS = 30  # of a chapter; fewer say nothing about it on the smaller side of a split

# Folders of the standard library that are no part of its reference.
_LEFT_OUT = {
    "test",
    "tests",
    "site-packages",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "turtledemo",
    "__pycache__",
}


@dataclass(frozen=True)
class PyDoc:
    """A docstring.

    Attributes:
        text: it, without the names of modules.
        chapter: of the library reference.
        module: the documented module, the unit that a split keeps whole.
        name: what it documents, as "json.decoder.JSONDecoder.decode".
    """

    text: str
    chapter: str
    module: str
    name: str


def read_pydocs(
    *, limit: int | None = None, seed: int = 0, library: Path | None = None
) -> list[PyDoc]:
    """Docstrings of public modules, classes and functions, in the order of their names.

    Those of fewer than LEAST_WORDS words are left out, and so are repeated ones.

    Args:
        limit: most docstrings; a random choice where there are more.
        seed: of the choice.
        library: folder of a standard library; None is that of the running Python.

    Raises:
        DataError: when the Python comes without the sources of its library.

    Example:
        >>> {doc.chapter for doc in read_pydocs() if doc.module == "json"}
        {'internet data'}
    """
    folder = library or Path(sysconfig.get_path("stdlib"))
    docs: dict[str, PyDoc] = {}
    for path, source_name, module in sorted(_sources(folder)):
        for name, docstring in _docstrings(path):
            text = _without_modules(docstring, {module, source_name})
            if len(text.split()) >= LEAST_WORDS:
                doc = PyDoc(text, CHAPTER_OF[module], module, f"{source_name}{name}")
                docs.setdefault(text, doc)
    if not docs:
        raise DataError(
            f"{folder} holds no Python sources of the standard library; install them (on Debian "
            "and Ubuntu: libpython3-stdlib)"
        )
    found = list(docs.values())
    if limit is None or limit >= len(found):
        return found
    chosen = keyed_random(seed, use="sample").permutation(len(found))[:limit]
    return [found[index] for index in sorted(chosen.tolist())]


def split_pydocs(
    docs: Sequence[PyDoc], *, dev_share: float = 0.2, seed: int = 0
) -> tuple[list[PyDoc], list[PyDoc]]:
    """Train and dev sides without a common module, both with every chapter that is kept.

    Chapters with fewer than LEAST_MODULES modules or LEAST_DOCS docstrings are dropped. Of the
    others, modules drawn at random go to dev as long as the chapter's share there gets nearer to
    `dev_share`; where none would, the smallest one goes.

    Raises:
        DataError: when no chapter is left.
    """
    by_chapter: dict[str, Counter[str]] = defaultdict(Counter)
    for doc in docs:
        by_chapter[doc.chapter][doc.module] += 1
    random = keyed_random(seed, use="split")
    sides: dict[str, bool] = {}
    for _, modules in sorted(by_chapter.items()):
        if len(modules) < LEAST_MODULES or modules.total() < LEAST_DOCS:
            continue
        wanted = dev_share * modules.total()
        dev: set[str] = set()
        for index in random.permutation(len(modules)).tolist():
            module = sorted(modules)[index]
            if modules[module] < 2 * wanted and len(dev) + 1 < len(modules):
                dev.add(module)
                wanted -= modules[module]
        dev = dev or {min(modules, key=lambda module: (modules[module], module))}
        sides |= {module: module in dev for module in modules}
    if not sides:
        raise DataError(
            f"of {len(docs)} docstrings no chapter has {LEAST_MODULES} modules and {LEAST_DOCS} "
            "docstrings; read more of them"
        )
    kept = [doc for doc in docs if doc.module in sides]
    return (
        [doc for doc in kept if not sides[doc.module]],
        [doc for doc in kept if sides[doc.module]],
    )


def _sources(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Source files with the name of their module and that of the entry in the table."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for file in files:
            if file.endswith(".py"):
                path = Path(parent, file)
                documented = _documented_name(path.relative_to(folder))
                module = _entry(documented)
                if module is not None:
                    yield path, documented, module


def _documented_name(path: Path) -> str:
    """The dotted name that a source file's content is documented under."""
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    first, dot, rest = name.partition(".")
    return IMPLEMENTATIONS.get(first, first) + dot + rest


def _entry(name: str) -> str | None:
    """The longest start of a dotted name that is in the table."""
    while name not in CHAPTER_OF:
        name, _, last = name.rpartition(".")
        if not last or not name:
            return None
    return name


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Docstrings of a file, each with ".Class.method", "" for the module's own."""
    with tokenize.open(path) as stream:  # honours the file's own encoding line
        tree = ast.parse(stream.read())
    yield from _of_node(tree, "")


def _of_node(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> Iterator[tuple[str, str]]:
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
        yield name, inspect.cleandoc(docstring)
    if isinstance(node, ast.Module | ast.ClassDef):
        for inner in _definitions(node):
            if not inner.name.startswith("_"):
                yield from _of_node(inner, f"{name}.{inner.name}")


def _definitions(
    node: ast.AST,
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes and functions directly inside, those under `if` and `try` too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _definitions(child)


def _without_modules(text: str, own: Iterable[str]) -> str:
    """A text without its own module's names, and without other modules in front of a dot."""
    names = {part for name in own for part in [name, *name.split(".")] if part}
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    own_name = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
    text = own_name.sub("", _QUALIFIED.sub(_member, text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines()).strip()


# A dotted name; whether it starts with a module is asked of the table, which is faster than to
# search for each of its entries.
_QUALIFIED = re.compile(r"\b[a-z_][a-z_0-9]*(?:\.\w+)+")


def _member(match: re.Match[str]) -> str:
    """What a dotted name holds after the module in front: "path.join" of "os.path.join"."""
    module = _entry(match.group())
    return match.group() if module is None else match.group()[len(module) + 1 :]
