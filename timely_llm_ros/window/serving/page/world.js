// The world in 3D: robots whose poses are known stand in one room, every other one on a stage of its own, where its
// plan leads it. A stage is as large as what its robot knows of.
import { Camera } from './camera.js';
import { ball, colorOf, drawRobot, drawThing, ring, shadow } from './bodies.js';

// Where an arm's hand is at rest, from its base.
const REST = [0.31, 0, 0.49];
const STAGE = 10, GAP = 1.6, MOST_TRAIL = 60, MOST_LABELS = 40, FRAME_MS = 33;

export const PHASES = {
  executing: 'act', generating: 'generate', waiting: 'idle', unapproved: 'other', idle: 'wait', safe: 'due', lost: 'missed', halted: 'missed', inactive: 'other', unknown: 'wait',
};

export class World {
  constructor(canvas, { now, onSelect }) {
    this.canvas = canvas;
    this.now = now;
    this.camera = new Camera(canvas, () => { this.dirty = true; });
    this.fleet = null;
    this.selected = '';
    this.trails = new Map();
    this.spots = [];
    this.calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.last = 0;
    let down = null;
    canvas.addEventListener('pointerdown', (event) => { down = event; });
    canvas.addEventListener('pointerup', (event) => {
      if (!down || Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > 5) return;
      onSelect(this.#at(event));
    });
    const colors = () => { this.color = readColors(); this.dirty = true; };
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', colors);
    colors();
    const loop = (time) => {
      requestAnimationFrame(loop);
      if (!this.fleet || time - this.last < FRAME_MS || !canvas.clientWidth || document.hidden) return;
      this.last = time;
      this.draw(time / 1000);
    };
    requestAnimationFrame(loop);
  }

  show(fleet) {
    if (fleet !== this.fleet) this.trails.clear();
    this.fleet = fleet;
  }

  draw(time) {
    const { camera, fleet, color } = this;
    const now = this.now();
    if (now === null) return;
    camera.prepare();
    const stages = this.#stages(fleet);
    camera.fit(stages.box);
    camera.prepare();
    camera.pen.clearRect(0, 0, camera.width, camera.height);
    this.spots = [];
    for (const stage of stages.all) this.#floor(stage);
    const drawn = [];
    const add = (place, draw) => drawn.push({ depth: camera.project(place)?.depth ?? 1e9, draw });
    const labels = [];
    for (const stage of stages.all) {
      for (const thing of stage.things) this.#thing(stage, thing, now, add, labels);
      for (const robot of stage.robots) this.#robot(stage, robot, now, time, add, labels, stages.all.length);
    }
    drawn.sort((one, other) => other.depth - one.depth);
    for (const one of drawn) one.draw();
    this.#labels(labels);
    if (!fleet.robots.size) {
      camera.pen.fillStyle = color.soft;
      camera.pen.font = '14px system-ui, sans-serif';
      camera.pen.textAlign = 'center';
      camera.pen.fillText('No robot has been heard yet.', camera.width / 2, camera.height / 2);
    }
  }

  // Where a robot is on its stage: x, y, z, heading; where its hand is for arms.
  #place(robot, now) {
    if (robot.pose) {
      const { at, t } = robot.pose, before = robot.before;
      const share = before && t > before.t ? Math.min(1, Math.max(0, (now - t) / Math.min(1, t - before.t))) : 1;
      const here = before ? mix(before.at, at, share) : at;
      if (robot.body !== 'arm') return { at: here, hand: null };
      // An arm's pose is that of its hand, which is at rest at first.
      robot.base = robot.base || at.map((value, axis) => value - (REST[axis] || 0));
      return { at: [robot.base[0], robot.base[1], 0, 0], hand: here.map((value, axis) => value - robot.base[axis]) };
    }
    const { way } = robot;
    if (!way) return { at: [0, 0, 0, 0], hand: null };
    const share = smooth(way.lasts_s > 0 ? Math.min(1, Math.max(0, (now - way.t) / way.lasts_s)) : 1);
    if (way.from) return { at: mix(way.from, way.to, share), hand: null };
    // An arm goes to its object and rests afterwards where it is.
    robot.hand = robot.hand || REST;
    const to = way.reaches || REST;
    robot.hand = robot.hand.map((value, axis) => value + (to[axis] - value) * 0.12);
    return { at: [0, 0, 0, 0], hand: robot.hand, reaches: way.reaches };
  }

  #stages(fleet) {
    const robots = [...fleet.robots.values()];
    const placed = robots.filter((robot) => robot.pose), others = robots.filter((robot) => !robot.pose);
    const things = [...fleet.things.values()].flatMap((known) => [...known.values()]);
    const all = [];
    const box = [0, 0, 0, 0];
    if (placed.length || things.length) {
      const points = [...placed.map((robot) => robot.pose.at), ...things.map((thing) => thing.at)];
      this.room = roomFor(points, this.room);
      const [left, bottom, right, top] = this.room;
      const size = Math.max(0.5, Math.max(right - left, top - bottom) / 28);
      all.push({ x: 0, y: 0, scale: 1, box: this.room, robots: placed, things, common: true, size });
      box.splice(0, 4, ...this.room);
    }
    const wide = Math.min(2.4, this.camera.width / Math.max(1, this.camera.height));
    const columns = Math.max(1, Math.round(Math.sqrt(others.length * wide * 0.85)));
    // Stages that move take no trails with them.
    if (columns !== this.columns) this.trails.clear();
    this.columns = columns;
    const base = all.length ? this.room[2] + GAP + STAGE / 2 : 0;
    others.forEach((robot, index) => {
      const x = base + (index % columns) * (STAGE + GAP), y = -Math.floor(index / columns) * (STAGE + GAP);
      const far = robot.scene.map((item) => Math.max(Math.abs(item[5]), Math.abs(item[6])));
      const near = robot.body === 'arm' ? 0.8 : 2;
      const way = robot.way?.to ? Math.max(Math.abs(robot.way.to[0]), Math.abs(robot.way.to[1])) : 0;
      robot.reach = Math.min(2000, Math.max(near, ...far, way));
      const own = [x - STAGE / 2, y - STAGE / 2, x + STAGE / 2, y + STAGE / 2];
      all.push({ x, y, scale: STAGE / 2.25 / robot.reach, box: own, robots: [robot], things: [], size: 1.7, robot });
      box.splice(0, 4, ...box.map((edge, side) => (side < 2 ? Math.min : Math.max)(edge, own[side])));
    });
    return { all, box };
  }

  #floor(stage) {
    const { camera, color } = this;
    const { x, y, box: [left, bottom, right, top] } = stage;
    const corners = [[left, bottom, 0], [right, bottom, 0], [right, top, 0], [left, top, 0]];
    const chosen = stage.robot && stage.robot.name === this.selected;
    camera.fill(corners, stage.robot?.halted ? `color-mix(in srgb, ${color.missed} 13%, ${color.card})` : color.card);
    const step = niceStep(Math.max(right - left, top - bottom) / 10 / stage.scale) * stage.scale;
    // Lines are where the stage's own numbers are round.
    const lines = (from, to, zero) => {
      const first = Math.ceil((from - zero) / step), count = Math.floor((to - zero) / step) - first + 1;
      return Array.from({ length: Math.max(0, count) }, (_, index) => zero + (first + index) * step);
    };
    for (const at of lines(left, right, x)) camera.stroke([[at, bottom, 0], [at, top, 0]], color.line, 0.6);
    for (const at of lines(bottom, top, y)) camera.stroke([[left, at, 0], [right, at, 0]], color.line, 0.6);
    camera.stroke(corners, chosen ? color.accent : color.line, chosen ? 2.5 : 1.2, true);
  }

  #thing(stage, thing, now, add, labels) {
    if (thing.lasts_s > 0 && now - thing.t > thing.lasts_s) return;
    const at = ([x, y, z]) => [stage.x + x * stage.scale, stage.y + y * stage.scale, z * stage.scale];
    if (thing.shape === 'text') labels.push({ place: at(thing.at), lines: [thing.text], weight: 0 });
    else add(at(thing.at), () => drawThing(this.camera, thing, at));
  }

  #robot(stage, robot, now, time, add, labels, stages) {
    const { camera, color, fleet } = this;
    const on = ([x, y, z]) => [stage.x + x * stage.scale, stage.y + y * stage.scale, Math.max(0, z) * (stage.common ? stage.scale : 1.6)];
    const { at, hand, reaches } = this.#place(robot, now);
    const place = on(at);
    const phase = fleet.phaseOf(robot);
    const tone = color[PHASES[phase] || 'wait'];
    const chosen = robot.name === this.selected;
    const crowd = fleet.robots.size > 16;
    if (stage.robot || chosen) this.#scene(robot, (one, frame) => on(stage.robot || frame ? one : fromStart(robot, one)), chosen || !crowd, add, labels);
    const seen = camera.project(place);
    if (!seen) return;
    const look = {
      body: color.card === '#ffffff' ? '#f4f6f9' : '#c9d0da', dark: color.card === '#ffffff' ? '#3a4250' : '#6b7686', accent: tone,
      glass: `color-mix(in srgb, ${tone} 22%, transparent)`, pixel: seen.scale, flies: at[2] > 0.05 && !this.calm,
    };
    this.#trail(robot, place, tone);
    add([place[0], place[1], 0], () => {
      camera.stroke(ring([place[0], place[1], 0.01], stage.size * 0.5), tone, chosen ? 3.5 : 2, true);
      if (place[2] > 0.1) camera.stroke([[place[0], place[1], 0], place], color.soft, 0.8);
      if (reaches && hand) camera.stroke([place, on(reaches)], tone, 1);
    });
    // In a room that all share, arms are drawn as much too large as everybody.
    const far = stage.common ? 3.2 * stage.size : stage.scale;
    const reach = hand && [place[0] + hand[0] * far, place[1] + hand[1] * far, 0.35 + Math.max(0, hand[2]) * far * 0.35];
    add(place, () => drawRobot(camera, robot.body, place, at[3], reach || place, stage.size, look, time + robot.name.length));
    this.spots.push({ x: seen.x, y: seen.y, radius: Math.max(16, stage.size * 0.6 * seen.scale), name: robot.name });
    const task = fleet.taskOf(robot);
    const lines = [robot.name];
    if (task && (chosen || stages <= 16 && camera.width > 600)) {
      lines.push(task.kind.replaceAll('_', ' '));
      if (robot.call && phase === 'executing') lines.push(robot.call);
      const left = task.at + task.ert - now;
      if (task.response === null) lines.push(left >= 0 ? `${left.toFixed(1)} s left` : `${(-left).toFixed(1)} s over`);
    }
    const high = robot.body === 'arm' ? stage.size * 1.15 : stage.size * 0.45;
    labels.push({ place: [place[0], place[1], place[2] + high], lines, tone, weight: chosen ? 3 : 2, late: task && task.response === null && now > task.at + task.ert });
  }

  #scene(robot, on, named, add, labels) {
    const { camera } = this;
    for (const [name, kind, attribute, , , x, y, z, frame] of robot.scene.slice(0, 120)) {
      const place = on([x, y, z], frame), radius = 0.2;
      add(place, () => {
        shadow(camera, place, radius * 1.1);
        ball(camera, [place[0], place[1], place[2] + radius], radius, colorOf(attribute, kind));
      });
      if (named) labels.push({ place: [place[0], place[1], place[2] + 2.3 * radius], lines: [name], weight: robot.name === this.selected ? 1 : 0 });
    }
  }

  #trail(robot, place, tone) {
    const trail = this.trails.get(robot.name) || [];
    const last = trail[trail.length - 1];
    if (!last || Math.hypot(...place.map((value, axis) => value - last[axis])) > 0.12) trail.push(place);
    if (trail.length > MOST_TRAIL) trail.shift();
    this.trails.set(robot.name, trail);
    const { pen } = this.camera;
    for (let index = 1; index < trail.length; index += 1) {
      pen.globalAlpha = 0.5 * index / trail.length;
      this.camera.stroke([trail[index - 1], trail[index]], tone, 1.5);
    }
    pen.globalAlpha = 1;
  }

  // Writes labels, the important ones first; one that would cover another is left out.
  #labels(labels) {
    const { camera, color } = this, { pen } = camera;
    const taken = [];
    pen.textBaseline = 'middle';
    pen.textAlign = 'left';
    let small = 0;
    for (const label of labels.sort((one, other) => other.weight - one.weight)) {
      const at = camera.project(label.place);
      if (!at || at.x < 0 || at.x > camera.width || at.y < 0 || at.y > camera.height) continue;
      const robot = label.weight > 1;
      if (!robot && (small += 1) > MOST_LABELS) continue;
      const size = robot ? 12 : 10.5, tall = size * 1.32;
      pen.font = `${robot ? 650 : 400} ${size}px system-ui, "Segoe UI", Roboto, sans-serif`;
      const texts = label.lines.map((line) => (line.length > 34 ? line.slice(0, 33) + '…' : line));
      const wide = Math.max(...texts.map((text) => pen.measureText(text).width)) + (robot ? 22 : 6);
      const high = texts.length * tall + (robot ? 8 : 2);
      const spot = { left: at.x - wide / 2, top: at.y - high - 4, right: at.x + wide / 2, bottom: at.y - 4 };
      const covered = taken.some((one) => spot.left < one.right && spot.right > one.left && spot.top < one.bottom && spot.bottom > one.top);
      if (covered && label.weight < 3) continue;
      taken.push(spot);
      if (!robot) {
        pen.fillStyle = color.soft;
        pen.fillText(texts[0], spot.left + 3, spot.top + high / 2);
        continue;
      }
      pen.beginPath();
      pen.roundRect(spot.left, spot.top, wide, high, 6);
      pen.globalAlpha = 0.92;
      pen.fillStyle = color.card;
      pen.fill();
      pen.globalAlpha = 1;
      pen.strokeStyle = label.late ? color.missed : color.line;
      pen.lineWidth = 1;
      pen.stroke();
      pen.fillStyle = label.tone;
      pen.beginPath();
      pen.arc(spot.left + 9, spot.top + 4 + tall / 2, 4, 0, 7);
      pen.fill();
      texts.forEach((text, index) => {
        pen.font = `${index ? 400 : 650} ${index ? 11 : size}px system-ui, "Segoe UI", Roboto, sans-serif`;
        pen.fillStyle = index === 0 ? color.ink : label.late && index === texts.length - 1 ? color.missed : color.soft;
        pen.fillText(text, spot.left + 17, spot.top + 4 + tall * (index + 0.5));
      });
    }
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const near = this.spots.map((spot) => ({ ...spot, away: Math.hypot(spot.x - x, spot.y - y) })).filter((spot) => spot.away < spot.radius + 8);
    return near.sort((one, other) => one.away - other.away)[0]?.name || '';
  }
}

// Where something is that has no frame: it lies so from where the robot started, which is where it was heard first.
export function fromStart(robot, [x, y, z]) {
  const [x0, y0, z0, heading] = robot.body === 'arm' && robot.base ? [...robot.base, 0] : robot.start;
  const [cos, sin] = [Math.cos(heading), Math.sin(heading)];
  return [x0 + x * cos - y * sin, y0 + x * sin + y * cos, robot.body === 'arm' ? z0 + z : z];
}

// The floor under these points, with some room around them: left, bottom, right, top (m). It only grows, since a
// floor that breathes makes dizzy.
function roomFor(points, before) {
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const edges = (values) => {
    const least = Math.min(...values), most = Math.max(...values);
    const room = Math.max(2 - (most - least) / 2, 0.5, 0.1 * (most - least));
    return [Math.max(-200, Math.floor(least - room)), Math.min(200, Math.ceil(most + room))];
  };
  const [left, right] = edges(xs), [bottom, top] = edges(ys);
  const [l, b, r, t] = before || [left, bottom, right, top];
  return [Math.min(left, l), Math.min(bottom, b), Math.max(right, r), Math.max(top, t)];
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(['card', 'ink', 'soft', 'line', 'faint', 'wait', 'generate', 'act', 'idle', 'due', 'missed', 'accent', 'other']
    .map((name) => [name, style.getPropertyValue('--' + name).trim()]));
}

function mix(from, to, share) {
  return from.map((value, axis) => {
    let step = to[axis] - value;
    // A heading turns the short way.
    if (axis === 3) step = Math.atan2(Math.sin(step), Math.cos(step));
    return value + step * share;
  });
}

const smooth = (share) => share * share * (3 - 2 * share);
