package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/engine"
	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// An operator keeps pairs of switches. What it remembers can be found out again: sessions, and which configurations are saved.
type operator struct {
	secret secretFunc
	// transport reaches a switch that shows the certificate with that fingerprint.
	transport func(fingerprint string) http.RoundTripper

	mu      sync.Mutex
	clients map[string]*session // by address
	equal   map[string]string   // address to the change up to which the configuration is known to be saved
}

// A secretFunc reads a Secret.
type secretFunc func(ctx context.Context, namespace, name string) (map[string][]byte, error)

// A session is a client, and with what it was made.
type session struct {
	made   string // of the fingerprint and the credentials
	client *aoscx.Client
}

func newOperator(secret secretFunc, transport func(string) http.RoundTripper) *operator {
	return &operator{secret: secret, transport: transport, clients: map[string]*session{}, equal: map[string]string{}}
}

// loop is the operator as a loop of the engine. Each pass does one step on one switch, and looks at both again.
func (o *operator) loop(poll time.Duration) engine.Loop[*VSXPair, world] {
	return engine.Loop[*VSXPair, world]{
		Name: "vsx", Kind: engine.Kind[*VSXPair]{CRD: definition},
		Observe: o.observe, Plan: plan, Status: tell, OneByOne: true,
		Poll: poll, Every: poll / 5, Deadline: time.Minute,
		Target: func(p *VSXPair) string { return p.Spec.Primary.Address },
	}
}

// client is the session with a switch. It is kept, for a switch allows few.
func (o *operator) client(ctx context.Context, namespace string, d Device) (*aoscx.Client, error) {
	data, err := o.secret(ctx, namespace, d.Secret)
	if err != nil {
		return nil, fmt.Errorf("read the secret %s: %w", d.Secret, err)
	}
	user, password := string(data["username"]), string(data["password"])
	if user == "" {
		return nil, fmt.Errorf("the secret %s has no username", d.Secret)
	}
	made := d.Fingerprint + "\x00" + user + "\x00" + password
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.clients[d.Address]; s != nil && s.made == made {
		return s.client, nil
	}
	c := &aoscx.Client{Address: d.Address, User: user, Password: password, HTTP: o.transport(d.Fingerprint)}
	if old := o.clients[d.Address]; old != nil {
		go func() { // the old password's session; a switch that does not answer ends it by itself
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = old.client.Close(ctx)
		}()
	}
	o.clients[d.Address] = &session{made, c}
	return c, nil
}

// close logs out everywhere.
func (o *operator) close(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.clients {
		_ = s.client.Close(ctx) // the switch ends it by itself when it is idle
	}
	clear(o.clients)
}
