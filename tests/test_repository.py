"""Promises about the repository as a whole: what is exported, pinned, shipped and marked."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import click
import pytest
from tests.docs.public_names import modules

import sealyard
import sealyard.cli

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sealyard"
GUEST = SOURCE / "sandbox" / "guest"
LOCKS = tuple(f"requirements/{name}.txt" for name in ("dev", "outside", "peers", "runtime", "tasks", "wheel")) + tuple(
    f"requirements/agents-{name}.txt" for name in ("crewai", "sdk1", "sdk2")
)


def test_every_exported_name_exists() -> None:
    """Every package lists its public names in `__all__`, a tuple, and has them; inner modules list none."""
    found = {"sealyard": sealyard} | modules()
    packages = {name: module for name, module in found.items() if hasattr(module, "__path__")}
    listing = {name for name, module in found.items() if hasattr(module, "__all__")}

    assert listing == set(packages) | {"sealyard.errors", "sealyard.testing"}
    assert {name for name in listing if not isinstance(found[name].__all__, tuple)} == set()
    assert {
        f"{name}.{each}" for name in listing for each in found[name].__all__ if not hasattr(found[name], each)
    } == set()


DOORS = (
    "sealyard",
    "sealyard.broker",
    "sealyard.broker.policy",
    "sealyard.broker.upstreams",
    "sealyard.catalog",
    "sealyard.catalog.shapes",
    "sealyard.catalog.stubs",
    "sealyard.broker.upstreams.mcp",
    "sealyard.offload",
    "sealyard.sandbox",
    "sealyard.skills.sharing",
    "sealyard.store",
    "sealyard.store.audit",
    "sealyard.store.backup",
    "sealyard.store.metrics",
    "sealyard.values",
    "sealyard.versioning",
    "sealyard.versioning.compare",
    "sealyard.versioning.migrate",
    "sealyard.yard",
)


@pytest.mark.parametrize("name", DOORS)
def test_packages_export_all_their_public_names(name: str) -> None:
    """Nothing else can be taken from a package without an underscore than what `__all__` promises, submodules aside."""
    package = importlib.import_module(name)
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)} | {"guest"}

    public = {each for each in vars(package) if not each.startswith("_")} - submodules - {"TYPE_CHECKING", "lazy_door"}

    assert public - set(package.__all__) == set()
    assert len(package.__all__) <= 8


def test_every_package_has_a_door_of_at_most_eight_names() -> None:
    """A package that needs more names outside does more than one thing."""
    packages = [each.name for each in pkgutil.walk_packages(sealyard.__path__, "sealyard.") if each.ispkg]
    doors = {name: getattr(importlib.import_module(name), "__all__", None) for name in packages if ".guest" not in name}

    assert {name: door for name, door in doors.items() if door is None or len(door) > 8} == {}


def test_vault_and_tokens_are_imported_without_the_detectors() -> None:
    """Commands that read the store do not wait for the patterns of detectors to be compiled."""
    code = "import sys; from sealyard.privacy import TOKEN, vault; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    loaded = set(done.stdout.split())
    assert "sealyard.privacy.vault.seal" in loaded
    assert {"sealyard.privacy.guard", "sealyard.privacy.detect", "sealyard.privacy.reading"} & loaded == set()


def test_helper_that_reads_a_skill_imports_no_service() -> None:
    """The door of skills imports its names on first use: a helper process does not wait for the gateway's parts."""
    code = "import sys; import sealyard.skills.reading; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    loaded = set(done.stdout.split())
    assert "sealyard.skills.reading" in loaded
    assert {"sealyard.skills.service", "sealyard.skills.rehearsal", "sealyard.sandbox"} & loaded == set()


@pytest.mark.behaviour("cli.help")
def test_help_imports_no_part_of_the_product() -> None:
    """`sealyard --help` pays for click alone, however much the commands import."""
    code = """
import sys
import sealyard.cli
sys.argv = ["sealyard", "--help"]
try:
    sealyard.cli.main()
finally:
    print(*sys.modules, file=sys.stderr)
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    loaded = set(done.stderr.split())
    own = {name for name in loaded if name.startswith("sealyard")}
    assert own == {"sealyard", "sealyard.cli", "sealyard.doors", "sealyard.errors"}
    assert {"asyncio", "msgspec", "rich", "subprocess"} & loaded == set()


@pytest.mark.parametrize("name", sealyard.cli._COMMANDS)
def test_listed_commands_exist_and_say_the_same(name: str) -> None:
    """The table that `--help` prints names a command that exists and opens its own help with the same sentence."""
    command = sealyard.cli.find_command(name)

    assert isinstance(command, click.Command)
    assert (command.help or "").split("\n")[0] == sealyard.cli._COMMANDS[name]


def test_former_name_is_only_where_it_is_taken_over() -> None:
    """Neither text nor path spells it but the changelog, the module that takes over what has it, and its tests."""
    name = re.compile("tool" + "yard", re.IGNORECASE)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout.split("\0")[:-1]
    allowed = ("CHANGELOG.md", "src/sealyard/former.py", "tests/former/")

    found = [
        path
        for path in listed
        if (ROOT / path).is_file()
        if name.search(path) or name.search((ROOT / path).read_bytes().decode("latin-1"))
        if not path.startswith(allowed)
    ]

    assert len(listed) > 500
    assert found == []


def test_foreign_documents_are_decoded_by_a_reader_that_no_number_slows_down() -> None:
    """`1e308` takes msgspec forty microseconds, and ten thousand of them fit into a small answer.

    What is decoded without a type may hold any number. The files below do so in a helper process or in a thread, or
    read an id or what sealyard has written.
    """
    source = ROOT / "src" / "sealyard"
    folders = ("broker", "privacy", "sandbox", "serve/relay")
    found = {
        path.relative_to(source).as_posix(): count
        for folder in folders
        for path in sorted((source / folder).rglob("*.py"))
        if (count := len(re.findall(r"msgspec\.json\.decode\((?![^\n]*type=)", path.read_text(encoding="utf-8"))))
    }

    assert found == {
        "broker/admission.py": 1,
        "broker/upstreams/mcp/http.py": 1,
        "broker/upstreams/mcp/transport.py": 1,
        "broker/upstreams/python/description.py": 1,
        "privacy/guard.py": 1,
        "privacy/helper_guard.py": 2,
        "serve/relay/concealment.py": 1,
    }


def test_changelog_has_the_version() -> None:
    """The newest entry of the changelog is the version that the package reports."""
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[0] == sealyard.__version__


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_files_hold_no_address(lock: str) -> None:
    """Where packages come from is the installing machine's choice: no URL, host, path or index option is pinned."""
    text = (ROOT / lock).read_text(encoding="utf-8")

    assert re.findall(r"\w+://\S*|^-.*| @ \S+", text, re.MULTILINE) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_version_has_hashes(lock: str) -> None:
    """Each requirement is one exact version and at least one SHA-256."""
    requirements = _read_lock(lock)

    assert requirements
    assert [each for each in requirements if not re.search(r"==\S+.* --hash=sha256:[0-9a-f]{64}\b", each)] == []


def test_runtime_lock_is_part_of_the_development_lock() -> None:
    """Tests run with the very versions that users are told to install, and the wheel is tested by the same pytest."""
    for lock in ("requirements/runtime.txt", "requirements/wheel.txt"):
        assert set(_read_lock(lock)) <= set(_read_lock("requirements/dev.txt"))


def test_locks_hold_every_direct_dependency() -> None:
    """A dependency added to `pyproject.toml` without `make lock` is noticed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = {_name(each) for each in project["project"]["dependencies"]}
    development = {_name(each) for each in project["dependency-groups"]["dev"]}

    assert runtime - {_name(each) for each in _read_lock("requirements/runtime.txt")} == set()
    assert (runtime | development) - {_name(each) for each in _read_lock("requirements/dev.txt")} == set()


@pytest.mark.behaviour("isolation.guest_stdlib")
@pytest.mark.parametrize("file", sorted(GUEST.glob("*.py")), ids=lambda file: file.name)
def test_guest_imports_only_the_standard_library_and_itself(file: Path) -> None:
    """Inside the sandbox there is no site-packages and nothing of ours but this directory."""
    siblings = {each.stem for each in GUEST.glob("*.py")}
    imported = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add("." * node.level + (node.module or "").partition(".")[0])

    assert imported - siblings - sys.stdlib_module_names == set()


def test_marked_files_are_the_ones_that_contributing_lists() -> None:
    """Review rules attach to file names, so the list that reviewers read matches the marks in the files."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = [ROOT / name for name in re.findall(r"^- `(src/\S+)`$", text, re.MULTILINE)]
    marked = {
        file
        for file in SOURCE.rglob("*.py")
        if "Marked for security review" in (ast.get_docstring(ast.parse(file.read_bytes())) or "")
    }

    assert {path for path in listed if path.is_file()} - marked == set()
    assert {file for file in marked if not any(file.is_relative_to(path) for path in listed)} == set()


def test_wheel_holds_every_source_file_and_nothing_else(tmp_path: Path) -> None:
    """What is installed from a wheel has the guest's files and the type marker, and neither tests nor benchmarks."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=True,
    )
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    source = {file.relative_to(SOURCE.parent).as_posix() for file in SOURCE.rglob("*") if file.is_file()}
    assert packed == {name for name in source if "__pycache__" not in name}


def test_library_example_of_the_readme_runs() -> None:
    """The first code that a reader copies does what it says."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None

    done = subprocess.run([sys.executable, "-c", example[1]], capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.stderr) == ("ok 14\n", "")


def _read_lock(lock: str) -> list[str]:
    """The requirements, each on one line without comments."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / lock).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match[0].lower()
