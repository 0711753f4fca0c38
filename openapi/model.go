package openapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// A route is a path with its operations, in neither format yet.
type route struct {
	path   string
	params []string // in the path
	ops    []operation
}

// An operation is one method of a route.
type operation struct {
	method, action, id, doc string
	tag                     string
	gvk                     schema.GroupVersionKind
	params                  []string // query parameters
	body                    string   // schema of the request, and
	bodyOptional            bool
	consumes, produces      []string
	out                     string // schema of the answer; "" is a string
	codes                   []string
}

var (
	mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	watchTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
		"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
	customTypes = []string{"application/json", "application/yaml"}
	patchTypes  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/apply-patch+yaml"}
	customPatch = []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}

	listParams = []string{"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
		"resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch"}
	writeParams  = []string{"dryRun", "fieldManager", "fieldValidation"}
	patchParams  = []string{"dryRun", "fieldManager", "fieldValidation", "force"}
	deleteParams = []string{"dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
		"propagationPolicy"}
	clearParams = []string{"continue", "dryRun", "fieldSelector", "gracePeriodSeconds",
		"ignoreStoreReadErrorWithClusterBreakingPotential", "labelSelector", "limit", "orphanDependents", "propagationPolicy",
		"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds"}
)

const (
	meta         = "io.k8s.apimachinery.pkg.apis.meta.v1."
	statusName   = meta + "Status"
	deleteName   = meta + "DeleteOptions"
	patchName    = meta + "Patch"
	eventName    = meta + "WatchEvent"
	resourceName = meta + "APIResourceList"
)

// maker builds the routes of one kind in one version.
type maker struct {
	info   *resource.Info
	subs   []resource.SubInfo
	gvk    schema.GroupVersionKind
	model  func(schema.GroupVersionKind) string
	prefix string // /apis/apps/v1
	group  string // AppsV1, in ids
	tag    string
	routes []route
}

func (m *maker) has(verb string) bool { return slices.Contains(m.info.Verbs, verb) }

func (m *maker) types() []string {
	if m.info.Custom {
		return customTypes
	}
	return mediaTypes
}

// bodyTypes are the media types of request bodies; built-in kinds say "anything".
func (m *maker) bodyTypes() []string {
	if m.info.Custom {
		return customTypes
	}
	return nil
}

func (m *maker) watchTypes() []string {
	if m.info.Custom {
		return customTypes
	}
	return watchTypes
}

// scoped is the part of ids that names the scope.
func (m *maker) scoped() string {
	if m.info.Namespaced {
		return "Namespaced"
	}
	return ""
}

func (m *maker) make() []route {
	base, params := m.prefix, []string(nil)
	if m.info.Namespaced {
		base, params = base+"/namespaces/{namespace}", []string{"namespace"}
	}
	all, one := base+"/"+m.info.Plural, base+"/"+m.info.Plural+"/{name}"
	m.add(all, params, m.collection()...)
	named := append([]string{"name"}, params...)
	m.add(one, named, m.single()...)
	for _, s := range m.subs {
		m.sub(s, one, named)
	}
	if m.info.Namespaced && m.has("list") {
		m.add(m.prefix+"/"+m.info.Plural, nil, m.read("list", "list"+m.group+m.gvk.Kind+"ForAllNamespaces",
			"list or watch objects of kind "+m.gvk.Kind,
			m.model(listOf(m.info, m.gvk)), m.watchTypes(), withPretty(listParams)))
	}
	m.watches(params)
	return m.routes
}

func listOf(i *resource.Info, gvk schema.GroupVersionKind) schema.GroupVersionKind {
	kind := i.ListKind
	if kind == "" {
		kind = gvk.Kind + "List"
	}
	return gvk.GroupVersion().WithKind(kind)
}

func (m *maker) add(path string, params []string, ops ...operation) {
	if len(ops) > 0 {
		m.routes = append(m.routes, route{path: path, params: params, ops: ops})
	}
}

func (m *maker) read(action, id, doc, out string, types, params []string) operation {
	return operation{method: "get", action: action, id: id, doc: doc, tag: m.tag, gvk: m.gvk, params: params, produces: types, out: out,
		codes: []string{"200", "401"}}
}

// getParams are those of reading one object; only custom resources tell of all.
func (m *maker) getParams() []string {
	if m.info.Custom {
		return withPretty([]string{"resourceVersion"})
	}
	return withPretty(nil)
}

func (m *maker) collection() (ops []operation) {
	kind, s := m.gvk.Kind, m.scoped()
	switch {
	case m.has("deletecollection") && m.info.Custom:
		o := m.read("deletecollection", "delete"+m.group+"Collection"+s+kind, "delete collection of "+kind, statusName, customTypes,
			withPretty(listParams))
		o.method = "delete"
		ops = append(ops, o)
	case m.has("deletecollection"):
		ops = append(ops, operation{method: "delete", action: "deletecollection", id: "delete" + m.group + "Collection" + s + kind,
			doc: "delete collection of " + kind, tag: m.tag, gvk: m.gvk, params: withPretty(clearParams), body: deleteName, bodyOptional: true,
			produces: m.types(), out: statusName, codes: []string{"200", "401"}})
	}
	if m.has("list") {
		ops = append(ops, m.read("list", "list"+m.group+s+kind, "list or watch objects of kind "+kind, m.model(listOf(m.info, m.gvk)),
			m.watchTypes(), withPretty(listParams)))
	}
	if m.has("create") {
		ops = append(ops, m.write("post", "post", "create"+m.group+s+kind, "create "+article(kind), m.gvk))
	}
	return ops
}

func (m *maker) single() (ops []operation) {
	kind, s := m.gvk.Kind, m.scoped()
	if m.has("delete") {
		ops = append(ops, operation{method: "delete", action: "delete", id: "delete" + m.group + s + kind, doc: "delete " + article(kind),
			tag: m.tag, gvk: m.gvk, consumes: m.bodyTypes(), params: withPretty(deleteParams), body: deleteName, bodyOptional: true,
			produces: m.types(), out: deleted(m),
			codes: []string{"200", "202", "401"}})
	}
	if m.has("get") {
		ops = append(ops, m.read("get", "read"+m.group+s+kind, "read the specified "+kind, m.model(m.gvk), m.types(), m.getParams()))
	}
	if m.has("patch") {
		ops = append(ops, m.patch("patch"+m.group+s+kind, "partially update the specified "+kind, m.gvk))
	}
	if m.has("update") {
		ops = append(ops, m.write("put", "put", "replace"+m.group+s+kind, "replace the specified "+kind, m.gvk))
	}
	return ops
}

// deleted names the answer to a deletion: kinds that linger answer with themselves.
func deleted(m *maker) string {
	switch m.gvk.Group + "/" + m.info.Plural {
	case "/pods", "/persistentvolumes", "/persistentvolumeclaims", "/podtemplates", "/resourcequotas", "/serviceaccounts", "/services",
		"policy/podsecuritypolicies", "resource.k8s.io/deviceclasses", "resource.k8s.io/resourceclaims", "resource.k8s.io/resourceclaimtemplates",
		"resource.k8s.io/resourceslices", "storage.k8s.io/csidrivers", "storage.k8s.io/csinodes", "storage.k8s.io/storageclasses",
		"storage.k8s.io/volumeattachments", "storage.k8s.io/volumeattributesclasses":
		return m.model(m.gvk)
	}
	return statusName
}

func (m *maker) write(method, action, id, doc string, body schema.GroupVersionKind) operation {
	codes := []string{"200", "201", "401"}
	if method == "post" {
		codes = []string{"200", "201", "202", "401"}
	}
	return operation{method: method, action: action, id: id, doc: doc, tag: m.tag, gvk: body, params: withPretty(writeParams),
		body: m.model(body), consumes: m.bodyTypes(), produces: m.types(), out: m.model(body), codes: codes}
}

func (m *maker) patch(id, doc string, body schema.GroupVersionKind) operation {
	o := m.write("patch", "patch", id, doc, body)
	o.params, o.body, o.consumes = withPretty(patchParams), patchName, patchTypes
	if m.info.Custom {
		o.consumes, o.codes = customPatch, []string{"200", "401"}
	}
	return o
}

func withPretty(params []string) []string { return append([]string{"pretty"}, params...) }

func article(kind string) string {
	if strings.ContainsRune("AEIOU", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}
