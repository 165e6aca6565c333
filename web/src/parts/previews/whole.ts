/** An HTML file with the files that it names: the frame that shows it has no network, and so cannot load them itself. */

import * as api from "../../api/cloche";
import { theSandbox } from "../../state/sandbox";
import { parentOf } from "../../state/tree";

export interface Whole {
  html: string;
  /** Files that are not there, or too many or too large. */
  missing: string[];
  isFromElsewhere: boolean;
}

const MAX_FILES = 50;
const MAX_BYTES = 8 << 20;
const PLACES = [["link[rel~=stylesheet]", "href", "text/css"], ["script[src]", "src", "text/javascript"], ["img[src]", "src", ""], ["source[src]", "src", ""], ["audio[src]", "src", ""], ["video[src]", "src", ""], ["link[rel~=icon]", "href", ""]] as const;
const TYPES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml", ico: "image/x-icon", mp3: "audio/mpeg", wav: "audio/wav", ogg: "audio/ogg", mp4: "video/mp4", webm: "video/webm" };

export async function whole(html: string, path: string): Promise<Whole> {
  // A document that is only parsed runs no script and loads nothing.
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const found: Whole = { html, missing: [], isFromElsewhere: false };
  let [files, left] = [0, MAX_BYTES];
  for (const [selector, attribute, type] of PLACES) {
    for (const element of parsed.querySelectorAll(selector)) {
      const reference = element.getAttribute(attribute)?.trim() ?? "";
      if (/^([a-z][a-z\d+.-]*:)?\/\//i.test(reference)) found.isFromElsewhere = true;
      const file = fileOf(reference, path);
      if (!file) continue;
      const data = files++ < MAX_FILES ? await contents(file, left) : null;
      if (!data) {
        found.missing.push(reference.slice(0, 100));
        continue;
      }
      left -= data.size;
      element.setAttribute(attribute, await addressOf(data, type || (TYPES[/\.(\w+)$/.exec(file)?.[1]?.toLowerCase() ?? ""] ?? "application/octet-stream")));
      element.removeAttribute("integrity");
      element.removeAttribute("crossorigin");
    }
  }
  if (files > 0) found.html = (parsed.doctype ? "<!doctype html>" : "") + parsed.documentElement.outerHTML;
  return found;
}

/** The file that a relative address names; null for other addresses. */
function fileOf(reference: string, path: string): string | null {
  if (!reference || /^([a-z][a-z\d+.-]*:|\/|#|\?)/i.test(reference)) return null;
  try {
    return decodeURIComponent(new URL(reference, `http://files${parentOf(path)}/`).pathname);
  } catch {
    return null;
  }
}

async function contents(file: string, most: number): Promise<Blob | null> {
  const id = theSandbox();
  try {
    if ((await api.stat(id, file)).size > most) return null;
    const data = await (await api.readFile(id, file)).blob();
    return data.size > most ? null : data;
  } catch {
    return null;
  }
}

function addressOf(data: Blob, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error("The file cannot be read."));
    reader.readAsDataURL(new Blob([data], { type }));
  });
}
