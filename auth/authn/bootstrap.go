package authn

import (
	"context"
	"crypto/subtle"
	"errors"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// BootstrapGroup is the group of all who join with a bootstrap token.
const BootstrapGroup = "system:bootstrappers"

// longestGroup is the length of the longest name that another group of a bootstrap token may have. It is not counted by groupForm, which
// would weigh 180 KB then.
const longestGroup = len("system:bootstrappers:") + 256

var (
	tokenForm = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	groupForm = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]*[a-z0-9]\z`)

	errBootstrap = errors.New("the bootstrap token is not good for authentication")
)

// Bootstrap knows bootstrap tokens: Secrets named bootstrap-token-<id> in kube-system.
type Bootstrap struct {
	Read func() resource.Reader
	Now  func() time.Time // nil: time.Now
}

// Token implements Tokens.
func (b Bootstrap) Token(_ context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	m := tokenForm.FindStringSubmatch(text)
	if m == nil {
		return nil, nil, false, nil
	}
	now := time.Now
	if b.Now != nil {
		now = b.Now
	}
	secret := resource.Get(b.Read(), core.Secrets, "kube-system", "bootstrap-token-"+m[1])
	if secret == nil {
		return nil, nil, false, nil
	}
	groups, ok := admits(secret, m[1], m[2], now())
	if !ok {
		return nil, nil, false, errBootstrap
	}
	return &auth.User{Name: "system:bootstrap:" + m[1], Groups: groups}, wanted, true, nil
}

// admits tells whether the secret makes the token good, and for membership in which groups.
func admits(s *corev1.Secret, id, password string, now time.Time) (groups []string, ok bool) {
	if s.DeletionTimestamp != nil || s.Type != corev1.SecretTypeBootstrapToken || string(s.Data["token-id"]) != id ||
		subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(password)) != 1 ||
		string(s.Data["usage-bootstrap-authentication"]) != "true" {
		return nil, false
	}
	if until := string(s.Data["expiration"]); until != "" {
		if t, err := time.Parse(time.RFC3339, until); err != nil || !now.Before(t) {
			return nil, false
		}
	}
	groups = []string{BootstrapGroup}
	for g := range strings.SplitSeq(string(s.Data["auth-extra-groups"]), ",") {
		switch {
		case g == "":
		case !groupForm.MatchString(g) || len(g) > longestGroup:
			return nil, false
		default:
			groups = append(groups, g)
		}
	}
	return groups, true
}
