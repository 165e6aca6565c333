"""Generated from src/cloche/walls/ by scripts/blocking.py."""
