package cluster

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/past"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/view"
)

// makePast makes what answers for the past, if writers are remembered.
func (b *builder) makePast() error {
	d := b.frontDoor
	if d.trail == nil {
		return nil
	}
	key, _ := b.c.keys.ServiceAccount()
	cfg := history.Config{Secret: standInKey(key), Log: d.log}
	if b.c.cfg.DataDir != "" {
		cfg.Dir = filepath.Join(b.c.cfg.DataDir, "history")
	}
	if s, ok := d.store.(kit.Sealed); ok {
		cfg.Cipher = s
	}
	a := &archive{frontDoor: d, authorize: b.authz}
	a.desk = &past.Desk{History: history.New(cfg), View: d.view, Fresh: a.fresh, Kinds: d.set, Now: time.Now,
		Rules: d.c.cfg.Kit.Explain, Writes: a.writes,
		Reader: func(r *http.Request) past.Reader { return a.sight(r) }}
	d.past = a
	return nil
}

// An archive answers for the past.
type archive struct {
	*frontDoor
	desk      *past.Desk
	authorize auth.Authorizer
}

// fresh waits for what is acknowledged by now, once there is a server that knows of it.
func (a *archive) fresh(ctx context.Context) (*view.Snapshot, error) { return a.server.Fresh(ctx) }

// standInKey makes stand-ins for values of Secrets the same after a restart, on all servers, and impossible to guess from the value.
func standInKey(key crypto.Signer) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil { // the key is somewhere else: values look new after a restart
		der = make([]byte, sha256.Size)
		_, _ = rand.Read(der) // never fails
	}
	sum := sha256.Sum256(append([]byte("kloop history\x00"), der...))
	return sum[:]
}

// keep follows what changes. Without an archive nothing is kept.
func (a *archive) keep(ctx context.Context, ready func()) error {
	if a == nil {
		ready()
		<-ctx.Done()
		return nil
	}
	return a.desk.History.Run(ctx, a.view, ready)
}

// A hindsight limits one reader of the past.
type hindsight struct {
	*sight
}

func (a *archive) sight(r *http.Request) *hindsight {
	u := aggregator.UserOf(r.Context())
	if u == nil { // nobody sees nothing
		u = &auth.User{}
	}
	return &hindsight{newSight(a.authorize, u)}
}

// Sees implements past.Reader.
func (h *hindsight) Sees(ctx context.Context, k resource.Kind, ns, name string) bool {
	return h.user.In(auth.GroupMasters) || h.sees(ctx, convergence.Object{Resource: k.Info().GR().String(), Namespace: ns, Name: name})
}

// Trail implements past.Reader.
func (h *hindsight) Trail(ctx context.Context) bool {
	d, _, err := h.authorize.Authorize(ctx, &auth.Attributes{User: h.user, Verb: "get", Group: serverGroup, Version: "v1", Resource: "trail"})
	return h.user.In(auth.GroupMasters) || err == nil && d == auth.Allow
}

// traced answers with the trail of an object. Who may not read the trail of all writes gets what the rights to read objects leave of it.
func (a *archive) traced(w http.ResponseWriter, r *http.Request) {
	ctx, who, q := r.Context(), a.sight(r), r.URL.Query()
	if who.Trail(ctx) {
		a.trail.Serve(w, r, trail.Telling{Others: a.others})
		return
	}
	object := trail.Ref{Resource: q.Get("resource"), Namespace: q.Get("namespace"), Name: q.Get("name")}
	if q.Get("all") != "" || object.Resource == "" || !who.refSeen(ctx, object) {
		gr, status := schema.ParseGroupResource(object.Resource), new(apierrors.StatusError)
		errors.As(auth.Forbidden(&auth.Attributes{User: who.user, Verb: "get", Group: gr.Group, Resource: gr.Resource, Path: trail.Page,
			Namespace: object.Namespace, Name: object.Name}, "its trail is for who may get it or the resource \"trail\" in API group \""+
			serverGroup+"\""), &status)
		refuse(w, status)
		return
	}
	a.trail.Serve(w, r, trail.Telling{Others: a.others, Filter: who.cover})
}

// refSeen says that the reader may get an object of the trail.
func (h *hindsight) refSeen(ctx context.Context, o trail.Ref) bool {
	return h.sees(ctx, convergence.Object{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name})
}

// mostKnown bounds what is remembered of a reader's rights.
const mostKnown = 10_000

// cover is the Filter of a trail.Telling: objects that the reader may not get have no name, and users none at all.
func (h *hindsight) cover(ctx context.Context, w *trail.Write) {
	if len(h.known) > mostKnown { // a reader may follow for an hour
		clear(h.known)
	}
	w.Hide()
	if !h.refSeen(ctx, w.Ref) {
		w.Ref, w.What, w.UID, w.OwnerKind, w.OwnerName = trail.Ref{Rev: w.Rev}, "", "", "", ""
	}
	if w.Cause == nil {
		return
	}
	hide := func(o *trail.Ref) {
		if !h.refSeen(ctx, *o) {
			*o = trail.Ref{Rev: o.Rev}
		}
	}
	hide(&w.Cause.Key)
	for i := range w.Cause.Woken {
		hide(&w.Cause.Woken[i])
	}
}

// writes collects those that this server knows of, and the others that share its store.
func (a *archive) writes(ctx context.Context, since time.Time) (list []trail.Write, notes []string) {
	list, err := a.trail.All(since, trail.MostTold, func(*trail.Write) bool { return true })
	if err != nil {
		notes = append(notes, err.Error())
	}
	more, missing := a.others(ctx, since)
	return append(list, more...), append(notes, missing...)
}

// others collects the writes that the other servers know of.
func (a *archive) others(ctx context.Context, since time.Time) (list []trail.Write, notes []string) {
	for _, at := range a.servers() {
		more, err := a.writesOf(ctx, at, since)
		if err != nil {
			notes = append(notes, fmt.Sprintf("who wrote by the server %s is not known: %v", at, err))
		}
		list = append(list, more...)
	}
	return list, notes
}

// writesOf asks another server.
func (a *archive) writesOf(ctx context.Context, at string, since time.Time) (list []trail.Write, err error) {
	ctx, stop := context.WithTimeout(ctx, tellLimit)
	defer stop()
	cfg, err := a.c.restOf("https://"+at, serverUser)
	if err != nil {
		return nil, err
	}
	raw, err := a.c.raw(cfg)
	if err != nil {
		return nil, err
	}
	q := url.Values{"all": {"true"}, "since": {time.Since(since).String()}}
	body, err := raw.Get().RequestURI(trail.Page + "?" + q.Encode()).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	for dec := json.NewDecoder(body); ; {
		var w trail.Write
		if err := dec.Decode(&w); err == io.EOF || len(list) == trail.MostTold {
			return list, nil
		} else if err != nil {
			return list, err
		}
		list = append(list, w)
	}
}

// gaps answers what was not what it should be at a time: of a namespace, or of one object.
func (a *archive) gaps(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	at, err := time.Parse(time.RFC3339Nano, q.Get("at"))
	if err != nil || at.After(time.Now()) {
		refuse(w, apierrors.NewBadRequest("at: use a time that is over, like "+time.Now().UTC().Format(time.RFC3339)))
		return
	}
	world, notes, err := a.desk.World(r.Context(), at)
	if err != nil {
		refuse(w, apierrors.NewInternalError(err))
		return
	}
	who := a.sight(r)
	var list []*convergence.Gap
	if name := q.Get("name"); name != "" {
		g, err := a.gap(r.Context(), world, who, q)
		if err != nil {
			refuse(w, err)
			return
		}
		if g != nil {
			list = append(list, g)
		}
	} else {
		list, _ = gaps.List(world, q.Get("namespace"))
	}
	out := struct {
		Items []*convergence.Gap `json:"items"`
		Notes []string           `json:"notes,omitempty"`
	}{[]*convergence.Gap{}, notes}
	for _, g := range list {
		who.spaces[g.Namespace] = true
	}
	for _, g := range list {
		if g = who.shownThen(r.Context(), world, g); g != nil {
			converge.Foreign(g)
			out.Items = append(out.Items, g)
		}
	}
	reply(w, out)
}

// gap explains one object, or what kept it at rest; nil: it was what it should be.
func (a *archive) gap(ctx context.Context, world *converge.World, who *hindsight, q url.Values) (*convergence.Gap, *apierrors.StatusError) {
	for _, k := range a.set.All() {
		gr := k.Info().GR()
		if gr.String() != q.Get("resource") {
			continue
		}
		ns, name := q.Get("namespace"), q.Get("name")
		if !k.Info().Namespaced {
			ns = ""
		}
		obj := world.Read.Lookup(k, ns, name)
		if obj == nil || !who.Sees(ctx, k, ns, name) {
			return nil, apierrors.NewNotFound(gr, name)
		}
		if step := world.Explain(k, obj); step != nil {
			return step.Gap(), nil
		}
		return world.Rest(k, obj), nil
	}
	return nil, apierrors.NewBadRequest("resource: there is none named " + q.Get("resource"))
}

// shownThen is a gap as the reader may see it; nil: it may not.
func (h *hindsight) shownThen(ctx context.Context, world *converge.World, g *convergence.Gap) *convergence.Gap {
	if h.user.In(auth.GroupMasters) {
		return g
	}
	return h.retold(ctx, world, g)
}
