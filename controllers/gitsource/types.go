package gitsource

import (
	_ "embed"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// Kind names the kind.
var Kind = schema.GroupVersionKind{Group: "sync.kloop.dev", Version: "v1alpha1", Kind: "GitSource"}

//go:embed definition.yaml
var definition []byte

// Definition is the CustomResourceDefinition of the kind.
func Definition() (*unstructured.Unstructured, error) {
	def := &unstructured.Unstructured{}
	return def, yaml.Unmarshal(definition, &def.Object)
}

// Spec says which repository to follow, and how; definition.yaml has the fields' meaning and defaults.
type Spec struct {
	URL        string          `json:"url"`
	Ref        Ref             `json:"ref"`
	Path       string          `json:"path"`
	Interval   metav1.Duration `json:"interval"`
	SecretName string          `json:"secretName"`
	Prune      *bool           `json:"prune"`
	Suspend    bool            `json:"suspend"`
}

// Ref names a branch, a tag or a commit; none of them: the branch main.
type Ref struct {
	Branch string `json:"branch"`
	Tag    string `json:"tag"`
	Commit string `json:"commit"`
}

func (r Ref) name() string {
	switch {
	case r.Commit != "":
		return r.Commit
	case r.Tag != "":
		return "refs/tags/" + r.Tag
	case r.Branch != "":
		return "refs/heads/" + r.Branch
	}
	return "refs/heads/main"
}

// Status says which commit the cluster has.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration"`
	Attempted          string             `json:"attempted,omitempty"`
	Commit             string             `json:"commit,omitempty"`
	Objects            int                `json:"objects"`
	Conditions         []metav1.Condition `json:"conditions"`
}

// A source is a GitSource as Go knows it.
type source struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

func read(obj resource.Object) (s source, err error) {
	data, err := codec.MarshalJSON(obj)
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(data, &s)
	if s.Spec.Interval.Duration <= 0 {
		s.Spec.Interval.Duration = time.Minute
	}
	return s, err
}
