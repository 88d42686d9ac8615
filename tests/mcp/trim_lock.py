"""Leaves in a `package-lock.json`, here, what an installation needs: no address, only versions and hashes."""

import json
from pathlib import Path

LOCK = Path("package-lock.json")

if __name__ == "__main__":
    lock = json.loads(LOCK.read_text(encoding="utf-8"))
    for package in lock["packages"].values():
        package.pop("funding", None)
        package.pop("resolved", None)
    LOCK.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
