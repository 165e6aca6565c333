"""Generated from src/cloche/walls/jail/ by scripts/blocking.py."""
