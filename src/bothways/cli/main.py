"""The command `bothways`: which commands there are, and how one is run.

`COMMANDS` names each command with the module that holds it and one line of help, so that
`bothways --help` imports nothing. To add a command, write `cli/commands/NAME.py` with

    Settings    a frozen dataclass, or the one of the public function it calls; see `arguments.py`
    run(settings: Settings) -> Output

and add its row to the table. A command is a thin layer over one public function: it loads what the
settings name, calls, and returns an `Output`. It prints nothing: results go to standard output from
here, as text or with `--json` as JSON; what a person should know meanwhile (progress, warnings) is
logged under "bothways" or drawn on standard error.

Exit codes: 0; 1 for a BothwaysError, printed as one message; 2 for wrong usage; 130 when
interrupted; 141 when the reader of a pipe has gone; 143 when told to stop. Any other error is a
defect and shows where.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TextIO

from bothways.cli.output import Output, write
from bothways.errors import BothwaysError, RunStopped, UsageError, nearest


@dataclass(frozen=True)
class Command:
    """A row of the table.

    Attributes:
        name: as typed; one or two words.
        help: one line.
    """

    name: str
    help: str

    @property
    def module(self) -> str:
        """Where its `Settings` and `run` are."""
        return "bothways.cli.commands." + self.name.replace(" ", "_").replace("-", "_")


COMMANDS: dict[str, tuple[Command, ...]] = {
    "Train and judge": (
        Command("finetune", "fine-tune an encoder on labelled data and report how good it is"),
        Command("evaluate", "score a fine-tuned model on labelled data, with intervals"),
        Command("diagnose", "ask what the score hides, and write a page that says it"),
        Command("check", "run a suite of behavioural tests, for continuous integration"),
        Command("compare", "judge two models on the same data: is one shown to be better?"),
    ),
    "Make smaller": (
        Command("choose", "find the smallest encoder that reaches a target"),
        Command("distill", "make a smaller model that does what a larger one does"),
        Command("quantize", "run a model in 8-bit integers, as far as that costs little"),
    ),
    "Use": (
        Command("predict", "run a fine-tuned model over a file"),
        Command("embed", "turn texts into vectors"),
        Command("similarity", "compare texts by the cosine of their vectors"),
        Command("fill", "guess the words behind [MASK]"),
        Command("export", "write a model as a graph for ONNX Runtime, OpenVINO or torch.export"),
    ),
    "Find": (
        Command("mine negatives", "find hard negatives for pairs or queries, to train embedders"),
        Command("mine duplicates", "find texts that say what an earlier one says"),
        Command("mine paraphrases", "find pairs of texts that say the same in other words"),
    ),
    "Pretrain": (
        Command("tokenizer train", "learn a vocabulary from raw text"),
        Command("tokenizer report", "show how a tokenizer breaks the words of a text"),
        Command("prepare", "tokenise raw text into shards, to be resumed at any time"),
        Command("pretrain", "pretrain an encoder on raw text, or go on with one"),
        Command("plan", "compute what a pretraining run will take: hours, memory, cost"),
    ),
    "Look": (
        Command("inspect", "show what a model folder holds and how it reads a text"),
        Command(
            "families", "list the supported families, with what each changes and when to prefer it"
        ),
        Command("convert", "write pytorch_model.bin anew as safetensors, without running it"),
        Command("demo", "fine-tune, judge and search on text that is already on this machine"),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: what stands after `bothways`; default: of this process.

    Returns:
        The exit code.

    Example:
        >>> main(["--version"])
        bothways 0.1.0
        0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BothwaysError as error:
        stopped = isinstance(error, RunStopped)
        sys.stderr.write(f"{'stopped' if stopped else 'error'}: {error}\n")
        return 143 if stopped else 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nobody reads on. What is still buffered must not raise again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except SystemExit as stop:
        # From the argument parser, which has printed; or from a command that was told to stop.
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        write(Output(_help()), sys.stdout, as_json=False)
        return 0
    if words[0] == "--version":
        from bothways import __version__

        write(Output(f"bothways {__version__}"), sys.stdout, as_json=False)
        return 0
    command, rest = _find(words)
    module = import_module(command.module)
    from bothways.cli.arguments import parse

    given = parse(
        module.Settings, rest, program=f"bothways {command.name}", description=_sentence(command)
    )
    _log_to(sys.stderr)
    output: Output = module.run(given.settings)
    write(output, sys.stdout, as_json=given.json)
    return output.exit_code


def _find(words: list[str]) -> tuple[Command, list[str]]:
    """The command that the first words name, and the words after it."""
    known = {command.name: command for group in COMMANDS.values() for command in group}
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in known:
            return known[name], words[count:]
    of_group = [name for name in known if name.startswith(f"{words[0]} ")]
    if of_group:
        raise UsageError(f"bothways {words[0]} is one of: {', '.join(sorted(of_group))}")
    raise UsageError(
        f"there is no command {words[0]!r}; {nearest(words[0], known)} (bothways --help lists all)"
    )


def _help() -> str:
    """The page that `bothways --help` prints."""
    width = max(len(command.name) for group in COMMANDS.values() for command in group)
    lines = ["Encoders that read both ways.", "", "usage: bothways COMMAND [FLAGS]"]
    for title, group in COMMANDS.items():
        lines += ["", title]
        lines += [f"  {command.name:<{width}}  {command.help}" for command in group]
    lines += ["", "bothways COMMAND --help shows its flags; bothways --version the version."]
    return "\n".join(lines)


def _sentence(command: Command) -> str:
    return f"{command.help[0].upper()}{command.help[1:]}."


def _log_to(stream: TextIO) -> None:
    """Show what the library logs, plainly, on standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("bothways")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
