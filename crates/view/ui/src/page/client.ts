// The page's side of the worker: questions and their answers.

import { Texts } from "../model/profile";
import type { Message, Opened, Piece, Questions, Reply } from "../worker";

export class Client {
  private worker: Worker | null = null;
  private readonly waiting = new Map<
    number,
    { resolve: (answer: never) => void; reject: (error: Error) => void }
  >();
  private next = 1;

  constructor(private readonly script: string) {}

  // The worker runs the page's own script again, from a copy of its text.
  start(): void {
    const worker = new Worker(URL.createObjectURL(new Blob([this.script], { type: "text/javascript" })));
    this.worker = worker;
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      const asked = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (!asked) return;
      if ("error" in data) asked.reject(new Error(data.error));
      else asked.resolve(data.answer as never);
    };
    worker.onerror = (event) => {
      for (const asked of this.waiting.values())
        asked.reject(new Error(event.message || "the worker stopped"));
      this.waiting.clear();
    };
  }

  ask<K extends keyof Questions>(
    kind: K,
    ask: Questions[K]["ask"],
    transfer: Transferable[] = [],
  ): Promise<Questions[K]["answer"]> {
    const id = this.next++;
    const message: Message = { id, kind, ask };
    this.worker!.postMessage(message, transfer);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve: resolve as never, reject }));
  }

  // Sends some pieces at a time, so that each can be forgotten once it is sent.
  async open(recording: Iterable<Piece[]>, base: Iterable<Piece[]>): Promise<Opened> {
    const sent: Promise<null>[] = [];
    for (const pieces of recording) sent.push(this.ask("pieces", { of: "recording", pieces }));
    for (const pieces of base) sent.push(this.ask("pieces", { of: "base", pieces }));
    const opened = this.ask("open", null);
    opened.catch(() => undefined); // a bad piece says more
    await Promise.all(sent);
    return revived(await opened);
  }
}

// A message carries data without methods.
function revived(opened: Opened): Opened {
  const { bytes, ends } = opened.names.texts as Texts;
  opened.names.texts = new Texts(bytes, ends);
  return opened;
}

// Holds the answer to the newest question: an older one that comes late is not shown.
export class Latest<T> {
  key = "";
  value: T | null = null;
  valueKey = "";

  // Asks unless this very question was asked last; `done` is called with the answer.
  ask(key: string, question: () => Promise<T>, done: () => void, failed: (error: Error) => void): void {
    if (this.key === key) return;
    this.key = key;
    question().then(
      (answer) => {
        if (this.key !== key) return;
        this.value = answer;
        this.valueKey = key;
        done();
      },
      (error: Error) => {
        if (this.key === key) failed(error);
      },
    );
  }

  get isCurrent(): boolean {
    return this.value !== null && this.key === this.valueKey;
  }

  forget(): void {
    this.key = this.valueKey = "";
    this.value = null;
  }
}
