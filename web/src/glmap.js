// The map on the graphics card, drawn by sigma. FlatMap has the same methods for machines without WebGL.
import Graph from "graphology";
import Sigma from "sigma";
import { Mark } from "./marks.js";

export const hasWebGL = () => {
  const canvas = document.createElement("canvas");
  return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
};

const NEVER = () => {};

/** How high the map is for a width of one. */
export const tall = ({ y }) => Math.max(y.reduce((most, v) => Math.max(most, v), 0), 0.05);

export class GLMap {
  /** `points`: {x, y}, both (n,), x from 0 to 1; `styleOf(i)`: {color, alpha, size, shape, z}. */
  constructor(stage, points, styleOf, { onFrame = NEVER, calm = false } = {}) {
    this.calm = calm;
    this.points = points;
    const graph = new Graph({ type: "undirected" });
    for (let i = 0; i < points.x.length; i++) graph.addNode(i, { x: points.x[i], y: points.y[i] });
    this.sigma = new Sigma(graph, stage, {
      allowInvalidContainer: true,
      defaultNodeType: "mark",
      nodeProgramClasses: { mark: Mark },
      nodeHoverProgramClasses: { mark: Mark },
      defaultDrawNodeHover: NEVER,
      enableCameraRotation: false,
      renderLabels: false,
      zIndex: true,
      stagePadding: 50,
      minCameraRatio: 0.002,
      maxCameraRatio: 1.6,
      nodeReducer: (key, { x, y }) => {
        const { color, alpha, size, shape, z } = styleOf(Number(key));
        return { x, y, color, alpha, size, shape, zIndex: z, label: null };
      },
    });
    this.sigma.setCustomBBox({ x: [0, 1], y: [0, tall(points)] });
    this.sigma.on("afterRender", onFrame);
    this.sigma.refresh();
  }

  restyle() {
    this.sigma.refresh();
  }

  /** (x, y) of the map is (scale * x + left, -scale * y + bottom) on the stage, in CSS pixels. */
  affine() {
    const origin = this.sigma.graphToViewport({ x: 0, y: 0 });
    const far = this.sigma.graphToViewport({ x: 1, y: 1 });
    return { scale: far.x - origin.x, left: origin.x, bottom: origin.y };
  }

  get zoom() {
    return 1 / this.sigma.getCamera().ratio;
  }

  /** How large a point of size 1 is now, in CSS pixels. */
  get grown() {
    return this.sigma.scaleSize(1);
  }

  /** Whether all of the map is in view, as when the page opens. */
  get isWhole() {
    const { x, y, ratio } = this.sigma.getCamera();
    return Math.abs(x - 0.5) + Math.abs(y - 0.5) + Math.abs(ratio - 1) < 1e-6;
  }

  /** Bring a place of the map to the middle; `now` without a movement. */
  moveTo(x, y, zoom = this.zoom, now = false) {
    const at = this.sigma.viewportToFramedGraph(this.sigma.graphToViewport({ x, y }));
    this.#go({ x: at.x, y: at.y, ratio: this.sigma.getCamera().getBoundedRatio(1 / zoom) }, now);
  }

  fit() {
    this.#go({ x: 0.5, y: 0.5, ratio: 1 });
  }

  zoomBy(factor) {
    const camera = this.sigma.getCamera();
    this.#go({ ratio: camera.getBoundedRatio(camera.ratio / factor) });
  }

  panBy(dx, dy) {
    const camera = this.sigma.getCamera();
    const { width, height } = this.sigma.getDimensions();
    const from = this.sigma.viewportToFramedGraph({ x: width / 2, y: height / 2 });
    const to = this.sigma.viewportToFramedGraph({ x: width / 2 + dx, y: height / 2 + dy });
    camera.setState({ x: camera.x + to.x - from.x, y: camera.y + to.y - from.y });
  }

  #go(state, now = this.calm) {
    const camera = this.sigma.getCamera();
    if (now) camera.setState(state);
    else camera.animate(state, { duration: 300 });
  }

  /** The canvas with the points, drawn this instant, so that its pixels can still be read. */
  image() {
    this.sigma.refresh({ skipIndexation: true });
    return this.sigma.getCanvases().nodes;
  }
}
