package web

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// pages are the paths beside the API's resources that the page reads.
var pages = []string{"/version", "/convergence/trail"}

// refused says why a request is not passed on to the API server; "": it is. What passes only reads: a GET of a resource, or the log
// of a pod. Connections into pods, services and nodes are made by GET too, so subresources are refused unless they are known.
func refused(r *http.Request) string {
	p := r.URL.Path
	switch {
	case r.Method != http.MethodGet:
		return "the page only reads"
	case r.Header.Get("Upgrade") != "", strings.Contains(strings.ToLower(r.URL.EscapedPath()), "%2f"),
		path.Clean(p) != strings.TrimSuffix(p, "/"):
		return "the page does not pass this on"
	case slices.Contains(pages, p) || p == "/api" || p == "/apis":
		return ""
	}
	parts := strings.Split(strings.Trim(p, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) >= 2:
		return resource(parts[2:], true)
	case parts[0] == "apis" && len(parts) == 2: // a group
		return ""
	case parts[0] == "apis" && len(parts) >= 3:
		return resource(parts[3:], false)
	}
	return "the page does not pass this on"
}

// resource says why the rest of a path, behind group and version, is refused.
func resource(parts []string, core bool) string {
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	if len(parts) == 0 { // discovery
		return ""
	}
	sub := ""
	if len(parts) > 2 {
		sub = strings.Join(parts[2:], "/")
	}
	switch what := parts[0]; {
	case core && what == "secrets":
		return "the page shows no Secrets"
	case what == "watch" || what == "proxy": // in place of a resource, as long ago
		return "the page does not pass this on"
	case sub == "" || sub == "status" || sub == "scale", core && what == "pods" && sub == "log":
		return ""
	}
	return "the page does not pass this on"
}
