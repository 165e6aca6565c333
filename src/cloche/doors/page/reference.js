// Finds operations by words, copies examples, names this server in them, and opens what a link leads to.
const field = document.querySelector("#search");
const parts = [...document.querySelectorAll("main section[id]")];
const nothing = document.querySelector("#nothing");

for (const place of document.querySelectorAll("[data-server]")) place.textContent = location.origin;

function find() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const part of parts) {
    let here = 0;
    for (const one of part.querySelectorAll("details[data-words]")) {
      one.hidden = !words.every((word) => one.dataset.words.includes(word));
      if (!one.hidden) here++;
    }
    part.hidden = here === 0;
    found += here;
  }
  for (const link of document.querySelectorAll(".side li")) {
    link.hidden = document.getElementById(link.dataset.of).hidden;
  }
  for (const group of document.querySelectorAll(".side [data-subject]")) {
    group.hidden = document.getElementById(group.dataset.subject).hidden;
  }
  nothing.hidden = found > 0;
  document.querySelector("#intro").hidden = words.length > 0;
}

field.addEventListener("input", find);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    find();
  } else if (event.key === "Enter" && document.activeElement === field) {
    const first = document.querySelector("details[data-words]:not([hidden])");
    if (first && !first.closest("[hidden]")) {
      first.open = true;
      first.querySelector("summary").focus();
    }
  }
});

for (const button of document.querySelectorAll(".copied button")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text";
      getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.hidden || target.closest("[hidden]")) {
    field.value = "";
    find();
  }
  if (target instanceof HTMLDetailsElement) target.open = true;
  target.scrollIntoView();
}

addEventListener("hashchange", openTarget);
openTarget();
