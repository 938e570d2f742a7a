// The window of a fleet: what happens now, from the server's socket; or recordings, played beside each other.
import { Link } from './link.js';
import { Fleet } from './fleet.js';
import { Player } from './player.js';
import { World } from './world.js';
import { Timeline, Views } from './timeline.js';
import { Cards, Detail, RobotList } from './panels.js';
import { make, mark, say } from './dom.js';
import { commands } from './commands.js';

const DRAW_MS = 100;
const part = (id) => document.getElementById(id);
const views = new Views(true);
const cards = new Cards(part('cards'));
const fallback = { fleet: new Fleet(), label: '', now: () => null };
let panes = [], details = [], selected = '', player = null, playing = null, hello = null;

const list = new RobotList(part('fleet'), select);
const link = new Link({ onHello: greet, onEvents: take, onState: tellState });
const act = commands(link, {
  stopAll: part('stop-all'), releaseAll: part('release-all'), answers: part('answers'), send: part('send'),
  fleet: () => (panes[0] || fallback).fleet, may: () => Boolean(hello?.commands) && link.ready, selected: () => selected, select,
});

function greet(told) {
  hello = told;
  if (told.recordings.length) {
    if (!player) playRecordings(told.recordings);
    return;
  }
  if (panes.length !== 1) setPanes([{ fleet: new Fleet(), label: '', now: () => link.now() }]);
  // The server tells everything anew, also after it was started again.
  panes[0].fleet = new Fleet();
}

function take(events) {
  if (!player && panes.length) for (const event of events) panes[0].fleet.apply(event);
}

function tellState(state, why) {
  mark(part('state'), 'data-state', state);
  say(part('state'), { live: player || playing ? 'recorded' : 'live', lost: 'not connected', silent: 'silent', refused: 'refused' }[state]);
  part('trouble').hidden = state === 'live';
  say(part('trouble'), why);
}

function setPanes(made) {
  panes = made;
  views.clock = !playing;
  part('worlds').replaceChildren();
  part('timeline').replaceChildren(timelineHead());
  part('detail').replaceChildren();
  details = panes.map((pane) => {
    const canvas = make('canvas', { tabindex: '0', role: 'img', 'aria-label': `${pane.label || 'The fleet'} in three dimensions` });
    const note = make('figcaption');
    const missing = pane.damage ? make('p', { class: 'warning' }, `Not all of the trace is shown: ${pane.damage}`) : null;
    part('worlds').append(make('figure', { class: 'world' }, pane.label ? make('h2', {}, pane.label) : null, canvas, missing, note));
    pane.note = note;
    pane.world = new World(canvas, { now: () => pane.now(), onSelect: select });
    const chart = make('canvas', { tabindex: '0', role: 'img', 'aria-label': `When plans are generated and executed ${pane.label}` });
    part('timeline').append(make('figure', { class: 'gantt' }, pane.label ? make('figcaption', {}, pane.label) : null, make('div', { class: 'rows' }, chart)));
    pane.timeline = new Timeline(chart, part('tip'), { now: () => pane.now(), onSelect: select, views });
    const place = make('div');
    part('detail').append(place);
    return new Detail(place, { pane, act, onClose: () => select('') });
  });
  part('timeline').append(legend());
}

function timelineHead() {
  const button = (text, title, does) => make('button', { type: 'button', title, onclick: does }, text);
  const only = make('input', { type: 'search', placeholder: 'robot', 'aria-label': 'robots in the timeline', oninput: () => {
    for (const pane of panes) pane.timeline.only = only.value;
  } });
  return make('div', { class: 'controls', role: 'toolbar', 'aria-label': 'Timeline' }, make('h2', {}, 'Timeline'),
    button('now', 'follow the time', () => views.follow()), button('+', 'zoom in', () => views.zoom(0.6)),
    button('\u2212', 'zoom out', () => views.zoom(1.6)), button('◀', 'earlier', () => views.shift(-0.3)),
    button('▶', 'later', () => views.shift(0.3)), only, make('span', { class: 'hint' }, 'drag to move, ctrl and wheel to zoom, hover for details'));
}

function legend() {
  const items = [['wait', 'waits for the engine'], ['generate', 'segment generated'], ['act', 'robot acts'], ['act-urgent', 'acts, urgent task'],
    ['idle', 'robot waits'], ['received', 'task received'], ['due', 'expected response time'], ['missed', 'missed'],
    ['failed', 'failed']];
  return make('ul', { class: 'key legend' }, ...items.map(([name, text]) => make('li', { class: name }, text)));
}

function playRecordings(labels) {
  const got = labels.map(() => null);
  part('player').hidden = false;
  say(part('player'), 'Reading the recordings …');
  labels.forEach((label, number) => link.ask({ recording: number }, (answer) => {
    got[number] = answer;
    if (got.some((one) => !one) || player) return;
    player = new Player(got.map((one) => one.events));
    playing = labels;
    setPanes(labels.map((name, index) => ({ label: name, damage: got[index].damage, now: () => player.now(index), get fleet() { return player.recordings[index].fleet; } })));
    controls();
    tellState('live', '');
  }));
}

function controls() {
  const slider = make('input', { type: 'range', min: '0', max: String(player.duration), step: '0.05', 'aria-label': 'position', oninput: () => {
    player.seek(Number(slider.value));
    views.follow();
  } });
  const play = make('button', { type: 'button', id: 'play', onclick: () => player.toggle() });
  const rate = make('select', { id: 'rate', 'aria-label': 'speed', onchange: () => { player.rate = Number(rate.value); } },
    ...[0.1, 0.25, 0.5, 1, 2, 4, 8, 16].map((one) => make('option', { value: String(one), selected: one === 1 }, `${one}×`)));
  const place = make('output');
  part('player').replaceChildren(play, rate, slider, place);
  player.show = () => {
    say(play, player.playing ? 'Pause' : 'Play');
    if (document.activeElement !== slider || player.playing) slider.value = String(player.position);
    say(place, `${player.position.toFixed(1)} of ${player.duration.toFixed(1)} s`);
  };
}

function select(name) {
  selected = name;
  if (name && innerWidth < 900) part('detail').scrollIntoView({ block: 'start', behavior: 'auto' });
}

function note(fleet) {
  const robots = [...fleet.robots.values()];
  const guessed = robots.filter((robot) => !robot.pose).length;
  if (!robots.length) return '';
  const drag = 'Drag to turn, shift and drag to move, ctrl and wheel to zoom.';
  if (!guessed) return drag;
  return `${guessed === robots.length ? 'Nobody publishes poses' : `${guessed} robots publish no pose`}: each stands where its plan leads it, on a stage as large as what it knows of. ${drag}`;
}

function draw() {
  if (player) {
    player.step();
    player.show();
  }
  if (document.hidden) return;
  const shown = panes.length ? panes : [fallback];
  cards.draw(shown);
  const first = shown[0].fleet;
  say(part('title'), first.engine ? `${first.engine.mode.replaceAll('_', ' ')}, ${first.engine.policy}` : '');
  list.draw(shown[0], selected);
  part('detail').hidden = !panes.some((pane) => pane.fleet.robots.has(selected));
  panes.forEach((pane, index) => {
    pane.world.show(pane.fleet);
    pane.world.selected = selected;
    pane.timeline.fleet = pane.fleet;
    pane.timeline.selected = selected;
    pane.timeline.draw();
    details[index].draw(selected);
    say(pane.note, note(pane.fleet));
  });
  act.draw();
}

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') select('');
});
window.fleetWindow = { get panes() { return panes; }, get player() { return player; } };
setInterval(draw, DRAW_MS);
