"""docs/cli.md and docs/python.md say everything there is, and their examples run."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

import deermem
from deermem import DeerMem, DeerMemError, Memory, Settings
from deermem.cli.invocation import Invocation
from deermem.cli.main import program

DOCS = Path(__file__).resolve().parents[2] / "docs"
MARKED = re.compile(r"<!-- tested -->\n```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def cli_page() -> str:
    return (DOCS / "cli.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def python_page() -> str:
    return (DOCS / "python.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, click.Command]]:
    for name, command in program.commands.items():
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in command.commands.items())


def options(command: click.Command) -> set[str]:
    """Every spelling of a command's own options."""
    own = [item for item in command.params if isinstance(item, click.Option)]
    return {name for option in own for name in option.opts}


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


def test_every_command_has_a_section_with_an_example(cli_page):
    for name, command in program.commands.items():
        if name == "doctor":
            assert "`doctor`" in section(cli_page, "check")
        else:
            examples = re.findall(r"^deermem .*$", section(cli_page, name), re.MULTILINE)
            assert any(name in shlex.split(line, comments=True) for line in examples), name
        assert command.help


def test_every_option_is_named_where_its_command_is(cli_page):
    for name, command in commands():
        text = section(cli_page, "check" if name == "doctor" else name.split()[0])
        assert [option for option in sorted(options(command)) if f"`{option}" not in text] == [], name


def test_every_option_of_all_commands_is_in_the_table(cli_page):
    table = section(cli_page, "Options of every command")
    context = click.Context(program, obj=Invocation())
    shared = {name for item in program.get_params(context) for name in item.opts if name.startswith("--")}
    assert shared >= {"--root", "--index-root", "--max-facts", "--user", "--agent", "--json", "--version"}
    assert [option for option in sorted(shared) if f"`{option}" not in table] == []


def test_no_example_names_an_option_that_is_not_there(cli_page):
    known = {name for _, command in commands() for name in options(command)}
    known |= {name for item in program.get_params(click.Context(program, obj=Invocation())) for name in item.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", cli_page))
    assert named - known <= {"--help"}


def test_every_example_is_a_call_that_can_be_parsed(cli_page):
    lines = re.findall(r"^(?:.*`)?(deermem (?:-|[a-z]).*?)(?:`.*)?$", cli_page, re.MULTILINE)
    assert len(lines) > 20
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        place = next(number for number, word in enumerate(words) if word in program.commands)
        program.make_context("deermem", words[: place + 1], obj=Invocation())
        command = program.commands[words[place]]
        context = command.make_context(words[place], words[place + 1 :], obj=Invocation())
        assert isinstance(command, click.Group) or context.args == [], line


def test_every_exit_code_and_variable_is_named(cli_page):
    text = section(cli_page, "Exit codes, output, environment")
    codes = {str(error.exit_code) for error in (DeerMemError, *DeerMemError.__subclasses__())} | {"0", "130"}
    assert set(re.findall(r"^\| (\d+) \|", text, re.MULTILINE)) == codes
    sources = Path(deermem.__file__).parent.rglob("*.py")
    read = {name for file in sources for name in re.findall(r'"(DEERMEM_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    assert read == {"DEERMEM_DATA_DIR", "DEERMEM_MAX_FACTS", "DEERMEM_MODEL", "DEERMEM_SETTINGS", "DEERMEM_DEBUG"}
    assert [name for name in sorted(read) if f"`{name}`" not in text] == []


def public(owner: type) -> list[str]:
    return [name for name in vars(owner) if not name.startswith("_")]


@pytest.mark.parametrize(("owner", "heading"), [(DeerMem, "DeerMem"), (Memory, "Memory")], ids=["DeerMem", "Memory"])
def test_every_public_method_is_named_with_its_parameters(python_page, owner, heading):
    text = section(python_page, heading)
    for name in public(owner):
        member = vars(owner)[name]
        if isinstance(member, property):
            assert f"`{name}`" in text
            continue
        called = re.search(rf"`{name}\(([^)]*(?:\(\))?[^)]*)\)`", text)
        assert called is not None, name
        parameters = [item for item in inspect.signature(member).parameters.values() if item.name != "self"]
        assert [item.name for item in parameters if not names(called[1], item)] == [], name


def names(call: str, parameter: inspect.Parameter) -> bool:
    """Whether a documented call has this parameter, with its default."""
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return "**filters" in call
    if parameter.default is inspect.Parameter.empty:
        return parameter.name in re.split(r"[,\s]+", call)
    return f"{parameter.name}={parameter.default!r}".replace("'", '"') in call


def test_every_setting_is_named_with_its_default(python_page):
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S.*?) \| ", section(python_page, "Settings"), re.MULTILINE))
    assert list(rows) == [item.name for item in fields(Settings)]
    for item in fields(Settings):
        default = getattr(Settings(), item.name)
        shown = f"{default:g}" if type(default) in (int, float) else str(default).replace("'", '"')
        assert rows[item.name].strip("`") == shown
    for name in ("from_mapping", "from_environment", "resolved_root"):
        assert f"{name}(" in section(python_page, "Settings")


def test_the_readme_links_every_page():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if f"(docs/{page.name})" not in readme] == []


def test_every_error_is_named(python_page):
    text = section(python_page, "Errors")
    everything = {name: getattr(deermem, name) for name in deermem.__all__}
    kinds = [name for name, item in everything.items() if isinstance(item, type) and issubclass(item, DeerMemError)]
    assert len(kinds) > 10
    assert [name for name in kinds if f"`{name}`" not in text] == []


@pytest.mark.parametrize("number", range(5))
def test_the_python_examples_run(tmp_path, python_page, number):
    examples = MARKED.findall(python_page)
    assert len(examples) == 5
    path = str(Path(deermem.__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", examples[number]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
