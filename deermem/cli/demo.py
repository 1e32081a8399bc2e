"""A guided tour of a minute: an old store is migrated, changed, edited by hand and searched."""

from __future__ import annotations

import io
import os
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from deermem.cli.invocation import Command, Invocation, pass_invocation
from deermem.cli.output import emit, say
from deermem.errors import DeerMemError, InvalidInput, StoreUnavailable

_SAMPLES: Final = {
    "users/ana/memory.json": "ana.json",
    "users/ana/agents/coder/memory.json": "ana-coder.json",
    "users/lin/memory.json": "lin.json",
}
_BEFORE_EDIT: Final = "周三晚上"
_AFTER_EDIT: Final = "周四晚上 (Thursday night)"


@click.command("demo", cls=Command)
@click.option("--keep", metavar="DIR", help="Build the store in this new or empty folder and leave it there.")
@pass_invocation
def demo(invocation: Invocation, keep: str | None) -> None:
    """Show in a minute what deermem does, on a sample store of its own."""
    aimed = (invocation.root, invocation.index_root, invocation.max_facts, invocation.user, invocation.agent)
    if any(given is not None for given in aimed):
        raise click.UsageError("demo has users and a store of its own; leave --root, --user, --agent and the like out")
    program = click.get_current_context().find_root().command
    if keep is not None:
        _tour(_Stage(program, _new_folder(keep), kept=True), invocation)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="deermem-demo-") as folder:
        _tour(_Stage(program, Path(folder)), invocation)
    if not invocation.json:
        say("\nThat folder was temporary and is removed now; `deermem demo --keep DIR` leaves one behind.")


def _new_folder(name: str) -> Path:
    folder = Path(os.path.abspath(name))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise StoreUnavailable(f"{folder} can't be used: {error.strerror}", hint="name a new or empty folder") from None
    if taken:
        raise InvalidInput(f"{folder} is not empty", hint="name a new or empty folder")
    return folder


@dataclass(frozen=True, slots=True)
class _Shown:
    """One thing that a step shows: a command, or what is looked at, and its output."""

    command: str
    output: str


@dataclass(slots=True)
class _Step:
    title: str
    shown: list[_Shown] = field(default_factory=list)


@dataclass(slots=True)
class _Stage:
    """Where the tour takes place. Commands run for real, against this root."""

    program: click.Command
    root: Path
    kept: bool = False
    steps: list[_Step] = field(default_factory=list)

    def step(self, title: str) -> None:
        """Begins the next step, which one sentence or two explain."""
        self.steps.append(_Step(title))

    def show(self, command: str, output: str) -> None:
        """Adds an output to the step."""
        self.steps[-1].shown.append(_Shown(command, output.rstrip("\n")))

    def run(self, *arguments: str) -> None:
        """Runs one deermem command and shows it."""
        command = shlex.join(["deermem", *arguments])
        with redirect_stdout(io.StringIO()) as captured:
            code = self.program.main(["--root", str(self.root), *arguments], "deermem", standalone_mode=False)
        if code:
            raise DeerMemError(f"the demo stops: {command} ended with {code}", hint=captured.getvalue())
        self.show(command, captured.getvalue())

    def show_files(self) -> None:
        """Shows the files that a person would look at."""
        paths = sorted(path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        seen = [path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts)]
        self.show("find users -type f -not -path '*/.*' | sort", "\n".join(seen))


def _tour(stage: _Stage, invocation: Invocation) -> None:
    steps = (_old_store, _migrated, _one_file, _changed, _edited, _found, _prompt, _whereabouts)
    if not invocation.json:
        say(f"export DEERMEM_DATA_DIR={shlex.quote(str(stage.root))}   # the store of this demo")
    for number, step in enumerate(steps, start=1):
        step(stage)
        if not invocation.json:
            _print_step(number, stage.steps[-1])
    if invocation.json:
        emit({"root": str(stage.root), "kept": stage.kept, "steps": stage.steps})


def _print_step(number: int, step: _Step) -> None:
    say(f"\n{number}. {step.title}")
    for shown in step.shown:
        say(f"\n   $ {shown.command}")
        if shown.output:
            say("\n".join(f"   {line}".rstrip() for line in shown.output.split("\n")))


def _old_store(stage: _Stage) -> None:
    from importlib.resources import files

    for place, sample in _SAMPLES.items():
        path = stage.root / place
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes((files("deermem.cli") / "demo_data" / sample).read_bytes())
    stage.step("An old store: all that is known of a user is one JSON document, and one more for each agent.")
    stage.show_files()
    place = "users/lin/memory.json"
    stage.show(f"cat {place}", (stage.root / place).read_text(encoding="utf-8"))


def _migrated(stage: _Stage) -> None:
    stage.step("Migrated: every fact is a Markdown file of its own, and each old document is kept as a backup.")
    stage.run("migrate", "--all-users")
    stage.show_files()


def _one_file(stage: _Stage) -> None:
    path = _path(stage)
    stage.step("A fact, as it lies on disk. People, editors and git can all read it.")
    stage.show(f"cat {path.relative_to(stage.root).as_posix()}", path.read_text(encoding="utf-8"))


def _changed(stage: _Stage) -> None:
    stage.step("Facts are added and updated, by agents through Python or by you through commands.")
    stage.run("--user", "ana", "add", "No meetings before eleven.", "--category", "preference", "--confidence", "0.8")
    stage.run("--user", "ana", "update", "fact_launch", "--content", "The billing service launches on 22 January.")
    stage.run("--user", "ana", "list")


def _edited(stage: _Stage) -> None:
    stage.step("You correct a fact in your editor, while programs use the store. No command, no restart.")
    path = _path(stage)
    before = path.read_text(encoding="utf-8")
    after = before.replace(_BEFORE_EDIT, _AFTER_EDIT)
    _save_as_editors_do(path, after)
    lines = [f"-{old}\n+{new}" for old, new in zip(before.split("\n"), after.split("\n"), strict=True) if old != new]
    stage.show(f'"$EDITOR" {path.relative_to(stage.root).as_posix()}', "\n".join(lines))


def _save_as_editors_do(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.swp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _found(stage: _Stage) -> None:
    stage.step("The very next search finds the edit, in English and in Chinese.")
    stage.run("--user", "lin", "search", "deployment on Thursday")
    stage.run("--user", "lin", "search", "周四晚上")


def _prompt(stage: _Stage) -> None:
    stage.step("What an agent is told: the summaries and the facts, the edit included, within a token budget.")
    stage.run("--user", "lin", "context")


def _whereabouts(stage: _Stage) -> None:
    stays = f" They stay there: try `deermem --root {shlex.quote(str(stage.root))} --user ana list`."
    stage.step(f"All of it lies in {stage.root}, as plain files.{stays if stage.kept else ''}")
    stage.run("stats")


def _path(stage: _Stage) -> Path:
    with Invocation(root=str(stage.root), user="lin").memory() as memory:
        return Path(memory.path("fact_deploy"))


COMMANDS: Final[dict[str, click.Command]] = {"demo": demo}
