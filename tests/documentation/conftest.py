"""Tests of the documentation: they read files of the repository, and need neither network nor account."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/docs"))
