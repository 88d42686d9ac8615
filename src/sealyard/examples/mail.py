"""An MCP server that sends mail nowhere: `python -m sealyard.examples.mail [--outbox FILE]`."""

import argparse
import re
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard.examples.toolbox import Refused, Toolbox


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail."""

    to: str
    subject: str
    body: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of sending a mail."""

    number: int
    message: str


toolbox = Toolbox("mail", instructions="Sends mail. Nothing really leaves this machine.")
_outbox: Path | None = None
_sent: list[Mail] = []


@toolbox.tool(destructive=True)
def send_mail(
    to: Annotated[str, Meta(description="An e-mail address.")],
    subject: Annotated[str, Meta(min_length=1, max_length=200)],
    body: Annotated[str, Meta(min_length=1, max_length=20_000)],
) -> Receipt:
    """Send a mail to one address. It cannot be taken back."""
    if not re.fullmatch(r"[^\s@]+@[^\s@]+\.[^\s@]+", to):
        raise Refused(f"{to!r} is no e-mail address. Give one such as somebody@example.com.")
    mail = Mail(to=to, subject=subject, body=body)
    _sent.append(mail)
    if _outbox is not None:
        with _outbox.open("ab") as file:
            file.write(msgspec.json.encode(mail) + b"\n")
    return Receipt(number=len(_sent), message=f"Sent to {to}.")


@toolbox.tool(read_only=True)
def count_mails() -> int:
    """Count the mails that were sent since the server started."""
    return len(_sent)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An MCP server that sends mail nowhere.")
    parser.add_argument("--outbox", type=Path, help="append every mail to this file, one JSON object a line")
    _outbox = parser.parse_args().outbox
    toolbox.run()
