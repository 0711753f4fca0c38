// Elements made of data. Text goes in as text nodes and nothing else: what a cluster says is never markup.

const svgNames = new Set(["svg", "circle", "path", "line", "g", "rect", "text", "polyline", "title"]);

// h makes an element: h("a.name.more", {href}, "text", child, [children]).
export function h(name, props, ...kids) {
  const [tag, ...classes] = name.split(".");
  const el = svgNames.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  if (classes.length) el.setAttribute("class", classes.join(" "));
  for (const [k, v] of Object.entries(props || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else if (k === "css") for (const [p, x] of Object.entries(v)) el.style.setProperty(p, x);
    else el.setAttribute(k, v === true ? "" : String(v));
  }
  el.append(...kids.flat(Infinity).filter((k) => k !== null && k !== undefined && k !== false).map((k) => k instanceof Node ? k : String(k)));
  return el;
}

export function show(el, ...kids) {
  el.replaceChildren(...kids.flat(Infinity).filter((k) => k !== null && k !== undefined && k !== false));
}

// ring draws how much of something is as it should be: a loop that is not closed is a gap.
export function ring(share, state, size = 26, label = "") {
  const part = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * 100;
  const shown = part >= 100 ? 100 : Math.min(part, 92);
  return h("svg.ring", { viewBox: "0 0 32 32", width: size, height: size, "data-state": tone(state), ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) },
    h("circle.rail", { cx: 16, cy: 16, r: 12, fill: "none" }),
    shown > 0 && h("circle.arc", { cx: 16, cy: 16, r: 12, fill: "none", pathLength: 100, "stroke-dasharray": `${shown} ${100 - shown + 0.01}`, transform: "rotate(-90 16 16)" }));
}

const tones = { Failed: "bad", Missing: "bad", Blocked: "bad", BackingOff: "slow", Waiting: "slow", Running: "busy", Queued: "busy", Progressing: "busy" };

// tone is the colour family of a state: bad, slow, busy, calm or good.
export function tone(state) {
  if (state === "good") return "good";
  return tones[state] || "calm";
}

const words = { BackingOff: "backing off" };
export const stateWord = (s) => words[s] || String(s || "").toLowerCase();

// stateMark is a state in colour and in a word, since colour alone tells not everybody.
export const stateMark = (s) => h("span.state", { "data-state": tone(s) }, stateWord(s));

// age words the time since a moment: 8s, 5m, 3h, 2d.
export function age(since, now = Date.now()) {
  const s = Math.max(0, (now - Date.parse(since)) / 1000);
  if (!Number.isFinite(s)) return "";
  if (s < 90) return Math.round(s) + "s";
  if (s < 5400) return Math.round(s / 60) + "m";
  if (s < 172800) return Math.round(s / 3600) + "h";
  return Math.round(s / 86400) + "d";
}

export function clock(at) {
  const d = new Date(at);
  return Number.isNaN(d.getTime()) ? "" : d.toTimeString().slice(0, 8);
}

export const many = (n, one, more = one + "s") => `${n} ${n === 1 ? one : more}`;

// copyable is a command with a button that copies it.
export function copyable(text) {
  const b = h("button.copy", { type: "button", "aria-label": "Copy: " + text, onclick: async () => {
    try { await navigator.clipboard.writeText(text); b.textContent = "copied"; } catch { b.textContent = "select it"; }
    setTimeout(() => { b.textContent = "copy"; }, 1500);
  } }, "copy");
  return h("span.copyable", {}, text, " ", b);
}

// rows shows a long list by the rows that are in sight: only they are elements. open is called for the one that is chosen.
export function rows({ label, height = 30, row, open, empty = "nothing" }) {
  let items = [], at = -1, drawn = "";
  const id = "rows-" + (rows.count = (rows.count || 0) + 1);
  const fill = h("div.fill", { role: "presentation" });
  const box = h("div.rows", { role: "listbox", tabindex: 0, "aria-label": label, css: { "--row": height + "px" } }, fill);
  const none = h("p.none", { hidden: true }, empty);
  const draw = (force) => {
    const seen = box.clientHeight || 600;
    const from = Math.max(0, Math.floor(box.scrollTop / height) - 6), to = Math.min(items.length, Math.ceil((box.scrollTop + seen) / height) + 6);
    const now = from + " " + to + " " + at;
    if (!force && now === drawn) return;
    drawn = now;
    fill.style.height = items.length * height + "px";
    const out = [];
    for (let i = from; i < to; i++) {
      const el = row(items[i], i);
      el.classList.add("row");
      el.setAttribute("role", "option");
      el.id = id + "-" + i;
      el.setAttribute("aria-setsize", items.length);
      el.setAttribute("aria-posinset", i + 1);
      el.setAttribute("aria-selected", i === at ? "true" : "false");
      el.style.transform = `translateY(${i * height}px)`;
      el.addEventListener("click", () => { at = i; open && open(items[i]); });
      out.push(el);
    }
    show(fill, out);
    if (at >= 0 && at < items.length) box.setAttribute("aria-activedescendant", id + "-" + at);
    else box.removeAttribute("aria-activedescendant");
  };
  const go = (i) => {
    at = Math.max(0, Math.min(items.length - 1, i));
    const top = at * height;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
    draw();
  };
  box.addEventListener("scroll", () => draw(), { passive: true });
  box.addEventListener("keydown", (e) => {
    const page = Math.max(1, Math.floor(box.clientHeight / height) - 1);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey || !items.length) return;
    if (step !== undefined) go(step === Infinity ? items.length - 1 : step === -Infinity ? 0 : at + step);
    else if (e.key === "Enter" && at >= 0) open && open(items[at]);
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
  new ResizeObserver(() => draw(true)).observe(box);
  return {
    el: h("div.rowsbox", {}, box, none), box,
    set(list) {
      const first = box.hidden && list.length > 0 && document.activeElement === document.body; // keys go to the list as soon as there is one
      items = list; at = Math.min(at, items.length - 1); none.hidden = items.length > 0; box.hidden = items.length === 0;
      draw(true);
      if (first) box.focus({ preventScroll: true });
    },
  };
}
