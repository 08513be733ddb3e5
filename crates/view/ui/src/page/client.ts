// The page's side of the worker: questions and their answers.

import { Texts } from "../model/profile";
import type { Chunk, Message, Opened, Questions, Reply } from "../worker";

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

  // Sends some chunks at a time, so that each can be forgotten once it is sent.
  async open(recording: Iterable<Chunk[]>, base: Iterable<Chunk[]>, subsystemOf: string): Promise<Opened> {
    const sent: Promise<null>[] = [];
    for (const chunks of recording) sent.push(this.ask("chunks", { of: "recording", chunks }));
    for (const chunks of base) sent.push(this.ask("chunks", { of: "base", chunks }));
    const opened = this.ask("open", { subsystemOf });
    opened.catch(() => undefined); // a bad chunk has the better message
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

// The newest question of a kind, and its answer once that is there. There is no answer while a
// newer question waits for its own: an old one must not pass for it.
export class Latest<Question, Answer> {
  private asked = "";
  private answered: { key: string; answer: Answer } | null = null;

  // The answer to this very question, or null until it arrives and `done` is called.
  ask(
    question: Question,
    send: (question: Question) => Promise<Answer>,
    done: () => void,
    failed: (error: Error) => void,
  ): Answer | null {
    const key = JSON.stringify(question);
    if (this.asked !== key) {
      this.asked = key;
      if (this.answered?.key !== key) this.send(key, question, send, done, failed);
    }
    return this.answer;
  }

  private send(
    key: string,
    question: Question,
    send: (question: Question) => Promise<Answer>,
    done: () => void,
    failed: (error: Error) => void,
  ): void {
    send(question).then(
      (answer) => {
        if (this.asked !== key) return; // late: another question came after it
        this.answered = { key, answer };
        done();
      },
      (error: Error) => {
        if (this.asked === key) failed(error);
      },
    );
  }

  // Takes an answer that was asked for elsewhere.
  know(question: Question, answer: Answer): void {
    this.asked = JSON.stringify(question);
    this.answered = { key: this.asked, answer };
  }

  get answer(): Answer | null {
    return this.answered?.key === this.asked ? this.answered.answer : null;
  }

  get isWaiting(): boolean {
    return this.asked !== "" && this.answer === null;
  }

  forget(): void {
    this.asked = "";
    this.answered = null;
  }
}
