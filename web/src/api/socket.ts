/** A WebSocket that reconnects, for terminals and other two-way connections. */

export interface SocketOptions {
  /** Called before every connection, because it may contain an id to return to. */
  address: () => string;
  onMessage: (data: string | ArrayBuffer) => void;
  /** True when connected, false when the connection broke and is being retried. */
  onConnected: (connected: boolean) => void;
  /** The connection was refused or closed for good. */
  onClosed: (reason: string) => void;
  /** How many attempts in a row before giving up. */
  maxTries?: number;
}

const MAX_TRIES = 12;
const FINAL_CODES = new Set([1000, 1008]); // closed on purpose; the key was revoked

export class ReturningSocket {
  private socket: WebSocket | null = null;
  private tries = 0;
  private timer = 0;
  private isOver = false;

  constructor(private readonly options: SocketOptions) {
    window.addEventListener("online", this.hurry);
    this.connect();
  }

  get isOpen(): boolean {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /** Returns false if there is no connection. */
  send(data: string | ArrayBuffer | Uint8Array<ArrayBuffer>): boolean {
    if (!this.isOpen) return false;
    this.socket?.send(data);
    return true;
  }

  close(): void {
    window.removeEventListener("online", this.hurry);
    this.isOver = true;
    clearTimeout(this.timer);
    this.socket?.close(1000);
  }

  /** Reconnects at once, because the network is back. */
  private readonly hurry = (): void => {
    if (this.isOver || this.socket?.readyState !== WebSocket.CLOSED) return;
    clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
    const url = new URL(this.options.address(), location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.tries = 0;
      this.options.onConnected(true);
    };
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => this.options.onMessage(event.data);
    socket.onclose = (event) => {
      if (this.isOver) return;
      if (FINAL_CODES.has(event.code) || this.tries >= (this.options.maxTries ?? MAX_TRIES)) {
        this.isOver = true;
        this.options.onClosed(event.reason);
        return;
      }
      this.options.onConnected(false);
      this.timer = window.setTimeout(() => this.connect(), Math.min(5000, 200 * 2 ** this.tries++));
    };
  }
}
