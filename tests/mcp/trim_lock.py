"""Leaves in `package-lock.json` what an installation needs: no address of anybody, only versions and hashes."""

import json
from pathlib import Path

LOCK = Path(__file__).with_name("package-lock.json")

if __name__ == "__main__":
    lock = json.loads(LOCK.read_text(encoding="utf-8"))
    for package in lock["packages"].values():
        package.pop("funding", None)
        package.pop("resolved", None)
    LOCK.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
