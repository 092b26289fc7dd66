// How sigma draws a node: one point of the graphics card per node, in one of six shapes.
import { NodeProgram } from "sigma/rendering";
import { floatColor } from "sigma/utils";

const VERTEX = `
attribute vec2 a_position;
attribute float a_size;
attribute float a_shape;
attribute float a_alpha;
attribute vec4 a_color;
attribute vec4 a_id;
uniform float u_sizeRatio;
uniform float u_pixelRatio;
uniform mat3 u_matrix;
varying vec4 v_color;
varying float v_shape;
varying float v_pixels;

void main() {
  gl_Position = vec4((u_matrix * vec3(a_position, 1)).xy, 0, 1);
  v_pixels = max(a_size / u_sizeRatio * u_pixelRatio * 2.5, 2.0);
  gl_PointSize = v_pixels;
  v_shape = a_shape;
#ifdef PICKING_MODE
  v_color = a_id;
#else
  v_color = vec4(a_color.rgb, a_alpha);
#endif
}`;

// Distances to each outline in units of the half square, as in palette.js.
const FRAGMENT = `
precision mediump float;
varying vec4 v_color;
varying float v_shape;
varying float v_pixels;

float triangle(vec2 p) {
  return max(p.y - 0.76, dot(vec2(abs(p.x), -p.y), vec2(0.8786, 0.4775)) - 0.5157);
}

void main(void) {
  vec2 p = (gl_PointCoord - 0.5) * 2.5;
  vec2 q = abs(p);
  float d;
  if (v_shape < 0.5) d = length(p) - 1.0;
  else if (v_shape < 1.5) d = max(q.x, q.y) - 0.84;
  else if (v_shape < 2.5) d = triangle(p);
  else if (v_shape < 3.5) d = (q.x + q.y - 1.18) * 0.7071;
  else if (v_shape < 4.5) d = min(max(q.x - 0.36, q.y - 1.05), max(q.x - 1.05, q.y - 0.36));
  else d = triangle(vec2(p.x, -p.y));
#ifdef PICKING_MODE
  if (d > 0.0) discard;
  gl_FragColor = v_color;
#else
  float covered = clamp(0.5 - d * v_pixels / 2.5, 0.0, 1.0) * v_color.a;
  gl_FragColor = vec4(v_color.rgb * covered, covered);
#endif
}`;

export class Mark extends NodeProgram {
  constructor(gl, _, renderer) {
    super(gl, null, renderer); // no second, hidden drawing for the mouse: the page finds the nearest node itself
  }

  getDefinition() {
    const { FLOAT, UNSIGNED_BYTE, POINTS } = WebGLRenderingContext;
    return {
      VERTICES: 1,
      VERTEX_SHADER_SOURCE: VERTEX,
      FRAGMENT_SHADER_SOURCE: FRAGMENT,
      METHOD: POINTS,
      UNIFORMS: ["u_sizeRatio", "u_pixelRatio", "u_matrix"],
      ATTRIBUTES: [
        { name: "a_position", size: 2, type: FLOAT },
        { name: "a_size", size: 1, type: FLOAT },
        { name: "a_shape", size: 1, type: FLOAT },
        { name: "a_alpha", size: 1, type: FLOAT },
        { name: "a_color", size: 4, type: UNSIGNED_BYTE, normalized: true },
        { name: "a_id", size: 4, type: UNSIGNED_BYTE, normalized: true },
      ],
    };
  }

  processVisibleItem(nodeIndex, start, data) {
    this.array.set([data.x, data.y, data.size, data.shape, data.alpha, floatColor(data.color), nodeIndex], start);
  }

  setUniforms({ sizeRatio, pixelRatio, matrix }, { gl, uniformLocations }) {
    gl.uniform1f(uniformLocations.u_pixelRatio, pixelRatio);
    gl.uniform1f(uniformLocations.u_sizeRatio, sizeRatio);
    gl.uniformMatrix3fv(uniformLocations.u_matrix, false, matrix);
  }
}
