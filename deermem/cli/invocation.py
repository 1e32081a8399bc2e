"""What one call is aimed at (root, user, agent), and the options that say so before or after any command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from deermem.cli.output import put
from deermem.errors import FactNotFound

if TYPE_CHECKING:
    from deermem.engine import DeerMem
    from deermem.extract.hooks import Hooks
    from deermem.memory import Memory


@dataclass(slots=True)
class Invocation:
    """Filled while the options are parsed.

    `root` None is the default root, `user` None the no-user root; `index_root` None keeps the index in the store,
    `max_facts` None is the environment's cap or else the default one.
    """

    root: str | None = None
    index_root: str | None = None
    max_facts: int | None = None
    user: str | None = None
    agent: str | None = None
    json: bool = False

    @contextmanager
    def engine(self, hooks: Hooks | None = None, **more: object) -> Iterator[DeerMem]:
        """The engine over the root, closed at the end; `more` are further settings."""
        from deermem.cli.missing import missing, missing_option
        from deermem.config import Settings
        from deermem.engine import DeerMem

        if self.index_root is not None:
            _check_index_root(Path(self.index_root).expanduser().absolute())
        settings = Settings.from_environment(index_root=self.index_root, max_facts=self.max_facts, **more)
        with DeerMem(self.root, settings, hooks=hooks) as engine:
            try:
                yield engine
            except FactNotFound as error:
                error.hint = missing(self, engine) or missing_option(self, engine) or error.hint
                raise

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """The memory of the user and agent that the options name."""
        with self.engine() as engine:
            yield self.handle(engine)

    def handle(self, engine: DeerMem) -> Memory:
        """The same, on an engine that is open."""
        return engine.memory(user_id=self.user, agent_name=self.agent)

    def refuse_agent(self, why: str) -> None:
        """Raises a usage error where `--agent` would be ignored."""
        if self.agent is not None:
            raise click.UsageError(f"--agent does not go with this command; {why}")


def _check_index_root(folder: Path) -> None:
    """An engine searches the files where it can't have its index there; a person who names a file should be told."""
    for place in (folder, *folder.parents):
        if place.is_dir():
            return
        if place.exists():
            raise click.UsageError(f"--index-root {folder} can't be a folder: {place} is a file; give a folder")


pass_invocation: Final = click.make_pass_decorator(Invocation, ensure=True)


def _aim(context: click.Context, parameter: click.Parameter, value: str | int | bool | None) -> None:
    if value is None or value is False:
        return
    if value == "":
        raise click.BadParameter("it is empty; give a value or leave the option out", context, parameter)
    assert parameter.name is not None
    setattr(context.ensure_object(Invocation), parameter.name, value)


def _option(name: str, metavar: str | None, text: str, kind: type[str | int] = str) -> click.Option:
    flag = metavar is None
    return click.Option(
        [name],
        # Said to be no flag, click would take one without its value for not given: another memory than was meant.
        is_flag=flag or None,
        type=bool if flag else kind,
        metavar=metavar,
        help=text,
        expose_value=False,
        callback=_aim,
    )


_AIM: Final = (
    _option("--root", "DIR", "The store; else $DEERMEM_DATA_DIR, else ~/.deermem."),
    _option("--index-root", "DIR", "Where the search index is kept; else inside the store."),
    _option(
        "--max-facts",
        "N",
        "How many facts an agent may have; 0: no limit; else $DEERMEM_MAX_FACTS, $DEERMEM_SETTINGS, 100.",
        int,
    ),
    _option("--user", "ID", "Whose memory; without it the no-user root."),
    _option("--agent", "NAME", "Which agent's facts; without it the default ones."),
    _option("--json", None, "Print one JSON document and nothing else on standard output; --help stays text."),
)


def _show_help(context: click.Context, _: click.Parameter, value: bool) -> None:
    """click's own would print past `put`, and a full disk would be an error of nobody knows what."""
    if value and not context.resilient_parsing:
        put(context.get_help())
        context.exit()


class Command(click.Command):
    """A command that takes the aiming options too."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence: the list of commands wraps it, and click's own would end it in dots."""
        return super().get_short_help_str(max(limit, 1000))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then the aiming ones."""
        return [*super().get_params(ctx), *_AIM]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """`--help`, printed as every other answer."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


class Group(click.Group):
    """A group whose commands, and which itself, take the aiming options."""

    command_class = Command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The group's own parameters, then the aiming ones."""
        return [*super().get_params(ctx), *_AIM]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """`--help`, printed as every other answer."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option
