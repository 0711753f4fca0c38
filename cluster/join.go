package cluster

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/store/member"
)

// Paths by which servers join, and their members are seen to.
const (
	keysPath = "/kloop/keys"
	joinPath = "/kloop/join"

	MembersPath  = "/kloop/members"  // GET lists, DELETE of a name below it removes
	SnapshotPath = "/kloop/snapshot" // GET sends the whole store
)

// joinHost is the name that a newcomer asks for. The server then shows the certificate of the authority itself, and proves
// that it has the authority's key, which only servers have.
const joinHost = "join.kloop.internal"

// joinPatience bounds the wait for a cluster that can't take a member yet.
const joinPatience = 2 * time.Minute

// keyFiles lists what a newcomer gets: the files of the cluster's keys by their names.
type keyFiles map[string][]byte

// A joinRequest tells who wants to join.
type joinRequest struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// joinKeys gets the cluster's keys from the server to join, unless they are here already.
func (s *storage) joinKeys(ctx context.Context) error {
	t := s.cfg.Together
	if t.Join == "" {
		return nil
	}
	dir := filepath.Join(s.cfg.DataDir, "pki")
	if _, err := os.Stat(filepath.Join(dir, "ca.key")); err == nil {
		return sameCluster(dir, t)
	}
	var files keyFiles
	if err := s.askJoin(ctx, keysPath, nil, &files); err != nil {
		return fmt.Errorf("get the keys of the cluster: %w", err)
	}
	return writeKeys(dir, files)
}

// sameCluster refuses to join with the keys of another cluster. Without a token it can't be told: then there is
// nothing to join, the data is here.
func sameCluster(dir string, t Together) error {
	if t.Token == "" {
		return nil
	}
	want, err := tokenAuthority(t.Token)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the cluster's keys: %w", err)
	}
	certs, err := pki.ParseCerts(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(dir, "ca.crt"), err)
	}
	former, err := os.ReadFile(filepath.Join(dir, pki.FormerFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the cluster's keys: %w", err)
	}
	known := slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return bytes.Equal(pki.KeyHash(c), want) })
	if !known && !slices.Contains(strings.Fields(string(former)), hex.EncodeToString(want)) {
		return fmt.Errorf("%s holds the keys of another cluster than the token is for: move the data directory away, or choose another one", dir)
	}
	return nil
}

// writeKeys puts the files there all at once, durably: a part of them would be completed with keys of nobody.
func writeKeys(dir string, files keyFiles) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), "pki.new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	for name, data := range files {
		if name != filepath.Base(name) || name == "." {
			return fmt.Errorf("the server sent a file named %q", name)
		}
		if err := atomicfile.Write(filepath.Join(aside, name), data, 0o600); err != nil {
			return err
		}
	}
	err = atomicfile.SyncDir(aside)
	if err == nil {
		err = os.Rename(aside, dir)
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("keep the cluster's keys: %w", err)
	}
	return nil
}

// readKeys reads what writeKeys wrote.
func readKeys(dir string) (keyFiles, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := keyFiles{}
	for _, e := range list {
		if !e.Type().IsRegular() {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// joinMembers returns what makes this server's member known to the cluster.
func (s *storage) joinMembers(url string) func(context.Context) ([]member.Peer, error) {
	return func(ctx context.Context) ([]member.Peer, error) {
		var list []member.Peer
		err := s.askJoin(ctx, joinPath, joinRequest{Name: s.cfg.Together.Name, URL: url}, &list)
		return list, err
	}
}

// askJoin asks the server to join, again while it can't take anybody.
func (s *storage) askJoin(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	t := s.cfg.Together
	pin, err := tokenAuthority(t.Token)
	if err != nil {
		return err
	}
	door := &http.Client{Transport: &http.Transport{TLSClientConfig: pinned(pin)}, Timeout: 30 * time.Second}
	defer door.CloseIdleConnections()
	for told := false; ; told = true {
		err := askOnce(ctx, door, t.Join+path, t.Token, in, out)
		var st *refusal
		if err == nil || errors.As(err, &st) && !st.later || ctx.Err() != nil {
			return err
		}
		if !told {
			s.cfg.Log.Info("the server to join can't take this one yet", "server", t.Join, "err", err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// A refusal is an answer of the server to join.
type refusal struct {
	why   string
	later bool // worth another try
}

func (r *refusal) Error() string { return r.why }

func askOnce(ctx context.Context, door *http.Client, url, token string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := door.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return err
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return &refusal{why: "the server does not take the token: it may have expired; kloop token prints a new one"}
	case res.StatusCode != http.StatusOK:
		st := &metav1.Status{}
		_ = json.Unmarshal(data, st) // what is no Status has no message
		return &refusal{why: fmt.Sprintf("%s: %s", res.Status, st.Message), later: res.StatusCode >= http.StatusInternalServerError}
	}
	return json.Unmarshal(data, out)
}

// pinned trusts a server that holds the key of the authority with this hash. A certificate that the authority signed is
// not enough: nodes have such, too, and a newcomer is about to take all keys of the cluster from this server, and tells it
// the token.
func pinned(hash []byte) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: joinHost, InsecureSkipVerify: true, // VerifyConnection does
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 || subtle.ConstantTimeCompare(pki.KeyHash(cs.PeerCertificates[0]), hash) != 1 {
				return &refusal{why: "the server is not of the cluster that the token is for"}
			}
			return nil // the handshake is signed with the authority's key: TLS 1.3 has checked that
		}}
}

// joinCertificate makes what pinned looks for: the authority's own certificate, with its key.
func (s *storage) joinCertificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{s.keys.CA.Cert().Raw}, PrivateKey: s.keys.CA.Key(), Leaf: s.keys.CA.Cert()}
}
