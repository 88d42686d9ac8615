"""All attacks, by the module that holds them."""

from attack import files, insides, kernel, limits, network, processes, protocol
from attack.model import Attempt
from attack.scenes import SCENES, Scene

ATTEMPTS: tuple[Attempt, ...] = (
    *files.ATTEMPTS,
    *network.ATTEMPTS,
    *processes.ATTEMPTS,
    *kernel.ATTEMPTS,
    *insides.ATTEMPTS,
    *protocol.ATTEMPTS,
    *limits.ATTEMPTS,
)

GROUPS: dict[str, tuple[Attempt | Scene, ...]] = {
    "files": tuple(files.ATTEMPTS),
    "network": tuple(network.ATTEMPTS),
    "processes": tuple(processes.ATTEMPTS),
    "kernel": tuple(kernel.ATTEMPTS),
    "insides": tuple(insides.ATTEMPTS),
    "protocol": tuple(protocol.ATTEMPTS),
    "limits": tuple(limits.ATTEMPTS),
    "scenes": tuple(SCENES),
}
"""Every attempt and scene once. A test takes one group of one leg."""
