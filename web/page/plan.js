// What would happen: a plan of kloop plan -o json, dropped in or made here, and its film over virtual time.
import { ask } from "./api.js";
import { h, many, ring, show, stateMark } from "./dom.js";
import { film } from "./film.js";
import { state } from "./state.js";

const largest = 64 << 20; // bytes of a file

// words takes a line apart as a shell would, quotes included.
const words = (line) => [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3]);

export function plan(main, { signal }) {
  const out = h("div.report");
  const told = h("p.sum", { role: "status" });
  const line = h("input", { id: "change", placeholder: "drain NODE · lose node NAME · scale deployment/web --replicas 5 · set image deployment/web web=web:2 · delete KIND/NAME", autocomplete: "off", spellcheck: "false" });
  const manifest = h("textarea", { id: "manifest", rows: 6, spellcheck: "false", placeholder: "or a manifest to apply" });
  const file = h("input", { type: "file", id: "file", accept: ".json,application/json" });
  const tell = (report) => { told.textContent = ""; shown(out, report, signal); };
  const load = async (f) => {
    try {
      if (!f) return;
      if (f.size > largest) throw new Error("the file is larger than a plan can be");
      tell(check(JSON.parse(await f.text())));
    } catch (err) { told.textContent = "This is no plan: " + err.message; }
  };
  const make = async (e) => {
    e.preventDefault();
    const list = words(line.value.replace(/^\s*(kloop\s+)?plan\s+/, ""));
    const at = list.findIndex((w) => /^--replicas/.test(w));
    let replicas;
    if (at >= 0) { const [word] = list.splice(at, 1); replicas = Number(word.split("=")[1] ?? list.splice(at, 1)[0]); }
    told.textContent = "forking the cluster, and letting time pass …";
    try {
      tell(check(await (await ask("/local/plan", { method: "POST", signal, body: JSON.stringify({ words: list, replicas, namespace: state.ns, manifest: list.length && list[0] !== "upgrade" ? "" : manifest.value }) })).json()));
    } catch (err) { if (!signal.aborted) told.textContent = err.message; }
  };
  file.addEventListener("change", () => load(file.files[0]));
  main.addEventListener("dragover", (e) => e.preventDefault(), { signal });
  main.addEventListener("drop", (e) => { e.preventDefault(); load(e.dataTransfer.files[0]); }, { signal });
  show(main, h("h1", {}, "What would happen"), h("p", {}, "A plan forks the cluster into memory, makes the change there, and lets simulated time pass until all is at rest. The cluster itself is only read."),
    state.local ? h("form.ask", { onsubmit: make }, h("label", { for: "change" }, "Change"), line, h("label", { for: "manifest" }, "Manifest"), manifest, h("button", { type: "submit" }, "Play it")) : h("p.none", {}, "A server's own page makes no plans: kloop ui does, or drop in what kloop plan -o json wrote."),
    h("p.bar", {}, h("label", { for: "file" }, "A plan from a file (kloop plan … -o json), or drop it here: "), file), told, out);
}

function check(r) {
  if (!r || typeof r !== "object" || typeof r.verdict !== "string" || typeof r.change !== "string") throw new Error("it has no change and no verdict");
  return r;
}

const label = (o) => (o.kind || "").toLowerCase() + (o.name ? "/" + o.name : "");
const list = (title, items, one) => items?.length ? h("section", {}, h("h2", {}, title), h("ul.plain", {}, items.slice(0, 200).map((i) => h("li", {}, one(i))), items.length > 200 && h("li", {}, `and ${items.length - 200} more`))) : null;

function shown(out, r, signal) {
  const gap = (g) => [ring(0, g.state, 18), " ", h("b", {}, label(g)), g.namespace && h("span.ns", {}, " " + g.namespace), " ", g.verdict, " ", stateMark(g.state), g.asked && " (as asked)"];
  const effect = (e) => [e.count > 1 ? e.count + " × " : "", h("b", {}, label(e)), e.namespace && h("span.ns", {}, " " + e.namespace), e.owner ? " of " + e.owner : "", e.fields?.length ? ": " + e.fields.join(", ") : ""];
  show(out, h("div.top", {}, ring(r.stuck ? 0.4 : 1, r.stuck ? "Failed" : "good", 64, r.stuck ? "stuck" : "ends well"), h("div", {}, h("h1", {}, r.change), h("p.verdict", {}, r.verdict),
    h("p.sum", {}, r.cluster && `on a fork with ${many(r.cluster.nodes, "node")} and ${many(r.cluster.pods, "pod")}; ${r.atRest ? "at rest" : "not at rest"} after ${r.lasts}`))),
  film(r, signal),
  list("Refused", r.refused, (x) => [h("b", {}, label(x)), " ", x.message]), list("Gaps that would remain", r.gaps, gap), list("Gaps that it closes", r.closed, gap), list("Fits nowhere", r.unfit, (u) => [u.count > 1 ? u.count + " × " : "", h("b", {}, label(u)), u.owner ? " of " + u.owner : "", ": ", u.why]),
  list("Evictions", r.evictions, (e) => [h("span.when", {}, e.stays ? "never" : "+" + e.after), " ", h("b", {}, label(e)), " from ", e.node, e.refused ? `, refused ${e.refused} times: ${e.message || ""}` : ""]),
  list("Preempted", r.preemptions, (e) => [h("span.when", {}, "+" + e.after), " ", h("b", {}, label(e)), " on ", e.node]),
  list("Made", r.made, effect), list("Changed", r.changed, effect), list("Removed", r.removed, effect), list("Would happen anyway", r.anyway, (e) => [e.verb, " ", ...effect(e)]),
  list("Webhooks that would be asked", r.webhooks, (w) => `${w.webhook}, ${w.times} times`), list("Warnings", r.warnings, (w) => w), list("Not known", r.unknown, (w) => w), list("There already", r.still, gap));
}
