// One chart that follows the time, until somebody moves it. It is drawn by gantt.js, as reports are.
/* global drawGantt, hover, hitAt */
import { runOf } from './fleet.js';
import { mark } from './dom.js';

const MANY = 14;

export class Timeline {
  constructor(canvas, tip, { now, onSelect, views }) {
    Object.assign(this, { canvas, tip, now, views, fleet: null, selected: '', only: '' });
    this.chart = { canvas, hits: [] };
    let drag = null;
    canvas.addEventListener('pointerdown', (event) => {
      drag = { x: event.clientX, y: event.clientY, ...views.shown };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag || !event.buttons || !this.chart.scale) {
        hover(this.chart, event, views.shown, tip);
        return;
      }
      if (Math.abs(event.clientX - drag.x) < 3) return;
      const moved = (drag.x - event.clientX) / this.chart.scale;
      views.hold(drag.from + moved, drag.to + moved);
      tip.hidden = true;
    });
    canvas.addEventListener('pointerup', (event) => {
      if (drag && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 4) {
        const box = canvas.getBoundingClientRect(), hit = hitAt(this.chart, event);
        const row = Math.floor((event.clientY - box.top - 22) / (this.chart.row || 38));
        onSelect(this.chart.run?.robots[hit?.task ? hit.task.row : this.chart.shown?.[row]] ?? '');
      }
      drag = null;
    });
    canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      views.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const does = {
        '+': () => views.zoom(0.6), '=': () => views.zoom(0.6), '-': () => views.zoom(1.6), ArrowLeft: () => views.shift(-0.3),
        ArrowRight: () => views.shift(0.3), Home: () => views.follow(),
      }[event.key];
      if (!does) return;
      event.preventDefault();
      does();
    });
  }

  draw() {
    const now = this.now();
    if (!this.fleet || now === null || !this.canvas.clientWidth) return;
    const run = runOf(this.fleet, now);
    const wanted = this.only.trim().toLowerCase();
    const rows = run.robots.map((_, row) => row).filter((row) => run.robots[row].toLowerCase().includes(wanted));
    const there = new Set(rows);
    Object.assign(this.chart, {
      run, shown: rows, row: rows.length > MANY ? 22 : 38, selected: this.selected,
      chosen: {
        tasks: run.tasks.filter((task) => there.has(task.row)), robots: rows.map((row) => run.robots[row]),
        rows: new Map(rows.map((row, place) => [row, place])),
      },
    });
    this.views.at(run.duration);
    const clock = (time) => new Date((run.base + time) * 1000).toTimeString().slice(0, 8);
    drawGantt(this.chart, { ...this.views.shown, label: this.views.clock ? clock : null });
    mark(this.canvas, 'data-tasks', String(run.tasks.length));
  }
}

// What part of time charts show: the last seconds as they pass, or where somebody stopped them.
export class Views {
  constructor(clock) {
    Object.assign(this, { clock, span: innerWidth < 600 ? 25 : 60, following: true, shown: { from: 0, to: 60 } });
  }

  at(now) {
    if (this.following) this.shown = { from: now - this.span * 0.94, to: now + this.span * 0.06 };
  }

  hold(from, to) {
    this.following = false;
    this.shown = { from, to };
  }

  shift(share) {
    const { from, to } = this.shown;
    this.hold(from + share * (to - from), to + share * (to - from));
  }

  zoom(factor) {
    this.span = Math.min(3600, Math.max(2, this.span * factor));
    if (this.following) return;
    const { from, to } = this.shown, middle = (from + to) / 2;
    this.shown = { from: middle - this.span / 2, to: middle + this.span / 2 };
  }

  follow() {
    this.following = true;
  }
}
