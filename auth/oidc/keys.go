package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds of fetching keys.
const (
	fetchAgain = 10 * time.Second // at least between two fetches, however many unknown keys are named
	fetchLimit = 10 * time.Second
	maxAnswer  = 1 << 20 // bytes
)

// A keySet is the keys of one issuer.
type keySet struct {
	issuer    string
	discovery string // where the issuer describes itself
	client    *http.Client
	now       func() time.Time

	turn chan struct{} // held by the goroutine that fetches
	last atomic.Pointer[fetched]

	told atomic.Pointer[Fetches] // of the document with the keys
}

// Fetches says when the document with an issuer's keys was last fetched, and when that last failed; the zero time: never.
type Fetches struct {
	Issuer     string
	OK, Failed time.Time
	Sum        [sha256.Size]byte // of the last such document that was fetched
}

// note records a fetch of the document with the keys; who calls it holds the turn.
func (s *keySet) note(body []byte, err error) {
	f := Fetches{Issuer: s.issuer}
	if old := s.told.Load(); old != nil {
		f = *old
	}
	if err != nil {
		f.Failed = s.now()
	} else {
		f.OK, f.Sum = s.now(), sha256.Sum256(body)
	}
	s.told.Store(&f)
}

// Fetches are those of all issuers whose keys were asked for, by issuer.
func (s *Issuers) Fetches() (list []Fetches) {
	for _, url := range slices.Sorted(maps.Keys(s.byURL)) {
		if f := s.byURL[url].keys.told.Load(); f != nil {
			list = append(list, *f)
		}
	}
	return list
}

func newKeySet(issuer, discovery string, client *http.Client, now func() time.Time) *keySet {
	return &keySet{issuer: issuer, discovery: discovery, client: client, now: now, turn: make(chan struct{}, 1)}
}

// wellKnown is the default path of an issuer's discovery document.
func wellKnown(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}

type fetched struct {
	at   time.Time
	err  error
	keys []key
}

type key struct {
	id  string
	key jwt.VerificationKey
}

var errUnknownKey = errors.New("the issuer has no such key")

// find returns the keys of the id, or all when the token names none. Keys that are not known are fetched.
func (s *keySet) find(ctx context.Context, id string) ([]jwt.VerificationKey, error) {
	if keys, done, err := s.known(id); done {
		return keys, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if keys, done, err := s.known(id); done { // somebody else fetched meanwhile
		return keys, err
	}
	// What is fetched is for all, so it does not end with the request that happened to ask.
	fetching, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	defer cancel()
	f := &fetched{at: s.now()}
	if f.keys, f.err = s.fetch(fetching); f.err != nil {
		f.err = fmt.Errorf("fetch the keys of %s: %w", s.issuer, f.err)
		if old := s.last.Load(); old != nil {
			f.keys = old.keys
		}
	}
	s.last.Store(f)
	keys, _, err := s.known(id)
	return keys, err
}

// known answers without fetching, if that is possible or it is too early to fetch again.
func (s *keySet) known(id string) (keys []jwt.VerificationKey, done bool, err error) {
	f := s.last.Load()
	if f == nil {
		return nil, false, nil
	}
	for _, k := range f.keys {
		if id == "" || k.id == id {
			keys = append(keys, k.key)
		}
	}
	if len(keys) > 0 {
		return keys, true, nil
	}
	if f.err != nil {
		return nil, s.now().Sub(f.at) < fetchAgain, f.err
	}
	return nil, s.now().Sub(f.at) < fetchAgain, errUnknownKey
}

func (s *keySet) fetch(ctx context.Context) ([]key, error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if _, err := s.get(ctx, s.discovery, &about); err != nil {
		return nil, err
	}
	if about.Issuer != s.issuer {
		return nil, fmt.Errorf("%s describes the issuer %q", s.discovery, about.Issuer)
	}
	var set struct {
		Keys []webKey `json:"keys"`
	}
	body, err := s.get(ctx, about.Keys, &set)
	s.note(body, err)
	if err != nil {
		return nil, err
	}
	var keys []key
	for _, w := range set.Keys {
		if k, err := w.public(); err == nil { // keys of other forms are for other purposes
			keys = append(keys, key{w.ID, k})
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no key that can be used", about.Keys)
	}
	return keys, nil
}

// get reads a document, and returns its bytes as well.
func (s *keySet) get(ctx context.Context, url string, into any) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	return body, nil
}

// A webKey is a key of RFC 7517.
type webKey struct {
	ID    string `json:"kid"`
	Type  string `json:"kty"`
	Use   string `json:"use"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
	N     string `json:"n"`
	E     string `json:"e"`
}

func (w webKey) public() (jwt.VerificationKey, error) {
	if w.Use != "" && w.Use != "sig" {
		return nil, errors.New("the key is not for signatures")
	}
	switch w.Type {
	case "RSA":
		n, e := number(w.N), number(w.E)
		if n.Sign() <= 0 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return nil, errors.New("no RSA key")
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[w.Curve]
		if curve == nil {
			return nil, fmt.Errorf("curve %q is not known", w.Curve)
		}
		size := (curve.Params().BitSize + 7) / 8
		point := make([]byte, 1, 1+2*size)
		point[0] = 4 // uncompressed
		for _, c := range []*big.Int{number(w.X), number(w.Y)} {
			if c.BitLen() > 8*size {
				return nil, errors.New("no point of the curve")
			}
			point = append(point, c.FillBytes(make([]byte, size))...)
		}
		return ecdsa.ParseUncompressedPublicKey(curve, point)
	}
	return nil, fmt.Errorf("key type %q is not known", w.Type)
}

// number reads a base64url integer; 0 for what is none.
func number(s string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}
