package cluster

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/pki"
)

// TestEachLife: in three years of a server's life its certificates, good for one, are issued anew nine times, each long before the one
// before ends; a clock that jumps is followed within the hour.
func TestEachLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		keys, err := pki.Open(pki.Config{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := keys.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		times := 0
		go eachLife(ctx, func() { keys.Renew(); times++ })
		for time.Since(first.Leaf.NotBefore) < 3*365*24*time.Hour {
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			now, err := keys.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(now.Leaf.NotAfter); left < 244*24*time.Hour {
				t.Fatalf("%s are left of the certificate", left)
			}
		}
		stop()
		synctest.Wait()
		if times != 9 {
			t.Errorf("issued anew %d times in three years", times)
		}
	})
}

// TestFinishable: who has been watched for too short a time, or came with an old certificate, stops the end of an exchange, unless forced;
// a server that is away or behind stops it always.
func TestFinishable(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	present, old := []byte("new"), []byte("old")
	came := func(root []byte, ago time.Duration) []authn.Shown {
		return []authn.Shown{{User: "ann", Root: root, Used: now.Add(-ago)}}
	}
	ok := Certs{Server: "a", Exchanging: true, Authority: present, Watched: 600, Clients: came(present, 0)}
	for name, c := range map[string]struct {
		change        func(*Certs)
		plain, forced string // "": it may be finished
	}{
		"all have new ones":            {func(*Certs) {}, "", ""},
		"an old one, long ago":         {func(c *Certs) { c.Clients = came(old, lately) }, "", ""},
		"an old one":                   {func(c *Certs) { c.Clients = came(old, lately-time.Second) }, "ann", ""},
		"just now":                     {func(c *Certs) { c.Watched = 0 }, "ask again in 10m0s", ""},
		"a second too early":           {func(c *Certs) { c.Watched = 599 }, "ask again in 1s, or take --force", ""},
		"nothing is under way":         {func(c *Certs) { c.Watched, c.Exchanging = 0, false }, "", ""},
		"a server that was not told":   {func(c *Certs) { c.Authority = old }, "rotate again", "rotate again"},
		"a server that doesn't answer": {func(c *Certs) { c.Error = "gone" }, "gone", "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			second := ok
			second.Server = "b"
			c.change(&second)
			for force, want := range map[bool]string{false: c.plain, true: c.forced} {
				err := finishable([]*Certs{&ok, &second}, present, now, force)
				if (err == nil) != (want == "") || err != nil && !(strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "server b")) {
					t.Errorf("%s, force %t: %v", name, force, err)
				}
			}
		})
	}
}
