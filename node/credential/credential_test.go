package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// A clock is moved by hand. Who sleeps by it wakes when it was moved far enough.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	asleep bool
	hit    *sync.Cond // the clock was moved, or somebody sleeps
}

func newClock() *clock {
	c := &clock{now: time.Now()}
	c.hit = sync.NewCond(&c.mu)
	return c
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.hit.Broadcast()
}

// pass moves the clock while somebody sleeps: never between their look at it and their sleep, which would then be too long.
func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.asleep {
		c.hit.Wait()
	}
	c.now = c.now.Add(d)
	c.hit.Broadcast()
}

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	defer context.AfterFunc(ctx, func() { c.move(0) })()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep = true
	c.hit.Broadcast()
	for until := c.now.Add(d); c.now.Before(until) && ctx.Err() == nil; {
		c.hit.Wait()
	}
	c.asleep = false
	return ctx.Err()
}

// A desk signs requests for ten minutes.
type desk struct {
	client.Client
	ca    *pki.Authority
	clock *clock
	deny  bool
	away  int   // reads that fail
	err   error // with which they do
	last  *certificatesv1.CertificateSigningRequest
}

func (d *desk) Create(_ context.Context, _ resource.Kind, obj resource.Object) (resource.Object, error) {
	r := obj.(*certificatesv1.CertificateSigningRequest).DeepCopy()
	r.Name = r.GenerateName + "1"
	d.last = r
	return r, nil
}

func (d *desk) Get(context.Context, resource.Kind, string, string) (resource.Object, error) {
	if d.away--; d.away >= 0 {
		return nil, d.err
	}
	r := d.last.DeepCopy()
	if d.deny {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied,
			Status: corev1.ConditionTrue, Reason: "No", Message: "not you"}}
		return r, nil
	}
	block, _ := pem.Decode(r.Spec.Request)
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved,
		Status: corev1.ConditionTrue}}
	r.Status.Certificate, err = d.ca.SignRequest(req, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		10*time.Minute, d.clock.Now())
	return r, err
}

func setup(t *testing.T) (*desk, *clock, Config) {
	t.Helper()
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newClock()
	return &desk{ca: keys.CA, clock: c}, c, Config{Signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Usage: certificatesv1.UsageClientAuth, Roots: keys.CA.Pool,
		Want: &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}},
		File: filepath.Join(t.TempDir(), "client.pem"), Now: c.Now, Sleep: c.sleep}
}

// TestRotation lives through twenty certificates of ten minutes each. The server believes no certificate that has ended, yet no
// request is refused, and a stream that began with the first certificate is still open at the end.
func TestRotation(t *testing.T) {
	d, clock, cfg := setup(t)
	cred := New(cfg)
	cred.AskAs(d)
	if _, err := cred.Get(); err == nil {
		t.Fatal("there is a certificate before anybody asked for one")
	}
	changed := make(chan struct{}, 100)
	cred.OnChange(func() { changed <- struct{}{} })

	certs := &authn.Certs{Roots: d.ca.Pool, Now: clock.Now}
	tick := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok, err := certs.Authenticate(r)
		if !ok || err != nil {
			http.Error(w, fmt.Sprint("who are you? ", err), http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/watch" {
			_ = http.NewResponseController(w).Flush()
			for range tick {
				fmt.Fprint(w, ".")
				_ = http.NewResponseController(w).Flush()
			}
		}
		fmt.Fprint(w, u.Name)
	}))
	pair, err := d.ca.Rotating(pki.Leaf{User: "server", Hosts: []string{"127.0.0.1"}, Server: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := pair.Get()
	if err != nil {
		t.Fatal(err)
	}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{*own}, ClientAuth: tls.RequestClientCert}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cred.Run(ctx) }()
	<-changed
	door := &http.Client{Transport: NewTransport(cred, d.ca.Pool)}
	watch, err := door.Get(srv.URL + "/watch")
	if err == nil {
		defer watch.Body.Close()
	} else {
		t.Fatal(err)
	}
	serials := map[string]bool{}
	for len(serials) < 20 {
		res, err := door.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != "system:node:n1" {
			t.Fatalf("a request was refused: %s", body)
		}
		clock.pass(30 * time.Second)
		// From five minutes before to ten after: 90 % are over when 90 s are left.
		for leaf(t, cred).NotAfter.Sub(clock.Now()) <= 90*time.Second {
			<-changed
		}
		serials[serial(t, cred)] = true
	}
	one := make([]byte, 1)
	tick <- struct{}{}
	if _, err := io.ReadFull(watch.Body, one); err != nil {
		t.Errorf("the stream that began with the first certificate: %v", err)
	}
	close(tick)
	stop()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
	if again := New(cfg); serial(t, again) != serial(t, cred) {
		t.Error("what is in the file is not the newest certificate")
	}
	clock.move(time.Hour)
	if _, err := New(cfg).Get(); err == nil {
		t.Error("a certificate that has ended is taken from the file")
	}
}

func leaf(t *testing.T, c *Credential) *x509.Certificate {
	t.Helper()
	cert, err := c.Get()
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf
}

func serial(t *testing.T, c *Credential) string { t.Helper(); return leaf(t, c).SerialNumber.String() }

// TestServerAway: who asked for a certificate waits for a server that starts again, and not for one that lets nobody read.
func TestServerAway(t *testing.T) {
	d, _, cfg := setup(t)
	d.away, d.err = 2, syscall.ECONNREFUSED
	c := New(cfg)
	c.AskAs(d)
	if err := c.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	d.away, d.err = 1, apierrors.NewUnauthorized("the token is over")
	if err := c.Renew(t.Context()); !apierrors.IsUnauthorized(err) {
		t.Error(err)
	}
}

func TestDenied(t *testing.T) {
	d, _, cfg := setup(t)
	d.deny = true
	c := New(cfg)
	c.AskAs(d)
	if err := c.Renew(t.Context()); err == nil || !strings.Contains(err.Error(), "Denied: No: not you") {
		t.Error(err)
	}
}

// TestAdopt: a certificate of another node, for another use or of another authority is not taken.
func TestAdopt(t *testing.T) {
	d, clock, cfg := setup(t)
	other, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		ca   *pki.Authority
		leaf pki.Leaf
		good bool
	}{
		{"own", d.ca, pki.Leaf{User: "system:node:n1", Client: true}, true},
		{"of another node", d.ca, pki.Leaf{User: "system:node:n2", Client: true}, false},
		{"for servers", d.ca, pki.Leaf{User: "system:node:n1", Server: true}, false},
		{"of another authority", other.CA, pki.Leaf{User: "system:node:n1", Client: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := tt.ca.Rotating(tt.leaf, clock.Now)
			if err != nil {
				t.Fatal(err)
			}
			pair, err := r.Get()
			if err != nil {
				t.Fatal(err)
			}
			if err := New(cfg).Adopt(pair); (err == nil) != tt.good {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
	}
}
