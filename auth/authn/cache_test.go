package authn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/auth"
)

// counting knows tokens that begin with "good".
type counting struct{ asked int }

func (c *counting) Token(_ context.Context, text string, wanted []string) (*auth.User, []string, bool, error) {
	c.asked++
	switch {
	case strings.HasPrefix(text, "good"):
		return &auth.User{Name: text}, wanted, true, nil
	case text == "bad":
		return nil, nil, false, errors.New("bad")
	}
	return nil, nil, false, nil
}

func TestCache(t *testing.T) {
	now := time.Now()
	behind := &counting{}
	c := &Cache{Tokens: behind, TTL: time.Minute, Now: func() time.Time { return now }}
	ask := func(text string, ok bool, asks int, wanted ...string) {
		t.Helper()
		before := behind.asked
		u, granted, got, _ := c.Token(t.Context(), text, wanted)
		if got != ok || behind.asked-before != asks || ok && (u.Name != text || len(granted) != len(wanted)) {
			t.Errorf("%s: %v after %d questions", text, got, behind.asked-before)
		}
	}
	ask("good", true, 1, "a")
	ask("good", true, 0, "a")
	ask("good", true, 1, "b") // for another audience it may not be good
	ask("bad", false, 1)
	ask("bad", false, 1)
	ask("unknown", false, 1)
	now = now.Add(time.Minute)
	ask("good", true, 1, "a")
	for i := range 2 * maxCached {
		_, _, _, _ = c.Token(t.Context(), fmt.Sprint("good", i), nil)
	}
	if len(c.good) > maxCached {
		t.Errorf("%d tokens are remembered", len(c.good))
	}
}

func TestTokenFile(t *testing.T) {
	s, err := ReadStatic(strings.NewReader("t1,joe,1\nt2,ann,2,\"g1, g2\"\n\nt3,bob,\n"))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"t1": "joe/1 []", "t2": "ann/2 [g1 g2]", "t3": "bob/ []"} {
		t.Run(token, func(t *testing.T) {
			u, _, ok, _ := s.Token(t.Context(), token, nil)
			if !ok || fmt.Sprintf("%s/%s %v", u.Name, u.UID, u.Groups) != want {
				t.Errorf("%s: %+v", token, u)
			}
		})
	}
	if _, _, ok, _ := s.Token(t.Context(), "", nil); ok {
		t.Error("an empty token is somebody's")
	}
	for text, want := range map[string]string{"a,b": "line 1", "t,u,1\n,x,2": "line 2", "t,u,1\nt,v,2": "twice", "\"": "read the token file"} {
		t.Run(text, func(t *testing.T) {
			if _, err := ReadStatic(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		})
	}
}
