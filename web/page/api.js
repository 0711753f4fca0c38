// The Kubernetes API as this page reads it: lists in pages, then watches. Nothing is written.

let token = ""; // of who signed in on the server's own page; in memory alone
export const signIn = (t) => { token = t.trim(); };
export const signedIn = () => token !== "";

export class Refused extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

export async function ask(path, { accept = "application/json", signal, method = "GET", body } = {}) {
  const headers = { Accept: accept };
  if (token) headers.Authorization = "Bearer " + token;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const res = await fetch(path, { method, headers, signal, body, cache: "no-store", credentials: "same-origin", redirect: "error" });
  if (!res.ok) {
    const text = (await res.text()).slice(0, 4000);
    let why = text;
    try { why = JSON.parse(text).message || text; } catch { /* no JSON: the words as they are */ }
    throw new Refused(res.status, why || res.statusText);
  }
  return res;
}

export const get = async (path, o) => (await ask(path, o)).json();

// A browser has six connections to a host, and streams hold them. So only a page in sight has streams: a hidden one lets go of
// them, and lists and watches anew when it is seen again.
let asleep = new AbortController();
let seen = Promise.resolve(), wake = () => {};
const sleep = () => { seen = new Promise((ok) => { wake = ok; }); asleep.abort(); };
const rise = () => { if (asleep.signal.aborted) { asleep = new AbortController(); wake(); } };
addEventListener("visibilitychange", () => document.hidden ? sleep() : rise());
addEventListener("pagehide", sleep);
addEventListener("pageshow", rise);

// awake waits until the page is in sight.
export const awake = () => seen;

// stream asks for something that does not end by itself.
export const stream = async (path, o) => { await seen; return ask(path, { ...o, signal: AbortSignal.any([o.signal, asleep.signal]) }); };

// lines reads a stream of JSON documents, one a line.
export async function lines(res, each) {
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    if (rest.length > 32e6) throw new Error("a line of the stream is too long");
    for (const p of parts) if (p) each(JSON.parse(p));
  }
}

export const query = (path, params) => {
  const q = new URLSearchParams(Object.entries(params || {}).filter(([, v]) => v !== undefined && v !== ""));
  return String(q) ? path + "?" + q : path;
};

const nap = (ms, signal) => new Promise((ok) => {
  const t = setTimeout(ok, ms);
  signal.addEventListener("abort", () => { clearTimeout(t); ok(); }, { once: true });
});

const keyOf = (o) => o.metadata.uid || (o.metadata.namespace || "") + "/" + o.metadata.name;

// pages reads a list page by page; each is called with every page. It returns the revision of the list.
export async function pages(path, params, each, o = {}, first = 100) {
  let next = "", revision = "", limit = first;
  do {
    const page = await get(query(path, { ...params, limit, continue: next }), o);
    revision = page.metadata?.resourceVersion || revision;
    next = page.metadata?.continue || "";
    each(page, next === "");
    limit = 500;
  } while (next);
  return revision;
}

// keep lists and watches until signal: changed is called, at most once a frame, with all objects by their identity.
export function keep(path, { params = {}, slim = (o) => o, changed, failed = () => {}, signal, first = 100, watch = true }) {
  const all = new Map();
  let due = false, whole = false;
  const soon = () => {
    if (due || signal.aborted) return;
    due = true;
    const run = () => { due = false; if (!signal.aborted) changed(all, whole); };
    document.hidden ? setTimeout(run, 200) : requestAnimationFrame(run);
  };
  (async () => {
    for (let pause = 500; !signal.aborted;) {
      try {
        const seen = new Set();
        let rev = await pages(path, params, (page) => {
          for (const o of page.items || []) { seen.add(keyOf(o)); all.set(keyOf(o), slim(o)); }
          soon();
        }, { signal }, first);
        for (const k of all.keys()) if (!seen.has(k)) all.delete(k);
        whole = true;
        failed(null);
        soon();
        if (!watch) return;
        while (!signal.aborted) {
          const res = await stream(query(path, { ...params, watch: 1, allowWatchBookmarks: "true", resourceVersion: rev }), { signal });
          pause = 500;
          await lines(res, (e) => {
            if (e.type === "ERROR") throw new Refused(e.object?.code || 500, e.object?.message || "the watch ended");
            rev = e.object.metadata.resourceVersion || rev;
            if (e.type === "BOOKMARK") return;
            if (e.type === "DELETED") all.delete(keyOf(e.object)); else all.set(keyOf(e.object), slim(e.object));
            soon();
          });
        }
      } catch (err) {
        if (signal.aborted) return;
        if (err.name === "AbortError") { await awake(); continue; }
        if (err.code !== 410) failed(err);
        if ([401, 403, 404, 405].includes(err.code)) pause = Math.max(pause, 10000);
        await nap(pause, signal);
        pause = Math.min(pause * 2, 15000);
      }
    }
  })();
  return all;
}

// every calls do at once and then with pauses, until signal.
export function every(ms, signal, work) {
  (async () => {
    while (!signal.aborted) {
      try { await work(); } catch (err) { if (!signal.aborted) console.warn(String(err)); }
      await nap(ms, signal);
    }
  })();
}

// Paths. kinds knows where the objects of a resource ("deployments.apps") are.
let known; // by resource
export async function kinds() {
  if (known) return known;
  const found = new Map();
  const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
  const [core, groups] = await Promise.all([get("/api", { accept }), get("/apis", { accept })]);
  for (const g of [...(core.items || []), ...(groups.items || [])]) {
    const group = g.metadata?.name || "";
    for (const v of g.versions || []) for (const r of v.resources || []) {
      const gr = group ? r.resource + "." + group : r.resource;
      if (found.has(gr) || !r.verbs?.includes("list")) continue;
      found.set(gr, { gr, group, version: v.version, plural: r.resource, singular: r.singularResource || r.responseKind?.kind?.toLowerCase() || r.resource,
        kind: r.responseKind?.kind || r.resource, short: r.shortNames || [], namespaced: r.scope === "Namespaced" });
    }
  }
  if (!found.size) throw new Error("the server did not tell its kinds");
  return (known = found);
}

const builtIn = { pods: "", services: "", nodes: "", namespaces: "", events: "", persistentvolumeclaims: "", persistentvolumes: "", configmaps: "", "deployments.apps": "apps/v1",
  "replicasets.apps": "apps/v1", "statefulsets.apps": "apps/v1", "daemonsets.apps": "apps/v1", "jobs.batch": "batch/v1", "cronjobs.batch": "batch/v1" };

// listPath is the path of a resource's list; ns "" is all namespaces.
export async function listPath(gr, ns) {
  const within = ns ? `/namespaces/${encodeURIComponent(ns)}` : "";
  const plural = gr.split(".")[0];
  if (gr in builtIn) return (builtIn[gr] ? "/apis/" + builtIn[gr] : "/api/v1") + within + "/" + plural;
  const k = (await kinds()).get(gr);
  if (!k) throw new Refused(404, "the server has no " + gr);
  return (k.group ? `/apis/${k.group}/${k.version}` : "/api/" + k.version) + (k.namespaced ? within : "") + "/" + k.plural;
}

export const convergence = (resource, ns, name) =>
  "/apis/convergence.kloop.dev/v1alpha1" + (ns ? `/namespaces/${encodeURIComponent(ns)}` : "") + "/" + resource + (name ? "/" + encodeURIComponent(name) : "");

// resourceOf guesses the resource of a kind that an owner reference names.
export async function resourceOf(apiVersion, kind) {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  for (const k of (await kinds()).values()) if (k.kind === kind && k.group === group) return k.gr;
  return "";
}
