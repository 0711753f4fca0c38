package codec

import (
	"context"

	"github.com/kloop-dev/kloop/resource"
)

// toHub converts within one binary, which never waits; versions that need a webhook are the server's job.
func toHub(k resource.Kind, obj resource.Object) (resource.Object, error) {
	if k.Info().Custom || obj.GetObjectKind().GroupVersionKind() == k.Info().GVK {
		return obj, nil
	}
	return k.ConvertTo(context.Background(), obj, k.Info().GVK)
}
