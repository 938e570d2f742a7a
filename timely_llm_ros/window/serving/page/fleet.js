// What a fleet does, kept up to date by events: plain data. The same for what happens now and for what was recorded.

const MOST_TASKS = 400, MOST_SAMPLES = 3000, MOST_LOG = 200, SAMPLE_S = 0.2;

export const numbers = new Intl.Collator('en', { numeric: true });

export class Fleet {
  // The time at which its chart begins; null for when it was first heard of.
  constructor(origin = null) {
    this.origin = origin;
    this.robots = new Map();
    this.tasks = new Map();
    this.engine = null;
    this.samples = [];
    this.responses = [];
    this.late = 0;
    this.done = 0;
    this.failed = 0;
    this.refused = 0;
    this.things = new Map();
    this.generations = new Map();
    this.unapproved = new Set();
    this.begun = null;
  }

  robot(name) {
    let robot = this.robots.get(name);
    if (!robot) {
      robot = {
        name, skillSet: '', body: '', state: 'unknown', call: '', segment: 0, plan: '', halted: false, inactive: false, queued: 0,
        pose: null, before: null, start: null, way: null, done: 0, failed: 0, log: [], open: [], scene: [],
      };
      this.robots.set(name, robot);
      this.robots = new Map([...this.robots].sort((one, other) => numbers.compare(one[0], other[0])));
    }
    return robot;
  }

  apply(event) {
    if (this.begun === null || event.t < this.begun) this.begun = event.t;
    switch (event.event) {
      case 'robot': return this.#state(event);
      case 'task': return this.#task(event);
      case 'segment': return this.#segment(event);
      case 'scheduler': return this.#engine(event);
      case 'unapproved': this.unapproved = new Set(event.plans); return undefined;
      case 'load': return this.#sample(event);
      case 'body': this.robot(event.robot).body = event.is; return undefined;
      case 'pose': {
        const robot = this.robot(event.robot);
        robot.before = robot.pose;
        robot.pose = { at: event.at, t: event.t };
        robot.start = robot.start || event.at;
        return undefined;
      }
      case 'way': this.robot(event.robot).way = event; return undefined;
      case 'things': return this.#things(event);
      default: return undefined;
    }
  }

  // The task that a robot does, or that is planned for it first.
  taskOf(robot) {
    return robot.open.find((task) => task.plan === robot.plan) || robot.open[0] || null;
  }

  // What a robot does, in one word.
  phaseOf(robot) {
    if (robot.halted) return 'halted';
    if (robot.state === 'lost' || robot.state === 'unknown') return robot.state;
    if (robot.inactive) return 'inactive';
    const task = this.taskOf(robot);
    if (!task) return robot.state === 'safe' ? 'safe' : robot.state === 'executing' ? 'executing' : 'idle';
    if (robot.state !== 'executing' && this.unapproved.has(task.plan)) return 'unapproved';
    // A segment that is there and not begun waits for the robot.
    if (task.response === null) return task.segments.get(0)?.generated ? 'waiting' : 'generating';
    return robot.state === 'executing' || robot.state === 'safe' ? robot.state : 'waiting';
  }

  #log(robot, t, text, kind = '') {
    robot.log.push({ t, text, kind });
    if (robot.log.length > MOST_LOG) robot.log.shift();
  }

  #state(event) {
    const robot = this.robot(event.robot);
    if (event.halted !== robot.halted) this.#log(robot, event.t, event.halted ? 'halted' : 'released', 'bad');
    if (event.inactive !== robot.inactive) this.#log(robot, event.t, event.inactive ? 'its executor is inactive' : 'its executor is active', 'bad');
    if (event.phase !== robot.state && (event.phase === 'lost' || event.phase === 'safe')) {
      this.#log(robot, event.t, event.phase === 'lost' ? 'no contact' : 'brought to its safe action', 'bad');
    }
    Object.assign(robot, {
      skillSet: event.skill_set, state: event.phase, call: event.call, segment: event.segment, plan: event.plan,
      halted: event.halted, inactive: event.inactive, queued: event.queued_segments,
    });
  }

  #task(event) {
    // Who asks for a robot that nobody knows is refused: no robot comes of it.
    const refused = event.what === 'refused';
    const robot = refused ? this.robots.get(event.robot) : this.robot(event.robot || 'any robot');
    const task = this.tasks.get(event.plan);
    switch (event.what) {
      case 'accepted': return this.#accept(robot, event);
      case 'refused':
        this.refused += 1;
        if (!robot) return undefined;
        robot.failed += 1;
        return this.#log(robot, event.t, `refused: ${event.instruction}: ${event.error}`, 'bad');
      case 'segment_started': {
        if (!task) return undefined;
        const segment = this.#segmentOf(task, event.segment);
        segment.started = event.t;
        segment.text = segment.text || event.text || '';
        segment.expected = event.expected_execution_s || segment.expected;
        if (task.response === null && event.segment === 0) {
          task.response = event.at_s;
          this.responses.push(event.at_s);
          this.late += event.at_s > task.ert;
          task.late = event.at_s > task.ert;
        }
        return this.#log(robot, event.t, segment.text || `segment ${event.segment}`, 'act');
      }
      case 'segment_ended': {
        if (!task) return undefined;
        const segment = this.#segmentOf(task, event.segment);
        segment.ended = event.t;
        segment.error = event.error;
        if (event.error) this.#log(robot, event.t, event.error, 'bad');
        return undefined;
      }
      case 'ended': return task ? this.#end(robot, task, event) : undefined;
      default: return undefined;
    }
  }

  #accept(robot, event) {
    const at = event.t - event.at_s;
    const task = {
      plan: event.plan, robot: robot.name, kind: event.kind || 'task', text: event.instruction, at, free: at, ert: event.expected_response_s,
      peak: event.peak, slope: event.slope_per_s, urgent: event.peak > 1, end: null, ok: true, error: '', late: false,
      response: null, utility: 0, status: 0, segments: new Map(),
    };
    if (event.scene && event.scene.length) robot.scene = event.scene;
    robot.open.push(task);
    this.tasks.set(task.plan, task);
    this.#log(robot, event.t, event.instruction, 'task');
    if (event.why_robot) this.#log(robot, event.t, event.why_robot);
    if (this.tasks.size > MOST_TASKS) {
      const old = [...this.tasks.values()].find((one) => one.end !== null);
      if (old) this.tasks.delete(old.plan);
    }
  }

  #end(robot, task, event) {
    Object.assign(task, { end: event.t, error: event.error, utility: event.utility ?? 0, status: event.status });
    task.ok = event.status === 4 && !event.error;
    if (task.response === null) task.late = event.t - task.at > task.ert;
    robot.open = robot.open.filter((one) => one !== task);
    // Who waited behind it is free from now on.
    for (const one of robot.open) one.free = Math.max(one.free, event.t);
    if (task.ok) { this.done += 1; robot.done += 1; } else { this.failed += 1; robot.failed += 1; }
    this.#log(robot, event.t, task.ok ? 'done' : event.error || 'not done', task.ok ? 'good' : 'bad');
  }

  #segmentOf(task, index) {
    let segment = task.segments.get(index);
    if (!segment) {
      segment = {
        index, text: '', generated: null, spent: 0, tokens: 0, started: null, ended: null, expected: 0, error: '', awaits: false,
      };
      task.segments.set(index, segment);
    }
    return segment;
  }

  #segment(event) {
    const task = this.tasks.get(event.plan);
    if (!task) return;
    Object.assign(this.#segmentOf(task, event.index), {
      text: event.text || '', generated: event.t, spent: event.generation_s, tokens: event.tokens,
      expected: event.expected_execution_s, awaits: event.awaits_value,
    });
  }

  #engine(event) {
    this.engine = event;
    this.generations = new Map(event.generations.map(([plan, phase, segments, tokens]) => [plan, { phase, segments, tokens }]));
    this.#sample(event);
  }

  // Keeps two samples of a period: the last holds until the next, so that an engine which came to rest must not be left out.
  #sample(event) {
    if (event.t < this.samples.at(-1)?.[0]) this.samples = [];
    if (event.t - this.samples.at(-2)?.[0] < SAMPLE_S) this.samples.pop();
    this.samples.push([event.t, event.running, event.queued, event.suspended + event.held]);
    if (this.samples.length > MOST_SAMPLES) this.samples.shift();
  }

  #things(event) {
    const known = this.things.get(event.source) || new Map();
    for (const thing of event.things) {
      if (!thing.id) known.clear();
      else if (!thing.shape) known.delete(thing.id);
      else if (known.size < 2000 || known.has(thing.id)) known.set(thing.id, { ...thing, t: event.t });
    }
    this.things.set(event.source, known);
  }
}

// A fleet as the chart takes it, with times from its origin.
export function runOf(fleet, now) {
  const base = fleet.origin ?? fleet.begun ?? now;
  const robots = [...fleet.robots.keys()];
  const row = new Map(robots.map((robot, index) => [robot, index]));
  const since = (time) => (time === null ? null : time - base);
  const tasks = [...fleet.tasks.values()].map((task) => ({
    row: row.get(task.robot), kind: task.kind, text: task.text, at: task.at - base, free: task.free - base,
    due: task.at + task.ert - base, end: since(task.end), urgent: task.urgent, ok: task.ok, error: task.error,
    late: task.late || (task.response === null && now - task.at > task.ert), response: task.response, utility: task.utility,
    segments: [...task.segments.values()].sort((one, other) => one.index - other.index).map((segment) => [
      since(segment.generated), segment.spent, since(segment.started),
      since(segment.ended ?? (segment.started !== null && task.end !== null ? task.end : null)),
      segment.text.trim().replace(/;$/, ''), segment.tokens, segment.error,
    ]),
  }));
  return {
    robots, tasks, base, live: true, duration: now - base,
    samples: fleet.samples.map(([time, ...rest]) => [time - base, ...rest]),
  };
}

export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : sorted.length ? (sorted[middle - 1] + sorted[middle]) / 2 : null;
}
