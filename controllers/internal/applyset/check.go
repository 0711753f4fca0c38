package applyset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
)

// An unserved wish is of a kind that the cluster does not serve.
type unserved struct {
	origin string
	gvk    schema.GroupVersionKind
}

func (u unserved) Error() string { return fmt.Sprintf("%s: the cluster serves no %s", u.origin, u.gvk) }

// refused asks the server what it would not take, with nothing stored. What the source itself makes, namespaces and kinds, is taken
// to be there for the rest.
func (s *Syncer) refused(ctx context.Context, c *loop.Ctx, list, all []Wish, unknown []error) (problems []error) {
	spaces, defined := map[string]bool{}, map[schema.GroupKind]bool{}
	for _, w := range all {
		switch w.Object.GroupVersionKind().GroupKind().String() {
		case "Namespace":
			spaces[w.Object.GetName()] = true
		case "CustomResourceDefinition.apiextensions.k8s.io":
			group, _, _ := unstructured.NestedString(w.Object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(w.Object.Object, "spec", "names", "kind")
			defined[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	for _, err := range unknown {
		if u, ok := errors.AsType[unserved](err); !ok || !defined[u.gvk.GroupKind()] {
			problems = append(problems, err)
		}
	}
	for _, w := range list {
		k, obj, err := s.send(ctx, c, w, true)
		if apierrors.IsNotFound(err) && spaces[obj.GetNamespace()] && c.Lookup(kinds.Namespaces, "", obj.GetNamespace()) == nil {
			continue
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %s %s would be refused: %w", w.Origin, k.Info().Singular, obj.GetName(), err))
		}
	}
	return problems
}
