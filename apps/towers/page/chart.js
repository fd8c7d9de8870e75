// Draws curves, areas and bands over one axis.
function drawing(tag, properties, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(properties || {}))
    if (name === 'color') node.style.setProperty('--color', value);
    else if (value !== '') node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].find(u => u * power >= rough) * power, list = [];
  for (let i = Math.ceil(low / unit - 1e-9); i * unit <= high + unit * 1e-9; ++i) list.push(i * unit);
  return list;
}
function logTicks(low, high) {
  const list = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const unit of high / low > 300 ? [1] : [1, 2, 5])
      if (unit * 10 ** power >= low * 0.999 && unit * 10 ** power <= high * 1.001) list.push(unit * 10 ** power);
  return list;
}
const short = value => value === 0 ? '0' : Math.abs(value) >= 1e9 ? value.toExponential(1) : Math.abs(value) >= 1e6 ? number(value / 1e6) + 'M' : Math.abs(value) >= 1e4 ? number(value / 1e3) + 'k'
  : Math.abs(value) < 1e-3 ? value.toExponential(1).replace('.0e', 'e') : number(value);

// `series`: {points: [[x, y, lower edge]], color, dash, kind}, where a curve and a raw curve are lines, and a band and an
// area go down to the lower edge. What is faint, a raw curve or a band, may leave the chart. `marks`: {x, event}.
function chart(target, {series, marks = [], least, most: top, logarithmic = false, show = short, height = 220, note = 'nothing yet'}) {
  const sound = p => isFinite(p[0]) && p[1] !== null && isFinite(p[1]) && (!logarithmic || p[1] > 0);
  const all = series.flatMap(s => s.points).filter(sound);
  if (!all.length) return target.replaceChildren(element('p', {className: 'empty'}, note));
  const width = Math.max(300, Math.min(560, target.clientWidth || 520));
  const scale = series.flatMap(s => s.kind !== 'raw' && s.kind !== 'band' ? s.points.filter(sound) : middle(s.points.filter(sound)));
  const extent = (list, k) => list.reduce(([a, b], p) => [Math.min(a, p[k]), Math.max(b, p[k])], [Infinity, -Infinity]);
  let [x0, x1] = extent([...all, ...marks.filter(m => isFinite(m.x)).map(m => [m.x])], 0);
  x0 = Math.min(0, x0);
  let [y0, y1] = extent(scale, 1);
  if (least !== undefined) y0 = Math.min(least, y0);
  if (top !== undefined) y1 = Math.max(top, y1);
  if (x1 === x0) { x0 -= 0.5; x1 += 0.5; }
  if (y1 === y0) { const by = Math.abs(y0) * 0.1 || 0.5; y1 += by; if (least === undefined) y0 -= by; if (logarithmic) { y0 = y1 / 3; } }
  const pad = logarithmic ? 0 : (y1 - y0) * 0.04;
  if (least === undefined) y0 -= pad;
  if (top === undefined) y1 += pad;
  const up = logarithmic ? Math.log : v => v;
  const levels = flagLevels(marks, x0, x1, width);
  const left = 46, right = 10, above = 8 + 15 * levels.count, below = 22;
  const x = v => left + (v - x0) / (x1 - x0) * (width - left - right);
  const y = v => above + (up(y1) - up(v)) / (up(y1) - up(y0)) * (height - above - below);
  const svg = drawing('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img'});
  for (const value of logarithmic ? logTicks(y0, y1) : ticks(y0, y1, 4))
    svg.append(drawing('line', {class: 'grid', x1: left, x2: width - right, y1: y(value), y2: y(value)}),
      drawing('text', {x: left - 6, y: y(value) + 4, 'text-anchor': 'end'}, show(value)));
  const xs = ticks(x0, x1, width < 400 ? 4 : 6);
  for (const value of xs) {
    const anchor = x(value) > width - 24 ? 'end' : x(value) < left + 8 ? 'start' : 'middle';
    svg.append(drawing('text', {x: x(value), y: height - 6, 'text-anchor': anchor}, short(value)));
  }
  const clip = 'clip' + chart.count++;
  svg.append(drawing('clipPath', {id: clip}, drawing('rect', {x: left - 4, y: above - 4, width: width - left - right + 8, height: height - above - below + 8})));
  const inside = drawing('g', {'clip-path': `url(#${clip})`});
  for (const s of series) {
    const points = s.points.filter(sound);
    if (!points.length) continue;
    const place = v => Math.max(-1e4, Math.min(1e4, v)).toFixed(1);
    const line = points.map((p, i) => (i ? 'L' : 'M') + place(x(p[0])) + ' ' + place(y(p[1]))).join('');
    const kind = s.kind || 'curve', lowest = logarithmic ? y0 : -Infinity;
    const back = kind === 'band' || kind === 'area' ? [...points].reverse().map(p =>
      'L' + place(x(p[0])) + ' ' + place(y(Math.max(p[2], lowest)))).join('') + 'Z' : '';
    inside.append(drawing('path', {class: kind, d: line + back, color: s.color, 'stroke-dasharray': s.dash || ''}));
    if (kind === 'curve' && (s.dots || points.length === 1))
      for (const p of points) inside.append(drawing('circle', {class: 'point', cx: x(p[0]), cy: y(p[1]), r: 3.2, color: s.color}));
  }
  svg.append(inside);
  marks.forEach((mark, i) => {
    if (!isFinite(mark.x)) return;
    const at = x(mark.x), middle = 9 + 15 * levels.level[i], bad = isBad(mark.event) ? ' bad' : '', text = String(mark.event.mark);
    const half = 4 + 3.3 * text.length, flag = Math.max(half + 1, Math.min(width - half - 1, at));
    svg.append(drawing('line', {class: 'mark' + (mark.event.undone ? ' undone' : ''), x1: at, x2: at, y1: middle + 7, y2: height - below}),
      drawing('rect', {class: 'flag' + bad, x: flag - half, y: middle - 7, width: 2 * half, height: 14, rx: 7}),
      drawing('text', {class: 'flag-text' + bad, x: flag, y: middle + 3.6}, text));
  });
  target.replaceChildren(svg);
}
chart.count = 0;
// The points without the highest and lowest few.
const middle = points => {
  const sorted = [...points].sort((a, b) => a[1] - b[1]), cut = Math.ceil(0.03 * points.length);
  return sorted.slice(cut, sorted.length - cut);
};
// Flags that would overlap go on lines of their own.
function flagLevels(marks, x0, x1, width) {
  const order = marks.map((m, i) => i).sort((a, b) => marks[a].x - marks[b].x), ends = [], level = [];
  for (const i of order) {
    const at = (marks[i].x - x0) / (x1 - x0) * (width - 56), half = 6 + 3.3 * String(marks[i].event.mark).length;
    let row = ends.findIndex(end => end < at - half);
    if (row < 0) row = ends.length < 4 ? ends.push(0) - 1 : 3;
    ends[row] = at + half;
    level[i] = row;
  }
  return {level, count: ends.length};
}
