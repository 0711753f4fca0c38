package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
	"github.com/kloop-dev/kloop/trail"
)

// call is one request for a resource on its way through a verb.
type request struct {
	responder

	s    *handler
	info *info
	user *auth.User
	sub  resource.SubInfo
	warn warnings
}

// dispatch finds the code for an authorized request.
func (s *handler) dispatch(w *recorder, r *http.Request, i *info, user *auth.User) {
	if strings.HasPrefix(i.Path, "//") {
		reply.NotFoundPage(w)
		return
	}
	if !i.Resource {
		s.page(w, r, i)
		return
	}
	if i.Group == "" && !strings.HasPrefix(i.Path, "/api/") { // below /apis every group has a name
		reply.NotFoundPage(w)
		return
	}
	kind, gvk, ok := s.cfg.Kinds.Resource(i.gvr())
	if !ok || s.delegated(kind, i) {
		s.unknown(w, r, i)
		return
	}
	c := &request{s: s, info: i, user: user}
	c.responder = responder{send: s.send, features: s.cfg.Kinds.Features(), w: w, r: r, kind: kind, facts: kind.Info(), gvk: gvk, out: gvk}
	c.warn.h = w.Header()
	if i.Verb == "watch" {
		defer c.watched()()
	}
	c.withCause()
	if err := c.route(); err != nil {
		s.send.Fail(w, r, err)
	}
}

// withCause takes over what the write was made for, from those whose word counts.
func (c *request) withCause() {
	text := c.r.Header.Get(trail.Header)
	if text == "" || c.s.cfg.Trusts == nil || c.r.Method == http.MethodGet {
		return
	}
	if cause := trail.Decode(text); cause != nil && c.s.cfg.Trusts(c.r.Context(), c.user, cause) {
		c.r = c.r.WithContext(trail.With(c.r.Context(), cause))
	}
}

// delegated says whether somebody else has been installed to answer for a kind that this process would define or compute: a
// metrics-server, say.
func (s *handler) delegated(k resource.Kind, i *info) bool {
	return k.Info().Custom && s.cfg.Groups != nil && s.cfg.Groups.Claims(i.gv())
}

// unknown answers for resources that no kind serves: another server's, or nobody's.
func (s *handler) unknown(w http.ResponseWriter, r *http.Request, i *info) {
	switch {
	case s.cfg.Groups != nil && s.cfg.Groups.Claims(i.gv()):
		s.delegate(w, aggregator.WithUser(r, i.User))
	case i.Group == "" || s.discovery.Builtin(i.Group):
		s.send.Fail(w, r, reply.Generic(http.StatusNotFound))
	default:
		reply.NotFoundPage(w)
	}
}

// delegate hands a request, which says who makes it, to whoever answers for other servers' groups.
func (s *handler) delegate(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Delegate == nil {
		s.send.Fail(w, r, apierrors.NewServiceUnavailable("the API group is served by another server, which is not connected"))
		return
	}
	s.cfg.Delegate.ServeHTTP(w, r)
}

// route finds the verb's code. A path that exists for other methods only is 405, one that exists for none 404.
func (c *request) route() error {
	methods := c.methods()
	if len(methods) == 0 {
		return c.notFound()
	}
	c.info.Known = true
	if c.info.Verb == "proxy" || !slices.Contains(methods, c.r.Method) {
		return c.noMethod()
	}
	connects := c.info.Sub != "" && stream.Serves(c.facts, c.info.Sub)
	if c.facts.Custom { // upstream warns before it looks any further
		c.deprecation()
	}
	if err := routable(c, connects); err != nil {
		return err
	}
	if !c.facts.Custom {
		c.deprecation()
	}
	if c.info.Sub != "" && c.info.Name == "" {
		return c.nameless()
	}
	if c.info.Verb == "watch" && !slices.Contains(c.facts.Verbs, "watch") {
		return unwatched(c)
	}
	if connects {
		return c.connect()
	}
	if !c.sub.GVK.Empty() {
		c.out = c.sub.GVK
	}
	var ok bool
	c.acc, ok = reply.Negotiate(c.r.Header.Get("Accept"), !c.facts.Custom, c.allows)
	if !ok {
		return reply.NotAcceptable(!c.facts.Custom, false)
	}
	c.acc.Pretty = c.acc.Pretty || reply.WantsPretty(c.r)
	return c.perform()
}

// unwatched refuses the watch of a kind that is only listed, once its options are read.
func unwatched(c *request) error {
	if c.info.bad != nil {
		return c.info.bad
	}
	if err := server.CheckListOptions(&c.info.List, true, true); err != nil {
		return err
	}
	if err := server.CheckSelectors(c.features, c.request(), &c.info.List); err != nil {
		return err
	}
	return apierrors.NewMethodNotSupported(c.gr(), "watch")
}

// routable refuses content types that upstream's router has no way for: without a warning, and before the path is looked at.
// Custom resources and connections are past that router; the type of a patch comes first with them, too.
func routable(c *request, connects bool) error {
	if connects {
		return nil
	}
	if c.info.Verb == "patch" {
		if _, err := c.patchType(); err != nil {
			return err
		}
	}
	if c.facts.Custom {
		return nil
	}
	if !reply.Routable(c.r.Header.Get("Accept"), true) {
		types := reply.Served(true)
		if c.r.Method == http.MethodGet && (c.info.Name == "" || c.info.LegacyWatch) {
			types += ", " + reply.Streamed(true)
		}
		return reply.Unrouted(types)
	}
	return nil
}

// storable refuses a name in the path that can't be part of a key, once all else that was sent is well.
func (c *request) storable() error {
	if c.info.Name != "" {
		if msgs := path.IsValidPathSegmentName(c.info.Name); len(msgs) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", c.info.Name, strings.Join(msgs, ";")))
		}
	}
	return nil
}

// notFound answers for a path that the kind does not have.
func (c *request) notFound() error {
	switch within := c.info.Namespace != ""; {
	case !c.facts.Custom:
		return reply.Generic(http.StatusNotFound)
	case c.facts.Namespaced != within:
		reply.NotFoundPage(c.w)
		return nil
	}
	c.deprecation()
	return apierrors.NewNotFound(c.gr(), c.info.Name)
}

// noMethod answers for a path that is there for other methods. With custom resources it is the verb that is missing, and only
// reading goes across namespaces.
func (c *request) noMethod() error {
	switch i := c.info; {
	case !c.facts.Custom:
		return reply.Generic(http.StatusMethodNotAllowed)
	case c.facts.Namespaced && i.Namespace == "":
		reply.NotFoundPage(c.w)
		return nil
	case i.Verb == "create" && i.Name == "" && i.Sub == "":
		return c.terminating()
	}
	c.deprecation()
	if c.info.Name == "" && c.info.Sub == "" && c.info.Verb != "proxy" { // an update or a patch
		if err := routable(c, false); err != nil {
			return err
		}
		return c.nameless()
	}
	return apierrors.NewMethodNotSupported(c.gr(), c.info.Verb)
}

// nameless refuses a path that leaves the name out.
func (c *request) nameless() error {
	if c.facts.Custom && (c.info.Verb == "list" || c.info.Verb == "watch" || c.info.Verb == "deletecollection") {
		return apierrors.NewMethodNotSupported(c.gr(), c.info.Verb)
	}
	return apierrors.NewBadRequest("name must be provided")
}

// terminating refuses to create what is being undefined.
func (c *request) terminating() error {
	req, obj := c.request(), c.kind.New(c.gvk)
	if err := c.posted(req, obj); err != nil {
		return err
	}
	return apierrors.NewForbidden(c.gr(), obj.GetName(), errors.New("create not allowed while custom resource definition is terminating"))
}

// connect hands the connection on to what the subresource stands for.
func (c *request) connect() error {
	defer c.s.meter.stream(c.info, c.r)()
	if c.info.Sub != "log" && c.r.URL.Query().Has("dryRun") {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	if err := c.mayConnect(); err != nil {
		return err
	}
	if c.s.connections == nil {
		return apierrors.NewServiceUnavailable("this API server reaches no pods, nodes and services")
	}
	req := c.request()
	err := c.s.connections.Serve(c.w, c.r, req)
	c.info.Name = req.Name
	return err
}

// mayConnect asks for the right to create as well when a connection into a pod was asked for by GET, as WebSockets are:
// who may only read must not run commands (upstream's gate AuthorizePodWebsocketUpgradeCreatePermission, on since 1.35).
func (c *request) mayConnect() error {
	switch c.info.Sub {
	case "exec", "attach", "portforward":
	default:
		return nil
	}
	if c.info.Verb == "create" || !c.features.On("AuthorizePodWebsocketUpgradeCreatePermission") {
		return nil
	}
	a := attributes(c.info, c.user)
	a.Verb = "create"
	if d, reason, _ := c.s.cfg.Authz.Authorize(c.r.Context(), a); d != auth.Allow { // what went wrong is in the reason, if anywhere
		return auth.Forbidden(a, reason)
	}
	return nil
}

// deprecation warns of the use of what will go away.
func (c *request) deprecation() {
	if c.facts.Deprecated != "" {
		c.warn.add(c.facts.Deprecated)
		c.s.meter.old.WithLabelValues(c.info.Group, c.info.Version, c.info.Res, c.info.Sub, "").Set(1)
	}
	if old, ok := c.kind.(interface {
		Deprecation(schema.GroupVersionKind) string
	}); ok {
		c.warn.add(old.Deprecation(c.gvk))
	}
}

// gr is the resource in the group that the caller named.
func (c *request) gr() schema.GroupResource { return c.info.gr() }

// methods are those that the path is served for. Upstream's custom resources answer HEAD, too.
func (c *request) methods() []string {
	list := c.served()
	if c.facts.Custom && slices.Contains(list, http.MethodGet) {
		list = append(list, http.MethodHead)
	}
	return list
}

func (c *request) served() []string {
	i := c.info
	across := c.facts.Namespaced && i.Namespace == ""
	if across && (i.Name != "" || i.Sub != "") || !c.facts.Namespaced && i.Within {
		return nil // an object without its namespace, or one with a namespace too many
	}
	verbs := c.facts.Verbs
	if i.Verb == "proxy" && !c.facts.Custom {
		return nil
	}
	if i.LegacyWatch && !c.facts.Custom { // what is built in has these paths for reading only, and not for what is below objects
		if i.Sub != "" {
			return nil
		}
		return methodsOf(verbs, []method{{"watch", http.MethodGet}})
	}
	if i.Sub != "" {
		var ok bool
		if c.sub, ok = c.s.cfg.Kinds.Sub(c.facts, c.gvk.GroupVersion(), i.Sub); !ok || (len(i.Rest) > 0 && i.Sub != "proxy") {
			return nil
		}
		if i.Sub == "proxy" {
			return anyMethod
		}
		return methodsOf(c.sub.Verbs, subMethods)
	}
	if i.Name != "" && c.facts.Custom { // an object is created under its own name, whatever the path says
		return methodsOf(verbs, subMethods)
	}
	if i.Name != "" {
		return methodsOf(verbs, objectMethods)
	}
	if across {
		return methodsOf(verbs, acrossMethods)
	}
	return methodsOf(verbs, collectionMethods)
}

var (
	objectMethods = []method{{"delete", http.MethodDelete}, {"get", http.MethodGet}, {"patch", http.MethodPatch},
		{"update", http.MethodPut}}
	subMethods        = append([]method{{"create", http.MethodPost}}, objectMethods...)
	collectionMethods = []method{{"deletecollection", http.MethodDelete}, {"list", http.MethodGet}, {"create", http.MethodPost}}
	acrossMethods     = []method{{"list", http.MethodGet}}
	anyMethod         = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
		http.MethodPost, http.MethodPut}
)

type method struct{ verb, name string }

func methodsOf(verbs []string, table []method) (list []string) {
	for _, m := range table {
		if slices.Contains(verbs, m.verb) {
			list = append(list, m.name)
		}
	}
	return list
}

// request is the call as the front door wants it.
func (c *request) request() *server.Request {
	req := &server.Request{User: c.user, Kind: c.kind, GVK: c.gvk, Namespace: c.namespace(), Name: c.info.Name,
		Sub: c.info.Sub, Agent: c.r.UserAgent(), Strict: server.FieldsWarn, Warn: c.warn.add}
	if c.w.audit != nil {
		req.Annotate = c.w.audit.Annotate
	}
	return req
}

// ops returns the operations of the kind.
func (c *request) ops() server.Operations {
	if c.s.cfg.Virtual != nil && c.facts.Virtual {
		if ops := c.s.cfg.Virtual(c.kind); ops != nil {
			return ops
		}
	}
	return c.s.cfg.Ops
}

// namespace is that of the object: the URL of a Namespace names none.
func (c *request) namespace() string {
	if !c.facts.Namespaced {
		return ""
	}
	return c.info.Namespace
}
