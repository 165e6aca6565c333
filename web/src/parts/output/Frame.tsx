import { useEffect, useRef, useState } from "react";
import { app } from "../../state/app";
import { useStore } from "../../state/store";
import { classes } from "../../ui/classes";

const MAX_HEIGHT = 640;
const SCRIPT = /<script|\son\w+\s*=|javascript:|srcdoc/i;

interface Props {
  html: string;
  title: string;
  /** Whether all scripts in the HTML are the page's own. */
  hasOwnScripts?: boolean;
  /** Whether the frame takes all the room in a column; otherwise it is as high as its contents. */
  fills?: boolean;
  /** Whether the HTML is a page of its own, to which nothing is added; otherwise it gets our style. */
  isPage?: boolean;
}

/** Whether a browser keeps the frame from the network altogether: Chromium does, since 152; no other has such a policy. */
export function keepsFramesOffline(browser: string): boolean {
  return Number(/Chrom(?:e|ium)\/(\d+)/.exec(browser)?.[1] ?? 0) >= 152;
}

/** HTML that a run made, in a frame without origin, network or cookies: /assets/frame.html says how. */
export function Frame({ html, title, hasOwnScripts, fills = false, isPage = false }: Props) {
  const [isAllowed, allow] = useState(false);
  const isStill = !hasOwnScripts && !isAllowed && !keepsFramesOffline(navigator.userAgent);
  return (
    <>
      {isStill && SCRIPT.test(html) && (
        <p className="mx-3 my-1.5 text-xs text-ink-faint">
          Scripts in this HTML do not run: this browser cannot keep them from the network, as Chromium 152 and later can.{" "}
          <button type="button" className="text-accent hover:underline" onClick={() => allow(true)}>
            Run them anyway
          </button>
        </p>
      )}
      <Shown html={html} title={title} source={isStill ? "/assets/frame.html?still" : "/assets/frame.html"} fills={fills} isPage={isPage} />
    </>
  );
}

function Shown({ html, title, source, fills, isPage }: { html: string; title: string; source: string; fills: boolean; isPage: boolean }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(60);
  const dark = useStore(app, (state) => state.dark);
  useEffect(() => {
    const listener = (event: MessageEvent<{ ready?: boolean; height?: number }>) => {
      if (event.source !== frame.current?.contentWindow) return;
      if (event.data.ready) frame.current?.contentWindow?.postMessage({ html: isPage ? html : dressed(html, dark) }, "*");
      else if (typeof event.data.height === "number") setHeight(Math.max(24, Math.min(MAX_HEIGHT, event.data.height)));
    };
    window.addEventListener("message", listener);
    return () => window.removeEventListener("message", listener);
  }, [html, dark, isPage]);
  return (
    <iframe
      key={`${dark}${source}${html}`}
      ref={frame}
      title={title}
      src={source}
      sandbox="allow-scripts"
      {...(fills ? {} : { style: { height } })}
      className={classes("block w-full border-0", fills && "min-h-0 flex-1", isPage && "bg-white [color-scheme:light]")}
    />
  );
}

/** Adds our style where the HTML has none. */
function dressed(html: string, dark: boolean): string {
  const [ink, line, soft] = dark ? ["#e7ebe8", "#2b332e", "#1a201d"] : ["#1c211e", "#e2ddd0", "#f3f0e9"];
  return `<!doctype html><meta charset="utf-8"><style>
    :root{color-scheme:${dark ? "dark" : "light"}}
    html{overflow:auto}body{margin:0;padding:10px 12px;font:13px/1.5 system-ui,sans-serif;color:${ink};background:transparent}
    table{border-collapse:collapse;font-size:12px}th,td{padding:3px 10px;border-bottom:1px solid ${line};text-align:right}
    th{font-weight:600}thead th{background:${soft}}pre,code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}
    img,svg,canvas,video{max-width:100%}a{color:inherit}h1,h2,h3{line-height:1.25;margin:.6em 0 .4em}p{margin:.5em 0}
    blockquote{margin:.5em 0;padding-left:12px;border-left:3px solid ${line}}
  </style>${html}`;
}
