"""The door for models: MCP in, runs, sessions and files out; over streamable HTTP at /mcp and over stdio."""
