package client

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Raw returns a client that asks for paths, and makes nothing of the answers. Without a bound of its own it has none: the server's
// priority levels share it out.
func Raw(cfg *rest.Config) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return rest.UnversionedRESTClientFor(cfg)
}
