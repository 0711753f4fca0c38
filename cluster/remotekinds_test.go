package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/states"
)

// A definition whose objects can't be copied is named once for each of its specs, however often definitions change.
func TestUncopiedKindsAreNamedOnce(t *testing.T) {
	const broken = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com, uid: one, generation: 1}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp, listKind: LampList}
  versions: [{name: v1, served: false, storage: true, schema: {openAPIV3Schema: {type: object}}}]
status: {conditions: [{type: Established, status: "True"}]}
`
	var log bytes.Buffer
	d := definedKinds{log: slog.New(slog.NewTextHandler(&log, nil)), open: map[string]*openKind{}, bad: map[string]version{}}
	for _, step := range []struct {
		name, given string
		warned      int
	}{
		{"the first time", broken, 1},
		{"another definition changed", broken, 1},
		{"its spec changed", strings.Replace(broken, "generation: 1", "generation: 2", 1), 2},
		{"gone", "{apiVersion: v1, kind: Namespace, metadata: {name: a}}", 2},
		{"made again", strings.Replace(broken, "uid: one", "uid: two", 1), 3},
	} {
		t.Run(step.name, func(t *testing.T) {
			_, reader, err := states.World(step.given)
			if err != nil {
				t.Fatal(err)
			}
			d.match(t.Context(), client.Batch{Read: reader})
			if got := strings.Count(log.String(), "serves no version"); got != step.warned {
				t.Errorf("%d warnings, want %d:\n%s", got, step.warned, log.String())
			}
		})
	}
}
