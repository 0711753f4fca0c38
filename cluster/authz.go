package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/auth/webhook"
	"github.com/kloop-dev/kloop/strict"
	callers "github.com/kloop-dev/kloop/webhook"
)

// Authz says what decides about requests, beside Config.Authorization.
type Authz struct {
	// ConfigFile is upstream's AuthorizationConfiguration. It is read again when it changes, and excludes Config.Authorization.
	ConfigFile string

	WebhookKubeconfig string        // of the mode Webhook: the server that is asked, by SubjectAccessReview
	WebhookVersion    string        // v1 or v1beta1; "": v1beta1, upstream's default
	WebhookAllowedTTL time.Duration // how long its decisions are remembered; 0: 5 min
	WebhookRefusedTTL time.Duration // 0: 30 s
}

// check finds what would be passed over in silence.
func (z Authz) check(modes []string) error {
	if z.ConfigFile == "" && !slices.Contains(modes, ModeWebhook) && z != (Authz{}) {
		return errors.New("settings of the authorization webhook need the mode Webhook among the authorization modes")
	}
	return nil
}

// ModeWebhook asks another server; see Authz.
const ModeWebhook = "Webhook"

// webhookTimeout bounds a question to a webhook that decides.
const webhookTimeout = 30 * time.Second

func defaultModes() []string { return []string{ModeNode, ModeRBAC} }

// A liveAuthorizer is a chain that may be replaced.
type liveAuthorizer struct{ chain atomic.Pointer[auth.Chain] }

// Authorize implements auth.Authorizer.
func (l *liveAuthorizer) Authorize(ctx context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	return l.chain.Load().Authorize(ctx, a)
}

// authorizer decides who may do what: masters may do everything, whatever is configured.
func (c *Cluster) authorizer(node, roles auth.Authorizer) (auth.Authorizer, error) {
	if c.elsewhere != nil {
		return c.elsewhere.authorizer()
	}
	live := &liveAuthorizer{}
	return live, c.follow(c.cfg.authorizers(node, roles, live.chain.Store))
}

// authorizers loads the authorization configuration, or makes the chain that the modes ask for.
func (c Config) authorizers(node, roles auth.Authorizer, use func(*auth.Chain)) (*followed, error) {
	if c.Authz.ConfigFile != "" {
		return c.authorizerFile(node, roles, use)
	}
	z, modes := c.Authz, c.Authorization
	if len(modes) == 0 {
		modes = defaultModes()
	}
	var hook auth.Authorizer
	if slices.Contains(modes, ModeWebhook) {
		if z.WebhookKubeconfig == "" {
			return nil, errors.New("the authorization mode Webhook needs the kubeconfig of the server to ask")
		}
		var err error
		if hook, err = webhook.NewAuthorizer(webhook.Config{Name: "default", Ways: c.Kit.Ways, Kubeconfig: z.WebhookKubeconfig,
			Version: or(z.WebhookVersion, "v1beta1"),
			Timeout: webhookTimeout, AllowedTTL: or(z.WebhookAllowedTTL, 5*time.Minute),
			RefusedTTL: or(z.WebhookRefusedTTL, 30*time.Second)}); err != nil {
			return nil, err
		}
	}
	chain, err := inOrder(modes, map[string]auth.Authorizer{ModeNode: node, ModeRBAC: roles, ModeWebhook: hook})
	if err != nil {
		return nil, err
	}
	for i, m := range modes {
		name := strings.ToLower(m)
		if m == ModeWebhook {
			name = "default"
		}
		chain[i] = c.named(name, chain[i])
	}
	chain = append(auth.Chain{rbac.Masters{}}, chain...)
	use(&chain)
	return nil, nil
}

func (c Config) named(name string, a auth.Authorizer) auth.Authorizer {
	if c.on.AtLeast(37) {
		return auth.Named{Name: name, Authorizer: a}
	}
	return a
}

func (c Config) authorizerFile(node, roles auth.Authorizer, use func(*auth.Chain)) (*followed, error) {
	path, modes := c.Authz.ConfigFile, c.Authorization
	if len(modes) > 0 && !slices.Equal(modes, defaultModes()) || c.Authz.WebhookKubeconfig != "" {
		return nil, fmt.Errorf(
			"an authorization configuration (%s) excludes authorization modes and the webhook of a flag: name them in the file", path)
	}
	return load("authorization configuration", func(data [][]byte) error {
		list, err := parseAuthorizers(data[0])
		if err != nil {
			return err
		}
		chain := auth.Chain{rbac.Masters{}}
		for i, x := range list {
			a, err := x.build(c.Kit.Ways, map[string]auth.Authorizer{ModeNode: node, ModeRBAC: roles, ModeAlwaysAllow: everyone{auth.Allow},
				ModeAlwaysDeny: everyone{auth.NoOpinion}})
			if err != nil {
				return fmt.Errorf("authorizers[%d]: %w", i, err)
			}
			chain = append(chain, c.named(x.Name, a))
		}
		use(&chain)
		return nil
	}, path)
}

// A chosenAuthorizer is one entry of the file.
type chosenAuthorizer apiserverv1.AuthorizerConfiguration

func parseAuthorizers(data []byte) (list []chosenAuthorizer, err error) {
	var f apiserverv1.AuthorizationConfiguration
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, strict.Unquoted(err)
	}
	switch f.APIVersion {
	case "apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1":
	default:
		return nil, fmt.Errorf("apiVersion is %q: write apiserver.config.k8s.io/v1", f.APIVersion)
	}
	if f.Kind != "AuthorizationConfiguration" || len(f.Authorizers) == 0 {
		return nil, errors.New("write kind AuthorizationConfiguration and at least one of authorizers")
	}
	names, types := map[string]bool{}, map[string]bool{}
	for i, a := range f.Authorizers {
		switch {
		case a.Name == "":
			return nil, fmt.Errorf("authorizers[%d].name: is needed", i)
		case names[a.Name]:
			return nil, fmt.Errorf("authorizers[%d].name: %q is named twice", i, a.Name)
		case types[a.Type] && a.Type != ModeWebhook:
			return nil, fmt.Errorf("authorizers[%d].type: %s is there twice", i, a.Type)
		case (a.Type == ModeWebhook) != (a.Webhook != nil):
			return nil, fmt.Errorf("authorizers[%d].webhook: is needed with type Webhook, and only there", i)
		}
		names[a.Name], types[a.Type] = true, true
		list = append(list, chosenAuthorizer(a))
	}
	return list, nil
}

func (x chosenAuthorizer) build(ways callers.Ways, known map[string]auth.Authorizer) (auth.Authorizer, error) {
	if a := known[x.Type]; a != nil {
		return a, nil
	}
	if x.Type != ModeWebhook {
		return nil, fmt.Errorf("type %q: use Node, RBAC, Webhook, AlwaysAllow or AlwaysDeny", x.Type)
	}
	w := x.Webhook
	cfg := webhook.Config{Name: x.Name, Ways: ways, Version: w.SubjectAccessReviewVersion, Timeout: w.Timeout.Duration,
		AllowedTTL: or(w.AuthorizedTTL.Duration, 5*time.Minute), RefusedTTL: or(w.UnauthorizedTTL.Duration, 30*time.Second)}
	if w.CacheAuthorizedRequests != nil && !*w.CacheAuthorizedRequests {
		cfg.AllowedTTL = 0
	}
	if w.CacheUnauthorizedRequests != nil && !*w.CacheUnauthorizedRequests {
		cfg.RefusedTTL = 0
	}
	for _, m := range w.MatchConditions {
		cfg.Conditions = append(cfg.Conditions, m.Expression)
	}
	switch {
	case cfg.Timeout <= 0 || cfg.Timeout > webhookTimeout:
		return nil, fmt.Errorf("webhook.timeout: %s must be more than 0 and at most %s", cfg.Timeout, webhookTimeout)
	case w.FailurePolicy != apiserverv1.FailurePolicyDeny && w.FailurePolicy != apiserverv1.FailurePolicyNoOpinion:
		return nil, fmt.Errorf("webhook.failurePolicy: %q: use Deny or NoOpinion", w.FailurePolicy)
	case len(cfg.Conditions) > 0 && w.MatchConditionSubjectAccessReviewVersion != "v1":
		return nil, errors.New("webhook.matchConditionSubjectAccessReviewVersion: must be v1")
	}
	cfg.DenyOnFailure = w.FailurePolicy == apiserverv1.FailurePolicyDeny
	switch c := w.ConnectionInfo; {
	case c.Type == apiserverv1.AuthorizationWebhookConnectionInfoTypeKubeConfigFile && c.KubeConfigFile != nil && *c.KubeConfigFile != "":
		cfg.Kubeconfig = *c.KubeConfigFile
	case c.Type == apiserverv1.AuthorizationWebhookConnectionInfoTypeInCluster && c.KubeConfigFile == nil:
	default:
		return nil, errors.New("webhook.connectionInfo: write type KubeConfigFile with kubeConfigFile, or type InClusterConfig")
	}
	return webhook.NewAuthorizer(cfg)
}
