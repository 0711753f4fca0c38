// The log of a pod's container, followed while it is wanted.
import { awake, query, stream } from "./api.js";
import { h, show } from "./dom.js";

const most = 3000; // lines that are kept

export function logs(el, pod, signal) {
  const names = [...(pod.spec.initContainers || []), ...pod.spec.containers].map((c) => c.name);
  const usual = pod.spec.containers[0].name;
  const out = h("pre.log", { tabindex: 0, role: "log", "aria-label": "Log" });
  const pick = h("select", { "aria-label": "Container" }, names.map((n) => h("option", { value: n, selected: n === usual }, n)));
  const before = h("input", { type: "checkbox", id: "before" });
  const follow = h("input", { type: "checkbox", id: "follow" });
  let stop = null;
  const read = async () => {
    stop?.abort();
    const mine = stop = new AbortController();
    const end = AbortSignal.any([signal, mine.signal]);
    show(out);
    let count = 0;
    const put = (text) => {
      const down = out.scrollTop + out.clientHeight >= out.scrollHeight - 30;
      out.append(text);
      for (count += 1; count > most; count--) out.firstChild.remove();
      if (down) out.scrollTop = out.scrollHeight;
    };
    try {
      const path = `/api/v1/namespaces/${encodeURIComponent(pod.metadata.namespace)}/pods/${encodeURIComponent(pod.metadata.name)}/log`;
      const res = await stream(query(path, { container: pick.value, tailLines: 500, previous: before.checked || undefined, follow: follow.checked && !before.checked || undefined }), { accept: "*/*", signal: end });
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        for (const line of value.slice(0, 1e6).split(/(?<=\n)/)) put(line);
      }
      if (!count) put("It has written nothing.");
    } catch (err) {
      if (end.aborted) return;
      if (err.name !== "AbortError") return put(err.message);
      await awake();
      if (!end.aborted) read();
    }
  };
  for (const c of [pick, before, follow]) c.addEventListener("change", read);
  show(el, h("section", {}, h("h2", {}, "Log"), h("p.bar", {}, pick, h("label", {}, before, " of the run before"), h("label", {}, follow, " follow")), out));
  read();
}
