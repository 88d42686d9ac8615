"""An MCP server for the files of a team. `python -m sealyard.examples.files`."""

import mimetypes
import struct
import zlib
from typing import Annotated

import msgspec
from msgspec import Meta

from sealyard.examples.toolbox import Media, Refused, Toolbox

_HITS = 200  # of one search, at most
_LARGEST_BYTES = 4 << 20  # of all files: bounds the memory of a server that runs for long
_HIT_CHARACTERS = 400  # of a line in a hit
_ARCHIVED = 50_000  # paths: far more than an answer should hold
_ARCHIVED_TESTS = 50  # of them, to be found by filtering

PathBelow = Annotated[str, Meta(max_length=1_000, description="Path inside the directory, such as notes/today.md.")]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One file or directory."""

    path: str
    is_directory: bool
    size: Annotated[int, Meta(description="In bytes; 0 for a directory.")]


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a text file."""

    path: str
    text: str
    first_line: int
    lines: Annotated[int, Meta(description="How many lines the whole file has.")]


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A line in which the words were found."""

    path: str
    line: int
    text: str


toolbox = Toolbox("files", instructions="Files of a team: list, read, search and write them.")


@toolbox.tool(read_only=True)
def list_files(
    path: Annotated[str, Meta(max_length=1_000, description="Which directory. The top one if left out.")] = "",
    recursive: Annotated[bool, Meta(description="Whether to list everything below it too.")] = False,
) -> list[File]:
    """List files and directories with their sizes, by name."""
    prefix = f"{path.strip('/')}/".removeprefix("/")
    found = {}
    for file, content in _below(path).items():
        names = file.removeprefix(prefix).split("/")
        for depth in range(1, len(names)):
            folder = prefix + "/".join(names[:depth])
            found[folder] = File(path=folder, is_directory=True, size=0)
        found[file] = File(path=file, is_directory=False, size=len(content))
    return [found[each] for each in sorted(found) if recursive or "/" not in each.removeprefix(prefix)]


@toolbox.tool(read_only=True)
def list_archive() -> list[str]:
    """List the path of every file in the company's archive, a large one that is kept elsewhere."""
    return _archive()


@toolbox.tool(read_only=True)
def read_file(
    path: PathBelow,
    first_line: Annotated[int, Meta(ge=1, description="The first line to read.")] = 1,
    max_lines: Annotated[int, Meta(ge=1, le=100_000, description="How many lines to read.")] = 2_000,
) -> Text:
    """Read lines of a text file in UTF-8."""
    lines = _decode(_content(path), path).splitlines(keepends=True)
    text = "".join(lines[first_line - 1 : first_line - 1 + max_lines])
    return Text(path=path, text=text, first_line=first_line, lines=len(lines))


@toolbox.tool(read_only=True)
def read_media(path: PathBelow) -> Media:
    """Read a file that is not text, such as an image, as it is."""
    mime = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Media(name=path, mime=mime, content=_content(path))


@toolbox.tool(read_only=True)
def search_files(
    words: Annotated[str, Meta(min_length=1, max_length=200, description="What to look for, in any case.")],
    path: Annotated[str, Meta(max_length=1_000, description="Only below this directory.")] = "",
) -> list[Hit]:
    """Find the lines of text files that contain the words, at most 200 of them."""
    hits = [
        Hit(path=file, line=number, text=line[:_HIT_CHARACTERS])
        for file, content in sorted(_below(path).items())
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1)
        if words.casefold() in line.casefold()
    ]
    return hits[:_HITS]


@toolbox.tool(destructive=True, idempotent=True)
def write_file(path: PathBelow, text: Annotated[str, Meta(description="The whole content, written in UTF-8.")]) -> File:
    """Write a text file, replacing what was there. Directories on the way are made."""
    content = text.encode(errors="replace")
    size = sum(map(len, _files.values())) + len(content)
    if path != path.strip("/") or not path or any(each.startswith(f"{path}/") for each in _files):
        raise Refused(f"{path!r} is not a path of a file. Give one such as 'notes/today.md'.")
    if size > _LARGEST_BYTES:
        raise Refused(f"The files would be larger than {_LARGEST_BYTES:,} bytes together. Write less.")
    _files[path] = content
    return File(path=path, is_directory=False, size=len(content))


def _below(path: str) -> dict[str, bytes]:
    """The files below a directory."""
    prefix = f"{path.strip('/')}/".removeprefix("/")
    found = {file: content for file, content in _files.items() if file.startswith(prefix)}
    if not found:
        raise Refused(f"There is no directory {path!r}. Call list_files to see what there is.")
    return found


def _content(path: str) -> bytes:
    if path not in _files:
        raise Refused(f"There is no {path!r}. Call list_files to see what there is.")
    return _files[path]


def _archive() -> list[str]:
    """Fifty thousand paths, fifty of which are tests of the billing service; always the same."""
    teams = ("accounts", "billing", "catalog", "delivery", "search")
    paths = [
        f"services/{teams[number % len(teams)]}/{number // 500:03d}/{kind}_{number:05d}.py"
        for number in range(_ARCHIVED - _ARCHIVED_TESTS)
        for kind in [("model", "report", "route", "view")[number % 4]]
    ]
    return paths + [f"services/billing/tests/test_invoice_{number:02d}.py" for number in range(_ARCHIVED_TESTS)]


def _decode(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Refused(f"{path!r} is not text in UTF-8. Read it with read_media.") from None


def _png(width: int, height: int) -> bytes:
    """A picture that fades from blue to orange."""
    rows = b"".join(
        b"\0"
        + bytes(
            (255 * y // height, 120 + 60 * x // width, 255 - 255 * y // height)[c]
            for x in range(width)
            for c in range(3)
        )
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


_SAMPLES = {
    "handbook/travel-policy.md": """\
# Travel policy

- Lodging up to 450 dollars a night needs no approval; anything above does.
- Purchases above 500 dollars need two approvals. Do not split them.
- Every claim above 25 dollars needs a receipt.
""",
    "handbook/camping.md": """\
# The yearly camping trip

- Ten people, two nights, one park with hiking and stargazing.
- Not more than 60 dollars per person for the sites.
- No more than 5 mm of rain on any day of the forecast.
""",
    "notes/todo.md": """\
- ask finance about the double hotel bills
- pick a park for the camping trip
""",
}
_files = {path: text.encode() for path, text in _SAMPLES.items()} | {"images/sunrise.png": _png(96, 64)}

if __name__ == "__main__":
    toolbox.run()
