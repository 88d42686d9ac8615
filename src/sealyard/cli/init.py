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
from sealyard.errors import InvalidRequest, SealyardError


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write here. By default sealyard.toml here and, for entries that count in every folder, the user's.",
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
    output: Path | None,
    force: bool,
    clients: tuple[str, ...],
    url: str | None,
    token_env: str | None,
    undo: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Make a sealyard.toml from your MCP clients.

    Looks for the servers that Claude Code, Cursor, Codex and a dozen other clients have, here and in your home. Their
    own files are changed only with --apply, and --undo puts them back. Exit code 0: done; 1: there was nothing to do
    it with, or you said no; 2: it could not be done.
    """
    if output is not None and output.suffix != ".toml":
        raise InvalidRequest(f"--output is {str(output)!r}. Give a name that ends with .toml.")
    machine = read_machine()
    session = _Session(yes=yes, dry_run=dry_run)
    if url is not None and (undo or not clients):
        raise InvalidRequest("--url is for the clients that --apply names. Give --apply with it, and not --undo.")
    if token_env is not None and url is None:
        raise InvalidRequest("--token-env is for a gateway at an address. Give its --url too.")
    if (clients or undo) and not (yes or dry_run) and not session.can_ask:
        raise InvalidRequest("There is no terminal to ask on before a client's file changes. Give --yes, or --dry-run.")
    if undo:
        done = _undo(clients or tuple(CLIENTS), machine, session)
    else:
        done = _Task(machine, session, output=output, force=force).run(clients, url, token_env)
    session.finish()
    return 2 if session.failed else 0 if done else 1


class _Session:
    """Talks to a person, or gathers the answer for a program."""

    def __init__(self, *, yes: bool, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.failed = False
        """True if something could not be done. The rest was."""
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

    def fail(self, text: str) -> None:
        self.failed = True
        self._answer["notes"].append(text)
        if not wants_json():
            remark(f"error: {text}", "red")

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
        self.say(f"Changed {change.path}." + (f" What it was is in {backup}." if backup else ""))

    def finish(self) -> None:
        if wants_json():
            write_json(self._answer, indent=2)


class _Task:
    """One run of `init` that collects servers and, for each client named, puts sealyard into its files."""

    def __init__(self, machine: Machine, session: _Session, *, output: Path | None, force: bool) -> None:
        self._machine = machine
        self._session = session
        self._force = force
        self._survey = find_servers(machine)
        self._here = machine.directory / (output or "sealyard.toml")
        self._is_named = output is not None
        # A project may come from somebody else: its file starts nothing in other folders unless a person names it.
        self._users = self._here if output is not None else machine.config_folder / "sealyard.toml"

    def run(self, clients: tuple[str, ...], url: str | None, token_env: str | None) -> bool:
        """False if there was nothing to do it with, or the person refused a change."""
        session, survey = self._session, self._survey
        gateway = self._choose_gateway(clients, url, token_env)
        for client in clients:
            gateway.entry(client)  # refused before anything is written
        session.show_servers([each.describe() for each in survey.servers], survey.problems)
        changes = [change for client in clients for change in self._plan(client, gateway)]
        everywhere = [change for change in changes if change.everywhere]
        files = dict.fromkeys(
            [self._here] * any(change.in_project for change in changes) + [self._users] * bool(everywhere)
        )
        has_any = self._write_configs(list(files) or [self._here], is_started=url is None)
        if not has_any and url is None:
            session.say(f"No MCP server was found in {', '.join(map(str, survey.files))}.")
            session.say(f"Add one to a client, or write {self._here}:\n\n{_EXAMPLE}")
            return False
        if url is None and everywhere and (self._is_named or self._here.exists()):
            names = " and ".join(dict.fromkeys(CLIENTS[each.client].title for each in everywhere))
            session.note(
                f"{names} will have the servers of {self._users} in every folder"
                + (", not only here" if self._is_named else f", and not those of {self._here}: name it with --output")
            )
        agreed = _make_changes([change for change in changes if change.old != change.new], "Change", session)
        for note in gateway.notes if clients else ():
            session.note(note)
        if url is not None and has_any:
            named = " and ".join(map(str, files))
            session.note(f"the gateway at {url} needs the servers of {named}, which the client has no more")
        if not session.dry_run:
            for warning in dict.fromkeys(each for file in files or [self._here] for each in _warnings(file)):
                session.note(warning)
            _say_next(session, self._machine, self._here, clients)
        return agreed

    def _choose_gateway(self, clients: tuple[str, ...], url: str | None, token_env: str | None) -> Gateway:
        if url is not None or not clients:
            return Gateway(url=url, variable=token_env)
        return Gateway.started(self._machine, own_command(), config=self._here, users=self._users)

    def _plan(self, client: str, gateway: Gateway) -> list[Change]:
        """The changes of a client's files; a file that cannot be read fails this client, and no other."""
        try:
            changes = plan_apply(client, self._machine, gateway)
        except SealyardError as error:
            self._session.fail(str(error))
            return []
        if all(change.old == change.new for change in changes):
            self._session.say(f"{CLIENTS[client].title} uses sealyard alone already.")
        return changes

    def _write_configs(self, files: list[Path], *, is_started: bool) -> bool:
        """Write what each file lacks, all or none. False if there is no server for any of them.

        Raises:
            InvalidRequest: Clients would start one of several that has no server.
        """
        session = self._session
        drafts = [
            plan_config(file, self._survey, self._machine, force=self._force, everywhere=file != self._here)
            for file in files
        ]
        empty = [draft.change.path for draft in drafts if draft.is_empty and not draft.change.path.exists()]
        if is_started and empty and (len(empty) < len(files) or self._here.exists() or self._survey.servers):
            raise InvalidRequest(
                f"No server was found for {str(empty[0])!r}, which the client would start"
                f"{' in every folder' if empty[0] == self._users else ''}. Add one there, or give --output"
                f" {str(self._here)!r} to start that file everywhere."
            )
        for draft in drafts:
            for note in draft.notes:
                session.note(note)
            if draft.change.new == draft.change.old and not draft.is_empty:
                session.say(f"{draft.change.path} has them all already.")
            elif not draft.is_empty and (draft.change.old is not None or session.dry_run):
                session.show_diff(draft.change)
        drafts = [draft for draft in drafts if draft.change.new != draft.change.old and not draft.is_empty]
        for draft in () if session.dry_run else drafts:
            if draft.change.old is not None and not self._force:
                names = ", ".join(map(repr, draft.added))
                what = f"{str(draft.change.path)!r} exists and lacks {names}"
                raise InvalidRequest(f"{what}. Give --force to add what the diff shows.")
        for draft in () if session.dry_run else drafts:
            draft.change.write()
            session.wrote(draft.change.path)
        return bool(drafts) or any(file.exists() for file in files)


def _warnings(file: Path) -> tuple[str, ...]:
    return load_config(file).warnings if file.exists() else ()


_EXAMPLE = """[upstreams.time]
command = "uvx"
args = ["mcp-server-time"]
"""


def _undo(clients: tuple[str, ...], machine: Machine, session: _Session) -> bool:
    changes, problems = plan_undo(clients, machine)
    for problem in problems:
        session.fail(problem)
    if not changes and not problems:
        session.say("There is nothing to undo: no change of a client's file is on record.")
        return False
    return _make_changes(changes, "Put back", session)


def _make_changes(changes: list[Change], verb: str, session: _Session) -> bool:
    """Show and make each change that the person agrees to; a failure holds up no other. False if one was refused."""
    agreed = True
    for change in changes:
        session.show_diff(change)
        if not session.agrees_to(f"{verb} {change.path}?"):
            agreed = agreed and session.dry_run
            continue
        try:
            session.changed(change, change.write())
        except SealyardError as error:
            session.fail(str(error))
    return agreed


def _say_next(session: _Session, machine: Machine, output: Path, clients: tuple[str, ...]) -> None:
    session.say("")
    session.say("Next:", "bold")
    if clients:
        session.say("  sealyard tools --status     see whether each server starts")
        names = ", ".join(CLIENTS[client].title for client in clients)
        session.say(f"  Restart {names}. `sealyard init --undo` puts everything back.")
    elif machine.platform == "linux":
        session.say("  sealyard tools --status     see whether each server starts")
        session.say(f"  sealyard serve {output}     serve them all as one")
        session.say("  sealyard init --apply CLIENT     let a client use sealyard alone, after a look at the diff")
    else:
        session.say(f"  Serve {output} on Linux: in a container, a virtual machine or WSL, or on another computer.")
        session.say("  sealyard init --apply CLIENT --url ADDRESS     let a client use it, after a look at the diff")
