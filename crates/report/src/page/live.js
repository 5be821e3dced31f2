// Page of a run in progress: replaces parts of the page as the server sends them, and at the end
// the whole page with the report.
'use strict';
(() => {
  const state = document.getElementById('connection');
  const tell = (words, kind) => { state.textContent = words; state.className = `badge ${kind}`; };
  const clocks = () => {
    document.querySelectorAll('[data-since]').forEach((clock) => {
      const seconds = Math.max(0, Date.now() - Number(clock.dataset.since)) / 1000;
      const words = seconds < 120 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
      if (clock.textContent !== words) clock.textContent = words;
    });
  };
  // A chart under the pointer or with a zoom is replaced later.
  const waiting = new Map();
  const isUsed = (part) => part.matches(':hover') && part.querySelector('figure:hover, figure:focus, .zoomed') !== null;
  const put = (part, markup) => {
    const folds = [...part.querySelectorAll('details')].map((fold) => fold.open);
    part.innerHTML = markup;
    const now = [...part.querySelectorAll('details')];
    if (now.length === folds.length) now.forEach((fold, index) => { fold.open = folds[index]; });
    const data = part.querySelector('.part-data');
    part.dispatchEvent(new CustomEvent('part', { bubbles: true, detail: data ? JSON.parse(data.textContent) : {} }));
    clocks();
  };
  const putWaiting = () => waiting.forEach((markup, part) => {
    if (isUsed(part)) return;
    waiting.delete(part);
    put(part, markup);
  });
  setInterval(() => { clocks(); putWaiting(); }, 100);

  const source = new EventSource('events');
  source.addEventListener('open', () => tell('running', 'running'));
  source.addEventListener('error', () => tell('connection lost', 'suspect'));
  source.addEventListener('behind', () => tell('fell behind: reconnecting', 'suspect'));
  source.addEventListener('parts', (event) => {
    tell('running', 'running');
    Object.entries(JSON.parse(event.data)).forEach(([name, markup]) => {
      const part = document.getElementById(`live-${name}`);
      if (part) waiting.set(part, markup);
    });
    putWaiting();
  });
  source.addEventListener('report', (event) => {
    source.close();
    document.open();
    document.write(JSON.parse(event.data));
    document.close();
  });
})();
