package apply

import (
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/resource"
)

// A manager that owns something of a custom resource already is refused what another owns, as one is that owns nothing: finding
// out whether a configuration changes anything must not change the object that it is compared with.
func TestUntypedConflicts(t *testing.T) {
	for name, c := range map[string]struct{ first, own, then string }{
		"number": {`{"n":1,"set":["a"]}`, `{"set":["b"]}`, `{"n":2}`},
		"both":   {`{"n":1,"set":["a"]}`, `{"set":["b"]}`, `{"n":2,"set":["b"]}`},
		"list":   {`{"atoms":[{"a":"x"}]}`, `{"b":true}`, `{"atoms":[{"a":"y"}]}`},
		"row":    {`{"rows":[{"name":"r","kind":"k","v":1}]}`, `{"b":true}`, `{"b":true,"rows":[{"name":"r","kind":"k","v":2}]}`},
		"atom":   {`{"atom":{"a":"1"}}`, `{"b":true}`, `{"atom":{"b":"1"}}`},
		"free":   {`{"free":{"p":{"q":[1]}}}`, `{"free":{"z":1}}`, `{"free":{"p":{"q":[2]}}}`},
		"port":   {`{"port":5}`, `{"b":true}`, `{"port":"5"}`},
		"map":    {`{"map":{"k":"v"}}`, `{"map":{"l":"v"}}`, `{"map":{"k":"w"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			tr := widgetTracker(t, true)
			w := Write{Kind: widgets(), GVK: widgets().info.GVK}
			var obj resource.Object
			apply := func(manager, spec string) (err error) {
				w.Manager = manager
				doc := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"ns"},"spec":%s}`, spec)
				before, _ := json.Marshal(obj)
				next, err := readAndApply(tr, w, obj, doc, false)
				if after, _ := json.Marshal(obj); string(before) != string(after) {
					t.Errorf("%s: applying as %s changed the object that there was:\n%s\n%s", name, manager, before, after)
				}
				if err == nil {
					obj = next
				}
				return err
			}
			if err := apply("one", c.first); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := apply("two", c.own); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := apply("two", c.then); !apierrors.IsConflict(err) {
				t.Errorf("%s: no conflict: %v", name, err)
			}
		})
	}
}
