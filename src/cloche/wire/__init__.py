"""What engine and agent say to each other: frames on one byte stream, bounded on both sides."""
