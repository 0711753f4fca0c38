package cluster

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/strict"
)

// What may be in Config.Authorization. Members of system:masters may do everything, whatever the modes say, as upstream.
const (
	ModeNode        = "Node"        // node agents may touch what concerns their pods
	ModeRBAC        = "RBAC"        // roles and bindings
	ModeAlwaysAllow = "AlwaysAllow" // everybody may do everything
	ModeAlwaysDeny  = "AlwaysDeny"  // nobody else may do anything
)

// everyone answers all requests alike.
type everyone struct{ d auth.Decision }

// Authorize implements auth.Authorizer.
func (e everyone) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return e.d, "", nil
}

// inOrder returns the authorizers of the modes, in their order; there are those that stand for more than an answer to all.
func inOrder(modes []string, there map[string]auth.Authorizer) (chain auth.Chain, err error) {
	known := map[string]auth.Authorizer{ModeNode: nil, ModeRBAC: nil, ModeWebhook: nil, ModeAlwaysAllow: everyone{auth.Allow},
		ModeAlwaysDeny: everyone{auth.NoOpinion}}
	maps.Copy(known, there)
	for i, m := range modes {
		a, ok := known[m]
		switch {
		case !ok:
			return nil, fmt.Errorf("authorization mode %q: use Node, RBAC, Webhook, AlwaysAllow or AlwaysDeny%s", m, strict.Meant(m, names(known)))
		case slices.Contains(modes[:i], m):
			return nil, fmt.Errorf("authorization mode %s is listed twice", m)
		}
		chain = append(chain, a)
	}
	return chain, nil
}

// gonePlugins are upstream's of old, and why they are no more.
var gonePlugins = map[string]string{
	"SecurityContextDeny":   "it was removed from Kubernetes in 1.30: use PodSecurity",
	"PodSecurityPolicy":     "it was removed from Kubernetes in 1.25: use PodSecurity",
	"PersistentVolumeLabel": "it was removed from Kubernetes in 1.31: cloud providers label volumes",
}

// chosen returns the plugins that are on. They keep their order: it is upstream's and not a matter of choice.
func chosen(all admission.Chain, on, off []string) (admission.Chain, error) {
	there := map[string]bool{}
	for _, p := range all {
		there[p.Name] = true
	}
	for _, name := range slices.Concat(on, off) {
		if why, gone := gonePlugins[name]; gone {
			return nil, fmt.Errorf("there is no admission plugin %s: %s", name, why)
		}
		if !there[name] {
			return nil, fmt.Errorf("kloop has no admission plugin %q%s", name, strict.Meant(name, names(there)))
		}
	}
	for _, name := range on {
		if slices.Contains(off, name) {
			return nil, fmt.Errorf("admission plugin %s is both enabled and disabled", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p admission.Plugin) bool {
		return slices.Contains(off, p.Name) || p.Off && !slices.Contains(on, p.Name)
	}), nil
}

// tokenConfig reads the keys of service account tokens. Without files the data directory's own key signs.
func (c *Cluster) tokenConfig() (token.Config, error) {
	t := token.Config{Issuer: c.cfg.Issuer, Audiences: c.cfg.Audiences}
	t.Key, t.Also = c.keys.ServiceAccount()
	own, more, err := c.cfg.tokenKeys()
	if own != nil {
		t.Key, t.Also = own, nil
	}
	t.Also = append(t.Also, more...)
	return t, err
}

// tokenKeys reads the files of keys of service account tokens: the one that signs, nil without a file, and others that are believed.
func (c Config) tokenKeys() (own crypto.Signer, more []crypto.PublicKey, err error) {
	if path := c.TokenKey; path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("read the key that signs service account tokens: %w", err)
		}
		if own, err = pki.ParseKey(data); err == nil {
			err = token.Signs(own)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, path := range c.TokenKeys {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("read a key of service account tokens: %w", err)
		}
		keys, err := publicKeys(data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		more = append(more, keys...)
	}
	return own, more, nil
}

// publicKeys reads PEM blocks of public keys, private keys and certificates.
func publicKeys(data []byte) (keys []crypto.PublicKey, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch block.Type {
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = c.PublicKey
			}
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		default:
			var s crypto.Signer
			if s, err = pki.ParseKey(pem.EncodeToMemory(block)); err == nil {
				key = s.Public()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read a key: %w", err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in it: want PEM")
	}
	return keys, nil
}

// wantedLoops are those of the table that the configuration asks for: "*" is all but those that have to be named, "name" one more, "-name"
// one less. The names are those of the loops, or upstream's.
func wantedLoops(table []kit.Entry, asked []string) ([]kit.Entry, error) {
	loops := map[string]bool{"csr-signing": true, "serviceaccount-token": true, "node-ipam": true} // these need what not every process has
	for _, e := range table {
		loops[e.LoopName()] = true
	}
	all := len(asked) == 0
	on := map[string]bool{}
	for _, a := range asked {
		name, minus := strings.CutPrefix(a, "-")
		if name == "*" && !minus {
			all = true
			continue
		}
		own := ownName(name)
		if !loops[own] {
			return nil, fmt.Errorf("there is no controller %q%s", name, strict.Meant(own, names(loops)))
		}
		if was, twice := on[own]; twice && was == minus {
			return nil, fmt.Errorf("controller %s is switched both on and off", name)
		}
		on[own] = !minus
	}
	return slices.DeleteFunc(slices.Clone(table), func(e kit.Entry) bool {
		want, said := on[e.LoopName()]
		return !want && (said || !all || e.Asked)
	}), nil
}

// ownName is the name of the loop that upstream calls so.
func ownName(name string) string {
	if own, ok := upstreamNames[name]; ok {
		return own
	}
	return strings.TrimSuffix(name, "-controller")
}

// upstreamNames are upstream's names of loops where they are not ours and "-controller" behind it.
var upstreamNames = map[string]string{
	"persistentvolume-binder-controller": "volume-binder", "persistentvolume-attach-detach-controller": "attach-detach",
	"persistentvolumeclaim-protection-controller": "pvc-protection", "persistentvolume-protection-controller": "pv-protection",
	"certificatesigningrequest-signing-controller": "csr-signing", "certificatesigningrequest-approving-controller": "csr-approving",
	"certificatesigningrequest-cleaner-controller": "csr-cleaner", "root-ca-certificate-publisher-controller": "root-ca-publisher",
	"resourcequota-controller": "resource-quota", "endpoints-controller": "endpoints", "garbagecollector": "garbage-collector",
	"nodelifecycle": "node-lifecycle", "nodeipam": "node-ipam", "horizontalpodautoscaling": "horizontal-pod-autoscaler",
	"podgc": "pod-garbage-collector", "resourcequota": "resource-quota", "csrsigning": "csr-signing", "csrapproving": "csr-approving",
	"csrcleaner": "csr-cleaner", "endpointslicemirroring": "endpointslice-mirroring", "tokencleaner": "token-cleaner",
	"bootstrapsigner": "bootstrap-signer", "bootstrap-signer-controller": "bootstrap-signer",
}

func names[T any](m map[string]T) (list []string) {
	for n := range m {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}
