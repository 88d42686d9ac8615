"""Which files make up the packages that code may import: those that were named, what they require, and nothing else."""

from pathlib import Path

import pytest

from sealyard.sandbox.importable import GuestPackages, find_packages

NOTHING = GuestPackages(versions={}, entries=(), imports=(), modules=frozenset())


def install(folder: Path, name: str, *files: str, requires: tuple[str, ...] = (), version: str = "1.0") -> None:
    """Put a distribution with these files into `folder`, as an installer does."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    record = [*files, f"{info}/METADATA", f"{info}/RECORD", f"../../../bin/{name}"]
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    (folder / info).mkdir()
    (folder / info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / info / "RECORD").write_text("".join(f"{file},,\n" for file in record), encoding="utf-8")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder of installed packages, some of which need others."""
    install(
        tmp_path,
        "frames",
        "frames/__init__.py",
        "frames/core.py",
        "frames.libs/libx.so",
        "__pycache__/frames.pyc",
        requires=(
            "arrays>=1",
            "Date.Utils (>=2) ; python_version >= '3'",
            "missing",
            "plots; extra == 'plot'",
            "extra-kit>=1; python_version > '3'",
        ),
        version="2.1",
    )
    install(tmp_path, "arrays", "arrays/__init__.py", "_arrays.cpython-311-x86_64-linux-gnu.so", requires=("frames",))
    install(tmp_path, "date-utils", "dateutils.py", requires=("sixth",))
    install(tmp_path, "sixth", "sixth.py", "sixth-extra.pth")
    install(tmp_path, "extra-kit", "extrakit/__init__.py")
    install(tmp_path, "plots", "plots/__init__.py")
    install(tmp_path, "gateway-secrets", "gateway_secrets/__init__.py")
    return tmp_path


def names(found: GuestPackages) -> list[str]:
    """What is visible inside, by name."""
    return sorted(name for _, name in found.entries)


def test_package_brings_its_files_and_what_it_requires(environment: Path) -> None:
    """Requirements are followed to their end, in circles too; extras, what is missing and the rest are left out."""
    found = find_packages(("frames",), environment=environment)

    assert found == GuestPackages(
        versions={"frames": "2.1"},
        entries=found.entries,
        imports=("frames",),
        modules=frozenset({"frames", "arrays", "_arrays", "dateutils", "sixth", "extrakit"}),
    )
    assert names(found) == [
        "_arrays.cpython-311-x86_64-linux-gnu.so",
        "arrays",
        "arrays-1.0.dist-info",
        "date_utils-1.0.dist-info",
        "dateutils.py",
        "extra_kit-1.0.dist-info",
        "extrakit",
        "frames",
        "frames-2.1.dist-info",
        "frames.libs",
        "sixth-1.0.dist-info",
        "sixth-extra.pth",
        "sixth.py",
    ]
    assert {name: source for source, name in found.entries}["arrays"] == str(environment / "arrays")


def test_names_are_found_however_they_are_spelled(environment: Path) -> None:
    """Case, dots, dashes and underscores make no difference; the real name is reported."""
    found = find_packages(("Date_Utils", "ARRAYS"), environment=environment)

    assert (found.versions["date-utils"], found.versions["arrays"]) == ("1.0", "1.0")


def test_only_what_was_named_is_reported_and_imported_first(environment: Path) -> None:
    """A requirement is visible but neither listed nor pre-warmed."""
    found = find_packages(("date-utils", "sixth"), environment=environment)

    assert (found.versions, found.imports) == ({"date-utils": "1.0", "sixth": "1.0"}, ("sixth",))


@pytest.mark.parametrize("wanted", [(), ("not-installed",)])
def test_nothing_is_found_where_nothing_is(environment: Path, wanted: tuple[str, ...]) -> None:
    """Names that are not installed are left out in silence."""
    assert find_packages(wanted, environment=environment) == NOTHING


def test_the_rest_of_an_interrupted_uninstallation_is_passed_over(environment: Path) -> None:
    """It is a folder that says neither name nor version, with or without the package beside it."""
    for broken in ("gone-1.0", "sixth-0.9", "sixth-2.0"):
        (environment / f"{broken}.dist-info").mkdir()

    assert find_packages(("gone",), environment=environment) == NOTHING
    assert find_packages(("sixth",), environment=environment).versions == {"sixth": "1.0"}


def test_empty_environment_has_no_packages(tmp_path: Path) -> None:
    """Not even those of the gateway."""
    assert find_packages(("msgspec", "pytest"), environment=tmp_path) == NOTHING


def test_files_that_are_gone_are_left_out(environment: Path) -> None:
    """A record may list what somebody has deleted since."""
    (environment / "sixth.py").unlink()

    assert names(find_packages(("sixth",), environment=environment)) == ["sixth-1.0.dist-info", "sixth-extra.pth"]


def test_links_are_followed_to_the_real_files(environment: Path) -> None:
    """An environment of links, as some installers make them, shows where the files lie."""
    real = environment / "store"
    real.mkdir()
    (environment / "plots").rename(real / "plots")
    (environment / "plots").symlink_to(real / "plots")

    entries = {name: source for source, name in find_packages(("plots",), environment=environment).entries}

    assert entries["plots"] == str(real / "plots")


def test_packages_of_the_gateway_itself_are_found_by_default() -> None:
    """Without an environment of their own they come from the gateway's import path."""
    found = find_packages(("hypothesis",))

    assert "hypothesis" in found.versions
    assert {"hypothesis", "sortedcontainers"} <= found.modules
    assert "pytest" not in found.modules
