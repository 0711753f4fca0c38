package loadbalancer

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/packed"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// zipped is metallb.yaml: the definitions of MetalLB's kinds, as far as they are understood here, with the field names of MetalLB's
// documentation.
//
//go:embed metallb.yaml.gz
var zipped []byte

// definitions are the definitions, read once.
var definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return packed.Definitions(zipped) })

func isDefinition(name string) bool { return strings.HasSuffix(name, "."+group) }

// install makes what pools need and is not there: MetalLB's namespace and definitions. What others made, or changed, stays as it is.
func install(ctx context.Context, c *loop.Ctx) error {
	list, err := definitions()
	if err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wellknown.AnnounceSpace}}
	missing := func(k resource.Kind, obj resource.Object) error {
		if c.Lookup(k, obj.GetNamespace(), obj.GetName()) != nil {
			return nil
		}
		if _, err := c.Create(ctx, k, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make %s/%s: %w", k.Info().Singular, obj.GetName(), err)
		}
		return nil
	}
	if err := missing(kinds.Namespaces, space); err != nil {
		return err
	}
	for _, d := range list {
		if err := missing(kinds.CustomResourceDefinitions, d); err != nil {
			return err
		}
	}
	return nil
}
