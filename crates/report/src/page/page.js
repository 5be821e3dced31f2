// Interaction with charts and tables: values at the pointer, zoom, sorting, saving. The page is
// complete without this script.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);

  // Formats numbers as the page does.
  const number = (value) => {
    if (value === 0) return '0';
    const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(Math.abs(value)))));
    const rounded = Number(value.toPrecision(3));
    return rounded.toLocaleString('en', { maximumFractionDigits: digits });
  };
  const scaled = (value, units, step) => {
    let index = 0;
    while (index + 1 < units.length && Math.abs(value) >= step * 0.9995) { value /= step; index += 1; }
    return `${number(value)} ${units[index]}`;
  };
  const bytes = (value) => scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000);
  const write = {
    per_s: (value) => `${number(value)}/s`,
    count: (value) => (Number.isInteger(value) ? value.toLocaleString('en') : number(value)),
    us: (value) => scaled(value, ['µs', 'ms', 's'], 1000),
    pct: (value) => `${number(value)} %`,
    bytes,
    bytes_per_s: (value) => `${bytes(value)}/s`,
    plain: number,
  };

  const momentsOf = (chart) => {
    let moments = [];
    return chart.lines.map((line) => {
      if (line.x) moments = line.x;
      if (line.s) {
        let steps = 0;
        moments = line.y.map((_, index) => {
          steps += line.d ? line.d[index] : Math.min(index, 1);
          return line.s[0] + steps * line.s[1];
        });
      }
      return moments;
    });
  };
  const nearest = (moments, at) => {
    let low = 0;
    let high = moments.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (moments[middle] < at) low = middle; else high = middle;
    }
    return Math.abs(moments[low] - at) <= Math.abs(moments[high] - at) ? low : high;
  };
  // Visible part of the axis: a zoom narrows it.
  const shown = (chart) => chart.zoom || [chart.from, chart.to];
  const partOf = (at, [from, to], log) =>
    (log ? Math.log(at / from) / Math.log(to / from) : (at - from) / (to - from));
  const shareOf = (chart, at) => chart.left + partOf(at, shown(chart), chart.log) * (chart.right - chart.left);
  const momentAt = (chart, share) => {
    const [from, to] = shown(chart);
    const part = Math.min(1, Math.max(0, (share - chart.left) / (chart.right - chart.left)));
    return chart.log ? from * (to / from) ** part : from + part * (to - from);
  };
  // Round values within a range: 1, 2 and 5 times a power of ten.
  const ticksOf = (from, to, log, count) => {
    if (log && to / from >= 8) {
      const ticks = [];
      for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power += 1) {
        [1, 2, 5].forEach((factor) => ticks.push(factor * 10 ** power));
      }
      const within = ticks.filter((tick) => tick >= from * 0.9999 && tick <= to * 1.0001);
      return within.length > count ? within.filter((tick) => Number.isInteger(Math.log10(tick))) : within;
    }
    const power = 10 ** Math.floor(Math.log10((to - from) / count));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= ((to - from) / count) * 0.9999);
    const ticks = [];
    for (let index = Math.ceil(from / step - 1e-9); index * step <= to + step * 1e-9; index += 1) ticks.push(index * step + 0);
    return ticks;
  };
  const text = (tag, content) => Object.assign(document.createElement(tag), { textContent: content });

  // Charts over the same time range of a trial move together; a chart around a fault has a
  // separate range.
  const together = (figure) => {
    const own = data[figure.id];
    const trial = figure.closest('.trial, .block') || document;
    return [...trial.querySelectorAll('figure[data-hover]')].filter((other) => {
      const chart = data[other.id];
      return chart.from === own.from && chart.to === own.to;
    });
  };
  const hide = (figure) => {
    figure.querySelector('.cross').style.visibility = 'hidden';
    figure.querySelector('.readout').hidden = true;
  };
  const show = (figure, at) => {
    const chart = data[figure.id];
    const share = shareOf(chart, at);
    if (share < chart.left - 0.001 || share > chart.right + 0.001) { hide(figure); return; }
    const cross = figure.querySelector('.cross');
    cross.setAttribute('transform', `translate(${(share * chart.width).toFixed(1)} 0)`);
    cross.style.visibility = 'visible';
    const readout = figure.querySelector('.readout');
    const moments = momentsOf(chart);
    const rows = [];
    let told = at;
    chart.lines.forEach((line, index) => {
      if (!moments[index].length) return;
      const place = nearest(moments[index], at);
      const value = line.y[place];
      if (index === 0) told = moments[index][place];
      const row = document.createElement('div');
      const swatch = document.createElement('i');
      swatch.className = line.c;
      row.append(swatch, line.n, text('span', value === null ? '–' : write[line.u](value)));
      rows.push(row);
    });
    const named = chart.nines ? `${Number((100 * (1 - 1 / told)).toFixed(5))} %` : chart.names ? `${chart.unit} ${chart.names[Math.round(told)]}` : `${Number(told.toFixed(3))} ${chart.unit}`;
    readout.replaceChildren(text('b', named), ...rows);
    readout.hidden = false;
    const width = figure.querySelector('.sheet > svg').getBoundingClientRect().width;
    const left = share * width;
    const flip = left + readout.offsetWidth + 24 > width;
    readout.style.left = `${flip ? left - readout.offsetWidth - 12 : left + 12}px`;
  };
  // A zoom shows a part of the axis: stretches the lines, and sets new ticks and labels.
  const svgNode = (tag, attributes, content) => {
    const node = document.createElementNS(document.querySelector('svg').namespaceURI, tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    if (content !== undefined) node.textContent = content;
    return node;
  };
  const firstTicks = new Map();
  const zoom = (figure, range) => {
    const chart = data[figure.id];
    const svg = figure.querySelector('.sheet > svg');
    const plot = svg.querySelector('.plot');
    const [left, right] = [chart.left * chart.width, chart.right * chart.width];
    const place = (at) => left + partOf(at, [chart.from, chart.to], chart.log) * (right - left);
    chart.zoom = range;
    const [from, to] = shown(chart);
    const height = plot.getAttribute('height');
    plot.setAttribute('viewBox', `${place(from)} 0 ${place(to) - place(from)} ${height}`);
    figure.classList.toggle('zoomed', Boolean(range));
    figure.querySelector('.whole').hidden = !range;
    svg.querySelectorAll('[data-x]').forEach((label) => {
      const was = Number(label.dataset.x);
      const now = left + ((was - place(from)) / (place(to) - place(from))) * (right - left);
      label.setAttribute('transform', `translate(${now - was} 0)`);
      label.style.display = now < left - 1 || now > right + 1 ? 'none' : '';
    });
    const group = svg.querySelector('.ticks.x');
    if (!firstTicks.has(figure)) firstTicks.set(figure, [...group.childNodes]);
    if (!range) { group.replaceChildren(...firstTicks.get(figure)); return; }
    const y = firstTicks.get(figure)[0].getAttribute('y');
    const ticks = ticksOf(from, to, chart.log, 7);
    group.replaceChildren(...ticks.map((tick, index) => {
      const unit = index + 1 === ticks.length ? ` ${chart.unit}` : '';
      const words = chart.nines ? Number((100 * (1 - 1 / tick)).toFixed(5)) : Number(tick.toPrecision(6)).toLocaleString('en', { maximumFractionDigits: 6 });
      return svgNode('text', { x: shareOf(chart, tick) * chart.width, y }, `${words}${unit}`);
    }));
  };
  const zoomAll = (figure, range) => {
    const chart = data[figure.id];
    if (chart.names) return;
    const narrow = range && partOf(range[1], [chart.from, chart.to], chart.log) - partOf(range[0], [chart.from, chart.to], chart.log) < 0.002;
    if (narrow) return;
    together(figure).forEach((other) => { hide(other); zoom(other, range); });
  };
  const zoomBy = (figure, at, factor) => {
    const chart = data[figure.id];
    const ends = [0, 1].map((end) => {
      const middle = shareOf(chart, at);
      const share = middle + ((end ? chart.right : chart.left) - middle) * factor;
      const part = (share - chart.left) / (chart.right - chart.left);
      const [from, to] = shown(chart);
      return chart.log ? from * (to / from) ** part : from + part * (to - from);
    });
    const range = [Math.max(chart.from, ends[0]), Math.min(chart.to, ends[1])];
    zoomAll(figure, range[0] <= chart.from && range[1] >= chart.to ? null : range);
  };

  const pointable = (root) => root.querySelectorAll('figure[data-hover]').forEach((figure) => {
    const chart = data[figure.id];
    let at = chart.from;
    let from = null;
    let area = null;
    const svg = figure.querySelector('.sheet > svg');
    const shareAt = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.min(chart.right, Math.max(chart.left, (event.clientX - box.left) / box.width));
    };
    const drop = () => { if (area) area.remove(); area = null; from = null; };
    svg.addEventListener('pointerdown', (event) => {
      if (event.button || event.pointerType === 'touch' || event.target.closest('.entry')) return;
      from = shareAt(event);
    });
    svg.addEventListener('pointerup', (event) => {
      if (area) zoomAll(figure, [from, shareAt(event)].sort((a, b) => a - b).map((share) => momentAt(chart, share)));
      drop();
    });
    // A touch does not zoom by dragging, because dragging scrolls or reads values.
    svg.addEventListener('dblclick', (event) => {
      if (event.target.closest('.entry')) return;
      if (chart.zoom) zoomAll(figure, null); else zoomBy(figure, momentAt(chart, shareAt(event)), 0.25);
    });
    figure.querySelector('.whole').addEventListener('click', () => zoomAll(figure, null));
    figure.querySelectorAll('.entry').forEach((entry) => {
      // Lanes share a legend.
      const of = entry.dataset.line.split(' ').flatMap((line) => [...figure.querySelectorAll(`.plot [data-line="${line}"]`)]);
      const toggle = () => {
        const off = entry.classList.toggle('off');
        of.forEach((line) => line.classList.toggle('off', off));
        entry.setAttribute('aria-pressed', String(!off));
      };
      Object.entries({ tabindex: '0', role: 'button', 'aria-pressed': 'true' }).forEach(([name, value]) => entry.setAttribute(name, value));
      entry.addEventListener('click', toggle);
      entry.addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        toggle();
      });
    });
    const move = (moment) => { at = moment; together(figure).forEach((other) => show(other, moment)); };
    figure.addEventListener('pointermove', (event) => {
      const share = shareAt(event);
      move(momentAt(chart, share));
      if (from === null || Math.abs(share - from) * svg.getBoundingClientRect().width < 6) return;
      if (!area) area = svg.appendChild(svgNode('rect', { class: 'drag', y: 0, height: svg.viewBox.baseVal.height }));
      area.setAttribute('x', Math.min(from, share) * chart.width);
      area.setAttribute('width', Math.abs(share - from) * chart.width);
    });
    figure.addEventListener('pointerleave', () => { drop(); together(figure).forEach(hide); });
    figure.addEventListener('blur', () => together(figure).forEach(hide));
    figure.addEventListener('keydown', (event) => {
      if (event.key === '+' || event.key === '=') zoomBy(figure, at, 0.5);
      if (event.key === '-') zoomBy(figure, at, 2);
      if (event.key === '0' || event.key === 'Escape') zoomAll(figure, null);
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
      if (!(event.key in steps) || !chart.lines.length) return;
      event.preventDefault();
      const moments = momentsOf(chart)[0];
      const place = nearest(moments, at) + steps[event.key];
      move(moments[Math.min(moments.length - 1, Math.max(0, place))]);
    });
  });

  // Saving: an SVG has the colours on screen, a CSV the drawn values.
  const inked = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linejoin',
    'stroke-linecap', 'paint-order', 'font-size', 'font-weight', 'font-family', 'text-anchor', 'visibility', 'vector-effect', 'display'];
  const svgOf = (figure) => {
    const svg = figure.querySelector('.sheet > svg');
    const copy = svg.cloneNode(true);
    const originals = svg.querySelectorAll('*');
    copy.querySelectorAll('*').forEach((element, index) => {
      const style = getComputedStyle(originals[index]);
      inked.forEach((name) => element.setAttribute(name, style.getPropertyValue(name)));
      element.removeAttribute('class');
      element.removeAttribute('style');
    });
    const [, , width, height] = svg.getAttribute('viewBox').split(' ');
    const paper = document.createElementNS(svg.namespaceURI, 'rect');
    paper.setAttribute('width', width);
    paper.setAttribute('height', height);
    paper.setAttribute('fill', getComputedStyle(figure.closest('.block')).backgroundColor);
    copy.prepend(paper);
    copy.setAttribute('width', width);
    copy.setAttribute('height', height);
    return new XMLSerializer().serializeToString(copy);
  };
  // Trials: one is shown, and another can be drawn over it.
  const picker = document.querySelector('.picker');
  const trialOf = (id) => [...document.querySelectorAll('.trial')].find((one) => one.dataset.trial === id);
  const kindOf = (figure, trial) => figure.id.slice(`t${trial.dataset.trial}-`.length);
  const panelAxis = (panel) => (panel.log ? [Math.log(panel.y[0]), Math.log(panel.y[1])] : [panel.y[0], panel.y[1]]);
  // Moves the drawing of `panel` to an axis over `range` between the coordinates `start` and
  // `end`, by scaling and shifting.
  const onto = (panel, range, [start, end]) => {
    const [from, to] = panelAxis(panel);
    const per = (to - from) / (panel.y[3] - panel.y[2]);
    const scale = (per * (end - start)) / (range[1] - range[0]);
    return [scale, start + ((from - range[0]) / (range[1] - range[0])) * (end - start) - scale * panel.y[2]];
  };
  // Without a range, restores the original drawing.
  const firstAxes = new Map();
  const axisAnew = (figure, index, range) => {
    const panel = data[figure.id].panels[index];
    const svg = figure.querySelector('.sheet > svg');
    const [words, grid] = [svg.querySelector(`[data-ticks="${index}"]`), svg.querySelector(`[data-grid="${index}"]`)];
    if (!firstAxes.has(words)) firstAxes.set(words, [[...words.childNodes], grid.getAttribute('d')]);
    if (!range) {
      words.replaceChildren(...firstAxes.get(words)[0]);
      grid.setAttribute('d', firstAxes.get(words)[1]);
      return;
    }
    const chart = data[figure.id];
    const back = (value) => (panel.log ? Math.exp(value) : value);
    const [start, end] = [panel.y[2], panel.y[3]];
    // The same number as in the original drawing.
    const count = panel.log ? Math.max(4, Math.floor((start - end) / 22)) : Math.max(1, Math.floor((start - end) / 29));
    const ticks = ticksOf(back(range[0]), back(range[1]), panel.log, count);
    const place = (value) => start + (((panel.log ? Math.log(value) : value) - range[0]) / (range[1] - range[0])) * (end - start);
    const [left, right] = [chart.left * chart.width, chart.right * chart.width];
    const texts = ticks.map((tick) => svgNode('text', { x: left - 7, y: place(tick) + 4 }, write[panel.u](tick).replace(/\/s$/, '')));
    words.replaceChildren(...texts);
    grid.setAttribute('d', ticks.map((tick) => `M${left} ${place(tick)}H${right}`).join(''));
  };
  const matrix = ([scale, shift], [stretch, move]) => `matrix(${stretch} 0 0 ${scale} ${move} ${shift})`;
  const overlay = (trial, over) => {
    trial.querySelectorAll('figure[data-hover]').forEach((figure) => {
      const chart = data[figure.id];
      figure.querySelectorAll('.ghost').forEach((ghost) => ghost.remove());
      const other = over && document.getElementById(`t${over.dataset.trial}-${kindOf(figure, trial)}`);
      const laid = other && data[other.id];
      (chart.panels || []).forEach((panel, index) => {
        if (!panel) return;
        const own = figure.querySelector(`.plot [data-panel="${index}"]:not(.ghost)`);
        const place = laid ? laid.panels.findIndex((one) => one && one.n === panel.n && one.log === panel.log) : -1;
        if (place < 0) { own.removeAttribute('transform'); axisAnew(figure, index, null); return; }
        const axes = [panelAxis(panel), panelAxis(laid.panels[place])];
        const range = [Math.min(...axes.map((axis) => axis[0])), Math.max(...axes.map((axis) => axis[1]))];
        own.setAttribute('transform', matrix(onto(panel, range, panel.y.slice(2)), [1, 0]));
        axisAnew(figure, index, range);
        const ghost = other.querySelector(`.plot [data-panel="${place}"]:not(.ghost)`).cloneNode(true);
        const [left, right] = [chart.left * chart.width, chart.right * chart.width];
        const at = (value) => left + partOf(value, [chart.from, chart.to], chart.log) * (right - left);
        const stretch = (at(laid.to) - at(laid.from)) / (right - left);
        ghost.setAttribute('transform', matrix(onto(laid.panels[place], range, panel.y.slice(2)), [stretch, at(laid.from) - stretch * left]));
        ghost.classList.add('ghost');
        own.after(ghost);
      });
    });
  };
  let pickTrial = () => {};
  if (picker) {
    picker.hidden = false;
    const buttons = [...picker.querySelectorAll('[data-pick]')];
    const box = picker.querySelector('.overlay');
    const state = { shown: null, over: null };
    const pick = () => {
      document.querySelectorAll('.trial').forEach((trial) => {
        const is = trial.dataset.trial === state.shown;
        trial.classList.toggle('unpicked', !is);
        trial.open = is;
        if (is) overlay(trial, state.over ? trialOf(state.over) : null);
      });
      buttons.forEach((button) => {
        button.setAttribute('aria-pressed', String(button.dataset.pick === state.shown));
        button.classList.toggle('over', button.dataset.pick === state.over);
      });
      picker.querySelector('.laid').textContent = state.over ? `${state.over}, dashed, over ${state.shown}` : '';
    };
    buttons.forEach((button) => button.addEventListener('click', () => {
      const id = button.dataset.pick;
      if (box.checked && id !== state.shown) state.over = state.over === id ? null : id;
      else { state.shown = id; state.over = null; }
      pick();
    }));
    box.addEventListener('change', () => { if (!box.checked && state.over) { state.over = null; pick(); } });
    pickTrial = (id) => { state.shown = id; state.over = null; pick(); };
    pickTrial(document.querySelector('.trial').dataset.trial);
  }
  // A link to a folded part unfolds it, in any trial.
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    const trial = target.closest('.trial');
    if (trial) pickTrial(trial.dataset.trial);
    for (let fold = target.closest('details'); fold; fold = fold.parentElement.closest('details')) fold.open = true;
    target.scrollIntoView();
  };
  window.addEventListener('hashchange', reveal);
  reveal();

  // Tables: a click on a heading sorts by its column. Numbers are sorted by value, in any unit.
  const sizes = { ns: 1e-3, 'µs': 1, ms: 1e3, s: 1e6, min: 6e7, h: 3.6e9, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, thousand: 1e3, million: 1e6, billion: 1e9 };
  const sizeOf = (words) => {
    const found = /^[+\u2212-]?[\d,]*\.?\d+/.exec(words.trim());
    if (!found) return null;
    const unit = words.trim().slice(found[0].length).trim().split(/[\s/]/)[0];
    return Number(found[0].replaceAll(',', '').replace('\u2212', '-')) * (sizes[unit] || 1);
  };
  const sortable = (root) => root.querySelectorAll('.table table').forEach((table) => {
    const body = table.tBodies[0];
    if (!table.tHead || body.rows.length < 3) return;
    const first = [...body.rows];
    const words = (row, index) => (row.cells[index].firstChild ? row.cells[index].firstChild.textContent : '');
    [...table.tHead.rows[0].cells].forEach((head, index, heads) => {
      const sort = () => {
        const was = head.getAttribute('aria-sort');
        const next = was === null ? 'ascending' : was === 'ascending' ? 'descending' : null;
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        if (next) head.setAttribute('aria-sort', next);
        const keys = new Map(first.map((row) => [row, head.classList.contains('n') ? sizeOf(words(row, index)) : words(row, index)]));
        const order = (a, b) => {
          const [one, two] = [keys.get(a), keys.get(b)];
          if (one === null || two === null) return (one === null) - (two === null);
          const by = typeof one === 'number' ? one - two : one.localeCompare(two, 'en', { numeric: true });
          return next === 'descending' ? -by : by;
        };
        body.replaceChildren(...(next ? [...first].sort(order) : first));
      };
      head.classList.add('sortable');
      head.tabIndex = 0;
      head.addEventListener('click', sort);
      head.addEventListener('keydown', (event) => { if (event.key === 'Enter') sort(); });
    });
  });

  const cell = (value) => {
    const text = value === null || value === undefined ? '' : String(value);
    // A name that a spreadsheet would read as a formula stays a text; a number may be negative.
    const plain = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  const csvOf = (chart) => {
    const rows = [];
    if (chart.rows) {
      const parts = ['median', 'least', 'most'];
      rows.push(['case', ...chart.columns.flatMap((column) => parts.map((part) => `${column.n} ${part}`))]);
      chart.rows.forEach((name, index) => {
        rows.push([name, ...chart.columns.flatMap((column) => parts.map((part) => column[part][index]))]);
      });
    } else if (chart.cells) {
      rows.push(...chart.cells);
    } else {
      const moments = momentsOf(chart);
      const all = [...new Set(moments.flat())].sort((a, b) => a - b);
      const values = chart.lines.map((line, index) => new Map(moments[index].map((at, place) => [at, line.y[place]])));
      rows.push([chart.unit === 's' ? 'at_s' : chart.unit, ...chart.lines.map((line) => `${line.n} (${line.u})`)]);
      const place = (at) => (chart.names ? chart.names[at] : Number(at.toFixed(6)));
      all.forEach((at) => rows.push([place(at), ...values.map((line) => line.get(at))]));
    }
    return `${rows.map((row) => row.map(cell).join(',')).join('\n')}\n`;
  };
  const save = (content, type, name) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const savable = (root) => root.querySelectorAll('figure.chart').forEach((figure) => {
    figure.querySelector('.save').hidden = false;
    figure.querySelectorAll('[data-save]').forEach((link) => {
      link.addEventListener('click', (event) => {
        event.preventDefault();
        if (link.dataset.save === 'svg') save(svgOf(figure), 'image/svg+xml', `${figure.id}.svg`);
        else save(csvOf(data[figure.id]), 'text/csv', `${figure.id}.csv`);
      });
    });
  });
  const readable = (root) => {
    root.querySelectorAll('.with-script').forEach((note) => { note.hidden = false; });
    [pointable, sortable, savable].forEach((make) => make(root));
  };
  readable(document);
  // The page of a running experiment sends this event when it has replaced a part.
  document.addEventListener('part', (event) => {
    Object.assign(data, event.detail);
    readable(event.target);
  });
})();
