package cluster

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/server/httpapi/health"
	"github.com/kloop-dev/kloop/store"
)

// encrypted puts encryption at rest before the store, if the configuration asks for it. With an error the store is
// closed.
func (c *Cluster) encrypted(st store.Store) (store.Store, error) {
	if c.cfg.EncryptionConfig == "" {
		return st, nil
	}
	builtin := kinds.NewSet()
	var s kit.Sealed
	of := func(key string) schema.GroupResource {
		if k, _, _, ok := builtin.ByKey(key); ok {
			return k.Info().GR()
		}
		return customKey(key)
	}
	err := c.follow("encryption configuration", c.cfg.EncryptionConfig, func(data []byte) (err error) {
		if s == nil {
			s, err = c.cfg.Kit.Sealed(st, data, of)
			return err
		}
		return s.Configure(data)
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return s, nil
}

// customKey reads the key of a custom resource: /registry/GROUP/RESOURCE/….
func customKey(key string) (gr schema.GroupResource) {
	group, rest, _ := strings.Cut(strings.TrimPrefix(key, "/registry/"), "/")
	resource, _, _ := strings.Cut(rest, "/")
	return schema.GroupResource{Group: group, Resource: resource}
}

// stale is called by the front door before it leaves out a write that changes nothing.
func stale(st store.Store) func(context.Context, string) (bool, error) {
	if s, ok := st.(kit.Sealed); ok {
		return s.Stale
	}
	return nil
}

// keyChecks tell whether the keys that plugins have can be had.
func keyChecks(st store.Store) []health.Check {
	s, ok := st.(kit.Sealed)
	if !ok || !s.Remote() {
		return nil
	}
	return []health.Check{{Name: "kms-providers", Run: s.Healthy}}
}
