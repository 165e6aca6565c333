"""The MCP server: code execution, sessions and files for models, over streamable HTTP at /mcp and over stdio."""
