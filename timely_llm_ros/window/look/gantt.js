'use strict';
// The chart of generation and execution, in reports and in the window. Texts of a fleet are drawn, never made HTML of.
const AXIS = 22, ENGINE = 52;

function colors() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue('--' + name).trim();
  return Object.fromEntries(['card', 'ink', 'soft', 'line', 'faint', 'wait', 'generate', 'act',
    'act-urgent', 'idle', 'due', 'missed', 'on-bar', 'accent'].map((name) => [name, get(name)]));
}

function secondsText(value) {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (size < 0.0995) return (value * 1000).toFixed(0) + ' ms';
  return value.toFixed(size < 9.995 ? 2 : 1) + ' s';
}

function niceStep(least) {
  const scale = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * scale).find((step) => step >= least * 0.999);
}

function hatch(context, color) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const pen = tile.getContext('2d');
  pen.strokeStyle = color;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) { pen.moveTo(shift - 1, 9); pen.lineTo(shift + 9, -1); }
  pen.stroke();
  const pattern = context.createPattern(tile, 'repeat');
  const ratio = window.devicePixelRatio || 1;
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

function clippedText(context, text, x, y, room) {
  if (room < 18) return;
  let shown = text;
  if (context.measureText(shown).width > room) {
    let low = 0, high = shown.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(shown.slice(0, middle) + '…').width <= room) low = middle;
      else high = middle - 1;
    }
    if (low < 2) return;
    shown = shown.slice(0, low) + '…';
  }
  context.fillText(shown, x, y);
}

// Draws what a chart shows between two times. `chart` has a canvas; a run, with its duration and its engine's samples;
// and what of it is chosen: tasks, names of robots, and the row of each place of `run.robots`. It gets what a pointer
// may hit. `row` is the height of a robot's row, `selected` a robot's name; `view.label` writes a time.
function drawGantt(chart, view) {
  const { canvas, run } = chart;
  const ROW = chart.row || 38, LANE = ROW < 30 ? 5 : 9, BAR = ROW < 30 ? 11 : 17, small = ROW < 30 ? 9 : 11;
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  const gutter = width < 600 ? 58 : 92;
  const { tasks, rows, robots } = chart.chosen;
  const height = AXIS + ROW * robots.length + ENGINE;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const color = colors();
  const waits = hatch(context, color.wait), idle = hatch(context, color.idle);
  const scale = (width - gutter - 6) / (view.to - view.from);
  const x = (time) => gutter + (time - view.from) * scale;
  chart.gutter = gutter;
  chart.scale = scale;
  chart.hits = [];
  const font = (size, weight = 400) => `${weight} ${size}px system-ui, "Segoe UI", Roboto, sans-serif`;

  robots.forEach((robot, row) => {
    const top = AXIS + row * ROW;
    if (row % 2 === 0) {
      context.fillStyle = color.faint;
      context.fillRect(0, top, width, ROW);
    }
  });
  const step = niceStep(72 / scale);
  context.font = font(11);
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    context.strokeStyle = color.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(time), AXIS - 4);
    context.lineTo(x(time), height);
    context.stroke();
    context.fillStyle = color.soft;
    if (x(time) > gutter + 8 && x(time) < width - 14) {
      context.fillText(view.label ? view.label(time) : Number(time.toFixed(6)) + ' s', x(time), AXIS / 2 - 1);
    }
  }

  context.save();
  context.beginPath();
  context.rect(gutter, 0, width - gutter, height);
  context.clip();
  const visible = (from, to) => to >= view.from && from <= view.to;
  const bar = (from, to, y, tall, fill, hit) => {
    if (from === null || to === null || !visible(from, to)) return null;
    const left = x(from), wide = Math.max(1.5, x(to) - left);
    context.fillStyle = fill;
    context.fillRect(left, y, wide, tall);
    if (hit) chart.hits.push({ left, right: left + wide, top: y - 2, bottom: y + tall + 2, ...hit });
    return { left, wide };
  };
  for (const task of tasks) {
    const top = AXIS + rows.get(task.row) * ROW;
    const lane = top + 4, body = top + 4 + LANE + 2;
    const last = task.end === null ? run.duration : task.end;
    if (!visible(task.at, Math.max(last, task.due))) continue;
    let free = task.free, asked = task.free;
    task.segments.forEach((segment, index) => {
      const [generated, spent, started, ended, text, tokens, error] = segment;
      if (generated !== null) {
        const begun = Math.max(asked, generated - spent);
        if (index === 0) bar(task.free, begun, lane, LANE, waits, { task, what: 'wait', value: begun - task.free });
        bar(begun, generated, lane, LANE, color.generate, { task, segment, index, what: 'generate' });
        asked = generated;
      }
      if (started === null) return;
      if (started - free > 0.002) {
        bar(free, started, body, BAR, idle, { task, index, what: 'idle', value: started - free });
      }
      const until = ended === null ? last : ended;
      const box = bar(started, until, body, BAR, task.urgent ? color['act-urgent'] : color.act,
        { task, segment, index, what: 'act' });
      if (box) {
        context.fillStyle = color.card;
        context.fillRect(box.left + box.wide - 1, body, 1, BAR);
        context.fillStyle = color['on-bar'];
        context.font = font(small, 500);
        context.textAlign = 'left';
        const left = Math.max(box.left, gutter);
        clippedText(context, text, left + 5, body + BAR / 2 + 0.5, box.left + box.wide - left - 9);
        if (error) {
          context.strokeStyle = color.missed;
          context.lineWidth = 2;
          context.strokeRect(box.left + 1, body + 1, box.wide - 2, BAR - 2);
        }
      }
      free = until;
    });
    if (task.free > task.at) {
      context.fillStyle = color.soft;
      context.fillRect(x(task.at), top + 1, x(task.free) - x(task.at), 1.5);
    }
    if (!task.segments.length) {
      bar(task.at, last, lane, LANE, waits, { task, what: 'wait', value: last - task.at });
    }
    context.fillStyle = task.late ? color.missed : color.due;
    context.fillRect(x(task.due) - 1, top + 2, 2, ROW - 5);
    chart.hits.push({ left: x(task.due) - 4, right: x(task.due) + 4, top, bottom: top + ROW, task, what: 'due' });
    context.fillStyle = color.ink;
    context.beginPath();
    context.moveTo(x(task.at) - 4.5, top);
    context.lineTo(x(task.at) + 4.5, top);
    context.lineTo(x(task.at), top + 6.5);
    context.fill();
    chart.hits.push({ left: x(task.at) - 5, right: x(task.at) + 5, top: top - 2, bottom: top + 9, task, what: 'received' });
  }

  const base = height - 6, top = AXIS + robots.length * ROW + 6;
  const most = Math.max(1, ...run.samples.map((sample) => sample[1] + sample[2] + sample[3]));
  const area = (value, fill) => {
    context.fillStyle = fill;
    context.beginPath();
    context.moveTo(x(0), base);
    let level = base;
    for (const sample of run.samples) {
      const px = x(sample[0]);
      context.lineTo(px, level);
      level = base - (base - top) * value(sample) / most;
      context.lineTo(px, level);
    }
    context.lineTo(x(run.duration), level);
    context.lineTo(x(run.duration), base);
    context.fill();
  };
  if (run.samples.length) {
    context.globalAlpha = 0.35;
    area((sample) => sample[1] + sample[2] + sample[3], color.accent);
    context.globalAlpha = 1;
    area((sample) => sample[1] + sample[2], color.wait);
    area((sample) => sample[1], color.generate);
    chart.hits.push({ left: gutter, right: width, top, bottom: height, what: 'engine' });
  }
  if (run.live) {
    context.fillStyle = color.accent;
    context.fillRect(x(run.duration) - 0.75, AXIS - 4, 1.5, height);
  }
  context.restore();

  context.textAlign = 'left';
  context.font = font(width < 600 || ROW < 30 ? 11 : 13, 600);
  robots.forEach((robot, row) => {
    context.fillStyle = robot === chart.selected ? color.accent : color.ink;
    clippedText(context, robot, 4, AXIS + row * ROW + ROW / 2, gutter - 8);
  });
  context.fillStyle = color.soft;
  context.font = font(width < 600 ? 10 : 12, 600);
  context.fillText('engine', 4, top + (base - top) / 2);
}

function lines(hit, chart, time) {
  if (hit.what === 'engine') {
    let sample = null;
    for (const one of chart.run.samples) { if (one[0] > time) break; sample = one; }
    if (!sample) return null;
    return ['engine at ' + time.toFixed(2) + ' s', 'running ' + sample[1] + ', queued ' + sample[2] +
      ', suspended or held ' + sample[3]];
  }
  const { task, segment, index } = hit;
  const head = chart.run.robots[task.row] + ' · ' + task.kind.replaceAll('_', ' ') + (task.urgent ? ' · urgent' : '');
  const rest = [task.text];
  const response = 'response ' + secondsText(task.response) + ' of ' + secondsText(task.due - task.at) +
    ' expected, utility ' + task.utility.toFixed(2);
  if (hit.what === 'generate') {
    rest.push('segment ' + index + ': ' + segment[4], segment[5] + ' tokens, ' + secondsText(segment[1]) + ' of engine time');
  } else if (hit.what === 'act') {
    rest.push('segment ' + index + ': ' + segment[4], 'acts for ' + secondsText(segment[3] === null ? null : segment[3] - segment[2]));
    if (segment[6]) rest.push(segment[6]);
  } else if (hit.what === 'idle') {
    rest.push('the robot waits ' + secondsText(hit.value) + ' for segment ' + index);
  } else if (hit.what === 'wait') {
    rest.push('waits ' + secondsText(hit.value) + ' for the engine');
  } else if (hit.what === 'due') {
    rest.push(response + (task.late ? ': missed' : ': kept'));
  } else {
    rest.push('received at ' + task.at.toFixed(2) + ' s', response);
    if (task.free > task.at) rest.push('behind an earlier task for ' + secondsText(task.free - task.at));
  }
  if (!task.ok && task.error) rest.push(task.error);
  return [head, ...rest];
}

// Shows what is under a pointer; texts of a fleet reach the page as text alone.
function showTip(tip, text, event) {
  tip.hidden = !text;
  if (!text) return;
  tip.replaceChildren(...text.map((line, index) => {
    const part = document.createElement(index ? 'div' : 'b');
    part.textContent = line;
    return part;
  }));
  const wide = tip.offsetWidth, tall = tip.offsetHeight;
  let left = event.pageX + 14, top = event.pageY + 14;
  if (left + wide > document.documentElement.clientWidth - 6) left = Math.max(6, event.pageX - wide - 14);
  if (event.clientY + tall + 20 > window.innerHeight) top = event.pageY - tall - 14;
  tip.style.left = left + 'px';
  tip.style.top = top + 'px';
}

function point(chart, event) {
  const box = chart.canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

// Returns what of a chart is under a pointer.
function hitAt(chart, event) {
  const at = point(chart, event);
  return at.x < chart.gutter ? null : chart.hits.findLast((one) =>
    at.x >= one.left && at.x <= one.right && at.y >= one.top && at.y <= one.bottom);
}

function hover(chart, event, view, tip) {
  const hit = hitAt(chart, event);
  showTip(tip, hit && lines(hit, chart, view.from + (point(chart, event).x - chart.gutter) / chart.scale), event);
}
