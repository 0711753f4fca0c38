package oidc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	authcel "k8s.io/apiserver/pkg/authentication/cel"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds/expression"
	"github.com/kloop-dev/kloop/strict"
)

// A Config is a compiled AuthenticationConfiguration.
type Config struct {
	Issuers   *Issuers                         // nil: none
	Anonymous *apiserverv1.AnonymousAuthConfig // nil: not said
}

// Options hold what a configuration leaves open.
type Options struct {
	Algorithms []string // of signatures; none: all that upstream allows
	Taken      []string // issuers that others answer for: that of service account tokens
	Now        func() time.Time
}

// maxIssuers is upstream's bound.
const maxIssuers = 64

// algorithms are those that tokens may be signed with: none with a shared secret.
var algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"}

// Parse reads an AuthenticationConfiguration (apiserver.config.k8s.io/v1, or its betas).
func Parse(data []byte, o Options) (*Config, error) {
	var c apiserverv1.AuthenticationConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("read the AuthenticationConfiguration: %w", strict.Unquoted(err))
	}
	version, ok := strings.CutPrefix(c.APIVersion, "apiserver.config.k8s.io/")
	if c.Kind != "AuthenticationConfiguration" || !ok || !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, version) {
		return nil, fmt.Errorf("the file is a %q of %q: write kind AuthenticationConfiguration, apiVersion apiserver.config.k8s.io/v1",
			c.Kind, c.APIVersion)
	}
	return New(&c, o)
}

// New makes issuers of a configuration. Nothing is fetched yet.
func New(c *apiserverv1.AuthenticationConfiguration, o Options) (*Config, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = algorithms
	}
	for _, a := range o.Algorithms {
		if !slices.Contains(algorithms, a) {
			return nil, fmt.Errorf("signing algorithm %q: use some of %v", a, algorithms)
		}
	}
	if a := c.Anonymous; a != nil && !a.Enabled && len(a.Conditions) > 0 {
		return nil, errors.New("anonymous.conditions: take effect only with enabled: true")
	}
	if len(c.JWT) > maxIssuers {
		return nil, fmt.Errorf("jwt: %d issuers; %d are the most", len(c.JWT), maxIssuers)
	}
	out := &Config{Anonymous: c.Anonymous}
	if len(c.JWT) == 0 {
		return out, nil
	}
	expression.Bound()
	compiler := authcel.NewDefaultCompiler()
	all := map[string]*issuer{}
	for n := range c.JWT {
		spec := &c.JWT[n]
		i, err := newIssuer(spec, compiler, o)
		if err == nil && all[i.url] != nil {
			err = fmt.Errorf("issuer.url: %q is named twice", i.url)
		}
		if err == nil && slices.Contains(o.Taken, i.url) {
			err = fmt.Errorf("issuer.url: %q is the issuer of service account tokens", i.url)
		}
		if err != nil {
			return nil, fmt.Errorf("jwt[%d].%w", n, err)
		}
		all[i.url] = i
	}
	out.Issuers = &Issuers{all}
	return out, nil
}

func newIssuer(spec *apiserverv1.JWTAuthenticator, compiler authcel.Compiler, o Options) (*issuer, error) {
	if err := checkIssuer(&spec.Issuer); err != nil {
		return nil, err
	}
	m, err := newMapping(spec, compiler)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: fetchLimit}
	if ca := spec.Issuer.CertificateAuthority; ca != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("issuer.certificateAuthority: holds no certificate in PEM")
		}
		client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: fetchLimit, IdleConnTimeout: time.Minute}
	}
	discovery := wellKnown(spec.Issuer.URL)
	if d := spec.Issuer.DiscoveryURL; d != nil && *d != "" {
		discovery = *d
	}
	i := &issuer{url: spec.Issuer.URL, audiences: spec.Issuer.Audiences, mapping: m, now: o.Now,
		parser: jwt.NewParser(jwt.WithValidMethods(o.Algorithms), jwt.WithoutClaimsValidation()),
		keys:   newKeySet(spec.Issuer.URL, discovery, client, o.Now)}
	if groups := spec.ClaimMappings.Groups.Claim; groups != "" {
		i.elsewhere = &elsewhere{claim: groups, of: i}
	}
	return i, nil
}

func checkIssuer(i *apiserverv1.Issuer) error {
	if err := checkURL(i.URL); err != nil {
		return fmt.Errorf("issuer.url: %w", err)
	}
	if d := i.DiscoveryURL; d != nil && *d != "" {
		if err := checkURL(*d); err != nil {
			return fmt.Errorf("issuer.discoveryURL: %w", err)
		}
		if strings.TrimRight(*d, "/") == strings.TrimRight(i.URL, "/") {
			return errors.New("issuer.discoveryURL: must differ from url; leave it out")
		}
	}
	switch {
	case len(i.Audiences) == 0:
		return errors.New("issuer.audiences: at least one is needed")
	case slices.Contains(i.Audiences, ""):
		return errors.New("issuer.audiences: one is empty")
	case len(slices.Compact(slices.Sorted(slices.Values(i.Audiences)))) < len(i.Audiences):
		return errors.New("issuer.audiences: one is named twice")
	case len(i.Audiences) > 1 && i.AudienceMatchPolicy != apiserverv1.AudienceMatchPolicyMatchAny:
		return errors.New("issuer.audienceMatchPolicy: must be MatchAny for several audiences")
	case i.AudienceMatchPolicy != "" && i.AudienceMatchPolicy != apiserverv1.AudienceMatchPolicyMatchAny:
		return errors.New("issuer.audienceMatchPolicy: must be MatchAny or left out")
	case i.EgressSelectorType != "":
		return errors.New("issuer.egressSelectorType: there are no egress selectors; leave it out")
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("is needed")
	case err != nil:
		return err
	case u.Scheme != "https":
		return fmt.Errorf("%q must begin with https://", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q must have no user, query or fragment", text)
	}
	return nil
}
