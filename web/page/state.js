// What all views share: where the page looks, and the gaps of it, live.
import { ask, convergence, every, get, keep, Refused } from "./api.js";

export const state = {
  local: false,    // by kloop ui, with its own answers
  explains: true,  // the server has the convergence API
  ns: "",          // looked at; "" is all
  gaps: [],        // sorted, the worst first
  ready: false,
  unseen: [],
  trouble: null,   // why gaps can't be read
  about: null,     // a promise of what kloop ui knows of itself
};

const listeners = new Set();
export function onGaps(f, signal) {
  listeners.add(f);
  signal.addEventListener("abort", () => listeners.delete(f), { once: true });
  if (state.ready || state.trouble) f();
}
const tell = () => { for (const f of listeners) f(); };

const order = ["Failed", "Missing", "Blocked", "BackingOff", "Waiting", "Running", "Queued", "Progressing", "Latent", "Resting"];
const rank = (s) => { const i = order.indexOf(s); return i < 0 ? order.length : i; };

// worst puts gaps in the order in which kloop gaps does.
export const worst = (a, b) => rank(a.state) - rank(b.state) || Date.parse(a.since) - Date.parse(b.since) ||
  (a.object.namespace || "").localeCompare(b.object.namespace || "") || a.object.name.localeCompare(b.object.name);

export const isStuck = (g) => g.state !== "Latent" && g.state !== "Resting";
export const short = (o) => o.kind.toLowerCase() + "/" + o.name;
export const routeOf = (o) => `#/o/${encodeURIComponent(o.resource)}/${encodeURIComponent(o.namespace || "-")}/${encodeURIComponent(o.name)}`;

// share is how much of a gap is closed already, where both sides are numbers.
export function share(g) {
  const n = (s) => { const m = /=(\d+)$/.exec(s || ""); return m ? Number(m[1]) : NaN; };
  const want = n(g.want), have = n(g.have);
  return want > 0 && have >= 0 ? Math.min(1, have / want) : 0;
}

// root is what holds a gap up, for the board's groups: the object that is waited for, and why.
export function root(g) {
  const on = g.waits?.on;
  if (!on || on.name === g.object.name && on.kind === g.object.kind) return "";
  return [g.cause, on.resource, on.namespace, on.name].join(" ");
}

let stop = new AbortController();
export function look(ns) {
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  Object.assign(state, { ns, gaps: [], ready: false, trouble: null, unseen: [] });
  const sorted = (list) => { state.gaps = list.sort(worst); state.ready = true; state.trouble = null; tell(); };
  const failed = async (err) => {
    if (!err || signal.aborted) return;
    if (state.local && (err.code === 404 || err.code === 403) && await foreign()) {
      stop.abort();
      stop = new AbortController();
      state.explains = false;
      survey(ns, sorted, stop.signal);
      return;
    }
    if (state.local && err.code === 403 && !ns) { // who may not see all sees the namespace of their kubeconfig, as with kloop why
      const home = (await state.about?.catch(() => null))?.namespace;
      if (signal.aborted) return;
      if (home) {
        look(home);
        state.unseen = ["other namespaces than " + home + ": " + err.message];
        return;
      }
    }
    state.trouble = err;
    tell();
  };
  if (!state.explains) return survey(ns, sorted, signal);
  keep(convergence("gaps", ns), { changed: (all) => sorted([...all.values()]), failed, signal, first: 500 });
}

// foreign says that the server has no convergence API: it is no kloop. What it is then told comes from kloop ui, by a survey.
async function foreign() {
  try { await ask(convergence("").replace(/\/$/, "")); return false; } catch (err) { return err.code === 404; }
}

function survey(ns, sorted, signal) {
  every(10000, signal, async () => {
    try {
      const a = await get("/local/gaps?namespace=" + encodeURIComponent(ns), { signal });
      state.unseen = [...(a.unseen || []), ...(a.notes || [])];
      sorted(a.items || []);
    } catch (err) {
      if (!signal.aborted) { state.trouble = err; tell(); }
    }
  });
}

// gapOf asks for one object; null: it is what it should be.
export async function gapOf(resource, ns, name, signal) {
  if (!state.explains) {
    const a = await get("/local/gap?" + new URLSearchParams({ resource, namespace: ns, name }), { signal });
    return a.items?.[0] || null;
  }
  try {
    return await get(convergence("gaps", ns || "default", resource + ":" + name), { signal });
  } catch (err) {
    if (err instanceof Refused && err.code === 404) return null;
    throw err;
  }
}
