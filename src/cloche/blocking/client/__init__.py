"""Generated from src/cloche/client/ by scripts/blocking.py."""
