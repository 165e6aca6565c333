"""How fast Cloche is, measured side by side with what people use instead: `make bench`, docs/performance.md."""
