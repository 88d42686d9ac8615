"""All attacks."""

from attack import files, insides, kernel, limits, network, processes, protocol
from attack.model import Attempt

ATTEMPTS: tuple[Attempt, ...] = (
    *files.ATTEMPTS,
    *network.ATTEMPTS,
    *processes.ATTEMPTS,
    *kernel.ATTEMPTS,
    *insides.ATTEMPTS,
    *protocol.ATTEMPTS,
    *limits.ATTEMPTS,
)
