// A plan's film: available pods of each workload over virtual time, and what happens at each moment.
import { h, many, ring, show } from "./dom.js";

// seconds reads a duration as Go writes it: 1h2m3.5s.
export function seconds(text) {
  let sum = 0;
  for (const [, n, u] of String(text ?? "").matchAll(/([0-9.]+)(h|ms|m|s)/g)) sum += Number(n) * { h: 3600, m: 60, s: 1, ms: 0.001 }[u];
  return sum;
}

const said = { bound: "bound to", leaving: "leaves", gone: "is gone from", ended: "ended on", ready: "is ready", unready: "not ready on" };
const nameOf = (o) => o.kind.toLowerCase() + "/" + o.name;
const words = (s) => s < 60 ? s.toFixed(1) + "s" : Math.floor(s / 60) + "m" + Math.round(s % 60) + "s";

export function film(r, signal) {
  const number = (n) => Number.isFinite(n) ? n : 0;
  const loads = (r.workloads || []).slice(0, 40).map((w) => ({ ...w, kind: String(w.kind), before: number(w.before), wanted: number(w.wanted), least: number(w.least), after: number(w.after) }));
  const steps = (r.steps || []).map((s) => ({ ...s, kind: String(s.kind), t: seconds(s.after) })).sort((a, b) => a.t - b.t);
  if (!loads.length) return null;
  const end = Math.max(seconds(r.lasts), steps.at(-1)?.t || 0, 1);
  // A place in the film is half time, by its root since most happens at the start, and half steps: those of one moment come one by one.
  const placeOf = (t) => 1000 * Math.sqrt(Math.min(1, t / end));
  steps.forEach((s, i) => { s.x = placeOf(s.t) / 2 + 500 * (i + 1) / steps.length; });
  // A report without steps (of an older kloop) tells the least, and when: a line through the three points that are known.
  const line = (w) => {
    const own = steps.filter((s) => s.owner === nameOf(w) && (s.namespace || "") === (w.namespace || "") && s.available !== undefined);
    return [[0, w.before], ...(own.length ? own.map((s) => [s.x, s.available]) : [[placeOf(seconds(w.at)), w.least], [1000, w.after]])];
  };
  const lines = loads.map((w) => ({ w, points: line(w) }));
  const at = h("input", { type: "range", min: 0, max: 1000, step: "any", value: 0, "aria-label": "Virtual time" });
  const clock = h("output.clock");
  const play = h("button", { type: "button", "aria-pressed": "false" }, "Play");
  const charts = h("div.charts"), ticker = h("ol.ticker", { "aria-label": "What happens" });
  const drawn = lines.map(({ w, points }) => {
    const top = Math.max(1, w.before, w.wanted, ...points.map((p) => p[1]));
    const x = (at) => 1 + at * 0.998, y = (n) => 58 - 54 * n / top;
    let d = `M${x(0)} ${y(points[0][1])}`;
    for (const [t, n] of points.slice(1)) d += `H${x(t).toFixed(1)}V${y(n).toFixed(1)}`;
    d += "H999";
    const now = h("line.now", { x1: 0, x2: 0, y1: 0, y2: 60 });
    const mark = h("span.mark"), num = h("b");
    charts.append(h("figure", {}, h("figcaption", {}, mark, h("span", {}, nameOf(w)), w.namespace && h("span.ns", {}, w.namespace), num,
      h("small", {}, w.least < w.before ? `least ${w.least}, short for ${w.short}` + (seconds(w.none) ? `, none for ${w.none}` : "") : "never short")),
    h("svg.chart", { viewBox: "0 0 1000 60", preserveAspectRatio: "none", role: "img", "aria-label": `Available pods of ${nameOf(w)}: ${w.before} before, least ${w.least}, ${w.after} at the end` },
      h("line.want", { x1: 0, x2: 1000, y1: y(w.wanted), y2: y(w.wanted) }), h("path.have", { d, fill: "none" }), now)));
    return { w, points, now, num, mark };
  });
  const draw = () => {
    const v = Number(at.value), past = steps.filter((s) => s.x <= v + 1e-6);
    const t = !steps.length ? end * (v / 1000) ** 2 : v >= 1000 ? end : past.at(-1)?.t ?? 0;
    clock.textContent = "+" + words(t);
    for (const { w, points, now, num, mark } of drawn) {
      const n = points.findLast((p) => p[0] <= v + 1e-6)?.[1] ?? w.before;
      now.setAttribute("x1", at.value);
      now.setAttribute("x2", at.value);
      num.textContent = `${n} of ${w.wanted}`;
      show(mark, ring(w.wanted ? n / w.wanted : 1, n >= w.wanted ? "good" : n ? "Waiting" : "Failed", 22));
    }
    show(ticker, past.slice(-9).reverse().map((s) => h("li", {}, h("span.when", {}, "+" + words(s.t)), " ", h("b", {}, s.kind.toLowerCase() + "/" + s.name), " ", (said[s.what] || s.what) + (s.node && s.what !== "ready" ? " " + s.node : ""))));
    at.setAttribute("aria-valuetext", `${words(t)} after the change, ${many(past.length, "step")} so far`);
  };
  let last = 0;
  const tick = (now) => {
    if (signal.aborted || play.getAttribute("aria-pressed") !== "true") return;
    at.value = Math.min(1000, Number(at.value) + (last ? (now - last) / 12 : 0)); // twelve seconds for all of it
    last = now;
    draw();
    if (Number(at.value) >= 1000) return stop();
    requestAnimationFrame(tick);
  };
  const stop = () => { play.setAttribute("aria-pressed", "false"); play.textContent = "Play"; last = 0; };
  play.addEventListener("click", () => {
    if (play.getAttribute("aria-pressed") === "true") return stop();
    if (Number(at.value) >= 1000) at.value = 0;
    play.setAttribute("aria-pressed", "true");
    play.textContent = "Pause";
    requestAnimationFrame(tick);
  });
  at.addEventListener("input", () => { stop(); draw(); });
  at.addEventListener("keydown", (e) => { // from step to step
    const v = Number(at.value);
    const to = e.key === "n" ? steps.find((s) => s.x > v + 1e-6) : e.key === "b" ? steps.findLast((s) => s.x < v - 1) : null;
    if (!to) return;
    e.preventDefault();
    e.stopPropagation();
    stop();
    at.value = to.x;
    draw();
  });
  draw();
  return h("section.film", {}, h("h2", {}, "Available pods, over virtual time"), h("p.bar", {}, play, at, clock), h("div.two", {}, charts, ticker));
}
