package authn

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/resource"
)

// maxToken bounds the length of a token in bytes.
const maxToken = 64 << 10

var errBearer = errors.New("invalid bearer token")

// Bearer authenticates by the Authorization header, or for WebSockets, whose clients cannot set headers, by
// the subprotocol base64url.bearer.authorization.k8s.io. A good token is taken out of the request, so that
// it is not passed on to a proxied server.
type Bearer struct {
	Tokens    Tokens
	Audiences []string // the API server's
}

// Authenticate implements auth.Authenticator.
func (b Bearer) Authenticate(r *http.Request) (*auth.User, bool, error) {
	text, socket := bearer(r), false
	if text == "" {
		var err error
		if text, err = protocol(r); err != nil {
			return nil, false, err
		}
		socket = text != ""
	}
	if text == "" {
		return nil, false, nil
	}
	if len(text) > maxToken {
		return nil, false, errBearer
	}
	u, _, ok, err := b.Tokens.Token(r.Context(), text, b.Audiences)
	switch {
	case err != nil:
		return nil, false, err
	case !ok:
		return nil, false, errBearer
	case socket:
		dropProtocol(r)
	default:
		r.Header.Del("Authorization")
	}
	return u, true, nil
}

func bearer(r *http.Request) string {
	parts := strings.SplitN(strings.TrimSpace(r.Header.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

const (
	protocolHeader = "Sec-Websocket-Protocol"
	protocolPrefix = "base64url.bearer.authorization.k8s.io."
)

func protocol(r *http.Request) (string, error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", nil
	}
	for _, p := range protocols(r) {
		code, ok := strings.CutPrefix(p, protocolPrefix)
		if !ok {
			continue
		}
		data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(code, "="))
		if err != nil || !utf8.Valid(data) {
			return "", errBearer
		}
		return string(data), nil
	}
	return "", nil
}

func protocols(r *http.Request) (all []string) {
	for _, line := range r.Header.Values(protocolHeader) {
		for p := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(p))
		}
	}
	return all
}

func dropProtocol(r *http.Request) {
	rest := slices.DeleteFunc(protocols(r), func(p string) bool { return strings.HasPrefix(p, protocolPrefix) })
	r.Header.Set(protocolHeader, strings.Join(rest, ", "))
}

// ServiceAccounts knows service account tokens.
type ServiceAccounts struct {
	Signer *token.Signer
	Read   func() resource.Reader // newest state
}

// Token implements Tokens.
func (s ServiceAccounts) Token(_ context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	return s.Signer.Verify(text, s.Read(), wanted)
}

// Static knows a fixed set of tokens, which are for every audience. Make it with NewStatic.
type Static map[[sha256.Size]byte]*auth.User

// NewStatic returns the users by token. The tokens are kept as hashes, which also makes the lookup's duration
// tell nothing of them.
func NewStatic(users map[string]*auth.User) Static {
	s := Static{}
	for t, u := range users {
		s[sha256.Sum256([]byte(t))] = u
	}
	return s
}

// Token implements Tokens.
func (s Static) Token(_ context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	u, ok := s[sha256.Sum256([]byte(text))]
	return u, wanted, ok, nil
}
