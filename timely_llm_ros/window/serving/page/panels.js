// The panels: figures of the fleet, its robots in a list, and one robot with its plan, scene and log.
import { keyed, kindName, make, mark, say, seconds } from './dom.js';
import { median } from './fleet.js';

const CARDS = [['acting', 'robots that act'], ['engine', 'engine'], ['response', 'median response'], ['time', 'robots in time']];

export class Cards {
  constructor(parent) {
    this.parent = parent;
  }

  // One row of figures for each fleet, the first one in full and the other beneath.
  draw(panes) {
    keyed(this.parent, CARDS, ([name]) => name, ([name, title]) => make('div', { class: 'card', 'data-figure': name },
      make('p', { class: 'title' }, title), make('p', { class: 'value' }), make('p', { class: 'other' })), (card, [name]) => {
      const [, value, other] = card.children;
      say(value, figure(panes[0].fleet, name)[0]);
      const rest = panes.slice(1).map((pane) => `${pane.label}: ${figure(pane.fleet, name)[0]}`).join(' · ');
      say(other, rest || figure(panes[0].fleet, name)[1]);
    });
  }
}

function figure(fleet, name) {
  const { engine } = fleet;
  switch (name) {
    case 'acting': {
      const acting = [...fleet.robots.values()].filter((robot) => robot.state === 'executing').length;
      const tasks = [...fleet.robots.values()].reduce((sum, robot) => sum + robot.open.length, 0);
      return [`${acting} of ${fleet.robots.size}`, `${tasks} ${tasks === 1 ? 'task' : 'tasks'} under way`];
    }
    case 'engine': {
      if (!engine) return ['–', 'no planner was heard'];
      const rest = `${engine.suspended} suspended, ${engine.held} held · step ${seconds(engine.step_s)} · KV ${engine.kv_tokens}`;
      return [engine.running + engine.queued ? `${engine.running} run, ${engine.queued} wait` : 'idle', rest];
    }
    case 'response': return [seconds(median(fleet.responses)), fleet.responses.length === 1 ? '1 task was begun' : `${fleet.responses.length} tasks were begun`];
    default: {
      const begun = fleet.responses.length;
      return [`${begun - fleet.late} of ${begun}`, `${fleet.done} done, ${fleet.failed} failed, ${fleet.refused} refused`];
    }
  }
}

// What is left of the deadline, in words, and whether it is missed.
export function deadline(task, now) {
  if (!task) return ['', ''];
  if (task.response !== null) return [`${task.response <= task.ert ? 'kept' : 'late'} ${seconds(task.response)}`, task.response <= task.ert ? 'good' : 'bad'];
  const left = task.at + task.ert - now;
  return left >= 0 ? [`${left.toFixed(1)} s left`, 'soon'] : [`${(-left).toFixed(1)} s over`, 'bad'];
}

export class RobotList {
  constructor(parent, onSelect) {
    this.onSelect = onSelect;
    this.filter = make('input', { type: 'search', placeholder: 'find a robot', 'aria-label': 'find a robot' });
    this.count = make('output');
    this.body = make('ul', { class: 'robots' });
    parent.append(make('div', { class: 'controls' }, make('h2', {}, 'Robots'), this.filter, this.count), this.body);
  }

  draw(pane, selected) {
    const { fleet } = pane, now = pane.now();
    const wanted = this.filter.value.trim().toLowerCase();
    const robots = [...fleet.robots.values()].filter((robot) => robot.name.toLowerCase().includes(wanted));
    say(this.count, robots.length === fleet.robots.size ? '' : `${robots.length} of ${fleet.robots.size}`);
    keyed(this.body, robots, (robot) => robot.name, (robot) => make('li', { 'data-robot': robot.name },
      make('button', { type: 'button', onclick: () => this.onSelect(robot.name) },
        make('b'), make('span', { class: 'phase' }), make('span', { class: 'what' }), make('span', { class: 'due' }))), (item, robot) => {
      const task = fleet.taskOf(robot), phase = fleet.phaseOf(robot);
      const [name, shown, what, due] = item.firstChild.children;
      say(name, robot.name);
      say(shown, phase);
      mark(item, 'data-phase', phase);
      mark(item, 'aria-current', String(robot.name === selected));
      const does = task ? [kindName(task.kind), robot.call].filter(Boolean).join(' · ') : robot.call;
      say(what, does || (robot.done || robot.failed ? `${robot.done} done${robot.failed ? `, ${robot.failed} not` : ''}` : 'no task'));
      mark(what, 'data-urgent', String(Boolean(task?.urgent)));
      const [text, kind] = deadline(task, now);
      say(due, text);
      mark(due, 'data-kind', kind);
    });
  }
}

export class Detail {
  constructor(parent, { pane, act, onClose }) {
    Object.assign(this, { parent, pane, act, asked: 0, told: null });
    this.title = make('h2');
    this.phase = make('span', { class: 'phase' });
    this.stop = make('button', { type: 'button', class: 'stop', onclick: () => act.halt([this.name]) }, 'Stop');
    this.release = make('button', { type: 'button', onclick: () => act.release([this.name]) }, 'Release');
    this.cancel = make('button', { type: 'button', onclick: () => act.cancel(this.plan) }, 'Cancel task');
    this.task = make('p', { class: 'instruction' });
    this.plan = '';
    this.segments = make('ol', { class: 'plan' });
    this.writing = make('p', { class: 'writing' });
    this.sceneTitle = make('h3', {}, 'What it knows');
    this.scene = make('ul', { class: 'scene' });
    this.log = make('ol', { class: 'log' });
    parent.append(
      make('div', { class: 'controls' }, this.title, this.phase, make('span', { class: 'gap' }),
        make('button', { type: 'button', class: 'quiet', 'aria-label': 'close', onclick: onClose }, '✕')),
      make('div', { class: 'controls' }, this.stop, this.release, this.cancel),
      this.task, this.segments, this.writing, this.sceneTitle, this.scene, make('h3', {}, 'Log'), this.log,
    );
  }

  draw(name) {
    const { fleet } = this.pane, robot = fleet.robots.get(name);
    this.parent.hidden = !robot;
    if (!robot) return;
    if (name !== this.name) Object.assign(this, { name, asked: 0, told: null });
    const task = fleet.taskOf(robot) || [...fleet.tasks.values()].findLast((one) => one.robot === name) || null;
    const phase = fleet.phaseOf(robot), may = this.act.may();
    this.plan = task && task.end === null ? task.plan : '';
    say(this.title, this.pane.label ? `${name}, ${this.pane.label}` : name);
    say(this.phase, phase);
    mark(this.parent, 'data-phase', phase);
    this.stop.hidden = !may || robot.halted;
    this.release.hidden = !may || !robot.halted;
    this.cancel.hidden = !may || !this.plan;
    say(this.task, task ? task.text : 'It had no task yet.');
    this.#segments(task, robot);
    this.#scene(robot);
    keyed(this.log, robot.log.slice(-60).reverse(), (line) => line, () => make('li', {}, make('time'), make('span')), (item, line) => {
      say(item.firstChild, new Date(line.t * 1000).toTimeString().slice(0, 8));
      say(item.lastChild, line.text);
      mark(item, 'data-kind', line.kind);
    });
  }

  #segments(task, robot) {
    const segments = task ? [...task.segments.values()].sort((one, other) => one.index - other.index) : [];
    keyed(this.segments, segments, (segment) => `${task.plan} ${segment.index}`, () => make('li', {}, make('code'), make('span')), (item, segment) => {
      const acts = segment.started !== null && segment.ended === null && task.end === null;
      mark(item, 'data-state', segment.error ? 'failed' : segment.ended !== null ? 'done' : acts ? 'acts' : 'ready');
      say(item.firstChild, segment.text.trim());
      const about = [segment.tokens ? `${segment.tokens} tokens in ${seconds(segment.spent)}` : ''];
      if (segment.ended !== null && segment.started !== null) about.push(`acted ${seconds(segment.ended - segment.started)}`);
      else if (acts) about.push(`acts: ${robot.call || '…'}`);
      else about.push('ready');
      if (segment.awaits) about.push('the plan waits for its value');
      if (segment.error) about.push(segment.error);
      say(item.lastChild, about.filter(Boolean).join(' · '));
    });
    const generation = task && task.end === null ? this.pane.fleet.generations.get(task.plan) : null;
    let text = '';
    if (generation && generation.phase !== 'ended') {
      const where = { queued: 'waits for the engine', running: 'is being written', suspended: 'is suspended, its KV cache kept', held: 'waits for a value of the robot' };
      text = `Segment ${generation.segments} ${where[generation.phase] || ''} (${generation.tokens} tokens of its own)`;
    } else if (task && task.end !== null) text = task.ok ? `Done; worth ${task.utility.toFixed(2)}.` : task.error || 'Not done.';
    say(this.writing, text);
    mark(this.writing, 'data-phase', generation?.phase || '');
  }

  #scene(robot) {
    const now = performance.now();
    if (this.act.may() && now - this.asked > 3000) {
      this.asked = now;
      const asked = this.name;
      this.act.scene(asked, (answer) => { if (answer.scene && asked === this.name) this.told = answer.scene; });
    }
    const scene = this.told && this.told.length ? this.told : robot.scene;
    say(this.sceneTitle, `What it knows (${scene.length})`);
    keyed(this.scene, scene.slice(0, 200), (item) => item[0], () => make('li', {}, make('b'), make('span')), (line, item) => {
      const [name, , attribute, relation, support, x, y, z] = item;
      say(line.firstChild, name);
      say(line.lastChild, `${[attribute, relation, support].filter(Boolean).join(' ')} · ${x.toFixed(1)}, ${y.toFixed(1)}, ${z.toFixed(1)} m`);
    });
  }
}
