package view

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
)

// A decoder makes entries of stored values, or of the objects that were offered for them.
type decoder struct {
	kinds   *resource.Set // whose keys are decoded; guarded by the view's feed
	offers  offers
	encoded *budget // of the entries' encodings
	guard   bool    // hash every object: Config.Guard
}

// A Packer is a kind whose objects the view keeps in a form of their own.
type Packer interface {
	// Pack returns an object, which is not used any more, in the form that is kept, at a revision; obj itself if it
	// has none. text is codec.Stored of obj, or nil; it is the view's.
	Pack(obj resource.Object, text []byte, rev int64) resource.Object
}

// decode takes the offered object or decodes the value; kv is nil when the key was deleted. It needs feed.
func (d *decoder) decode(key string, kv *store.KV, rev int64) write {
	w := write{key: key, rev: rev}
	if k, ns, name, ok := d.kinds.ByKey(key); ok {
		w.kind, w.ns, w.name = k, ns, name
	}
	if kv == nil {
		w.gone = true
		return w
	}
	if kv.Err != nil {
		w.err = kv.Err
		return w
	}
	if w.kind == nil {
		w.value = kv.Value
		return w
	}
	d.read(&w, kv, rev)
	return w
}

// read makes the entry of a value whose kind is known. One that a decoder panics at is as one that does not decode: it must not end the
// process, which would find it again at its next start.
func (d *decoder) read(w *write, kv *store.KV, rev int64) {
	defer func() {
		if p := recover(); p != nil {
			w.entry, w.value, w.err = nil, kv.Value, fmt.Errorf("decode it: panic: %v\n%s", p, debug.Stack())
		}
	}()
	obj, text := d.offers.take(w.key, kv.Value), kv.Value
	if obj == nil {
		text = nil // it may say more than the object, or less
		if obj, w.err = codec.FromStored(w.kind, kv.Value); w.err != nil {
			w.value = kv.Value
			return
		}
	}
	if p, ok := w.kind.(Packer); ok {
		obj = p.Pack(obj, text, rev)
	}
	w.entry = d.entry(w.kind, w.ns, w.name, rev, obj)
	w.entry.size = len(kv.Value)
}

func (d *decoder) entry(k resource.Kind, ns, name string, rev int64, obj resource.Object) *Entry {
	e := NewEntry(k, rev, obj)
	if e.ns != ns || e.name != name {
		e.ns, e.name = ns, name
	}
	e.enc.budget = d.encoded
	if d.guard {
		e.sum = digest(obj)
	}
	return e
}

// decodeAll decodes a page on all processors. It needs feed.
func (d *decoder) decodeAll(kvs []store.KV) []write {
	out := make([]write, len(kvs))
	n := min(runtime.GOMAXPROCS(0), 1+len(kvs)/64)
	var wg sync.WaitGroup
	for part := range n {
		wg.Go(func() {
			for i := part; i < len(kvs); i += n {
				out[i] = d.decode(kvs[i].Key, &kvs[i], kvs[i].ModRev)
			}
		})
	}
	wg.Wait()
	return out
}
