package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
)

// info (RequestInfo upstream) holds what a URL and a method ask for.
type info struct {
	Resource    bool // a resource request; otherwise only Path and Verb count
	Path        string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; the method in lower case for paths
	Group       string
	Version     string
	Namespace   string
	Within      bool // the path goes through a namespace to what is in it
	Res         string
	Name        string
	Sub         string
	Rest        []string // path below a subresource: proxy paths
	List        metav1.ListOptions
	User        *auth.User // whom it is made as, once authenticated: the caller, unless impersonating
	bad         error      // what is wrong with List, if it counts only once the caller may list
	begun       func()     // of a watch: it has told what there was and gives its seats back
	Known       bool       // what is named exists: strangers must not make labels of metrics
	LegacyWatch bool       // /api/v1/watch/…
	lost        bool       // watch or proxy of nothing: upstream makes nothing of such a path
}

func (i *info) gv() schema.GroupVersion {
	return schema.GroupVersion{Group: i.Group, Version: i.Version}
}

func (i *info) gvr() schema.GroupVersionResource { return i.gv().WithResource(i.Res) }

func (i *info) gr() schema.GroupResource {
	return schema.GroupResource{Group: i.Group, Resource: i.Res}
}

// longRunning says that the request is a stream and has no time limit.
func (i *info) longRunning() bool {
	if !i.Resource {
		return false
	}
	if i.Verb == "watch" {
		return true
	}
	switch i.Sub {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return false
}

// parse reads the URL grammar:
//
//	/api/{version}/[namespaces/{ns}/]{resource}[/{name}[/{sub}]]
//	/apis/{group}/{version}/…the same
//	…/watch/… before the resource: the old way to watch; …/proxy/…: an older one to connect, which nothing serves any more
//
// The options of lists are decoded here, as the verb and the name that is authorized depend on them.
func parse(r *http.Request) *info {
	i := &info{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	parts := split(r.URL.Path)
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		i.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		i.Group, i.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return i
	}
	i.Resource = true
	i.Verb = verbOf(r.Method)
	if first := parts[0]; first == "watch" || first == "proxy" {
		if len(parts) == 1 {
			i.lost = true
			return i
		}
		i.Verb, i.LegacyWatch, parts = first, first == "watch", parts[1:]
	}
	i.path(parts)
	i.query(r.URL)
	return i
}

// path fills namespace, resource, name and subresource.
func (i *info) path(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 1 {
		i.Namespace = parts[1]
		if len(parts) > 2 && !namespacePart(parts[2]) {
			parts, i.Within = parts[2:], true
		}
	}
	i.Res = parts[0]
	if len(parts) > 1 {
		i.Name = parts[1]
	}
	if len(parts) > 2 && i.Verb != "proxy" {
		i.Sub, i.Rest = parts[2], parts[3:]
	}
}

// namespacePart says that the path segment is a subresource of the namespace itself.
func namespacePart(s string) bool { return s == "status" || s == "finalize" }

// query settles the verbs that depend on parameters.
func (i *info) query(u *url.URL) {
	if i.Name != "" && !i.LegacyWatch || (i.Verb != "get" && i.Verb != "delete" && i.Verb != "watch") {
		return
	}
	if u.RawQuery != "" {
		q := u.Query()
		if i.bad = decodeQuery(q, &i.List); i.bad != nil {
			watch := strings.ToLower(q.Get("watch"))
			i.List = metav1.ListOptions{Watch: q.Has("watch") && watch != "false" && watch != "0",
				LabelSelector: q.Get("labelSelector"), FieldSelector: q.Get("fieldSelector")}
		}
	}
	switch {
	case i.LegacyWatch:
		i.List.Watch = true
	case i.Verb == "delete":
		i.Verb = "deletecollection"
	case i.List.Watch:
		i.Verb = "watch"
	default:
		i.Verb = "list"
	}
}

// named is the name that is authorized: a list or watch of one name counts as access to it. The deletion of a collection does not,
// nor does what can't be read, nor the old way to watch.
func (i *info) named() string {
	if i.Name != "" || i.List.FieldSelector == "" || i.bad != nil || i.LegacyWatch || i.Verb == "deletecollection" {
		return i.Name
	}
	if sel, err := fields.ParseSelector(i.List.FieldSelector); err == nil {
		if name, ok := sel.RequiresExactMatch("metadata.name"); ok && len(path.IsValidPathSegmentName(name)) == 0 {
			return name
		}
	}
	return ""
}

func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// split takes a path apart; one trailing slash does not count, empty segments within do.
func split(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
