"""Measures what is found of private values, on rows and texts that somebody else labelled.

The name of a file begins with its kind: `csv_` and `json_` are rows, `text_` is prose, `neg_` holds nothing private,
`secrets_` keys and passwords in code. A line is `{"id", "text", "spans": [{"start", "end", "type"}]}`.
Every type is switched on. A finding is right if its offsets and its group of types are those of the label.
"""

import gzip
import ipaddress
import re
import statistics
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sealyard.cli.terminal import columns, plain, screen
from sealyard.errors import InvalidRequest
from sealyard.privacy import TYPES
from sealyard.privacy.detect import Scanner, ScanRules
from sealyard.privacy.detect.checks import is_card, is_iban, is_ssn
from sealyard.privacy.reading.literals import PlacedText, read_literal
from sealyard.privacy.span import Span

_ROUNDS = 3
_OURS = {
    "email": "EMAIL",
    "phone": "PHONE",
    "person": "PERSON",
    "address": "PLACE",
    "location": "PLACE",
    "date_of_birth": "DATE",
    "username": "USERNAME",
    "password": "SECRET",
    "api_key": "SECRET",
    "auth_token": "SECRET",
    "private_key": "SECRET",
    "ssn": "SSN",
    "organization": "ORGANIZATION",
    "ip": "IP",
    "mac": "MAC",
    "wallet": "WALLET",
}
"""The group of each of our types; any other is a group of its own."""
_LABELS = {
    "PLACE": "ADDRESS LOCATION ZIP UK_POSTCODE",
    "DATE": "DATE_OF_BIRTH DATE_TIME DATE",
    "SSN": "US_SSN US_SSN_FAKEFMT",
    "PHONE": "PHONE PH_MOBILE_NUMBER TR_PHONE_NUMBER",
    "IP": "IP_ADDRESS",
    "MAC": "MAC_ADDRESS MAC",
    "WALLET": "CRYPTO WALLET",
    "USERNAME": "USERNAME USERID USER_ID",
    "ORGANIZATION": "ORGANIZATION ORG",
    "CREDIT_CARD": "CREDIT_CARD",
    "NATIONAL_ID": "NATIONAL_ID IN_AADHAAR VOTER_ID",
    "TAX_ID": "TAX_ID TAXID EIN EIN_FAKEFMT IN_PAN DE_VAT_ID",
    "PASSPORT": "PASSPORT PASSPORT_NUM",
    "DRIVER_LICENSE": "DRIVER_LICENSE DRIVER_LICENSE_NUM US_DRIVER_LICENSE",
    "MEDICAL_ID": "PATIENT_ID INSURANCE_ID MEDICAL_ID",
    "BANK_ACCOUNT": "BANK_ACCOUNT BANK_ACCOUNT_NUM ROUTING_NUMBER",
}
_GROUPS = {label: group for group, labels in _LABELS.items() for label in labels.split()}
_LISTED = frozenset(
    """PERSON ADDRESS LOCATION ZIP UK_POSTCODE DATE_OF_BIRTH PHONE EMAIL CREDIT_CARD IBAN IP_ADDRESS MAC_ADDRESS MAC
    USERNAME SECRET NATIONAL_ID US_SSN CRYPTO PASSPORT DRIVER_LICENSE TAX_ID BANK_ACCOUNT MEDICAL_ID""".split()
)
"""Labels whose recall on rows is promised. Formats that do not exist, firms and plain links are not among them."""
_MAC = re.compile(r"(?:[0-9A-F]{2}[:\-.]?){5,7}[0-9A-F]{2}|(?:[0-9A-F]{4}\.){2}[0-9A-F]{4}", re.IGNORECASE)
_WALLET = re.compile(r"[A-Z0-9:]{20,120}", re.IGNORECASE)


def _is_address(value: str) -> bool:
    """True if the value is an IP address, with or without port, zone or prefix length."""
    host = value.strip().partition("/")[0].partition("%")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        ipaddress.ip_address(host.removeprefix("[").partition("]")[0])
    except ValueError:
        return False
    return True


_CHECKS: dict[str, Callable[[str], bool]] = {
    "EMAIL": lambda value: "." in value.rpartition("@")[2],
    "CREDIT_CARD": is_card,
    "IBAN": is_iban,
    "IP_ADDRESS": _is_address,
    "US_SSN": is_ssn,
    "MAC_ADDRESS": lambda value: _MAC.fullmatch(value.strip()) is not None,
    "CRYPTO": lambda value: _WALLET.fullmatch(value.strip()) is not None,
}
"""Labels whose values are known by their form in any sentence. One that fails the check is masked or made up."""
_MARKS = ("strict", "overlap", "covered")


class _Label(msgspec.Struct):
    start: int
    end: int
    type: str


class _Document(msgspec.Struct):
    id: str
    text: str
    spans: list[_Label]


class _Tally:
    """Counts over some documents: how often each label was met, and each group of findings was right."""

    def __init__(self) -> None:
        self.labels: dict[str, Counter[str]] = defaultdict(Counter)
        self.groups: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, document: _Document, spans: list[Span], present: frozenset[str]) -> None:
        """Counts one document. Findings of a group that no label of the file belongs to count for nothing."""
        found = {(span.start, span.end, _our_group(span.type)) for span in spans}
        stretches = _union(spans)
        for label in document.spans:
            counter = self.labels[label.type]
            group = _group(label.type)
            counter["n"] += 1
            counter["strict"] += (label.start, label.end, group) in found
            counter["overlap"] += any(s < label.end and label.start < e and g == group for s, e, g in found)
            counter["covered"] += any(start <= label.start and label.end <= end for start, end in stretches)
        wanted = {(label.start, label.end, _group(label.type)) for label in document.spans}
        for start, end, group in found:
            if group in present:
                counter = self.groups[group]
                counter["found"] += 1
                counter["right"] += (start, end, group) in wanted
                counter["touching"] += any(s < end and start < e and g == group for s, e, g in wanted)

    def merge(self, other: "_Tally") -> None:
        for mine, theirs in ((self.labels, other.labels), (self.groups, other.groups)):
            for key, counter in theirs.items():
                mine[key].update(counter)

    def recall(self, labels: Iterable[str], mark: str = "strict") -> dict[str, float]:
        return {
            label: self.labels[label][mark] / self.labels[label]["n"]
            for label in sorted(labels)
            if label in self.labels
        }

    def precision(self) -> float | None:
        found = sum(counter["found"] for counter in self.groups.values())
        return sum(counter["right"] for counter in self.groups.values()) / found if found else None

    def by_type(self) -> dict[str, dict[str, float | int | None]]:
        shown: dict[str, dict[str, float | int | None]] = {}
        for label, counter in sorted(self.labels.items()):
            group = self.groups.get(_group(label), Counter())
            shown[label] = {"n": counter["n"], **{mark: counter[mark] / counter["n"] for mark in _MARKS}}
            shown[label]["precision"] = group["right"] / group["found"] if group["found"] else None
        return shown


def measure(data: Path) -> dict[str, Any]:
    """The figures of a folder of labelled data. Raises `InvalidRequest`."""
    files = {file.name: _load(file) for file in sorted(data.iterdir()) if file.name.endswith((".jsonl", ".jsonl.gz"))}
    rows = {name: documents for name, documents in files.items() if name.startswith(("csv_", "json_"))}
    if not rows:
        raise InvalidRequest(
            f"No file in {str(data)!r} is named csv_*.jsonl or json_*.jsonl. Name a folder that has one."
        )
    scanner = Scanner(ScanRules(types=frozenset(TYPES)))
    by_file: dict[str, Any] = {}
    totals: dict[str, _Tally] = defaultdict(_Tally)
    for name, documents in files.items():
        tally = _tally(scanner, documents)
        by_file[name] = tally.by_type() if not name.startswith("neg_") else _negatives(scanner, documents)
        totals[name.split("_")[0]].merge(tally)
    shown = _figures([totals["csv"], totals["json"]], scanner, rows)
    negative = [document for name, documents in files.items() if name.startswith("neg_") for document in documents]
    prose = totals["text"].recall(totals["text"].labels)
    checkable = _checkable(
        scanner, [each for name, documents in files.items() if name.startswith("text_") for each in documents]
    )
    secrets = totals["secrets"].recall(["SECRET"], "overlap")
    hidden = {name: [_hide(document) for document in documents] for name, documents in rows.items()}
    tallies = [_tally(scanner, documents) for documents in hidden.values()]
    return {
        "types": "all",
        "listed_types": sorted(
            _LISTED & {label for total in (totals["csv"], totals["json"]) for label in total.labels}
        ),
        **shown,
        "recall_prose_checkable": statistics.fmean(checkable.values()) if checkable else None,
        "recall_prose_checkable_by_type": checkable,
        "recall_prose_by_type": prose,
        "recall_secrets_overlap": secrets.get("SECRET"),
        "false_positives_per_kb": _per_kilobyte(scanner, negative),
        "keys_hidden": _figures(tallies, scanner, hidden),
        "by_file": by_file,
    }


def show(figures: dict[str, Any]) -> None:
    """The same figures as tables."""
    table = columns("rows", "keys visible", "keys hidden")
    hidden = figures["keys_hidden"]
    for label, recall in figures["recall_rows_by_type"].items():
        mark = "" if label in figures["listed_types"] else " (not in the mean)"
        table.add_row(plain(f"recall {label}{mark}"), f"{recall:.3f}", f"{hidden['recall_rows_by_type'][label]:.3f}")
    for name in ("recall_rows", "precision_rows", "mb_per_second", "ms_per_document"):
        cells = ["none" if each[name] is None else f"{each[name]:.3f}" for each in (figures, hidden)]
        table.add_row(plain(name.replace("_", " ")), *cells, style="bold")
    screen.print(table)
    screen.print()
    rest = columns("prose and tables without personal data", "")
    for name in ("recall_prose_checkable", "recall_secrets_overlap", "false_positives_per_kb"):
        value = figures[name]
        rest.add_row(plain(name.replace("_", " ")), "no such data" if value is None else f"{value:.3f}")
    screen.print(rest)
    screen.print(plain("All types on, location and organization among them. Recall: same offsets, same group.", "dim"))


def _figures(tallies: Iterable[_Tally], scanner: Scanner, rows: dict[str, list[_Document]]) -> dict[str, Any]:
    total = _Tally()
    for tally in tallies:
        total.merge(tally)
    texts = [document.text for documents in rows.values() for document in documents]
    by_type = total.recall(total.labels)
    listed = [recall for label, recall in by_type.items() if label in _LISTED]
    return {
        "recall_rows": statistics.fmean(listed) if listed else None,
        "recall_rows_by_type": by_type,
        "precision_rows": total.precision(),
        "mb_per_second": _speed(scanner, rows),
        "ms_per_document": _seconds(lambda: [scanner.find(text) for text in texts]) * 1e3 / len(texts),
    }


def _tally(scanner: Scanner, documents: list[_Document]) -> _Tally:
    present = frozenset(_group(label.type) for document in documents for label in document.spans)
    tally = _Tally()
    for document in documents:
        tally.add(document, scanner.find(document.text), present)
    return tally


def _checkable(scanner: Scanner, documents: list[_Document]) -> dict[str, float]:
    """The recall of labels in prose whose values pass the check of their type."""
    kept = [
        msgspec.structs.replace(
            document,
            spans=[
                label
                for label in document.spans
                if label.type in _CHECKS and _CHECKS[label.type](document.text[label.start : label.end])
            ],
        )
        for document in documents
    ]
    tally = _tally(scanner, [document for document in kept if document.spans])
    return tally.recall(tally.labels)


def _negatives(scanner: Scanner, documents: list[_Document]) -> dict[str, Any]:
    counts = Counter(span.type for document in documents for span in scanner.find(document.text))
    return {"found": dict(counts), "per_kb": _per_kilobyte(scanner, documents)}


def _per_kilobyte(scanner: Scanner, documents: list[_Document]) -> float | None:
    size = sum(len(document.text.encode()) for document in documents)
    return sum(len(scanner.find(document.text)) for document in documents) / (size / 1024) if size else None


def _speed(scanner: Scanner, rows: dict[str, list[_Document]]) -> float:
    """Megabytes a second in one thread, the best of a few rounds, all rows of a file in one answer."""
    texts = [text for documents in rows.values() for text in _answers(documents)]
    size = sum(len(text.encode()) for text in texts)
    return max(size / 1e6 / _seconds(lambda: [scanner.find(text) for text in texts]) for _ in range(_ROUNDS))


def _answers(documents: list[_Document]) -> Iterator[str]:
    """The documents as one JSON list, or one CSV for each header there is."""
    tables: dict[str, list[str]] = defaultdict(list)
    records = []
    for document in documents:
        if document.text.lstrip().startswith(("{", "[")):
            records.append(document.text)
        else:
            header, _, body = document.text.partition("\n")
            tables[header].append(body.rstrip("\n") + "\n")
    if records:
        yield f"[{','.join(records)}]"
    yield from (f"{header}\n{''.join(bodies)}" for header, bodies in tables.items())


def _seconds(call: Callable[[], object]) -> float:
    started = time.thread_time()  # the processor's, so that a busy machine does not show
    call()
    return time.thread_time() - started


def _group(label: str) -> str:
    return _GROUPS.get(label, label)


def _our_group(name: str) -> str:
    return _OURS.get(name, name.upper())


def _union(spans: list[Span]) -> list[tuple[int, int]]:
    """Stretches that are covered, those that touch as one."""
    stretches: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda each: each.start):
        if stretches and span.start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], span.end))
        else:
            stretches.append((span.start, span.end))
    return stretches


def _hide(document: _Document) -> _Document:
    """The same document with `k1`, `k2`, … in place of keys and headers."""
    names: dict[str, str] = {}
    parts: list[str] = []
    shifts: list[tuple[int, int]] = [(0, 0)]
    last = moved = 0
    for start, end in sorted(_names(document.text)):
        name = names.setdefault(document.text[start:end], f"k{len(names) + 1}")
        parts += (document.text[last:start], name)
        last = end
        moved += len(name) - (end - start)
        shifts.append((end, moved))
    parts.append(document.text[last:])

    def shift(offset: int) -> int:
        return offset + next(by for start, by in reversed(shifts) if start <= offset)

    spans = [_Label(shift(each.start), shift(each.end), each.type) for each in document.spans]
    return _Document(document.id, "".join(parts), spans)


def _names(text: str) -> Iterator[tuple[int, int]]:
    """Where the keys of JSON, or the headers of a CSV, stand."""
    if not text.lstrip().startswith(("{", "[")):
        start = 0
        for cell in text.split("\n", 1)[0].split(","):
            yield start, start + len(cell)
            start += len(cell) + 1
        return
    waiting = [read_literal(text, len(text) - len(text.lstrip()))[0]]
    for each in waiting:
        if isinstance(each, dict):
            yield from ((key.start, key.end) for key in each if isinstance(key, PlacedText))
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _load(file: Path) -> list[_Document]:
    try:
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}. Replace it or move it away.") from None
    documents = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            documents.append(msgspec.json.decode(line, type=_Document))
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{file}, line {number}: {error}. Correct or remove the line.") from None
    return documents
