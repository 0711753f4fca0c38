package token

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

type jsonWebKey struct {
	Use string `json:"use"`
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Crv string `json:"crv,omitempty"`
	Alg string `json:"alg"`
	X   string `json:"x,omitempty"`
	Y   string `json:"y,omitempty"`
	N   string `json:"n,omitempty"`
	E   string `json:"e,omitempty"`
}

// JWKS returns the document of /openid/v1/jwks: the public keys that tokens may be signed with.
func (s *Signer) JWKS() ([]byte, error) {
	set := struct {
		Keys []jsonWebKey `json:"keys"`
	}{Keys: []jsonWebKey{}}
	b64 := base64.RawURLEncoding.EncodeToString
	r := s.now.Load()
	for _, kid := range r.order {
		k := jsonWebKey{Use: "sig", Kid: kid}
		switch pub := r.keys[kid].(type) {
		case *ecdsa.PublicKey:
			point, err := pub.Bytes() // 4, then both coordinates
			if err != nil {
				return nil, fmt.Errorf("publish a service account key: %w", err)
			}
			half := (len(point) - 1) / 2
			k.Kty, k.Crv, k.Alg, k.X, k.Y = "EC", "P-256", "ES256", b64(point[1:1+half]), b64(point[1+half:])
		case *rsa.PublicKey:
			k.Kty, k.Alg, k.N, k.E = "RSA", "RS256", b64(pub.N.Bytes()), b64(big.NewInt(int64(pub.E)).Bytes())
		}
		set.Keys = append(set.Keys, k)
	}
	return json.Marshal(set)
}

// Discovery returns the document of /.well-known/openid-configuration; server is the address under which
// clients reach the API server, "" means the issuer's.
func (s *Signer) Discovery(server string) ([]byte, error) {
	if server == "" {
		server = s.cfg.Issuer
	}
	algs := []string{}
	r := s.now.Load()
	for _, kid := range r.order {
		if m, err := methodOf(r.keys[kid]); err == nil && !strings.Contains(strings.Join(algs, " "), m.Alg()) {
			algs = append(algs, m.Alg())
		}
	}
	return json.Marshal(struct { // in this order
		Issuer        string   `json:"issuer"`
		Keys          string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{s.cfg.Issuer, strings.TrimSuffix(server, "/") + "/openid/v1/jwks", []string{"id_token"}, []string{"public"}, algs})
}
