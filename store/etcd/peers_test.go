package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/storetest"
	"github.com/kloop-dev/kloop/test/port"
)

const peerUser = "peer"

// patience is the time that a member may take for anything on a machine with much else to do.
const patience = 10 * time.Minute

// A seat is a place for a member: it keeps its address and directory over restarts.
type seat struct {
	name, dir, at string
	peers         etcd.Peers
}

// seats makes places for members that trust each other.
func seats(t *testing.T, n int) (list []*seat) {
	t.Helper()
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		cert, key, err := keys.CA.Issue(pki.Leaf{User: peerUser, Hosts: []string{"127.0.0.1"}, Client: true, Server: true}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s := &seat{name: fmt.Sprintf("m%d", i), dir: t.TempDir(), at: port.Held(t)}
		files := t.TempDir()
		s.peers = etcd.Peers{Name: s.name, User: peerUser, CAFile: filepath.Join(files, "ca"), CertFile: filepath.Join(files, "cert"),
			KeyFile: filepath.Join(files, "key")}
		for path, data := range map[string][]byte{s.peers.CAFile: keys.CA.PEM(), s.peers.CertFile: cert, s.peers.KeyFile: key} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, s)
	}
	return list
}

func (s *seat) url() string { return "https://" + s.at }

// sit starts the member; host is one that it joins when it has no data.
func (s *seat) sit(t *testing.T, host *etcd.Store) *etcd.Store {
	t.Helper()
	l, err := net.Listen("tcp", s.at)
	if err != nil {
		t.Fatal(err)
	}
	p := s.peers
	p.URL, p.Listener = s.url(), l
	if host != nil {
		p.Join = func(ctx context.Context) (list []etcd.Peer, err error) {
			for ctx.Err() == nil { // etcd wants members to be connected for five seconds before it takes more
				if list, err = host.Admit(ctx, p.Name, p.URL); err == nil {
					return list, nil
				}
				time.Sleep(50 * time.Millisecond) // the cluster tells nobody when it is ready
			}
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := etcd.Open(ctx, etcd.Config{Dir: s.dir, Peers: &p, Log: quiet(t), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// The contract holds for a member that others may join.
func TestMemberForPeers(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return seats(t, 1)[0].sit(t, nil) })
}

// put makes a key. Members that get no time to run lose sight of each other for a while: then nobody says whether the
// key was made.
func put(t *testing.T, s *etcd.Store, key, value string) (rev int64) {
	t.Helper()
	unsure := false
	answered(t, func() (err error) {
		rev, err = s.Write(t.Context(), store.Write{Key: key, Value: []byte(value)})
		var there *store.ConflictError
		if unsure && errors.As(err, &there) {
			rev, err = there.Current.ModRev, nil
		}
		unsure = true
		return err
	})
	return rev
}

// answered repeats a call until members that lost sight of each other have found together again.
func answered(t *testing.T, call func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := call()
	for errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		if ctx.Err() != nil {
			break
		}
		err = call()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func revision(t *testing.T, s *etcd.Store) (rev int64) {
	t.Helper()
	answered(t, func() (err error) {
		rev, err = s.Revision(t.Context())
		return err
	})
	return rev
}

// seen waits until a watch from the start of one member has told of the revision, and counts what it told.
func seen(t *testing.T, s *etcd.Store, rev int64) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	errEnough := errors.New("enough")
	err := s.Watch(ctx, "/registry/", 0, func(b store.Batch) error {
		n += len(b.Events)
		if b.Rev >= rev {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("watch up to %d: %v", rev, err)
	}
	return n
}

// remove takes a member out, when etcd thinks the cluster well enough.
func remove(t *testing.T, s *etcd.Store, who string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tried := false
	eventually.Sees(t, patience, "the cluster takes the member out", func() (bool, error) { // nobody tells when it is well enough
		_, err := s.Remove(ctx, who)
		gone := err == nil || tried && errors.Is(err, etcd.ErrNoMember) // removed by an attempt that was not answered
		tried = true
		return gone, err
	})
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	places := seats(t, 3)
	a := places[0].sit(t, nil)
	put(t, a, "/registry/a", "1")
	b := places[1].sit(t, a)
	rev := put(t, b, "/registry/b", "1")
	if n := seen(t, a, rev); n != 2 {
		t.Errorf("the first saw %d writes", n)
	}
	// A read on one sees what another acknowledged.
	for i := range 50 {
		rev = put(t, a, fmt.Sprintf("/registry/n%d", i), "1")
		if got := revision(t, b); got < rev {
			t.Fatalf("the second reads revision %d; %d was acknowledged", got, rev)
		}
	}
	// It comes back with what was written while it was away: two of two are needed, so nothing was.
	b.Close()
	b = places[1].sit(t, nil)
	if n := seen(t, b, rev); n != 52 {
		t.Errorf("the second saw %d writes after its return", n)
	}
	c := places[2].sit(t, b)
	c.Close()
	for i := range 10 {
		rev = put(t, a, fmt.Sprintf("/registry/away%d", i), "1")
	}
	c = places[2].sit(t, nil)
	if n := seen(t, c, rev); n != 62 {
		t.Errorf("the third saw %d writes after its return", n)
	}
	// One that lost its data joins anew at its old place.
	c.Close()
	if err := os.RemoveAll(places[2].dir); err != nil {
		t.Fatal(err)
	}
	c = places[2].sit(t, a)
	if n := seen(t, c, rev); n != 62 {
		t.Errorf("the third saw %d writes after it lost its data", n)
	}
	answered(t, func() error {
		_, err := a.Admit(t.Context(), "other", places[2].url())
		if errors.Is(err, etcd.ErrTaken) && strings.Contains(err.Error(), "answers at") {
			return nil
		}
		return fmt.Errorf("admitted in the place of a member that lives: %w", err)
	})
	remove(t, a, "m2")
	select {
	case <-c.Gone():
	case <-time.After(patience):
		t.Error("the removed member does not stop")
	}
	answered(t, func() error {
		list, err := a.Members(t.Context())
		if err == nil && len(list) != 2 {
			t.Errorf("members %v", list)
		}
		return err
	})
}

// Who removes a member right after others joined waits the seconds that etcd watches those, and hears in words why a member can't be
// spared.
func TestRemoveSoonAfterJoin(t *testing.T) {
	t.Parallel()
	places := seats(t, 3)
	a := places[0].sit(t, nil)
	places[1].sit(t, a)
	c := places[2].sit(t, a)
	votes := func() (n int) {
		answered(t, func() error {
			list, err := a.Members(t.Context())
			n = 0
			for _, m := range list {
				if !m.Learner {
					n++
				}
			}
			return err
		})
		return n
	}
	eventually.Sees(t, patience, "all three vote", func() (bool, error) { return votes() == 3, nil })
	c.Close()
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := a.Remove(short, "m1"); err == nil || !strings.Contains(err.Error(), "kloop member list") {
		t.Errorf("one of two that live, of three: %v", err)
	}
	places[2].sit(t, nil)
	if _, err := a.Remove(t.Context(), "m2"); err != nil {
		t.Errorf("one that has just come: %v", err)
	}
}

// Without the other half nothing is read or written, and the caller is told in time.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	places := seats(t, 2)
	a := places[0].sit(t, nil)
	b := places[1].sit(t, a)
	put(t, a, "/registry/a", "1")
	b.Close()
	var calls sync.WaitGroup
	for what, call := range map[string]func() error{
		"read": func() error { _, err := a.Revision(t.Context()); return err },
		"get":  func() error { _, _, err := a.Get(t.Context(), "/registry/a"); return err },
		"write": func() error {
			_, err := a.Write(t.Context(), store.Write{Key: "/registry/b", Value: []byte("x")})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			calls.Go(func() {
				if err := call(); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
			})
		})
	}
	calls.Wait()
	b = places[1].sit(t, nil)
	revision(t, b) // answers after the return of the other
}

// A stranger with a certificate of the same authority is no member.
func TestStrangerIsNoPeer(t *testing.T) {
	t.Parallel()
	places := seats(t, 1)
	a := places[0].sit(t, nil)
	defer a.Close()
	p := places[0].peers
	p.User = "another"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.URL, p.Listener, p.Name = "https://"+l.Addr().String(), l, "x"
	p.Join = func(context.Context) ([]etcd.Peer, error) {
		return []etcd.Peer{{ID: 1, Name: "m0", URL: places[0].url()}, {ID: 2, URL: p.URL}}, nil
	}
	if s, err := etcd.Open(t.Context(), etcd.Config{Dir: t.TempDir(), Peers: &p, Log: quiet(t)}); err == nil {
		s.Close()
		t.Error("joined a cluster whose members have other names in their certificates")
	}
}

// A lone member's data becomes that of a member with peers, and the other way round.
func TestFromAloneToPeers(t *testing.T) {
	t.Parallel()
	places := seats(t, 2)
	alone := open(t, places[0].dir)
	put(t, alone, "/registry/a", "1")
	alone.Close()
	a := places[0].sit(t, nil)
	b := places[1].sit(t, a)
	answered(t, func() error {
		kv, _, err := b.Get(t.Context(), "/registry/a")
		if err == nil && kv == nil {
			t.Error("the key is not there")
		}
		return err
	})
	b.Close()
	places[1].sit(t, nil)
	remove(t, a, "m1")
	a.Close()
	alone = open(t, places[0].dir)
	if !alone.Sole() {
		t.Error("it is not alone")
	}
}

// Etcd's own clients are served where they are wanted.
func TestClients(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := etcd.Open(t.Context(), etcd.Config{Dir: t.TempDir(), Clients: l, Log: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + l.Addr().String()}, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := c.Put(t.Context(), "/registry/theirs", "1")
	if err != nil {
		t.Fatal(err)
	}
	if n := seen(t, s, resp.Header.Revision); n != 1 {
		t.Errorf("saw %d writes of others", n)
	}
	remote, err := etcd.Dial(t.Context(), etcd.Remote{Endpoints: []string{"http://" + l.Addr().String()}, Log: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	put(t, remote, "/registry/remote", "1")
}
