// What most programs use of Node, declared as @types/node declares it: those that use no more need not wait until all of
// that has been read.  languages/node/types.py decides.
interface Console {
  assert(condition?: unknown, message?: string, ...data: any[]): void;
  assert(value: any, message?: string, ...optionalParams: any[]): void;
  clear(): void;
  count(label?: string): void;
  countReset(label?: string): void;
  debug(message?: any, ...optionalParams: any[]): void;
  dir(obj: any, options?: object): void;
  dirxml(...data: any[]): void;
  error(message?: any, ...optionalParams: any[]): void;
  group(...label: any[]): void;
  groupCollapsed(...label: any[]): void;
  groupEnd(): void;
  info(message?: any, ...optionalParams: any[]): void;
  log(message?: any, ...optionalParams: any[]): void;
  table(tabularData: any, properties?: readonly string[]): void;
  time(label?: string): void;
  timeEnd(label?: string): void;
  timeLog(label?: string, ...data: any[]): void;
  trace(message?: any, ...optionalParams: any[]): void;
  warn(message?: any, ...optionalParams: any[]): void;
}
declare var console: Console;
declare var global: typeof globalThis;
declare namespace NodeJS {
  interface Immediate {
    hasRef(): boolean;
    ref(): this;
    unref(): this;
    [Symbol.dispose](): void;
  }
  interface Timeout {
    close(): this;
    hasRef(): boolean;
    ref(): this;
    refresh(): this;
    unref(): this;
    [Symbol.toPrimitive](): number;
    [Symbol.dispose](): void;
  }
}
declare function setImmediate<TArgs extends any[]>(callback: (...args: TArgs) => void, ...args: TArgs): NodeJS.Immediate;
declare function setImmediate(callback: (_: void) => void): NodeJS.Immediate;
declare function setInterval<TArgs extends any[]>(callback: (...args: TArgs) => void, delay?: number, ...args: TArgs): NodeJS.Timeout;
declare function setInterval(callback: (_: void) => void, delay?: number): NodeJS.Timeout;
declare function setTimeout<TArgs extends any[]>(callback: (...args: TArgs) => void, delay?: number, ...args: TArgs): NodeJS.Timeout;
declare function setTimeout(callback: (_: void) => void, delay?: number): NodeJS.Timeout;
declare function clearImmediate(immediate: NodeJS.Immediate | undefined): void;
declare function clearInterval(timeout: NodeJS.Timeout | string | number | undefined): void;
declare function clearTimeout(timeout: NodeJS.Timeout | string | number | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T = any>(value: T, options?: { transfer?: readonly any[] }): T;
