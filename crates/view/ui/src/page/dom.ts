// Making elements. Names from the recording only ever become text nodes.

export const byId = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;

type Properties<K extends keyof HTMLElementTagNameMap> = Partial<Omit<HTMLElementTagNameMap[K], "style">> & {
  attributes?: never;
};

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties<K> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(tag), properties) as HTMLElementTagNameMap[K];
  made.append(...children);
  return made;
}

export function button(text: string, title: string, onClick: (event: MouseEvent) => void): HTMLButtonElement {
  const made = element("button", { type: "button", textContent: text, title });
  made.addEventListener("click", onClick);
  return made;
}

export function swatch(fill: string): HTMLElement {
  const made = element("i", { className: "swatch" });
  made.style.background = fill;
  return made;
}

// Gives a canvas the size of what is visible, in the screen's own pixels; returns their ratio.
export function fit(canvas: HTMLCanvasElement, width: number, height: number): number {
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  return ratio;
}

// Runs at most once a frame, however often it is asked for.
export function eachFrame(draw: () => unknown): () => void {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      draw();
    });
  };
}
