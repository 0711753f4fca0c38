package authn

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/auth"
)

// maxCached bounds the number of remembered tokens.
const maxCached = 4096

// Cache remembers for a while whose good tokens are, for authenticators that are dear to ask. Tokens that are not good are
// asked about again. It is safe for concurrent use.
type Cache struct {
	Tokens Tokens
	TTL    time.Duration
	Now    func() time.Time // nil: time.Now

	mu   sync.Mutex
	good map[[sha256.Size]byte]remembered
}

type remembered struct {
	user    *auth.User
	granted []string
	until   time.Time
}

// Token implements Tokens.
func (c *Cache) Token(ctx context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	key := sha256.Sum256([]byte(strings.Join(append([]string{text}, wanted...), "\x00")))
	now := clock(c.Now)
	c.mu.Lock()
	r, ok := c.good[key]
	c.mu.Unlock()
	if ok && now.Before(r.until) {
		return r.user, slices.Clone(r.granted), true, nil
	}
	u, granted, ok, err := c.Tokens.Token(ctx, text, wanted)
	if ok && err == nil {
		c.put(key, remembered{u, slices.Clone(granted), now.Add(c.TTL)})
	}
	return u, granted, ok, err
}

func (c *Cache) put(key [sha256.Size]byte, r remembered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.good == nil {
		c.good = map[[sha256.Size]byte]remembered{}
	}
	for old := range c.good {
		if len(c.good) < maxCached {
			break
		}
		delete(c.good, old)
	}
	c.good[key] = r
}
