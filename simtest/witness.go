package simtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// State is all objects at one moment.
type State struct {
	set  *resource.Set
	read resource.Reader
}

// List returns copies of all objects of a resource, by its plural name. It is empty for what is not served.
func (s State) List(plural string) (list []*unstructured.Unstructured) {
	k := kindOf(s.set, plural)
	if k == nil {
		return nil
	}
	for obj := range s.read.Each(k, "") {
		if u := loose(k, obj); u != nil {
			list = append(list, u)
		}
	}
	return list
}

// loose returns an object as plain fields; nil if it has none.
func loose(k resource.Kind, obj resource.Object) *unstructured.Unstructured {
	obj = resource.Opened(obj)
	u := &unstructured.Unstructured{}
	if plain, ok := obj.(runtime.Unstructured); ok {
		u.Object = runtime.DeepCopyJSON(plain.UnstructuredContent())
	} else {
		text, err := json.Marshal(obj)
		if err != nil || json.Unmarshal(text, &u.Object) != nil {
			return nil
		}
	}
	u.SetGroupVersionKind(k.Info().GVK)
	return u
}

// content is a hash of an object without its status and what the server counts.
func content(k resource.Kind, obj resource.Object) (sum [sha256.Size]byte, ok bool) {
	var text []byte
	var err error
	bare := func(o metav1.Object) {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		o.SetGeneration(0)
	}
	if obj = resource.Opened(obj); !k.Info().Custom {
		own := reflect.New(reflect.TypeOf(obj).Elem()) // shares all but the fields that are set
		own.Elem().Set(reflect.ValueOf(obj).Elem())
		if status := own.Elem().FieldByName("Status"); status.IsValid() {
			status.SetZero()
		}
		o := own.Interface().(resource.Object)
		bare(o)
		text, err = codec.RawProto(o)
	} else if u := loose(k, obj); u != nil {
		delete(u.Object, "status")
		bare(u)
		text, err = json.Marshal(u.Object)
	}
	return sha256.Sum256(text), err == nil && text != nil
}

// witness sees every change of a run.
type witness struct {
	w      *World
	cursor *view.Cursor

	mu      sync.Mutex
	wrote   time.Time
	revs    []int64        // of changes that count
	deleted map[string]int // by resource
	flaps   map[string]int // by object: returns to an earlier content
	past    map[string][][sha256.Size]byte
	recent  []string // the newest changes, in words
}

// past content that is remembered of each object.
const keepPast = 8

// A run ends in which somebody writes without end: mostChanges since the last trouble was over and everybody had a
// minute to hear of it, which client-go's reflectors may take. Until then an operator with an old cache and the garbage
// collector may undo each other's work.
const (
	mostChanges = 5000
	mostEver    = 20 * mostChanges
	hearing     = time.Minute
)

// idle are the resources whose changes say nothing about convergence.
var idle = []string{"events", "leases", "nodes", "ipaddresses", "servicecidrs"}

func newWitness(w *World) *witness {
	return &witness{w: w, cursor: w.door.view.CursorAt(w.door.view.Snapshot()), wrote: time.Now(), deleted: map[string]int{},
		flaps: map[string]int{}, past: map[string][][sha256.Size]byte{}}
}

// watch takes note until ctx ends.
func (s *witness) watch(ctx context.Context) {
	for excused := 0; ; {
		b, err := s.cursor.Next(ctx)
		if err != nil {
			return
		}
		n := s.changes()
		if s.w.troubled(hearing) {
			excused = n
		}
		if n-excused > mostChanges || n > mostEver {
			s.mu.Lock()
			recent := strings.Join(s.recent, "\n    ")
			s.mu.Unlock()
			s.w.run.fail("%d writes, and no end to be seen; last were:\n    %s", n, recent)
			s.w.door.stop()
			return
		}
		counts := false
		for _, c := range b.Changes {
			counts = s.note(c) || counts
		}
		if counts && s.w.c.Always != nil {
			if err := s.w.c.Always(State{s.w.door.Set, b.Snapshot}); err != nil {
				s.w.run.fail("at %s: %v", time.Now().UTC().Format(time.TimeOnly), err)
			}
		}
	}
}

// note says whether a change counts.
func (s *witness) note(c view.Change) bool {
	plural := c.Kind.Info().Plural
	if slices.Contains(idle, plural) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote = time.Now()
	s.revs = append(s.revs, c.Rev)
	if c.New == nil {
		s.deleted[plural]++
		s.remember(fmt.Sprintf("%s %s/%s deleted", plural, c.Old.Object.GetNamespace(), c.Old.Object.GetName()))
		return true
	}
	obj := c.New.Object
	name := fmt.Sprintf("%s %s/%s", plural, obj.GetNamespace(), obj.GetName())
	s.remember(name + " written")
	sum, ok := content(c.Kind, obj)
	if !ok {
		return true
	}
	past := s.past[name]
	if at := slices.Index(past, sum); at >= 0 && at < len(past)-1 {
		s.flaps[name]++
	}
	if len(past) == 0 || past[len(past)-1] != sum {
		past = append(past, sum)
		s.past[name] = past[max(0, len(past)-keepPast):]
	}
	return true
}

func (s *witness) remember(what string) {
	s.recent = append(s.recent, what)
	s.recent = s.recent[max(0, len(s.recent)-10):]
}

// last returns the time of the last change that counts.
func (s *witness) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote
}

// changes returns the number of changes that counted.
func (s *witness) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.revs)
}

// revision is that of some changes ago, the first one at most.
func (s *witness) revision(back int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.revs) == 0 {
		return 0
	}
	return s.revs[max(0, len(s.revs)-1-back)]
}
