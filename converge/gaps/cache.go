package gaps

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/maphash"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A Store holds the kinds of the convergence API for clients to read; *server.MemoryKinds is one.
type Store interface {
	Change(ctx context.Context, k resource.Kind, put, off []resource.Object) error
	Watched() bool // somebody watches what is on it
}

// What bounds a Cache.
const (
	maxGaps  = 5000             // that are shown
	maxDirty = 1 << 16          // objects that changed since the last pass; more mean: look at all
	maxAgain = 512              // known gaps that a pass looks at again without a change of theirs
	beat     = time.Second      // at least between two passes while somebody watches
	share    = 50               // times what a pass took is the rest after it
	slowest  = 10 * time.Second // and at most this
	young    = 2 * time.Second  // a gap of this age is nothing to speak of, unless something is in its way
	fightFor = 10 * time.Minute // how long a fight is shown after its last turn, at least
)

// A Cache keeps the gaps of a cluster. While nobody asks it only watches for fights; the first question makes it look
// at everything, and then it looks at what changes, until nobody has asked for five minutes.
type Cache struct {
	Client  client.Client // reads and feed
	Loops   *converge.Processes
	Callers *converge.Callers
	Store   Store
	Rules   converge.Rules
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: the default logger

	mu              sync.Mutex
	asked           time.Time // when somebody last asked; zero: not for long, and nothing is kept
	all             bool      // look at everything
	dirty           map[loop.Key]bool
	known           map[loop.Key]entry
	published       int
	fights          fights
	publishedFights map[string]uint64 // fights in the store, by key
	loops           map[string]bool   // loops in the store
	kick            chan struct{}
}

// entry is an object that is not what it should be.
type entry struct {
	published bool
	sum       uint64 // of the gap as it was put into the store
	name      string
	ns        string
}

func (b *Cache) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// Run listens to all changes until ctx ends.
func (b *Cache) Run(ctx context.Context) error {
	b.mu.Lock()
	b.kick = make(chan struct{}, 1)
	b.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { b.keep(ctx) })
	feed := b.Client.Feed()
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			return nil // the context ended
		}
		b.take(batch)
	}
}

// Take notes what changed, in place of the feed of a Client: of a Cache without one only fights can be asked for.
func (b *Cache) Take(batch client.Batch) { b.take(batch) }

// take notes what changed.
func (b *Cache) take(batch client.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if batch.Reset {
		b.all = true
	}
	now := b.now()
	for i := range batch.Changes {
		c := &batch.Changes[i]
		b.fights.see(c, now)
		if b.asked.IsZero() || b.all || noise[c.Kind.Info().GR()] && (c.Kind != resource.Kind(core.Events) ||
			resource.As[*corev1.Event](c.Object()).Type != corev1.EventTypeWarning) {
			continue
		}
		if b.dirty == nil {
			b.dirty = map[loop.Key]bool{}
		}
		b.dirty[loop.KeyOf(c.Kind, c.Object())] = true
		if len(b.dirty) > maxDirty {
			b.all, b.dirty = true, nil
		}
	}
}

// warnedOf is the object that an event is about; of no kind if that is not known.
func warnedOf(w *converge.World, key loop.Key) loop.Key {
	e := resource.Get(w.Read, core.Events, key.Namespace, key.Name)
	if e == nil {
		return loop.Key{}
	}
	about := e.InvolvedObject
	k, ok := w.KindOf(schema.FromAPIVersionAndKind(about.APIVersion, about.Kind))
	if !ok {
		return loop.Key{}
	}
	if !k.Info().Namespaced {
		about.Namespace = ""
	}
	return loop.Key{Kind: k, Namespace: about.Namespace, Name: about.Name}
}

// noise are kinds that change often and never have a gap; an event that warns may tell of one.
var noise = map[schema.GroupResource]bool{{Resource: "events"}: true, {Group: "coordination.k8s.io", Resource: "leases"}: true}

// keep looks again every second while somebody watches, and forgets everything when nobody has asked for long.
func (b *Cache) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.kick:
		}
		for rest := beat; b.wanted(); {
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
			if rest = beat; !b.Store.Watched() {
				continue
			}
			began := b.now()
			if err := b.Refresh(ctx, convergence.Gaps); err != nil && ctx.Err() == nil {
				b.log().Warn("look for gaps", "err", err)
			}
			rest = restAfter(b.now().Sub(began))
		}
		if err := b.forget(ctx); err != nil && ctx.Err() == nil {
			b.log().Warn("forget the gaps", "err", err)
		}
	}
}

// restAfter is the time to rest after a pass that took so long: a large cluster in turmoil is looked at less often, so that
// who watches costs no more than a fiftieth of a core.
func restAfter(took time.Duration) time.Duration {
	return min(max(beat, share*took), slowest)
}

func (b *Cache) log() *slog.Logger {
	if b.Log != nil {
		return b.Log
	}
	return slog.Default()
}

func (b *Cache) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now().Sub(b.asked) < converge.Patience
}

// forget empties the cache: nobody looks at it.
func (b *Cache) forget(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var off []resource.Object
	for _, e := range b.known {
		if e.published {
			off = append(off, &convergence.Gap{ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: e.name}})
		}
	}
	b.asked, b.dirty, b.known, b.published = time.Time{}, nil, nil, 0
	return b.Store.Change(ctx, convergence.Gaps, nil, off)
}

// Refresh brings what is in the store of one of the kinds up to date. It is called before every read.
func (b *Cache) Refresh(ctx context.Context, k resource.Kind) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch k {
	case resource.Kind(convergence.Loops):
		return b.showLoops(ctx)
	case resource.Kind(convergence.Fights):
		return b.showFights(ctx)
	}
	if b.asked.IsZero() {
		b.all, b.known = true, map[loop.Key]entry{}
		select {
		case b.kick <- struct{}{}:
		default:
		}
	}
	b.asked = b.now()
	return b.pass(ctx)
}

// World returns what explanations are made of, as it is now.
func (b *Cache) World() *converge.World {
	return &converge.World{Read: b.Client.Read(), Kinds: b.Client.Kinds(), Loops: b.Loops, Callers: b.Callers, Now: b.now(), Rules: b.Rules}
}

// pass looks at what may have changed and puts the difference into the store.
func (b *Cache) pass(ctx context.Context) error {
	w := b.World()
	var put, off []resource.Object
	for key := range b.due(w) {
		old := b.known[key]
		e, gap := b.judge(w, key, old)
		switch {
		case gap != nil:
			put = append(put, gap)
		case old.published && !e.published:
			off = append(off, &convergence.Gap{ObjectMeta: metav1.ObjectMeta{Namespace: old.ns, Name: old.name}})
			b.published--
		}
		if e.name == "" {
			delete(b.known, key)
			continue
		}
		b.known[key] = e
	}
	return b.Store.Change(context.WithoutCancel(ctx), convergence.Gaps, put, off) // what is known to be shown must be
}

// judge explains one object. The entry is empty when it is as it should be; the gap is nil when the store has it already,
// or is not to have it.
func (b *Cache) judge(w *converge.World, key loop.Key, old entry) (e entry, gap *convergence.Gap) {
	obj := w.Read.Lookup(key.Kind, key.Namespace, key.Name)
	if obj == nil {
		return entry{}, nil
	}
	e = entry{ns: cmp.Or(key.Namespace, "default"), name: convergence.NameOf(key.Kind.Info().GR(), key.Name)}
	if toldByOwner(w, obj) && !w.Health(key.Kind, obj).Converged() {
		return e, nil
	}
	w.Until = time.Time{}
	s := w.Explain(key.Kind, obj)
	if s == nil && !w.Until.IsZero() {
		return e, nil // it may have a gap later, though nothing changes
	}
	if s == nil {
		return entry{}, nil
	}
	if !ripe(w, s) || !old.published && b.published >= maxGaps {
		return e, nil
	}
	g := s.Gap()
	e.published, e.sum = true, sumOf(g)
	if old.published && old.sum == e.sum {
		return e, nil
	}
	if !old.published {
		b.published++
	}
	return e, g
}

// ripe says that a gap is worth telling: it is there for a while, or something is in its way.
func ripe(w *converge.World, s *converge.Step) bool {
	d := s.Deepest()
	return d.State == converge.Failed || d.State == converge.Missing || w.Now.Sub(since(s)) >= young
}

// since is the oldest time that anything of the explanation tells: a cron job is looked at anew each time that it is due, and what holds up
// its job is as old as before.
func since(s *converge.Step) time.Time {
	at := s.Health.Since
	for _, b := range s.Below {
		if t := since(b); !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}

// ownersSeen are controllers, and whether they have a gap.
type ownersSeen map[types.UID]bool

// toldByOwner says that the controller of the object has a gap of its own, whose causes lead to this one.
func toldByOwner(w *converge.World, obj resource.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return false
	}
	owners := converge.Kept[ownersSeen](w)
	if bad, ok := (*owners)[ref.UID]; ok {
		return bad
	}
	k, owner := owner(w, obj, ref)
	bad := owner != nil && !w.Health(k, owner).Converged()
	if *owners == nil {
		*owners = ownersSeen{}
	}
	(*owners)[ref.UID] = bad
	return bad
}

// owner finds the object that a reference names, if it exists.
func owner(w *converge.World, obj resource.Object, ref *metav1.OwnerReference) (resource.Kind, resource.Object) {
	k, ok := w.KindOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if !ok {
		return nil, nil
	}
	ns := obj.GetNamespace()
	if !k.Info().Namespaced {
		ns = ""
	}
	owner := w.Read.Lookup(k, ns, ref.Name)
	if owner == nil || owner.GetUID() != ref.UID {
		return k, nil
	}
	return k, owner
}

var seed = maphash.MakeSeed()

// sumOf stands for the content of a gap.
func sumOf(v any) uint64 {
	data, err := json.Marshal(v)
	if err != nil {
		return 0 // can't be; then it is put anew every time
	}
	return maphash.Bytes(seed, data)
}

// due are the keys to look at: what changed and what it belongs to, what is known not to be well, and what loops fail at.
func (b *Cache) due(w *converge.World) map[loop.Key]bool {
	keys := map[loop.Key]bool{}
	if b.all {
		b.all, b.dirty = false, nil
		for _, k := range w.Kinds.All() {
			if k.Info().Virtual || noise[k.Info().GR()] {
				continue
			}
			for obj := range w.Read.Each(k, "") {
				if w.Until = (time.Time{}); !w.Health(k, obj).Converged() || !w.Until.IsZero() {
					keys[loop.KeyOf(k, obj)] = true
				}
			}
		}
	}
	for key := range b.dirty {
		if key.Kind == resource.Kind(core.Events) {
			if key = warnedOf(w, key); key.Kind == nil {
				continue
			}
		}
		withOwners(w, key, keys)
	}
	b.dirty = nil
	again := 0
	for key := range b.known {
		if again++; again > maxAgain {
			break
		}
		keys[key] = true
	}
	if b.Loops != nil {
		for _, key := range b.Loops.UnwellKeys() {
			keys[key] = true
		}
		for _, list := range b.Loops.Records() {
			for _, r := range list {
				if r.Fails > 1 {
					keys[r.Key] = true
				}
			}
		}
	}
	return keys
}

// withOwners adds the key and those of the objects that the change may matter to.
func withOwners(w *converge.World, key loop.Key, keys map[loop.Key]bool) {
	for range converge.MaxDepth {
		if keys[key] {
			return
		}
		keys[key] = true
		obj := w.Read.Lookup(key.Kind, key.Namespace, key.Name)
		if obj == nil {
			return
		}
		ref := metav1.GetControllerOfNoCopy(obj)
		if ref == nil {
			return
		}
		k, owner := owner(w, obj, ref)
		if owner == nil {
			return
		}
		key = loop.KeyOf(k, owner)
	}
}

// showFights puts the fights in the store.
func (b *Cache) showFights(ctx context.Context) error {
	now := b.now()
	var put, off []resource.Object
	next := map[string]uint64{}
	for _, f := range b.fights.list(now) {
		key := f.Namespace + "/" + f.Name
		next[key] = sumOf(f)
		if b.publishedFights[key] != next[key] {
			put = append(put, f)
		}
	}
	for key := range b.publishedFights {
		if _, still := next[key]; !still {
			ns, name := cutKey(key)
			off = append(off, &convergence.Fight{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
		}
	}
	b.publishedFights = next
	return b.Store.Change(ctx, convergence.Fights, put, off)
}

// showLoops puts the loops in the store.
func (b *Cache) showLoops(ctx context.Context) error {
	if b.Loops == nil {
		return nil
	}
	var put, off []resource.Object
	gone := maps.Clone(b.loops)
	b.loops = map[string]bool{}
	for _, l := range b.Loops.Rows() {
		put = append(put, l)
		b.loops[l.Name] = true
		delete(gone, l.Name)
	}
	for name := range gone {
		off = append(off, &convergence.Loop{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return b.Store.Change(ctx, convergence.Loops, put, off)
}

func cutKey(key string) (ns, name string) {
	ns, name, _ = strings.Cut(key, "/")
	return ns, name
}
