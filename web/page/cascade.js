// The cascade of an object over time: who changed what, because of what, from the server's trail, live.
import { awake, lines, query, stream } from "./api.js";
import { clock, h, many, show } from "./dom.js";
import { routeOf } from "./state.js";

const most = 4000; // writes that are kept
const sameObject = (a, b) => a.resource === b.resource && (a.namespace || "") === (b.namespace || "") && a.name === b.name;
const idOf = (r) => [r.resource, r.namespace || "", r.name].join(" ");

// by is who made a write, in a word: a loop, or somebody by the name that they give themselves.
export function by(w) {
  if (w.cause) return w.cause.loop;
  const agent = (w.agent || "").split("/")[0];
  return (w.manager && w.manager !== "kloop" ? w.manager : agent) || w.user || "somebody";
}

// grow links writes to what they follow from, and returns the tree below the newest thing that somebody from outside did to the object.
export function grow(writes, object) {
  const list = [...writes].sort((a, b) => a.rev - b.rev);
  const at = new Map(), newest = new Map(), below = new Map();
  for (const w of list) {
    let parent = null;
    if (w.cause) {
      const woke = (w.cause.woken || []).filter((r) => r.rev && r.rev < w.rev).sort((a, b) => b.rev - a.rev)[0];
      parent = (woke && at.get(woke.rev)) || newest.get(idOf(w.cause.key)) || null;
    }
    at.set(w.rev, w);
    if (parent) below.has(parent) ? below.get(parent).push(w) : below.set(parent, [w]);
    newest.set(idOf(w), w);
  }
  const own = list.filter((w) => sameObject(w, object));
  const start = own.findLast((w) => !w.cause && w.what !== "status") || own[0];
  if (!start) return null;
  const step = (w) => ({ w, count: 1, last: w.at, kids: [] });
  const gather = (from, depth) => {
    const steps = new Map();
    if (depth > 24) return [];
    for (const w of from) {
      const kids = below.get(w) || [];
      if (w.what === "status" && !kids.length) continue;
      const key = [w.resource, w.verb, (w.what || "").startsWith("bound to ") ? "bound" : w.what, by(w)].join("|");
      const s = steps.get(key);
      if (s) { s.count++; s.last = w.at; s.from.push(...kids); } else steps.set(key, { ...step(w), from: [...kids] });
    }
    return [...steps.values()].map((s) => ({ ...s, kids: gather(s.from, depth + 1) }));
  };
  return { ...step(start), kids: gather(below.get(start) || [], 0) };
}

const did = { create: "made", change: "changed", mark: "asked to delete", delete: "deleted" };
const took = (ms) => ms < 1000 ? Math.round(ms) + " ms" : ms < 60000 ? (ms / 1000).toFixed(1) + " s" : Math.round(ms / 60000) + " min";

// cascade shows it in el, and follows it. It says so where the server keeps no trail, or does not show it to the caller.
export function cascade(el, object, { signal, news = () => {} }) {
  const writes = new Map();
  let due = false;
  const draw = () => {
    due = false;
    if (signal.aborted) return;
    const tree = grow(writes.values(), object);
    if (!tree) return show(el, h("p.none", {}, "No change of it is known: it has not changed within a day."));
    const flat = [];
    const walk = (s, depth) => { flat.push({ s, depth }); for (const k of s.kids) if (flat.length < 400) walk(k, depth + 1); };
    walk(tree, 0);
    const from = Math.min(...flat.map((f) => Date.parse(f.s.w.at))), end = Math.max(...flat.map((f) => Date.parse(f.s.last)), from + 1);
    // What loops do takes milliseconds and what containers do takes seconds: a scale by the square root shows both.
    const x = (at) => 100 * Math.sqrt(Math.max(0, Date.parse(at) - from) / (end - from));
    show(el, h("p.sum", {}, `At ${clock(tree.w.at)} ${by(tree.w)} ${did[tree.w.verb] || "changed"} it${tree.w.what ? ": " + tree.w.what : ""}. What followed took ${took(end - from)}.`),
      h("ol.steps", {}, flat.map(({ s, depth }) => {
        const left = x(s.w.at), width = Math.max(0, x(s.last) - left);
        const hidden = !s.w.name && "something that you may not see"; // of an object that the reader may not get
        const name = hidden || s.w.resource.split(".")[0].replace(/s$/, "") + "/" + s.w.name;
        const kind = s.w.what && /ready|Running|running/.test(s.w.what) ? "good" : s.w.verb;
        return h("li", { css: { "--depth": depth } },
          h("span.when", {}, "+" + took(Date.parse(s.w.at) - from)),
          h("span.who", {}, by(s.w)),
          h("span.did", {}, did[s.w.verb] || "changed", " ", hidden || (s.count > 1 ? h("b", {}, many(s.count, name.split("/")[0])) : h("a", { href: routeOf(s.w) }, name)), s.w.what && s.w.what !== "status" ? ": " + s.w.what : ""),
          h("span.track", { "aria-hidden": "true" }, h("i", { "data-verb": kind, css: { left: `min(${left}%, calc(100% - 8px))`, width: `max(8px, ${width}%)` } })));
      })));
  };
  const add = (w) => {
    if (writes.size >= most) writes.delete(writes.keys().next().value);
    writes.set(w.rev, w);
    news(w);
    if (!due) { due = true; setTimeout(draw, 60); }
  };
  (async () => {
    for (let pause = 1000; !signal.aborted; pause = Math.min(pause * 2, 15000)) {
      try {
        await lines(await stream(query("/convergence/trail", { resource: object.resource, namespace: object.namespace, name: object.name, follow: "true", since: "24h" }), { signal, accept: "application/jsonl" }), add);
        pause = 1000;
      } catch (err) {
        if (signal.aborted) return;
        if (err.name === "AbortError") { await awake(); continue; }
        if (err.code === 403) return show(el, h("p.none", {}, "What was written of it is for who may get it: " + err.message));
        if (err.code === 404) return show(el, h("p.none", {}, "This server keeps no trail of who changed what: it is no kloop, or was told not to."));
      }
      await new Promise((ok) => setTimeout(ok, pause));
    }
  })();
  setTimeout(() => { if (!writes.size && !signal.aborted && !el.children.length) draw(); }, 1500);
}
