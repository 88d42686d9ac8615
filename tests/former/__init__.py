"""What the last version called toolyard really wrote, for tests that take it over.

`made.tar.xz` holds `data`, the folder of a store after a few runs of code, a call that was approved always, a saved
skill that imports `toolyard_analysis`, and a closed segment of the audit log; beside it that store's exported log, a
head of it, a backup, the skill as a signed archive and as a folder, and the `toolyard.toml` of it all.
"""

import sqlite3
import tarfile
import time
from contextlib import closing
from pathlib import Path

__all__ = ("CARD", "SIGNER", "TOKEN", "digests", "unpack")

TOKEN = "__PII_credit_card_214d4fa86d61__"
CARD = "4087513506295666"
"""What the token stands for."""
SIGNER = "7da5fe5a16f7761ca4575c326774f6db2212c13ed45357cd5f499ea31b4cc3cc"
"""The key that signed the archive."""


def unpack(folder: Path, home: Path | None = None) -> Path:
    """Unpack it all into a folder, and the data to where a user had it if there is a home; the folder of the data."""
    with tarfile.open(Path(__file__).with_name("made.tar.xz")) as archive:
        if hasattr(tarfile, "data_filter"):  # not before Python 3.11.4; without it, newer versions warn
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    data = folder / "data"
    if home is not None:
        (home / ".local" / "share").mkdir(parents=True)
        data = data.rename(home / ".local" / "share" / "toolyard")
    data.chmod(0o700)
    with closing(sqlite3.connect(data / "toolyard.db")) as connection:  # private values do not outlive a week
        connection.execute("UPDATE vault_values SET expires_at = ?", (time.time() + 86_400,))
        connection.execute("UPDATE vault_scopes SET used_at = ?", (time.time(),))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return data


def digests(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but the locks that SQLite makes."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(("-shm", "-wal"))
    }
