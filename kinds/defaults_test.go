package kinds_test

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
)

//go:embed testdata/defaults.yaml
var defaults []byte

//go:embed testdata/tables.yaml
var tables []byte

func TestDefaults(t *testing.T) {
	var cases []struct {
		Name string         `json:"name"`
		Send map[string]any `json:"send"`
		Want map[string]any `json:"want"`
	}
	if err := yaml.UnmarshalStrict(defaults, &cases); err != nil {
		t.Fatal(err)
	}
	set := kinds.NewSet()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			hub, errs := write(nil, decode(t, set, c.Send), nil, "")
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			k, _ := set.Kind(hub.GetObjectKind().GroupVersionKind())
			obj, err := k.ConvertTo(t.Context(), hub, gvkOf(c.Send))
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, obj)
			delete(got, "apiVersion")
			delete(got, "kind")
			meta := got["metadata"].(map[string]any)
			for _, f := range []string{"name", "namespace", "uid", "generation", "creationTimestamp"} {
				delete(meta, f)
			}
			if len(meta) == 0 {
				delete(got, "metadata")
			}
			if want := tree(t, c.Want); !reflect.DeepEqual(got, want) {
				a, _ := json.Marshal(got)
				b, _ := json.Marshal(want)
				t.Errorf("\n got %s\nwant %s", a, b)
			}
		})
	}
}

// Cells of the tables, without those of kubectl's own making. Ages are of objects made an hour ago.
func TestCells(t *testing.T) {
	var cases []struct {
		Name  string         `json:"name"`
		Of    map[string]any `json:"of"`
		Cells []any          `json:"cells"`
	}
	if err := yaml.UnmarshalStrict(tables, &cases); err != nil {
		t.Fatal(err)
	}
	set := kinds.NewSet()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			obj := decode(t, set, c.Of)
			obj.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-time.Hour)))
			k, _ := set.Kind(obj.GetObjectKind().GroupVersionKind())
			var got []any
			b, err := json.Marshal(k.Rows(nil, nil)(obj))
			if err == nil {
				err = json.Unmarshal(b, &got)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.Cells) {
				t.Errorf("\n got %q\nwant %q", got, c.Cells)
			}
		})
	}
}
