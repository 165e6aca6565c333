import { serious } from "./axe";
import { expect, test } from "./bench";

const SERVER = `
import base64, hashlib, http.server, socketserver, sys

PAGE = """<!doctype html><title>Inside</title><h1 id=h>from the sandbox</h1><p id=o></p><p id=w></p><p id=t></p>
<script>
o.textContent = origin;
document.cookie = "mine=1"; localStorage.setItem("visits", 1 + Number(localStorage.getItem("visits")));
t.textContent = "visit " + localStorage.getItem("visits");
const socket = new WebSocket(location.origin.replace("http", "ws") + "/socket");
socket.onmessage = ({ data }) => (w.textContent = "socket says " + data);
if (top !== self) try { top.location = "about:blank" } catch { }
</script>"""

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        if self.path == "/socket":
            accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
            self.wfile.write(f"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: {accept}\\r\\n\\r\\n".encode())
            self.wfile.write(b"\\x81\\x05hello")
            self.rfile.read(1)
            return
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True

Server(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
`;

test("a server that a program starts is offered as a tab, in a frame of another origin, until it stops", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/server.py": SERVER });
  const results = page.getByRole("tablist", { name: "Output and previews" }).filter({ visible: true });
  await expect(results).toHaveCount(0);
  const commands = `/v1/sandboxes/${person.sandbox}/commands`;
  const start = async (port: number): Promise<string> => {
    const made = await person.api.post(commands, { data: { command: ["python3", "/sandbox/code/server.py", String(port)] } });
    return ((await made.json()) as { id: string }).id;
  };
  const first = await start(8000);
  await start(8001);
  await expect(results.getByRole("tab")).toHaveText(["Output", "Port 8000", "Port 8001"]);
  await expect(page.getByText("A server listens on port 8000")).toBeVisible();
  await results.getByRole("tab", { name: "Port 8000" }).click();
  const frame = page.frameLocator('iframe[title="The server on port 8000"]');
  await expect(frame.locator("#h")).toHaveText("from the sandbox");
  await expect(frame.locator("#o")).toHaveText(/^http:\/\/[a-z2-7]{32}\.localhost:\d+$/);
  await expect(frame.locator("#w")).toHaveText("socket says hello");
  await expect(frame.locator("#t")).toHaveText("visit 1");
  await page.getByRole("button", { name: "Reload the preview" }).filter({ visible: true }).click();
  await expect(frame.locator("#t")).toHaveText("visit 2"); // the same origin, with its storage
  expect(await page.evaluate(() => location.hash)).toContain("/s/"); // the frame cannot replace the page
  await page.emulateMedia({ colorScheme: "light" });
  expect(await serious(page)).toEqual([]);
  await person.shot("light-preview");

  // Its own window has the same address.
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: "Open in a new window" }).filter({ visible: true }).click();
  const other = await opened;
  await expect(other.locator("#t")).toHaveText(/visit \d/);
  await other.close();

  // It stops, and its tab goes; it comes back, and is shown again.
  await person.api.delete(`${commands}/${first}`);
  await expect(results.getByRole("tab")).toHaveText(["Output", "Port 8001"]);
  await expect(page.getByText("Nothing has run yet")).toBeVisible();
  await start(8000);
  await expect(frame.locator("#h")).toBeVisible();
  await page.keyboard.press("Tab");
  await results.getByRole("tab", { name: "Port 8000" }).focus();
  await page.keyboard.press("ArrowLeft");
  await expect(page.getByText("Nothing has run yet")).toBeVisible();

  // Below our own address, it has no origin, and the page says what is missing.
  await results.getByRole("tab", { name: "Port 8000" }).click();
  await page.getByRole("button", { name: "More about this preview" }).filter({ visible: true }).click();
  await page.getByRole("menuitem", { name: "Use an address below this server" }).click();
  await expect(frame.locator("#o")).toHaveText("null");
  await expect(page.getByText("no cookies and no storage")).toBeVisible();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.getByRole("button", { name: "Output", exact: true }).click();
  await page.waitForTimeout(200); // colours change softly, and are measured
  expect(await serious(page)).toEqual([]);
  await person.shot("dark-phone-preview");
  // Everything that was asked for outside our host belongs to the servers inside.
  expect(person.strangers.filter((one) => !/^(http|ws):\/\/[a-z2-7]{32}\.localhost:\d+\//.test(one))).toEqual([]);
  person.strangers.length = 0;
  person.complaints.length = 0;
});

test("an HTML file is shown as a page, with the files beside it, without an origin and without a network", async ({ person }) => {
  const { page } = person;
  const html = `<!doctype html><link rel=stylesheet href="style.css"><h1 id=h>plain</h1><p id=o></p><img src="gone.png"><script src="js/app.js"></script>`;
  await person.begin({ "code/main.py": "", "code/page.html": html, "code/style.css": "h1 { color: rgb(1, 2, 3) }", "code/js/app.js": "o.textContent = origin; h.textContent = 'moved'; fetch('/v1/version').catch(() => (o.textContent += ' and alone'))" });
  await page.getByRole("treeitem", { name: "page.html" }).click();
  const frame = page.frameLocator('iframe[title="page.html"]');
  await expect(frame.locator("#h")).toHaveText("moved");
  await expect(frame.locator("#h")).toHaveCSS("color", "rgb(1, 2, 3)");
  await expect(frame.locator("#o")).toHaveText("null and alone");
  await expect(page.getByText("Not found or too large: gone.png.")).toBeVisible();
  await person.shot("html-preview");
  await person.api.put(`/v1/sandboxes/${person.sandbox}/files/code/js/app.js`, { data: "h.textContent = 'again'" });
  await page.getByRole("button", { name: "Reload", exact: true }).click();
  await expect(frame.locator("#h")).toHaveText("again");
  await page.getByRole("button", { name: "Text" }).click();
  await expect(person.code).toContainText("style.css");
  person.strangers.length = 0; // the frame's policy has refused its request
});
