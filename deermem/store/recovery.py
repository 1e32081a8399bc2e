"""What the next holder of the lock does after somebody died: finish a sealed record, sweep what is left over.

Nothing but a sealed record, or the staged memory.json of a one-file commit, makes recovery due: no other file is
ever compared with the journal, so a committed fact that a person changed since is simply theirs. Recovery may be
interrupted anywhere and run again, and whatever lies below `.journal/`, the user's memory opens.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from typing import Final

from deermem.format import manifest
from deermem.format.problems import FormatError
from deermem.store.files import Files
from deermem.store.journal import (
    ABSENT,
    Record,
    encode_record,
    first_sequence,
    is_state,
    manifest_states,
    parse_journal_name,
    parse_record,
)
from deermem.store.layout import AGENTS, UserPaths
from deermem.store.lock import HeldLock
from deermem.store.refusals import in_words
from deermem.store.swap import Swapper, flush_above
from deermem.store.undo import roll_back

_log: Final = logging.getLogger("deermem")
KEPT: Final = ("record", "epoch", "turnstile")


def recover(files: Files, held: HeldLock) -> None:
    """Brings the user's files to a whole state; cheap when there is nothing to do, and done once per hold.

    Raises StoreUnavailable where the storage refuses; reads go on meanwhile, with the record overlaid.
    """
    if held.recovered:
        return
    with in_words(held.paths):
        _free_the_journal(files, held.paths)
        roll_back(files, held.paths)
        _finish_record(files, held.paths)
        _sweep(files, held.paths)
    held.recovered = True
    held.unfinished = ""


def _free_the_journal(files: Files, paths: UserPaths) -> None:
    """Something that is no folder stands at `.journal`: it would keep every write out for ever."""
    journal = str(paths.journal)
    if files.stat(journal) is not None and (os.path.islink(journal) or not os.path.isdir(journal)):
        aside = f"{journal}.set-aside-{secrets.token_hex(4)}"
        files.rename(journal, aside)
        _log.warning("%s was no folder and is now %s", journal, aside)


def _finish_record(files: Files, paths: UserPaths) -> None:
    path = str(paths.record)
    data = files.read(path)
    record = parse_record(data)
    if record is not None and record.state == "sealed":
        # A reader may have seen it, but nothing says yet that power would leave it.
        files.flush_file(path)
        Swapper(files, paths).finish(record, recovering=True)
        _log.warning("%s: finished a commit of %d files that was interrupted", paths.folder, len(record.steps))
    elif record is None and files.stat(path) is not None:
        if data:
            _set_aside(files, paths)
        elif data is None:
            files.rename(path, os.path.join(paths.journal, f"set-aside.record.{secrets.token_hex(4)}"))
        else:
            files.rewrite(path, encode_record(Record(first_sequence(), "empty")))


def _set_aside(files: Files, paths: UserPaths) -> None:
    """A record that can't be used: kept for a person, with every staged text that is whole."""
    swapper = Swapper(files, paths)
    for name in files.listdir(str(paths.journal)):
        parsed = parse_journal_name(name)
        if parsed is None or parsed.kind != "s":
            continue
        data = files.read(swapper.at(name))
        if data is not None and is_state(data, parsed.after):
            swapper.keep(name, f"{parsed.stem}.md")
    aside = f"set-aside.record.{secrets.token_hex(4)}"
    files.rename(str(paths.record), swapper.at(aside))
    files.flush_folder(str(paths.journal))
    _log.warning("%s can't be used and is set aside as %s", paths.record, aside)


def _sweep(files: Files, paths: UserPaths) -> None:
    names = _set_aside_what_is_no_file(files, paths)
    if any(name.startswith(("m.", "f.")) for name in names):
        _flush_folders(files, paths)
    if staged := [name for name in names if name.startswith("m.")]:
        _after_a_death(files, paths, staged)
    swapper = Swapper(files, paths)
    for name in names:
        if name.startswith(("t.", "f.")):
            files.unlink(swapper.at(name))
        elif name.startswith(("m.", "x.")):
            _drop_manifest(swapper, name)
        elif name.startswith(("s.", "d.")):
            _drop_journal_file(swapper, name)
    if swapper.conflicts:
        files.flush_folder(str(paths.journal))


def _set_aside_what_is_no_file(files: Files, paths: UserPaths) -> list[str]:
    """The names below `.journal/` less those of folders and links, which nothing else could get rid of."""
    kept = []
    for name in files.listdir(str(paths.journal)):
        path = os.path.join(paths.journal, name)
        status = files.stat(path)
        if status is None or name in ("record", "turnstile") or name.startswith(("conflict.", "set-aside.")):
            continue
        if stat.S_ISREG(status.st_mode):
            kept.append(name)
            continue
        files.rename(path, os.path.join(paths.journal, f"set-aside.{secrets.token_hex(4)}"))
        _log.warning("%s was no file and is set aside", path)
    return kept


def _flush_folders(files: Files, paths: UserPaths) -> None:
    """Everything that somebody who died may have made or renamed without flushing it."""
    agents = paths.folder / AGENTS
    folders = [str(paths.journal), str(agents)]
    for agent in paths.agents():
        facts = str(paths.facts(agent))
        folders += [str(paths.agent(agent)), facts, *(os.path.join(facts, name) for name in files.listdir(facts))]
    for folder in (*folders, str(paths.folder)):
        if os.path.isdir(folder) and not os.path.islink(folder):
            files.flush_folder(folder)
    flush_above(files, paths)


def _after_a_death(files: Files, paths: UserPaths, staged: list[str]) -> None:
    """A one-file commit stopped between its staging and its end: its swap may stand uncounted."""
    swapper = Swapper(files, paths)
    current = files.read(str(paths.manifest))
    if current is None:
        _adopt_first_manifest(swapper, staged)
    else:
        raised = swapper.raised(current, 0)
        if raised is not None:
            swapper.put_manifest(current, raised)
    files.flush_folder(str(paths.folder))


def _adopt_first_manifest(swapper: Swapper, staged: list[str]) -> None:
    """The very first commit died before memory.json was there: its own becomes the first one."""
    for name in staged:
        data = swapper.files.read(swapper.at(name))
        try:
            usable = data is not None and manifest.decode(data) is not None
        except FormatError:
            usable = False
        if usable:
            swapper.exchange_manifest(swapper.at(name), None)
            return


def _drop_manifest(swapper: Swapper, name: str) -> None:
    """A staged or displaced memory.json: gone, unless it holds a summary that the present one lacks."""
    data = swapper.files.read(swapper.at(name))
    if data is None:
        return
    if is_state(data, *manifest_states(name)) or swapper.is_own_manifest(data):
        swapper.files.unlink(swapper.at(name))
    else:
        swapper.keep(name, swapper.paths.manifest_name)


def _drop_journal_file(swapper: Swapper, name: str) -> None:
    """A staged or displaced fact: gone if it is what its name says, else a person's text that is kept."""
    parsed = parse_journal_name(name)
    data = swapper.files.read(swapper.at(name))
    if data is None:
        return
    ours = parsed is not None and is_state(data, parsed.before, parsed.after)
    torn_creation = parsed is not None and parsed.kind == "s" and parsed.before == ABSENT
    if ours or torn_creation:
        swapper.files.unlink(swapper.at(name))
    else:
        swapper.keep(name, f"{parsed.stem if parsed else 'file'}.md")


def conflict_copies(files: Files, paths: UserPaths) -> list[str]:
    """The names below `.journal/` that wait for a person: conflict copies and set-aside records."""
    return [name for name in files.listdir(str(paths.journal)) if name.startswith(("conflict.", "set-aside."))]


def set_aside_journals(files: Files, paths: UserPaths) -> list[str]:
    """The absolute paths of what once stood at `.journal` and was no folder."""
    prefix = f"{paths.journal.name}.set-aside-"
    return [os.path.join(paths.folder, name) for name in files.listdir(str(paths.folder)) if name.startswith(prefix)]


def leftovers(files: Files, paths: UserPaths) -> list[str]:
    """What a writer that died left behind, and the next write will sweep.

    The texts that the last commit displaced are swept with it, but their lying there says nothing of a death.
    """
    kept = ("conflict.", "set-aside.", "kept.")
    names = files.listdir(str(paths.journal))
    return [
        name
        for name in names
        if name not in KEPT
        and not name.startswith(kept)
        and not _is_displaced(files, os.path.join(paths.journal, name))
    ]


def _is_displaced(files: Files, path: str) -> bool:
    parsed = parse_journal_name(os.path.basename(path))
    data = files.read(path) if parsed is not None else None
    return parsed is not None and data is not None and is_state(data, parsed.before)
