"""What the doors call: takes what a caller asks for, decides whether and when it may be done, and has it done.

Tests: tests/service
"""
