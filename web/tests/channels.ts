/** The ways in which a document can reach another host: each is a piece of HTML that tries one of them. */

export interface Place {
  /** http://NAME.localhost:PORT/: a listener for this channel alone. */
  url: string;
  /** The address of the same listener for datagrams. */
  udp: string;
}

export interface Channel {
  html: (place: Place) => string;
  /** Whether somebody has to click #go. */
  clicks?: boolean;
  /** Why this Chromium does not open the channel even for a document without any policy. */
  closed?: string;
  /** Whether Chromium may end the page that has the frame rather than let the channel open. */
  ends?: boolean;
}

const script = (text: string): string => `<body><script>${text}</script>`;
const attribute = (text: string): string => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
const style = (text: string): string => `<style>${text}</style><p id=p>text`;
const frame = (html: string): string => `<iframe srcdoc="${attribute(html)}"></iframe>`;
const blob = (text: string, type: string): string => `URL.createObjectURL(new Blob([${JSON.stringify(text).replaceAll("</", "<\\/")}],{type:'${type}'}))`;

/** A peer connection that asks a server for its own address; `name` is how the constructor is found. */
const peer = (server: string, name = "RTCPeerConnection"): string =>
  `try{const p=new (${name})({iceServers:[{urls:${JSON.stringify(server)},username:'u',credential:'c'}]});` +
  "p.createDataChannel('d');p.createOffer().then(o=>p.setLocalDescription(o))}catch(e){}";

const requests: Record<string, Channel> = {
  fetch: { html: ({ url }) => script(`fetch('${url}',{mode:'no-cors'})`) },
  "fetch, kept alive": { html: ({ url }) => script(`fetch('${url}',{mode:'no-cors',keepalive:true,method:'POST',body:'x'})`) },
  "fetch, later": { html: ({ url }) => script(`fetchLater('${url}',{activateAfter:0})`) },
  XMLHttpRequest: { html: ({ url }) => script(`const x=new XMLHttpRequest();x.open('GET','${url}');x.send()`) },
  sendBeacon: { html: ({ url }) => script(`navigator.sendBeacon('${url}','x')`) },
  EventSource: { html: ({ url }) => script(`new EventSource('${url}')`) },
  WebSocket: { html: ({ url }) => script(`new WebSocket('${url.replace("http", "ws")}')`) },
  WebTransport: { html: ({ udp }) => script(`new WebTransport('https://${udp}/')`) },
};

const elements: Record<string, Channel> = {
  img: { html: ({ url }) => `<img src="${url}">` },
  "img without a document": { html: ({ url }) => script(`new Image().src='${url}'`) },
  srcset: { html: ({ url }) => `<img srcset="${url} 1x">` },
  picture: { html: ({ url }) => `<picture><source srcset="${url}"><img></picture>` },
  "input type=image": { html: ({ url }) => `<input type=image src="${url}">` },
  "body background": { html: ({ url }) => `<body background="${url}">` },
  "base and a relative address": { html: ({ url }) => `<base href="${url}"><img src="x.png">` },
  video: { html: ({ url }) => `<video src="${url}" preload=auto>` },
  poster: { html: ({ url }) => `<video poster="${url}">` },
  audio: { html: ({ url }) => `<audio src="${url}" preload=auto>` },
  track: { html: ({ url }) => `<video crossorigin><track default kind=subtitles src="${url}"></video><script>document.querySelector('track').track.mode='showing'</script>` },
  script: { html: ({ url }) => `<script src="${url}"></script>` },
  "script, written": { html: ({ url }) => script(`document.write('<script src="${url}"><'+'/script>')`) },
  "module script": { html: ({ url }) => `<script type=module src="${url}"></script>` },
  import: { html: ({ url }) => script(`import('${url}').catch(()=>0)`) },
  "import map": { html: ({ url }) => `<script type=importmap>{"imports":{"a":"${url}"}}</script><script type=module>import 'a'</script>` },
  iframe: { html: ({ url }) => `<iframe src="${url}"></iframe>` },
  frameset: { html: ({ url }) => script(`const f=document.createElement('frameset');f.innerHTML='<frame src="${url}">';document.body.replaceWith(f)`) },
  object: { html: ({ url }) => `<object data="${url}"></object>` },
  embed: { html: ({ url }) => `<embed src="${url}">` },
  "embed of a PDF": { html: ({ url }) => `<embed type="application/pdf" src="${url}">`, closed: "A browser without a window shows no PDF." },
  "SVG image": { html: ({ url }) => `<svg><image href="${url}"/></svg>` },
  "SVG use": { html: ({ url }) => `<svg><use href="${url}#a"/></svg>`, closed: "Chromium loads `use` from the document's own origin only." },
  "SVG filter image": { html: ({ url }) => `<svg width=9 height=9><filter id=f><feImage href="${url}"/></filter><rect width=9 height=9 filter="url(#f)"/></svg>` },
  "SVG script": { html: ({ url }) => `<svg><script href="${url}"></script></svg>` },
  "attribution of an image": { html: ({ url }) => `<img attributionsrc="${url}" src="data:,">`, closed: "It needs a secure context with a real origin, and was removed." },
  "manifest": { html: ({ url }) => `<link rel=manifest href="${url}">`, closed: "A browser without a window installs nothing." },
  icon: { html: ({ url }) => `<link rel=icon href="${url}">`, closed: "A browser without a window shows no icon." },
};

const hintless = "A browser without a window takes no hints about connections.";
const hints: Record<string, Channel> = {
  stylesheet: { html: ({ url }) => `<link rel=stylesheet href="${url}">` },
  preload: { html: ({ url }) => `<link rel=preload as=image href="${url}">` },
  modulepreload: { html: ({ url }) => `<link rel=modulepreload href="${url}">` },
  prefetch: { html: ({ url }) => `<link rel=prefetch href="${url}">` },
  preconnect: { html: ({ url }) => `<link rel=preconnect href="${url}">`, closed: hintless },
  "dns-prefetch": { html: ({ url }) => `<link rel=dns-prefetch href="${url}">`, closed: hintless },
  "name of a link": { html: ({ url }) => `<meta http-equiv=x-dns-prefetch-control content=on><a href="${url}">link</a>`, closed: hintless },
  prerender: { html: ({ url }) => `<link rel=prerender href="${url}">`, closed: "Chromium prerenders by speculation rules only." },
  "compression dictionary": { html: ({ url }) => `<link rel=compression-dictionary href="${url}">` },
  "speculation rules, prefetch": { html: ({ url }) => `<script type=speculationrules>{"prefetch":[{"urls":["${url}"],"eagerness":"immediate"}]}</script>` },
  "speculation rules, prerender": { html: ({ url }) => `<script type=speculationrules>{"prerender":[{"urls":["${url}"],"eagerness":"immediate"}]}</script>` },
};

const styles: Record<string, Channel> = {
  "@import": { html: ({ url }) => style(`@import url(${url});`) },
  "style attribute": { html: ({ url }) => `<p style="background:url(${url})">text` },
  background: { html: ({ url }) => style(`p{background:url(${url})}`) },
  "image-set": { html: ({ url }) => style(`p{background:image-set("${url}" 1x)}`) },
  "border-image": { html: ({ url }) => style(`p{border:9px solid;border-image:url(${url}) 9}`) },
  content: { html: ({ url }) => style(`p::before{content:url(${url})}`) },
  cursor: { html: ({ url }) => style(`p{cursor:url(${url}),auto}`) },
  "list-style": { html: ({ url }) => style(`p{display:list-item;list-style:url(${url})}`) },
  mask: { html: ({ url }) => style(`p{mask:url(${url})}`) },
  filter: { html: ({ url }) => style(`p{filter:url(${url}#f)}`), closed: "Chromium takes filters from the document itself only." },
  "@font-face": { html: ({ url }) => style(`@font-face{font-family:f;src:url(${url})}p{font-family:f}`) },
  FontFace: { html: ({ url }) => script(`new FontFace('f','url(${url})').load().catch(()=>0)`) },
  "constructed style sheet": { html: ({ url }) => script(`const s=new CSSStyleSheet();s.replaceSync('body{background:url(${url})}');document.adoptedStyleSheets=[s]`) },
};

const workers: Record<string, Channel> = {
  "fetch in a worker": { html: ({ url }) => script(`new Worker(${blob(`fetch('${url}',{mode:'no-cors'})`, "text/javascript")})`) },
  "WebSocket in a worker": { html: ({ url }) => script(`new Worker(${blob(`new WebSocket('${url.replace("http", "ws")}')`, "text/javascript")})`) },
  "import in a worker": { html: ({ url }) => script(`new Worker(${blob(`importScripts('${url}')`, "text/javascript")})`) },
  "fetch in a shared worker": { html: ({ url }) => script(`new SharedWorker(${blob(`fetch('${url}',{mode:'no-cors'})`, "text/javascript")})`) },
  "audio worklet": { html: ({ url }) => script(`new OfflineAudioContext(1,1,44100).audioWorklet.addModule('${url}').catch(()=>0)`), closed: "It loads nothing in a browser without a window." },
  "paint worklet": { html: ({ url }) => script(`CSS.paintWorklet.addModule('${url}').catch(()=>0)`) },
};

const moves: Record<string, Channel> = {
  location: { html: ({ url }) => script(`location='${url}'`) },
  "location of the page": { html: ({ url }) => script(`top.location='${url}'`) },
  "navigation.navigate": { html: ({ url }) => script(`navigation.navigate('${url}')`) },
  "meta refresh": { html: ({ url }) => `<meta http-equiv=refresh content="0;url=${url}">` },
  "window.open": { html: ({ url }) => `<button id=go onclick="window.open('${url}')">go</button>`, clicks: true },
  link: { html: ({ url }) => `<a id=go href="${url}">go</a>`, clicks: true },
  "link to a new window": { html: ({ url }) => `<a id=go target=_blank href="${url}">go</a>`, clicks: true },
  "link of the whole page": { html: ({ url }) => `<a id=go target=_top href="${url}">go</a>`, clicks: true },
  "link that downloads": { html: ({ url }) => `<a id=go download href="${url}">go</a>`, clicks: true },
  "link in SVG": { html: ({ url }) => `<svg><a href="${url}"><text id=go y=20>go</text></a></svg>`, clicks: true },
  ping: { html: ({ url }) => `<a id=go href="#" ping="${url}">go</a>`, clicks: true },
  form: { html: ({ url }) => `<form action="${url}"><button id=go>go</button></form>`, clicks: true },
  "form, posted": { html: ({ url }) => `<form method=post action="${url}"></form><script>document.forms[0].submit()</script>` },
  "form to a new window": { html: ({ url }) => `<form target=_blank action="${url}"><button id=go>go</button></form>`, clicks: true },
  formaction: { html: ({ url }) => `<form><button id=go formaction="${url}">go</button></form>`, clicks: true },
};

const children: Record<string, Channel> = {
  "img in a frame": { html: ({ url }) => frame(`<img src="${url}">`) },
  "fetch in a frame": { html: ({ url }) => frame(script(`fetch('${url}',{mode:'no-cors'})`)) },
  "fetch in a frame in a frame": { html: ({ url }) => frame(frame(script(`fetch('${url}',{mode:'no-cors'})`))) },
  "fetch in a sandboxed frame": { html: ({ url }) => frame(script(`fetch('${url}',{mode:'no-cors'})`)).replace("<iframe", "<iframe sandbox=allow-scripts") },
  "fetch in a javascript: frame": { html: ({ url }) => `<iframe src="javascript:fetch('${url}',{mode:'no-cors'})"></iframe>` },
  "fetch in a data: frame": { html: ({ url }) => `<iframe src="data:text/html,<script>fetch('${url}',{mode:'no-cors'})</script>"></iframe>` },
  "fetch in a blob: frame": { html: ({ url }) => script(`const f=document.createElement('iframe');f.src=${blob(script(`fetch('${url}',{mode:'no-cors'})`), "text/html")};document.body.append(f)`) },
  "fetch of an empty frame": { html: ({ url }) => script(`const f=document.createElement('iframe');document.body.append(f);f.contentWindow.fetch('${url}',{mode:'no-cors'})`) },
  "fetch in a new document": { html: ({ url }) => script(`document.open();document.write(${JSON.stringify(`<img src="${url}">`)});document.close()`) },
  "location of a frame": { html: ({ url }) => frame(script(`location='${url}'`)) },
};

const peers: Record<string, Channel> = {
  "peer connection": { html: ({ udp }) => script(peer(`stun:${udp}`)) },
  "peer connection, old name": { html: ({ udp }) => script(peer(`stun:${udp}`, "webkitRTCPeerConnection")) },
  "peer connection, relay": { html: ({ udp }) => script(peer(`turn:${udp}`)) },
  "peer connection, relay over TCP": { html: ({ url }) => script(peer(`turn:${new URL(url).host}?transport=tcp`)) },
  "peer connection, named server": { html: ({ url, udp }) => script(peer(`stun:${new URL(url).hostname}:${udp.split(":")[1]}`)) },
  "peer connection, candidate": {
    html: ({ udp }) =>
      script(
        "(async()=>{const a=new RTCPeerConnection(),b=new RTCPeerConnection();a.createDataChannel('d');const o=await a.createOffer();await a.setLocalDescription(o);" +
          "await b.setRemoteDescription(o);const w=await b.createAnswer();await b.setLocalDescription(w);await a.setRemoteDescription(w);" +
          `await a.addIceCandidate({candidate:'candidate:1 1 udp 2122260223 ${udp.replace(":", " ")} typ host',sdpMid:'0',sdpMLineIndex:0})})().catch(()=>0)`,
      ),
  },
  "peer connection in a frame": { html: ({ udp }) => frame(script(peer(`stun:${udp}`))) },
  "peer connection in a frame in a frame": { html: ({ udp }) => frame(frame(script(peer(`stun:${udp}`)))) },
  "peer connection in a frame of a script": {
    html: ({ udp }) => script(`const f=document.createElement('iframe');f.srcdoc=${JSON.stringify(script(peer(`stun:${udp}`))).replaceAll("</", "<\\/")};document.body.append(f)`),
  },
  "peer connection of an empty frame": {
    html: ({ udp }) => script(`const f=document.createElement('iframe');document.body.append(f);${peer(`stun:${udp}`, "f.contentWindow.RTCPeerConnection")}`),
  },
  "peer connection in a javascript: frame": { html: ({ udp }) => `<iframe src="javascript:${attribute(peer(`stun:${udp}`))}"></iframe>` },
  "peer connection in a data: frame": { html: ({ udp }) => `<iframe src="data:text/html,${attribute(encodeURIComponent(script(peer(`stun:${udp}`))))}"></iframe>` },
  "peer connection in a blob: frame": {
    html: ({ udp }) => script(`const f=document.createElement('iframe');f.src=${blob(script(peer(`stun:${udp}`)), "text/html")};document.body.append(f)`),
  },
  "peer connection in an object": { html: ({ udp }) => `<object data="data:text/html,${attribute(encodeURIComponent(script(peer(`stun:${udp}`))))}"></object>` },
  "peer connection in a shadow tree": {
    html: ({ udp }) =>
      script(
        `const d=document.createElement('div');document.body.append(d);d.attachShadow({mode:'closed'}).innerHTML=${JSON.stringify(frame(script(peer(`stun:${udp}`)))).replaceAll("</", "<\\/")}`,
      ),
  },
  // No script of ours sees this frame: only the browser's own policy is left.
  "peer connection in a declared shadow tree": {
    html: ({ udp }) => `<div><template shadowrootmode=closed>${frame(script(peer(`stun:${udp}`)))}</template></div>`,
    ends: true,
  },
  "peer connection in a new document": {
    html: ({ udp }) => script(`document.open();document.write(${JSON.stringify(script(peer(`stun:${udp}`))).replaceAll("</", "<\\/")});document.close()`),
  },
  "peer connection in a new window": {
    html: ({ udp }) => `<button id=go onclick="const w=window.open('about:blank');${attribute(peer(`stun:${udp}`, "w.RTCPeerConnection"))}">go</button>`,
    clicks: true,
  },
};

export const channels: Record<string, Channel> = { ...requests, ...elements, ...hints, ...styles, ...workers, ...moves, ...children, ...peers };
