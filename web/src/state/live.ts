/** Everything that happens in the open sandbox, whoever causes it, over one WebSocket. */

import { of } from "../api/cloche";
import { ReturningSocket } from "../api/socket";
import type { PortAnswer, UsageAnswer } from "../api/schema";
import { Signal } from "./store";

/** The events of `GET …/events` without output; long ones are cut to `kind` and their subject. */
export interface Happened {
  kind: string;
  time?: number;
  run_id?: string;
  command_id?: string;
  code?: string;
  path?: string;
  new_path?: string;
  reason?: string;
  /** Of a restart: null if all sessions were restarted. */
  context?: string | null;
  cut?: boolean;
}

export interface Change {
  kind: string;
  path: string;
}

export interface Output {
  command: string;
  number: number;
  kind: string;
  event: { text?: string };
}

type Message =
  | { type: "ready"; number: number }
  | { type: "event"; number: number; event: Happened }
  | { type: "change"; changes: Change[] }
  | { type: "usage"; usage: UsageAnswer }
  | { type: "ports"; ports: PortAnswer[] }
  | ({ type: "output" } & Output)
  | { type: "ended"; reason: string }
  | { type: "error"; message: string; hint: string };

export class Live {
  readonly happened = new Signal<Happened>();
  readonly changed = new Signal<Change[]>();
  readonly used = new Signal<UsageAnswer>();
  /** The ports on which servers listen, whenever they have changed. */
  readonly ports = new Signal<PortAnswer[]>();
  readonly output = new Signal<Output>();
  readonly connected = new Signal<boolean>();
  readonly ended = new Signal<string>();
  private last = -1;
  private interval = 0;
  private lookInterval = 0;
  private followed = new Map<string, number>(); // the last seen event of each command
  private readonly socket: ReturningSocket;

  constructor(sandbox: string) {
    this.socket = new ReturningSocket({
      address: () => `${of(sandbox)}/live${this.last < 0 ? "" : `?after=${this.last}`}`,
      onMessage: (data) => this.take(JSON.parse(data as string) as Message),
      onConnected: (connected) => {
        if (connected) this.resume();
        this.connected.emit(connected);
      },
      onClosed: () => this.connected.emit(false),
      maxTries: Infinity, // sandbox.ts checks separately whether the sandbox still exists
    });
  }

  /** Requests usage every so many seconds; 0 stops it. */
  sample(interval: number): void {
    this.interval = interval;
    this.socket.send(JSON.stringify({ type: "usage", interval }));
  }

  /** Requests the ports, which the server looks at every so many seconds; 0 stops it. */
  look(interval: number): void {
    this.lookInterval = interval;
    this.socket.send(JSON.stringify({ type: "ports", interval }));
  }

  /** Requests the output of a command. */
  follow(command: string): void {
    this.followed.set(command, 0);
    this.socket.send(JSON.stringify({ type: "follow", command }));
  }

  close(): void {
    this.socket.close();
  }

  private resume(): void {
    if (this.interval) this.sample(this.interval);
    if (this.lookInterval) this.look(this.lookInterval);
    for (const command of this.followed.keys()) this.socket.send(JSON.stringify({ type: "follow", command }));
  }

  private take(message: Message): void {
    switch (message.type) {
      case "ready":
        if (this.last < 0) this.last = message.number;
        return;
      case "event":
        this.last = message.number;
        return this.happened.emit(message.event);
      case "change":
        return this.changed.emit(message.changes);
      case "usage":
        return this.used.emit(message.usage);
      case "ports":
        return this.ports.emit(message.ports);
      case "output": {
        if (message.number <= (this.followed.get(message.command) ?? 0)) return;
        this.followed.set(message.command, message.number);
        return this.output.emit(message);
      }
      case "ended":
        this.socket.close();
        return this.ended.emit(message.reason);
      case "error":
        return console.warn(message.message, message.hint);
    }
  }
}
