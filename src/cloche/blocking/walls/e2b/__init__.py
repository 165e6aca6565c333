"""Generated from src/cloche/walls/e2b/ by scripts/blocking.py."""
