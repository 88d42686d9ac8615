"""Telephone numbers: with their country code by value, in a national form by its shape.

Own rules instead of a metadata package: an answer holds numbers of any country without saying which, many of them made
up or mistyped, so what counts is the shape people write, not whether an operator has assigned the number.
"""

import re

from sealyard.privacy.detect.checks import digits_of

__all__ = ("EXTENSION", "INTERNATIONAL", "NATIONAL", "is_international", "is_national")

_COUNTRY_CODES = frozenset(
    "1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86"
    " 90 91 92 93 94 95 98 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237"
    " 238 239 240 241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 256 257 258 260 261 262 263 264 265 266"
    " 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 357 358 359 370 371 372 373 374 375 376 377 378 379"
    " 380 381 382 383 385 386 387 389 420 421 423 500 501 502 503 504 505 506 507 508 509 590 591 592 593 594 595 596"
    " 597 598 599 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692 800 808 850 852"
    " 853 855 856 870 878 880 881 882 883 886 888 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977"
    " 979 992 993 994 995 996 998".split()
)

EXTENSION = re.compile(
    r"[ ,;]{0,2}(?:x|ext\.?|extension|#|durchwahl|poste|int\.?)[ :.]{0,2}([0-9]{1,6})(?![0-9A-Za-z])", re.IGNORECASE
)
"""What may follow a number: the extension within a house."""

INTERNATIONAL = re.compile(
    r"(?<![A-Za-z0-9_])(?:\+|(?<![0-9] )00(?=[1-9]))[ (]{0,2}[1-9](?:[ ().\-/]{0,3}[0-9]){5,14}+"
)
"""A country code and what belongs to it. `is_international` decides."""


def is_international(value: str) -> bool:
    """Whether the digits start with a country code and are as many as its numbers have."""
    digits = digits_of(value)
    if not value.lstrip().startswith("+"):
        digits = digits.removeprefix("00")
    if digits[:1] in {"1", "7"}:
        return len(digits) == 11
    code = next((digits[:length] for length in (2, 3) if digits[:length] in _COUNTRY_CODES), None)
    return code is not None and 5 <= len(digits) - len(code) <= 13 and 8 <= len(digits) <= 15


NATIONAL = re.compile(
    r"""
    (?<![A-Za-z0-9_])(?<![A-Za-z0-9][.\-/])
    (?:
      (?:1[ .\-])?\(?[0-9]{3}\)?[ ]?[.\-][ ]?[0-9]{3}[ .\-][0-9]{4}      # 555-123-4567, (555)-123-4567
    | (?:1[ .\-])?\([0-9]{3}\)[ ]?[0-9]{3}[ .\-]?[0-9]{4}                # (555) 123-4567
    | (?<![0-9][ ])(?:1[ .\-])?[2-9][0-9]{2}[ ][2-9][0-9]{2}[ \-][0-9]{4}             # 555 234 4567
    | [2-9][0-9]{2}/[0-9]{3}-[0-9]{4}                                    # 555/123-4567
    | \(0[0-9]{1,5}\)(?:[ .\-/]{0,2}[0-9]{2,8}){1,4}                     # (030) 1234 5678
    | (?<![0-9][ ])0[0-9]{1,5}(?:[ .\-/][0-9]{2,8}){1,5}                              # 030 1234567, 06 12 34 56 78
    | (?<![0-9][ ])0[0-9]{1,4}[ ]?[\-/][ ]?[0-9]{3,8}(?:[ \-][0-9]{2,5}){0,3}         # 030 / 123456
    | \([1-9][0-9]{1,3}\)[ ]?[0-9]{3,5}[ \-]?[0-9]{3,5}                  # (11) 91234-5678
    | [1-9][0-9][ ]9?[0-9]{4}-[0-9]{4}                                   # 11 91234-5678
    | 8[ \-]?\(?[3-9][0-9]{2}\)?[ \-][0-9]{3}[ \-][0-9]{2}[ \-]?[0-9]{2} # 8 (912) 345-67-89
    | 1[3-9][0-9][ \-][0-9]{4}[ \-][0-9]{4}                              # 138 1234 5678
    | [6-9][0-9]{4}[ \-][0-9]{5}                                         # 98765 43210
    | 1[38]00[ \-][0-9]{3}[ \-][0-9]{3}                                  # 1300 123 456
    )
    (?![0-9])(?![.\-/](?:[0-9]|[A-Za-z]{1,2}(?![A-Za-z])))(?![A-WYZa-wyz_])
    """,
    re.VERBOSE,
)
"""A number as people write it at home. `is_national` decides."""

_ARTICLE_NUMBER = re.compile(r"97[89][ \-]|[0-9]-[0-9]{2,7}-[0-9]{2,7}-[0-9X]")


def is_national(value: str) -> bool:
    """Whether a text of the form `NATIONAL` has as many digits as a number, and is no ISBN."""
    digits = digits_of(value)
    if _ARTICLE_NUMBER.match(value) or len(set(digits)) < 2:
        return False
    if digits.startswith("00"):
        return is_international(value)
    return (8 if value[0] == "(" else 9) <= len(digits) <= 12
