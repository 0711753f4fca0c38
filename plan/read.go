package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// What bounds a reading.
const (
	maxObjects = 500_000
	pageSize   = "500"
	readers    = 4               // lists at once
	longest    = 2 * time.Minute // for the whole
)

// leftOut are kinds that a simulation makes for itself or has no use for: events, and the heartbeats of nodes that are not there.
var leftOut = []resource.Kind{kinds.Events, kinds.Leases, kinds.CertificateSigningRequests, kinds.PodCertificateRequests,
	kinds.ComponentStatuses}

// Read forks a cluster over its API, with the rights of cfg; it only lists. What may not be listed in all namespaces is listed in
// namespace, if that is set; the fork tells of what may not be listed at all.
func Read(ctx context.Context, cfg *rest.Config, namespace string) (*Fork, error) {
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.UserAgent = -1, "kloop-plan"
	raw, err := client.Raw(cfg)
	if err != nil {
		return nil, err
	}
	f := &Fork{At: time.Now().UTC().Truncate(time.Second), Server: cfg.Host}
	r := &reader{raw: raw, ns: namespace, fork: f}
	if err := r.version(ctx); err != nil {
		return nil, err
	}
	var list []resource.Kind
	for _, k := range kinds.All() {
		if i := k.Info(); !i.Virtual && slices.Contains(i.Verbs, "list") && !slices.Contains(leftOut, k) && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	if err := r.all(ctx, list); err != nil {
		return nil, err
	}
	var defined []resource.Kind
	for def := range each(f, kinds.CustomResourceDefinitions) {
		if k, ok := custom(def); ok {
			defined = append(defined, k)
		}
	}
	if err := r.all(ctx, defined); err != nil {
		return nil, err
	}
	coldsort.StableFunc(f.objects, func(a, b item) int { return cmp.Compare(rank(a.kind), rank(b.kind)) })
	return f, nil
}

// rank puts definitions first: what they define is read with their help.
func rank(k resource.Kind) int {
	switch {
	case k == resource.Kind(kinds.CustomResourceDefinitions):
		return 0
	case k.Info().Custom:
		return 2
	}
	return 1
}

type reader struct {
	raw  rest.Interface
	ns   string
	fork *Fork

	mu    sync.Mutex
	count int
}

func (r *reader) version(ctx context.Context) error {
	data, err := r.raw.Get().AbsPath("/version").DoRaw(ctx)
	if err = refusal(data, err); apierrors.IsForbidden(err) {
		return nil // the newest is taken, which the report tells
	}
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", r.fork.Server, err)
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("read the version of %s: %w", r.fork.Server, err)
	}
	r.fork.Version = v.GitVersion
	return nil
}

// A result holds the objects of one kind.
type result struct {
	objects []resource.Object
	unseen  string
	err     error
}

// all lists the kinds, a few at once, and takes them in in their order.
func (r *reader) all(ctx context.Context, list []resource.Kind) error {
	results := make([]result, len(list))
	next := make(chan int)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for i := range next {
				results[i] = r.kind(ctx, list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
	for i, res := range results {
		if res.err != nil {
			return fmt.Errorf("list %s: %w", list[i].Info().GR(), res.err)
		}
		if res.unseen != "" {
			r.fork.hide(list[i].Info().GR(), res.unseen)
		}
		for _, obj := range res.objects {
			r.fork.objects = append(r.fork.objects, item{list[i], obj})
		}
	}
	return nil
}

// kind lists one kind in the version that is stored, or in another that the server has.
func (r *reader) kind(ctx context.Context, k resource.Kind) (res result) {
	for _, gvk := range k.Info().Served() {
		objects, err := r.pages(ctx, k, gvk, "")
		if apierrors.IsForbidden(err) {
			res.unseen = k.Info().Plural + unlisted
			if k.Info().Namespaced && r.ns != "" {
				if objects, err = r.pages(ctx, k, gvk, r.ns); err == nil {
					res.unseen = k.Info().Plural + " in namespaces other than " + r.ns + unlisted
				}
			}
		}
		switch {
		case apierrors.IsForbidden(err):
			return res
		case apierrors.IsNotFound(err):
			continue // the next version
		case err != nil && k.Info().Custom && ctx.Err() == nil && !errors.Is(err, errTooLarge): // its conversion webhook is down
			return result{unseen: fmt.Sprintf("%s: the server can't list them: %v", k.Info().GR(), err)}
		case err != nil:
			return result{err: err}
		}
		res.objects = objects
		return res
	}
	return result{}
}

func (r *reader) pages(ctx context.Context, k resource.Kind, gvk schema.GroupVersionKind, ns string) (all []resource.Object, err error) {
	accept := codec.Protobuf + "," + codec.JSON
	if k.Info().Custom {
		accept = codec.JSON
	}
	for next, again := "", 0; ; {
		req := r.raw.Get().AbsPath(pathOf(k, gvk, ns)).Param("limit", pageSize).SetHeader("Accept", accept)
		if next != "" {
			req.Param("continue", next)
		}
		data, err := req.DoRaw(ctx)
		err = refusal(data, err)
		if expired(err) && again < 3 { // the pages took too long: from the start
			all, next, again = nil, "", again+1
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := openPage(k, gvk, data)
		clear(data)
		if err != nil {
			return nil, err
		}
		for _, obj := range p.objects {
			redact(obj)
			hub, err := k.ConvertTo(ctx, obj, k.Info().GVK)
			if err != nil {
				return nil, err
			}
			all = append(all, hub)
		}
		if err := r.counted(len(p.objects)); err != nil {
			return nil, err
		}
		if next = p.next; next == "" {
			return all, nil
		}
	}
}

// refusal is the server's own word on an error.
func refusal(data []byte, err error) error {
	if err == nil {
		return nil
	}
	return client.Refusal(data, err)
}

// expired says that the server no longer has the state that the pages are of.
func expired(err error) bool {
	var st apierrors.APIStatus
	return errors.As(err, &st) && st.Status().Code == http.StatusGone
}

var errTooLarge = errors.New("the cluster is too large to be forked")

func (r *reader) counted(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count += n; r.count > maxObjects {
		return fmt.Errorf("%w: more than %d objects", errTooLarge, maxObjects)
	}
	return nil
}

func pathOf(k resource.Kind, gvk schema.GroupVersionKind, ns string) string {
	parts := []string{"/apis", gvk.Group, gvk.Version}
	if gvk.Group == "" {
		parts = []string{"/api", gvk.Version}
	}
	if ns != "" {
		parts = append(parts, "namespaces", ns)
	}
	return strings.Join(append(parts, k.Info().Plural), "/")
}
