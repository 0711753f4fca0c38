package cluster

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi/health"
	"github.com/kloop-dev/kloop/store"
)

// encrypted puts encryption at rest before the store, if the configuration asks for it. With an error the store is
// closed.
func (c *Cluster) encrypted(st store.Store) (store.Store, error) {
	if c.cfg.EncryptionConfig == "" {
		return st, nil
	}
	var s kit.Sealed
	if err := c.follow(c.cfg.encryptionFile(st, func(made kit.Sealed) { s = made })); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return s, nil
}

// encryptionFile loads the encryption configuration, if there is one, and makes the store that follows it of the one below.
func (c Config) encryptionFile(below store.Store, use func(kit.Sealed)) (*followed, error) {
	if c.EncryptionConfig == "" {
		return nil, nil
	}
	builtin := resource.NewSet(c.kinds()...)
	var s kit.Sealed
	of := func(key string) schema.GroupResource {
		if k, _, _, ok := builtin.ByKey(key); ok {
			return k.Info().GR()
		}
		return customKey(key)
	}
	return load("encryption configuration", func(data [][]byte) error {
		if s != nil {
			return s.Configure(data[0])
		}
		made, err := c.Kit.Sealed(below, data[0], of)
		if err == nil {
			s = made
			use(made)
		}
		return err
	}, c.EncryptionConfig)
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
