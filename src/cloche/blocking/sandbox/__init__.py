"""Generated from src/cloche/sandbox/ by scripts/blocking.py."""
