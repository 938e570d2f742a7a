// Draws robots and things. Every shape is given in its stage's metres and put in its place by `at`.

const CIRCLE = Array.from({ length: 20 }, (_, index) => [Math.cos(index * Math.PI / 10), Math.sin(index * Math.PI / 10)]);

const NAMED = {
  red: '#d64545', blue: '#3f7fd6', green: '#3c9a5f', yellow: '#d8b13a', black: '#2b2f36', white: '#e9ecf1', grey: '#8b93a0',
  gray: '#8b93a0', orange: '#dd7f35', purple: '#8a5cc7', pink: '#d977a8', brown: '#8c6544', silver: '#b3bac4', golden: '#c9a23a',
  wooden: '#a97b4f', metal: '#99a2ad',
};

// The colour of an object: as its attribute says, else one of its kind.
export function colorOf(attribute, kind) {
  if (Object.hasOwn(NAMED, attribute)) return NAMED[attribute];
  let hash = 7;
  for (const letter of kind) hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return `hsl(${hash} 38% 55%)`;
}

export function ring([x, y, z], radius) {
  return CIRCLE.map(([cos, sin]) => [x + radius * cos, y + radius * sin, z]);
}

function turned([x, y, z], heading, [px, py, pz]) {
  const [cos, sin] = [Math.cos(heading), Math.sin(heading)];
  return [px + x * cos - y * sin, py + x * sin + y * cos, pz + z];
}

const FACES = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]];
const LIGHT = [0.62, 1.12, 0.86, 0.94, 0.86, 0.78];

// A box around a place, by its sizes along its own axes; faces that look away are hidden by those that do not.
export function box(camera, place, size, heading, color, alpha = 1) {
  const [a, b, c] = size.map((one) => one / 2);
  const corners = [[-a, -b, -c], [a, -b, -c], [a, b, -c], [-a, b, -c], [-a, -b, c], [a, -b, c], [a, b, c], [-a, b, c]]
    .map((one) => turned(one, heading, place));
  const far = (face) => face.reduce((sum, index) => sum + (camera.project(corners[index])?.depth ?? 0), 0);
  const pen = camera.pen;
  pen.globalAlpha = alpha;
  for (const number of [0, 1, 2, 3, 4, 5].sort((one, other) => far(FACES[other]) - far(FACES[one])).slice(3)) {
    camera.fill(FACES[number].map((index) => corners[index]), color);
    if (!camera.path(FACES[number].map((index) => corners[index]))) continue;
    const light = LIGHT[number];
    pen.fillStyle = light < 1 ? `rgb(0 0 0 / ${(1 - light).toFixed(2)})` : `rgb(255 255 255 / ${(light - 1).toFixed(2)})`;
    pen.fill();
  }
  pen.globalAlpha = 1;
}

export function ball(camera, place, radius, color) {
  const at = camera.project(place);
  if (!at) return;
  const size = Math.max(2, radius * at.scale), pen = camera.pen;
  pen.beginPath();
  pen.arc(at.x, at.y, size, 0, 7);
  pen.fillStyle = color;
  pen.fill();
  const shine = pen.createRadialGradient(at.x - size * 0.35, at.y - size * 0.4, size * 0.1, at.x, at.y, size);
  shine.addColorStop(0, 'rgb(255 255 255 / .55)');
  shine.addColorStop(0.5, 'rgb(255 255 255 / 0)');
  shine.addColorStop(1, 'rgb(0 0 0 / .28)');
  pen.fillStyle = shine;
  pen.fill();
}

export function shadow(camera, [x, y], radius, alpha = 0.16) {
  camera.fill(ring([x, y, 0.004], radius), `rgb(10 15 25 / ${alpha})`);
}

function flyer(camera, place, heading, size, look, time) {
  const arm = size * 0.36, rotor = size * 0.25, flies = look.flies;
  const hubs = [[1, 1], [1, -1], [-1, 1], [-1, -1]].map(([x, y]) => turned([x * arm, y * arm, size * 0.03], heading, place));
  for (const hub of hubs) camera.stroke([place, hub], look.dark, Math.max(1.5, look.pixel * size * 0.045));
  box(camera, place, [size * 0.34, size * 0.2, size * 0.12], heading, look.body);
  hubs.forEach((hub, index) => {
    camera.fill(ring(hub, rotor), look.glass);
    camera.stroke(ring(hub, rotor), look.dark, 1, true);
    const spin = flies ? time * 21 + index : index;
    const [dx, dy] = [Math.cos(spin) * rotor, Math.sin(spin) * rotor];
    camera.stroke([[hub[0] - dx, hub[1] - dy, hub[2]], [hub[0] + dx, hub[1] + dy, hub[2]]], look.dark, 1.2);
  });
  const nose = turned([size * 0.2, 0, 0], heading, place);
  ball(camera, nose, size * 0.045, look.accent);
}

function rover(camera, place, heading, size, look) {
  const [x, y, z] = place;
  for (const [dx, dy] of [[0.25, 0.26], [0.25, -0.26], [-0.25, 0.26], [-0.25, -0.26]]) {
    box(camera, turned([dx * size, dy * size, size * 0.09], heading, place), [size * 0.2, size * 0.09, size * 0.18], heading, look.dark);
  }
  box(camera, [x, y, z + size * 0.19], [size * 0.74, size * 0.46, size * 0.16], heading, look.body);
  box(camera, turned([size * 0.08, 0, size * 0.36], heading, place), [size * 0.16, size * 0.2, size * 0.18], heading, look.dark);
  ball(camera, turned([size * 0.18, 0, size * 0.36], heading, place), size * 0.045, look.accent);
}

// Two links from a base towards what the hand is for.
function arm(camera, place, hand, size, look) {
  const [x, y, z] = place;
  box(camera, [x, y, z + size * 0.06], [size * 0.36, size * 0.36, size * 0.12], 0, look.dark);
  const shoulder = [x, y, z + size * 0.3];
  box(camera, [x, y, z + size * 0.2], [size * 0.2, size * 0.2, size * 0.2], 0, look.body);
  const link = size * 0.62;
  let [dx, dy, dz] = hand.map((value, axis) => value - shoulder[axis]);
  const length = Math.hypot(dx, dy, dz) || 1;
  const reach = Math.min(length, link * 1.96);
  [dx, dy, dz] = [dx, dy, dz].map((value) => value / length * reach);
  const lift = Math.sqrt(Math.max(0, link * link - reach * reach / 4));
  const flat = Math.hypot(dx, dy) || 1;
  const elbow = [
    shoulder[0] + dx / 2 - dx / flat * dz / reach * lift, shoulder[1] + dy / 2 - dy / flat * dz / reach * lift,
    shoulder[2] + dz / 2 + flat / reach * lift,
  ];
  const end = [shoulder[0] + dx, shoulder[1] + dy, shoulder[2] + dz];
  const thick = Math.max(3, look.pixel * size * 0.12);
  camera.pen.lineCap = 'round';
  camera.stroke([shoulder, elbow], look.dark, thick + 2);
  camera.stroke([shoulder, elbow], look.body, thick);
  camera.stroke([elbow, end], look.dark, thick * 0.8 + 2);
  camera.stroke([elbow, end], look.body, thick * 0.8);
  camera.pen.lineCap = 'butt';
  ball(camera, elbow, size * 0.075, look.dark);
  ball(camera, end, size * 0.07, look.accent);
}

export function drawRobot(camera, body, place, heading, hand, size, look, time) {
  shadow(camera, place, size * 0.42, place[2] > 0.1 ? 0.12 : 0.2);
  if (body === 'flyer') flyer(camera, place, heading, size, look, time);
  else if (body === 'rover') rover(camera, place, heading, size, look);
  else if (body === 'arm') arm(camera, place, hand, size, look);
  else {
    box(camera, [place[0], place[1], place[2] + size * 0.2], [size * 0.4, size * 0.4, size * 0.4], heading, look.body);
    ball(camera, [place[0], place[1], place[2] + size * 0.5], size * 0.16, look.accent);
  }
}

export function drawThing(camera, thing, at) {
  const [r, g, b, alpha] = thing.color;
  const color = `rgb(${Math.round(r * 255)} ${Math.round(g * 255)} ${Math.round(b * 255)})`;
  const [place, heading] = [at(thing.at), thing.at[3]];
  if (thing.shape === 'line') {
    const points = thing.points.map(at), scale = points.length ? camera.project(points[0])?.scale || 0 : 0;
    camera.stroke(points, color, Math.max(2, thing.size[0] * scale));
  } else if (thing.shape === 'ball') ball(camera, place, thing.size[0] / 2, color);
  else if (thing.shape === 'cylinder') {
    const [x, y, z] = place, half = thing.size[2] / 2, radius = thing.size[0] / 2;
    camera.pen.globalAlpha = alpha;
    const low = ring([x, y, z - half], radius), high = ring([x, y, z + half], radius);
    low.forEach((_, index) => {
      const next = (index + 1) % low.length;
      camera.fill([low[index], low[next], high[next], high[index]], color);
    });
    camera.fill(high, color);
    camera.pen.globalAlpha = 1;
    camera.stroke(high, 'rgb(255 255 255 / .35)', 1, true);
  } else if (thing.shape === 'box') box(camera, place, thing.size, heading, color, alpha);
}
