// What the operator can ask for: tasks in words, their end, halts and releases; and what robots answered.
import { keyed, make, mark, say } from './dom.js';
import { numbers } from './fleet.js';

const SHOWN_MS = 15000;

export function commands(link, { stopAll, releaseAll, answers, send, fleet, may, selected, select }) {
  const told = new Map();
  let title = '', end = 0;

  const robot = make('select', { 'aria-label': 'robot', onchange: () => select(robot.value) });
  const words = make('input', { type: 'text', maxlength: '400', placeholder: 'a task in words: look for the cat', 'aria-label': 'task', required: true });
  const busy = make('select', { 'aria-label': 'if the robot is busy' }, make('option', { value: 'abort' }, 'now'),
    make('option', { value: 'queue' }, 'after its task'), make('option', { value: 'any' }, 'or another robot'));
  const state = make('output');
  send.append(make('h2', {}, 'Send a task'), robot, words, make('div', { class: 'controls' }, busy, make('button', { type: 'submit', class: 'main' }, 'Send'), state));
  send.addEventListener('submit', (event) => {
    event.preventDefault();
    const [name, instruction] = [robot.value, words.value.trim()];
    if (!name || !instruction) return;
    say(state, 'sent');
    mark(state, 'data-kind', '');
    select(name);
    link.ask({ do: 'send', robot: name, instruction, when_busy: busy.value }, (answer) => {
      if (answer.accepted) {
        say(state, 'accepted');
        words.value = '';
      } else if (answer.error) {
        say(state, answer.error);
        mark(state, 'data-kind', 'bad');
      } else if (answer.result) {
        say(state, answer.result.error ? `${name}: ${answer.result.error}` : `${name}: ${answer.result.status}`);
        mark(state, 'data-kind', answer.result.error ? 'bad' : 'good');
      }
    });
  });

  // Asks robots, all where none is named, and shows what each of them answered.
  function ask(what, robots) {
    told.clear();
    title = `${what === 'halt' ? 'Stopping' : 'Releasing'} ${robots.length ? robots.join(', ') : 'all robots'} …`;
    end = Infinity;
    const halts = what === 'halt';
    link.ask({ do: what, robots }, (answer) => {
      if (answer.robot) {
        const mark = answer.ok ? '' : answer.message === 'NOT REACHED' ? '' : halts ? 'NOT SAFE: ' : 'NOT RELEASED: ';
        told.set(answer.robot, { ...answer, text: `${mark}${answer.message}${answer.took_s === undefined ? '' : ` (${(answer.took_s * 1000).toFixed(0)} ms)`}` });
        return;
      }
      const bad = [...told.values()].filter((one) => !one.ok).length;
      title = answer.error || (bad ? `${bad} of ${told.size} robots ${halts ? 'are perhaps not safe' : 'were not released'}` :
        `${told.size === 1 ? [...told.keys()][0] : `All ${told.size} robots`} ${halts ? 'stopped; they take nothing until they are released' : 'may act again'}`);
      end = bad || answer.error ? Infinity : performance.now() + SHOWN_MS;
    });
  }

  stopAll.addEventListener('click', () => ask('halt', []));
  releaseAll.addEventListener('click', () => ask('release', []));
  const head = make('b'), rows = make('ul');
  answers.append(make('div', { class: 'controls' }, head, make('span', { class: 'gap' }),
    make('button', { type: 'button', class: 'quiet', 'aria-label': 'close', onclick: () => { end = 0; } }, '✕')), rows);

  return {
    may,
    halt: (robots) => ask('halt', robots),
    release: (robots) => ask('release', robots),
    cancel: (plan) => link.ask({ do: 'cancel', plan }, (answer) => {
      told.clear();
      title = answer.error || (answer.canceled ? 'The task is being canceled.' : 'That task has ended already.');
      end = performance.now() + SHOWN_MS / 3;
    }),
    scene: (name, onAnswer) => link.ask({ do: 'scene', robot: name }, onAnswer),
    draw() {
      const robots = [...fleet().robots.values()];
      stopAll.hidden = send.hidden = !may() || !robots.length;
      releaseAll.hidden = !may() || !robots.some((one) => one.halted);
      keyed(robot, robots, (one) => one.name, (one) => make('option', { value: one.name }, one.name), () => {});
      if (selected() && robot.value !== selected() && document.activeElement !== robot && fleet().robots.has(selected())) robot.value = selected();
      answers.hidden = performance.now() > end;
      say(head, title);
      keyed(rows, [...told.values()].sort((one, other) => one.ok - other.ok || numbers.compare(one.robot, other.robot)), (one) => one.robot,
        () => make('li', {}, make('b'), make('span')), (line, one) => {
          say(line.firstChild, one.robot);
          say(line.lastChild, one.text);
          mark(line, 'data-kind', one.ok ? 'good' : 'bad');
        });
    },
  };
}
