'use strict';
// Draws the timelines. Text of a trace reaches the page only as textContent or on a canvas.
const data = JSON.parse(document.getElementById('data').textContent);
const tip = document.getElementById('tip');
const longest = Math.max(1, ...data.runs.map((run) => run.duration));
const charts = [...document.querySelectorAll('canvas[data-run]')].map((canvas) => ({
  canvas, run: data.runs[Number(canvas.dataset.run)], hits: [],
}));
const view = { from: 0, to: longest };
const filter = { robot: '', kind: '', only: '' };
let scheduled = false;

// What of a run the filter leaves: its tasks, their robots, and the row of each of them.
function chosen(run) {
  if (run.chosen) return run.chosen;
  const wanted = filter.robot.trim().toLowerCase();
  const tests = {
    '': () => true, late: (task) => task.late, failed: (task) => !task.ok, urgent: (task) => task.urgent,
  };
  const tasks = run.tasks.filter((task) => (!filter.kind || task.kind === filter.kind) &&
    run.robots[task.row].toLowerCase().includes(wanted) && tests[filter.only](task));
  const all = !wanted && !filter.kind && !filter.only;
  const there = new Set(tasks.map((task) => task.row));
  const rows = run.robots.map((_, row) => row).filter((row) => all || there.has(row));
  run.chosen = {
    tasks, rows: new Map(rows.map((row, place) => [row, place])), robots: rows.map((row) => run.robots[row]),
  };
  return run.chosen;
}

function applyFilter() {
  let left = 0, total = 0;
  const names = new Set();
  data.runs.forEach((run, number) => {
    run.chosen = null;
    const tasks = new Set(chosen(run).tasks);
    left += tasks.size;
    total += run.tasks.length;
    run.tasks.forEach((task, place) => { if (tasks.has(task)) names.add(number + ' ' + place); });
  });
  for (const line of document.querySelectorAll('tr[data-task]')) {
    line.hidden = !names.has(line.dataset.task);
  }
  document.getElementById('shown').textContent = left === total ? '' : left + ' of ' + total + ' tasks';
  redraw();
}

function draw(chart) {
  chart.chosen = chosen(chart.run);
  drawGantt(chart, view);
}

function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; charts.forEach(draw); });
}

function show(from, to) {
  const span = Math.min(Math.max(to - from, 0.2), longest * 1.02);
  view.from = Math.min(Math.max(from, 0), longest * 1.02 - span);
  view.to = view.from + span;
  redraw();
}

function zoom(factor, around = (view.from + view.to) / 2) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

function showBusiest() {
  const span = Math.min(15, longest);
  let best = 0, most = -1, sum = 0, ahead = 0;
  const tasks = data.runs[data.runs.length - 1].tasks;
  // Tasks come in the order in which they were received.
  for (const task of tasks) {
    while (ahead < tasks.length && tasks[ahead].at < task.at + span * 0.6) sum += tasks[ahead++].response || 0;
    if (sum > most) { most = sum; best = task.at; }
    sum -= task.response || 0;
  }
  show(best - span * 0.04, best + span * 0.96);
}

for (const chart of charts) {
  const { canvas } = chart;
  let drag = null;
  canvas.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, from: view.from, to: view.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (drag && event.buttons) {
      const moved = (event.clientX - drag.x) / chart.scale;
      show(drag.from - moved, drag.to - moved);
      tip.hidden = true;
    } else {
      hover(chart, event, view, tip);
    }
  });
  canvas.addEventListener('pointerup', (event) => { drag = null; hover(chart, event, view, tip); });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  canvas.addEventListener('dblclick', (event) => {
    zoom(0.4, view.from + (point(chart, event).x - chart.gutter) / chart.scale);
  });
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, view.from + (point(chart, event).x - chart.gutter) / chart.scale);
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const action = { '+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', Home: 'fit' }[event.key];
    if (!action) return;
    event.preventDefault();
    actions[action]();
  });
}

const shift = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
const actions = {
  fit: () => show(0, longest * 1.02), busy: showBusiest, in: () => zoom(0.6), out: () => zoom(1.6),
  left: () => shift(-0.3), right: () => shift(0.3),
};
for (const button of document.querySelectorAll('button[data-do]')) {
  button.addEventListener('click', () => actions[button.dataset.do]());
}
for (const [name, kind] of [['robot', 'input'], ['kind', 'change'], ['only', 'change']]) {
  document.getElementById('filter-' + name).addEventListener(kind, (event) => {
    filter[name] = event.target.value;
    applyFilter();
  });
}
window.addEventListener('resize', redraw);
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
if (document.documentElement.clientWidth < 600 && longest > 20) showBusiest();
else actions.fit();
