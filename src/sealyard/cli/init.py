"""`sealyard init`: make one `sealyard.toml` from the servers of MCP clients, and let clients use sealyard alone."""

import sys
from pathlib import Path
from typing import Any

import click

from sealyard.cli import own_command
from sealyard.cli.command import JSON, wants_json
from sealyard.cli.terminal import columns, plain, remark, say_unwrapped, screen, visible, write, write_json
from sealyard.config import Machine, load_config, read_machine
from sealyard.config.clients import CLIENTS, Change, Gateway, find_servers, plan_apply, plan_config, plan_undo
from sealyard.errors import InvalidRequest


@click.command()
@click.option(
    "--output", type=click.Path(path_type=Path), default="sealyard.toml", show_default=True, help="Write here."
)
@click.option("--force", is_flag=True, help="Change an existing file.")
@click.option(
    "--apply",
    "clients",
    multiple=True,
    type=click.Choice(list(CLIENTS)),
    help="Let this client use sealyard alone. Repeatable. With --undo: undo only for this one.",
)
@click.option(
    "--url", help="With --apply: let the client use the gateway at this address, such as http://host:8321/mcp."
)
@click.option("--token-env", metavar="NAME", help="With --url: the variable in which the client finds its token.")
@click.option("--undo", is_flag=True, help="Put back the files that --apply changed.")
@click.option("--yes", is_flag=True, help="Change clients' files without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@JSON
def init(
    *,
    output: Path,
    force: bool,
    clients: tuple[str, ...],
    url: str | None,
    token_env: str | None,
    undo: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Make a sealyard.toml from your MCP clients.

    Looks for the servers that Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini CLI, opencode and Windsurf
    have, here and in your home. Their own files are changed only with --apply, and --undo puts them back. Exit code 0:
    done; 1: there was nothing to do it with, or you said no; 2: it could not be done.
    """
    if output.suffix != ".toml":
        raise InvalidRequest(f"--output is {str(output)!r}. Give a name that ends with .toml.")
    machine = read_machine()
    session = _Session(yes=yes, dry_run=dry_run)
    if url is not None and (undo or not clients):
        raise InvalidRequest("--url is for the clients that --apply names. Give --apply with it, and not --undo.")
    if token_env is not None and url is None:
        raise InvalidRequest("--token-env is for a gateway at an address. Give its --url too.")
    command = (*own_command(), "serve", str(machine.directory / output))
    gateway = Gateway(command=command, url=url, variable=token_env)
    if (clients or undo) and not (yes or dry_run) and not session.can_ask:
        raise InvalidRequest("There is no terminal to ask on before a client's file changes. Give --yes, or --dry-run.")
    if undo:
        done = _undo(clients or tuple(CLIENTS), machine, session)
    else:
        done = _make(machine, session, gateway, output=machine.directory / output, force=force, clients=clients)
    session.finish()
    return 0 if done else 1


class _Session:
    """Talks to a person, or gathers the answer for a program."""

    def __init__(self, *, yes: bool, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.can_ask = sys.stdin is not None and sys.stdin.isatty() and not wants_json()
        self._yes = yes
        self._answer: dict[str, Any] = {
            "dry_run": dry_run,
            "servers": [],
            "notes": [],
            "diffs": [],
            "written": None,
            "changed": [],
        }

    def say(self, text: str, style: str = "") -> None:
        if not wants_json():
            say_unwrapped(text, style)

    def note(self, text: str) -> None:
        self._answer["notes"].append(text)
        if not wants_json():
            remark(f"note: {text}", "yellow")

    def show_servers(self, servers: list[dict[str, str]], problems: list[str]) -> None:
        self._answer["servers"] += servers
        table = columns("client", "file", "server", "transport", "how it starts")
        for each in servers:
            table.add_row(*map(plain, (each | {"client": CLIENTS[each["client"]].title}).values()))
        if not wants_json() and servers:
            screen.print(table, "")
        for problem in problems:
            self.note(problem)

    def show_diff(self, change: Change) -> None:
        diff = change.diff()
        self._answer["diffs"].append({"file": str(change.path), "diff": diff})
        if not wants_json():
            write(visible(diff))
        for each in change.notes:
            self.note(each)

    def agrees_to(self, question: str) -> bool:
        """True if the change may be made: never in a dry run, always with --yes."""
        if self.dry_run:
            return False
        return self._yes or click.confirm(visible(question), err=True)

    def wrote(self, path: Path) -> None:
        self._answer["written"] = str(path)
        self.say(f"Wrote {path}.")

    def changed(self, change: Change, backup: Path | None) -> None:
        row = {"client": change.client, "file": str(change.path), "backup": backup and str(backup)}
        self._answer["changed"].append(row)
        self.say(f"Changed {change.path}." + (f" What it was is in {backup.name}." if backup else ""))

    def finish(self) -> None:
        if wants_json():
            write_json(self._answer, indent=2)


def _make(
    machine: Machine, session: _Session, gateway: Gateway, *, output: Path, force: bool, clients: tuple[str, ...]
) -> bool:
    entries = {client: gateway.entry(client) for client in clients}  # refused before anything is written
    survey = find_servers(machine)
    session.show_servers([each.describe() for each in survey.servers], survey.problems)
    draft = plan_config(output, survey, machine, force=force)
    if draft.is_empty and gateway.url is None:
        session.say(f"No MCP server was found in {', '.join(map(str, survey.files))}.")
        session.say(f"Add one to a client, or write {output}:\n\n{_EXAMPLE}")
        return False
    for note in draft.notes:
        session.note(note)
    if draft.change.new == draft.change.old:
        session.say(f"{output} has them all already.")
    elif not draft.is_empty:
        _write_config(draft.change, draft.added, session, force=force)
    agreed = [_apply(client, machine, session, entry) for client, entry in entries.items()]
    if gateway.url is not None:
        _say_what_it_needs(session, gateway, output, is_empty=draft.is_empty)
    if not session.dry_run:
        if not draft.is_empty:
            for warning in load_config(output).warnings:
                session.note(warning)
        _say_next(session, output, clients)
    return all(agreed)


def _say_what_it_needs(session: _Session, gateway: Gateway, output: Path, *, is_empty: bool) -> None:
    if gateway.variable is not None:
        session.note(f"set {gateway.variable} where the client runs: `sealyard token NAME` makes a token")
        if gateway.is_exposed:
            session.note("the token crosses the network in plain text: use https, or a tunnel")
    if not is_empty:
        session.note(f"the gateway at {gateway.url} needs the servers of {output}, which the client has no more")


_EXAMPLE = """[upstreams.time]
command = "uvx"
args = ["mcp-server-time"]
"""


def _write_config(change: Change, added: tuple[str, ...], session: _Session, *, force: bool) -> None:
    if change.old is not None or session.dry_run:
        session.show_diff(change)
    if session.dry_run:
        return
    if change.old is not None and not force:
        names = ", ".join(map(repr, added))
        raise InvalidRequest(f"{str(change.path)!r} exists and lacks {names}. Give --force to add what the diff shows.")
    change.write()
    session.wrote(change.path)


def _apply(client: str, machine: Machine, session: _Session, entry: dict[str, Any]) -> bool:
    changes = plan_apply(client, machine, entry)
    if not changes:
        session.say(f"{CLIENTS[client].title} uses sealyard alone already.")
    return _make_changes(changes, "Change", session)


def _undo(clients: tuple[str, ...], machine: Machine, session: _Session) -> bool:
    changes = plan_undo(clients, machine)
    if not changes:
        session.say("There is nothing to undo: no backup of a client's file was found here or in your home.")
        return False
    return _make_changes(changes, "Put back", session)


def _make_changes(changes: list[Change], verb: str, session: _Session) -> bool:
    """Show and make each change that the person agrees to. False if they refused one."""
    agreed = True
    for change in changes:
        session.show_diff(change)
        if session.agrees_to(f"{verb} {change.path}?"):
            session.changed(change, change.write())
        else:
            agreed = agreed and session.dry_run
    return agreed


def _say_next(session: _Session, output: Path, clients: tuple[str, ...]) -> None:
    session.say("")
    session.say("Next:", "bold")
    session.say("  sealyard tools --status     see whether each server starts")
    if clients:
        names = ", ".join(CLIENTS[client].title for client in clients)
        session.say(f"  Restart {names}. `sealyard init --undo` puts everything back.")
    else:
        session.say(f"  sealyard serve {output}     serve them all as one")
        session.say("  sealyard init --apply CLIENT     let a client use sealyard alone, after a look at the diff")
