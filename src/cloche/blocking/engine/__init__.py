"""Generated from src/cloche/engine/ by scripts/blocking.py."""
