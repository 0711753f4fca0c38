// Package bootstrapsigner signs what a machine that wants to join may read without credentials, so that a holder of a
// bootstrap token can tell that it is genuine.
//
//	reads   ConfigMap kube-public/cluster-info, Secrets of the type bootstrap.kubernetes.io/token in kube-system
//	writes  ConfigMap kube-public/cluster-info: a signature for every token
//	rule    cluster-info has, beside its kubeconfig, exactly one signature (JWS, detached) for every token that may sign
package bootstrapsigner

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const (
	info       = "cluster-info"
	kubeconfig = "kubeconfig"
	prefix     = "jws-kubeconfig-"
	tokenType  = "bootstrap.kubernetes.io/token"
)

// Controller is the loop: wake on cluster-info and on bootstrap tokens.
var Controller = &loop.Controller[*corev1.ConfigMap]{
	Name:   "bootstrap-signer",
	For:    kinds.ConfigMaps,
	Skip:   func(m *corev1.ConfigMap) bool { return m.Namespace != metav1.NamespacePublic || m.Name != info },
	Wake:   []loop.Wake{loop.Each(kinds.Secrets, ofToken)},
	Writes: []resource.Kind{kinds.ConfigMaps},
	Reconcile: func(ctx context.Context, c *loop.Ctx, m *corev1.ConfigMap) (time.Duration, error) {
		tokens, next := signers(resource.List(c, kinds.Secrets, metav1.NamespaceSystem), c.Now()) // observe
		want, err := plan(m.Data, tokens)                                                         // decide
		if err != nil || maps.Equal(want, m.Data) {
			return next, err
		}
		signed := resource.Clone(m)
		signed.Data = want
		return next, c.Update(ctx, kinds.ConfigMaps, signed) // act
	},
}

func ofToken(obj resource.Object, _ resource.Reader, wake func(ns, name string)) {
	if s := obj.(*corev1.Secret); s.Type == tokenType && s.Namespace == metav1.NamespaceSystem {
		wake(metav1.NamespacePublic, info)
	}
}

// signers are the secrets of the tokens that may sign, by their ids, and how long until the first of them expires.
func signers(list []*corev1.Secret, now time.Time) (tokens map[string]string, next time.Duration) {
	tokens = map[string]string{}
	for _, s := range list {
		id, secret := string(s.Data["token-id"]), string(s.Data["token-secret"])
		if s.Type != tokenType || s.DeletionTimestamp != nil || string(s.Data["usage-bootstrap-signing"]) != "true" ||
			id == "" || secret == "" || s.Name != "bootstrap-token-"+id {
			continue
		}
		if text := string(s.Data["expiration"]); text != "" {
			at, err := time.Parse(time.RFC3339, text)
			left := at.Sub(now)
			if err != nil || left <= 0 {
				continue
			}
			if next == 0 || left < next {
				next = left
			}
		}
		tokens[id] = secret
	}
	return tokens, next
}

// plan returns cluster-info's data with the signatures that it should have.
func plan(data, tokens map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for k, v := range data {
		if !strings.HasPrefix(k, prefix) {
			out[k] = v
		}
	}
	content, ok := data[kubeconfig]
	if !ok {
		return out, nil
	}
	for id, secret := range tokens {
		signature, err := token.Detached(content, id, secret)
		if err != nil {
			return nil, err
		}
		out[prefix+id] = signature
	}
	return out, nil
}
