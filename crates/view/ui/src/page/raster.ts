// Paints rows of boxes straight into pixels. All boxes of a row have the same height, so one line
// of pixels is painted and then repeated: many times faster than a call for each box.

export class Raster {
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  width = 0;
  height = 0;

  constructor(private readonly context: CanvasRenderingContext2D) {}

  start(width: number, height: number, back: number): void {
    if (!this.image || this.width !== width || this.height !== height) {
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.width = width;
      this.height = height;
    }
    this.pixels.fill(back);
  }

  // Part of a row's first line; `y` may lie outside of the picture.
  box(y: number, from: number, to: number, color: number): void {
    const left = Math.max(0, Math.round(from));
    const right = Math.min(this.width, Math.max(left + 1, Math.round(to)));
    if (y >= 0 && y < this.height && left < right)
      this.pixels.fill(color, y * this.width + left, y * this.width + right);
  }

  // Repeats the first line of a row down to its last.
  repeat(y: number, lines: number): void {
    const { width, pixels } = this;
    const first = y * width;
    const last = Math.min(y + lines, this.height);
    for (let line = y + 1; line < last; line++) pixels.copyWithin(line * width, first, first + width);
  }

  finish(): void {
    if (this.image) this.context.putImageData(this.image, 0, 0);
  }
}
