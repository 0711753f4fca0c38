// The page's frame: views by route, keys, where to look, light and dark.
import { get, keep, signedIn, signIn } from "./api.js";
import { h, show } from "./dom.js";
import { board } from "./board.js";
import { look, onGaps, state, isStuck } from "./state.js";

const $ = (id) => document.getElementById(id);
const views = {
  "": { name: "Gaps", key: "g", draw: async () => board },
  loops: { name: "Loops", key: "l", draw: async () => (await import("./loops.js")).loops },
  list: { name: "Objects", key: "o", draw: async () => (await import("./objects.js")).objects },
  nodes: { name: "Nodes", key: "n", draw: async () => (await import("./nodes.js")).nodes },
  plan: { name: "Plan", key: "p", draw: async () => (await import("./plan.js")).plan },
  o: { draw: async () => (await import("./object.js")).object },
};
const go = (to) => { location.hash = to; };

let left = new AbortController();
async function route() {
  left.abort();
  left = new AbortController();
  const { signal } = left;
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
  const view = Object.hasOwn(views, parts[0]) ? views[parts[0]] : views[""];
  for (const a of $("nav").children) a.getAttribute("href") === "#/" + parts[0] ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current");
  document.title = (view.name || parts[3] || "") + " · kloop";
  const draw = await view.draw();
  if (signal.aborted) return;
  const main = $("main");
  main.removeAttribute("style");
  main.dataset.view = parts[0] || "gaps";
  if (signedOut()) return door(main, signal);
  draw(main, { signal, params: parts.slice(1), go });
  window.scrollTo(0, 0);
}

// signedOut says that the server does not know who asks: on its own page one brings a token, or a certificate in the browser.
const signedOut = () => !state.local && !signedIn() && state.trouble && (state.trouble.code === 401 || /system:anonymous/.test(state.trouble.message));

function door(main, signal) {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const enter = (e) => { e.preventDefault(); signIn(field.value); field.value = ""; begin(); };
  show(main, h("form.door", { onsubmit: enter }, h("h1", {}, "Who asks?"),
    h("p", {}, "This server shows a cluster with the rights of who looks. Paste a bearer token: it stays in this page's memory, and is gone when you close or reload it. A client certificate in the browser does as well."),
    h("label", { for: "token" }, "Bearer token"), field, h("button", { type: "submit" }, "Look"),
    h("p", {}, "One that can view everything for an hour:"), h("pre", { tabindex: 0 }, "kubectl create token viewer --duration 1h"),
    h("p", {}, "Or run kloop ui on your machine: it takes your kubeconfig, and no token.")));
  field.focus();
}

// find goes to an object by KIND/NAME, or to a kind.
async function find() {
  const [{ kinds }] = await Promise.all([import("./api.js")]);
  const field = h("input", { type: "search", id: "goal", placeholder: "deploy/nginx, pods, node/worker-1 …", "aria-label": "Kind, or kind/name", autocomplete: "off", spellcheck: "false", role: "combobox", "aria-expanded": "true", "aria-controls": "goals" });
  const list = h("ul", { id: "goals", role: "listbox", "aria-label": "Found" });
  const box = h("dialog.find", { "aria-label": "Find an object" }, field, list);
  let hits = [], at = 0, turn = 0;
  const pick = (hit) => { box.close(); go(hit.to); };
  const draw = () => {
    show(list, hits.map((x, i) => h("li", { id: "goal-" + i, role: "option", "aria-selected": i === at ? "true" : "false", onclick: () => pick(x) }, h("b", {}, x.name), " ", h("span.ns", {}, x.where))));
    hits.length ? field.setAttribute("aria-activedescendant", "goal-" + at) : field.removeAttribute("aria-activedescendant");
  };
  const seek = async () => {
    const mine = ++turn;
    const text = field.value.trim();
    const [word, name] = text.includes("/") ? text.split("/", 2) : [text, undefined];
    const known = [...(await kinds()).values()].filter((k) => !(k.plural === "secrets" && !k.group));
    const is = (k) => [k.plural, k.singular, k.kind.toLowerCase(), k.gr, ...k.short].includes(word.toLowerCase());
    let found = name ? [] : known.filter((k) => is(k) || (name === undefined && k.plural.startsWith(word.toLowerCase()))).map((k) => ({ name: k.plural, where: k.group, to: "#/list/" + encodeURIComponent(k.gr) }));
    const { listPath, query } = await import("./api.js");
    const looked = name === undefined ? ["deployments.apps", "statefulsets.apps", "daemonsets.apps", "cronjobs.batch", "services"] : known.filter(is).map((k) => k.gr).slice(0, 2);
    if (text && mine === turn) {
      const got = await Promise.allSettled(looked.map(async (gr) => {
        const page = await get(query(await listPath(gr, state.ns), { limit: 500 }), { accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json" });
        return page.items.filter((i) => i.metadata.name.includes(name ?? word)).slice(0, 20).map((i) => ({ name: gr.split(".")[0].replace(/s$/, "") + "/" + i.metadata.name, where: i.metadata.namespace || "",
          to: "#/o/" + [gr, i.metadata.namespace || "-", i.metadata.name].map(encodeURIComponent).join("/") }));
      }));
      found = [...found, ...got.flatMap((g) => g.value || [])];
    }
    if (mine !== turn) return;
    hits = found.slice(0, 14);
    at = 0;
    draw();
  };
  field.addEventListener("input", seek);
  field.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown") at = Math.min(at + 1, hits.length - 1);
    else if (e.key === "ArrowUp") at = Math.max(at - 1, 0);
    else if (e.key === "Enter" && hits[at]) return e.preventDefault(), pick(hits[at]);
    else return;
    e.preventDefault();
    draw();
  });
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  seek();
}

function help() {
  const keys = [...Object.values(views).filter((v) => v.key).map((v) => [v.key, v.name]), ["/", "find an object"], ["↑ ↓, j k", "move in a list"], ["Enter", "open"], ["Backspace", "back"], ["t", "light or dark"], ["?", "this"], ["Esc", "close"]];
  const box = h("dialog.help", { "aria-label": "Keys" }, h("h2", {}, "Keys"), h("dl.facts", {}, keys.map(([k, v]) => [h("dt", {}, h("kbd", {}, k)), h("dd", {}, v)])),
    h("h2", {}, "The loop"), h("p", {}, "Somebody writes down what should be: the spec. A loop looks at it and at what is, decides, and acts; then it writes down what it sees: the status. A ring here is one such loop. Its opening is the gap."),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea, dialog")) return;
  const view = Object.entries(views).find(([, v]) => v.key === e.key);
  if (view) go("#/" + view[0]);
  else if (e.key === "/") find();
  else if (e.key === "?") help();
  else if (e.key === "t") theme();
  else if (e.key === "Backspace") history.back();
  else return;
  e.preventDefault();
});

let life = new AbortController();
async function begin() {
  life.abort();
  life = new AbortController();
  const { signal } = life;
  state.local = location.protocol === "http:"; // kloop ui, on the loopback; a server speaks TLS
  if (state.local) {
    state.about = get("/local/about");
    state.about.then((about) => {
      $("server").textContent = about.server + (about.as ? " as " + about.as : "");
    }, (err) => {
      if (err.code !== 401) { state.local = false; return route(); } // a server behind somebody's proxy
      life.abort();
      show($("main"), h("p.trouble", { role: "alert" }, err.message));
    });
  }
  $("server").textContent = location.host;
  let known = "";
  onGaps(() => {
    const n = state.gaps.filter(isStuck).length;
    if (document.activeElement !== $("namespace")) $("namespace").value = state.ns;
    $("live").textContent = state.trouble ? "not seen" : n ? `${n} open` : "all closed";
    const now = signedOut() ? "out" : state.ready ? "in" : known; // a view is drawn anew when somebody signs in, and not under their hands
    if (now !== known) { known = now; route(); }
  }, signal);
  look(state.ns);
  keep("/api/v1/namespaces", { signal, watch: false, slim: (o) => ({ metadata: { uid: o.metadata.uid, name: o.metadata.name } }), changed: (all) =>
    show($("namespaces"), [...all.values()].map((n) => h("option", { value: n.metadata.name }))) });
  route();
}

$("nav").append(...Object.entries(views).filter(([, v]) => v.name).map(([k, v]) => h("a", { href: "#/" + k, "aria-keyshortcuts": v.key }, v.name)));
$("skip").addEventListener("click", () => $("main").focus());
$("find").addEventListener("click", find);
$("help").addEventListener("click", help);
$("theme").addEventListener("click", theme);
$("where").addEventListener("submit", (e) => e.preventDefault());
$("namespace").addEventListener("change", () => { look($("namespace").value.trim()); route(); });
addEventListener("hashchange", route);
begin();
