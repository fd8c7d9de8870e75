'use strict';
// What the pages share: reads the report, makes elements. Inserts text only as text, so that no name is read as HTML.
const report = JSON.parse(document.getElementById('report').textContent);
const at = id => document.getElementById(id);

function element(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {}))
    if (name === 'color') node.style.setProperty('--color', value);
    else if (name === 'style') Object.assign(node.style, value);
    else node[name] = value;
  node.append(...children);
  return node;
}
const dot = color => element('span', {className: 'dot', color});
const number = (value, digits = 3) => Math.abs(value) >= 1e15 ? value.toExponential(2) : new Intl.NumberFormat('en', {
  maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(Math.abs(value) + 1)))}).format(value);
const percent = part => (100 * part).toFixed(part < 0.0995 ? 1 : 0) + ' %';
const time = us => us < 1000 ? number(us) + ' µs' : us < 1e6 ? number(us / 1000) + ' ms' : number(us / 1e6) + ' s';
const size = bytes => bytes < 1e6 ? number(bytes / 1e3) + ' kB' : bytes < 1e9 ? number(bytes / 1e6) + ' MB'
                                                                               : number(bytes / 1e9) + ' GB';
const most = values => Math.max(...values, 0) || 1;

const colorOf = index => `var(--d${index % 6})`;

// `text`: the columns that hold no numbers.
function table(target, heads, rows, text = [0]) {
  const cell = (tag, value, column) => element(tag, {className: text.includes(column) ? '' : 'number'}, value);
  target.append(element('thead', {}, element('tr', {}, ...heads.map((h, i) => cell('th', h, i)))),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...row.map((v, i) => cell('td', v, i))))));
}
