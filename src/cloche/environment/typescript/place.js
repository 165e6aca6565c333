// Bundled with projects of several files that ask where they are: each of their modules is told its own place, as it was
// before they became one file.  The caller's position leads to it, by the source map.
import { findSourceMap } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

function caller(getter) {
  const { prepareStackTrace, stackTraceLimit } = Error;
  const seen = {};
  try {
    Error.stackTraceLimit = 1;
    Error.prepareStackTrace = (_, frames) => frames;
    Error.captureStackTrace(seen, getter);
    const [frame] = seen.stack;
    const name = frame.getFileName();
    const bundle = name.startsWith('file:') ? fileURLToPath(name) : name;
    const { originalSource } = findSourceMap(bundle).findEntry(frame.getLineNumber() - 1, frame.getColumnNumber() - 1);
    return originalSource.startsWith('file:') ? fileURLToPath(originalSource) : originalSource;
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  }
}

function getter(from) {
  return { enumerable: true, get: function place() { return from(caller(place)); } };
}

export const clochePlace = /* @__PURE__ */ Object.create(null, {
  filename: /* @__PURE__ */ getter((file) => file),
  dirname: /* @__PURE__ */ getter(dirname),
  url: /* @__PURE__ */ getter((file) => pathToFileURL(file).href),
  main: /* @__PURE__ */ getter((file) => (file === process.argv[1] ? globalThis.module : undefined)),
});
