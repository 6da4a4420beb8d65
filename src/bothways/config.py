"""Settings: frozen dataclasses filled from their defaults and a TOML recipe, and written as one.

A command's settings are one dataclass. A field that is itself a dataclass is a table of the recipe:
field `learning_rate` of field `optim` is `learning_rate` in `[optim]` and `--learning-rate` on the
command line, where all flags are flat. Leaves are bool, int, float, str, Path, a Literal, a union
of these, None, and tuples of them of any length. What may be absent has the default None; in a
recipe it is left out. A single value stands for a list of one. A tuple of dataclasses is an array
of tables (`[[task]]`, by `metadata={"key": "[task]"}`), each flat, its keys named as flags are.

Not here: the command line over the same dataclasses (`cli/arguments.py`), and what the settings
are: each dataclass stands with the function that takes it, but for those that all have in common.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from bothways.errors import ConfigError, UsageError, nearest

Settings = TypeVar("Settings")
TableFormat = Literal["csv", "tsv", "jsonl", "parquet", "label-text", "lines"]
FileFormat = Literal["auto", TableFormat, "conll", "conllu", "squad", "smart"]

_ABSENT: Any = dataclasses.MISSING


@dataclass(frozen=True)
class CommonSettings:
    """What commands that run a model over data have in common.

    Attributes:
        seed: what order, masks, dropout and samples are functions of.
        device: cpu, cuda, cuda:1 or mps; unset: the best there is.
        precision: number format of the computation; auto: what suits the device.
        threads: processor threads; unset: one a core.
        batch_tokens: most tokens of one batch; unset: what suits the device.
        max_length: most tokens of a text, special ones included; unset: what the model says.
        policy: what is kept of a text that is longer; unset: as in training, else head.
        overlap: tokens that neighbouring windows of a text share; unset: a quarter of a window.
        encoding: of the characters of data files; unset: as in training, else utf-8.
        format: of data files; unset: as in training, else auto: by the file's name and content.
        header: whether the first line names the columns; else they are numbers from 1.
        quoting: whether quotes enclose cells that hold separators and line ends.
    """

    seed: int = 0
    device: str | None = None
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    threads: int | None = None
    batch_tokens: int | None = None
    max_length: int | None = None
    policy: Literal["head", "tail", "head+tail", "windows"] | None = None
    overlap: int | None = None
    encoding: str | None = None
    format: FileFormat | None = None
    header: bool | None = None
    quoting: bool | None = None


@dataclass(frozen=True)
class Leaf:
    """A setting that is not a table.

    Attributes:
        path: its key in a recipe, `optim.learning_rate`.
        hint: its type.
        default: its value where nothing is said; dataclasses.MISSING for none.
    """

    path: str
    hint: Any
    default: Any

    @property
    def tables(self) -> Any | None:
        """The dataclass of each table, where it is an array of them."""
        element = element_of(self.hint)
        return element if dataclasses.is_dataclass(element) else None

    @property
    def name(self) -> str:
        """Its key in its table."""
        return self.path.rpartition(".")[2]

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """All spellings of its flag; those that are on or off also begin with `--no-`."""
        if self.tables is not None:
            return ()
        if bool in _members(self.hint):
            return (self.flag, "--no-" + self.flag.removeprefix("--"))
        return (self.flag,)


def leaves(settings_type: type[Any]) -> dict[str, Leaf]:
    """All settings of a dataclass and of the dataclasses inside it, by key path.

    Raises:
        ConfigError: when a field has a type that no recipe can hold, may be None but has another
            default, or shares its flag with another field; all such fields are named.
    """
    found = {leaf.path: leaf for leaf in _leaves(settings_type, _ABSENT, "")}
    owners: dict[str, list[str]] = {}
    problems = []
    for leaf in found.values():
        for flag in leaf.flags:
            owners.setdefault(flag, []).append(leaf.path)
        members = () if leaf.tables else _members(element_of(leaf.hint) or leaf.hint)
        if not all(map(_is_scalar, members)):
            problems.append(f"{leaf.path} has type {leaf.hint}, which no recipe can hold")
        if type(None) in _members(leaf.hint) and leaf.default is not None:
            problems.append(f"{leaf.path} may be None, so its default must be None")
    problems += [f"{' and '.join(p)} share {flag}" for flag, p in owners.items() if len(p) > 1]
    if problems:
        raise ConfigError(f"{settings_type.__name__}: " + "; ".join(problems))
    return found


def read_recipe(settings_type: type[Settings], path: Path | str) -> Settings:
    """Settings from a TOML file alone.

    Raises:
        UsageError: when the file cannot be read, names what does not exist, holds a value of the
            wrong kind, or leaves out what must be given.

    Example:
        >>> settings = read_recipe(CommonSettings, "recipe.toml")
    """
    values = recipe_values(settings_type, Path(path))
    values = {key: leaf.default for key, leaf in leaves(settings_type).items()} | values
    missing = [key for key, value in values.items() if value is _ABSENT]
    if missing:
        raise UsageError(f"{path} must also give {', '.join(missing)}, which have no default")
    filled: Settings = build(settings_type, values, lambda kind, given: kind(**given))
    return filled


def to_toml(settings: Any) -> str:
    """A recipe that gives these settings again.

    What is None is left out, since that is what its absence means.

    Example:
        >>> print(to_toml(CommonSettings(seed=7, policy="tail")), end="")
        seed = 7
        precision = "auto"
        policy = "tail"
    """
    return "\n".join(_toml_lines(settings, ())) + "\n"


# --- reading ----------------------------------------------------------------------------------


def recipe_values(settings_type: type[Any], path: Path) -> dict[str, Any]:
    """What a recipe says, by key path, each value of its field's type.

    Raises:
        UsageError: when the file cannot be read, names what does not exist or holds a value of the
            wrong kind; all problems at once, each with file, key path and the nearest name.
    """
    problems: list[str] = []
    values = _values(_toml(path), leaves(settings_type), "", problems)
    if problems:
        raise UsageError("\n".join(f"{path}: {problem}" for problem in problems))
    return values


def _values(
    entries: Mapping[str, Any], known: Mapping[str, Leaf], prefix: str, problems: list[str]
) -> dict[str, Any]:
    """The values of a table and of the tables inside it, by key path; problems are added.

    Args:
        entries: of the table.
        known: every setting, by the name that it has from the root on.
        prefix: name of the table, with a point at its end.
        problems: so far.
    """
    tables = {name.rpartition(".")[0] for name in known} - {""}
    values: dict[str, Any] = {}
    for key, value in entries.items():
        name = f"{prefix}{key}"
        array = known.get(f"[{name}]")
        if array is not None and isinstance(value, list):
            values[array.path] = tuple(
                _one_table(array.tables, entry, f"{name} {number}: ", problems)
                for number, entry in enumerate(value, 1)
            )
        elif name in known:
            leaf = known[name]
            try:
                values[leaf.path] = _convert(value, leaf.hint)
            except ValueError:
                problems.append(f"{name} is {value!r}; expected {_spoken(leaf.hint)}")
        elif name in tables and isinstance(value, Mapping):
            values |= _values(value, known, f"{name}.", problems)
        elif name in tables:
            problems.append(f"{name} is {value!r}; expected a table, [{name}]")
        else:
            problems.append(f"there is no setting {name}; {nearest(name, [*known, *tables])}")
    return values


def _one_table(kind: Any, entry: Any, place: str, problems: list[str]) -> Any:
    """A dataclass from a table of an array; None where something is wrong with it."""
    found: list[str] = []
    known = {leaf.name: leaf for leaf in leaves(kind).values()}
    if isinstance(entry, Mapping):
        given = {leaf.path: leaf.default for leaf in known.values()}
        given |= _values(entry, known, "", found)
        found += [f"{key} is missing" for key, value in given.items() if value is _ABSENT]
    else:
        found.append(f"{entry!r} is no table")
    problems += [place + problem for problem in found]
    return None if found else build(kind, given, lambda made, fields: made(**fields))


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read the recipe {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error


def _convert(value: Any, hint: Any) -> Any:
    """A TOML value as the type of its field; ValueError where it is something else."""
    element = element_of(hint)
    if element is not None:
        values = value if isinstance(value, list) else [value]
        return tuple(_convert(member, element) for member in values)
    for member in _members(hint):
        if get_origin(member) is Literal and value in get_args(member):
            return value
        if member is float and type(value) in (int, float):
            return float(value)
        if member is Path and type(value) is str:
            return Path(value)
        if type(value) is member:
            return value
    raise ValueError(value)


# --- building ---------------------------------------------------------------------------------


def _fields(settings_type: type[Any]) -> Iterable[tuple[dataclasses.Field[Any], Any]]:
    """The fields of a dataclass, each with its type, annotations taken off."""
    hints = get_type_hints(settings_type)
    return [(field, hints[field.name]) for field in dataclasses.fields(settings_type) if field.init]


def key_of(field: dataclasses.Field[Any]) -> str:
    """What a field is called in a recipe: `from_`, whose name Python has taken, is `from`.

    Metadata may say another name; an array of tables has the one in its brackets.
    """
    return str(field.metadata.get("key", field.name.removesuffix("_")))


def _leaves(settings_type: type[Any], owner: Any, prefix: str) -> Iterator[Leaf]:
    """The leaves below a dataclass; their defaults come from `owner`, an instance, if given."""
    for field, hint in _fields(settings_type):
        path = f"{prefix}{key_of(field)}"
        if owner is not _ABSENT:
            default = getattr(owner, field.name)
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        if dataclasses.is_dataclass(hint):
            yield from _leaves(cast("type[Any]", hint), default, f"{path}.")
        else:
            yield Leaf(path, hint, default)


def build(
    settings_type: type[Any],
    values: Mapping[str, Any],
    make: Callable[[type[Any], dict[str, Any]], Any],
    prefix: str = "",
) -> Any:
    """An instance made of values by key path.

    Args:
        settings_type: the dataclass at the root.
        values: a value for every leaf.
        make: makes each dataclass of the tree from its fields.
        prefix: key path of the root, with a point at its end.
    """
    given = {}
    for field, hint in _fields(settings_type):
        path = f"{prefix}{key_of(field)}"
        table = dataclasses.is_dataclass(hint)
        given[field.name] = build(hint, values, make, f"{path}.") if table else values[path]
    return make(settings_type, given)


# --- types ------------------------------------------------------------------------------------


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def element_of(hint: Any) -> Any | None:
    """The type of what a `tuple[X, ...]` holds; None for every other type."""
    arguments = get_args(hint)
    is_list = get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis
    return arguments[0] if is_list else None


def _is_scalar(hint: Any) -> bool:
    return hint in (bool, int, float, str, Path, type(None)) or get_origin(hint) is Literal


def _spoken(hint: Any) -> str:
    """A type in words."""
    element = element_of(hint)
    if element is not None:
        return f"a list, each {_spoken(element)}"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    spoken = []
    for member in _members(hint):
        if get_origin(member) is Literal:
            spoken.append(f"one of {', '.join(map(repr, get_args(member)))}")
        elif member is not type(None):
            spoken.append(words.get(member, "a path"))
    return " or ".join(spoken)


# --- writing ----------------------------------------------------------------------------------


def _toml_lines(settings: Any, path: tuple[str, ...]) -> list[str]:
    """Lines of a table and of the tables inside it, which TOML wants last."""
    plain, tables = dict[str, str](), list[str]()
    for field in dataclasses.fields(settings):
        value, key = getattr(settings, field.name), key_of(field)
        if dataclasses.is_dataclass(value):
            inner = (*path, key)
            tables += ["", f"[{'.'.join(inner)}]", *_toml_lines(value, inner)]
        elif key.startswith("["):
            for each in value:
                tables += ["", f"[{key}]", *_flat_lines(each)]
                plain.pop(key.strip("[]"), None)  # the array has taken its name
        elif value is not None:
            plain[key] = f"{key} = {_toml_value(value)}"
    return [*plain.values(), *tables]


def _flat_lines(table: Any) -> list[str]:
    """Lines of a table of an array: what is not as usual."""
    lines = []
    for leaf in leaves(type(table)).values():
        value: Any = table
        for name in leaf.path.split("."):
            value = getattr(value, name)
        if value != leaf.default:
            lines.append(f"{leaf.name} = {_toml_value(value)}")
    return lines


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str | Path):
        # JSON's escapes are TOML's too, but for the one control character that JSON lets stand.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
