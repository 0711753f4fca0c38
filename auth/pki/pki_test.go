package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func open(t testing.TB, cfg Config) *PKI {
	t.Helper()
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestServingCertificate(t *testing.T) {
	p := open(t, Config{Hosts: []string{"node-1", "192.0.2.7"}})
	c, err := p.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "localhost", "127.0.0.1", "10.96.0.1", "node-1", "192.0.2.7"} {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: p.CA.Pool()}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "late.example", Roots: p.CA.Pool()}); err == nil {
		t.Error("valid for a name that was not asked for")
	}
	p.AddHosts("late.example")
	c, _ = p.GetCertificate(nil)
	if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "late.example", Roots: p.CA.Pool()}); err != nil {
		t.Error(err)
	}
}

func TestServingCertificateIsRenewed(t *testing.T) {
	now := time.Now()
	p := open(t, Config{Now: func() time.Time { return now }})
	first, _ := p.GetCertificate(nil)
	now = now.Add(leafLife / 2)
	if same, _ := p.GetCertificate(nil); same != first {
		t.Error("renewed too early")
	}
	now = now.Add(leafLife / 4)
	next, err := p.GetCertificate(nil)
	if err != nil || next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("not renewed: %v", err)
	}
}

func TestIssue(t *testing.T) {
	p := open(t, Config{})
	certPEM, keyPEM, err := p.Issue("alice", []string{"ops", "devs"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	certs, _ := ParseCerts(certPEM)
	c := certs[0]
	if c.Subject.CommonName != "alice" || strings.Join(c.Subject.Organization, ",") != "ops,devs" {
		t.Errorf("subject %v", c.Subject)
	}
	if left := time.Until(c.NotAfter); left > time.Hour || left < 59*time.Minute {
		t.Errorf("valid for %v", left)
	}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := c.Verify(x509.VerifyOptions{Roots: p.CA.Pool(), KeyUsages: client}); err != nil {
		t.Error(err)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: p.FrontProxy.Pool(), KeyUsages: client}); err == nil {
		t.Error("the front-proxy authority vouches for it")
	}
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err := c.Verify(x509.VerifyOptions{Roots: p.CA.Pool(), KeyUsages: server}); err == nil {
		t.Error("good for servers")
	}
}

func TestSignRequest(t *testing.T) {
	p := open(t, Config{})
	key, _ := newKey()
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := x509.ParseCertificateRequest(der)
	text, err := p.CA.SignRequest(req, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		2*authorityLife, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certs, _ := ParseCerts(text)
	if certs[0].NotAfter.After(p.CA.Cert().NotAfter) {
		t.Error("outlives its authority")
	}
	req.Signature[len(req.Signature)-1] ^= 1
	if _, err := p.CA.SignRequest(req, 0, nil, time.Hour, time.Now()); err == nil {
		t.Error("a forged request was signed")
	}
}

func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a, b := open(t, Config{Dir: dir}), open(t, Config{Dir: dir})
	if !a.CA.Cert().Equal(b.CA.Cert()) || !a.FrontProxy.Cert().Equal(b.FrontProxy.Cert()) {
		t.Error("the authorities changed")
	}
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if i, _ := f.Info(); i.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), i.Mode())
		}
		if strings.HasSuffix(f.Name(), ".tmp") {
			t.Errorf("%s is left over", f.Name())
		}
	}
	if len(files) != 6 {
		t.Errorf("%d files", len(files))
	}
}

func TestDamaged(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"garbage certificate", "ca.crt", "what is this", "ca.crt cannot be read"},
		{"empty certificate", "ca.crt", "", "ca.crt cannot be read"},
		{"empty key", "ca.key", "", "ca.key cannot be read"},
		{"truncated key", "sa.key", "-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----\n", "sa.key cannot be read"},
		{"missing key", "ca.key", "-", "ca.key is missing"},
		{"foreign key", "ca.key", "+", "does not belong to ca.key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, Config{Dir: dir})
			path := filepath.Join(dir, c.file)
			switch c.text {
			case "-":
				os.Remove(path)
			case "+":
				k, _ := newKey()
				text, _ := keyPEM(k)
				os.WriteFile(path, text, 0o600)
			default:
				os.WriteFile(path, []byte(c.text), 0o600)
			}
			if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCrashBetweenRenames(t *testing.T) {
	t.Attr("retry", "never") // data that is lost once is lost
	dir := t.TempDir()
	a := open(t, Config{Dir: dir})
	os.Remove(filepath.Join(dir, "ca.crt"))
	os.WriteFile(filepath.Join(dir, "ca.crt.tmp"), []byte("half"), 0o600)
	b := open(t, Config{Dir: dir})
	if !sameKey(b.CA.Cert(), a.CA.Key()) {
		t.Error("the key was not used again")
	}
}

func TestKubeconfig(t *testing.T) {
	p := open(t, Config{})
	cert, key, _ := p.Issue("admin", []string{"system:masters"}, 0)
	cfg, err := clientcmd.RESTConfigFromKubeConfig(Kubeconfig("https://127.0.0.1:6443", p.CA.PEM(), cert, key))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://127.0.0.1:6443" || string(cfg.CAData) != string(p.CA.PEM()) ||
		string(cfg.CertData) != string(cert) || string(cfg.KeyData) != string(key) {
		t.Error("the configuration lost something")
	}
}

func BenchmarkOpenInMemory(b *testing.B) {
	for b.Loop() {
		p := open(b, Config{})
		if _, _, err := p.Issue("admin", []string{"system:masters"}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenOnDisk(b *testing.B) {
	for b.Loop() {
		open(b, Config{Dir: b.TempDir()})
	}
}

// TestRotating lets a year and a half go by, week by week.
func TestRotating(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	p, err := Open(Config{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.CA.Rotating(Leaf{User: "agent", Client: true, Life: 30 * 24 * time.Hour}, clock)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 78 {
		for name, get := range map[string]func() (*tls.Certificate, error){"client": r.Get,
			"serving": func() (*tls.Certificate, error) { return p.GetCertificate(nil) }} {
			c, err := get()
			if err != nil {
				t.Fatal(err)
			}
			if now.After(c.Leaf.NotAfter) || now.Before(c.Leaf.NotBefore) {
				t.Errorf("%s: at %s a certificate for %s to %s", name, now, c.Leaf.NotBefore, c.Leaf.NotAfter)
			}
			if again, _ := get(); again != c {
				t.Errorf("%s: issued anew without need", name)
			}
			seen[name+c.Leaf.SerialNumber.String()] = true
		}
		now = now.Add(7 * 24 * time.Hour)
	}
	if n := len(seen); n < 20 || n > 32 { // 546 days: 19 to 27 of a month, 2 or 3 of a year
		t.Errorf("%d certificates", n)
	}
}

// TestRotatingWithoutIssuer keeps a certificate while it is good when no other can be had.
func TestRotatingWithoutIssuer(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p, err := Open(Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	broken := false
	r := &Rotating{now: func() time.Time { return now }, issue: func(at time.Time) (*tls.Certificate, error) {
		if broken {
			return nil, errors.New("no")
		}
		return p.CA.now.Load().pair(Leaf{User: "u", Life: 3 * time.Hour}, at)
	}}
	first, err := r.Get()
	if err != nil {
		t.Fatal(err)
	}
	broken, now = true, now.Add(150*time.Minute)
	if c, err := r.Get(); err != nil || c != first {
		t.Errorf("given up early: %v", err)
	}
	now = now.Add(time.Hour)
	if _, err := r.Get(); err == nil {
		t.Error("shown after its end")
	}
	broken = false
	if c, err := r.Get(); err != nil || c == first {
		t.Errorf("not renewed: %v", err)
	}
}

// TestClockJumps sets the clock by hours and years, forwards and backwards: what is shown is good at every time. The times have a running
// clock in them that does not jump, as those of time.Now have.
func TestClockJumps(t *testing.T) {
	start := time.Now()
	year := 365 * 24 * time.Hour
	made := start.Add(-2 * year)
	p := open(t, Config{Now: func() time.Time { return made }})
	wall := start
	r, err := p.CA.Rotating(Leaf{User: "agent", Hosts: []string{"kubernetes"}, Server: true}, func() time.Time { return wall })
	if err != nil {
		t.Fatal(err)
	}
	month := year / 12
	for _, jump := range []time.Duration{time.Hour, -time.Hour, month, -month, 2 * year, -2 * year, -year, 3 * year} {
		wall = wall.Add(jump)
		c, err := r.Get()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "kubernetes", Roots: p.CA.Pool(), CurrentTime: wall}); err != nil {
			t.Errorf("the clock jumps by %v: %v", jump, err)
		}
	}
}

// An authority of two files signs; files that don't belong together, or of which one is missing or empty, are refused and not made anew.
func TestReadAuthority(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{own, other} {
		if _, err := Open(Config{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := filepath.Join(own, "ca.crt"), filepath.Join(own, "ca.key")
	a, err := ReadAuthority(cert, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, _, err := a.Issue(Leaf{User: "u", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCerts(leaf)
	if err != nil || certs[0].Issuer.CommonName != a.Cert().Subject.CommonName {
		t.Errorf("signed by %v, %v", certs[0].Issuer, err)
	}
	empty := filepath.Join(own, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{cert, filepath.Join(other, "ca.key")}, {cert, filepath.Join(own, "none")}, {empty, key}, {cert, empty}} {
		if _, err := ReadAuthority(pair[0], pair[1], time.Now()); err == nil {
			t.Errorf("%v are an authority", pair)
		}
	}
}
