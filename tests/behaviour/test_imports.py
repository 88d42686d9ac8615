"""What code can import and see: the rule of its level, and no package but those that were named."""

import asyncio
import sys
import sysconfig
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import sealyard
from sealyard.sandbox import IsolationLevel, IsolationPolicy, open_sandbox
from sealyard.sandbox.importable import find_packages
from sealyard.sandbox.policy import DEFAULT, FILTERING, LEVELS
from sealyard.values.runs import Failure, Outcome


async def run_all(policy: IsolationPolicy, *codes: str, **options: Any) -> list[Outcome]:
    """The outcomes of `codes` in a sandbox of their own."""
    async with open_sandbox(policy, **options) as sandbox:
        return [await sandbox.run(code) for code in codes]


def plain(level: IsolationLevel) -> IsolationPolicy:
    """The level's policy without data packages."""
    return msgspec.structs.replace(LEVELS[level], packages=())


REFUSED = {
    "import socket": "socket",
    "import subprocess as s": "subprocess",
    "from multiprocessing import Pool": "multiprocessing",
    "import multiprocessing.pool": "multiprocessing.pool",
    "import ctypes.util": "ctypes.util",
    "from http import client": "http.client",
    "import http.server": "http.server",
    "from urllib import request": "urllib.request",
    "import urllib.request": "urllib.request",
    "def f():\n    import ssl\nf()": "ssl",
    "__import__('socket')": "socket",
    "import requests": "requests",
    "import msgspec": "msgspec",
    "import pip": "pip",
}


@pytest.mark.behaviour("isolation.imports")
@pytest.mark.parametrize(("code", "module"), REFUSED.items())
def test_import_that_production_refuses_is_named(driver: Any, code: str, module: str) -> None:
    """Modules for processes, network and native code, and what is not installed, are refused by name and line."""
    outcome = driver.run(code)

    line = 2 if code.startswith("def") else 1
    assert outcome.status == "failed"
    assert (outcome.failure.kind, outcome.failure.type, outcome.failure.line) == ("import", "ImportRefused", line)
    assert outcome.failure.message == f"Importing {module!r} is not allowed at level 'production'."


def test_refused_import_can_be_caught_as_an_import_error(driver: Any) -> None:
    """Code that has a way without the module takes it."""
    code = "try:\n    import socket\nexcept ImportError as error:\n    result = [type(error).__name__, error.name]"

    assert driver.run(code).result == ["ImportRefused", "socket"]


def test_allowed_modules_import_whatever_they_need(driver: Any) -> None:
    """The rule is for the agent's own statements: asyncio imports socket, and works."""
    code = """
        import asyncio, http, logging.handlers, statistics, sys, urllib.parse, xml.etree.ElementTree, zoneinfo
        from http import HTTPStatus
        "socket" in sys.modules
    """

    assert driver.run(code).result is True


async def test_hardened_allows_its_list_and_what_that_imports() -> None:
    """`statistics` works although it imports modules that are not on the list; those themselves are refused."""
    allowed = """
from __future__ import annotations
import collections.abc, datetime, decimal, functools, itertools, json.decoder, math, re, statistics
from collections import Counter, abc
day = datetime.datetime.strptime("2024-02-29", "%Y-%m-%d")
[
    statistics.median([1, 5, 3]),
    statistics.stdev([1.0, 3.0]),
    str(decimal.Decimal("1.5") * 2),
    json.dumps({"a": [1]}),
    day.strftime("%d.%m.%Y"),
    json.JSONDecoder().raw_decode("[1] tail"),
]
"""
    refused = ["os", "sys", "random", "numbers", "pathlib", "asyncio", "socket", "io", "builtins", "posix"]

    outcomes = await run_all(plain(IsolationLevel.HARDENED), allowed, *(f"import {name}" for name in refused))

    assert outcomes[0].failure is None
    assert outcomes[0].result == [3, 1.4142135623730951, "3.0", '{"a": [1]}', "29.02.2024", [[1], 3]]
    assert [outcome.failure for outcome in outcomes[1:]] == [
        Failure(
            kind="import",
            type="ImportRefused",
            message=f"Importing {name!r} is not allowed at level 'hardened'.",
            line=1,
            source_line=f"import {name}",
            traceback=f"line 1, in <module>\n    import {name}",
            hint="Tools are functions: call them for what lies outside. Other modules need another isolation level.",
        )
        for name in refused
    ]


async def test_development_refuses_no_import_that_is_installed() -> None:
    """Everything of the standard library imports; what is missing is a plain `ModuleNotFoundError`."""
    names = ["socket", "subprocess", "ctypes", "multiprocessing", "ssl", "http.client", "urllib.request", "fcntl"]

    outcomes = await run_all(
        plain(IsolationLevel.DEVELOPMENT), *(f"import {name}\n{name}.__name__" for name in names), "import msgspec"
    )

    assert [outcome.result for outcome in outcomes[:-1]] == names
    failure = outcomes[-1].failure
    assert failure is not None
    assert (failure.kind, failure.type) == ("exception", "ModuleNotFoundError")
    assert failure.hint == "Only the standard library and the packages of the guest environment are installed here."


async def test_custom_modules_widen_and_narrow_the_rule() -> None:
    """`modules` adds to a list and `refused_modules` takes away from the standard library."""
    wider = msgspec.structs.replace(FILTERING, packages=(), modules=(*FILTERING.modules, "random"))
    narrower = msgspec.structs.replace(DEFAULT, packages=(), refused_modules=("random",))

    allowed = await run_all(wider, "import random\n1", "import os")
    refused = await run_all(narrower, "import random", "import os, socket\n1")

    assert [outcome.status for outcome in allowed] == ["ok", "failed"]
    assert [outcome.status for outcome in refused] == ["failed", "ok"]


def test_no_package_of_the_gateway_is_visible(driver: Any) -> None:
    """Neither by import past the rule, nor by import path, nor as files."""
    hidden = [
        msgspec.__file__,
        click.__file__,
        pytest.__file__,
        sealyard.__file__,
        sysconfig.get_path("purelib"),
        sys.prefix,
        __file__,
    ]

    outcome = driver.run(
        """
        import importlib, os, sys

        def can_import(name):
            try:
                importlib.import_module(name)
            except ImportError:
                return False
            return True

        def entries(path):
            try:
                return os.listdir(path)
            except NotADirectoryError:
                return [path]
            except OSError:
                return []

        {
            "imported": [name for name in foreign if can_import(name)],
            "control": can_import("wave"),
            "seen": [path for path in hidden if entries(path)],
            "paths": [path for path in sys.path if "site-packages" in path or "dist-packages" in path],
            "packages": [name for path in sys.path for name in entries(os.path.join(path, "site-packages"))],
            "loaded": [name for name in sys.modules if name.partition(".")[0] in ("msgspec", "click", "sealyard")],
        }
        """,
        context={"hidden": hidden, "foreign": ["msgspec", "click", "pytest", "sealyard", "runner", "seal"]},
    )

    assert outcome.result == {
        "imported": [],
        "control": True,
        "seen": [],
        "paths": [],
        "packages": [],
        "loaded": [],
    }


@pytest.mark.behaviour("isolation.environment")
def test_environment_tells_nothing_of_the_gateway(driver: Any) -> None:
    """The variables are the sandbox's own, whatever the gateway was started with."""
    outcome = driver.run("import os\nsorted(os.environ)")

    assert outcome.result == [
        "HOME",
        "LANG",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "TMPDIR",
    ]


@pytest.fixture(scope="module")
def data_packages() -> None:
    """The development environment has numpy and pandas, by requirements/dev.txt."""
    found = find_packages(("numpy", "pandas"))
    assert sorted(found.versions) == ["numpy", "pandas"], "run `make setup`: numpy and pandas are not installed"


@pytest.mark.usefixtures("data_packages")
async def test_data_packages_are_importable_only_when_they_are_named() -> None:
    """A package that is installed beside the gateway does not exist inside unless the policy names it."""
    try_both = """
import importlib, sys
found = []
for name in ("numpy", "pandas", "dateutil", "six", "pytest"):
    try:
        importlib.import_module(name)
        found.append(name)
    except ImportError:
        pass
found
"""
    named = [
        next(outcome.result for outcome in await run_all(msgspec.structs.replace(DEFAULT, packages=packages), try_both))
        for packages in ((), ("numpy",), ("pandas",), ("no-such-package",))
    ]

    assert named[0] == []
    assert named[1] == ["numpy"]
    assert set(named[2]) - {"six"} == {"numpy", "pandas", "dateutil"}
    assert named[3] == []


@pytest.mark.usefixtures("data_packages")
@pytest.mark.parametrize("tier", ["namespace", "landlock"])
async def test_named_packages_work_and_bring_nothing_else(tier: Any) -> None:
    """numpy and pandas compute; their results leave as rows; the rest of their environment stays unseen."""
    policy = msgspec.structs.replace(DEFAULT, packages=("numpy", "pandas"))
    code = """
import importlib.util, os, sys
import numpy as np
import pandas as pd
frame = pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}).groupby("k", as_index=False)["v"].sum()
folder = os.path.dirname(os.path.dirname(np.__file__))
result = {
    "rows": frame,
    "sum": np.arange(5).sum(),
    "array": np.array([[1.5, np.nan]]),
    "others": sorted({"msgspec", "click", "pytest", "_pytest", "hypothesis"} & set(os.listdir(folder))),
    "spec": importlib.util.find_spec("click") is None,
}
"""

    (outcome,) = await run_all(policy, code, tier=tier, allow_weaker=True)

    assert outcome.failure is None
    assert outcome.result == {
        "rows": [{"k": "a", "v": 4}, {"k": "b", "v": 2}],
        "sum": 10,
        "array": [[1.5, None]],
        "others": [],
        "spec": True,
    }


@pytest.mark.usefixtures("data_packages")
async def test_every_source_of_chance_differs_between_workers() -> None:
    """Workers are copies of one process, but none of them repeats another's random values."""
    code = """
import os, random, secrets, tempfile, uuid
import numpy
result = {
    "random": random.random(),
    "own generator": random.Random().random(),
    "system": random.SystemRandom().random(),
    "secrets": secrets.token_hex(8),
    "urandom": os.urandom(8).hex(),
    "uuid1": str(uuid.uuid1()),
    "uuid4": str(uuid.uuid4()),
    "tempfile": os.path.basename(tempfile.mkstemp()[1]),
    "mktemp": os.path.basename(tempfile.mkdtemp()),
    "numpy": float(numpy.random.random()),
    "numpy generator": float(numpy.random.default_rng().random()),
}
"""
    async with open_sandbox(msgspec.structs.replace(DEFAULT, packages=("numpy",))) as sandbox:
        outcomes = await asyncio.gather(*(sandbox.run(code) for _ in range(6)))

    assert [outcome.failure for outcome in outcomes] == [None] * 6
    assert {name: len({outcome.result[name] for outcome in outcomes}) for name in outcomes[0].result} == dict.fromkeys(
        outcomes[0].result, 6
    )


def install(folder: Path, name: str, code: str) -> None:
    """Put a package into a folder that stands for an environment, and let other users reach that."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code, encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{name}/__init__.py,,\n{info.name}/METADATA,,\n", encoding="utf-8")
    for path in (folder, *folder.parents):
        if path.name.startswith(("pytest-", "popen-", "test_")):  # its own, which pytest closes to other users
            path.chmod(path.stat().st_mode | 0o055)


async def test_package_that_cannot_be_imported_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The sandbox opens without it, and the log says why code cannot import it."""
    install(tmp_path, "ledger", "raise ImportError('half of it is missing')\n")

    async with open_sandbox(msgspec.structs.replace(DEFAULT, packages=("ledger",)), environment=tmp_path) as sandbox:
        outcome = await sandbox.run("1")

    assert outcome.result == 1
    assert [record.getMessage() for record in caplog.records] == [
        "The package ledger cannot be imported in the sandbox: half of it is missing"
    ]


async def test_environment_folder_decides_where_packages_come_from(tmp_path: Path) -> None:
    """Packages of a folder other than the gateway's own are found, shown and importable."""
    install(tmp_path, "ledger", "RATE = 7\n")
    (tmp_path / "secret.py").write_text("KEY = 1\n", encoding="utf-8")

    policy = msgspec.structs.replace(DEFAULT, packages=("ledger",))
    async with open_sandbox(policy, environment=tmp_path) as sandbox:
        found = await sandbox.run("import ledger\nledger.RATE")
        hidden = await sandbox.run("import importlib\nimportlib.import_module('secret')")

    assert (sandbox.packages.versions, found.result) == ({"ledger": "1.0"}, 7)
    assert hidden.failure is not None
    assert hidden.failure.type == "ModuleNotFoundError"
