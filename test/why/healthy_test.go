package why_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// TestHealthy makes what healthy.yaml has and hears of no gap: not of what has rolled out, is through, is suspended, sleeps
// with no replicas, waits for its first use, or leads to such.
func TestHealthy(t *testing.T) {
	w := start(t, "healthy")
	for _, s := range read(t, "healthy.yaml") {
		w.make(s)
		for docs := yamlutil.NewYAMLOrJSONDecoder(strings.NewReader(s.Given), 4096); ; {
			obj := &unstructured.Unstructured{}
			if err := docs.Decode(obj); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			w.silent(s, obj)
		}
	}
}

// silent waits until there is no gap of an object.
func (w *world) silent(s situation, obj *unstructured.Unstructured) {
	w.t.Helper()
	m, err := w.mapper.RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
	if err != nil {
		w.fatal("%v", err)
	}
	name := convergence.NameOf(m.Resource.GroupResource(), obj.GetName())
	s.Ask = name
	w.until("no gap of "+name, func() error {
		g, err := w.dyn.Resource(convergence.GroupVersion.WithResource("gaps")).Namespace(w.spaceOf(s)).Get(w.t.Context(), name,
			metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case g.Object["state"] == converge.Resting:
			return nil
		}
		return fmt.Errorf("%v", g.Object["verdict"])
	})
}
