// Objects of one kind in the server's own columns, page by page; only the rows in sight are elements.
import { awake, kinds, lines, listPath, pages, query, stream } from "./api.js";
import { age, h, rows, show } from "./dom.js";
import { routeOf, state } from "./state.js";

const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

export function objects(main, { signal, params: [gr = "deployments.apps"], go }) {
  const filter = h("input", { type: "search", placeholder: "filter", "aria-label": "Filter by words", autocomplete: "off", spellcheck: "false" });
  const pick = h("select", { "aria-label": "Kind", onchange: () => go("#/list/" + encodeURIComponent(pick.value)) }, h("option", { value: gr }, gr));
  const count = h("span.sum", { role: "status" });
  const names = h("div.cols", { "aria-hidden": "true" });
  let cols = [], all = new Map(), namespaced = true;
  const list = rows({ label: "Objects: " + gr, height: 28, empty: "There are none here.", open: (r) => go(routeOf({ resource: gr, ...r.meta })), row: (r) =>
    h("div.obj", {}, namespaced && h("span.ns", {}, r.meta.namespace || ""), cols.map((c) => h(c.i ? "span" : "span.name", { title: String(r.cells[c.at] ?? "") }, cell(c, r)))) });
  show(main, h("div.bar", {}, h("h1", {}, "Objects"), pick, filter, count), names, list.el);
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = [...all.values()].filter((r) => words.every((w) => r.text.includes(w)));
    list.set(seen);
    count.textContent = seen.length === all.size ? `${all.size}` : `${seen.length} of ${all.size}`;
    if (all.size) performance.mark("objects");
  };
  filter.addEventListener("input", draw);
  const cell = (c, r) => c.name === "Age" ? age(r.meta.creationTimestamp) : r.cells[c.at] ?? "";
  const take = (row) => {
    const { namespace, name, uid, creationTimestamp } = row.object.metadata;
    const shown = row.cells;
    all.set(uid, { meta: { namespace, name, creationTimestamp }, cells: shown, text: ((namespace || "") + " " + shown.join(" ")).toLowerCase() });
  };
  const follow = async () => {
    const path = await listPath(gr, state.ns), old = new Set(all.keys());
    const rev = await pages(path, {}, (page) => {
      if (page.columnDefinitions && !cols.length) {
        cols = page.columnDefinitions.map((c, at) => ({ ...c, at })).filter((c) => !c.priority).map((c, i) => ({ ...c, i }));
        namespaced = page.rows?.some((r) => r.object.metadata.namespace) ?? true;
        main.style.setProperty("--cols", (namespaced ? "8rem " : "") + cols.map((c, i) => i ? "minmax(4rem, 1fr)" : "minmax(15rem, 3fr)").join(" "));
        show(names, namespaced && h("span", {}, "namespace"), cols.map((c) => h("span", {}, c.name.toLowerCase())));
      }
      for (const r of page.rows || []) { take(r); old.delete(r.object.metadata.uid); }
      draw();
    }, { signal, accept: table }, 60);
    for (const uid of old) all.delete(uid);
    draw();
    const res = await stream(query(path, { watch: 1, resourceVersion: rev }), { signal, accept: table });
    let due = false;
    await lines(res, (e) => {
      if (e.type === "ERROR") throw new Error(e.object?.message || "the watch ended");
      for (const r of e.object?.rows || []) e.type === "DELETED" ? all.delete(r.object.metadata.uid) : take(r);
      if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); }
    });
  };
  (async () => {
    while (!signal.aborted) {
      try { await follow(); } catch (err) {
        if (signal.aborted) return;
        if (err.name !== "AbortError") { show(count, h("span.trouble", { role: "alert" }, err.message)); await new Promise((ok) => setTimeout(ok, 5000)); }
      }
      await awake();
    }
  })();
  kinds().then((known) => {
    if (signal.aborted) return;
    const sorted = [...known.values()].filter((k) => !(k.plural === "secrets" && !k.group)).sort((a, b) => a.plural.localeCompare(b.plural));
    show(pick, sorted.map((k) => h("option", { value: k.gr, selected: k.gr === gr }, k.gr)));
  }).catch(() => {});
  list.box.focus({ preventScroll: true });
}
