// Looks at a world of metres, x forward, y left, z up, and draws flat shapes of it on a canvas.

const NEAR = 0.05, HOME = { yaw: -1.78, pitch: 0.86 };

export class Camera {
  constructor(canvas, onMove) {
    this.canvas = canvas;
    this.onMove = onMove;
    this.target = [0, 0, 0];
    this.distance = 20;
    Object.assign(this, HOME);
    this.moved = false;
    this.#listen();
    this.prepare();
  }

  // Sees a rectangle of the floor whole, and what stands on it, unless somebody has moved the camera.
  fit([left, bottom, right, top]) {
    if (this.moved) return;
    const high = Math.max(right - left, top - bottom) * 0.1;
    const corners = [[left, bottom, 0], [left, top, 0], [right, bottom, 0], [right, top, 0], [left, top, high], [right, top, high]];
    this.target = [(left + right) / 2, (bottom + top) / 2, 0];
    for (let round = 0; round < 8; round += 1) {
      this.prepare();
      const seen = corners.map((corner) => this.project(corner)).filter(Boolean);
      if (seen.length < corners.length) {
        this.distance *= 1.6;
        continue;
      }
      const [xs, ys] = [seen.map((one) => one.x), seen.map((one) => one.y)];
      const middle = (values) => (Math.max(...values) + Math.min(...values)) / 2;
      const wide = (values) => Math.max(...values) - Math.min(...values);
      this.#shift(this.width / 2 - middle(xs), this.height / 2 - middle(ys));
      const fills = Math.max(wide(xs) / (this.width - 28), wide(ys) / (this.height - 36));
      this.distance = Math.min(400, Math.max(1, this.distance * fills));
    }
  }

  prepare() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const [wide, tall] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== tall) Object.assign(this.canvas, { width: wide, height: tall });
    this.pen = this.canvas.getContext('2d');
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.focal = Math.min(this.width, this.height * 1.6) * 1.05;
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    this.right = [-sy, cy, 0];
    this.up = [-cy * sp, -sy * sp, cp];
    this.back = [cy * cp, sy * cp, sp];
    this.eye = this.target.map((value, axis) => value + this.back[axis] * this.distance);
  }

  // Returns x, y (pixels) and depth (m) of a point, null behind the eye.
  project([x, y, z]) {
    const [dx, dy, dz] = [x - this.eye[0], y - this.eye[1], z - this.eye[2]];
    const depth = -(dx * this.back[0] + dy * this.back[1] + dz * this.back[2]);
    if (depth < NEAR) return null;
    const scale = this.focal / depth;
    const across = dx * this.right[0] + dy * this.right[1] + dz * this.right[2];
    const above = dx * this.up[0] + dy * this.up[1] + dz * this.up[2];
    return { x: this.width / 2 + across * scale, y: this.height / 2 - above * scale, depth, scale };
  }

  path(points, closed = true) {
    const seen = points.map((point) => this.project(point));
    if (seen.some((one) => !one)) return false;
    this.pen.beginPath();
    seen.forEach((one, index) => (index ? this.pen.lineTo(one.x, one.y) : this.pen.moveTo(one.x, one.y)));
    if (closed) this.pen.closePath();
    return true;
  }

  fill(points, color) {
    if (!this.path(points)) return;
    this.pen.fillStyle = color;
    this.pen.fill();
  }

  stroke(points, color, width = 1, closed = false) {
    if (!this.path(points, closed)) return;
    this.pen.strokeStyle = color;
    this.pen.lineWidth = width;
    this.pen.stroke();
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(1.5, Math.max(0.06, this.pitch + pitch));
    this.#changed();
  }

  zoom(factor) {
    this.distance = Math.min(400, Math.max(0.5, this.distance * factor));
    this.#changed();
  }

  pan(across, along) {
    this.#shift(across, along);
    this.#changed();
  }

  // Moves what is looked at by so many pixels, over the floor.
  #shift(across, along) {
    const scale = this.distance / this.focal;
    const ahead = [-Math.cos(this.yaw), -Math.sin(this.yaw)];
    for (const axis of [0, 1]) this.target[axis] += (-this.right[axis] * across + ahead[axis] * along / Math.sin(this.pitch + 0.2)) * scale;
  }

  reset() {
    Object.assign(this, HOME, { moved: false });
    this.onMove();
  }

  #changed() {
    this.moved = true;
    this.onMove();
  }

  #listen() {
    const { canvas } = this;
    const fingers = new Map();
    canvas.addEventListener('pointerdown', (event) => {
      fingers.set(event.pointerId, event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      if (fingers.size === 2) {
        const other = [...fingers.values()].find((one) => one.pointerId !== event.pointerId);
        const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
        this.zoom(apart(before) / Math.max(1, apart(event)));
        this.pan(dx / 2, dy / 2);
      } else if (event.shiftKey || event.buttons & 6) this.pan(dx, dy);
      else this.turn(-dx * 0.008, dy * 0.006);
      fingers.set(event.pointerId, event);
    });
    for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
    canvas.addEventListener('contextmenu', (event) => event.preventDefault());
    canvas.addEventListener('wheel', (event) => {
      // A page that is read through must not be held up here.
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.12 : 0.89);
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const [pan, spin] = [40, 0.12];
      const does = {
        ArrowLeft: () => this.turn(-spin, 0), ArrowRight: () => this.turn(spin, 0), ArrowUp: () => this.pan(0, pan),
        ArrowDown: () => this.pan(0, -pan), '+': () => this.zoom(0.85), '=': () => this.zoom(0.85), '-': () => this.zoom(1.18),
        Home: () => this.reset(),
      }[event.key];
      if (!does) return;
      event.preventDefault();
      does();
    });
  }
}
