import { serious } from "./axe";
import { expect, test } from "./bench";

const helper = "import json\n\n\ndef load(text):\n    return json.loads(text)\n";
const main = `# %% first
import sys
sys.path.insert(0, "/sandbox/code")
from helper import load

def use(text):
    return load(text)

# %% second
try:
    {}["name"]
except KeyError:
    use("{")
`;

test("an error begins with what happened, and leads to every line of one's own that took part", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": main, "code/helper.py": helper });
  const failing = page.locator(".failing-line");
  await person.code.click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("Shift+Enter");
  await expect(person.last).toHaveAttribute("data-phase", "done");
  await person.run(); // the second cell, which calls the first one
  const error = person.last.getByRole("alert");
  await expect(error).toContainText(/^JSONDecodeError: Expecting property name/);
  await expect(error.getByText("Read the last lines")).toBeVisible(); // the hint
  const calls = error.getByRole("list", { name: "Calls, the innermost first" });
  await expect(calls.getByRole("listitem")).toHaveText([
    /^3 calls in json$/,
    /^code\/helper.py, line 5 in loadreturn json.loads\(text\)$/,
    /^code\/main.py, line 7 in usereturn load\(text\)$/,
    /^code\/main.py, line 13use\("\{"\)$/,
  ]);
  await expect(error).toContainText("Raised while handling KeyError: 'name'");
  await expect(error).not.toContainText("decoder.py");

  // The lines that called are marked; the failing one is in a file that is not open yet.
  await expect(page.locator(".calling-line")).toHaveCount(2);
  await expect(failing).toHaveCount(0);
  const library = calls.getByRole("button", { name: "3 calls in json" });
  await library.focus();
  await page.keyboard.press("Enter");
  await expect(calls).toContainText("decoder.py");
  expect(await serious(page)).toEqual([]);
  await person.shot("error");

  // Each link leads to its line: also of the cell before, and of another file.
  await calls.getByRole("button", { name: "code/main.py, line 7" }).click();
  await expect(page.getByText("Ln 7, Col 1")).toBeVisible();
  await calls.getByRole("button", { name: "code/main.py, line 13" }).click();
  await expect(page.getByText("Ln 13, Col 1")).toBeVisible();
  await calls.getByRole("button", { name: /helper.py/ }).click();
  await expect(page.getByText("Ln 5, Col 1")).toBeVisible();
  await expect(failing).toHaveCount(1);
  await expect(page.locator(".view-line").filter({ hasText: "json.loads" })).toContainText("JSONDecodeError: Expecting");
  await expect(page.getByRole("button", { name: "1 error" })).toBeVisible();
  await person.shot("error-mark");

  // An edit removes the marks of the file, and a run the others.
  await page.keyboard.press("End");
  await page.keyboard.insertText(" ");
  await expect(failing).toHaveCount(0);
  await page.getByRole("tab", { name: /main.py/ }).click();
  await expect(page.locator(".calling-line")).toHaveCount(2);
  await person.write("1 + 1\n");
  await person.run();
  await expect(page.locator(".calling-line")).toHaveCount(0);

  // As a program, which prints its traceback itself: that is not shown twice.
  await person.write("f = lambda: 1 / 0\n\nf()\n");
  await page.getByRole("button", { name: /Run options/ }).click();
  await page.getByRole("radio", { name: "As a program" }).click();
  await page.keyboard.press("Escape");
  await person.run();
  await expect(person.last.getByText("Traceback (most recent call last)")).toHaveCount(0);
  await expect(person.last.getByRole("button", { name: "code/main.py, line 1" })).toBeVisible();
  await expect(failing).toHaveCount(1);
  await person.last.getByRole("button", { name: "Show traceback" }).click();
  await expect(person.last.getByText("Traceback (most recent call last)")).toHaveCount(1);
});

test("variables are listed after each run, without asking them", async ({ person }) => {
  const { page } = person;
  const lines = [
    "import time",
    "class Slow:",
    "    def __repr__(self): time.sleep(60)",
    "    __len__ = __repr__",
    "slow, numbers, word = Slow(), list(range(500)), 'cloche'",
    "sales = {'Bern': 3, 'Rome': [5, slow]}",
    "markup = '<img src=x onerror=alert(1)>'",
  ];
  await person.begin({ "code/main.py": lines.join("\n"), "code/shelf.sh": "jam=plum\n" });
  await page.getByRole("button", { name: "Variables", exact: true }).click();
  await expect(page.getByText("No variables yet")).toBeVisible();
  await person.code.click();
  await person.run();
  const list = page.getByRole("list", { name: "Variables" });
  await expect(list.getByRole("listitem")).toHaveText([
    /^markup.*<img src=x onerror=alert\(1\)>/,
    /^numbers.*list 500\[0, 1, 2, /,
    /^sales.*dict 2\{'Bern': 3, 'Rome': \[5, <Slow>\]\}/,
    /^Slow.*typeclass Slow/,
    /^slow.*Slow<Slow>/,
    /^word.*str 6'cloche'/,
  ]);
  await list.getByRole("button", { name: /^numbers/ }).click();
  await expect(page.getByLabel("Value of numbers")).toContainText("498, 499]");
  expect(await serious(page)).toEqual([]);
  await person.shot("variables");

  // What changed is marked; a search narrows the list; the name goes to the clipboard or into the editor.
  await person.write("word = 'jar'\n");
  await person.run();
  await expect(list.getByRole("img", { name: "changed" })).toHaveCount(1);
  await page.getByLabel("Search variables").fill("WOR");
  await expect(list.getByRole("listitem")).toHaveCount(1);
  await list.getByRole("button", { name: /^word/ }).click();
  await list.getByRole("button", { name: "Copy the name" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("word");
  await list.getByRole("button", { name: "Insert the name into the editor" }).click();
  await expect(person.code).toContainText(/'jar'\s*word/);

  // Ten thousand: the page gets a part, and finds the others.
  await page.getByLabel("Search variables").fill("");
  await person.write("for n in range(10_000): globals()[f'v{n}'] = n\n");
  await person.run();
  await expect(page.getByText("These are 1,000 of 10,007 variables.")).toBeVisible();
  await page.getByLabel("Search variables").fill("v9999");
  await expect(list.getByRole("listitem")).toHaveText([/^v9999/]);

  // While code runs, the list says so.
  await page.getByLabel("Search variables").fill("word");
  await person.write("input('wait')\nword = 1\n");
  await page.keyboard.press("Control+Enter");
  await expect(page.getByText("Code is running. The list is from before.")).toBeVisible();
  await page.getByLabel("Input for the program").fill("go");
  await page.keyboard.press("Enter");
  await expect(list.getByRole("listitem")).toHaveText([/^word.*int1/]);

  // Another language, in a session of its own.
  await person.api.post(`/v1/sandboxes/${person.sandbox}/run`, { data: { code: "const jars = new Map([['a', 1]])", language: "javascript" } });
  await page.getByLabel("Search variables").fill("");
  await page.getByLabel("Session", { exact: true }).selectOption({ label: "JavaScript" });
  await expect(list.getByRole("listitem")).toHaveText([/^jars.*Map 1Map\(1\) \{"a" => 1\}/]);

  // Whoever goes on in another session sees that one.
  await page.keyboard.press("F1");
  await page.keyboard.type("shelf.sh");
  await page.getByRole("option", { name: "code/shelf.sh" }).click();
  await expect(person.code).toContainText("jam=plum");
  await person.code.click();
  await person.run();
  await expect(page.getByLabel("Session", { exact: true })).toHaveValue("bash");
  await expect(list.getByRole("listitem")).toHaveText([/^jam.*string 4'plum'/]);
});
