// The cluster as a map of loops: each reads what should be from the rail above and writes what is to the rail below.
import { convergence, keep } from "./api.js";
import { age, h, many, ring, show, stateMark } from "./dom.js";
import { isStuck, onGaps, routeOf, share, short, state } from "./state.js";

// The order in which an nginx comes to life: from what somebody writes down to packets. Others follow by name.
const life = ["deployment", "statefulset", "daemonset", "job", "cronjob", "replicaset", "scheduler", "sim-pod", "node", "endpointslice", "proxy", "dns"];

// loopOf names the loop that an owner of gaps is, or the owner itself.
const loopOf = (owner, names) => {
  if (names.has(owner)) return owner;
  if (/^node agent/.test(owner)) return names.has("node") ? "node" : names.has("sim-pod") ? "sim-pod" : "node agents";
  return owner;
};

export function loops(main, { signal, params: [chosen] }) {
  const map = h("div.map", { role: "list", "aria-label": "Loops at work" }), rest = h("div.rest", { role: "list", "aria-label": "Loops at rest" });
  const side = h("section.side", { "aria-live": "polite" });
  const sum = h("p.sum");
  let all = [], counts = new Map(), trouble = "";
  show(main, h("h1", {}, "Loops that keep the cluster"), sum,
    h("div.lanes", {}, h("div.mapbox", {}, h("p.rail.spec", {}, h("b", {}, "spec"), " what should be, written down by people and by loops"), map,
      h("p.rail.status", {}, h("b", {}, "status"), " what is, written down by who saw it"), h("h2", {}, "Also there, and at rest"), rest), side));
  const draw = () => {
    const names = new Set(all.map((l) => l.metadata.name));
    const owned = new Map();
    for (const g of state.gaps) {
      const name = loopOf(g.owner, names);
      owned.has(name) ? owned.get(name).push(g) : owned.set(name, [g]);
    }
    const cells = all.map((l) => ({ name: l.metadata.name, loop: l, gaps: owned.get(l.metadata.name) || [] }));
    for (const [name, gaps] of owned) if (!names.has(name)) cells.push({ name, gaps });
    const rank = (c) => { const i = life.indexOf(c.name); return i < 0 ? life.length : i; };
    cells.sort((a, b) => rank(a) - rank(b) || !!b.loop - !!a.loop || a.name.localeCompare(b.name));
    const focused = document.activeElement?.dataset?.loop;
    const pick = cells.find((c) => c.name === chosen) || cells.find((c) => c.gaps.length) || cells[0];
    const ahead = pick ? new Set(after(pick)) : new Set(), back = pick ? new Set(before(pick)) : new Set();
    const drawn = cells.map((c) => ({ c, ...look(c), flow: c === pick ? "self" : ahead.has(c.name) ? "next" : back.has(c.name) ? "from" : null }));
    const front = (d) => life.includes(d.c.name) || d.stuck.length || d.recent;
    show(map, drawn.filter(front).map(cell));
    show(rest, drawn.filter((d) => !front(d)).map(quiet));
    if (focused) [...main.querySelectorAll("button[data-loop]")].find((b) => b.dataset.loop === focused)?.focus();
    const moving = drawn.filter((d) => d.busy).length;
    sum.textContent = trouble || (all.length ? `${many(all.length, "loop")}, ${moving} at work now, ${many(state.gaps.filter(isStuck).length, "gap")}` : "looking…");
    detail(pick);
    performance.mark("loops");
  };
  const choose = (name) => { chosen = name; history.replaceState(null, "", "#/loops/" + encodeURIComponent(name)); draw(); };
  // look holds a loop against what it was at the last look.
  const look = (c) => {
    const stuck = c.gaps.filter(isStuck), done = c.loop?.done ?? 0, was = counts.get(c.name);
    const moved = was !== undefined && done > was.done;
    counts.set(c.name, { done, at: moved ? Date.now() : was?.at ?? 0 });
    return { stuck, busy: moved || (c.loop?.running ?? 0) > 0, recent: Date.now() - counts.get(c.name).at < 15000 };
  };
  // Loops meet in the API alone: what one may write is what another keeps. Those that write everything say nothing of the flow.
  const flows = (a, b) => a.metadata.name !== b.metadata.name && b.keeps && b.keeps !== "*" && a.writes?.includes(b.keeps);
  const after = (c) => c.loop ? all.filter((l) => flows(c.loop, l)).map((l) => l.metadata.name) : [];
  const before = (c) => c.loop ? all.filter((l) => flows(l, c.loop)).map((l) => l.metadata.name) : [];
  const named = (names) => names.length > 0 && names.slice(0, 12).map((n, i) => [i ? ", " : "", h("a", { href: "#/loops/" + encodeURIComponent(n) }, n)]);
  const cell = ({ c, stuck, busy, flow }) => {
    const closed = stuck.length ? 1 - Math.max(0.15, Math.min(0.8, stuck.length / Math.max(c.loop?.keys ?? 0, stuck.length))) : 1;
    return h("div.cell", { role: "listitem", "data-busy": busy, "data-quiet": !stuck.length && !busy && !flow, "data-flow": flow },
      h("i.pipe", { "aria-hidden": "true" }),
      h("button", { type: "button", "data-loop": c.name, "aria-pressed": c.name === chosen, onclick: () => choose(c.name) },
        h("span.hub", {}, ring(closed, stuck.length ? stuck[0].state : c.loop?.failing ? "Waiting" : "good", 58), h("b", {}, stuck.length || "")),
        h("span.label", {}, c.name), h("small", {}, c.loop?.outside ? "outside" : c.loop ? (c.loop.depth ? `${c.loop.depth} due` : c.loop.rate) : "no loop of this server")),
      h("i.pipe.down", { "aria-hidden": "true" }));
  };
  const quiet = ({ c }) => h("div", { role: "listitem" }, h("button", { type: "button", "data-loop": c.name, "aria-pressed": c.name === chosen, onclick: () => choose(c.name) }, ring(1, c.loop?.failing ? "Waiting" : c.loop?.outside ? "" : "good", 16), " ", c.name));
  const detail = (c) => {
    if (!c) return show(side);
    const l = c.loop || {};
    const facts = [["keeps", l.keeps === "*" ? "every kind" : l.keeps], ["may write", l.writes?.join(", ").replace("*", "every kind")],
      ["wakes", named(after(c))], ["is woken by", named(before(c))], ["objects", l.keys], ["due", l.depth && `${l.depth}, the oldest for ${l.oldest}`], ["looks", l.done && `${l.done}, ${l.rate}`],
      ["99 of 100 take", l.done && l.p99], ["failed", l.failed || undefined], ["last error", l.lastError && h("span.error", {}, l.lastError.message)], ["runs in", l.leader]];
    show(side, h("h2", {}, c.name), h("p", {}, c.loop ? "Reads what should be, looks at what is, and acts on the difference; then looks again." : "Not a loop of this server: " + (c.name === "a person" ? "somebody has to act." : "it is known by what waits for it.")),
      h("dl.facts", {}, facts.filter(([, v]) => v).map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
      h("h3", {}, c.gaps.length ? many(c.gaps.length, "gap") + " of its own" : "No gap waits for it"),
      h("ul.plain", {}, c.gaps.slice(0, 40).map((g) => h("li", {}, ring(share(g), g.state, 18), " ", h("a", { href: routeOf(g.object) }, short(g.object)), " ", g.says, " ", stateMark(g.state), h("span.age", {}, " " + age(g.since))))),
      c.gaps.length > 40 && h("p.none", {}, `and ${c.gaps.length - 40} more: `, h("a", { href: "#/" }, "all gaps")));
  };
  onGaps(draw, signal);
  if (state.explains) {
    keep(convergence("loops"), { signal, first: 500, changed: (m) => { all = [...m.values()]; trouble = ""; draw(); }, failed: (err) => { if (err) { trouble = "The loops can't be read: " + err.message; draw(); } } });
  } else trouble = "This server does not tell of its loops: these are the owners of gaps, as far as objects tell.";
  draw();
}
