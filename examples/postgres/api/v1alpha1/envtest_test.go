package v1alpha1

import (
	"errors"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/test/need"
)

// TestRules has an API server judge what may be written: the sample is taken, with its defaults, and what can't be done is refused.
func TestRules(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		need.Have(t, "envtest", errors.New("KUBEBUILDER_ASSETS is not set; make test sets it"))
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../config/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sample PostgresCluster
	if err := yaml.UnmarshalStrict(text, &sample); err != nil {
		t.Fatal(err)
	}
	sample.Namespace = "default"
	if err := api.Create(t.Context(), &sample); err != nil {
		t.Fatal(err)
	}
	if s := sample.Spec; s.Synchronous != Preferred || s.DeletionPolicy != "Retain" || s.BackupsKept != 7 ||
		s.Image == "" || sample.Instances() != 3 {
		t.Errorf("defaults: %+v", s)
	}
	for wrong, patch := range map[string]string{
		"the major version stays": `{"spec":{"engineVersion":"16.1"}}`,
		"storage does not shrink": `{"spec":{"storageSize":"99Gi"}}`,
		"should match":            `{"spec":{"engineVersion":"latest"}}`,
		"less than or equal to 8": `{"spec":{"replication":{"replicaCount":9}}}`,
		"Unsupported value":       `{"spec":{"synchronous":"sometimes"}}`,
	} {
		t.Run(wrong, func(t *testing.T) {
			err := api.Patch(t.Context(), sample.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, want that it says %q", patch, err, wrong)
			}
		})
	}
	grown := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"storageSize":"1Ti","engineVersion":"15.4"}}`))
	if err := api.Patch(t.Context(), sample.DeepCopy(), grown); err != nil {
		t.Error(err)
	}
	long := &PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.Repeat("a", 41)}, Spec: sample.Spec}
	if err := api.Create(t.Context(), long); err == nil || !strings.Contains(err.Error(), "at most 40 characters") {
		t.Errorf("a name of 41 characters: %v", err)
	}
}

func TestSatisfies(t *testing.T) {
	for _, tt := range []struct {
		have, want string
		ok         bool
	}{{"15.20", "15", true}, {"15.20", "15.3", true}, {"15.2", "15.3", false}, {"16.1", "15.3", false}, {"15.3", "15.3", true}} {
		t.Run(tt.have, func(t *testing.T) {
			if Satisfies(tt.have, tt.want) != tt.ok {
				t.Errorf("%s for %s: %v", tt.have, tt.want, !tt.ok)
			}
		})
	}
}
