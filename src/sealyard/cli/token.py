"""`sealyard token`: a token for a client over HTTP, of which the config keeps only a digest."""

import secrets

import click
import tomlkit

from sealyard.cli.command import KEPT, wants_json
from sealyard.cli.terminal import remark, write, write_json
from sealyard.config.settings import HttpConfig, PrincipalEntry, hash_token


@click.command()
@click.argument("name")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="NAME",
    help="One that it sees, or a pattern; again for more. Default: all.",
)
@click.option(
    "--level", type=click.Choice(["production", "hardened"]), help="A stricter isolation level than the gateway's."
)
@click.option("--reveal", is_flag=True, help="It may turn tokens of private values back over HTTP.")
@click.option("--approve", is_flag=True, help="It may answer approvals over HTTP. Not for the client of an agent.")
@click.option(
    "--observe", is_flag=True, help="It may see what all principals do: runs, metrics, alerts, the audit log."
)
@click.option("--json", is_flag=True, help="Print one JSON object with both, and nothing else.", **KEPT)
def token(
    *, name: str, upstreams: tuple[str, ...], level: str | None, reveal: bool, approve: bool, observe: bool
) -> None:
    """Make a token for a client called NAME, and the lines of sealyard.toml that let it in.

    The lines go to standard output, so that they can be appended to the file; the token goes to standard error and is
    kept nowhere.
    """
    made = f"sealyard_{secrets.token_urlsafe(32)}"
    digest = hash_token(made)
    HttpConfig(principals={name: PrincipalEntry(token_sha256=digest)}).clients()  # raises for a name that cannot be one
    given = {"upstreams": upstreams, "level": level, "reveal": reveal, "approve": approve, "observe": observe}
    table = {"token_sha256": digest} | {key: value for key, value in given.items() if value}
    lines = tomlkit.dumps({"http": {"principals": {name: table}}})
    if wants_json():
        write_json({"principal": name, "token": made, "token_sha256": digest, "toml": lines})
        return
    write(lines)
    remark(f"The token of {name!r}, which is not shown again. Clients send it as Authorization: Bearer …")
    remark(made, "bold")
