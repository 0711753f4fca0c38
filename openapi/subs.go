package openapi

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// connects are the subresources that are tunnels rather than objects, by resource/subresource: the query
// parameters that they take.
var connects = map[string][]string{
	"pods/attach":      {"container", "stderr", "stdin", "stdout", "tty"},
	"pods/exec":        {"command", "container", "stderr", "stdin", "stdout", "tty"},
	"pods/portforward": {"ports"},
	"pods/proxy":       {"path"},
	"services/proxy":   {"path"},
	"nodes/proxy":      {"path"},
}

// connectKinds name the options of tunnels.
var connectKinds = map[string]string{
	"pods/attach": "PodAttachOptions", "pods/exec": "PodExecOptions", "pods/portforward": "PodPortForwardOptions",
	"pods/proxy": "PodProxyOptions", "services/proxy": "ServiceProxyOptions", "nodes/proxy": "NodeProxyOptions",
}

var logParams = []string{"container", "follow", "insecureSkipTLSVerifyBackend", "limitBytes", "pretty", "previous", "sinceSeconds",
	"stream", "tailLines", "timestamps"}

// sub adds the routes of a subresource.
func (m *maker) sub(s resource.SubInfo, one string, params []string) {
	key := m.info.Plural + "/" + s.Name
	if query, ok := connects[key]; ok && m.gvk.Group == "" {
		m.connect(s, one, params, query, connectKinds[key])
		return
	}
	gvk := s.GVK
	if gvk.Empty() {
		gvk = m.gvk
	}
	suffix := m.scoped() + m.gvk.Kind + title(s.Name)
	about := s.Name + " of the specified " + m.gvk.Kind
	var ops []operation
	for _, verb := range s.Verbs {
		switch {
		case key == "pods/log" && verb == "get":
			o := m.read("get", "read"+m.group+suffix, "read "+about, "", append([]string{"text/plain"}, mediaTypes...), logParams)
			o.gvk = m.gvk
			ops = append(ops, o)
		case verb == "get":
			o := m.read("get", "read"+m.group+suffix, "read "+about, m.model(gvk), m.types(), m.getParams())
			o.gvk = gvk
			ops = append(ops, o)
		case verb == "create":
			ops = append(ops, m.write("post", "post", "create"+m.group+suffix, "create "+about, gvk))
		case verb == "update":
			ops = append(ops, m.write("put", "put", "replace"+m.group+suffix, "replace "+about, gvk))
		case verb == "patch":
			ops = append(ops, m.patch("patch"+m.group+suffix, "partially update "+about, gvk))
		}
	}
	for i := range ops {
		if m.info.Custom { // whatever the body is
			ops[i].gvk = m.gvk
		}
	}
	m.add(one+"/"+s.Name, params, ops...)
}

var allMethods = []string{"delete", "get", "head", "options", "patch", "post", "put"}

func (m *maker) connect(s resource.SubInfo, one string, params, query []string, kind string) {
	methods := []string{"get", "post"}
	if s.Name == "proxy" {
		methods = allMethods
	}
	ops := func(id string) (ops []operation) {
		for _, method := range methods {
			ops = append(ops, operation{method: method, action: "connect",
				doc: "connect " + upper(method) + " requests to " + s.Name + " of " + m.gvk.Kind,
				id:  "connect" + m.group + title(method) + m.scoped() + m.gvk.Kind + id, tag: m.tag,
				gvk: schema.GroupVersionKind{Version: "v1", Kind: kind}, params: query, produces: []string{"*/*"}, codes: []string{"200", "401"}})
		}
		return ops
	}
	m.add(one+"/"+s.Name, params, ops(title(s.Name))...)
	if s.Name == "proxy" {
		m.add(one+"/proxy/{path}", append([]string{"path"}, params...), ops("ProxyWithPath")...)
	}
}

// watches adds the old paths below /watch.
func (m *maker) watches(params []string) {
	if !m.has("watch") || m.info.Custom {
		return
	}
	kind, s := m.gvk.Kind, m.scoped()
	base := m.prefix + "/watch"
	watch := func(action, id string) operation {
		return m.read(action, id, "watch individual changes of "+kind+
			". deprecated: use the 'watch' parameter with a list operation instead.", eventName,
			m.watchTypes(), nil)
	}
	query := withPretty(listParams)
	list := watch("watchlist", "watch"+m.group+s+kind+"List")
	list.params = query
	single := watch("watch", "watch"+m.group+s+kind)
	single.params = query
	if m.info.Namespaced {
		every := watch("watchlist", "watch"+m.group+kind+"ListForAllNamespaces")
		every.params = query
		m.add(base+"/"+m.info.Plural, nil, every)
		base += "/namespaces/{namespace}"
	}
	m.add(base+"/"+m.info.Plural, params, list)
	m.add(base+"/"+m.info.Plural+"/{name}", append([]string{"name"}, params...), single)
}
