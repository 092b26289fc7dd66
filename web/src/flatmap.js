// The map on a plain canvas, for machines without WebGL; the same methods as GLMap.
import { tall } from "./glmap.js";
import { outline } from "./palette.js";

const PAD = 50;

export class FlatMap {
  constructor(stage, points, styleOf, { onFrame = () => {} } = {}) {
    Object.assign(this, { stage, points, styleOf, onFrame, zoom: 1, frame: 0, tall: tall(points) });
    Object.assign(this, { x: 0.5, y: this.tall / 2 });
    this.canvas = document.createElement("canvas");
    stage.append(this.canvas);
    this.marks = new Map();
    new ResizeObserver(() => this.#later()).observe(stage);
    stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.#grab(event));
    this.restyle();
  }

  restyle() {
    const styles = Array.from(this.points.x, (_, i) => [i, this.styleOf(i)]);
    this.styles = styles.sort(([, a], [, b]) => a.z - b.z);
    this.#draw();
  }

  affine() {
    const { clientWidth: wide, clientHeight: high } = this.stage;
    const scale = Math.max(Math.min(wide - 2 * PAD, (high - 2 * PAD) / this.tall), 10) * this.zoom;
    return { scale, left: wide / 2 - this.x * scale, bottom: high / 2 + this.y * scale };
  }

  get grown() {
    return Math.sqrt(this.zoom);
  }

  get isWhole() {
    return this.x === 0.5 && this.y === this.tall / 2 && this.zoom === 1;
  }

  moveTo(x, y, zoom = this.zoom) {
    Object.assign(this, { x, y, zoom: Math.min(Math.max(zoom, 0.6), 500) });
    this.#later();
  }

  fit() {
    this.moveTo(0.5, this.tall / 2, 1);
  }

  zoomBy(factor) {
    this.moveTo(this.x, this.y, this.zoom * factor);
  }

  panBy(dx, dy) {
    const { scale } = this.affine();
    this.moveTo(this.x + dx / scale, this.y - dy / scale);
  }

  image() {
    this.#draw();
    return this.canvas;
  }

  #later() {
    this.frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const dots = window.devicePixelRatio || 1;
    const { clientWidth: wide, clientHeight: high } = this.stage;
    Object.assign(this.canvas, { width: wide * dots, height: high * dots });
    const brush = this.canvas.getContext("2d");
    const { scale, left, bottom } = this.affine();
    for (const [i, { color, alpha, size, shape }] of this.styles) {
      const px = left + scale * this.points.x[i];
      const py = bottom - scale * this.points.y[i];
      if (px < -20 || py < -20 || px > wide + 20 || py > high + 20) continue;
      const mark = this.#mark(color, shape, Math.max(size * this.grown, 0.8), dots);
      brush.globalAlpha = alpha;
      brush.drawImage(mark, Math.round(px * dots - mark.width / 2), Math.round(py * dots - mark.width / 2));
    }
    this.onFrame();
  }

  /** One mark, drawn once and stamped from then on. */
  #mark(color, shape, radius, dots) {
    const r = Math.ceil(radius * dots * 2) / 2;
    const key = `${color} ${shape} ${r}`;
    if (!this.marks.has(key)) {
      if (this.marks.size > 2000) this.marks.clear();
      const mark = document.createElement("canvas");
      mark.width = mark.height = 2 * Math.ceil(1.3 * r + 1);
      const brush = mark.getContext("2d");
      brush.translate(mark.width / 2, mark.width / 2);
      brush.fillStyle = color;
      brush.fill(new Path2D(outline(shape, r)));
      this.marks.set(key, mark);
    }
    return this.marks.get(key);
  }

  #wheel(event) {
    event.preventDefault();
    const before = this.affine();
    const box = this.stage.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const x = (px - before.left) / before.scale;
    const y = (before.bottom - py) / before.scale;
    this.zoomBy(event.deltaY < 0 ? 1.3 : 1 / 1.3);
    const { scale } = this.affine();
    this.moveTo(x + (this.stage.clientWidth / 2 - px) / scale, y - (this.stage.clientHeight / 2 - py) / scale);
  }

  #grab(event) {
    if (event.shiftKey || event.button) return;
    const move = (next) => this.panBy(-next.movementX, -next.movementY);
    this.stage.addEventListener("pointermove", move);
    window.addEventListener("pointerup", () => this.stage.removeEventListener("pointermove", move), { once: true });
  }
}
