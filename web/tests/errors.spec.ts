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
