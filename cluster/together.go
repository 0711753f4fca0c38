package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/store/member"
)

// Together says how several servers make one cluster, each with a member of the store in its process. The zero
// value is a server that stays alone.
type Together struct {
	PeerListen string // host:port where this server's member of the store answers the others; "": no others
	PeerURL    string // by which they reach it; "": the machine's address and the port of PeerListen
	Name       string // of the member, unlike any other's; "": the host's name
	Join       string // a running server, https://host:port; looked at only while the data directory holds no data
	Token      string // that the running server takes; see JoinToken
}

// defaultPeers is the address at which servers that join listen for others, unless they are given another.
const defaultPeers = ":2380"

// fill sets what follows from the rest, and checks.
func (t *Together) fill(c Config) error {
	if t.Join != "" && t.PeerListen == "" {
		t.PeerListen = defaultPeers
	}
	switch {
	case t.PeerListen == "" && (t.PeerURL != "" || t.Name != "" || t.Token != ""):
		return errors.New(
			"an address, name or token of a member of the store is given, but neither where it listens for others nor whom it joins")
	case t.PeerListen == "":
		return nil
	case c.Store != StoreEtcd || len(c.EtcdServers) > 0:
		return errors.New("only servers with an embedded etcd join others: servers with the same etcd servers are one cluster already")
	case t.Join != "" && !strings.HasPrefix(t.Join, "https://"):
		return fmt.Errorf("server to join: %q is not like https://host:port", t.Join)
	}
	if _, _, err := net.SplitHostPort(t.PeerListen); err != nil {
		return fmt.Errorf("where to listen for other servers: %w", err)
	}
	if t.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		t.Name = strings.ToLower(host)
	}
	return nil
}

// peerUser is the common name of the certificates of members: the cluster's authority gives it to nobody else.
const peerUser = "system:kloop:peer"

// peerLife is the time for which a member's certificate is good. It is made anew at every start, and with all others.
const peerLife = 365 * 24 * time.Hour

// peerFiles are the files of a member's certificate, where kubeadm has them.
type peerFiles struct{ ca, cert, key string }

func (s *storage) peerFiles() peerFiles {
	dir := filepath.Join(s.cfg.DataDir, "pki")
	return peerFiles{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "etcd", "peer.crt"), filepath.Join(dir, "etcd", "peer.key")}
}

// writePeerCert makes a new certificate for the member. Its readers read both files for every connection, and try
// again when they don't match.
func (s *storage) writePeerCert(url string) error {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(url, "https://"))
	if err != nil {
		return fmt.Errorf("address of this member for others: %w", err)
	}
	cert, key, err := s.keys.CA.Issue(pki.Leaf{User: peerUser, Hosts: []string{host}, Client: true, Server: true, Life: peerLife}, time.Now())
	if err != nil {
		return err
	}
	f := s.peerFiles()
	if err := writeFile(f.key, key); err != nil {
		return fmt.Errorf("keep the member's key: %w", err)
	}
	if err := writeFile(f.cert, cert); err != nil {
		return fmt.Errorf("keep the member's certificate: %w", err)
	}
	return nil
}

// peers opens the socket for other members, and says how they are to be spoken to.
func (s *storage) peers() (*member.Peers, error) {
	t := s.cfg.Together
	if t.PeerListen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", t.PeerListen)
	if err != nil {
		return nil, fmt.Errorf("listen for other members of the store: %w", err)
	}
	url, err := peerURL(t, l.Addr().(*net.TCPAddr))
	if err == nil {
		err = s.writePeerCert(url)
	}
	s.peerURL = url
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	f := s.peerFiles()
	p := &member.Peers{Name: t.Name, Listener: l, URL: url, CAFile: f.ca, CertFile: f.cert, KeyFile: f.key, User: peerUser}
	if t.Join != "" {
		p.Join = s.joinMembers(url)
	}
	return p, nil
}

// peerURL is the address for other members.
func peerURL(t Together, at *net.TCPAddr) (string, error) {
	if t.PeerURL != "" {
		return t.PeerURL, nil
	}
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		own, err := hostAddress("")
		if err != nil {
			return "", err
		}
		host = own.String()
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(cmp.Or(at.Port, 2380))), nil
}
