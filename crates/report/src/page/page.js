// What a reader does with the charts: point at a moment, walk along it, save. Without it the page still says everything.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);

  // Numbers, written as the page itself writes them.
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
  const shareOf = (chart, at) => {
    const share = chart.log
      ? Math.log(at / chart.from) / Math.log(chart.to / chart.from)
      : (at - chart.from) / (chart.to - chart.from);
    return chart.left + share * (chart.right - chart.left);
  };
  const momentAt = (chart, share) => {
    const part = Math.min(1, Math.max(0, (share - chart.left) / (chart.right - chart.left)));
    return chart.log ? chart.from * (chart.to / chart.from) ** part : chart.from + part * (chart.to - chart.from);
  };
  const text = (tag, content) => Object.assign(document.createElement(tag), { textContent: content });

  // Charts over the same stretch of a trial move together; a zoom has a stretch of its own.
  const together = (figure) => {
    const own = data[figure.id];
    const trial = figure.closest('.trial, .block') || document;
    return [...trial.querySelectorAll('figure[data-hover]')].filter((other) => {
      const chart = data[other.id];
      return chart.from === own.from && chart.to === own.to;
    });
  };
  const show = (figure, at) => {
    const chart = data[figure.id];
    const share = shareOf(chart, at);
    const cross = figure.querySelector('.cross');
    cross.setAttribute('transform', `translate(${(share * chart.width).toFixed(1)} 0)`);
    cross.style.visibility = 'visible';
    const readout = figure.querySelector('.readout');
    const moments = momentsOf(chart);
    const rows = [];
    let shown = at;
    chart.lines.forEach((line, index) => {
      if (!moments[index].length) return;
      const place = nearest(moments[index], at);
      const value = line.y[place];
      if (index === 0) shown = moments[index][place];
      const row = document.createElement('div');
      const swatch = document.createElement('i');
      swatch.className = line.c;
      row.append(swatch, line.n, text('span', value === null ? '–' : write[line.u](value)));
      rows.push(row);
    });
    const named = chart.names ? `${chart.unit} ${chart.names[Math.round(shown)]}` : `${Number(shown.toFixed(3))} ${chart.unit}`;
    readout.replaceChildren(text('b', named), ...rows);
    readout.hidden = false;
    const width = figure.querySelector('svg').getBoundingClientRect().width;
    const left = share * width;
    const flip = left + readout.offsetWidth + 24 > width;
    readout.style.left = `${flip ? left - readout.offsetWidth - 12 : left + 12}px`;
  };
  const hide = (figure) => {
    figure.querySelector('.cross').style.visibility = 'hidden';
    figure.querySelector('.readout').hidden = true;
  };

  for (const figure of document.querySelectorAll('figure[data-hover]')) {
    const chart = data[figure.id];
    let at = chart.from;
    const move = (moment) => { at = moment; together(figure).forEach((other) => show(other, moment)); };
    figure.addEventListener('pointermove', (event) => {
      const box = figure.querySelector('svg').getBoundingClientRect();
      move(momentAt(chart, (event.clientX - box.left) / box.width));
    });
    figure.addEventListener('pointerleave', () => together(figure).forEach(hide));
    figure.addEventListener('blur', () => together(figure).forEach(hide));
    figure.addEventListener('keydown', (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
      if (!(event.key in steps) || !chart.lines.length) return;
      event.preventDefault();
      const moments = momentsOf(chart)[0];
      const place = nearest(moments, at) + steps[event.key];
      move(moments[Math.min(moments.length - 1, Math.max(0, place))]);
    });
  }

  // Saving: an SVG carries the colours that are on screen, a CSV the values that were drawn.
  const inked = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linejoin',
    'stroke-linecap', 'font-size', 'font-weight', 'font-family', 'text-anchor', 'visibility'];
  const svgOf = (figure) => {
    const svg = figure.querySelector('svg');
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
  const cell = (value) => {
    const text = value === null || value === undefined ? '' : String(value);
    // A name that a spreadsheet would take for a formula stays a text; a number may be negative.
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
  for (const figure of document.querySelectorAll('figure.chart')) {
    figure.querySelector('.save').hidden = false;
    figure.querySelectorAll('[data-save]').forEach((link) => {
      link.addEventListener('click', (event) => {
        event.preventDefault();
        if (link.dataset.save === 'svg') save(svgOf(figure), 'image/svg+xml', `${figure.id}.svg`);
        else save(csvOf(data[figure.id]), 'text/csv', `${figure.id}.csv`);
      });
    });
  }
})();
