"""The words that all of Cloche shares, as plain data: limits, results, events, files.  No input, no output."""
