"""The command line over a settings dataclass: flat dashed flags, `--config` and `--json`.

Defaults < recipe (`--config FILE`) < flags. Of settings that exclude each other, which a class may
list as ALTERNATIVES, a flag replaces those of a recipe; flags that may stand alone have the value
that it lists under BARE. The text of a field, in its class under
"Attributes:" or as a string below it, is the help of its flag. A list is split at commas
(`--learning-rate 2e-5,3e-5`), except where it is positional (`Annotated[tuple[str, ...],
tyro.conf.Positional]`). A flag of type bool is `--name` or `--no-name`; of type `bool | None`, it
may also be unset.

Not here: recipes themselves (`config.py`), and which commands there are (`main.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_args

from bothways.config import Leaf, build, element_of, key_of, leaves, recipe_values
from bothways.errors import UsageError, nearest

if TYPE_CHECKING:
    from tyro.constructors import PrimitiveConstructorSpec, PrimitiveTypeInfo

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Invocation(Generic[Settings]):
    """A parsed command line.

    Attributes:
        settings: what the command takes.
        json: whether results are wanted as JSON.
        config: the recipe that was read, or None.
    """

    settings: Settings
    json: bool
    config: Path | None


def parse(
    settings_type: type[Settings],
    arguments: Sequence[str],
    *,
    program: str,
    description: str,
) -> Invocation[Settings]:
    """Settings from a command line, `--config` and `--json` included.

    Args:
        settings_type: the dataclass to fill.
        arguments: what stands after the command's name.
        program: the command as typed, for messages.
        description: printed by `--help`, which exits with 0.

    Raises:
        UsageError: for a flag or a key that does not exist, with the nearest name.
        SystemExit: with 2 for a missing or malformed value, after printing it.
    """
    import tyro

    known = leaves(settings_type)
    _check_flags(arguments, known.values(), program)
    bare = getattr(settings_type, "BARE", {})
    arguments = _completed(arguments, {known[path].flag: value for path, value in bare.items()})
    recipe = _recipe_named(arguments)
    values = {} if recipe is None else recipe_values(settings_type, recipe)
    for path in _outdone(settings_type, arguments, known):
        values.pop(path, None)
    # An array of tables is for recipes: the parser sees none, and it is put back afterwards.
    arrays = {
        field.name: values.pop(key_of(field))
        for field in dataclasses.fields(settings_type)  # type: ignore[arg-type]
        if key_of(field).startswith("[") and key_of(field) in values
    }
    wrapper = dataclasses.make_dataclass(
        "Arguments",
        [
            ("settings", Annotated[settings_type, tyro.conf.arg(name="")]),
            ("json", Annotated[bool, tyro.conf.arg(help="print results as JSON.")]),
            ("config", Annotated[Path | None, tyro.conf.arg(help="a recipe (TOML); flags win.")]),
        ],
    )
    holes = {
        path: tyro.MISSING if leaf.default is dataclasses.MISSING else leaf.default
        for path, leaf in known.items()
    }
    settings = build(settings_type, holes | values, _unchecked)
    default = _unchecked(wrapper, {"settings": settings, "json": False, "config": None})
    registry = tyro.constructors.ConstructorRegistry()
    registry.primitive_rule(_list_rule)
    filled = tyro.cli(
        wrapper,
        prog=program,
        description=description,
        args=arguments,
        default=default,
        config=(
            tyro.conf.OmitArgPrefixes,
            tyro.conf.DisallowNone,
            tyro.conf.PositionalMetavarFromFieldName,
        ),
        registry=registry,
    )
    settings = dataclasses.replace(filled.settings, **arrays)
    return Invocation(settings, filled.json, filled.config)


def _completed(arguments: Sequence[str], bare: Mapping[str, str]) -> list[str]:
    """The command line in which a flag that stands alone, but need not, has its value."""
    found: list[str] = []
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=False):
        found.append(argument)
        if argument in bare and following.startswith("--"):
            found.append(bare[argument])
    return found


def _outdone(
    settings_type: type[Any], arguments: Sequence[str], known: Mapping[str, Leaf]
) -> set[str]:
    """Settings of a recipe that a flag stands instead of: steps where hours are given."""
    flags = {argument.partition("=")[0].replace("_", "-") for argument in arguments}
    return {
        path
        for group in getattr(settings_type, "ALTERNATIVES", ())
        for given in group
        if flags.intersection(known[given].flags)
        for path in group
        if path != given
    }


def _recipe_named(arguments: Sequence[str]) -> Path | None:
    """The file of `--config`, which must be read before the other flags mean anything."""
    for index, argument in enumerate(arguments):
        flag, separator, value = argument.partition("=")
        if argument == "--":
            break
        if flag == "--config" and separator:
            return Path(value)
        if flag == "--config" and index + 1 < len(arguments):
            return Path(arguments[index + 1])
    return None


def _check_flags(arguments: Sequence[str], known: Iterable[Leaf], program: str) -> None:
    """Refuse flags that do not exist, all at once."""
    flags = {flag for leaf in known for flag in leaf.flags}
    flags |= {"--config", "--json", "--no-json", "--help"}
    problems = []
    for argument in arguments:
        if argument == "--":
            break
        flag = argument.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in flags:
            problems.append(f"{program}: there is no flag {flag}; {nearest(flag, flags)}")
    if problems:
        raise UsageError("\n".join(problems))


def _list_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """How tyro reads a list: split at commas, unless it is positional."""
    from tyro.conf import Positional
    from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

    element = element_of(info.type)
    if element is None or dataclasses.is_dataclass(element):
        return None
    inner = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(element, info.markers))
    assert isinstance(inner, PrimitiveConstructorSpec), inner
    positional = bool(set(get_args(Positional[int])[1:]) & info.markers)

    def read(words: list[str]) -> tuple[Any, ...]:
        parts = words if positional else [part for word in words for part in word.split(",")]
        if not positional and not all(parts or [""]):
            told = f"an empty value in {' '.join(words)!r}" if words else "it has no value"
            raise ValueError(told)
        return tuple(inner.instance_from_str([part]) for part in parts)

    def show(values: tuple[Any, ...]) -> list[str]:
        words = [inner.str_from_instance(value)[0] for value in values]
        return (words if positional else [",".join(words)]) if words else ["None"]

    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{inner.metavar}..." if positional else f"{inner.metavar},...",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=show,
    )


def _unchecked(kind: type[Any], given: dict[str, Any]) -> Any:
    """An instance whose own checks have not run: defaults for the parser, perhaps with holes."""
    instance = object.__new__(kind)
    for name, value in given.items():
        object.__setattr__(instance, name, value)
    return instance
