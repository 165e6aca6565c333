import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { serious } from "./axe";
import { expect, test } from "./bench";
import { endServer, newFolder, startServer } from "./serve";

const code = (port: number, host: string) =>
  `import urllib.request\ntry:\n    print(urllib.request.urlopen('http://${host}:${port}/').status)\nexcept Exception as problem:\n    print(problem)\n`;

test("the network panel shows every attempt; a refused host is allowed by one click, as far as the operator allows", async ({ browser }) => {
  test.setTimeout(90_000);
  const folder = newFolder();
  const web = createServer((_, response) => response.end("hello")).listen(0, "127.0.0.1");
  await once(web, "listening");
  const { port } = web.address() as AddressInfo;
  const { server, address, key } = await startServer(folder, 0, ["--max-network", `*.example.org,*.example.org:${port}`], {
    CLOCHE_NETWORK_PRIVATE: "127.0.0.0/8",
    CLOCHE_NETWORK_HOSTS: "other.example.org=127.0.0.1",
  });
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const api = { headers: { Authorization: `Bearer ${key}` } };
    const made = await context.request.post(`${address}/v1/sandboxes`, { ...api, data: { metadata: { name: "Test" } } });
    const { id } = (await made.json()) as { id: string };
    const run = (host: string) => context.request.post(`${address}/v1/sandboxes/${id}/run`, { ...api, data: { code: code(port, host) } });
    await page.goto(`${address}/?key=${key}`);
    await page.goto(`${address}/#/s/${id}`);
    await page.getByRole("button", { name: "Network", exact: true }).click();
    const panel = page.getByRole("region", { name: "Network" });
    await expect(panel.getByText("Programs in this sandbox can reach nothing.")).toBeVisible();
    await expect(panel.getByText("No connections yet")).toBeVisible();
    await expect(panel.getByText(`The operator of this server, or your key, allows at most *.example.org, *.example.org:${port}.`)).toBeVisible();
    await expect(panel.getByRole("option", { name: "The internet" })).toHaveAttribute("disabled", "");
    await expect(panel.getByRole("option", { name: "Hosts that I name" })).not.toHaveAttribute("disabled");

    // By keyboard alone.
    await panel.getByLabel("Host to allow").focus();
    await page.keyboard.type("api.example.org");
    await page.keyboard.press("Enter");
    const allowed = panel.getByRole("list", { name: "Allowed" });
    await expect(allowed).toContainText("api.example.org");
    await expect(panel.getByText("Programs in this sandbox can reach api.example.org.")).toBeVisible();
    await panel.getByLabel("Host to allow").fill(`api.example.org:${port}`);
    await page.keyboard.press("Enter");
    await expect(allowed.getByRole("listitem")).toHaveCount(2);

    await run("other.example.org");
    const attempts = panel.getByRole("list", { name: "Attempts, latest first" }).getByRole("listitem");
    await expect(attempts).toHaveCount(1);
    await expect(attempts.getByRole("img", { name: "refused" })).toBeVisible();
    await expect(attempts).toContainText(`other.example.org:${port}`);
    await expect(attempts).toContainText("no rule of the network policy allows it");
    for (const [theme, width] of [["light", 1440], ["dark", 1440], ["light", 390], ["dark", 390]] as const) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 844 });
      if (width === 390) {
        await page.getByRole("navigation", { name: "Views" }).getByRole("button", { name: "Files" }).click();
        await expect(panel).toBeVisible();
      }
      await page.waitForTimeout(200); // colours change softly, and are measured
      expect(await serious(page)).toEqual([]);
      await page.screenshot({ path: `results/screens/${theme}-${width}-network.png` });
    }
    await page.setViewportSize({ width: 1440, height: 900 });

    // A closed address cannot be allowed; another is, once, by keyboard, and the focus stays in the list.
    await run("10.1.2.3");
    await run("93.184.216.34");
    await expect(attempts).toHaveCount(3);
    await expect(attempts.nth(1)).toContainText("this address is closed");
    await expect(attempts.nth(1).getByRole("button")).toHaveCount(0);
    await expect(attempts.getByRole("button")).toHaveText(["Allow", "Allow"]);
    await panel.getByRole("button", { name: `Allow other.example.org:${port}` }).focus();
    await page.keyboard.press("Enter");
    await expect(attempts.getByRole("button")).toHaveCount(1);
    await expect(panel.getByRole("button", { name: `Allow 93.184.216.34:${port}` })).toBeFocused();
    await expect(allowed).toContainText(`other.example.org:${port}`);
    await run("other.example.org");
    await expect(attempts.getByRole("img", { name: "allowed" })).toHaveCount(1);

    await panel.getByLabel("Host to allow").fill("api.example.net");
    await panel.getByRole("button", { name: "Add" }).click();
    await expect(page.getByText("The network rule api.example.net is not allowed on this server.")).toBeVisible();
    await expect(allowed.getByRole("listitem")).toHaveCount(3);
    await panel.getByRole("button", { name: `Stop allowing other.example.org:${port}` }).click();
    await expect(allowed.getByRole("listitem")).toHaveCount(2);
    await expect(panel.getByRole("button", { name: `Stop allowing api.example.org:${port}` })).toBeFocused();
    await panel.getByRole("combobox", { name: "Allow" }).selectOption("Nothing");
    await expect(panel.getByText("Programs in this sandbox can reach nothing.")).toBeVisible();
  } finally {
    await context.close();
    await endServer(server, "SIGKILL");
    web.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("an error without a network leads to the panel, and presets give way to hosts by name", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "import urllib.request\nurllib.request.urlopen('http://api.example.org/')\n" });
  await person.code.click();
  await person.run();
  await expect(person.last.getByRole("alert")).toContainText("pass the data in as files, or allow the host with “Allow” in the panel Network.");
  await page.keyboard.press("Alt+i");
  await page.getByRole("button", { name: "What it may reach" }).click();
  const panel = page.getByRole("region", { name: "Network" });
  const preset = panel.getByRole("combobox", { name: "Allow" });

  await panel.getByLabel("Host to allow").fill("other.example.org");
  await page.keyboard.press("Enter");
  await expect(preset).toHaveValue("own");
  await person.run();
  await expect(person.last.getByRole("alert")).toContainText("The sandbox may not connect to api.example.org on port 80");
  await expect(panel.getByRole("button", { name: "Allow api.example.org" })).toBeVisible();
  // A rule that covers the host takes the button away.
  await preset.selectOption("The internet");
  await expect(panel.getByText("Programs in this sandbox can reach every public host on the usual ports.")).toBeVisible();
  await expect(panel.getByRole("button", { name: "Allow api.example.org" })).toHaveCount(0);
  await preset.selectOption("Hosts that I name");
  await expect(panel.getByText("Programs in this sandbox can reach nothing.")).toBeVisible();
  await expect(preset).toHaveValue("own");
  await panel.getByLabel("Host to allow").fill("*");
  await page.keyboard.press("Enter");
  await expect(panel.getByText("Programs in this sandbox can reach every host on the ports 80 and 443.")).toBeVisible();
});
