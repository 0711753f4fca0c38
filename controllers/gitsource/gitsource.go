// Package gitsource keeps the objects that Git repositories describe: one GitSource for each.
//
//	reads   GitSource, the Secret that it names, its repository; the members of its ApplySet, of any kind
//	writes  every kind: apply, delete; ConfigMap kube-system/git-NAME; GitSource: status
//	rule    what the commit describes is as it says, a change by others is taken back, what it has lost is deleted; a commit of
//	        which the server would refuse a part changes nothing
//
// It is for bootstrapping a cluster from plain manifests. Argo CD and Flux do more.
package gitsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/applyset"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds the settings of the loop.
type Config struct {
	Dir string // where the copies of repositories lie
	// Health returns a judge of the present state: it says what differs between an object and what it should be, "" for nothing.
	Health func() func(k resource.Kind, obj resource.Object) string
}

// Controller returns the loop: GitSources are of a kind that a definition makes, so it looks at objects of every kind and skips the rest.
func Controller(cfg Config) *loop.Controller[resource.Object] {
	s := &syncer{Config: cfg, known: map[string]*state{}}
	return &loop.Controller[resource.Object]{
		Name: "git-source",
		Skip: func(obj resource.Object) bool {
			return obj.GetObjectKind().GroupVersionKind().GroupKind() != Kind.GroupKind()
		},
		Wake:      []loop.Wake{{KeysOf: s.ofMember}},
		Rest:      time.Second,
		Writes:    loop.Anything,
		Reconcile: s.reconcile,
		Gone:      s.gone,
	}
}

// state remembers the last fetch of a source, which saves asking the repository again. A fetch that failed is remembered too: what git
// says of it may be another text every time, and each would wake the loop again.
type state struct {
	sync   applyset.Syncer
	spec   Spec // that was fetched for
	next   time.Time
	reason string // why that failed, in a word
	failed error  // and in many; nil: it did not

	commit, path string // what was read last
	files        applyset.Files
}

type syncer struct {
	Config

	mu    sync.Mutex
	kind  resource.Kind     // of GitSources, as the cluster serves it now
	known map[string]*state // by name
}

func setOf(name string) applyset.Set {
	return applyset.Set{Namespace: metav1.NamespaceSystem, Name: "git-" + name, Tooling: "kloop-git-source/v1"}
}

// of returns what is known of a source. One key is never reconciled twice at once, so what it returns has one user.
func (s *syncer) of(k resource.Kind, name string) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind = k
	if s.known[name] == nil {
		s.known[name] = &state{sync: applyset.Syncer{Set: setOf(name)}}
	}
	return s.known[name]
}

// ofMember wakes the source whose member changed.
func (s *syncer) ofMember(c client.Change, _ resource.Reader, wake func(loop.Key)) {
	id := c.Object().GetLabels()[applyset.PartOf]
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, st := range s.known {
		if st.sync.Set.ID() == id {
			wake(loop.Key{Kind: s.kind, Name: name})
		}
	}
}

func (s *syncer) reconcile(ctx context.Context, c *loop.Ctx, obj resource.Object) (time.Duration, error) {
	src, err := read(obj)
	if err != nil {
		return 0, err
	}
	if src.DeletionTimestamp != nil {
		return 0, nil
	}
	status := src.Status
	status.ObservedGeneration = src.Generation
	status.Conditions = slices.Clone(src.Status.Conditions)
	k := kindOf(c, obj)
	again, reason, problem := s.pass(ctx, c, src, s.of(k, src.Name), &status)
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: src.Generation}
	if problem != nil {
		ready.Status, ready.Message = metav1.ConditionFalse, problem.Error()
		c.Waiting("%v", problem)
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	if !equality.Semantic.DeepEqual(status, src.Status) {
		if problem != nil {
			c.Event(k, obj, corev1.EventTypeWarning, reason, "%s", problem)
		}
		data, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return 0, err
		}
		if err := c.Patch(ctx, k, obj, client.Patch{Type: types.MergePatchType, Data: data, Sub: "status"}); err != nil {
			return 0, err
		}
	}
	return again, ctx.Err()
}

// pass fetches if it is time, applies and prunes. It returns when to look again, and how it went.
func (s *syncer) pass(ctx context.Context, c *loop.Ctx, src source, st *state, status *Status) (again time.Duration, reason string,
	err error) {
	if src.Spec.Suspend {
		return 0, "Suspended", nil
	}
	reason, err = st.observe(src.Spec, c.Now, func() (string, error) { return s.fetch(ctx, c, src, st) })
	if ctx.Err() != nil { // it was cut short, which says nothing of the repository
		st.next = time.Time{}
	}
	if again = max(st.next.Sub(c.Now()), time.Second); err != nil {
		return again, reason, err
	}
	status.Attempted = st.commit
	if len(st.files.Bad) > 0 {
		file := slices.Min(slices.Collect(maps.Keys(st.files.Bad)))
		return again, "BadManifests", fmt.Errorf("commit %.12s is held: %w", st.commit, st.files.Bad[file])
	}
	if len(st.files.Want) == 0 {
		return again, "NoManifests", fmt.Errorf("commit %.12s holds no manifests at %q: nothing is changed or deleted", st.commit, src.Spec.Path)
	}
	lost := st.files.Lost("git")
	if p := src.Spec.Prune; p != nil && !*p {
		lost = func(string) bool { return false }
	}
	r, err := st.sync.Sync(ctx, c, applyset.Source{Want: st.files.Want, Lost: lost, Whole: true})
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return min(again, 5*time.Second), "NotApplied", fmt.Errorf("commit %.12s is held: %w", st.commit, err)
	}
	status.Commit, status.Objects = st.commit, len(st.files.Want)
	if len(r.Kept) > 0 {
		c.Waiting("the repository does not describe %v any more, and it is kept for what goes with it", r.Kept)
	}
	healthy := metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Converged", ObservedGeneration: src.Generation}
	if ill := s.ill(c, st.files.Want); ill != "" {
		healthy.Status, healthy.Reason, healthy.Message = metav1.ConditionFalse, "Converging", ill
		again = min(again, 5*time.Second)
	}
	meta.SetStatusCondition(&status.Conditions, healthy)
	return again, "Applied", nil
}

// observe has the files of the commit that the source follows: asked for at its interval, and at once when its spec changed.
func (st *state) observe(spec Spec, now func() time.Time, fetch func() (reason string, err error)) (reason string, err error) {
	if !equality.Semantic.DeepEqual(st.spec, spec) || !now().Before(st.next) {
		st.reason, st.failed = fetch()
		st.spec, st.next = spec, now().Add(spec.Interval.Duration)
	}
	return st.reason, st.failed
}

// fetch asks the repository, and reads the files if they may be others than before.
func (s *syncer) fetch(ctx context.Context, c *loop.Ctx, src source, st *state) (reason string, err error) {
	var secret secrets
	if name := src.Spec.SecretName; name != "" {
		found, err := client.Find(ctx, c.Client(), kinds.Secrets, metav1.NamespaceSystem, name)
		if err != nil {
			return "NoSecret", fmt.Errorf("read its credentials: %w", err)
		}
		secret = found.Data
	}
	repo := repository{filepath.Join(s.Dir, string(src.UID))}
	commit, err := repo.fetch(ctx, src.Spec, secret)
	if err != nil {
		return "FetchFailed", err
	}
	if commit != st.commit || st.path != src.Spec.Path {
		tree, err := repo.files(ctx, commit, src.Spec.Path)
		if err != nil {
			return "FetchFailed", err
		}
		l, err := applyset.List(tree)
		if err != nil {
			return "BadManifests", fmt.Errorf("commit %.12s is held: %w", commit, err)
		}
		files, err := applyset.Read(tree, l, "git")
		if err != nil {
			return "BadManifests", fmt.Errorf("commit %.12s is held: %w", commit, err)
		}
		st.files, st.commit, st.path = files, commit, src.Spec.Path
	}
	return "", nil
}

// ill names the first of the objects that are not what they should be.
func (s *syncer) ill(c *loop.Ctx, want []applyset.Wish) string {
	if s.Health == nil {
		return ""
	}
	health := s.Health()
	n, first := 0, ""
	for _, w := range want {
		k, ok := c.Client().Kinds().GroupKind(w.Object.GroupVersionKind().GroupKind())
		if !ok {
			continue
		}
		ns := w.Object.GetNamespace()
		if k.Info().Namespaced && ns == "" {
			ns = metav1.NamespaceDefault
		} else if !k.Info().Namespaced {
			ns = ""
		}
		if obj := c.Lookup(k, ns, w.Object.GetName()); obj != nil {
			if says := health(k, obj); says != "" {
				if n++; n == 1 {
					first = k.Info().Singular + "/" + obj.GetName() + " " + says
				}
			}
		}
	}
	if n > 1 {
		return fmt.Sprintf("%s, and %d more", first, n-1)
	}
	return first
}

// gone forgets a source, and its copy. What it applied stays: a person who deletes the source need not mean the objects.
func (s *syncer) gone(_ context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	s.mu.Lock()
	delete(s.known, key.Name)
	s.mu.Unlock()
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if !s.used(c, key.Kind, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	return 0, err
}

func (s *syncer) used(c *loop.Ctx, k resource.Kind, uid string) bool {
	for obj := range c.Each(k, "") {
		if string(obj.GetUID()) == uid {
			return true
		}
	}
	return false
}

func kindOf(c *loop.Ctx, obj resource.Object) resource.Kind {
	k, _ := c.Client().Kinds().GroupKind(obj.GetObjectKind().GroupVersionKind().GroupKind())
	return k
}
