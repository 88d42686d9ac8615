"""The vault: tokens, the private values they stand for, and the keys that seal them at rest.

A `Scope` turns values into tokens and back in memory; the `Vault` opens scopes and keeps them in a storage, which sees
nothing but `SealedScope` and `SealedValue`.
"""

from sealyard.privacy.vault.keys import KEY_FILE, KeyPlace, Keys
from sealyard.privacy.vault.scope import Scope
from sealyard.privacy.vault.seal import SealedScope, SealedValue
from sealyard.privacy.vault.vault import RevealedValue, Vault

__all__ = ("KEY_FILE", "KeyPlace", "Keys", "RevealedValue", "Scope", "SealedScope", "SealedValue", "Vault")
