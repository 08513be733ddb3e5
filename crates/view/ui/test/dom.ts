// As much of a document as the page's parts touch: elements that hold properties, attributes,
// children and listeners. Nothing is laid out or drawn.

class FakeElement {
  [property: string]: unknown;
  readonly style: Record<string, string> = {};
  readonly dataset: Record<string, string> = {};
  readonly attributes = new Map<string, string>();
  readonly listeners = new Map<string, ((event: unknown) => void)[]>();
  readonly classes = new Set<string>();
  children: (FakeElement | string)[] = [];
  hidden = false;
  title = "";
  clientWidth = 1000;
  clientHeight = 600;
  scrollTop = 0;
  readonly classList = {
    toggle: (name: string, isOn: boolean) => (isOn ? this.classes.add(name) : this.classes.delete(name)),
  };

  constructor(readonly tagName: string) {}

  get textContent(): string {
    return this.children.map((child) => (typeof child === "string" ? child : child.textContent)).join("");
  }

  set textContent(text: string) {
    this.children = text === "" ? [] : [text];
  }

  append(...children: (FakeElement | string)[]): void {
    this.children.push(...children);
  }

  replaceChildren(...children: (FakeElement | string)[]): void {
    this.children = children;
  }

  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }

  getAttribute(name: string): string | null {
    return this.attributes.get(name) ?? null;
  }

  addEventListener(type: string, listener: (event: unknown) => void): void {
    this.listeners.set(type, [...(this.listeners.get(type) ?? []), listener]);
  }

  fire(type: string, event: object = {}): void {
    for (const listener of this.listeners.get(type) ?? []) listener({ preventDefault: () => {}, ...event });
  }

  contains(other: unknown): boolean {
    return other === this || this.all().includes(other as FakeElement);
  }

  // Every element below this one.
  all(): FakeElement[] {
    return this.children.flatMap((child) => (typeof child === "string" ? [] : [child, ...child.all()]));
  }

  focus(): void {}

  querySelector(): null {
    return null;
  }

  getBoundingClientRect(): object {
    return { left: 0, top: 0, width: this.clientWidth, height: this.clientHeight };
  }

  getContext(): unknown {
    return context;
  }
}

// Takes every call and property; measures text as if letters were six pixels wide.
const context = new Proxy({} as Record<string, unknown>, {
  get: (target, name: string) => {
    if (name === "measureText") return (text: string) => ({ width: text.length * 6 });
    if (name === "createImageData") {
      return (width: number, height: number) => ({ data: new Uint8ClampedArray(width * height * 4) });
    }
    return target[name] ?? (() => {});
  },
});

const byId = new Map<string, FakeElement>();

// The element of page.html with this id.
export function elementOf(id: string): FakeElement {
  let found = byId.get(id);
  if (!found) byId.set(id, (found = new FakeElement("div")));
  return found;
}

// Installs the document; every test file has its own, because each runs in a process of its own.
export function installDocument(): void {
  const body = new FakeElement("body");
  const made = {
    document: {
      body,
      documentElement: new FakeElement("html"),
      activeElement: null,
      createElement: (tag: string) => new FakeElement(tag),
      getElementById: elementOf,
      addEventListener: () => {},
    },
    matchMedia: () => ({ matches: false, addEventListener: () => {} }),
    getComputedStyle: () => ({ fontFamily: "sans", getPropertyValue: () => "#102030" }),
    ResizeObserver: class {
      observe(): void {}
    },
    requestAnimationFrame: (draw: () => void) => void draw,
    location: { hash: "" },
    history: { pushState: () => {}, replaceState: () => {} },
    devicePixelRatio: 1,
    innerWidth: 1000,
    innerHeight: 800,
  };
  Object.assign(globalThis, made);
}

export type { FakeElement };
