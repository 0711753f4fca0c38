package cluster

import (
	"context"
	"errors"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/view"
)

// An explainer says what has not converged, to those who ask the API for it.
type explainer struct {
	*server.MemoryKinds
	board   board
	callers *converge.Callers
	loops   *converge.Processes

	authorize auth.Authorizer // what readers may see
}

// A board keeps what has not converged.
type board interface {
	Run(ctx context.Context) error
	World() *converge.World
	Refresh(ctx context.Context, k resource.Kind) error
}

// serveGaps makes the API convergence.kloop.dev. It must be called before the API serves.
func (d *frontDoor) serveGaps(docs *openapi.Docs, authz auth.Authorizer) error {
	for gvk, s := range gapSchemas() {
		if err := docs.AddSchema(gvk, s); err != nil {
			return err
		}
	}
	loops := &converge.Processes{Here: d.c.Loops, Self: d.c.name, Kinds: d.set, Read: d.read}
	if d.c.storage.shared() && !d.c.cfg.NoLoops {
		loops.Lease = leaderSpace + "/" + leaderLease
	}
	callers := &converge.Callers{Others: loops, Ours: func(gr schema.GroupResource) bool {
		return gr.Group == "metallb.io" && (d.c.cfg.NoLoops || d.c.cfg.LoadBalancer == "pools") // loops elsewhere may have pools
	}}
	d.unwell = &selfCheck{door: d}
	loops.Own = d.unwell.last.Load
	if far := d.c.elsewhere; far != nil {
		d.explainer = &explainer{far.gaps(), far, callers, loops, authz}
	} else {
		cache := &gaps.Cache{Client: d.local(nodesUser, "kloop"), Loops: loops, Callers: callers, Log: d.log,
			Rules: d.c.cfg.Kit.Explain}
		shelf := server.NewMemoryKinds(cache.Refresh, convergence.All()...)
		cache.Store = shelf
		d.explainer = &explainer{shelf, cache, callers, loops, authz}
	}
	d.metrics.MustRegister(gapFigures{d.explainer})
	return d.serveVirtual(d.explainer, append(convergence.All(), convergence.Reports)...)
}

// explainers lets all who may view a namespace read what has not converged in it.
func explainers() resource.Object {
	return &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "system:kloop:view-convergence",
			Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{convergence.GroupVersion.Group}, Resources: []string{"gaps", "fights"},
			Verbs: []string{"get", "list", "watch"}}}}
}

// reporter may tell of loops that run elsewhere, and what their writes are made for.
const reporter = "system:kloop:report-convergence"

// reporters lets the users that upstream's controller manager and scheduler have tell of the loops that they run, and nodes of theirs.
func reporters() []resource.Object {
	group := rbacv1.GroupName
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: group, Kind: rbacv1.UserKind, Name: name}
	}
	return []resource.Object{
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: group + "/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: reporter},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{convergence.GroupVersion.Group}, Resources: []string{"reports"},
				Verbs: []string{"create"}}}},
		&rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: group + "/v1", Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: reporter},
			RoleRef:    rbacv1.RoleRef{APIGroup: group, Kind: "ClusterRole", Name: reporter},
			Subjects: []rbacv1.Subject{user("system:kube-controller-manager"), user("system:kube-scheduler"),
				{APIGroup: group, Kind: rbacv1.GroupKind, Name: auth.GroupNodes}}},
	}
}

// trusts says whether a user may tell what its writes are made for: users who may report may, and a node's agent may about its pods.
func trusts(authz auth.Authorizer) func(ctx context.Context, u *auth.User, c *trail.Cause) bool {
	return func(ctx context.Context, u *auth.User, c *trail.Cause) bool {
		if _, node := u.NodeName(); node {
			return c.Loop == "node" && c.Key.Resource == "pods"
		}
		d, _, err := authz.Authorize(ctx, &auth.Attributes{User: u, Verb: "create", Group: convergence.GroupVersion.Group,
			Version: convergence.GroupVersion.Version, Resource: "reports"})
		return err == nil && d == auth.Allow
	}
}

// witness sees what clients do; nil: nobody does.
func (d *frontDoor) witness() httpapi.Witness {
	if d.explainer == nil {
		return nil
	}
	return d.explainer
}

// look keeps the explanations.
func (d *frontDoor) look(ctx context.Context, ready func()) error {
	if d.explainer == nil {
		ready()
		<-ctx.Done()
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	shelf := make(chan error, 1)
	go func() {
		defer stop()
		shelf <- d.explainer.Run(ctx, ready)
	}()
	err := d.explainer.board.Run(ctx)
	stop()
	return errors.Join(err, <-shelf)
}

// Get implements server.Operations: a gap can be asked for also when a greater one tells it.
func (o *explainer) Get(ctx context.Context, r *server.Request, opts *metav1.GetOptions) (*view.Entry, error) {
	e, err := o.MemoryKinds.Get(ctx, r, opts)
	if apierrors.IsNotFound(err) && r.Kind == convergence.Gaps {
		if told := o.explained(r); told != nil {
			e, err = told, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if s := o.sight(ctx, r); s != nil {
		if e = s.shown(ctx, o.board.World(), r.Kind, e); e == nil {
			return nil, apierrors.NewNotFound(r.Kind.Info().GR(), r.Name)
		}
	}
	return e, nil
}

// explained is the gap that the request names, or what keeps the object at rest, made for it; nil: there is neither.
func (o *explainer) explained(r *server.Request) *view.Entry {
	gr, name, err := convergence.ParseName(r.Name)
	if err != nil {
		return nil
	}
	w := o.board.World()
	k, ok := w.Kinds.GR(gr)
	if !ok || k.Info().Virtual {
		return nil
	}
	ns := r.Namespace
	if !k.Info().Namespaced {
		ns = ""
	}
	obj := w.Read.Lookup(k, ns, name)
	if obj == nil {
		return nil
	}
	g := w.Rest(k, obj)
	if step := w.Explain(k, obj); step != nil {
		g = step.Gap()
	}
	if g == nil {
		return nil
	}
	return view.NewEntry(r.Kind, 0, g)
}

// Watching notes that a loop of this process, which the cluster did not start, watches a kind that users define. Without, objects of the
// kind seem to have no controller. The returned function ends it.
func Watching(c *Cluster, gr schema.GroupResource, loop string) (ended func()) {
	if c.door.explainer == nil {
		return func() {}
	}
	return c.door.explainer.callers.Watching(gr, loop)
}

// Call implements server.Operations: a report is taken in.
func (o *explainer) Call(ctx context.Context, r *server.Request, verb string, in resource.Object) (resource.Object, error) {
	report, ok := in.(*convergence.Report)
	if !ok {
		return o.MemoryKinds.Call(ctx, r, verb, in)
	}
	var out *convergence.Report
	if node, is := r.User.NodeName(); is {
		out = o.loops.TakeAgent(node, report)
	} else {
		out = o.loops.Take(report)
	}
	out.SetGroupVersionKind(convergence.Reports.GVK)
	return out, nil
}

// Watching implements httpapi.Witness.
func (o *explainer) Watching(gr schema.GroupResource, agent string) (ended func()) {
	return o.callers.Watching(gr, agent)
}

// disruptionBudget is policyv1.DisruptionBudgetCause, whose package would bring its kinds.
const disruptionBudget metav1.CauseType = "DisruptionBudget"

// Refused implements httpapi.Witness. Conflicts and names that do not exist are daily business.
func (o *explainer) Refused(a httpapi.Act, st *metav1.Status) {
	switch st.Reason {
	case metav1.StatusReasonTooManyRequests:
		if why, of := apierrors.StatusCause(&apierrors.StatusError{ErrStatus: *st}, disruptionBudget); of &&
			a.Resource.Resource == "pods" {
			o.callers.Blocked(a.Namespace, a.Name, a.Agent, why.Message)
		}
	case metav1.StatusReasonUnknown: // upstream gives this one no reason
		if a.Resource.Resource == "pods" && words.SeveralBudgets(st.Message) {
			o.callers.Blocked(a.Namespace, a.Name, a.Agent, st.Message)
		}
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonInternalError, metav1.StatusReasonBadRequest:
		o.callers.Refused(converge.Refusal{User: a.User, Agent: a.Agent, Verb: a.Verb, Message: st.Message,
			Forbidden: st.Reason == metav1.StatusReasonForbidden && strings.Contains(st.Message, " cannot ")}, a.Resource, a.Namespace, a.Name)
	}
}

// Wrote implements httpapi.Witness.
func (o *explainer) Wrote(a httpapi.Act) { o.callers.Took(a.User, a.Resource, a.Namespace, a.Name) }
