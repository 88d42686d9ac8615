"""The analysis under the product's former name, by which saved skills may import it: the same modules, not copies."""

import importlib
import sys

_PRESENT = "sealyard_analysis"

importlib.import_module(_PRESENT)
for _name, _module in tuple(sys.modules.items()):
    if _name == _PRESENT or _name.startswith(f"{_PRESENT}."):
        sys.modules[__name__ + _name.removeprefix(_PRESENT)] = _module
