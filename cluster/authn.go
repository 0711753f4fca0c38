package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/oidc"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/auth/webhook"
	callers "github.com/kloop-dev/kloop/webhook"
)

// How long good tokens are remembered.
const (
	issuedTTL  = 10 * time.Second // of OpenID Connect providers
	webhookTTL = 2 * time.Minute
)

// Authn says who is believed, beside certificates and the cluster's own tokens.
type Authn struct {
	// ConfigFile is upstream's AuthenticationConfiguration: issuers of tokens, and who may be anonymous. It is read again
	// when it changes, and excludes OIDC.
	ConfigFile string
	OIDC       OIDC
	TokenFile  string // lines of token,user,uid,"group,group"; "": none

	WebhookKubeconfig string        // the server that is asked about tokens, by TokenReview; "": none
	WebhookVersion    string        // of TokenReview, v1 or v1beta1; "": v1beta1, upstream's default
	WebhookTTL        time.Duration // how long its good tokens are remembered; 0: 2 min
}

// OIDC is one OpenID Connect provider, in the terms of upstream's --oidc flags.
type OIDC struct {
	IssuerURL      string // https://…; "": none
	ClientID       string
	UsernameClaim  string // "": sub
	UsernamePrefix string // "": the issuer and # unless the claim is email; "-": none
	GroupsClaim    string
	GroupsPrefix   string
	RequiredClaims map[string]string
	CAFile         string   // authorities of the issuer's certificate; "": the host's
	SigningAlgs    []string // none: RS256
}

// check finds what would be passed over in silence.
func (a Authn) check() error {
	o := a.OIDC
	switch {
	case o.IssuerURL == "" && !reflect.DeepEqual(o, OIDC{}):
		return errors.New("settings of an OpenID Connect provider need its issuer's URL")
	case o.IssuerURL != "" && !strings.HasPrefix(o.IssuerURL, "https://"):
		return fmt.Errorf("the OpenID Connect issuer %q is not https://…", o.IssuerURL)
	case a.WebhookKubeconfig == "" && (a.WebhookVersion != "" || a.WebhookTTL != 0):
		return errors.New("settings of the authentication webhook need the kubeconfig of its server")
	}
	if a.ConfigFile != "" && o.IssuerURL != "" {
		return fmt.Errorf(
			"an authentication configuration (%s) and an OpenID Connect issuer (%s) exclude each other: name the issuer in the file",
			a.ConfigFile, o.IssuerURL)
	}
	return nil
}

// extraAuthn are the authenticators of a configuration that may change.
type extraAuthn struct{ now atomic.Pointer[oidc.Config] }

// Token implements authn.Tokens.
func (o *extraAuthn) Token(ctx context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	if c := o.now.Load(); c != nil && c.Issuers != nil {
		return c.Issuers.Token(ctx, text, wanted)
	}
	return nil, nil, false, nil
}

// anonymous tells whether requests for the path need no credentials.
func (o *extraAuthn) anonymous(path string) bool {
	c := o.now.Load()
	if c == nil || c.Anonymous == nil {
		return true
	}
	if !c.Anonymous.Enabled || len(c.Anonymous.Conditions) == 0 {
		return c.Anonymous.Enabled
	}
	for _, x := range c.Anonymous.Conditions {
		if x.Path == path {
			return true
		}
	}
	return false
}

// tokens are all kinds of tokens that are believed.
func (d *frontDoor) tokens() (authn.Tokens, error) {
	a := d.c.cfg.Authn
	var all authn.TokenUnion
	if d.c.elsewhere != nil {
		return &authn.Cache{Tokens: d.c.elsewhere, TTL: rightsTTL}, nil
	}
	if a.TokenFile != "" {
		fixed, err := a.fixed()
		if err != nil {
			return nil, err
		}
		all = append(all, fixed)
	}
	all = append(all, authn.ServiceAccounts{Signer: d.signer, Read: d.read}, authn.Bootstrap{Read: d.read})
	if a.ConfigFile != "" || a.OIDC.IssuerURL != "" {
		if err := d.c.follow(d.c.cfg.issuers(d.outside.now.Store)); err != nil {
			return nil, err
		}
		all = append(all, &authn.Cache{Tokens: &d.outside, TTL: issuedTTL})
	}
	if a.WebhookKubeconfig != "" {
		w, err := a.webhook(d.c.cfg.Kit.Ways)
		if err != nil {
			return nil, err
		}
		all = append(all, &authn.Cache{Tokens: w, TTL: or(a.WebhookTTL, webhookTTL)})
	}
	return all, nil
}

// fixed reads the file of fixed tokens.
func (a Authn) fixed() (fixed authn.Static, err error) {
	f, err := os.Open(a.TokenFile)
	if err != nil {
		return fixed, fmt.Errorf("read the token file: %w", err)
	}
	defer f.Close()
	if fixed, err = authn.ReadStatic(f); err != nil {
		return fixed, fmt.Errorf("%s: %w", a.TokenFile, err)
	}
	return fixed, nil
}

// webhook reads the kubeconfig of the server that is asked about tokens.
func (a Authn) webhook(w callers.Ways) (*webhook.Tokens, error) {
	return webhook.NewTokens(w, a.WebhookKubeconfig, or(a.WebhookVersion, "v1beta1"))
}

func or[T comparable](v, other T) T {
	var none T
	if v == none {
		return other
	}
	return v
}

// issuers loads the authentication configuration, or what stands in its place.
func (c Config) issuers(use func(*oidc.Config)) (*followed, error) {
	a, own := c.Authn, []string{or(c.Issuer, token.Issuer)}
	if a.ConfigFile != "" {
		return load("authentication configuration", func(data [][]byte) error {
			made, err := oidc.Parse(data[0], oidc.Options{Taken: own})
			if err == nil {
				use(made)
			}
			return err
		}, a.ConfigFile)
	}
	spec, err := a.OIDC.spec()
	if err != nil {
		return nil, err
	}
	algs := a.OIDC.SigningAlgs
	if len(algs) == 0 {
		algs = []string{"RS256"}
	}
	made, err := oidc.New(&apiserverv1.AuthenticationConfiguration{JWT: []apiserverv1.JWTAuthenticator{spec}},
		oidc.Options{Taken: own, Algorithms: algs})
	if err != nil {
		return nil, fmt.Errorf("the OpenID Connect issuer: %w", err)
	}
	use(made)
	return nil, nil
}

// spec is the provider in the terms of an AuthenticationConfiguration.
func (o OIDC) spec() (s apiserverv1.JWTAuthenticator, err error) {
	if o.ClientID == "" {
		return s, fmt.Errorf("the OpenID Connect issuer %s needs a client id, for which its tokens must be", o.IssuerURL)
	}
	s.Issuer = apiserverv1.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}}
	if o.CAFile != "" {
		ca, err := os.ReadFile(o.CAFile)
		if err != nil {
			return s, fmt.Errorf("read the authorities of the OpenID Connect issuer: %w", err)
		}
		s.Issuer.CertificateAuthority = string(ca)
	}
	claim, prefix := or(o.UsernameClaim, "sub"), o.UsernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	s.ClaimMappings.Username = apiserverv1.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}
	if o.GroupsClaim != "" {
		s.ClaimMappings.Groups = apiserverv1.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	for _, name := range names(o.RequiredClaims) {
		s.ClaimValidationRules = append(s.ClaimValidationRules,
			apiserverv1.ClaimValidationRule{Claim: name, RequiredValue: o.RequiredClaims[name]})
	}
	return s, nil
}
