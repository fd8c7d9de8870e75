// Draws a report of bench.
const spread = (s, show) => `${show(s.median)} (${show(s.min)} to ${show(s.max)})`;
const devices = report.devices;
// Whether products may round their operands
const isRounded = (report.settings.precision || 'fp32') !== 'fp32';
// '81.2 % bf16, 18.8 % fp32'
const multiplications = d => (d.multiplications || []).map(m => `${percent(m.part)} ${m.operands}`).join(', ');

function bar(label, small, color, figure, show, full) {
  const part = value => 100 * value / full + '%';
  const track = element('div', {className: 'track', title: spread(figure, show)},
    element('div', {className: 'fill', color, style: {width: part(figure.median)}}),
    element('div', {className: 'range',
      style: {left: part(figure.min), width: part(figure.max - figure.min)}}));
  return element('div', {className: 'bar'},
    element('div', {className: 'label'}, label, ...(small ? [element('small', {}, small)] : [])),
    track, element('div', {className: 'value'}, show(figure.median)));
}

function drawHead() {
  const {machine, settings} = report;
  at('summary').textContent = `${settings.recipe}, batch ${settings.batch}, on ` +
    devices.map(d => d.id).join(', ') + (isRounded ? `, ${settings.precision} products` : '') +
    (settings.round_operands ? ', rounded on the cpu' : '') + (settings.validate ? ', under the Vulkan validation layer' : '');
  const facts = {
    Processor: `${machine.processor}, ${machine.processors} in use`, Memory: size(machine.memory_bytes),
    System: machine.system, Kernel: machine.kernel, 'Load before': machine.load_average.toFixed(2),
    Date: report.date.replace('T', ' ').replace('Z', ' UTC'), Repetitions: `${settings.repetitions}, the devices in turn`,
    'CPU threads': settings.threads,
  };
  for (const [name, value] of Object.entries(facts))
    at('facts').append(element('div', {}, element('dt', {}, name), element('dd', {}, String(value))));
  at('colophon').textContent = `Written by towers ${report.towers_version} bench; report schema ${report.schema}. ` +
    `Peak memory of the process, all devices at once: ${size(report.peak_memory_bytes)}.`;
}

const split = subset => `${subset.towers.join(', ')} with ${subset.shares.join(' : ')}`;

function drawSteps() {
  const together = report.together;
  const rate = value => number(value, 4) + '/s';
  const proposal = together && together.proposal;
  const measured = [...devices, together, proposal].filter(d => d && d.examples_per_s);
  const full = most(measured.map(d => d.examples_per_s.max));
  devices.forEach((d, i) => at('rates').append(
    bar(d.id, `${d.name}, ${d.kind}`, colorOf(i), d.examples_per_s, rate, full)));
  if (together)
    at('rates').append(bar('together', together.towers.join(', '), 'var(--plain)', together.examples_per_s, rate, full));
  if (proposal && proposal.examples_per_s)
    at('rates').append(bar('proposed', split(proposal), 'var(--plain)', proposal.examples_per_s, rate, full));
  const gflops = d => d.kernels.length ?
    number(d.kernels.reduce((sum, k) => sum + k.flops, 0) / d.step_us.median / 1e3) : '';
  const label = (d, i) => element('span', {}, dot(colorOf(i)), d.id);
  const rows = devices.map((d, i) => [label(d, i), time(d.step_us.median), time(d.host_us.median),
    time(d.empty_step_us.median), gflops(d), size(d.device_memory_bytes), size(d.staging_memory_bytes), d.driver,
    ...(isRounded ? [multiplications(d)] : [])]);
  if (together)
    rows.push([element('span', {}, dot('var(--plain)'), 'together'), time(together.step_us.median),
      time(together.host_us.median), '', '', '', '', '', ...(isRounded ? [''] : [])]);
  table(at('steps'), ['', 'step', 'host time', 'empty step', 'GFLOP/s', 'device memory', 'staging', 'driver',
    ...(isRounded ? ['multiplications'] : [])], rows, isRounded ? [0, 7, 8] : [0, 7]);
  at('together').textContent = 'Host time: how long the host itself works in a step, without waiting. ' +
    'Empty step: from submission to completion with no command in it. GFLOP/s: matrix products over the whole step. ' + (together ?
    `Together: towers ${together.towers.join(', ')} with ${together.shares.join(' : ')} examples a step reach ` +
    `${percent(together.share_of_sum.median)} of the sum of the devices' solo rates at batch ${report.settings.batch}; this split allows ` +
    `${rate(together.split_limit_examples_per_s)}.` : '') + (proposal ?
    ` Proposed: ${split(proposal)} examples a step. Predicted are ${rate(proposal.predicted_examples_per_s)}, ` +
    `${percent(proposal.predicted_share_of_sum)} of the sum; ` + (proposal.examples_per_s ?
    `measured ${rate(proposal.examples_per_s.median)}, ${percent(proposal.share_of_sum.median)}.` : 'not measured.') : '') +
    (report.left_out || []).map(each => ` Left out: ${each.what}: ${each.reason}.`).join('');
}

function drawSubsets() {
  const subsets = report.together && report.together.subsets;
  at('subsets-section').hidden = !subsets;
  if (!subsets) return;
  table(at('subsets'), ['towers', 'examples', 'predicted/s', 'measured/s', 'measured / predicted'], subsets.map(s => [
    s.towers.join(', '), s.shares.join(' : '), number(s.predicted_examples_per_s, 4),
    s.examples_per_s ? element('span', {title: spread(s.examples_per_s, number)}, number(s.examples_per_s.median, 4)) :
      s.refusal ? element('span', {title: s.refusal}, 'refused') : '',
    s.examples_per_s ? (s.examples_per_s.median / s.predicted_examples_per_s).toFixed(2) : '']));
}

// The parts of the step, by their names in shaders/kernels.def; partOfKernel says which a kernel belongs to.
const parts = [
  ['Products, forward', 'forward'],
  ['Products, data gradients', 'data'],
  ['Products, weight gradients', 'weights'],
  ['Normalization', 'norm'],
  ['Pooling', 'pool'],
  ['Element by element', 'elements'],
  ['Images', 'images'],
  ['Update and checks', 'update'],
  ['The rest', 'rest'],
];
const partOf = kernel => parts.findIndex(part => part[1] === (partOfKernel[kernel] || 'rest'));

function drawComposition() {
  const timed = devices.map((device, index) => ({device, index})).filter(t => t.device.kernels.length);
  at('composition-section').hidden = at('kernels-section').hidden = !timed.length;
  const sums = timed.map(({device, index}) => {
    const sum = parts.map(() => 0);
    for (const kernel of device.kernels) sum[partOf(kernel.kernel)] += kernel.share;
    const segment = (share, i) => element('div', {color: `var(--${parts[i][1]})`, style: {flexGrow: share, flexBasis: 0},
      title: `${parts[i][0]}: ${percent(share)}`});
    at('composition').append(
      element('div', {className: 'stack-head'}, element('span', {}, dot(colorOf(index)), device.id),
        element('span', {}, `all kernels ${time(device.kernels_us.median)}, step ${time(device.step_us.median)}`)),
      element('div', {className: 'stack'}, ...sum.map(segment)));
    return sum;
  });
  table(at('parts'), ['', ...timed.map(t => t.device.id)], parts.map((part, i) => [
    element('span', {}, dot(`var(--${part[1]})`), part[0]), ...sums.map(sum => percent(sum[i]))]));
}

// The kernels of all devices in the order of the step. Wide devices have some that others do not need.
function kernelNames() {
  const names = [];
  for (const device of devices) {
    let place = 0;
    for (const {name} of device.kernels) {
      if (!names.includes(name)) names.splice(place, 0, name);
      place = names.indexOf(name) + 1;
    }
  }
  return names;
}

const rateOf = k => k.gflops === null ? k.gb_per_s : k.gflops;
const measures = {
  share: {value: k => k.share, note: 'All bars share one scale.'},
  time: {value: k => k.time_us.median, note: "Each kernel's bars have their own scale: shorter is faster."},
  rate: {value: rateOf, note: "Each kernel's bars have their own scale: longer is faster."},
};

function drawKernels() {
  const chosen = at('measure').value, {value, note} = measures[chosen];
  at('scale').textContent = note;
  let rows = kernelNames().map(name => ({name, figures: devices.map(d => d.kernels.find(k => k.name === name))}));
  const share = row => most(row.figures.map(k => k ? k.share : 0));
  if (!at('small').checked) rows = rows.filter(row => row.figures.some(k => k && k.share >= 0.01));
  if (at('order').value === 'time') rows.sort((a, b) => share(b) - share(a));
  const largest = row => most(row.figures.map(k => k ? value(k) : 0));
  const all = most(rows.map(largest));
  at('kernels').replaceChildren(...rows.map(row => {
    const full = chosen === 'share' ? all : largest(row);
    const span = (name, text) => element('span', {className: name === chosen ? 'shown' : ''}, text);
    const lines = row.figures.map((k, i) => !k ? null : element('div', {className: 'row'},
      element('span', {title: devices[i].name}, dot(colorOf(i)), devices[i].id),
      element('div', {className: 'track', title: spread(k.time_us, time)}, element('div',
        {className: 'fill', color: colorOf(i), style: {width: 100 * value(k) / full + '%'}})),
      span('time', time(k.time_us.median)), span('share', percent(k.share)),
      span('rate', number(rateOf(k)) + (k.gflops === null ? ' GB/s' : ' GFLOP/s'))));
    const kernel = row.figures.find(k => k).kernel;
    return element('div', {className: 'kernel'},
      element('div', {className: 'name'}, row.name + ' ', element('small', {}, kernel)),
      element('div', {}, ...lines.filter(line => line)));
  }));
}

function drawCopies() {
  const columns = [...new Set(devices.flatMap(d => d.copies.map(c => c.bytes)))];
  const rows = devices.flatMap((d, i) => ['to_device', 'from_device'].map(direction => [
    element('span', {}, dot(colorOf(i)), d.id, direction === 'to_device' ? ' ←' : ' →'),
    ...columns.map(bytes => {
      const copy = d.copies.find(c => c.bytes === bytes && c.direction === direction);
      if (!copy) return '';
      const device = copy.device_gb_per_s && ` (${number(copy.device_gb_per_s.median)})`;
      return element('span', {title: spread(copy.gb_per_s, number)}, number(copy.gb_per_s.median),
        ...(device ? [element('small', {}, device)] : []));
    })]));
  table(at('copies'), ['← to, → from', ...columns.map(size)], rows);
}

function drawAveraging() {
  const rate = value => number(value) + ' GB/s';
  const full = most(report.averaging.flatMap(a => [a.gb_per_s.max, a.memcpy_gb_per_s.max]));
  for (const a of report.averaging)
    at('averaging').append(
      bar(`${a.towers} towers`, `${number(a.ratio.median)} of memcpy`, 'var(--d0)', a.gb_per_s, rate, full),
      bar('memcpy', '', 'var(--plain)', a.memcpy_gb_per_s, rate, full));
}

drawHead();
drawSteps();
drawSubsets();
drawComposition();
drawKernels();
drawCopies();
drawAveraging();
for (const id of ['measure', 'order', 'small']) at(id).addEventListener('change', drawKernels);
