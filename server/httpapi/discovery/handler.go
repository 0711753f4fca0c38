package discovery

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// Source names the API groups that other servers answer (aggregation).
type Source interface {
	// Claims says that the group version is answered by another server.
	Claims(gv schema.GroupVersion) bool
	// Groups returns the claimed groups for discovery.
	Groups() []Group
}

// A Handler answers /api, /apis and what is below them down to the lists of resources. Kinds is required. It is safe for
// concurrent use.
type Handler struct {
	Kinds    *resource.Set
	Others   Source           // groups that other servers answer; nil: none
	Delegate http.HandlerFunc // gets requests for the resources of a version that Others claims
	Address  string           // host:port told to clients in /api; empty: the one that they named
	Send     reply.Sender

	docs documents
}

// Serve answers a path whose segments are parts.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, parts []string) {
	root := len(parts) == 1
	name, ver, exists := "", "", true
	switch {
	case parts[0] == "api" && len(parts) == 2:
		ver = parts[1]
	case parts[0] == "apis" && !root && parts[1] == "": // the core group has no name, and is not here
		exists = false
	case parts[0] == "apis" && len(parts) == 2:
		name = parts[1]
	case parts[0] == "apis" && len(parts) == 3:
		name, ver = parts[1], parts[2]
	case !root:
		exists = false
	}
	g, known := h.group(name)
	v, served := g.version(ver)
	if !exists || !root && (!known || ver != "" && !served) {
		h.undiscovered(w, r, name)
		return
	}
	if parts[0] == "api" || ver != "" && h.Builtin(name) { // upstream's lists, groups and what is custom ask for no method
		if err := refused(r); err != nil {
			h.Send.Fail(w, r, err)
			return
		}
	}
	switch {
	case root:
		h.root(w, r, parts[0] == "api")
	case ver == "":
		h.discovered(w, r, apiGroup(g, true))
	case h.Others != nil && h.Others.Claims(schema.GroupVersion{Group: name, Version: ver}):
		h.Delegate(w, r)
	default:
		h.discovered(w, r, resourceList(schema.GroupVersion{Group: name, Version: ver}, v))
	}
}

// refused is the error of a request whose method, or whose media types whatever they are to hold, are not served.
func refused(r *http.Request) error {
	takes := func(typ string) bool { return reply.Takes(r.Header.Get("Accept"), typ) }
	switch {
	case r.Method != http.MethodGet:
		return reply.Generic(http.StatusMethodNotAllowed)
	case !takes(codec.JSON) && !takes(codec.YAML) && !takes(codec.Protobuf):
		return reply.Unrouted(reply.Served(true))
	}
	return nil
}

// Builtin says that the group has at least one kind that no user defined.
func (h *Handler) Builtin(group string) bool { return builtin(h.Kinds, group) }

// undiscovered tells apart what upstream's parts answer differently: unknown versions of built-in groups and
// paths of nobody.
func (h *Handler) undiscovered(w http.ResponseWriter, r *http.Request, group string) {
	if group == "" || h.Builtin(group) {
		h.Send.Fail(w, r, reply.Generic(http.StatusNotFound))
		return
	}
	reply.NotFoundPage(w)
}

// discovered answers with a document of the old form of discovery.
func (h *Handler) discovered(w http.ResponseWriter, r *http.Request, doc runtime.Object) {
	acc, ok := reply.Negotiate(r.Header.Get("Accept"), true, nil)
	if !ok {
		h.Send.Fail(w, r, reply.NotAcceptable(true, false))
		return
	}
	acc.Pretty = acc.Pretty || reply.WantsPretty(r)
	h.Send.Object(w, r, acc, http.StatusOK, doc)
}

// root answers /api or /apis, in the old form or all groups at once.
func (h *Handler) root(w http.ResponseWriter, r *http.Request, legacy bool) {
	acc, ok := reply.Negotiate(r.Header.Get("Accept"), true, func(a reply.Accepted) bool {
		return a.As == "APIGroupDiscoveryList" && a.Group == "apidiscovery.k8s.io" && a.Version == "v2" &&
			r.URL.Path != "/apis/" // upstream's /apis/ knows the old form alone
	})
	acc.Pretty = acc.Pretty || reply.WantsPretty(r)
	switch {
	case !ok:
		h.Send.Fail(w, r, reply.NotAcceptable(true, false))
	case acc.As != "":
		h.aggregate(w, r, acc, legacy)
	case legacy:
		h.Send.Object(w, r, acc, http.StatusOK, h.apiVersions(r))
	default:
		h.Send.Object(w, r, acc, http.StatusOK, h.groupList())
	}
}

// aggregate answers with all groups at once. The document is made once per content of the set.
func (h *Handler) aggregate(w http.ResponseWriter, r *http.Request, acc reply.Accepted, legacy bool) {
	doc, err := h.aggregatedDoc(acc, legacy)
	if err != nil {
		h.Send.Fail(w, r, err)
		return
	}
	w.Header().Set("ETag", doc.tag)
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public")
	if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), doc.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Send.Write(w, r, http.StatusOK, acc.MediaType()+";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", doc.body)
}

func (h *Handler) aggregatedDoc(acc reply.Accepted, legacy bool) (tagged, error) {
	groups := h.Groups()
	key := fmt.Sprint(acc.Format, legacy)
	own := h.docs.list(h.Kinds)
	cacheable := len(groups) == len(own) && (len(own) == 0 || &groups[0] == &own[0]) // nobody else's are among them
	if cacheable {
		if doc, ok := h.docs.get(key); ok {
			return doc, nil
		}
	}
	list := aggregated(groups, legacy)
	var body []byte
	var err error
	if acc.Format == reply.Proto {
		body, err = codec.MarshalProto(list)
	} else if body, err = codec.MarshalJSON(list); err == nil && acc.Format == reply.YAML {
		body, err = reply.ToYAML(body)
	}
	if err != nil {
		return tagged{}, fmt.Errorf("encode discovery: %w", err)
	}
	doc := tagged{body: body, tag: fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(body)))}
	if cacheable {
		h.docs.put(key, own, doc)
	}
	return doc, nil
}
