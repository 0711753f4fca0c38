package view

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// CheckFrozen names the objects of a snapshot that were changed since the view took them, which nobody may
// do. It is for tests, and knows only objects of views made with Config.Guard.
func CheckFrozen(s *Snapshot) error {
	var errs []error
	for _, f := range s.tables {
		if f == nil {
			continue
		}
		f.objects.Ascend(func(e *Entry) bool {
			if e.sum != 0 && digest(e.Object) != e.sum {
				errs = append(errs, fmt.Errorf("%s %s/%s was changed after revision %d was stored",
					e.Kind.Info().GR(), e.ns, e.name, e.Rev))
			}
			return true
		})
	}
	return errors.Join(errs...)
}

// digest is never 0 for an object that can be encoded.
func digest(obj resource.Object) uint64 {
	data, err := codec.MarshalJSON(obj)
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(data) // never fails
	return h.Sum64() | 1
}
