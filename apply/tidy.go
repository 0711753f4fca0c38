package apply

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// longFields is the length of fields above which the library gets them in order: it puts each where it belongs among all before, and
// 150,000 in another order take half a minute.
const longFields = 64 << 10

func long(e metav1.ManagedFieldsEntry) bool {
	return e.FieldsV1 != nil && len(e.FieldsV1.Raw) > longFields
}

// tidied has long fields that a client sent in order. Those that can't be read so far are invalid, and count as such.
func tidied(list []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	cloned := false
	for i, e := range list {
		if !long(e) {
			continue
		}
		if _, ok := parseSet(e.FieldsV1.Raw); ok {
			continue
		}
		if !cloned {
			list, cloned = slices.Clone(list), true
		}
		list[i].FieldsV1 = &metav1.FieldsV1{Raw: inOrderJSON(e.FieldsV1.Raw)}
	}
	return list
}

// inOrderJSON is the text of a set in the order in which this package writes it.
func inOrderJSON(raw []byte) []byte {
	var text bytes.Buffer
	if json.Compact(&text, raw) == nil {
		pile := newPile(false)
		defer pile.done()
		p := parser{text: text.String(), pile: pile, sorts: true}
		if p.take("{") {
			if s, ok := p.items(0); ok && p.at == len(p.text) {
				return s.appendJSON(nil)
			}
		}
	}
	return []byte(`{"unreadable":{}}`)
}

// putInOrder sorts the items of a set, and says whether none is there twice.
func putInOrder(s set) bool {
	coldsort.Func(s, func(a, b item) int { return a.step.compare(&b.step) })
	for i := 1; i < len(s); i++ {
		if s[i-1].step.compare(&s[i].step) == 0 {
			return false
		}
	}
	return true
}
