// Draws a report of runs.
const runs = report.runs;
const several = runs.length > 1;
const dashes = ['', '9 4', '3 3', '12 3 3 3', '1 4', '9 3 1 3'];
const dashOf = index => dashes[index % dashes.length];
const plural = (count, what) => `${new Intl.NumberFormat('en').format(count)} ${what}${count === 1 ? '' : 's'}`;
const clock = seconds => seconds < 90 ? number(seconds) + ' s' : seconds < 5400 ? number(seconds / 60) + ' min' : number(seconds / 3600) + ' h';
const date = seconds => new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
const percentage = part => part === null ? '–' : (100 * part).toFixed(1) + ' %';

// ---- what is drawn of a run ----

const ends = {finished: 'finished', stopped: 'stopped', early: 'stopped early', diverged: 'diverged', failed: 'failed'};
const eventNames = {start: 'start', resume: 'resumed', lost: 'device lost', shares: 'shares changed', notice: 'notice', ...ends};
const isBad = event => ['lost', 'diverged', 'failed'].includes(event.event);
// What a chart marks. Shares have a chart of their own.
const isMarked = event => ['resume', 'lost', 'early', 'stopped', 'diverged', 'failed'].includes(event.event);

function stateOf(run) {
  const last = run.events[run.events.length - 1];
  if (!last) return run.steps !== null && run.steps_done >= run.steps ? 'finished' : 'no times kept';
  return ends[last.event] || 'goes on, or was killed';
}

let number_of_mark = 0;
for (const run of runs)
  for (const event of run.events) if (isMarked(event)) event.mark = ++number_of_mark;

// The curve's place along the axis that the reader has chosen.
function places(run) {
  const along = at('along').value, {step, epoch} = run.curves;
  const byElapsed = stepNumber => interpolate(run.times, stepNumber, 'elapsed') / 60;
  const epochAt = stepNumber => step.length < 2 ? (epoch[0] || 0) : interpolate(epochs(run), stepNumber, 'epoch');
  return along === 'step' ? s => s : along === 'epoch' ? epochAt : byElapsed;
}
// The epochs in the metrics are whole passes; between them the steps tell.
const epochs = run => run.epochLines || (run.epochLines = (() => {
  const {step, epoch} = run.curves, last = step.length - 1;
  const rate = last > 0 && epoch[last] > 0 ? (epoch[last] + 0.5) / step[last] : 0;
  return rate ? [{step: 0, epoch: 0}, {step: step[last], epoch: rate * step[last]}] : [{step: 0, epoch: 0}];
})());
function interpolate(lines, step, key) {
  if (!lines.length) return NaN;
  let low = 0, high = lines.length - 1;
  if (step <= lines[0].step) return lines[0][key] * (lines[0].step ? step / lines[0].step : 1);
  while (high - low > 1) { const mid = (low + high) >> 1; if (lines[mid].step <= step) low = mid; else high = mid; }
  const a = lines[low], b = lines[high];
  return b.step === a.step ? a[key] : a[key] + (b[key] - a[key]) * Math.min(1, (step - a.step) / (b.step - a.step));
}

// An average that forgets, without the pull to 0 at its beginning.
function smooth(values, by) {
  let sum = 0, weight = 0;
  return values.map(value => {
    if (value === null) return weight ? sum / weight : null;
    sum = by * sum + (1 - by) * value;
    weight = by * weight + 1 - by;
    return sum / weight;
  });
}

// ---- curves ----

const textOf = name => report.metrics.find(m => m.name === name).text;
// Those that test passes have; without any the first one stands there.
const measured = report.metrics.filter(m => runs.some(run => run.tests.some(t => m.name in t.metrics)));
const tested = measured.length ? measured : report.metrics.slice(0, 1);
at('metric').append(...tested.map(m => element('option', {value: m.name}, m.text)));
const first = ['accuracy', 'average_precision_macro'].find(name => tested.some(m => m.name === name));
if (first) at('metric').value = first;

// A curve that jumps, faint, behind its smooth one.
const smoothed = (look, xs, values, by) => {
  const mean = smooth(values, by);
  return [{...look, kind: 'raw', dash: '', points: xs.map((x, k) => [x, values[k]])}, {...look, points: xs.map((x, k) => [x, values[k] === null ? null : mean[k]])}];
};
const marksOf = (run, place) => run.events.filter(e => e.mark).map(event => ({x: place(event.step), event}));

function drawCurves() {
  const by = Number(at('smoothing').value), logarithmic = at('logarithmic').checked, shown = at('metric').value;
  at('metric-title').textContent = 'Test ' + textOf(shown);
  const loss = [], precision = [], learning = [], speed = [], marks = [], sketches = [];
  runs.forEach((run, i) => {
    const place = places(run), {step, least, most: high, loss: values, learning_rate} = run.curves;
    const look = {color: colorOf(i), dash: dashOf(i)};
    const xs = step.map(place), mean = smooth(values, by);
    if (values.some((v, k) => v !== null && high[k] > least[k]))
      loss.push({...look, kind: 'band', dash: '', points: xs.map((x, k) => [x, high[k], least[k]])});
    else
      loss.push({...look, kind: 'raw', dash: '', points: xs.map((x, k) => [x, values[k]])});
    sketches.push({...look, points: xs.map((x, k) => [x, mean[k]])});
    learning.push({...look, points: xs.map((x, k) => [x, learning_rate[k]])});
    precision.push({...look, dots: run.tests.length < 60, points: run.tests.filter(t => shown in t.metrics).map(t => [place(t.step), t.metrics[shown]])});
    speed.push(...smoothed(look, run.times.map(t => place(t.step)), run.times.map(t => t.rate), by));
    marks.push(...marksOf(run, place));
  });
  chart(at('loss'), {series: [...loss, ...sketches], marks, logarithmic, note: 'no step is logged yet'});
  chart(at('precision'), {series: precision, marks, note: 'no test passes in the training: --eval-every N makes them'});
  chart(at('rate-of-learning'), {series: learning, least: 0, marks, note: 'no step is logged yet'});
  chart(at('speed'), {series: speed, least: 0, marks, note: 'the run has kept no times'});
}

function drawLegend() {
  at('legend').hidden = !several;
  runs.forEach((run, i) => at('legend').append(element('span', {},
    drawing('svg', {width: 34, height: 10}, drawing('line', {x1: 0, x2: 34, y1: 5, y2: 5, 'stroke-width': 2.5, stroke: colorOf(i), 'stroke-dasharray': dashOf(i), style: `stroke: ${colorOf(i)}`})),
    run.name)));
}

// ---- tables ----

const label = (run, i) => several ? element('span', {}, dot(colorOf(i)), run.name) : run.name;

// Where examples may have several labels, there is no accuracy.
const score = metrics => 'accuracy' in metrics ? metrics.accuracy : metrics.average_precision_macro;
const scoreText = tested => `${'accuracy' in tested.metrics ? '' : 'mean average precision '}${score(tested.metrics).toFixed(3)} at step ${number(tested.step, 9)}`;

function drawHead() {
  at('title').textContent = several ? `${runs.length} runs` : runs[0].name;
  document.title = 'towers report: ' + runs.map(r => r.name).join(', ');
  const recipes = [...new Set(runs.map(r => r.recipe.name + (r.recipe.description ? `: ${r.recipe.description}` : '')))];
  at('summary').textContent = several ? recipes.map(r => r.split(':')[0]).join(', ') : recipes[0];
  at('colophon').textContent = `Written by towers ${report.towers_version} report on ${report.date.replace('T', ' ').replace('Z', ' UTC')}; ` +
    `schema ${report.schema}.`;
  table(at('standings'), ['run', 'state', 'steps', 'last loss', 'best test accuracy', 'examples/s', 'trained for', 'towers'], runs.map((run, i) => {
    const values = run.curves.loss.filter(v => v !== null), best = run.tests.reduce((a, t) => score(t.metrics) !== undefined && (!a || score(t.metrics) > score(a.metrics)) ? t : a, null);
    const rates = run.times.slice(-20).map(t => t.rate).sort((a, b) => a - b), last = run.times[run.times.length - 1];
    return [label(run, i), stateOf(run), run.steps === null ? String(run.steps_done) : `${number(run.steps_done, 9)} of ${number(run.steps, 9)}`,
      values.length ? number(values[values.length - 1], 4) : '–',
      best ? scoreText(best) : run.predictions && run.predictions.metrics && score(run.predictions.metrics) !== undefined ? scoreText(run.predictions) : '–',
      rates.length ? number(rates[rates.length >> 1], 4) : '–', last ? clock(last.elapsed) : '–',
      run.towers.map(t => t.device).join(', ') || '–'];
  }), [0, 1, 7]);
}

function drawEvents() {
  const rows = [];
  runs.forEach((run, i) => {
    const shares = run.events.filter(e => e.event === 'shares').length;
    let left = shares > 6 ? 3 : shares; // automatic shares may change often
    for (const event of run.events) {
      if (event.event === 'shares' && left-- <= 0) continue;
      rows.push({event, i, text: (event.event === 'shares' && shares > 6 && left === 0 ? `(${shares - 3} more changes of shares follow; the chart below shows them) ` : '') +
        (event.text || (event.event === 'shares' ? `${event.shares.join(' : ')} examples a step` : '')) + (event.undone ? ' (the run then went on from an earlier step)' : '')});
    }
  });
  at('events-section').hidden = !rows.length;
  at('events-note').textContent = number_of_mark ? 'The numbers are those of the flags in the charts.' : '';
  table(at('events'), ['', 'step', ...(several ? ['run'] : []), 'what', 'when', ''], rows.map(({event, i, text}) => [
    event.mark ? element('span', {className: 'badge' + (isBad(event) ? ' bad' : '')}, String(event.mark)) : '', number(event.step, 9),
    ...(several ? [label(runs[i], i)] : []), eventNames[event.event] || event.event, date(event.time), text]),
    several ? [0, 2, 3, 4, 5] : [0, 2, 3, 4]);
  rows.forEach(({event}, k) => { if (event.undone) at('events').tBodies[0].rows[k].className = 'undone'; });
}

function drawSettings() {
  const text = value => value === null ? '–' : value === '' ? '(none)' : value;
  const heads = ['', ...runs.map(r => r.name)], columns = heads.map((h, i) => i);
  const differs = row => new Set(row.values).size > 1;
  const rows = report.settings.filter(differs).map(r => [r.name, ...r.values.map(text)]);
  const recipe = report.recipe_differences.rows.map(r => ['recipe: ' + r.name, ...r.values.map(text)]);
  at('settings-title').textContent = several ? 'What differs' : 'Settings and recipe';
  if (several && rows.length + recipe.length) table(at('differences'), heads, [...rows, ...recipe], columns);
  const hidden = report.recipe_differences.all - recipe.length;
  at('differences-note').textContent = !several ? '' : !rows.length && !recipe.length ? 'Nothing: settings and recipes are the same.' :
    hidden ? `${hidden} more places differ in the recipes.` : recipe.length ? '' : 'The recipes are the same.';
  if (several) table(at('settings'), heads, report.settings.map(r => [r.name, ...r.values.map(text)]), columns);
  else at('settings').replaceWith(element('dl', {}, ...report.settings.map(r => element('div', {}, element('dt', {}, r.name), element('dd', {}, text(r.values[0]))))));
  const texts = [...new Map(runs.map(r => [r.recipe.text, r])).values()];
  for (const run of texts)
    at('settings-section').append(element('details', {}, element('summary', {}, `Recipe ${run.recipe.name}` + (texts.length > 1 ? ` of ${run.name}` : '')),
      element('pre', {}, run.recipe.text)));
  if (!several) at('settings-section').querySelector('details').open = true;
}

// ---- towers ----

function drawTowers() {
  at('towers').replaceChildren();
  runs.forEach((run, index) => {
    const count = Math.max(...run.times.map(t => t.towers.length), 0);
    if (count < 2) return;
    const place = places(run), marks = marksOf(run, place), known = run.times.filter(t => t.towers.length === count);
    const name = k => `tower_${k}` + (run.towers[k] ? ` (${run.towers[k].device})` : '');
    const rates = element('div', {}), shares = element('div', {}), use = element('table', {});
    const section = element('section', {className: 'long'}, element('h2', {}, several ? `Towers of ${run.name}` : 'Towers'),
      element('p', {className: 'note'}, 'Together: the rate of the whole run. Each tower\'s own rate is what it reaches while it works, without waiting for the others.'),
      element('div', {className: 'legend'}, ...[...Array(count).keys()].map(k => element('span', {},
        drawing('svg', {width: 34, height: 10}, drawing('line', {x1: 0, x2: 34, y1: 5, y2: 5, 'stroke-width': 2.5, style: `stroke: ${colorOf(k)}`, 'stroke-dasharray': dashOf(k)})),
        name(k) + (run.towers[k] ? `, ${run.towers[k].name}` : ''))), element('span', {},
        drawing('svg', {width: 34, height: 10}, drawing('line', {x1: 0, x2: 34, y1: 5, y2: 5, 'stroke-width': 2.5, style: 'stroke: var(--text)'})), 'together')),
      element('div', {className: 'charts'},
        element('figure', {}, element('figcaption', {}, 'Examples per second'), rates),
        element('figure', {}, element('figcaption', {}, 'Shares of the examples'), shares)),
      element('div', {className: 'scroll'}, use));
    at('towers').append(section);
    const sum = t => t.towers.reduce((s, w) => s + w.examples, 0) || 1;
    const xs = known.map(t => place(t.step)), by = Number(at('smoothing').value);
    const own = k => known.map(({towers: {[k]: w}}) => w.examples && w.work ? w.examples / w.work : null);
    chart(rates, {least: 0, marks, series: [...smoothed({color: 'var(--text)'}, xs, known.map(t => t.rate), by),
      ...[...Array(count).keys()].flatMap(k => smoothed({color: colorOf(k), dash: dashOf(k)}, xs, own(k), by))]});
    const areas = [...Array(count).keys()].map(k => ({color: colorOf(k), kind: 'area', points: known.map(t => {
      const below = t.towers.slice(0, k).reduce((s, w) => s + w.examples, 0) / sum(t);
      return [place(t.step), below + t.towers[k].examples / sum(t), below];
    })}));
    chart(shares, {least: 0, most: 1, marks, series: areas, show: v => Math.round(100 * v) + ' %'});
    const total = (k, key) => known.reduce((s, t) => s + t.towers[k][key], 0), seconds = known.reduce((s, t) => s + t.seconds, 0) || 1;
    const examples = known.reduce((s, t) => s + sum(t), 0);
    table(use, ['', 'examples', 'share', 'own examples/s', 'works', 'computes', 'copies', 'waits for towers', 'waits for the host'],
      [...Array(count).keys()].map(k => [element('span', {}, dot(colorOf(k)), name(k)), number(total(k, 'examples'), 9), percent(total(k, 'examples') / examples),
        total(k, 'work') ? number(total(k, 'examples') / total(k, 'work'), 4) : '–', percent(total(k, 'work') / seconds), percent(total(k, 'compute') / seconds),
        percent(total(k, 'copies') / seconds), percent(total(k, 'others') / seconds),
        percent(Math.max(0, seconds - total(k, 'work') - total(k, 'others')) / seconds)]));
  });
}

// ---- networks ----

function drawNetworks() {
  report.networks.forEach((network, index) => {
    const of = runs.filter(r => r.network === index);
    const svg = drawing('svg', {viewBox: `0 0 ${network.width} ${network.height}`, width: network.width, height: network.height, role: 'img'},
      ...network.repeats.map(r => drawing('rect', {class: 'repeat', x: r.x, y: r.y, width: r.width, height: r.height, rx: 10})),
      ...network.lines.map(d => drawing('path', {class: 'line', d})));
    for (const r of network.repeats)
      svg.append(drawing('text', {class: 'times', x: r.x + r.width - 6, y: r.y + r.height + 12, 'text-anchor': 'end'}, `× ${r.times}`));
    for (const box of network.boxes) {
      const fit = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;
      const kinds = box.kinds || 'input', join = kinds.startsWith('add') || kinds.startsWith('concatenate') || kinds.startsWith('multiply');
      svg.append(drawing('g', {transform: `translate(${box.x} ${box.y})`},
        drawing('title', {}, `${box.name}: ${kinds}; output ${box.shape}; ${plural(box.parameters, 'parameter')}`),
        drawing('rect', {class: 'box' + (box.parameters ? ' weights' : join ? ' join' : ''), width: network.box_width, height: network.box_height, rx: 8}),
        drawing('text', {class: 'name', x: 9, y: 16}, box.name.length > 20 ? '…' + box.name.slice(-19) : box.name),
        drawing('text', {x: 9, y: 30}, fit(kinds.replaceAll('batch_norm', 'norm'), 25)),
        drawing('text', {x: 9, y: 44}, box.shape),
        drawing('text', {x: network.box_width - 8, y: 44, 'text-anchor': 'end'}, box.parameters ? short(box.parameters) : '')));
    }
    at('networks').append(element('section', {className: 'long'},
      element('h2', {}, report.networks.length > 1 ? `Network of ${of.map(r => r.name).join(', ')}` : 'Network'),
      element('p', {className: 'note'}, `${of[0].recipe.name}: ${plural(network.layers, 'layer')}, ${plural(network.parameters, 'trained parameter')}. ` +
        'Each box: the layer with what follows it element by element, the shape of its output (height × width × channels), and its trained parameters. ' +
        'A dashed frame is a part that is repeated.'),
      element('div', {className: 'network'}, svg)));
  });
}

// ---- predictions ----

function drawPredictions() {
  runs.forEach((run, index) => {
    const made = run.predictions;
    if (!made) return;
    const section = element('section', {className: 'long'}, element('h2', {}, several ? `Predictions of ${run.name}` : 'Predictions'));
    at('predictions').append(section);
    if (made.absent) return section.append(element('p', {className: 'empty'}, `None: ${made.absent}.`));
    const name = c => made.names[c];
    section.append(element('p', {className: 'note'}, `Test data of ${made.data}, step ${number(made.step, 9)}, ` +
      `${made.averaged ? 'moving averages of the variables' : 'the variables themselves'}: ${number(made.correct, 9)} of ${number(made.examples, 9)} ${made.several ? 'have exactly the labels found' : 'are right'}. ` +
      report.metrics.filter(m => m.name in made.metrics).map(m => `${m.text} ${made.metrics[m.name].toFixed(3)}`).join(', ') + '.'));
    if (made.several) {
      const list = element('table', {}), part = (n, of) => of ? (n / of).toFixed(3) : '–', figure = value => value !== undefined ? value.toFixed(3) : '–';
      table(list, ['class', 'examples', 'found', 'wrongly found', 'precision', 'recall', 'F1', 'AUC', 'average precision'], made.classes.map(c => [name(c.label), number(c.examples, 9),
        number(c.correct, 9), number(c.predicted - c.correct, 9), part(c.correct, c.predicted), part(c.correct, c.examples), figure(c.f1), figure(c.auc), figure(c.average_precision)]), [0]);
      section.append(element('h3', {}, 'Each class'), element('div', {className: 'scroll'}, list));
    } else drawClasses(section, made, name);
    section.append(element('h3', {}, 'Samples'), pictures(made, made.samples));
    if (made.mistakes.length) section.append(element('h3', {}, 'Hardest mistakes'),
      element('p', {className: 'note'}, 'The wrong predictions with the highest loss, the worst first.'), pictures(made, made.mistakes));
  });
}

function drawClasses(section, made, name) {
  const {classes, counts, pairs} = made.confusion;
  const left = element('div', {}), right = element('div', {});
  section.append(element('div', {className: 'pair scores'}, left, right));
  const shown = classes.map((c, i) => i).filter(i => classes[i].examples || classes[i].predicted);
  if (counts.length) drawConfusion(left, made, shown);
  if (shown.length <= 20) {
    const list = element('table', {});
    table(list, ['class', 'examples', 'precision', 'recall', 'F1', 'AUC', 'most often taken for'], shown.map(c => [name(c), number(classes[c].examples, 9),
      classes[c].predicted ? (classes[c].correct / classes[c].predicted).toFixed(3) : '–', classes[c].examples ? (classes[c].correct / classes[c].examples).toFixed(3) : '–',
      classes[c].f1 !== undefined ? classes[c].f1.toFixed(3) : '–', classes[c].auc !== undefined ? classes[c].auc.toFixed(3) : '–',
      classes[c].taken ? `${name(classes[c].taken.class)} (${classes[c].taken.count})` : '']), [0, 6]);
    right.append(element('h3', {}, 'Each class'), element('div', {className: 'scroll'}, list));
  } else {
    const list = element('table', {});
    table(list, ['class', 'taken for', 'times', 'of'], pairs.map(([label, predicted, count]) => [name(label), name(predicted), count, classes[label].examples]), [0, 1]);
    right.append(element('h3', {}, 'Most often confused'), element('div', {className: 'scroll'}, list));
  }
}

function drawConfusion(target, made, shown) {
  const {classes, counts} = made.confusion, many = shown.length > 20;
  const count = new Map(counts.map(([label, predicted, n]) => [label + ' ' + predicted, n]));
  const cell = (label, predicted) => {
    const n = count.get(label + ' ' + predicted) || 0, part = n / (classes[label].examples || 1);
    const td = element('td', {className: label === predicted ? 'right' : '', title: `${made.names[label]} taken for ${made.names[predicted]}: ${n}`}, many || !n ? '' : String(n));
    td.style.setProperty('--heat-cell', `rgba(var(--heat), ${n ? Math.max(0.06, 0.62 * part) : 0})`);
    return td;
  };
  const head = element('thead', {}, element('tr', {}, element('th', {}), ...shown.map(c => element('th', {}, element('span', {}, made.names[c])))));
  const body = element('tbody', {}, ...shown.map(label => element('tr', {}, ...(many ? [] : [element('th', {title: made.names[label]}, made.names[label])]), ...shown.map(c => cell(label, c)))));
  target.append(element('h3', {}, 'Confusion'), element('p', {className: 'note'}, 'Rows: the class of the picture. Columns: what it is taken for.'),
    element('div', {className: 'scroll'}, element('table', {className: 'confusion' + (many ? ' many' : '')}, ...(many ? [] : [head]), body)));
}

const namesOf = (made, labels) => labels.map(c => made.names[c]).join(', ') || 'no label';
const pictures = (made, list) => element('div', {className: 'pictures'}, ...list.map(p => made.several ? element('div', {className: 'picture'},
  element('img', {src: 'data:image/png;base64,' + p.image, alt: namesOf(made, p.labels), title: p.place || `record ${p.record}`}),
  String(p.labels) === String(p.predicted) ? element('span', {className: 'right'}, '✓ ' + namesOf(made, p.labels)) : element('span', {className: 'wrong'}, '✗ ' + namesOf(made, p.predicted)),
  ...(String(p.labels) === String(p.predicted) ? [] : [element('small', {}, `has ${namesOf(made, p.labels)}`)]),
  element('small', {}, `record ${p.record}`)) : element('div', {className: 'picture'},
  element('img', {src: 'data:image/png;base64,' + p.image, alt: made.names[p.label], title: p.place || `record ${p.record}`}),
  p.label === p.predicted ? element('span', {className: 'right'}, '✓ ' + made.names[p.label]) : element('span', {className: 'wrong'}, '✗ ' + made.names[p.predicted]),
  element('small', {}, p.label === p.predicted ? `sure of it: ${percent(p.probability)}` : `is ${made.names[p.label]}: ${percent(p.probability)}`),
  element('small', {}, `record ${p.record}`))));

function drawAll() {
  drawCurves();
  drawTowers();
}
// Few points need little smoothing.
at('smoothing').value = Math.min(0.94, Math.max(0, 1 - 14 / Math.max(...runs.map(r => r.curves.step.length), 1)));
drawHead();
drawLegend();
drawEvents();
drawSettings();
drawNetworks();
drawPredictions();
drawAll();
if (!runs.some(r => r.times.length)) at('along').querySelector('[value=elapsed]').disabled = true;
for (const id of ['along', 'smoothing', 'logarithmic', 'metric']) at(id).addEventListener('input', drawAll);
let drawnWidth = innerWidth;
addEventListener('resize', () => { if (innerWidth !== drawnWidth) { drawnWidth = innerWidth; drawAll(); } });
