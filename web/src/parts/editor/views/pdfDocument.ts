/** The document in which a PDF is drawn, in the frame for foreign HTML: it has no origin, no network and no cookies.
 *
 * pdf.js, its worker and the file come in one message. Pages are drawn when they come into sight. */

const script = `
  const tell = (message) => parent.postMessage(message, "*");
  const MOST_PAGES = 2000, MOST_PIXELS = 12e6;
  const address = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const area = document.querySelector("main");
  let lib, pdf, scale = 1, generation = 0, size;
  const drawn = new Map();

  async function draw(box) {
    const mine = generation;
    const page = await pdf.getPage(Number(box.dataset.page));
    const natural = page.getViewport({ scale: 1 });
    const viewport = page.getViewport({ scale: widthOf() / natural.width });
    const dense = Math.min(devicePixelRatio || 1, 2, Math.sqrt(MOST_PIXELS / (viewport.width * viewport.height)));
    if (mine !== generation || drawn.get(box) !== mine) return;
    box.style.height = viewport.height + "px";
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, viewport.width * dense);
    canvas.height = Math.max(1, viewport.height * dense);
    canvas.setAttribute("aria-hidden", "true");
    const text = document.createElement("div");
    text.className = "text";
    text.style.setProperty("--total-scale-factor", viewport.scale);
    await page.render({ canvas, viewport, transform: [dense, 0, 0, dense, 0, 0] }).promise;
    if (mine !== generation || drawn.get(box) !== mine) return;
    box.replaceChildren(canvas, text);
    await new lib.TextLayer({ textContentSource: page.streamTextContent(), container: text, viewport }).render();
  }

  const widthOf = () => Math.max(120, Math.min(area.clientWidth - 24, 900) * scale);
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !drawn.has(target)) {
        drawn.set(target, generation);
        draw(target).catch(() => (target.textContent = "This page cannot be shown."));
      } else if (!isIntersecting && drawn.delete(target)) target.replaceChildren();
    }
  }, { rootMargin: "800px 0px" });

  function layOut() {
    generation++;
    drawn.clear();
    const count = Math.min(pdf.numPages, MOST_PAGES);
    const place = document.documentElement.scrollTop / Math.max(1, document.documentElement.scrollHeight);
    sight.disconnect();
    area.replaceChildren(...Array.from({ length: count }, (_, at) => {
      const box = document.createElement("section");
      box.dataset.page = at + 1;
      box.setAttribute("aria-label", "Page " + (at + 1));
      box.style.width = widthOf() + "px";
      box.style.height = (widthOf() * size.height) / size.width + "px";
      sight.observe(box);
      return box;
    }));
    document.documentElement.scrollTop = place * document.documentElement.scrollHeight;
  }

  // A document without an origin may start no worker that is a module, but one that imports a module.
  const started = (code) => new Promise((resolve, reject) => {
    const first = "onmessage = ({ data }) => { onmessage = null; import(URL.createObjectURL(new Blob([data], "
      + "{ type: 'text/javascript' }))).catch(() => postMessage('failed')); }";
    const made = new Worker(address(first));
    made.onerror = reject;
    made.onmessage = ({ data }) => {
      made.onmessage = made.onerror = null;
      if (data === "failed") reject(new Error("the worker did not start"));
      else resolve(made); // the first message of pdf.js says that it is ready
    };
    made.postMessage(code);
  });

  async function open({ library, worker, data }) {
    lib = await import(address(library));
    lib.GlobalWorkerOptions.workerPort = await started(worker);
    pdf = await lib.getDocument({ data, isEvalSupported: false, useWasm: false, useWorkerFetch: false, enableXfa: false }).promise;
    size = (await pdf.getPage(1)).getViewport({ scale: 1 });
    layOut();
    let width = area.clientWidth, later;
    new ResizeObserver(() => {
      clearTimeout(later);
      later = setTimeout(() => area.clientWidth !== width && ((width = area.clientWidth), layOut()), 150);
    }).observe(area);
    tell({ pages: pdf.numPages });
  }

  addEventListener("message", ({ source, data }) => {
    if (source !== parent) return;
    if (data.library) open(data).catch((problem) => tell({ problem: problem.name === "PasswordException" ? "password" : "damaged" }));
    else if (data.scale && pdf) {
      scale = data.scale;
      layOut();
    }
  });
  tell({ waits: true });
`;

const style = `
  html { overflow: auto; height: 100%; }
  body { margin: 0; font: 13px/1.5 system-ui, sans-serif; }
  main { display: flow-root; min-width: fit-content; }
  section { position: relative; margin: 12px auto; background: #fff; color: #555; box-shadow: 0 1px 4px rgb(0 0 0 / .25); }
  canvas { display: block; width: 100%; height: 100%; }
  .text { position: absolute; inset: 0; overflow: clip; line-height: 1; text-align: initial; transform-origin: 0 0; --min-font-size: 1;
    --text-scale-factor: calc(var(--total-scale-factor) * var(--min-font-size)); --min-font-size-inv: calc(1 / var(--min-font-size)); }
  .text span, .text br { position: absolute; color: transparent; white-space: pre; cursor: text; transform-origin: 0 0; }
  .text > :not(.markedContent), .text .markedContent span:not(.markedContent) { --font-height: 0; --scale-x: 1; --rotate: 0deg;
    font-size: calc(var(--text-scale-factor) * var(--font-height));
    transform: rotate(var(--rotate)) scaleX(var(--scale-x)) scale(var(--min-font-size-inv)); }
  ::selection { background: rgb(31 107 79 / .3); }
`;

export const pdfDocument = (title: string): string => {
  const name = title.replace(/[<&]/g, "");
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${name}</title><style>${style}</style><main></main><script type="module">${script}</script>`;
};
