"""Files for other programs: alert rules for Prometheus and dashboards for Grafana. Both load them as they are."""

from pathlib import Path

from sealyard.errors import InvalidRequest

__all__ = ("NAMES", "write")

NAMES = ("prometheus-rules.yml", "grafana-overview.json", "grafana-tokens.json", "grafana-upstreams.json")


def write(folder: Path) -> list[Path]:
    """Copy all files into a folder, which is made if need be, over older ones of the same name.

    Raises:
        InvalidRequest: The folder cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            path = folder / name
            path.write_bytes(Path(__file__).with_name(name).read_bytes())
            written.append(path)
    except OSError as error:
        raise InvalidRequest(
            f"{str(folder)!r} cannot be written: {error.strerror}. Name a folder that can, or make room."
        ) from error
    return written
