package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// verify checks a chain as who trusts the authorities of roots does.
func verify(chain [][]byte, roots *x509.CertPool, usage x509.ExtKeyUsage) error {
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	var leaf *x509.Certificate
	for i, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		if i == 0 {
			leaf = c
		} else {
			o.Intermediates.AddCert(c)
		}
	}
	_, err := leaf.Verify(o)
	return err
}

func client(t *testing.T, a *Authority) [][]byte {
	t.Helper()
	cert, key, err := a.Issue(Leaf{User: "u", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Certificate
}

// TestExchange: while both authorities are believed, who trusts one of them, or both, gets along with who has a certificate of either;
// afterwards certificates of the old one are refused, and who still trusts it alone knows the server all the same.
func TestExchange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	p := open(t, Config{Dir: dir})
	oldRoots, oldCA := p.CA.Pool(), p.CA.Cert()
	old := client(t, p.CA)
	serving, _ := p.GetCertificate(nil)
	front, _, err := p.FrontProxyClient()
	if err != nil {
		t.Fatal(err)
	}
	saBefore, _ := p.ServiceAccount()
	changed := p.Changed()

	if err := p.Rotate(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told")
	}
	if p.CA.Cert().Equal(oldCA) || !p.Exchanging() || p.Rotate() == nil {
		t.Error("the old authority signs, or a second exchange begins within the first")
	}
	next, _ := p.GetCertificate(nil)
	if next == serving {
		t.Error("the server shows its old certificate")
	}
	for _, roots := range []*x509.CertPool{oldRoots, p.CA.Pool(), Pool(p.CA.Cert())} {
		if err := verify(next.Certificate, roots, x509.ExtKeyUsageServerAuth); err != nil {
			t.Error(err)
		}
		if err := verify(client(t, p.CA), roots, x509.ExtKeyUsageClientAuth); err != nil {
			t.Error(err)
		}
	}
	if err := verify(old, p.CA.Pool(), x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	certs, _ := ParseCerts(front)
	if err := verify([][]byte{certs[0].Raw}, p.FrontProxy.Pool(), x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	key, also := p.ServiceAccount()
	if key == saBefore || len(also) == 0 {
		t.Error("tokens are signed as before, or old ones are not believed")
	}

	again := open(t, Config{Dir: dir}) // a restart between the two steps
	if !again.CA.Cert().Equal(p.CA.Cert()) || !again.Exchanging() || !bytes.Equal(again.CA.PEM(), p.CA.PEM()) {
		t.Error("after a restart another authority signs, or one is believed no more")
	}
	if err := again.Finish(false); err != nil {
		t.Fatal(err)
	}
	if err := verify(old, again.CA.Pool(), x509.ExtKeyUsageClientAuth); err == nil || again.Exchanging() {
		t.Error("a certificate of the old authority is believed in the end")
	}
	last, _ := again.GetCertificate(nil)
	if err := verify(last.Certificate, oldRoots, x509.ExtKeyUsageServerAuth); err != nil {
		t.Errorf("who trusts the old authority alone: %v", err)
	}
	if _, also := again.ServiceAccount(); len(also) != 1 {
		t.Errorf("%d old keys of tokens are believed, not 1", len(also))
	}
	if err := again.Finish(true); err != nil {
		t.Fatal(err)
	}
	if _, also := again.ServiceAccount(); len(also) != 0 {
		t.Error("tokens of the old key are believed in the end")
	}
}

// TestAdopt: servers that share keys get along in whatever order they hear of an exchange, and keys of another cluster are refused.
func TestAdopt(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	a := open(t, Config{Dir: dirs[0]})
	if err := os.CopyFS(dirs[1], os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	b := open(t, Config{Dir: dirs[1]})
	former := ""
	for range 3 { // one exchange after the other
		former += fmt.Sprintf("%x\n", KeyHash(a.CA.Cert()))
		if err := a.Rotate(); err != nil {
			t.Fatal(err)
		}
		if err := verify(client(t, a.CA), b.CA.Pool(), x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("who has not heard refuses who has: %v", err)
		}
		if err := a.Finish(false); err != nil {
			t.Fatal(err)
		}
		files, err := a.Files()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Adopt(files); err != nil { // it missed the first step
			t.Fatal(err)
		}
		kept := open(t, Config{Dir: dirs[1]})
		if !b.CA.Cert().Equal(a.CA.Cert()) || !kept.CA.Cert().Equal(a.CA.Cert()) || !kept.FrontProxy.Cert().Equal(a.FrontProxy.Cert()) {
			t.Fatal("the other server has other keys")
		}
	}
	for _, dir := range dirs { // what names one of them is of this cluster
		if text, err := os.ReadFile(filepath.Join(dir, FormerFile)); string(text) != former {
			t.Errorf("authorities of before are %q, %v, want %q", text, err, former)
		}
	}
	files, err := open(t, Config{}).Files()
	if err != nil {
		t.Fatal(err)
	}
	if b.Adopt(files) == nil {
		t.Error("the keys of another cluster were taken")
	}
	files, _ = a.Files()
	short := maps.Clone(files)
	delete(short, "ca.key")
	if b.Adopt(short) == nil || b.Adopt(nil) == nil {
		t.Error("keys without the authority's were taken")
	}
}

// TestCrashInExchange leaves the files as a crash between two renames does: certificates of both, the key of before.
func TestCrashInExchange(t *testing.T) {
	t.Attr("retry", "never")
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	key, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	old := p.CA.Cert()
	if err := p.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, Config{Dir: dir})
	if !again.CA.Cert().Equal(old) {
		t.Error("another authority signs than the one whose key is there")
	}
	if err := verify(client(t, p.CA), again.CA.Pool(), x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
}

func TestRenew(t *testing.T) {
	p := open(t, Config{})
	first, _ := p.GetCertificate(nil)
	p.Renew()
	if next, err := p.GetCertificate(nil); err != nil || next == first {
		t.Errorf("the certificate of before is shown, %v", err)
	}
}

// TestAge: for how long who is believed has been is counted from the last exchange, and not by the wall's clock.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Now: func() time.Time { return time.Unix(1_900_000_000, 0) }})
		time.Sleep(time.Hour)
		p.Renew()
		if age := p.CA.Age(); age != time.Hour {
			t.Errorf("%s before the exchange", age)
		}
		if err := p.Rotate(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if age := p.CA.Age(); age != time.Minute {
			t.Errorf("%s after it", age)
		}
	})
}
