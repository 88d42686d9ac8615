"""Skills outside of the store: Agent Skills folders, signed archives of them, and markets."""

from sealyard.skills.sharing.archive import SigningKey, read_archive, write_archive
from sealyard.skills.sharing.files import load_folder, write_folders
from sealyard.skills.sharing.folder import read_folder, to_folder
from sealyard.skills.sharing.market import Market

__all__ = (
    "Market",
    "SigningKey",
    "load_folder",
    "read_archive",
    "read_folder",
    "to_folder",
    "write_archive",
    "write_folders",
)
