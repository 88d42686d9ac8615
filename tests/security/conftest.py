"""Makes the attacks importable: they also run in processes of their own, where there is no pytest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
