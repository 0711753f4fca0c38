// Package survey reads a cluster that does not explain itself, any Kubernetes, by the rights of the caller, so that package converge can
// explain it: it lists and never writes, watches or calls anything else. Values of Secrets and ConfigMaps are not asked for.
package survey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// What bounds a survey.
const (
	pageSize   = 2000    // objects asked for at once; of kinds that users defined a quarter: they are larger, as JSON
	maxObjects = 200_000 // of one kind
	readers    = 6       // lists that are read at the same time
	maxCustom  = 500     // kinds that users defined
)

// A Survey is a cluster as it was read.
type Survey struct {
	World  *converge.World
	Unseen []string // what could not be read, and why, in words
	// Outside has what was read in one namespace alone, as it may not be elsewhere, in words.
	Outside []string
}

// A survey that is being read.
type reading struct {
	raw rest.Interface
	has *catalog
	ns  string // read here alone what may not be read everywhere; "": there is no such place

	mu      sync.Mutex
	seen    int // kinds of which something could be read
	barred  error
	view    *view.View
	unseen  map[schema.GroupResource]string
	notes   map[string][]string // resources by why they could not be read
	outside map[string][]string
}

// Read reads all that explanations are made of. Kinds that the caller may not list in the whole cluster are read in ns; what can't be
// read is named in Unseen. The error is of a cluster of which nothing can be read.
func Read(ctx context.Context, raw rest.Interface, ns string, now time.Time) (*Survey, error) {
	set := kinds.NewSet()
	has, err := catalogOf(ctx, raw)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	custom := has.custom(set)
	r := &reading{raw: raw, has: has, ns: ns, view: view.New(set), unseen: map[schema.GroupResource]string{}, notes: map[string][]string{},
		outside: map[string][]string{}}
	if err != nil { // Kubernetes' own kinds are known all the same
		r.notes["you may not ask what the server serves"] = []string{"kinds that users defined"}
	}
	for _, k := range set.All() {
		if !k.Info().Virtual {
			r.unseen[k.Info().GR()] = "" // until it is read
		}
	}
	todo := make(chan resource.Kind)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for k := range todo {
				r.read(ctx, k)
			}
		})
	}
	for _, k := range slices.Concat(builtIn(), custom) {
		todo <- k
	}
	close(todo)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.seen == 0 && r.barred != nil {
		return nil, r.barred
	}
	for _, g := range slices.Compact(slices.Sorted(slices.Values(has.unread))) {
		if !slices.ContainsFunc(set.All(), func(k resource.Kind) bool { return k.Info().GVK.Group == g }) && !slices.Contains(computed, g) {
			r.notes["the server behind this group does not answer"] = append(r.notes["the server behind this group does not answer"], g)
		}
	}
	return &Survey{World: &converge.World{Read: r.view.Snapshot(), Kinds: set, Now: now, Rules: rules.All(),
		Unseen: r.unseen}, Unseen: inWords(r.notes), Outside: inWords(r.outside)}, nil
}

// World reads all that the caller may see of a cluster, and forgets what it may not.
func World(ctx context.Context, raw rest.Interface) (*converge.World, error) {
	s, err := Read(ctx, raw, "", time.Now())
	if err != nil {
		return nil, err
	}
	return s.World, nil
}

// inWords tells what could not be read, a line for every reason.
func inWords(notes map[string][]string) (list []string) {
	for _, why := range slices.Sorted(maps.Keys(notes)) {
		names := notes[why]
		slices.Sort(names)
		more := ""
		if n := len(names) - 6; n > 0 {
			names, more = names[:6], fmt.Sprintf(" and %d more kinds", n)
		}
		text := ""
		for i, name := range names {
			if i > 0 {
				text += ", "
			}
			text += name
		}
		list = append(list, text+more+": "+why)
	}
	return list
}

// read takes in the objects of a kind.
func (r *reading) read(ctx context.Context, k resource.Kind) {
	gr, only := k.Info().GR(), ""
	list, err := r.list(ctx, k, "")
	if apierrors.IsForbidden(err) && k.Info().Namespaced && r.ns != "" {
		if list, err = r.list(ctx, k, r.ns); err == nil {
			only = r.ns
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	note := func(why string) { r.notes[why] = append(r.notes[why], gr.String()) }
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		switch other := r.has.versions(gr); {
		case gr.Group != "" && len(other) > 0:
			note("the server has them as " + strings.Join(other, ", ") + ", which is not read")
		case slices.Contains(r.has.unread, gr.Group):
			note("the server behind this group does not answer")
		default: // the server has no such kind: there are none
			delete(r.unseen, gr)
		}
		return
	case apierrors.IsForbidden(err) && gr.Group == "rbac.authorization.k8s.io": // they only say whose a kind is
		return
	case apierrors.IsForbidden(err):
		if note("you may not list them"); k == resource.Kind(kinds.Pods) || r.barred == nil {
			r.barred = err
		}
		return
	case errors.Is(err, errTooMany):
		note(err.Error())
	case err != nil:
		note(err.Error())
		r.barred = err
		return
	case only != "":
		why := "outside namespace " + only + " you may not list them"
		r.outside[why] = append(r.outside[why], gr.String())
		r.unseen[gr] = only
	default:
		delete(r.unseen, gr)
	}
	r.seen++
	r.view.Replace(k, 1, list)
}

// errTooMany says that not all was read.
var errTooMany = fmt.Errorf("only %d of them were read", maxObjects)

// A page is an answer of the server.
type page struct {
	data []byte
	err  error
}

// page asks for the page of a list that begins at a token.
func (r *reading) page(ctx context.Context, k resource.Kind, ns, token string, h *how) <-chan page {
	req := r.raw.Get().AbsPath(pathOf(k, ns)).Param("limit", strconv.Itoa(h.page)).SetHeader("Accept", h.accept)
	if h.fields != "" {
		req.Param("fieldSelector", h.fields)
	}
	if token != "" {
		req.Param("continue", token)
	}
	answer := make(chan page, 1)
	go func() {
		data, err := req.DoRaw(ctx)
		answer <- page{data, err}
	}()
	return answer
}

// list reads a kind page by page; the server makes the next one while one is taken apart.
func (r *reading) list(ctx context.Context, k resource.Kind, ns string) (list []resource.Object, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h, again := howOf(k), false
	for answer, token := r.page(ctx, k, ns, "", &h), ""; ; {
		got := <-answer
		if got.err != nil {
			got.err = client.Refusal(got.data, got.err)
		}
		if apierrors.IsResourceExpired(got.err) && token != "" && !again { // it took longer than the server keeps its history: once more
			list, token, again = nil, "", true
			answer = r.page(ctx, k, ns, "", &h)
			continue
		}
		if got.err != nil {
			return nil, got.err
		}
		if token, err = h.next(got.data); err == nil && token != "" {
			answer = r.page(ctx, k, ns, token, &h)
		}
		var more []resource.Object
		if err == nil {
			more, err = h.decode(k, got.data)
		}
		if err != nil {
			return nil, fmt.Errorf("read the list of %s: %w", k.Info().GR(), err)
		}
		switch list = append(list, more...); {
		case token == "":
			return list, nil
		case len(list) >= maxObjects:
			return list, errTooMany
		}
	}
}

// pathOf has the path of a kind's list.
func pathOf(k resource.Kind, ns string) string {
	i := k.Info()
	p := "/apis/" + i.GVK.Group + "/" + i.GVK.Version
	if i.GVK.Group == "" {
		p = "/api/" + i.GVK.Version
	}
	if ns != "" {
		p += "/namespaces/" + ns
	}
	return p + "/" + i.Plural
}
