"""Addresses of crypto currencies, by prefix, length and check."""

import base64
import binascii
import re
from collections.abc import Callable

from sealyard.privacy.detect.checks import is_base58_checked, is_bech32

__all__ = ("WALLET", "WALLET_FORM", "is_wallet")

_BASE58 = "[1-9A-HJ-NP-Za-km-z]"
_BECH32 = "[02-9ac-hj-np-z]"

WALLET = re.compile(
    rf"""
    (?<![A-Za-z0-9])(?:
      (?P<ethereum>0x[0-9a-fA-F]{{40}})
    | (?P<bech32>(?:bc|tb|ltc|vtc|dgb|addr|stake|cosmos|osmo|juno|terra|inj|band|kava|celestia|erd|zs|bnb|one|sei|thor
        |axelar)1{_BECH32}{{20,110}}+|(?:BC|TB|LTC|ADDR)1[02-9AC-HJ-NP-Z]{{20,110}}+)
    | (?P<cash>(?:bitcoincash:)?[qp]{_BECH32}{{41}})
    | (?P<stellar>[GM][A-Z2-7]{{55}}(?:[A-Z2-7]{{13}})?)
    | (?P<monero>[48]{_BASE58}{{94}}(?:{_BASE58}{{11}})?)
    | (?P<ripple>[rX]{_BASE58}{{24,46}}+)
    | (?P<base58>(?:[13LMmn2DAX79TQztkKSV]|tz[1-4]|KT1){_BASE58}{{24,35}}+)
    )(?![A-Za-z0-9])
    """,
    re.VERBOSE,
)
"""Bitcoin, Ethereum, Litecoin, Dogecoin, Dash, Zcash, Tron, Tezos, XRP, Stellar, Monero, Cardano, Cosmos and kin."""
WALLET_FORM = rf"(?x:{re.sub(r'[?]P<[a-z0-9]+>', '?:', WALLET.pattern)})"
"""The same as a part of other patterns. Without names the engine passes over most branches by their first character."""


def is_wallet(text: str) -> bool:
    """Whether the text begins with an address that passes the check that its currency has."""
    wallet = WALLET.match(text)
    return wallet is not None and _CHECKS[wallet.lastgroup or ""](wallet[0])


def _is_ethereum(value: str) -> bool:
    """No check digit in most of them: any but the empty address and a run of one digit."""
    return len(set(value[2:].lower())) > 4


def _is_stellar(value: str) -> bool:
    """The last two bytes are the CRC-16 of those before them."""
    raw = base64.b32decode(value + "=" * (-len(value) % 8))
    return binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") == raw[-2:]


_CASH_STEPS = (0x98F2BC8E61, 0x79B76D99E2, 0xF33E5FB3C4, 0xAE2EABE2A8, 0x1E4F43E470)
_CASH_LETTERS = {letter: place for place, letter in enumerate("qpzry9x8gf2tvdw0s3jn54khce6mua7l")}


def _is_cash(value: str) -> bool:
    """The forty bits of check at the end of a Bitcoin Cash address."""
    body = value.rpartition(":")[2]
    state = 1
    for number in [*(ord(letter) & 31 for letter in "bitcoincash"), 0, *(_CASH_LETTERS[letter] for letter in body)]:
        top = state >> 35
        state = (state & 0x07FFFFFFFF) << 5 ^ number
        for bit, step in enumerate(_CASH_STEPS):
            if top >> bit & 1:
                state ^= step
    return state == 1


def _is_monero(value: str) -> bool:
    """Its check needs a hash that Python lacks; the length of 95 or 106 and the alphabet are telling."""
    return len(set(value)) > 20


_CHECKS: dict[str, Callable[[str], bool]] = {
    "ethereum": _is_ethereum,
    "bech32": is_bech32,
    "cash": _is_cash,
    "stellar": _is_stellar,
    "monero": _is_monero,
    "ripple": lambda value: is_base58_checked(value, ripple=True),
    "base58": is_base58_checked,
}
