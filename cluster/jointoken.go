package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/past"
	"github.com/kloop-dev/kloop/trail"
)

// A join token admits a server to a cluster:
//
//	kloop-join.EXPIRY.NONCE.MAC.AUTHORITY
//
// EXPIRY is in Unix seconds; MAC shows that a holder of the authority's key made the token, so nothing needs to be
// stored for it; AUTHORITY is the hash of the authority's public key, by which the newcomer knows that it speaks
// to the right cluster before it tells the token.
const tokenStart = "kloop-join"

// MaxJoinLife bounds the life of a join token: it can't be taken back.
const MaxJoinLife = 24 * time.Hour

// JoinToken makes a token that is good for life.
func JoinToken(keys *pki.PKI, life time.Duration) (string, error) {
	if life <= 0 || life > MaxJoinLife {
		return "", fmt.Errorf("life of a join token: %v is not between 0 and %v", life, MaxJoinLife)
	}
	nonce := make([]byte, 8)
	_, _ = rand.Read(nonce) // never fails
	said := fmt.Sprintf("%s.%d.%x", tokenStart, time.Now().Add(life).Unix(), nonce)
	mac, err := joinMAC(keys, said)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s.%x.%x", said, mac, pki.KeyHash(keys.CA.Cert())), nil
}

// joinMAC returns a MAC that only a holder of the authority's key can compute.
func joinMAC(keys *pki.PKI, said string) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(keys.CA.Key())
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	secret := sha256.Sum256(append([]byte("kloop join token\x00"), der...))
	h := hmac.New(sha256.New, secret[:])
	h.Write([]byte(said))
	return h.Sum(nil)[:16], nil
}

// tokenAuthority is the hash that a token names.
func tokenAuthority(token string) ([]byte, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 5 || parts[0] != tokenStart {
		return nil, errors.New("this is no join token; kloop token prints one on a running server's machine")
	}
	hash, err := hex.DecodeString(parts[4])
	if err != nil || len(hash) != sha256.Size {
		return nil, errors.New("the join token is damaged")
	}
	return hash, nil
}

// checkToken says why a token is not good at a time; nil when it is.
func checkToken(keys *pki.PKI, token string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 5 {
		return errors.New("damaged")
	}
	want, err := joinMAC(keys, strings.Join(parts[:3], "."))
	if err != nil {
		return err
	}
	got, err := hex.DecodeString(parts[3])
	if err != nil || subtle.ConstantTimeCompare(got, want) != 1 {
		return errors.New("not made by this cluster")
	}
	until, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || now.Unix() >= until {
		return errors.New("expired; kloop token prints a new one")
	}
	return nil
}

// joiner is the user name of a holder of a join token. The name opens nothing.
const joiner = "system:kloop:joiner"

// joinTokens authenticates servers that want to join; it implements authn.Tokens.
type joinTokens struct{ keys *pki.PKI }

// Token implements authn.Tokens.
func (j joinTokens) Token(_ context.Context, token string, wanted []string) (*auth.User, []string, bool, error) {
	if !strings.HasPrefix(token, tokenStart+".") {
		return nil, nil, false, nil
	}
	if err := checkToken(j.keys, token, time.Now()); err != nil {
		return nil, nil, false, fmt.Errorf("join token: %w", err)
	}
	return &auth.User{Name: joiner, Groups: []string{auth.GroupAuthenticated}, Joiner: true}, wanted, true, nil
}

// serverAccess guards what servers and administrators alone may have: the cluster's keys, its members, copies of the
// whole store. It leaves all other decisions to others.
type serverAccess struct{ auth.Authorizer }

// serverGroup is the API group of the permissions for it. They are asked for as for resources, so that a role that may read
// all paths (nonResourceURLs *), as many monitoring roles may, does not have them.
const serverGroup = "server.kloop.dev"

// Authorize implements auth.Authorizer.
func (z serverAccess) Authorize(ctx context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	rest, own := strings.CutPrefix(a.Path, "/kloop/")
	told := a.Path == past.Page || a.Path == past.Gaps || a.Path == trail.Page
	if told && a.Resource == "" && a.Verb == "get" && a.User.In(auth.GroupAuthenticated) {
		return auth.Allow, "the answer is what this user may read", nil
	}
	if a.Resource != "" || !own {
		return z.Authorizer.Authorize(ctx, a)
	}
	if a.Path == keysPath || a.Path == joinPath {
		if a.User.Joiner && a.Verb == "post" {
			return auth.Allow, "holds a join token", nil
		}
		return auth.Deny, "only a join token opens this", nil
	}
	if a.Path == CertsPath+"/adopt" && !a.User.In(auth.GroupMasters) {
		return auth.Deny, "keys are taken from other servers alone", nil
	}
	what, name, _ := strings.Cut(rest, "/")
	if what == "" {
		return auth.Deny, "there is no such page", nil
	}
	d, reason, err := z.Authorizer.Authorize(ctx, &auth.Attributes{User: a.User, Verb: a.Verb, Group: serverGroup, Version: "v1",
		Resource: what, Name: name})
	if d != auth.Allow {
		return auth.Deny, fmt.Sprintf("this needs the right to %s the resource %q in API group %q", a.Verb, what, serverGroup), err
	}
	return d, reason, nil
}
