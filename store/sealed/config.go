package sealed

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/strict"
)

// Rules say which keys are sealed, and how.
type Rules struct {
	resource func(key string) schema.GroupResource
	list     []rule
}

// A rule holds for some resources. The first provider writes, all read.
type rule struct {
	patterns  []string
	providers []*sealer // nil: identity, in clear
}

// Parse reads an EncryptionConfiguration (apiserver.config.k8s.io/v1). resource tells what a store's key is an object
// of, dial connects to plugins; nil: there are none.
func Parse(data []byte, dial Dial, resource func(key string) schema.GroupResource) (*Rules, error) {
	var c apiserverv1.EncryptionConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("read the EncryptionConfiguration: %w", withoutSecrets(err))
	}
	if c.Kind != "EncryptionConfiguration" || c.APIVersion != "apiserver.config.k8s.io/v1" {
		return nil, fmt.Errorf("the file is a %q of %q: write kind EncryptionConfiguration, apiVersion apiserver.config.k8s.io/v1",
			c.Kind, c.APIVersion)
	}
	if len(c.Resources) == 0 {
		return nil, errors.New("resources: at least one entry is needed")
	}
	r := &Rules{resource: resource}
	var seen, plugins []string
	for i, rc := range c.Resources {
		at := fmt.Sprintf("resources[%d]", i)
		if err := checkPatterns(at, rc.Resources, &seen); err != nil {
			return nil, err
		}
		providers, err := providersOf(at, rc.Providers, dial)
		if err != nil {
			return nil, err
		}
		r.list = append(r.list, rule{rc.Resources, providers})
		for j, p := range rc.Providers {
			if p.KMS == nil {
				continue
			}
			if slices.Contains(plugins, p.KMS.Name) {
				return nil, fmt.Errorf("%s.providers[%d].kms.name: %q: duplicate KMS provider name, names must be unique", at, j, p.KMS.Name)
			}
			plugins = append(plugins, p.KMS.Name)
		}
	}
	return r, nil
}

// withoutSecrets keeps what follows the first line of a parser's complaint, which may quote the file, out of logs.
func withoutSecrets(err error) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return strict.Unquoted(errors.New(first))
}

// checkPatterns refuses what upstream refuses: nothing, what was named before, and what an earlier wildcard covers.
func checkPatterns(at string, patterns []string, seen *[]string) error {
	if len(patterns) == 0 {
		return fmt.Errorf("%s.resources: at least one resource is needed", at)
	}
	for j, p := range patterns {
		where := fmt.Sprintf("%s.resources[%d]", at, j)
		name, group, _ := strings.Cut(p, ".")
		switch {
		case p == "" || name == "":
			return fmt.Errorf("%s: %q names no resource", where, p)
		case p == "*":
			return fmt.Errorf("%s: use *.* for all resources, *. for those of the core group", where)
		case p != strings.ToLower(p):
			return fmt.Errorf("%s: %q must be in lower case", where, p)
		case strings.Contains(p, "/"):
			return fmt.Errorf("%s: %q: a subresource is stored with its resource", where, p)
		case strings.Contains(name, "*") && name != "*" || strings.Contains(group, "*") && p != "*.*":
			return fmt.Errorf("%s: %q: the wildcards are *., *.GROUP and *.*", where, p)
		case slices.Contains(*seen, p):
			return fmt.Errorf("%s: %q is named twice", where, p)
		case slices.Contains(*seen, "*.*") || name != "*" && slices.Contains(*seen, "*."+group):
			return fmt.Errorf("%s: %q can't take effect after the wildcard that covers it", where, p)
		}
		*seen = append(*seen, p)
	}
	return nil
}

func providersOf(at string, list []apiserverv1.ProviderConfiguration, dial Dial) (out []*sealer, err error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%s.providers: at least one is needed", at)
	}
	for i, p := range list {
		where := fmt.Sprintf("%s.providers[%d]", at, i)
		n := 0
		add := func(keys []apiserverv1.Key, sizes []int, kind string, make func(string, []byte) (*sealer, error)) {
			var s []*sealer
			n++
			if s, err = sealersOf(where+"."+kind, keys, sizes, make); err == nil {
				out = append(out, s...)
			}
		}
		if p.Identity != nil {
			n, out = n+1, append(out, nil)
		}
		if p.AESGCM != nil {
			add(p.AESGCM.Keys, []int{16, 24, 32}, "aesgcm", newGCM)
		}
		if p.AESCBC != nil && err == nil {
			add(p.AESCBC.Keys, []int{16, 24, 32}, "aescbc", newCBC)
		}
		if p.Secretbox != nil && err == nil {
			add(p.Secretbox.Keys, []int{32}, "secretbox", newSecretbox)
		}
		if p.KMS != nil && err == nil {
			var s *sealer
			n++
			if s, err = kmsOf(where+".kms", p.KMS, dial); err == nil {
				out = append(out, s)
			}
		}
		switch {
		case err != nil:
			return nil, err
		case n != 1:
			return nil, fmt.Errorf("%s: give one of identity, aesgcm, aescbc, secretbox, kms; %d are given", where, n)
		}
	}
	return out, nil
}

// kmsOf connects to a key management plugin. It need not be there yet.
func kmsOf(at string, c *apiserverv1.KMSConfiguration, dial Dial) (*sealer, error) {
	path, unix := strings.CutPrefix(c.Endpoint, "unix://")
	timeout := kmsTimeout
	if c.Timeout != nil {
		timeout = c.Timeout.Duration
	}
	switch {
	case c.APIVersion == "" || c.APIVersion == "v1":
		return nil,
			fmt.Errorf(
				"%s.apiVersion: version 1 of the plugins' protocol is deprecated and off in Kubernetes: use a plugin of version 2 and say "+
					"apiVersion: v2", at)
	case c.APIVersion != "v2":
		return nil, fmt.Errorf("%s.apiVersion: %q: unsupported apiVersion for KMS provider, only v2 is supported", at, c.APIVersion)
	case c.Name == "" || strings.Contains(c.Name, ":"):
		return nil, fmt.Errorf("%s.name: %q: a name without colons is needed", at, c.Name)
	case c.CacheSize != nil:
		return nil, fmt.Errorf("%s.cachesize: is not supported in v2", at)
	case !unix || !strings.HasPrefix(path, "/"):
		return nil, fmt.Errorf("%s.endpoint: %q: must be a socket, unix:///PATH", at, c.Endpoint)
	case timeout <= 0:
		return nil, fmt.Errorf("%s.timeout: must be above 0", at)
	}
	if strings.HasPrefix(path, "/@") { // one without a file
		path = path[1:]
	}
	k, err := newKMS(dial, c.Name, path, timeout, time.Now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return k.sealer(), nil
}

// Healthy says what keeps keys from being had.
func (r *Rules) Healthy(ctx context.Context) (err error) {
	r.each(func(s *sealer) {
		if s.healthy != nil {
			err = errors.Join(err, s.healthy(ctx))
		}
	})
	return err
}

// Remote says that somebody else has keys.
func (r *Rules) Remote() (any bool) {
	r.each(func(s *sealer) { any = any || s.healthy != nil })
	return any
}

// Close ends the connections to those who have keys.
func (r *Rules) Close() (err error) {
	r.each(func(s *sealer) {
		if s.close != nil {
			err = errors.Join(err, s.close())
		}
	})
	return err
}

func (r *Rules) each(f func(*sealer)) {
	for _, l := range r.list {
		for _, s := range l.providers {
			if s != nil {
				f(s)
			}
		}
	}
}

func sealersOf(at string, keys []apiserverv1.Key, sizes []int, make func(string, []byte) (*sealer, error)) (out []*sealer, err error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s.keys: at least one is needed", at)
	}
	names := map[string]bool{}
	for i, k := range keys {
		where := fmt.Sprintf("%s.keys[%d]", at, i)
		secret, err := base64.StdEncoding.DecodeString(k.Secret)
		switch {
		case k.Name == "" || strings.Contains(k.Name, ":"):
			return nil, fmt.Errorf("%s.name: %q: a name without colons is needed", where, k.Name)
		case names[k.Name]:
			return nil, fmt.Errorf("%s.name: %q is named twice", where, k.Name)
		case err != nil:
			return nil, fmt.Errorf("%s.secret: must be base64", where)
		case !slices.Contains(sizes, len(secret)):
			return nil, fmt.Errorf("%s.secret: has %d bytes, must have one of %v", where, len(secret), sizes)
		}
		names[k.Name] = true
		s, err := make(k.Name, secret)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// find returns the rule for a key; nil when none holds.
func (r *Rules) find(key string) *rule {
	if r == nil {
		return nil
	}
	gr := r.resource(key)
	name := gr.Resource
	if gr.Group != "" {
		name += "." + gr.Group
	}
	for i := range r.list {
		for _, p := range r.list[i].patterns {
			if p == name || p == "*.*" || p == "*."+gr.Group {
				return &r.list[i]
			}
		}
	}
	return nil
}

func (r *Rules) covers(key string) bool { return r.find(key) != nil }

// writer seals new values; nil: they stay in clear.
func (r *Rules) writer(key string) *sealer {
	if f := r.find(key); f != nil {
		return f.providers[0]
	}
	return nil
}

func (r *Rules) seal(key string, value []byte) ([]byte, error) {
	s := r.writer(key)
	if s == nil {
		return value, nil
	}
	sealed, err := s.seal(value, []byte(key))
	return append(bytes.Clone(s.prefix), sealed...), err
}

// errNoKey is the error of reading when the configuration holds nothing for the value.
var errNoKey = errors.New(
	"no provider of the encryption configuration fits the stored value: the key it was written with is not in the file")

func (r *Rules) open(key string, value []byte) ([]byte, error) {
	if !bytes.HasPrefix(value, sealedPrefix) {
		f := r.find(key)
		if f == nil || slices.Contains(f.providers, nil) {
			return value, nil
		}
		return nil, errors.New("the stored value is in clear, and identity is not among the providers")
	}
	f := r.find(key)
	if f == nil {
		return nil, errNoKey
	}
	for _, s := range f.providers {
		if s != nil && bytes.HasPrefix(value, s.prefix) {
			plain, err := s.open(value[len(s.prefix):], []byte(key))
			if err != nil {
				return nil, fmt.Errorf("open with the key of %s: %w", strings.TrimSuffix(string(s.prefix), ":"), err)
			}
			return plain, nil
		}
	}
	return nil, errNoKey
}
