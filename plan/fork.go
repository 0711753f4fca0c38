package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Fork is a cluster as data: what its API showed at one time to one caller. It does not change and may be used by many runs at once.
type Fork struct {
	At      time.Time `json:"at"`               // of the reading; the simulation begins then
	Server  string    `json:"server"`           // its address
	Version string    `json:"version"`          // as the server told it: v1.37.0
	Unseen  []string  `json:"unseen,omitempty"` // what the caller might not read, in words

	hidden  map[schema.GroupResource]bool // kinds that the caller might not read, or not all of
	objects []item

	once    sync.Once
	ready   *seed
	problem error
}

// An item is one object, of the version that is stored.
type item struct {
	kind resource.Kind
	obj  resource.Object
}

// Count says how many objects the fork has.
func (f *Fork) Count() int { return len(f.objects) }

func (f *Fork) hide(gr schema.GroupResource, text string) {
	if f.hidden == nil {
		f.hidden = map[schema.GroupResource]bool{}
	}
	f.hidden[gr] = true
	f.Unseen = append(f.Unseen, text)
}

// NotSeen is Unseen for people: a line for each reason, with all that it holds for.
func (f *Fork) NotSeen() []string { return gathered(f.Unseen) }

// gathered puts lines that end alike ("nodes: you may not list them") together, where the first of them stands.
func gathered(list []string) (out []string) {
	first := -1
	for _, l := range list {
		switch what, is := strings.CutSuffix(l, unlisted); {
		case is && first >= 0:
			out[first] = strings.TrimSuffix(out[first], unlisted) + ", " + what + unlisted
			continue
		case is:
			first = len(out)
		}
		out = append(out, l)
	}
	return out
}

// unlisted ends the line of a kind that may not be read.
const unlisted = ": you may not list them"

// each yields the objects of one built-in kind.
func each[T resource.Object](f *Fork, d *resource.Def[T]) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for i := range f.objects {
			if f.objects[i].kind == resource.Kind(d) && !yield(resource.As[T](f.objects[i].obj)) {
				return
			}
		}
	}
}

// custom returns the kind of a definition in the version that is stored, as objects of it are kept.
func custom(def *apiextensionsv1.CustomResourceDefinition) (resource.Kind, bool) {
	if !crd.Is(def, apiextensionsv1.Established) {
		return nil, false
	}
	k, err := crd.NewKind(def)
	return k, err == nil
}

// header is the first line of a saved fork; each line behind it is an object.
type header struct {
	Format string `json:"format"`
	*Fork
	Hidden []schema.GroupResource `json:"hidden,omitempty"`
}

const format = "kloop.dev/fork/v1"

// Save writes the fork: what Load reads. It holds no value of a Secret; variables of containers and ConfigMaps are as they are.
func (f *Fork) Save(to io.Writer) error {
	out := bufio.NewWriter(to)
	enc := json.NewEncoder(out)
	h := header{Format: format, Fork: f}
	for _, k := range kinds.All() {
		if gr := k.Info().GR(); f.hidden[gr] {
			h.Hidden = append(h.Hidden, gr)
		}
	}
	if err := enc.Encode(h); err != nil {
		return err
	}
	for _, it := range f.objects {
		obj := resource.Clone(it.obj)
		obj.GetObjectKind().SetGroupVersionKind(it.kind.Info().GVK)
		data, err := codec.MarshalJSON(obj)
		if err != nil {
			return fmt.Errorf("save %s %s: %w", it.kind.Info().Singular, obj.GetName(), err)
		}
		if err := enc.Encode(json.RawMessage(data)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// maxLine bounds one object of a saved fork, in bytes. An API server takes objects of up to 3 MiB.
const maxLine = 8 << 20

// Load reads what Save wrote.
func Load(from io.Reader) (*Fork, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	f := &Fork{}
	h := header{Fork: f}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Format != format {
		return nil, errors.New("this is no fork that kloop plan --save wrote")
	}
	for _, gr := range h.Hidden {
		if f.hidden == nil {
			f.hidden = map[schema.GroupResource]bool{}
		}
		f.hidden[gr] = true
	}
	set := kinds.NewSet()
	defined := map[schema.GroupKind]resource.Kind{}
	for n := 2; lines.Scan(); n++ {
		if n > maxObjects {
			return nil, fmt.Errorf("the fork has more than %d objects", maxObjects)
		}
		if err := f.add(set, defined, bytes.Clone(lines.Bytes())); err != nil {
			return nil, fmt.Errorf("line %d of the fork: %w", n, err)
		}
	}
	return f, lines.Err()
}

// add takes in an object of a saved fork. Definitions come before what they define.
func (f *Fork) add(set *resource.Set, defined map[schema.GroupKind]resource.Kind, line []byte) error {
	var t struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(line, &t); err != nil {
		return err
	}
	gvk := schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
	k, ok := set.Kind(gvk)
	if !ok {
		if k, ok = defined[gvk.GroupKind()]; !ok {
			return fmt.Errorf("no kind %s is known", gvk)
		}
	}
	obj := k.New(gvk)
	if _, err := codec.UnmarshalJSON(line, obj); err != nil {
		return err
	}
	if def, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		if k, ok := custom(def); ok {
			defined[k.Info().GVK.GroupKind()] = k
		}
	}
	redact(obj)
	f.objects = append(f.objects, item{k, obj})
	return nil
}
