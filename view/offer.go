package view

import (
	"bytes"
	"slices"
	"sync"

	"github.com/kloop-dev/kloop/resource"
)

// maxOffers bounds how many offers wait. Offers of writes that failed are only ever pushed out.
const maxOffers = 4096

// offers are objects whose values are about to be written.
type offers struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	byKey map[string][]*offer
	order []*offer // oldest first; taken ones have no object
}

type offer struct {
	key   string
	value []byte
	obj   resource.Object // nil: taken
}

// Offer tells the view, before a write, which object the value about to be written decodes to; the view then
// takes the object instead of decoding the value again, and sets its resourceVersion. The view owns both from
// the call on. Offers are a shortcut: any may be forgotten.
func (v *View) Offer(key string, value []byte, obj resource.Object) {
	v.offers.put(&offer{key: key, value: value, obj: obj})
}

func (o *offers) put(x *offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey == nil {
		o.byKey = map[string][]*offer{}
	}
	o.byKey[x.key] = append(o.byKey[x.key], x)
	o.order = append(o.order, x)
	o.bytes += int64(len(x.value))
	for len(o.order) > maxOffers || o.bytes > o.limit {
		first := o.order[0]
		o.order[0] = nil
		o.order = o.order[1:]
		o.drop(first)
	}
}

// take returns the object offered for the value, or nil.
func (o *offers) take(key string, value []byte) resource.Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.byKey[key] {
		if bytes.Equal(x.value, value) {
			obj := x.obj
			o.drop(x)
			return obj
		}
	}
	return nil
}

// drop forgets an offer, except for its place in the order.
func (o *offers) drop(x *offer) {
	if x.obj == nil {
		return
	}
	o.bytes -= int64(len(x.value))
	x.obj, x.value = nil, nil
	rest := slices.DeleteFunc(o.byKey[x.key], func(y *offer) bool { return y == x })
	if len(rest) == 0 {
		delete(o.byKey, x.key)
		return
	}
	o.byKey[x.key] = rest
}
