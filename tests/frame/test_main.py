"""The command itself: its page of help, its exit codes, and where it writes."""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import bothways
from bothways.cli import main as command_line
from bothways.cli.main import COMMANDS, Command, main
from bothways.cli.output import Output, write
from bothways.errors import DataError, RunStopped, UsageError

# The promise of the documentation for a page of help, taken at the best of three starts.
HELP_SECONDS = 0.35


@dataclass(frozen=True)
class Settings:
    """Settings of the command below.

    Attributes:
        how: what it does.
    """

    how: str = "speak"


def run(settings: Settings) -> Output:
    """A command that speaks, logs, or ends in each way a command can."""
    if settings.how == "data":
        raise DataError("file.csv, line 3: no label")
    if settings.how == "usage":
        raise UsageError("text and label are the same column")
    if settings.how == "told":
        raise RunStopped("saved at step 7; go on with --resume")
    if settings.how == "interrupt":
        raise KeyboardInterrupt
    if settings.how == "stop":
        raise SystemExit(143)
    if settings.how == "defect":
        raise ZeroDivisionError("a defect")
    logging.getLogger("bothways.test").warning("3 texts were cut")
    return Output("score 0.5", {"score": 0.5, "low": float("nan")}, exit_code=int(settings.how))


@pytest.fixture
def speak(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real row of the table for the command above."""
    module = ModuleType("bothways.cli.commands.try_speak")
    module.__dict__.update(Settings=Settings, run=run)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "Try", (Command("try speak", "speak"), Command("try", "x")))
    logger = logging.getLogger("bothways")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.usefixtures("speak")
@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("data", 1, "error: file.csv, line 3: no label\n"),
        ("usage", 2, "error: text and label are the same column\n"),
        ("interrupt", 130, ""),
        ("told", 143, "stopped: saved at step 7; go on with --resume\n"),
        ("stop", 143, ""),
    ],
)
def test_each_way_to_end_has_its_exit_code(
    how: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", "speak", "--how", how]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == message


@pytest.mark.usefixtures("speak")
def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        main(["try", "speak", "--how", "defect"])


@pytest.mark.usefixtures("speak")
def test_results_go_to_standard_output_and_logs_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["try", "speak", "--how", "0"]) == 0
    assert capsys.readouterr() == ("score 0.5\n", "3 texts were cut\n")
    assert main(["try", "speak", "--how", "1", "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"score": 0.5, "low": None}


def test_one_page_of_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert main(arguments) == 0
        page = capsys.readouterr().out
        for group in COMMANDS.values():
            for command in group:
                assert f"  {command.name} " in page
                assert command.help in page


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bothways {bothways.__version__}\n"


def test_an_unknown_command_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["finetun", "--model", "m"]) == 2
    assert "there is no command 'finetun'; did you mean 'finetune'?" in capsys.readouterr().err


@pytest.mark.usefixtures("speak")
def test_half_of_a_command_of_two_words_lists_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "Try", (Command("try speak", "speak"), Command("try sing", "x")))
    assert main(["try", "--how", "0"]) == 2
    assert "bothways try is one of: try sing, try speak" in capsys.readouterr().err


def test_a_unknown_flag_exits_with_2(speak: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "speak", "--hwo", "0"]) == 2
    assert "there is no flag --hwo; did you mean '--how'?" in capsys.readouterr().err
    assert main(["try", "speak", "--how"]) == 2


def test_several_texts_and_objects_are_written_one_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lines() -> Iterator[str]:
        yield from ("a", "b")

    write(Output(lines()), sys.stdout, as_json=False)
    write(Output("", [{"x": "é"}, {"x": float("inf")}]), sys.stdout, as_json=True)
    write(Output("only text"), sys.stdout, as_json=True)
    assert capsys.readouterr().out == 'a\nb\n{"x": "é"}\n{"x": null}\n{"text": "only text"}\n'


def processor_seconds() -> float:
    """What ended children have computed: other programs' work does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_fast_and_imports_no_parser() -> None:
    """transformers#44273: seconds before anything is shown."""
    probe = (
        "import sys; from bothways.cli.main import main; main(['--help']); "
        "print([n for n in ('torch', 'tyro', 'numpy', 'rich') if n in sys.modules])"
    )
    seconds = []
    for _ in range(3):
        before = processor_seconds()
        done = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, check=True
        )
        seconds.append(processor_seconds() - before)
        assert done.stdout.endswith("[]\n")
    assert min(seconds) < HELP_SECONDS


def test_a_reader_that_has_gone_is_no_defect(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(
        "import sys\n"
        "from bothways.cli import main as m\n"
        "m._help = lambda: 'x' * 1_000_000\n"
        "sys.exit(m.main(['--help']))\n",
        encoding="utf-8",
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(script)], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_module_form_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bothways", "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no command 'nonsense'" in done.stderr


def test_modules_of_commands_follow_their_names() -> None:
    assert Command("tokenizer train", "x").module.endswith(".commands.tokenizer_train")
    assert Command("evaluate-search", "x").module.endswith(".commands.evaluate_search")
    assert command_line.COMMANDS is COMMANDS
