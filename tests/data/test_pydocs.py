"""Python's documentation as a corpus: enough of it, labelled, without the names that tell."""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from bothways.data.pydocs import LEAST_DOCS, LEAST_WORDS, PyDoc, read_pydocs, split_pydocs
from bothways.data.pydocs_chapters import CHAPTER_OF, IMPLEMENTATIONS, MODULES_BY_CHAPTER
from bothways.errors import DataError


@pytest.fixture(scope="module")
def docs() -> list[PyDoc]:
    return read_pydocs()


def by_name(docs: list[PyDoc]) -> dict[str, PyDoc]:
    return {doc.name: doc for doc in docs}


def read_library(folder: Path, files: dict[str, str]) -> list[PyDoc]:
    """What is read of a standard library of these files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return read_pydocs(library=folder)


def test_there_are_thousands_in_more_than_twelve_chapters(docs: list[PyDoc]) -> None:
    assert len(docs) > 3000
    assert len({doc.module for doc in docs}) > 140
    chapters = Counter(doc.chapter for doc in docs)
    assert sum(count >= LEAST_DOCS for count in chapters.values()) >= 16


def test_texts_are_long_enough_and_stand_once(docs: list[PyDoc]) -> None:
    assert all(len(doc.text.split()) >= LEAST_WORDS for doc in docs)
    assert len({doc.text for doc in docs}) == len(docs)
    assert len({doc.name for doc in docs}) > 0.99 * len(docs)


def test_labels_come_from_the_table(docs: list[PyDoc]) -> None:
    assert all(doc.chapter == CHAPTER_OF[doc.module] for doc in docs)
    named = by_name(docs)
    assert named["json.decoder.JSONDecoder"].module == "json"
    assert named["json.decoder.JSONDecoder"].chapter == "internet data"
    assert named["textwrap.wrap"].chapter == "text processing"
    assert named["os.path.commonprefix"].chapter == "files and directories"
    # Longest entry wins: unittest.mock and unittest are documented apart.
    assert named["unittest.mock.Mock"].module == "unittest.mock"


def test_every_module_is_in_one_chapter_and_there() -> None:
    listed = [module for names in MODULES_BY_CHAPTER.values() for module in names.split()]
    assert len(listed) == len(set(listed)) == len(CHAPTER_OF) >= 150
    assert set(IMPLEMENTATIONS.values()) <= set(CHAPTER_OF)
    folder = Path(sysconfig.get_path("stdlib"))
    newer = {"annotationlib", "concurrent.interpreters", "compression"}
    homes = {
        module
        for module in CHAPTER_OF
        for path in (folder / module.replace(".", "/"),)
        if path.is_dir() or path.with_suffix(".py").exists()
    }
    absent = set(CHAPTER_OF) - homes - newer - {"os.path"}
    # Some systems pack parts of the library apart.
    assert absent <= {"tkinter", "turtle", "ensurepip", "venv"}


def test_names_of_modules_are_taken_out(docs: list[PyDoc]) -> None:
    for doc in docs:
        words = set(doc.text.replace(".", " ").replace("`", " ").split())
        assert doc.module.rpartition(".")[2] not in words
        assert doc.module not in doc.text.split()


def test_stripping_leaves_the_rest(tmp_path: Path) -> None:
    text = '''"""Use json with os.path.join and json.tool: jsonable JSON stays.

  Indented\ttext of `json`, one.two, shutil.copy and ast."""
'''
    (doc,) = read_library(tmp_path, {"json/__init__.py": text})
    assert (doc.chapter, doc.module, doc.name) == ("internet data", "json", "json")
    assert doc.text == (
        "Use with join and tool: jsonable JSON stays.\n\n"
        "Indented text of ``, one.two, copy and ast."
    )


def test_what_is_read_and_what_is_not(tmp_path: Path) -> None:
    words = "one two three four five six seven eight"
    source = f'''
if True:
    try:
        class Public:
            """class {words}"""
            def method(self):
                """method {words}"""
                def inner():
                    """inner {words}"""
            def _private(self):
                """private {words}"""
            async def later(self):
                """later {words}"""
    except ImportError:
        def fallback():
            """fallback {words}"""
class _Hidden:
    def method(self):
        """hidden {words}"""
def again():
    """method {words}"""
def short():
    """one two three four five six seven"""
raise SystemExit("never imported")
'''
    files = {
        "shlex.py": source,
        "test/shlex.py": f'"""test {words}"""',
        "unknown.py": f'"""unknown {words}"""',
        "_pydatetime.py": f'"""dates {words}"""',
        "email/_policybase.py": f'"""policy {words}"""',
        "json/data.txt": f'"""no source {words}"""',
    }
    docs = read_library(tmp_path, files)
    assert {doc.name: (doc.module, doc.text.split()[0]) for doc in docs} == {
        "datetime": ("datetime", "dates"),
        "email._policybase": ("email", "policy"),
        "shlex.Public": ("shlex", "class"),
        "shlex.Public.method": ("shlex", "method"),
        "shlex.Public.later": ("shlex", "later"),
        "shlex.fallback": ("shlex", "fallback"),
    }


def test_encodings_of_sources_are_honoured(tmp_path: Path) -> None:
    source = '# coding: latin-1\n"""caf\xe9 two three four five six seven eight"""\n'
    (tmp_path / "shlex.py").write_bytes(source.encode("latin-1"))
    assert read_pydocs(library=tmp_path)[0].text.startswith("café")


def test_no_module_is_imported() -> None:
    code = (
        "import sys; from bothways.data.pydocs import read_pydocs; before = set(sys.modules);"
        "docs = read_pydocs(); new = set(sys.modules) - before;"
        "assert len(docs) > 3000; assert 'turtle' not in sys.modules; print(len(new))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    # tokenize's codecs may come in, the documented modules do not.
    assert int(done.stdout) < 5


def test_a_limit_draws_by_seed(tmp_path: Path) -> None:
    one = 'def f{}():\n    """text {} two three four five six seven"""\n'
    files = {"json.py": "".join(one.format(number, number) for number in range(100))}
    docs = read_library(tmp_path, files)
    drawn = read_pydocs(library=tmp_path, limit=30, seed=4)
    assert len(drawn) == 30
    assert drawn == read_pydocs(library=tmp_path, limit=30, seed=4)
    assert drawn != read_pydocs(library=tmp_path, limit=30, seed=5)
    assert drawn == [doc for doc in docs if doc in drawn]


def test_a_limit_above_what_there_is_changes_nothing(tmp_path: Path) -> None:
    files = {"json.py": '"""a b c d e f g h"""', "csv.py": '"""i j k l m n o p q"""'}
    docs = read_library(tmp_path, files)
    assert [doc.module for doc in docs] == ["csv", "json"]
    assert read_pydocs(library=tmp_path, limit=3) == docs


@pytest.mark.parametrize("seed", range(4))
def test_no_module_is_on_both_sides_and_both_have_every_chapter(
    docs: list[PyDoc], seed: int
) -> None:
    train, dev = split_pydocs(docs, dev_share=0.2, seed=seed)
    assert not {doc.module for doc in train} & {doc.module for doc in dev}
    chapters = {doc.chapter for doc in train}
    assert chapters == {doc.chapter for doc in dev}
    assert 12 <= len(chapters) <= 18
    counts = Counter(doc.chapter for doc in docs)
    # Only the chapters that are too small are dropped.
    assert set(counts) - chapters == {name for name in counts if counts[name] < LEAST_DOCS}
    assert len(train) + len(dev) == sum(counts[name] for name in chapters)
    # Whole modules cannot meet the share exactly; the largest of the library has 520 docstrings.
    assert 0.12 < len(dev) / (len(train) + len(dev)) < 0.28


def test_the_split_of_a_limited_draw_works_too(docs: list[PyDoc]) -> None:
    train, dev = split_pydocs(read_pydocs(limit=2500))
    assert {doc.chapter for doc in train} == {doc.chapter for doc in dev}
    assert len({doc.chapter for doc in train}) >= 12


def test_a_split_is_a_function_of_the_seed(docs: list[PyDoc]) -> None:
    assert split_pydocs(docs, seed=1) == split_pydocs(docs, seed=1)
    assert split_pydocs(docs, seed=1) != split_pydocs(docs, seed=2)


def test_chapters_that_cannot_be_split_are_dropped() -> None:
    many = [PyDoc(f"text {number}", "a", f"m{number % 2}", "") for number in range(LEAST_DOCS)]
    one_module = [PyDoc(f"text {number}", "b", "only", "") for number in range(100)]
    few = [PyDoc(f"text {number}", "c", f"n{number}", "") for number in range(LEAST_DOCS - 1)]
    train, dev = split_pydocs([*many, *one_module, *few])
    # Neither of the two equal modules is near a fifth; one of them must go all the same.
    assert {doc.chapter for doc in train + dev} == {"a"}
    assert len(train) == len(dev) == LEAST_DOCS // 2
    # And one of them stays, however large the share.
    assert all(split_pydocs(many, dev_share=0.9))
    with pytest.raises(DataError, match="no chapter has 2 modules"):
        split_pydocs(one_module + few)


def test_a_python_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no Python sources"):
        read_pydocs(library=tmp_path)


def test_docstrings_are_those_that_python_itself_finds(docs: list[PyDoc]) -> None:
    source = (Path(sysconfig.get_path("stdlib")) / "textwrap.py").read_text(encoding="utf-8")
    own = {
        f"textwrap.{node.name}"
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
    }
    assert own
    assert own <= set(by_name(docs))
