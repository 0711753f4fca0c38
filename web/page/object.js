// An object: why it is not what it should be, as a tree of causes; what followed from what; what belongs to it; events and logs.
import { every, get, keep, listPath, query, resourceOf } from "./api.js";
import { age, clock, copyable, h, many, ring, show, stateMark } from "./dom.js";
import { cascade } from "./cascade.js";
import { logs } from "./logs.js";
import { gapOf, onGaps, routeOf, share, short } from "./state.js";

export function object(main, { signal, params: [resource, nsWord, name] }) {
  const ns = nsWord === "-" ? "" : nsWord;
  const ref = { resource, namespace: ns, name };
  const top = h("div.top"), why = h("div"), flow = h("div.flow"), kids = h("div.kids"), said = h("div"), log = h("div");
  show(main, top, h("div.two", {}, h("section", {}, h("h2", {}, "Why"), why, h("h2", {}, "Belongs to it"), kids), h("section", {}, h("h2", {}, "What followed from what"), flow)),
    h("section", {}, h("h2", {}, "Events"), said), log);
  let obj = null, gone = false, gap, asked = false, trouble = "";

  const draw = () => {
    const title = (obj ? obj.kind.toLowerCase() : resource.split(".")[0]) + "/" + name;
    document.title = title + " · kloop";
    const part = obj ? reached(obj) : 1; // a gap is told from its third second on; until then the object itself tells
    const well = asked && !gone && !trouble && !gap && part >= 1;
    show(top, ring(gap ? share(gap) : well ? 1 : gone ? 0 : part, gap ? gap.state : well ? "good" : gone ? "" : "Progressing", 64, well ? "closed" : "not closed"),
      h("div", {}, h("h1", {}, title, ns && h("span.ns", {}, " in " + ns)),
        h("p.verdict", {}, gone ? "It is gone." : gap ? gap.verdict : well ? "It is what it should be." : asked && !trouble ? "It is on its way." : "looking…"),
        obj && specStatus(obj)));
    show(why, trouble && h("p.trouble", { role: "alert" }, trouble), gap ? causes(gap) : asked && !gone && !trouble ? h("p.none", {}, "Nothing stands in its way.") : null);
  };
  const ask = async () => {
    try { gap = await gapOf(resource, ns, name, signal); trouble = ""; } catch (err) {
      if (signal.aborted) return;
      trouble = err.message;
    }
    asked = true;
    draw();
  };
  let due = 0;
  const soon = () => { if (!due) due = setTimeout(() => { due = 0; ask(); belong(); }, 250); };
  const belong = async () => { try { if (obj && !gone) await family(kids, obj, resource, signal); } catch { /* it stays as it was */ } };

  (async () => {
    try {
      keep(await listPath(resource, ns), { params: { fieldSelector: "metadata.name=" + name }, signal, changed: (all, whole) => {
        const [now] = all.values();
        gone = whole && !now;
        if (now) obj = { kind: resource, ...now, ...(now.kind ? {} : { kind: obj?.kind || singular(resource) }) };
        draw();
        soon();
        if (resource === "pods" && obj && !log.children.length) logs(log, obj, signal);
      }, failed: (err) => { if (err) { trouble = err.message; draw(); } } });
    } catch (err) { trouble = err.message; draw(); }
  })();
  onGaps(soon, signal);
  every(5000, signal, () => ask());
  cascade(flow, ref, { signal });
  events(said, ref, signal);
  draw();
}

// reached is how much of what it should be a workload is, by its own words.
function reached(o) {
  const s = o.status || {}, want = o.spec?.replicas ?? s.desiredNumberScheduled;
  const have = Math.min(s.availableReplicas ?? s.numberAvailable ?? s.readyReplicas ?? 0, s.updatedReplicas ?? s.updatedNumberScheduled ?? Infinity);
  return want > 0 && o.spec?.template && !o.spec.paused ? Math.min(1, have / want) : 1;
}

const singulars = { endpointslices: "EndpointSlice", replicasets: "ReplicaSet", statefulsets: "StatefulSet", daemonsets: "DaemonSet", cronjobs: "CronJob", ingresses: "Ingress",
  persistentvolumeclaims: "PersistentVolumeClaim", persistentvolumes: "PersistentVolume" };
function singular(resource) {
  const p = resource.split(".")[0];
  return singulars[p] || p.replace(/s$/, "").replace(/^./, (c) => c.toUpperCase());
}

// specStatus holds what should be against what is.
function specStatus(o) {
  const want = o.spec?.replicas ?? (o.kind === "DaemonSet" ? o.status?.desiredNumberScheduled : undefined);
  const s = o.status || {};
  const pairs = want !== undefined ? [["spec", many(want, "replica")], ["status", `${s.availableReplicas ?? s.readyReplicas ?? s.numberAvailable ?? 0} available, ${s.updatedReplicas ?? s.updatedNumberScheduled ?? s.replicas ?? 0} up to date`]]
    : o.kind === "Pod" ? [["spec", (o.spec.containers || []).map((c) => c.name).join(", ") + (o.spec.nodeName ? " on " + o.spec.nodeName : ", no node yet")], ["status", s.phase + ((s.conditions || []).some((c) => c.type === "Ready" && c.status === "True") ? ", ready" : ", not ready")]]
      : s.phase ? [["status", s.phase]] : [];
  return h("dl.pair", {}, pairs.map(([k, v], i) => [i ? h("span.arrow", { "aria-hidden": "true" }, "→") : null, h("div", {}, h("dt", {}, k), h("dd", {}, v))]));
}

// causes is the tree below a gap, and whose move it is.
export function causes(g) {
  const lines = [{ depth: 0, object: g.object, says: g.says, state: g.chain?.length ? "" : g.state, owner: g.chain?.length ? "" : g.owner }, ...(g.chain || [])];
  const next = g.next ? [g.next.who, g.next.what].filter(Boolean).join(" ") + (g.next.at ? ", at " + clock(g.next.at) : "") : "";
  const on = g.waits && (g.waits.on ? h("a", { href: routeOf(g.waits.on) }, short(g.waits.on)) : (g.waits.type || "").toLowerCase() + " " + (g.waits.name || ""));
  const facts = [
    ["differs", g.want && h("span", {}, h("code", {}, g.want), g.have && [" → ", h("code", {}, g.have)], ", for " + age(g.since))],
    ["state", h("span", {}, stateMark(g.state), " ", g.cause)], ["whose move", g.owner], ["waits for", on && h("span", {}, on, g.waits.field && [", field ", h("code", {}, g.waits.field)])], ["next", next],
    ["error", g.error && h("span.error", {}, g.error.message, g.error.count > 1 && h("i", {}, ` (${g.error.count} times)`))],
    ["you can", g.advice?.length && h("ul", {}, g.advice.map((a) => h("li", {}, advice(a, g.commands))))], ["by hand", g.noCommand],
  ];
  return h("div.causes", {}, h("ol.tree", {}, lines.map((l) => h("li", { css: { "--depth": l.depth } },
    h("a", { href: routeOf({ resource: l.object.resource || l.object.kind.toLowerCase() + "s", ...l.object }) }, short(l.object)), " ", l.says, l.others ? ` (and ${l.others} more like it)` : "", l.state && [" ", stateMark(l.state)], l.owner && h("span.owner", {}, " " + l.owner)))),
  h("dl.facts", {}, facts.filter(([, v]) => v).map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])));
}

// advice shows the command in a piece of advice so that it can be copied.
function advice(text, commands) {
  const command = (commands || []).find((c) => text.endsWith(c));
  return command ? [text.slice(0, -command.length), copyable(command)] : text;
}

// family shows what owns the object and what belongs to it: a ring each, closed where it is ready.
async function family(el, o, resource, signal) {
  const ns = o.metadata.namespace || "";
  const sel = o.spec?.selector?.matchLabels || (resource === "services" || resource === "replicationcontrollers" ? o.spec?.selector : null);
  const owner = (o.metadata.ownerReferences || []).find((r) => r.controller);
  const found = [];
  const labels = sel && Object.entries(sel).map(([k, v]) => k + "=" + v).join(",");
  const list = async (gr, params) => (await get(query(await listPath(gr, ns), { limit: 300, ...params }), { signal })).items.map((i) => ({ ...i, gr }));
  if (labels && resource === "deployments.apps") found.push(...(await list("replicasets.apps", { labelSelector: labels })).filter((r) => r.metadata.ownerReferences?.some((w) => w.uid === o.metadata.uid)));
  if (labels) found.push(...await list("pods", { labelSelector: labels }));
  if (resource === "cronjobs.batch") found.push(...(await list("jobs.batch", {})).filter((r) => r.metadata.ownerReferences?.some((w) => w.uid === o.metadata.uid)));
  if (resource === "nodes") found.push(...(await get(query("/api/v1/pods", { limit: 300, fieldSelector: "spec.nodeName=" + o.metadata.name }), { signal })).items.map((i) => ({ ...i, gr: "pods" })));
  if (signal.aborted) return;
  const up = owner ? await resourceOf(owner.apiVersion, owner.kind) : "";
  found.sort((a, b) => a.gr.localeCompare(b.gr) * -1 || a.metadata.name.localeCompare(b.metadata.name));
  show(el, owner && h("p", {}, "owned by ", up ? h("a", { href: routeOf({ resource: up, namespace: ns, name: owner.name }) }, owner.kind.toLowerCase() + "/" + owner.name) : owner.kind + "/" + owner.name),
    found.length ? h("ul.family", {}, found.slice(0, 300).map((i) => h("li", {}, h("a", { href: routeOf({ resource: i.gr, namespace: i.metadata.namespace, name: i.metadata.name }) }, health(i), h("span", {}, i.metadata.name), h("small", {}, brief(i))))))
      : !owner && h("p.none", {}, "Nothing that this page knows of."));
}

function health(i) {
  if (i.gr !== "pods") {
    const want = i.spec?.replicas ?? i.spec?.completions ?? 1, have = i.status?.readyReplicas ?? i.status?.succeeded ?? 0;
    return ring(want ? have / want : 1, want && have < want ? "Waiting" : "good", 18);
  }
  const ready = (i.status.conditions || []).some((c) => c.type === "Ready" && c.status === "True");
  const stages = ["PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady"];
  const done = stages.filter((t) => (i.status.conditions || []).some((c) => c.type === t && c.status === "True")).length;
  return ring(ready || i.status.phase === "Succeeded" ? 1 : done / 5, ready || i.status.phase === "Succeeded" ? "good" : i.status.phase === "Failed" ? "Failed" : "Waiting", 18);
}

function brief(i) {
  if (i.metadata.deletionTimestamp) return "going";
  if (i.gr !== "pods") return i.spec?.replicas !== undefined ? `${i.status?.readyReplicas ?? 0} of ${i.spec.replicas} ready` : "";
  const w = (i.status.containerStatuses || []).map((c) => c.state?.waiting?.reason).find(Boolean);
  return (w || i.status.phase || "") + (i.spec.nodeName ? " on " + i.spec.nodeName : "");
}

// events shows what was said of the object, the newest first.
function events(el, ref, signal) {
  let last = "";
  every(5000, signal, async () => {
    try {
      const path = ref.namespace ? await listPath("events", ref.namespace) : "/api/v1/events";
      const list = (await get(query(path, { fieldSelector: "involvedObject.name=" + ref.name, limit: 200 }), { signal })).items || [];
      const kind = singular(ref.resource).toLowerCase();
      const own = list.filter((e) => (e.involvedObject.kind || "").toLowerCase() === kind);
      const at = (e) => e.series?.lastObservedTime || e.lastTimestamp || e.eventTime || e.metadata.creationTimestamp;
      own.sort((a, b) => Date.parse(at(b)) - Date.parse(at(a)));
      const now = JSON.stringify(own.map((e) => [e.metadata.uid, e.count, at(e)]));
      if (now === last) return;
      last = now;
      show(el, own.length ? h("table", {}, h("thead", {}, h("tr", {}, ["when", "what", "by", "said", "times"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, own.slice(0, 100).map((e) => h("tr", { "data-type": e.type }, h("td", {}, age(at(e)) + " ago"), h("td", {}, e.reason), h("td", {}, e.reportingComponent || e.source?.component || ""), h("td", {}, e.message), h("td", {}, e.series?.count || e.count || 1)))))
        : h("p.none", {}, "Nothing was said of it."));
    } catch (err) { if (!signal.aborted) show(el, h("p.none", {}, err.message)); }
  });
}
