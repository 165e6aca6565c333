// Written by scripts/page_types.py from src/cloche/cli/mcp_clients.py. Do not edit.

export interface McpClient {
  name: "claude" | "claude-code" | "cursor" | "vscode" | "windsurf" | "gemini";
  title: string;
  /** The folder of its configuration: the user's home, or where programs keep their settings. */
  folder: "home" | "settings";
  file: string;
  /** The entry for a server, with `{url}` and `{key}` in place of its address and a key. */
  config: string;
}

export const CLIENTS: readonly McpClient[] = [
  {
    "name": "claude",
    "title": "Claude Desktop",
    "folder": "settings",
    "file": "Claude/claude_desktop_config.json",
    "config": "{\n  \"mcpServers\": {\n    \"cloche\": {\n      \"command\": \"cloche\",\n      \"args\": [\"mcp\", \"--url\", \"{url}\"],\n      \"env\": {\n        \"CLOCHE_API_KEY\": \"{key}\"\n      }\n    }\n  }\n}"
  },
  {
    "name": "claude-code",
    "title": "Claude Code",
    "folder": "home",
    "file": ".claude.json",
    "config": "{\n  \"mcpServers\": {\n    \"cloche\": {\n      \"type\": \"http\",\n      \"url\": \"{url}/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer {key}\"\n      }\n    }\n  }\n}"
  },
  {
    "name": "cursor",
    "title": "Cursor",
    "folder": "home",
    "file": ".cursor/mcp.json",
    "config": "{\n  \"mcpServers\": {\n    \"cloche\": {\n      \"url\": \"{url}/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer {key}\"\n      }\n    }\n  }\n}"
  },
  {
    "name": "vscode",
    "title": "VS Code",
    "folder": "settings",
    "file": "Code/User/mcp.json",
    "config": "{\n  \"servers\": {\n    \"cloche\": {\n      \"type\": \"http\",\n      \"url\": \"{url}/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer {key}\"\n      }\n    }\n  }\n}"
  },
  {
    "name": "windsurf",
    "title": "Windsurf",
    "folder": "home",
    "file": ".codeium/windsurf/mcp_config.json",
    "config": "{\n  \"mcpServers\": {\n    \"cloche\": {\n      \"serverUrl\": \"{url}/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer {key}\"\n      }\n    }\n  }\n}"
  },
  {
    "name": "gemini",
    "title": "Gemini CLI",
    "folder": "home",
    "file": ".gemini/settings.json",
    "config": "{\n  \"mcpServers\": {\n    \"cloche\": {\n      \"httpUrl\": \"{url}/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer {key}\"\n      }\n    }\n  }\n}"
  }
];
