// Nodes and pods by fit: what pods ask for, against what a node has to give.
import { keep } from "./api.js";
import { h, many, ring, rows, show } from "./dom.js";
import { routeOf, state } from "./state.js";

const units = { "": 1, m: 1e-3, u: 1e-6, n: 1e-9, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };

// amount is a quantity as a number: 250m is 0.25, 1Gi is 2^30, 1e3 is 1000.
export function amount(q) {
  const m = /^([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(String(q ?? "0"));
  return m && m[2] in units ? Number(m[1]) * units[m[2]] : 0;
}

// asks is what a pod asks for, as the scheduler counts it: the sum of its containers, or of the start if that takes more.
export function asks(pod, what) {
  const of = (c) => amount(c.resources?.requests?.[what]);
  let sum = 0, start = 0, side = 0;
  for (const c of pod.spec.containers || []) sum += of(c);
  for (const c of pod.spec.initContainers || []) {
    if (c.restartPolicy === "Always") { side += of(c); start = Math.max(start, side); } else start = Math.max(start, side + of(c));
  }
  const all = Math.max(sum + side, start), whole = pod.spec.resources?.requests?.[what];
  return (whole === undefined ? all : amount(whole)) + amount(pod.spec.overhead?.[what]);
}

const slim = (p) => ({ metadata: { uid: p.metadata.uid, name: p.metadata.name, namespace: p.metadata.namespace }, node: p.spec.nodeName || "", cpu: asks(p, "cpu"), memory: asks(p, "memory"),
  over: p.status.phase === "Succeeded" || p.status.phase === "Failed", going: !!p.metadata.deletionTimestamp, ready: (p.status.conditions || []).some((c) => c.type === "Ready" && c.status === "True"),
  why: (p.status.conditions || []).find((c) => c.type === "PodScheduled" && c.status === "False")?.message || "" });

const cpus = (n) => n < 1 ? Math.round(n * 1000) + "m" : Number(n.toFixed(1)) + "";
const bytes = (n) => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(1) + "Gi" : Math.round(n / 2 ** 20) + "Mi";

export function nodes(main, { signal, go }) {
  const sum = h("p.sum", { role: "status" }), waits = h("section");
  const order = h("select", { "aria-label": "Order" }, ["fullest by cpu", "fullest by memory", "emptiest", "name"].map((o) => h("option", {}, o)));
  let all = [], pods = new Map(), whole = false, trouble = "";
  const list = rows({ label: "Nodes, by fit", height: 64, empty: "There is no node.", open: (n) => go(routeOf({ resource: "nodes", name: n.metadata.name })), row: (n) => {
    const used = n.used;
    return h("div.node", {}, h("span.name", {}, ring(n.ready ? 1 : 0.5, n.ready ? n.cordoned ? "" : "good" : "Missing", 22), h("b", {}, n.metadata.name), h("small", {}, (n.cordoned ? "cordoned, " : "") + (n.ready ? "" : "not ready, ") + many(used.list.length, "pod") + " of " + n.room)),
      bar("cpu", used.list, used.cpu, n.cpu, cpus), bar("memory", used.list, used.memory, n.memory, bytes));
  } });
  show(main, h("div.bar", {}, h("h1", {}, "Nodes and what fits"), order, sum), waits, list.el);
  const draw = () => {
    const by = new Map(all.map((n) => [n.metadata.name, { list: [], cpu: 0, memory: 0 }]));
    const lost = [];
    for (const p of pods.values()) {
      if (p.over || state.ns && p.metadata.namespace !== state.ns && !p.node) continue;
      const on = by.get(p.node);
      if (on) { on.list.push(p); on.cpu += p.cpu; on.memory += p.memory; } else if (!p.node) lost.push(p);
    }
    for (const n of all) n.used = by.get(n.metadata.name);
    const full = (n, w) => n.used[w] / (n[w] || 1);
    const sorts = { "fullest by cpu": (a, b) => full(b, "cpu") - full(a, "cpu"), "fullest by memory": (a, b) => full(b, "memory") - full(a, "memory"), emptiest: (a, b) => full(a, "cpu") - full(b, "cpu"), name: () => 0 };
    list.set([...all].sort((a, b) => (sorts[order.value](a, b)) || a.metadata.name.localeCompare(b.metadata.name, undefined, { numeric: true })));
    sum.textContent = trouble || `${many(all.length, "node")}, ${many(pods.size, "pod")}${whole ? "" : " so far"}`;
    const alike = new Map(); // pods that ask for the same and are refused for the same
    for (const p of lost) {
      const key = [p.cpu, p.memory, p.why].join(" ");
      alike.has(key) ? alike.get(key).push(p) : alike.set(key, [p]);
    }
    show(waits, lost.length > 0 && [h("h2", {}, many(lost.length, "pod") + " without a node"), h("ul.plain.lost", {}, [...alike.values()].sort((a, b) => b.length - a.length).slice(0, 50).map(([p, ...more]) => h("li", {},
      h("a", { href: routeOf({ resource: "pods", ...p.metadata }) }, p.metadata.name), more.length ? ` and ${more.length} alike ask` : " asks", ` ${cpus(p.cpu)} cpu, ${bytes(p.memory)} memory: `, h("span.says", {}, p.why || "not looked at yet"))))]);
    if (all.length) performance.mark("nodes");
  };
  order.addEventListener("change", draw);
  const failed = (err) => { if (err) { trouble = "Not all can be read: " + err.message; draw(); } };
  keep("/api/v1/nodes", { signal, failed, slim: (n) => ({ metadata: { uid: n.metadata.uid, name: n.metadata.name }, cpu: amount(n.status.allocatable?.cpu), memory: amount(n.status.allocatable?.memory), room: amount(n.status.allocatable?.pods),
    cordoned: !!n.spec.unschedulable, ready: (n.status.conditions || []).some((c) => c.type === "Ready" && c.status === "True") }), changed: (m) => { all = [...m.values()]; draw(); } });
  keep("/api/v1/pods", { signal, failed, slim, changed: (m, w) => { pods = m; whole = w; trouble = ""; draw(); } });
  draw();
}

// bar is a node's whole, with what each pod asks of it as a piece, the largest first.
function bar(what, list, used, whole, words) {
  const pieces = list.filter((p) => p[what] > 0).sort((a, b) => b[what] - a[what]);
  const text = `${what}: ${words(used)} of ${words(whole)} asked for`;
  return h("span.fit", {}, h("small", {}, text), h("span.whole", { "data-over": used > whole, "aria-hidden": "true" }, pieces.slice(0, 60).map((p) =>
    h("i", { title: `${p.metadata.name}: ${words(p[what])}`, "data-ready": p.ready, "data-going": p.going, css: { width: `${100 * p[what] / Math.max(whole, used)}%` } })),
  pieces.length > 60 && h("i", { css: { width: `${100 * pieces.slice(60).reduce((s, p) => s + p[what], 0) / Math.max(whole, used)}%` } })));
}
