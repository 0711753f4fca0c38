// Gaps as a board: grouped by what holds them up, the worst first.
import { age, h, many, ring, rows, show, stateMark } from "./dom.js";
import { isStuck, onGaps, root, routeOf, share, short, state } from "./state.js";

// groups puts gaps that one thing holds up together, in the order of the worst of each.
export function groups(gaps) {
  const by = new Map();
  for (const g of gaps) {
    const key = root(g) || "own " + g.metadata?.namespace + " " + g.metadata?.name;
    const list = by.get(key);
    if (list) list.push(g); else by.set(key, [g]);
  }
  return [...by.values()].map((list) => {
    const g = list[0], on = list.length > 1 ? g.waits.on : null;
    const deepest = (g.chain || []).reduce((a, b) => !a || b.depth > a.depth ? b : a, null);
    const says = on && deepest && deepest.object.kind === on.kind && deepest.object.name === on.name ? short(on) + " " + deepest.says : g.because || g.verdict;
    return { list, on, g, title: on ? says : g.verdict, since: list.reduce((a, b) => Date.parse(b.since) < Date.parse(a) ? b.since : a, g.since) };
  });
}

export function board(main, { signal, go }) {
  const sum = h("p.sum");
  const hint = h("div");
  const open = new Set();
  const list = rows({ label: "Gaps, the worst first", height: 54, empty: "", open: (r) => {
    if (r.group.list.length === 1 || r.gap) return go(routeOf((r.gap || r.group.g).object));
    const key = root(r.group.g);
    open.has(key) ? open.delete(key) : open.add(key);
    draw();
  }, row: (r) => r.gap ? line(r.gap, true) : r.group.list.length === 1 ? line(r.group.g) : head(r.group, open.has(root(r.group.g))) });
  show(main, h("h1", {}, "What is not what it should be"), sum, hint, list.el);
  function draw() {
    const all = groups(state.gaps);
    list.set(all.flatMap((g) => [{ group: g }, ...(g.list.length > 1 && open.has(root(g.g)) ? g.list.map((gap) => ({ group: g, gap })) : [])]));
    const stuck = state.gaps.filter(isStuck);
    const later = state.gaps.length - stuck.length;
    const where = state.ns ? "in namespace " + state.ns : "in the cluster";
    sum.replaceChildren(state.trouble ? "" : !state.ready ? "looking…" :
      stuck.length ? `${many(stuck.length, "gap")} ${where}, from ${many(new Set(stuck.map((g) => g.owner)).size, "owner")}` + (later ? `; ${later} more that nothing is stuck by yet` : "")
        : `Every loop is closed: all ${where} is what it should be.` + (later ? ` ${many(later, "gap")} will matter once somebody asks.` : ""));
    show(hint, state.trouble && h("p.trouble", { role: "alert" }, "The gaps can't be read: " + state.trouble.message + (state.trouble.code === 403 ? ". Name a namespace that you may look into, at the top." : "")),
      state.ready && !state.gaps.length && calm(), state.unseen.length > 0 && h("details.unseen", {}, h("summary", {}, "What this can't know"), h("ul", {}, state.unseen.map((u) => h("li", {}, u)))));
    if (state.ready) performance.mark("board");
  }
  onGaps(draw, signal);
  draw();
  list.box.focus({ preventScroll: true });
}

// calm greets who sees a cluster without gaps, and shows what to watch.
function calm() {
  return h("section.calm", {}, ring(1, "good", 96, "closed"),
    h("div", {}, h("p", {}, "Desired state is written down; loops compare it with what is, and close the gap. To see one at work, ask for something:"),
      h("pre", { tabindex: 0 }, "kubectl create deployment nginx --image=nginx --replicas=3"),
      h("p", {}, "A gap appears here, and closes. ", h("a", { href: "#/loops" }, "The loops"), " show whose move it is; ",
        h("a", { href: "#/list/deployments.apps" }, "the object"), " shows what followed from what."))); 
}

function line(g, inner) {
  return h(inner ? "div.gap.inner" : "div.gap", {}, ring(share(g), g.state, 34),
    h("span.what", {}, h("b", {}, short(g.object)), g.object.namespace ? h("span.ns", {}, " " + g.object.namespace) : "", " ", h("span.says", {}, g.says)),
    h("span.why", {}, g.because || ""), stateMark(g.state), h("span.owner", {}, g.owner), h("span.age", {}, age(g.since)));
}

function head(group, isOpen) {
  return h("div.gap.group", {}, h("span.count", {}, ring(0, group.g.state, 34), h("i", {}, group.list.length)),
    h("span.what", {}, h("b", {}, group.title)), h("span.why", {}, `${isOpen ? "▾" : "▸"} holds up ${group.list.length}: ` + group.list.slice(0, 6).map((g) => short(g.object)).join(", ") + (group.list.length > 6 ? " …" : "")),
    stateMark(group.g.state), h("span.owner", {}, group.g.owner), h("span.age", {}, age(group.since)));
}
